"""Part and time of a picture, read from its path."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from enginehouse.labels import Finding

EXAMPLES = 3


@dataclass
class PathPattern:
    """A regular expression on the relative path; it keeps account of paths that do not match.

    Attributes:
        name: of the config's field, for messages.
        text: the expression; "" reads nothing.
        otherwise: what a picture gets that does not match, in words.
    """

    name: str
    text: str
    otherwise: str
    num_missed: int = 0
    missed: list[str] = field(default_factory=list)

    def read(self, path: str) -> str:
        """All groups joined with `_`, or "" if the path does not match."""
        if not self.text:
            return ""
        found = re.search(self.text, path)
        value = "_".join(group for group in found.groups() if group) if found else ""
        if not value:
            self.num_missed += 1
            self.missed += [path] if len(self.missed) < EXAMPLES else []
        return value

    def say_missed(self) -> list[Finding]:
        """A warning if there were paths that do not match."""
        if not self.num_missed:
            return []
        detail = f"{self.name} {self.text!r} does not match {self.num_missed} paths, among them "
        detail += f"{', '.join(self.missed)}; {self.otherwise}."
        remedy = f"Mend {self.name}; it is searched for in the path from the data folder."
        return [Finding("warning", "pattern does not match", self.missed[0], detail, remedy)]


def check_pattern(name: str, text: str) -> str:
    """The text, if it is a regular expression with a group.

    Raises:
        ValueError: it is not.
    """
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"{name} {text!r} is no regular expression: {error}") from error
    if text and groups < 1:
        raise ValueError(f"{name} {text!r} has no group; put what to read in (...)")
    return text
