"""Twins of data versions in DVC, and of gates that let everything through."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

from PIL import Image

from tests.twins._draw import Twin, draw, save, write


def _md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def _repository(folder: Path, classes: tuple[str, ...] = ("gear", "screw")) -> dict[str, bytes]:
    """A DVC repository that versions `shots/`, written as DVC 3 does; returns the files."""
    files = {}
    for label in classes:
        for number in range(3):
            stream = io.BytesIO()
            Image.fromarray(draw(f"{label}{number}")).save(stream, "PNG")
            files[f"{label}/{number}.png"] = stream.getvalue()
    rows = [{"md5": _md5(content), "relpath": path} for path, content in sorted(files.items())]
    listing = json.dumps(rows, sort_keys=True).encode()
    objects = {_md5(content): content for content in files.values()}
    objects[f"{_md5(listing)}.dir"] = listing
    for name, content in objects.items():
        write(folder / ".dvc/cache/files/md5" / name[:2] / name[2:], content)
    write(folder / ".dvc/config", "")
    size = sum(map(len, files.values()))
    out = f"outs:\n- md5: {_md5(listing)}.dir\n  size: {size}\n  nfiles: {len(files)}\n"
    write(folder / "shots.dvc", f"{out}  hash: md5\n  path: shots\n")
    for path, content in files.items():
        write(folder / "shots" / path, content)
    return files


def _object(folder: Path, content: bytes) -> Path:
    md5 = _md5(content)
    return folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]


def _remove(folder: Path) -> None:
    for path in sorted((folder / "shots").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (folder / "shots").rmdir()


def build_clean_version(folder: Path) -> None:
    _repository(folder)


def build_the_dvc_file_itself(folder: Path) -> Path:
    _repository(folder)
    return folder / "shots.dvc"


def build_lock_of_a_dead_process(folder: Path) -> None:
    _repository(folder)
    write(folder / ".dvc/tmp/lock", " 4194302\n")


def build_lock_of_a_live_process(folder: Path) -> None:
    _repository(folder)
    write(folder / ".dvc/tmp/lock", f" {os.getpid()}\n")


def build_changed_file(folder: Path) -> None:
    _repository(folder)
    save(folder / "shots/gear/1.png", draw("other"))


def build_new_file(folder: Path) -> None:
    _repository(folder)
    save(folder / "shots/gear/extra.png")


def build_removed_file(folder: Path) -> None:
    _repository(folder)
    (folder / "shots/screw/2.png").unlink()


def build_corrupt_object(folder: Path) -> None:
    files = _repository(folder)
    _remove(folder)
    path = _object(folder, files["screw/1.png"])
    path.write_bytes(path.read_bytes()[:-40])


def build_missing_object(folder: Path) -> None:
    files = _repository(folder)
    _remove(folder)
    _object(folder, files["screw/1.png"]).unlink()


def build_missing_listing(folder: Path) -> None:
    _repository(folder)
    _remove(folder)
    next((folder / ".dvc/cache").rglob("*.dir")).unlink()


def build_only_in_the_cache(folder: Path) -> None:
    _repository(folder)
    _remove(folder)


def build_no_md5(folder: Path) -> None:
    _repository(folder)
    write(folder / "shots.dvc", "outs:\n- md5:\n  nfiles: 6\n  hash: md5\n  path: shots\n")


def build_merge_conflict(folder: Path) -> None:
    _repository(folder)
    text = (folder / "shots.dvc").read_text()
    write(folder / "shots.dvc", f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n")


def build_legacy_version(folder: Path) -> None:
    """DVC 2 wrote no `hash:` and kept its objects without `files/md5`."""
    _repository(folder)
    text = (folder / "shots.dvc").read_text()
    write(folder / "shots.dvc", text.replace("  hash: md5\n", ""))
    cache = folder / ".dvc/cache"
    for place in (cache / "files/md5").iterdir():
        place.rename(cache / place.name)


def build_suite_with_a_lost_result(folder: Path) -> None:
    names = ("row_count_between", "width_between", "label_not_null", "label_in_set")
    write(folder / "suite.json", json.dumps({"expectations": names}))
    results = [{"expectation": name, "success": True} for name in names if "not_null" not in name]
    write(folder / "result.json", json.dumps({"success": True, "results": results}))


def build_suite_in_the_words_of_gx(folder: Path) -> None:
    kinds = ("expect_column_values_to_not_be_null", "expect_table_row_count_to_be_between")
    suite = [{"type": kind, "kwargs": {"column": "label"}} for kind in kinds]
    write(folder / "my_suite.json", json.dumps({"name": "labels", "expectations": suite}))
    results = [{"success": True, "expectation_config": suite[1]}]
    write(folder / "run.json", json.dumps({"success": True, "results": results}))


def build_result_that_failed(folder: Path) -> None:
    write(folder / "suite.json", json.dumps({"expectations": ["x_between"]}))
    results = [{"expectation": "x_between", "success": False}]
    write(folder / "result.json", json.dumps({"success": True, "results": results}))


def build_whole_result(folder: Path) -> None:
    write(folder / "suite.json", json.dumps({"expectations": ["x_between"]}))
    results = [{"expectation": "x_between", "success": True}]
    write(folder / "result.json", json.dumps({"success": True, "results": results}))


def build_table_of_no_rows(folder: Path) -> None:
    write(folder / "truth.csv", "image,label\n\n\n")
    (folder / "shots").mkdir()


def build_nothing_at_all(folder: Path) -> None:
    (folder / "shots").mkdir()


def build_only_notes(folder: Path) -> None:
    write(folder / "README.md", "The pictures are on the other disk.")


DVC = [
    Twin("dvc", build_clean_version, "accept", (), 6),
    Twin("dvc", build_the_dvc_file_itself, "accept", (), 6),
    Twin("dvc", build_lock_of_a_dead_process, "warn", ("lock", "4194302"), 6),
    Twin("dvc", build_lock_of_a_live_process, "warn", ("lock",), 6),
    Twin("dvc", build_changed_file, "reject", (r"gear/1\.png", "dvc add|changed|modified")),
    Twin("dvc", build_new_file, "reject", (r"extra\.png", "dvc add|changed|modified|new")),
    Twin("dvc", build_removed_file, "reject", (r"screw/2\.png", "gone|changed|modified")),
    Twin("dvc", build_corrupt_object, "reject", (r"screw/1\.png", "corrupt|md5|mismatch")),
    Twin("dvc", build_missing_object, "reject", (r"screw/1\.png", "missing")),
    Twin("dvc", build_missing_listing, "reject", (r"shots\.dvc|\.dir", "missing|listing|cache")),
    Twin("dvc", build_only_in_the_cache, "accept", (), 6),
    Twin("dvc", build_no_md5, "reject", (r"shots\.dvc", "md5")),
    Twin("dvc", build_merge_conflict, "reject", (r"shots\.dvc", "conflict|read")),
    Twin("dvc", build_legacy_version, "accept", (), 6),
]
GATE = [
    Twin("gate", build_suite_with_a_lost_result, "reject", ("label_not_null", "missing|absent|3")),
    Twin("gate", build_suite_in_the_words_of_gx, "reject", ("not_be_null|not_null",)),
    Twin("gate", build_result_that_failed, "reject", ("x_between",)),
    Twin("gate", build_whole_result, "accept"),
    Twin("gate", build_table_of_no_rows, "reject", (r"truth\.csv", "0|empty|no row")),
    Twin("gate", build_nothing_at_all, "reject", ("empty|no file|no picture",)),
    Twin("gate", build_only_notes, "reject", ("no picture|no file",)),
]
TWINS = [*DVC, *GATE]
