"""One place where an expectation does not hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Instance:
    """One place where an expectation does not hold.

    Attributes:
        file: relative path, or "" for the whole set.
        detail: one clause that names what was found.
        place: within the file.
        remedy: what to do, where it is not what the expectation says.
    """

    file: str
    detail: str
    place: str = ""
    remedy: str = ""
