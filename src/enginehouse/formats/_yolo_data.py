"""What stands beside the labels of YOLO: the classes and the splits that a data.yaml declares.

All values of the YAML are read as text, so that a class named `no` or `1.0` keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._class_names import find_class_names, read_class_names
from enginehouse.formats._numbers import whole_number_of
from enginehouse.formats._text import decode_text
from enginehouse.labels import Finding, Reading

LIBRARIES = ("pyyaml",)

_LOOK = 65536  # bytes
_KEYS = (r"^names\s*:", r"^(train|val|valid|test|nc|path)\s*:")


@dataclass(frozen=True)
class DataYaml:
    """A data.yaml: its top level, values as text, lists and mappings."""

    path: str
    values: dict[str, Any]


def find_data_yamls(files: Files) -> list[str]:
    """YAML with the keys of a data.yaml; sorted."""
    found = []
    for path in sorted(files.listing):
        if PurePosixPath(path).suffix.lower() in (".yaml", ".yml") and path not in files.junk:
            head = files.head(path, _LOOK).decode("utf-8", "replace").lstrip("\ufeff")
            if all(re.search(key, head, re.MULTILINE) for key in _KEYS):
                found.append(path)
    return found


def read_data_yamls(files: Files, reading: Reading) -> list[DataYaml]:
    """Every data.yaml; what cannot be read is an error."""
    import yaml

    read = []
    for path in find_data_yamls(files):
        content = files.read(path)
        try:
            values = yaml.load(decode_text(content)[0], Loader=yaml.BaseLoader)
        except (DataError, yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            why = " ".join((getattr(error, "problem", None) or str(error)).split())
            _refuse(reading, "broken label file", path, f"it is no valid YAML: {where}{why}")
        else:
            read.append(DataYaml(path, values if isinstance(values, dict) else {}))
    return read


def read_names(files: Files, yamls: Sequence[DataYaml], reading: Reading) -> dict[int, str]:
    """Class index to name, as all files that declare classes agree on; {} if there are none."""
    declared = {each.path: _read_yaml_names(each, reading) for each in yamls}
    for path in find_class_names(files):
        listed, findings = read_class_names(files, path)
        reading.findings += findings
        declared[path] = dict(enumerate(listed))
    declared = {path: names for path, names in declared.items() if names}
    first = next(iter(declared), "")
    for path, names in declared.items():
        wanted = declared[first]
        if names != wanted:
            index = min(i for i in {*names, *wanted} if names.get(i) != wanted.get(i))
            here, there = names.get(index, "missing"), wanted.get(index, "missing")
            detail = f"class {index} is {here!r}, in {first} it is {there!r} (order mismatch)"
            _refuse(reading, "class names differ", path, detail)
    return declared.get(first, {})


def _read_yaml_names(data: DataYaml, reading: Reading) -> dict[int, str]:
    written = data.values.get("names")
    pairs: list[tuple[int | None, Any]] = []
    if isinstance(written, list):
        pairs = list(enumerate(written))
    if isinstance(written, dict):
        pairs = [(whole_number_of(key), name) for key, name in written.items()]
    names: dict[int, str] = {}
    for index, name in pairs:
        if index is None or index < 0 or not isinstance(name, str) or not name.strip():
            detail = f"names should give each class index a text, found {index}: {name!r}"
            _refuse(reading, "bad class name", data.path, detail)
        elif name.strip() in names.values():
            detail = f"the class name {name.strip()!r} is a duplicate"
            _refuse(reading, "duplicate class name", data.path, detail)
        else:
            names[index] = name.strip()
    _check_count(data, len(pairs), reading)
    return names


def _check_count(data: DataYaml, num_names: int, reading: Reading) -> None:
    count = data.values.get("nc")
    if num_names == 0:
        _refuse(reading, "no class names", data.path, "names should list the classes; none is read")
    elif count is not None and whole_number_of(count) != num_names:
        detail = f"nc says {count} classes, but names has {num_names} (mismatch)"
        _refuse(reading, "class count differs", data.path, detail)


def read_num_keypoints(yamls: Sequence[DataYaml]) -> int:
    """How many numbers of keypoints follow the box in each row (`kpt_shape: [17, 3]`)."""
    for data in yamls:
        shape = data.values.get("kpt_shape")
        sides = [whole_number_of(side) for side in shape] if isinstance(shape, list) else []
        if len(sides) == 2 and sides[0] and sides[1]:
            return sides[0] * sides[1]
    return 0


def _refuse(reading: Reading, reason: str, path: str, detail: str) -> None:
    remedy = "Correct it where the labels are made, or in that file."
    reading.findings.append(Finding("error", reason, path, f"{path}: {detail}.", remedy))
