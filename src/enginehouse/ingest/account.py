"""The account that ingest keeps: what is not used, and what a person should know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from enginehouse.ingest.tables import FINDINGS, QUARANTINE, write_table
from enginehouse.labels import Finding, LeftOut, Severity

NAMED = 20  # findings of one kind that are named; the table of pictures has all of them
RANKS = ("error", "warning", "info")


@dataclass
class Account:
    """What is not used, and what a person should know; both grow while ingest works."""

    left_out: list[LeftOut] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _counts: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def add_of_many(self, finding: Finding) -> None:
        """Add one of what may be the same for thousands of pictures: the first are named."""
        kind = finding.severity, finding.reason
        self._counts[kind] += 1
        if self._counts[kind] <= NAMED:
            self.findings.append(finding)

    @property
    def num_errors(self) -> int:
        """Findings of severity error."""
        return sum(finding.severity == "error" for finding in self.findings)

    def write(self, folder: Path) -> None:
        """Write `quarantine.parquet`, by path, and `findings.parquet`, the worst first."""
        for (severity, reason), count in self._counts.items():
            if count > NAMED:
                detail = f"{count} pictures in all; the column `handling` names them."
                self.findings.append(Finding(severity, f"{reason}: total", "", detail))
        left_out = sorted(self.left_out, key=lambda item: item.file)
        rows = ((item.file, item.place, item.reason, item.detail) for item in left_out)
        write_table(folder / "quarantine.parquet", QUARANTINE, rows)
        findings = sorted(self.findings, key=lambda item: RANKS.index(item.severity))
        write_table(
            folder / "findings.parquet",
            FINDINGS,
            ((f.severity, f.reason, f.file, f.place, f.detail, f.remedy) for f in findings),
        )
