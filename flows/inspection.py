"""How a run judges its data: what it is compared with, and what is left of the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enginehouse.artifact import Source, Workspace, fingerprint
from enginehouse.errors import ValidationFailed
from enginehouse.ingest.record import Manifest
from enginehouse.project import Project
from enginehouse.store import Store
from enginehouse.validate.record import Validated
from flows.accepted import Accepted
from tasks.data import ResolvedData


def tell_nobody(page: Path, validated: Validated) -> None:
    """The announcement that nobody reads."""


@dataclass(frozen=True)
class Inspection:
    """The judging of one data version for one recipe.

    Attributes:
        announce: told of the data report's page and the verdict, whichever it is.
    """

    project: Project
    recipe: str
    resolved: ResolvedData
    store: Store
    announce: Callable[[Path, Validated], None] = tell_nobody

    def find_previous(self, manifest: Manifest) -> Manifest | None:
        """The manifest that was let through before this one, if there is one."""
        return Accepted(self.store, self.recipe).find_previous(manifest)

    def conclude(self, manifest: Manifest, validated: Validated) -> None:
        """Leave the data report, and remember what was let through.

        Raises:
            ValidationFailed: the data was not let through; says where the report is.
        """
        page = write_verdict(
            *(self.project, self.recipe, self.resolved, self.store, manifest, validated)
        )
        self.announce(page, validated)
        if validated.failures:
            raise ValidationFailed(
                "The data was not let through:\n  - " + "\n  - ".join(validated.failures),
                "Mend what is named above, or change `validation` in the recipe. "
                f"Data report: {page.as_uri()}",
                validated,
            )
        Accepted(self.store, self.recipe).add(manifest)


def write_verdict(
    project: Project,
    title: str,
    resolved: ResolvedData,
    store: Store,
    manifest: Manifest,
    validated: Validated,
    shelf: str = "",
) -> Path:
    """The page of the data report; written if this verdict has none yet.

    Args:
        title: the recipe, or what was checked.
        shelf: folder below the reports, if it is not called like the title.
    """
    from enginehouse.report.data_report import NAME, DataPage, write_data_report

    findings = validated.reports["findings.parquet"]
    verdict = fingerprint([manifest.identity, findings.sha256, resolved.status])
    folder = project.state / "reports" / (shelf or title) / f"data-{verdict[:12]}"
    if (folder / NAME).is_file():
        return folder / NAME
    page = DataPage(
        title=title,
        manifest=manifest,
        validated=validated,
        workspace=Workspace(store, folder),
        source=Source(resolved.folder, resolved.listing),
        noticed=resolved.findings,
        facts={
            "Folder": str(resolved.folder),
            "Data version": f"{resolved.digest} ({resolved.status})",
            "Label format": manifest.format,
            "Manifest": manifest.identity,
        },
    )
    return write_data_report(folder, page)
