"""Run `enginehouse check` inside a test, and look at its end in every way that a person can."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from flows.verdict import render_verdict


@dataclass(frozen=True)
class Judged:
    """How a check ended.

    Attributes:
        verdict: the JSON document.
    """

    code: int
    verdict: dict[str, Any]

    @property
    def text(self) -> str:
        """What the command prints without --json."""
        return render_verdict(self.verdict, as_json=False)

    def assert_ended(self, expect: str) -> None:
        """Hold against what was expected: accept, warn, quarantine or reject."""
        assert self.text.startswith(self.verdict["verdict"])
        if expect == "reject":
            assert self.verdict["verdict"] == "rejected", self.text
            assert self.verdict["errors"]
            assert self.code == 1
            return
        assert self.verdict["verdict"] == "accepted", self.text
        assert self.code == 0
        if expect == "quarantine":
            assert self.verdict["quarantine"], self.text
        if expect == "warn":
            assert self.verdict["warnings"], self.text

    def assert_mentions(self, *patterns: str) -> None:
        """Every regular expression is found, in any letter case, in the text and in the JSON."""
        document = json.dumps(self.verdict, ensure_ascii=False)
        for pattern in patterns:
            assert re.search(pattern, self.text, re.IGNORECASE), f"{pattern!r} in\n{self.text}"
            assert re.search(pattern, document, re.IGNORECASE), f"{pattern!r} in\n{document}"

    def assert_is_silent_about(self, *patterns: str) -> None:
        """None of the regular expressions is found."""
        for pattern in patterns:
            assert not re.search(pattern, self.text, re.IGNORECASE), f"{pattern!r} in\n{self.text}"

    @property
    def labels(self) -> list[str]:
        """The labels in index order."""
        return [entry["name"] for entry in self.verdict["classes"]]
