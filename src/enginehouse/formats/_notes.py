"""What there is to say of one label file while it is read; what is alike is told once."""

from __future__ import annotations

from enginehouse.labels import Finding, LeftOut, Reading, Severity

LIBRARIES: tuple[str, ...] = ()

_NUM_NAMED = 5  # places that a finding names


class Notes:
    """Findings and rows left out of one label file.

    Args:
        file: the label file.
        reading: where they go; findings that are gathered go there with `close`.
    """

    def __init__(self, file: str, reading: Reading) -> None:
        self.file = file
        self._reading = reading
        self._gathered: dict[tuple[Severity, str, str], list[tuple[str, str, str]]] = {}
        self.num_errors = 0

    def find(
        self, severity: Severity, reason: str, detail: str, remedy: str = "", place: str = ""
    ) -> None:
        """Note a finding."""
        self.num_errors += severity == "error"
        finding = Finding(severity, reason, self.file, detail, remedy, place)
        self._reading.findings.append(finding)

    def gather(
        self,
        severity: Severity,
        reason: str,
        subject: str,
        detail: str,
        remedy: str = "",
        place: str = "",
    ) -> None:
        """Note one of many findings of a kind, which become one that names their places.

        Args:
            subject: what they share beyond the reason, such as the column.
        """
        self.num_errors += severity == "error"
        self._gathered.setdefault((severity, reason, subject), []).append((place, detail, remedy))

    def leave_out(self, reason: str, detail: str, place: str) -> None:
        """Note a row that is not used."""
        self._reading.left_out.append(LeftOut(self.file, reason, detail, place))

    def close(self) -> None:
        """Put what was gathered into the reading."""
        for (severity, reason, _), noted in self._gathered.items():
            place, detail, remedy = noted[0]
            others = list(dict.fromkeys(other for other, _, _ in noted[1:]))
            if others:
                named = ", ".join(others[:_NUM_NAMED])
                rest = len(others) - _NUM_NAMED
                also = f"{named} and {rest} more" if rest > 0 else named
                detail = f"{detail.removesuffix('.')}; likewise {also}."
            self._reading.findings.append(
                Finding(severity, reason, self.file, detail, remedy, place)
            )
        self._gathered.clear()
