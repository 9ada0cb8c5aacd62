"""The data report: one self-contained page about a manifest, whether it was let through or not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Source, Workspace
from enginehouse.ingest.record import Manifest
from enginehouse.labels import Finding
from enginehouse.report.page import DOCS, copy_docs, render_page
from enginehouse.report.quarantine import make_quarantine, show_file
from enginehouse.validate.record import Validated

if TYPE_CHECKING:
    import pandas as pd

NAME = "data.html"
TEMPLATE = "data.html.j2"
MAX_CLASSES = 24  # with sample pictures; the histogram shows all up to MAX_BARS
MAX_BARS = 100
NUM_SAMPLES = 5
MAX_FINDINGS = 12  # of one reason
MAX_REMEDIES = 3
MAX_PAIRS = 12
SAMPLE_SIDE = 176
PAIR_SIDE = 128


@dataclass(frozen=True)
class DataPage:
    """One judged data version, as its report needs it.

    Attributes:
        title: the recipe, or the folder that was checked.
        noticed: what was found before ingest: links, locks, changes that are no version yet.
        facts: label to value: data version, format ...
    """

    title: str
    manifest: Manifest
    validated: Validated
    workspace: Workspace
    source: Source
    noticed: Sequence[Finding]
    facts: Mapping[str, str]


def write_data_report(folder: Path, page: DataPage) -> Path:
    """Write `data.html`, which loads nothing, and the `data_docs` that it links to.

    Args:
        folder: made if missing; files of the same names are replaced.

    Returns:
        The path of `data.html`.

    Raises:
        StoreError: bytes of the records are gone from the store.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copy_docs(page.workspace, page.validated, folder)
    return render_page(TEMPLATE, folder / NAME, _collect(page))


def _collect(page: DataPage) -> dict[str, Any]:
    """Every name that the template speaks of."""
    import pandas as pd

    tables = {
        name: pd.read_parquet(page.workspace.path(page.manifest, f"{name}.parquet"))
        for name in ("manifest", "boxes", "findings")
    }
    found = pd.read_parquet(page.workspace.path(page.validated, "findings.parquet"))
    noticed = pd.DataFrame([asdict(each) for each in page.noticed], columns=found.columns)
    findings = pd.concat([noticed, tables["findings"], found], ignore_index=True).fillna("")
    docs = f"{DOCS}/index.html"
    accepted = not page.validated.failures
    return {
        "page": page,
        "verdict": "accepted" if accepted else "rejected",
        "headline": f"{page.title}: " + ("let through" if accepted else "not let through"),
        "figures": _list_figures(page),
        "errors": _group(findings, "error"),
        "warnings": _group(findings, "warning"),
        "infos": _group(findings, "info"),
        "classes": _count_classes(page.manifest, tables["manifest"], tables["boxes"]),
        "splits": _count_splits(tables["manifest"]),
        "kinds": _count_kinds(tables["manifest"]),
        "samples": _pick_samples(page, tables["manifest"], tables["boxes"]),
        "quarantine": make_quarantine(page.workspace, page.manifest, page.source),
        "pairs": _show_pairs(page),
        "docs": docs if docs in page.validated.reports else "",
    }


def _list_figures(page: DataPage) -> list[dict[str, str]]:
    manifest, validated = page.manifest, page.validated
    share = manifest.num_rows + manifest.num_quarantined
    return [
        {"label": "Pictures", "value": f"{manifest.num_rows}", "detail": "usable"},
        {"label": "Boxes", "value": f"{manifest.num_boxes}", "detail": "labelled regions"},
        {"label": "Classes", "value": f"{len(manifest.classes)}", "detail": "of pictures"},
        {
            "label": "Left out",
            "value": f"{manifest.num_quarantined}",
            "detail": f"of {share} files and rows",
        },
        {"label": "Errors", "value": f"{len(validated.failures)}", "detail": "stop a run"},
        {"label": "Warnings", "value": f"{len(validated.warnings)}", "detail": "let it go on"},
    ]


def _group(findings: pd.DataFrame, severity: str) -> list[dict[str, Any]]:
    """Findings of one severity by reason, in the order in which the reasons first occur."""
    rows = findings[findings["severity"] == severity]
    return [
        {
            "reason": str(reason),
            "num": len(group),
            "more": max(0, len(group) - MAX_FINDINGS),
            "rows": [_say(row) for row in group.head(MAX_FINDINGS).to_dict("records")],
            "remedies": [text for text in dict.fromkeys(group["remedy"]) if text][:MAX_REMEDIES],
        }
        for reason, group in rows.groupby("reason", sort=False)
    ]


def _say(row: Mapping[Hashable, Any]) -> dict[str, str]:
    """Where and what; a file that the sentence begins with is not named twice."""
    named = str(row["detail"]).startswith(str(row["file"]))
    return {"file": "" if named else row["file"], "place": row["place"], "detail": row["detail"]}


def _count_classes(
    manifest: Manifest, pictures: pd.DataFrame, boxes: pd.DataFrame
) -> dict[str, Any]:
    """Pictures per class, and boxes per label where there are boxes: the histogram's bars."""

    def bars(counts: dict[str, int]) -> list[dict[str, Any]]:
        most = max([*counts.values(), 1])
        shown = list(counts.items())[:MAX_BARS]
        return [
            {"name": name or "(no label)", "num": num, "width": round(100 * num / most, 1)}
            for name, num in shown
        ]

    of_pictures = {str(name): num for name, num in pictures["label"].value_counts().items()}
    of_boxes = {str(name): num for name, num in boxes["label"].value_counts().items()}
    names = dict.fromkeys([*manifest.classes, *of_pictures])
    return {
        "pictures": bars({name: of_pictures.get(name, 0) for name in names}),
        "boxes": bars(dict(sorted(of_boxes.items()))),
        "num": len(names),
    }


def _count_splits(pictures: pd.DataFrame) -> list[tuple[str, int]]:
    counts = pictures["split"].value_counts()
    names = [name for name in ("train", "val", "test") if name in counts.index]
    return [(name, int(counts[name])) for name in names]


def _count_kinds(pictures: pd.DataFrame) -> list[dict[str, Any]]:
    """Size, file format and pixel mode, the commonest first: where a set is not of one piece."""
    size = pictures["width"].astype(str) + " × " + pictures["height"].astype(str)
    columns = {"Size": size, "Format": pictures["format"], "Mode": pictures["mode"]}
    return [
        {
            "name": name,
            "rows": [
                (str(value), int(num)) for value, num in column.value_counts().head(5).items()
            ],
            "num": int(column.nunique()),
        }
        for name, column in columns.items()
    ]


def _pick_samples(
    page: DataPage, pictures: pd.DataFrame, boxes: pd.DataFrame
) -> list[dict[str, Any]]:
    """A few pictures of each class, the same for the same data: those first by content."""
    regions = dict(iter(boxes.groupby("path"))) if len(boxes) else {}
    chosen = (
        pictures.sort_values("pixels").drop_duplicates("pixels").groupby("label").head(NUM_SAMPLES)
    )
    samples: list[dict[str, Any]] = []
    for name in dict.fromkeys([*page.manifest.classes, *sorted(chosen["label"].unique())]):
        rows = chosen[chosen["label"] == name]
        if len(samples) == MAX_CLASSES or rows.empty:
            continue
        cards = []
        for path in rows["path"]:
            found = regions.get(path)
            own = [] if found is None else found[["x", "y", "width", "height"]].to_numpy().tolist()
            cards.append({"path": path} | show_file(page.source, path, SAMPLE_SIDE, own))
        samples.append({"name": name or "(no label)", "cards": cards})
    return samples


def _show_pairs(page: DataPage) -> dict[str, Any]:
    """Near-duplicates side by side: those across splits first, then across labels."""
    import pandas as pd

    table = pd.read_parquet(page.workspace.path(page.validated, "near_duplicates.parquet"))
    if table.empty:
        return {"num": 0, "rows": []}
    across = (table["split_a"] != table["split_b"]).astype(int) * 2
    across += (table["label_a"] != table["label_b"]).astype(int)
    table = table.assign(across=across).sort_values(
        ["across", "distance", "a", "b"], ascending=[False, True, True, True], kind="stable"
    )
    words = {3: "across splits and labels", 2: "across splits", 1: "across labels"}

    def show(row: Any) -> dict[str, Any]:
        sides = ((row.a, row.label_a, row.split_a), (row.b, row.label_b, row.split_b))
        return {
            "distance": row.distance,
            "why": words.get(row.across, ""),
            "sides": [
                {"path": path, "label": label, "split": split}
                | show_file(page.source, path, PAIR_SIDE)
                for path, label, split in sides
            ],
        }

    rows = table.head(MAX_PAIRS).itertuples(index=False)
    return {"num": len(table), "rows": [show(row) for row in rows]}
