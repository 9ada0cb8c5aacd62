"""Folders that bring their own .dvc files, links, odd names and locks: what is said of each."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginehouse.errors import DataError
from enginehouse.labels import Finding
from enginehouse.project import Project
from tasks.data import ResolvedData, resolve_data, resolve_source
from tests.dvc_repository import dvc, make_versioned, mount_small_disk

ENDED = 4_194_303  # Linux numbers processes below 2**22, and gives this one last


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def make_repository(root: Path, *, legacy: bool = False, cache: str = ".dvc/cache") -> Path:
    """A DVC repository outside git, as people pack it: images/ and its version in the cache."""
    files = {f"img_{n}.jpg": f"picture {n}".encode() for n in range(3)}
    files["notes.txt"] = b"seen\r\non Monday\r\n"
    unix = {path: content.replace(b"\r\n", b"\n") for path, content in files.items()}
    digests = {path: md5((unix if legacy else files)[path]) for path in files}
    rows = [{"md5": digests[path], "relpath": path} for path in sorted(files)]
    listing = json.dumps(rows, sort_keys=True).encode()
    objects = {digests[path]: files[path] for path in files} | {f"{md5(listing)}.dir": listing}
    for name, content in objects.items():
        home = root / cache / ("" if legacy else "files/md5") / name[:2]
        home.mkdir(parents=True, exist_ok=True)
        (home / name[2:]).write_bytes(content)
    (root / ".dvc").mkdir(exist_ok=True)
    (root / ".dvc/config").write_text("")
    (root / "images").mkdir()
    for path, content in files.items():
        (root / "images" / path).write_bytes(content)
    size = sum(map(len, files.values()))
    (root / "images.dvc").write_text(
        f"outs:\n- md5: {md5(listing)}.dir\n  size: {size}\n  nfiles: 4\n"
        + ("" if legacy else "  hash: md5\n")
        + "  path: images\n"
    )
    return root


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "house", tmp_path / "state")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "source")


def resolve(project: Project, source: Path) -> ResolvedData:
    return resolve_source(project, source, lambda line: None)


def find(resolved: ResolvedData, reason: str) -> Finding:
    found = [finding for finding in resolved.findings if finding.reason == reason]
    assert len(found) == 1, resolved.findings
    return found[0]


def find_object(root: Path, content: bytes) -> Path:
    name = md5(content)
    return next(root.rglob(f"{name[:2]}/{name[2:]}"))


def test_a_repository_that_is_as_its_files_say(project: Project, source: Path) -> None:
    resolved = resolve(project, source)
    assert (resolved.status, resolved.dvc_file, resolved.findings) == ("clean", "images.dvc", ())
    assert resolved.folder == source / "images"  # it bears more than pictures
    assert list(resolved.listing) == ["img_0.jpg", "img_1.jpg", "img_2.jpg", "notes.txt"]
    assert f"{resolved.digest}.dir" in (source / "images.dvc").read_text()
    assert resolve(project, source / "images.dvc") == resolved
    (source / "labels.csv").write_text("image,label\n")
    whole = resolve(project, source)
    assert whole.folder == source
    assert {"labels.csv", "images/img_0.jpg"} <= whole.listing.keys()


def test_data_changed_without_dvc_add_is_an_error(project: Project, source: Path) -> None:
    (source / "images/img_1.jpg").write_bytes(b"another picture")
    resolved = resolve(project, source)
    said = find(resolved, "data modified")
    assert (said.severity, said.file, resolved.status) == ("error", "images.dvc", "modified")
    assert "1 changed (img_1.jpg)" in said.detail
    assert "dvc add images" in said.remedy
    assert f"{resolved.digest}.dir" not in (source / "images.dvc").read_text()
    shutil.rmtree(source / ".dvc/cache")  # nothing tells which file it was
    assert find(resolve(project, source), "data modified").severity == "error"


def test_a_folder_within_is_told_what_covers_it(project: Project, source: Path) -> None:
    (source / "images/img_1.jpg").unlink()
    said = find(resolve(project, source / "images"), "data modified")
    assert said.severity == "warning"
    assert "1 gone (img_1.jpg)" in said.detail
    assert said.remedy.endswith("dvc add images")


def test_missing_data_is_taken_from_a_checked_cache(project: Project, source: Path) -> None:
    before = resolve(project, source)
    shutil.rmtree(source / "images")
    assert resolve(project, source) == before
    shutil.rmtree(source / "images")
    broken = find_object(source, b"picture 2")
    broken.write_bytes(b"pict")
    with pytest.raises(
        DataError, match=r"img_2\.jpg is corrupt: .* does not have its md5"
    ) as caught:
        resolve(project, source)
    assert str(broken) in caught.value.remedy
    assert not (source / "images").exists()
    broken.unlink()
    with pytest.raises(DataError, match=r"are missing: img_2\.jpg \(object ") as caught:
        resolve(project, source)
    assert "dvc pull" in caught.value.remedy
    assert not list(source.glob(".images*"))
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)  # there, DVC itself is asked
    with pytest.raises(DataError, match=r"img_2\.jpg \(object .*\) is missing") as caught:
        resolve(project, source)
    assert "dvc push" in caught.value.remedy


def test_a_corrupt_or_missing_listing_is_named(project: Project, source: Path) -> None:
    shutil.rmtree(source / "images")
    listing = next((source / ".dvc/cache").rglob("*.dir"))
    listing.write_bytes(listing.read_bytes()[:9])
    with pytest.raises(DataError, match="listing of images is corrupt"):
        resolve(project, source)
    listing.unlink()
    with pytest.raises(DataError, match=r"the listing \(object .*\.dir\)"):
        resolve(project, source)


def test_a_cache_elsewhere_is_found(project: Project, tmp_path: Path) -> None:
    source = make_repository(tmp_path / "far", cache="../shared-cache")
    (source / ".dvc/config.local").write_text("[cache]\n    dir = ../../shared-cache\n")
    shutil.rmtree(source / "images")
    assert resolve(project, source).status == "clean"


@pytest.mark.parametrize(
    "wrong",
    [
        "outs:\n- md5: ''\n  hash: md5\n  path: images\n",
        "outs:\n- hash: md5\n  path: images\n",
        "outs:\n- md5: 1234\n  hash: md5\n  path: images\n",
        "outs:\n<<<<<<< HEAD\n- md5: a.dir\n=======\n- md5: b.dir\n>>>>>>> b\n  path: images\n",
        "outs:\n- md5: a.dir\n  md5: b.dir\n  path: images\n",
        "outs: []\n",
        "",
    ],
    ids=["empty", "none", "short", "conflict", "twice", "no outs", "empty file"],
)
def test_a_dvc_file_that_a_merge_broke_is_named(project: Project, source: Path, wrong: str) -> None:
    (source / "images.dvc").write_text(wrong)
    with pytest.raises(DataError, match=r"images\.dvc") as caught:
        resolve(project, source)
    assert "git" in caught.value.remedy


@pytest.mark.parametrize("path", ["/etc", "../other", "images/../../other", "door/other"])
def test_a_dvc_file_never_leads_out_of_its_folder(
    project: Project, source: Path, path: str
) -> None:
    (source.parent / "other").mkdir()
    (source / "door").symlink_to("..")
    text = (source / "images.dvc").read_text()
    (source / "images.dvc").write_text(text.replace("path: images", f"path: {path}"))
    with pytest.raises(DataError, match=r"images\.dvc names .* lies outside"):
        resolve(project, source)


def test_a_listing_never_leads_out_of_its_folder(project: Project, source: Path) -> None:
    shutil.rmtree(source / "images")
    listing = json.dumps([{"md5": md5(b"picture 0"), "relpath": "../../evil.jpg"}]).encode()
    home = source / ".dvc/cache/files/md5" / md5(listing)[:2]
    home.mkdir(exist_ok=True)
    (home / f"{md5(listing)[2:]}.dir").write_bytes(listing)
    (source / "images.dvc").write_text(
        f"outs:\n- md5: {md5(listing)}.dir\n  hash: md5\n  path: images\n"
    )
    with pytest.raises(DataError, match="outside its folder"):
        resolve(project, source)
    assert not list(source.parent.rglob("evil.jpg"))


def test_several_and_single_files_are_one_version(project: Project, source: Path) -> None:
    (source / "labels.csv").write_bytes(b"image,label\n")
    (source / "labels.csv.dvc").write_text(
        f"frozen: true\ndeps:\n- path: labels.csv\n  repo: {{url: ../x, rev_lock: abc}}\n"
        f"outs:\n- md5: {md5(b'image,label' + bytes([10]))}\n  size: 12\n  hash: md5\n"
        "  path: labels.csv\n"
    )
    (source / ".venv").mkdir()
    (source / ".venv/x.jpg").write_bytes(b"no data")
    resolved = resolve(project, source)
    assert (resolved.status, resolved.findings) == ("clean", ())
    assert resolved.dvc_file == "images.dvc, labels.csv.dvc"
    assert [path for path in resolved.listing if "/" not in path] == ["labels.csv"]
    (source / "labels.csv").write_bytes(b"image,label\na,b\n")
    said = find(resolve(project, source), "data modified")
    assert (said.file, said.severity) == ("labels.csv.dvc", "error")
    assert "labels.csv" in said.detail


def test_counts_that_a_merge_mixed_up_are_told(project: Project, source: Path) -> None:
    text = (source / "images.dvc").read_text()
    (source / "images.dvc").write_text(text.replace("nfiles: 4", "nfiles: 7"))
    said = find(resolve(project, source), "dvc metadata")
    assert "nfiles 7 for 4" in said.detail


def test_a_version_of_dvc_2_is_compared_as_dvc_2_does(project: Project, tmp_path: Path) -> None:
    source = make_repository(tmp_path / "old", legacy=True)
    resolved = resolve(project, source)
    assert resolved.status == "clean"
    assert "dvc cache migrate" in find(resolved, "legacy hash").remedy
    assert resolved.listing["notes.txt"] == md5(b"seen\r\non Monday\r\n")
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    assert "up to date" in dvc(source, "status").stdout  # DVC itself sees it so
    shutil.rmtree(source / "images")
    assert resolve(project, source).listing == resolved.listing
    shutil.rmtree(source / ".dvc/cache")
    assert resolve(project, source).status == "clean"
    (source / "images/notes.txt").write_bytes(b"seen\non Tuesday\n")
    assert resolve(project, source).status == "modified"


def write_lock(root: Path, content: str, name: str = "lock") -> Path:
    (root / ".dvc/tmp").mkdir(exist_ok=True)
    (root / ".dvc/tmp" / name).write_text(content)
    return root / ".dvc/tmp" / name


def test_a_lock_of_an_ended_process_is_told_with_its_removal(
    project: Project, source: Path
) -> None:
    lock = write_lock(source, f" {ENDED}\n")
    said = find(resolve(project, source), "lock")
    assert said.severity == "warning"
    assert str(ENDED) in said.detail
    assert f"rm {lock}" in said.remedy
    write_lock(source, '{"read": {}, "write": {}}', "rwlock")  # its command ended well
    assert find(resolve(project, source), "lock").severity == "info"
    entry = {"pid": ENDED, "cmd": "dvc add images"}
    write_lock(source, json.dumps({"write": {"/x": entry}}), "rwlock")
    assert {f.severity for f in resolve(project, source).findings} == {"warning"}
    assert lock.exists()


@pytest.mark.parametrize("content", ["{host}|{pid}|77", " {pid}\n", "{pid} {host}"])
def test_a_lock_of_a_running_process_is_never_offered_for_removal(
    project: Project, source: Path, content: str
) -> None:
    named = content.format(host=socket.gethostname(), pid=os.getpid())
    lock = write_lock(source, named if "|" not in named else f"/x/lock|{named}")
    said = find(resolve(project, source), "lock")
    assert f"process {os.getpid()}" in said.detail
    assert "rm " not in said.remedy
    assert lock.exists()


def test_locks_of_which_nothing_can_be_known(project: Project, source: Path) -> None:
    write_lock(source, f"{ENDED} another-host")
    assert "another machine" in find(resolve(project, source), "lock").detail
    write_lock(source, f"{source}/.dvc/tmp/abcdef.lock")  # of core.hardlink_lock
    assert "does not say" in find(resolve(project, source), "lock").detail
    write_lock(source, "")
    assert resolve(project, source).findings == ()
    write_lock(source, "{broken", "rwlock")
    assert find(resolve(project, source), "lock").file == ".dvc/tmp/rwlock"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("origin") / "repo"
    make_versioned(root)
    return root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mount_small_disk(tmp_path / "small", "300k") as place:
        yield place


def test_a_full_disk_is_told_and_a_rerun_completes(
    origin: Path, small_disk: Path, tmp_path: Path
) -> None:
    shutil.copytree(origin, small_disk / "repo")
    shutil.rmtree(small_disk / "repo/data")
    shutil.rmtree(small_disk / "repo/.dvc/cache")
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(300_000))
    project = Project(small_disk / "repo", tmp_path / "state")
    with pytest.raises(DataError, match=r"No room left .* has 0 MiB free") as caught:
        resolve_data(project, "data", lambda line: None)
    assert str(small_disk) in caught.value.message
    filler.unlink()
    assert resolve_data(project, "data", lambda line: None).status == "clean"


def test_who_holds_dvc_up_is_said_and_waited_for(origin: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    shutil.copytree(origin, root)
    shutil.rmtree(root / "data")
    lock = write_lock(root, f" {os.getpid()}\n")
    lines: list[str] = []
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def report(line: str) -> None:
            lines.append(line)
            if "waiting" in line:  # the holder goes on and ends
                fcntl.flock(held, fcntl.LOCK_UN)

        resolved = resolve_data(Project(root, tmp_path / "state"), "data", report)
    assert resolved.status == "clean"
    assert any(f"process {os.getpid()}" in line for line in lines)


def test_a_lock_that_would_be_waited_for_in_vain_is_an_error(origin: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    shutil.copytree(origin, root)
    shutil.rmtree(root / "data")
    lock = write_lock(root, f"/x/lock|{socket.gethostname()}|{ENDED}|1")
    with pytest.raises(DataError, match="does not run any more") as caught:
        resolve_data(Project(root, tmp_path / "state"), "data", lambda line: None)
    assert caught.value.remedy == f"rm {lock}"


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_links_pipes_and_folders_without_files(project: Project, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data, "ok/a.jpg", "kept/.gitkeep", ".hidden/b.jpg")
    for name in ("empty/inner", ".cache", "junk"):
        (data / name).mkdir(parents=True)
    (data / "junk/Thumbs.db").touch()
    (data / "ok/again").symlink_to("..")
    (data / "ok/loop.jpg").symlink_to("loop.jpg")
    (data / "ok/gone.jpg").symlink_to("nowhere.jpg")
    (data / "ok/same.jpg").symlink_to("a.jpg")
    os.mkfifo(data / "ok/pipe.jpg")
    (data / "inner/.dvc").mkdir(parents=True)
    write(data, "inner/c.jpg")
    resolved = resolve(project, data)
    assert {"ok/a.jpg", "ok/same.jpg"} < resolved.listing.keys()
    assert resolved.empty_folders == ("empty", "empty/inner", "junk", "kept")
    assert resolved.links == resolved.version.links == ("ok/again",)
    assert {(f.severity, f.reason, f.file) for f in resolved.findings} == {
        ("warning", "linked folder", "ok/again"),
        ("warning", "broken link", "ok/loop.jpg"),
        ("warning", "broken link", "ok/gone.jpg"),
        ("warning", "no regular file", "ok/pipe.jpg"),
        ("warning", "repository in the data", "inner"),
    }


def test_names_that_label_files_cannot_tell(project: Project, tmp_path: Path) -> None:
    data = tmp_path / "data"
    nfc, nfd = (unicodedata.normalize(form, "défaut") for form in ("NFC", "NFD"))
    write(data, f"{nfc}.jpg", f"{nfd}.jpg", "two\nlines.jpg", f"{'x' * 250}.jpg", "好 [1].jpg")
    (Path(os.fsdecode(os.fsencode(data) + b"/\xc3\x28.jpg"))).touch()
    (Path(os.fsdecode(os.fsencode(data) + b"/\xff"))).mkdir()
    resolved = resolve(project, data)
    assert len(resolved.listing) == 5
    said = {finding.reason: finding for finding in resolved.findings}
    assert set(said) == {
        "control character in name",
        "name is not UTF-8",
        "same name in two Unicode forms",
    }
    assert said["same name in two Unicode forms"].file == f"{nfc}.jpg"
    json.dumps([finding.detail for finding in resolved.findings], ensure_ascii=False).encode()


def test_a_source_that_is_none(project: Project, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match="is a file"):
        resolve(project, tmp_path / "notes.txt")
    with pytest.raises(DataError, match="no folder"):
        resolve(project, tmp_path / "nowhere")
    (tmp_path / "bare.dvc").write_text(f"outs:\n- md5: {md5(b'')}.dir\n  path: bare\n")
    with pytest.raises(DataError, match="no DVC repository"):
        resolve(project, tmp_path / "bare.dvc")
