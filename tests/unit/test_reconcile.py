"""A wish for a version that older code registered: it serves as it is, and is never made anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from enginehouse.artifact import Workspace
from flows.reconcile import Promotion, reconcile
from tasks.registry import Registry, Version

# As recipes were before there were candidates.
OLD_RECIPE = {
    "name": "tiny",
    "quantize": {"quantizer": "int8_ptq", "num_pictures": 128, "seed": 0},
    "targets": [
        {"name": "openvino", "backend": "openvino", "device": "cpu", "precision": "int8"}
        | {"batch": {"min": 1, "opt": 8, "max": 32}, "optional": False}
    ],
}


class OldRegistry:
    """One model version with one engine, both registered by older code."""

    def __init__(self, verified: str) -> None:
        tags = {"release": "old", "recipe": json.dumps(OLD_RECIPE), "onnx": "{}", "pack": "{}"}
        self.model = Version("tiny", 1, "", "", tags)
        self.engine = Version("tiny.openvino", 7, "", "", {"release": "old", "verified": verified})
        self.moved: dict[str, dict[str, int]] = {"tiny": {"champion": 1}, "tiny.openvino": {}}

    def find_alias(self, name: str, alias: str) -> Version:
        """As the registry's."""
        assert (name, alias) == ("tiny", "champion")
        return self.model

    def find_release(self, name: str, release: str) -> Version:
        """As the registry's."""
        assert (name, release) == ("tiny.openvino", "old")
        return self.engine

    def aliases(self, name: str) -> dict[str, int]:
        """As the registry's."""
        return self.moved[name]

    def set_alias(self, name: str, alias: str, number: int) -> None:
        """As the registry's."""
        self.moved[name][alias] = number

    def set_tags(self, version: Version, **tags: str) -> Version:
        """As the registry's."""
        return version

    def follow(self) -> Promotion:
        """Reconcile, on a machine that nothing is computed on."""
        step: Any = None
        workspace = Workspace(cast("Any", None), Path("nowhere"))
        return reconcile("tiny", cast("Registry", self), workspace, step)


def test_a_version_of_older_code_serves_again() -> None:
    registry = OldRegistry(verified="yes")
    assert registry.follow().word == "champion"
    assert registry.moved["tiny.openvino"] == {"champion": 7}


def test_what_older_code_left_unverified_is_not_made_by_this_code() -> None:
    registry = OldRegistry(verified="no")
    promotion = registry.follow()
    assert promotion.word == "rejected"
    assert "openvino: v1 was registered by other code" in promotion.reason
    assert registry.moved["tiny.openvino"] == {}
