"""The bootstrap in the Makefile: what is installed when. Python and pip are played by a script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

# `python -m venv` makes a folder whose programs are this script again; all calls are written down.
FAKE = """#!/bin/sh
case "$1" in
  -c) exec {python} "$@" ;;
esac
echo "$(basename "$0") $*" >> {log}
case "$1 $2" in
  "-m venv")
    for folder; do :; done
    case "$*" in *--clear*) rm -rf "$folder" ;; esac
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"; cp "$0" "$folder/bin/enginehouse"
    echo "#!$(pwd)/$folder/bin/python" > "$folder/bin/pip" ;;
  "-m pip") exit ${{PIP_CODE:-0}} ;;
  run*) exit ${{RUN_CODE:-0}} ;;
esac
"""
INSTALL = "python -m pip install -qq --progress-bar off -c requirements.lock -e"


@dataclass
class House:
    """A folder with the Makefile, and the calls that were made."""

    root: Path
    log: Path
    tools: Path

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run make; forgets earlier calls."""
        self.log.unlink(missing_ok=True)
        names = ("PIP_", "MAKE", "MFLAGS", "RECIPE", "DATA", "ARGS", "PYTHON")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        return subprocess.run(
            ["make", *arguments],
            cwd=self.root,
            env={**clean, "PATH": f"{self.tools}:/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path / "a house", tmp_path / "log", tmp_path / "tools")
    made.root.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, made.root)
    made.tools.mkdir()
    fake = made.tools / "python3"
    fake.write_text(FAKE.format(python=sys.executable, log=made.log))
    fake.chmod(0o755)
    return made


def test_the_first_run_installs_the_base_and_the_next_nothing(house: House) -> None:
    done = house.make("run")
    assert done.returncode == 0, done.stderr
    assert "about 3 GB" in done.stdout
    wanted = ["python3 -m venv --clear .venv", f"{INSTALL} .", "enginehouse run --recipe sample"]
    assert house.calls == wanted
    house.make("run")
    assert house.calls == wanted[2:]


def test_tests_add_the_tools_and_contain_the_base(house: House) -> None:
    house.make("run")
    assert house.make("test", ARGS="-x tests").returncode == 0
    assert house.calls == [f"{INSTALL} .[dev]", "python -m pytest -x tests"]
    (house.root / ".venv" / "enginehouse-base").unlink()
    house.make("run")
    assert house.calls == ["enginehouse run --recipe sample"]


def test_a_changed_lock_installs_again_in_place(house: House) -> None:
    house.make("run")
    (house.root / "requirements.lock").write_text("torch==1\n")
    done = house.make("run")
    assert "up to date" in done.stdout
    assert house.calls[0] == f"{INSTALL} ."


def test_a_moved_folder_makes_the_environment_anew(house: House) -> None:
    house.make("run")
    house.root = house.root.rename(house.root.with_name("elsewhere"))
    house.make("run")
    assert house.calls[:2] == ["python3 -m venv --clear .venv", f"{INSTALL} ."]


def test_an_install_that_failed_is_done_again(house: House) -> None:
    assert house.make("run", PIP_CODE="1").returncode == 2
    assert house.calls[-1] == f"{INSTALL} ."  # nothing was run
    house.make("run")
    assert house.calls[0] == f"{INSTALL} ."


def test_recipe_and_data_reach_the_program_whole(house: House) -> None:
    house.make("run", "RECIPE=steel", "DATA=my pictures; $(x) 'of' \"it\"")
    assert house.calls[-1] == "enginehouse run --recipe steel --data my pictures;  'of' \"it\""


def test_the_exit_code_of_the_run_is_shown(house: House) -> None:
    done = house.make("run", RUN_CODE="3")
    assert done.returncode == 2
    assert "Error 3" in done.stderr


def test_a_python_that_is_too_old_is_told_in_one_sentence(house: House) -> None:
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        (house.tools / name).write_text("#!/bin/sh\nexit 1\n")
        (house.tools / name).chmod(0o755)
    done = house.make("run")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("Python 3.11 or newer is needed")


def test_another_platform_is_told_in_one_sentence(house: House) -> None:
    (house.tools / "uname").write_text("#!/bin/sh\necho Darwin arm64\n")
    (house.tools / "uname").chmod(0o755)
    done = house.make("run")
    assert done.stderr.splitlines()[0] == (
        "Enginehouse installs on Linux x86-64 only, this is Darwin arm64."
    )
    assert house.calls == []
