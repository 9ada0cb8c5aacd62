"""Every listed backend offers what the protocol says, and imports without its library."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from enginehouse.choices import list_choices
from enginehouse.engine import Backend, load_backend

FUNCTIONS = [
    name for name, value in vars(Backend).items() if inspect.isfunction(value) and name[0] != "_"
]


@pytest.mark.parametrize("name", list_choices("backends"))
def test_backend_has_the_protocols_functions_and_constants(name: str) -> None:
    backend = load_backend(name)
    assert {"LIBRARY", "EXTRA", "LIBRARIES", "PRECISIONS"} <= vars(backend).keys()
    assert "build" in FUNCTIONS
    for function in FUNCTIONS:
        promised = list(inspect.signature(getattr(Backend, function)).parameters)[1:]
        assert list(inspect.signature(getattr(backend, function)).parameters) == promised


def test_backends_import_none_of_their_libraries() -> None:
    modules = ", ".join(list_choices("backends").values())
    heavy = {"onnx", "onnxruntime", "openvino", "tensorrt", "tensorrt_rtx", "torch", "pandas"}
    code = f"import sys, {modules}; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
