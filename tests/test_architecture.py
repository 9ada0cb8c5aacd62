"""The rules of the tree, checked on the tree itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("src", "flows", "tasks")
STAGES = [path.parent.name for path in (ROOT / "src/enginehouse").glob("*/record.py")]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )


def list_modules() -> list[str]:
    paths = [path for top in CODE for path in sorted((ROOT / top).rglob("*.py"))]
    names = [path.relative_to(ROOT).with_suffix("").parts for path in paths]
    dotted = [".".join(parts[1:] if parts[0] == "src" else parts) for parts in names]
    return [
        name.removesuffix(".__init__")
        for name in dotted
        if not name.endswith(("guard", "__main__"))
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-c", "from importlinter.cli import lint_imports_command as run; run()"),
    ],
    ids=["ruff", "format", "mypy", "import contracts"],
)
def test_checks_pass(command: tuple[str, ...]) -> None:
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_imports_without_gpu_libraries() -> None:
    script = (
        "import sys, importlib\n"
        "for name in ('tensorrt', 'tensorrt_rtx', 'modelopt', 'pycuda'):\n"
        "    sys.modules[name] = None\n"
        f"for name in {list_modules()!r}:\n"
        "    importlib.import_module(name)\n"
    )
    done = run("-c", script)
    assert done.returncode == 0, done.stderr


def test_recipe_and_road_import_no_heavy_library() -> None:
    script = (
        "import sys, flows.road, flows.cli\n"
        "heavy = {'torch', 'onnx', 'openvino', 'pandas', 'great_expectations', 'prefect',"
        " 'mlflow', 'matplotlib', 'sklearn'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    done = run("-c", script)
    assert done.returncode == 0, done.stderr


def test_no_python_under_mlflow() -> None:
    assert not list((ROOT / "mlflow").rglob("*.py")), "it would shadow the package of that name"


def test_only_the_registry_speaks_mlflow() -> None:
    behind = {"_mlflow.py", "_mlflow_model.py", "_mlflow_runs.py", "registry.py", "served.py"}
    spoken = re.compile(r"^ *(import|from) (mlflow|tasks\._mlflow)", re.MULTILINE)
    speakers = {
        path.relative_to(ROOT).as_posix()
        for top in CODE
        for path in (ROOT / top).rglob("*.py")
        if spoken.search(path.read_text())
    }
    assert speakers == {f"tasks/{name}" for name in behind}


@pytest.mark.parametrize("stage", STAGES)
def test_stages_never_import_a_stage_function(stage: str) -> None:
    others = {f"enginehouse.{name}.{name}" for name in STAGES if name != stage}
    for path in (ROOT / "src/enginehouse" / stage).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in others, path


def test_every_file_stands_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    listed = set(re.findall(r"^  (\S+\.py)  ", text, re.MULTILINE))
    missing = [
        name
        for top in ("src/enginehouse", "flows", "tasks", "bench", "tests")
        for path in (ROOT / top).rglob("*.py")
        if (name := path.relative_to(ROOT / top).as_posix()) not in listed
        and path.read_text().strip()
    ]
    assert not missing


def test_readme_names_only_what_exists() -> None:
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link
    help_text = run("-m", "flows.cli", "--help").stdout
    for verb in re.findall(r"enginehouse (\w+)", text):
        assert verb in help_text, verb
