"""Preparing: which picture goes where and stays there, what a window is called, what is written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError

from enginehouse.artifact import Source, Workspace
from enginehouse.choices import iter_choices
from enginehouse.errors import DataError
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.picture import resize_picture
from enginehouse.prepare import shards
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.folds import assign_fold
from enginehouse.prepare.prepare import prepare
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import cut_shards, open_pictures
from enginehouse.prepare.split import assign_splits, find_place
from enginehouse.prepared_picture import load_picture
from enginehouse.store import Store
from enginehouse.train.splits import read_split
from enginehouse.validate.record import Validated

DATA = DataVersion(digest="data")


@dataclass
class Folder:
    """A data set made by hand, and what ingest and validate would say of it."""

    root: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    boxes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, label: str, array: NDArray[np.uint8], **more: Any) -> None:
        file = self.root / "data" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(file, format="PNG", compress_level=1)
        pixels = hashlib.sha256(array.tobytes()).hexdigest()
        row = {"path": path, "label": label, "pixels": pixels, "part": pixels}
        row |= {"split": "", "time": "", "width": array.shape[1], "height": array.shape[0]}
        row |= {"format": "PNG", "mode": "RGB", "handling": "", "source": ""}
        row |= {"brightness": float(array.mean()), "contrast": 1.0, "sharpness": 1.0}
        row["md5"] = hashlib.md5(file.read_bytes()).hexdigest()
        self.rows.append({**row, **more})

    def add_box(self, path: str, label: str, *xywh: float) -> None:
        corners = dict(zip(["x", "y", "width", "height"], xywh, strict=True))
        self.boxes.append({"path": path, "label": label, **corners})

    def workspace(self) -> Workspace:
        self.root.mkdir(exist_ok=True)
        scratch = self.root / f"scratch{len(list(self.root.glob('scratch*')))}"
        scratch.mkdir()
        source = Source(self.root / "data", {row["path"]: row["md5"] for row in self.rows})
        return Workspace(Store(self.root / "store"), scratch, sources={"data": source})

    def make_manifest(self, good: str = "", defect: str = "") -> Manifest:
        here = self.workspace()
        table = pd.DataFrame(self.rows).sort_values("path")
        table.to_parquet(here.scratch / "manifest.parquet")
        columns = ["path", "label", "x", "y", "width", "height"]
        boxes = pd.DataFrame(self.boxes, columns=columns)
        boxes.to_parquet(here.scratch / "boxes.parquet")
        classes = sorted({good, defect} if defect else set(table["label"]))
        return Manifest(
            files=here.seal(["manifest.parquet", "boxes.parquet"]),
            format="made by hand",
            classes=tuple(classes),
            labels=tuple(sorted({*boxes["label"], *classes})),
            label_ids={},
            good=good,
            image_class=("any_box" if defect else "majority") if good else "",
            defect=defect,
            num_rows=len(table),
            num_boxes=len(boxes),
            num_quarantined=0,
            num_errors=0,
        )

    def prepare(
        self,
        good: str = "",
        defect: str = "",
        here: Workspace | None = None,
        failures: tuple[str, ...] = (),
        **config: Any,
    ) -> Pack:
        manifest = self.make_manifest(good, defect)
        validated = Validated(manifest=manifest.identity, num_expectations=1, failures=failures)
        full = PrepareConfig.model_validate({"size": 16, **config})
        return prepare(DATA, manifest, validated, full, here or self.workspace())

    def read(self, pack: Pack) -> pd.DataFrame:
        return pd.read_parquet(self.workspace().path(pack, "index.parquet"))


def noise(seed: int, height: int = 20, width: int = 24) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def fill(folder: Folder, num: int = 12, labels: Sequence[str] = ("a", "b")) -> Folder:
    for seed in range(num):
        label = labels[seed % len(labels)]
        folder.add(f"{label}/{seed:03}.png", label, noise(seed))
    return folder


# What is packed


def test_rows_of_the_index_are_the_prepared_pictures(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path), 20)
    pack = folder.prepare()
    index = folder.read(pack)
    columns = ["split", "row", "path", "label", "class_index", "part"]
    facts = ["time", "format", "mode", "handling", "source", "brightness", "contrast", "sharpness"]
    assert list(index.columns) == [*columns, *facts, "picture_width", "picture_height"]
    assert set(index["picture_width"]) == {24} and set(index["picture_height"]) == {20}
    brightness = {row["path"]: row["brightness"] for row in folder.rows}
    assert index["brightness"].tolist() == [brightness[path] for path in index["path"]]
    assert len(index) == sum(pack.counts.values()) == 20
    for split in ("train", "val", "test"):
        pictures = open_pictures(pack, split, folder.workspace())
        mine = index[index["split"] == split]
        assert mine["row"].tolist() == list(range(len(pictures)))
        assert mine["path"].is_monotonic_increasing
        for row in mine.itertuples():
            expected = load_picture(tmp_path / "data" / row.path, pack.preparation)
            assert np.array_equal(pictures[row.row], expected[0])
            assert pack.classes[row.class_index] == row.label == row.path[0]
    train = open_pictures(pack, "train", folder.workspace())[:] / 255
    assert pack.mean == pytest.approx(train.mean((0, 2, 3)), abs=1e-6)
    assert pack.std == pytest.approx(train.std((0, 2, 3)), abs=1e-6)
    assert pack.size == 16
    assert "boxes.parquet" not in pack.files


def test_many_pictures_are_packed_by_processes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(Folder(tmp_path), 240)
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "2")
    by_processes = folder.prepare(clean=[{"step": "clahe"}])
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "1")
    assert folder.prepare(clean=[{"step": "clahe"}]).identity == by_processes.identity


def test_a_picture_that_changed_is_an_error(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path))
    folder.rows[3]["md5"] = "0" * 32
    with pytest.raises(DataError, match=r"b/003\.png changed"):
        folder.prepare()


def test_a_picture_without_label_is_an_error(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path))
    folder.add("odd.png", "", noise(99))
    with pytest.raises(DataError, match=r"1 picture\(s\) have no label among a, b: odd\.png"):
        folder.prepare(good="a", defect="b")


def test_a_rejected_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not let through"):
        fill(Folder(tmp_path)).prepare(failures=("too few",))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path))
    here = folder.workspace()
    (here.scratch / "train-00000.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        folder.prepare(here=here)


# Shards


def test_a_split_may_have_many_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(Folder(tmp_path), 60)
    whole = folder.prepare()
    monkeypatch.setattr(shards, "SHARD_BYTES", 4 * 3 * 16 * 16)
    pack = folder.prepare()
    assert sum(name.startswith("train-") for name in pack.files) > 5
    one, many = (open_pictures(p, "train", folder.workspace()) for p in (whole, pack))
    rows = np.random.default_rng(0).permutation(len(one))
    assert many.shape == one.shape
    assert np.array_equal(many[:], one[:])
    assert np.array_equal(many[rows], one[:][rows])
    assert np.array_equal(many[7], one[7])
    assert np.array_equal(np.stack(list(many)), one[:])
    with pytest.raises(IndexError):
        many[len(many)]


def test_a_new_picture_leaves_most_shards_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 6 * 3 * 16 * 16)
    folder = fill(Folder(tmp_path), 200)
    before = folder.prepare()
    folder.add("a/0001.png", "a", noise(1000))
    after = folder.prepare()
    stored = {blob.sha256 for name, blob in before.files.items() if name.endswith(".npy")}
    new = [blob for name, blob in after.files.items() if name.endswith(".npy")]
    assert len(stored) > 20
    assert sum(blob.sha256 not in stored for blob in new) <= 2


def test_shards_are_bounded_and_whole() -> None:
    digests = [hashlib.sha256(bytes([n])).hexdigest() for n in range(200)]
    sizes = [shards.SHARD_BYTES // 8] * 200
    cuts = cut_shards(digests, sizes)
    assert [n for cut in cuts for n in range(200)[cut]] == list(range(200))
    assert max(len(range(200)[cut]) for cut in cuts) <= 16
    never = ["f" * 64] * 200
    assert {len(range(200)[cut]) for cut in cut_shards(never, sizes)} == {16, 8}
    assert cut_shards([], []) == []
    large = cut_shards(digests, [shards.SHARD_BYTES * 4] * 200)
    assert len(large) <= shards.MAX_SHARDS


# Repeats and splits


def make_table(parts: dict[str, str]) -> pd.DataFrame:
    """One picture per part; part to label."""
    rows = [
        {"path": part, "part": part, "label": label, "split": "", "time": ""}
        for part, label in parts.items()
    ]
    return pd.DataFrame(rows)


def split(table: pd.DataFrame, **config: Any) -> dict[str, str]:
    splits = assign_splits(table, PrepareConfig(**config))
    return dict(zip(table["path"], splits, strict=True))


def has_lent(parts: dict[str, str], label: str) -> bool:
    """Whether so many of a class's parts lie low that training or validation had to borrow."""
    places = [find_place(0, part) for part, mine in parts.items() if mine == label]
    low = sum(place < 0.3 for place in places)
    return low == len(places) or (low == len(places) - 1 == sum(p < 0.15 for p in places))


@pytest.mark.parametrize("seed", range(60))
def test_a_picture_never_leaves_training_when_others_arrive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    named = [f"{seed}-{n}" for n in range(int(rng.integers(9, 60)))]
    parts = {name: "abc"[n % 3] for n, name in enumerate(named)}
    towards_training = {"test": 0, "val": 1, "train": 2}
    before = split(make_table(parts))
    for step in range(6):
        grown = dict(parts)
        grown |= {
            f"{seed}-{step}-{n}": "abcd"[int(rng.integers(3))] for n in range(rng.integers(1, 12))
        }
        names = list(grown)
        rng.shuffle(names)
        after = split(make_table({name: grown[name] for name in names}))
        for label in "abc":
            mine = [part for part in parts if parts[part] == label]
            sides = [before[part] for part in mine]
            moved = [part for part in mine if after[part] != before[part]]
            if moved and not has_lent(parts, label):
                for part in moved:
                    assert towards_training[after[part]] > towards_training[before[part]]
                    natural = [find_place(0, p) for p in mine]
                    unfilled = min(natural) >= 0.15 or not any(0.15 <= p < 0.3 for p in natural)
                    assert unfilled, "only a class that could not fill its splits may change"
            assert set(sides) == {"train", "val", "test"}
        parts, before = grown, after


def test_a_large_set_never_moves_and_keeps_its_shares() -> None:
    parts = {f"p{n}": "ab"[n % 2] for n in range(2000)}
    before = split(make_table(parts))
    after = split(make_table(parts | {f"q{n}": "ab"[n % 2] for n in range(500)}))
    assert {part: after[part] for part in before} == before
    shares = pd.Series(before).value_counts(normalize=True)
    assert shares["test"] == pytest.approx(0.15, abs=0.025)
    assert shares["val"] == pytest.approx(0.15, abs=0.025)
    assert split(make_table(parts), seed=1) != before


def test_a_small_class_is_in_every_split() -> None:
    for seed in range(40):
        sides = split(make_table({f"{seed}-{n}": "a" for n in range(3)}))
        assert sorted(sides.values()) == ["test", "train", "val"]


def test_too_few_parts_are_an_error() -> None:
    table = make_table({"p1": "a", "p2": "a", "p3": "a", "q1": "b", "q2": "b"})
    with pytest.raises(DataError, match=r"Class b has 2 distinct part\(s\); a split needs"):
        split(table)


def test_a_part_stays_whole_and_counts_for_its_commonest_label() -> None:
    rows = [
        {"path": f"{part}-{n}", "part": f"p{part}", "label": "good" if n else "pit"}
        for part in range(30)
        for n in range(4)
    ]
    table = pd.DataFrame(rows).assign(split="", time="")
    sides = split(table)
    assert len({(path.split("-")[0], side) for path, side in sides.items()}) == 30
    assert set(sides.values()) == {"train", "val", "test"}


@pytest.mark.parametrize("reverse", [False, True])
def test_which_copy_is_kept_does_not_depend_on_the_order(tmp_path: Path, reverse: bool) -> None:
    folder = fill(Folder(tmp_path), 12)
    copies = [("a/copy1.png", "p1"), ("a/copy0.png", "p0"), ("a/copy2.png", "p2")]
    for path, part in reversed(copies) if reverse else copies:
        folder.add(path, "a", noise(500), part=part)
    pack = folder.prepare()
    kept = max(copies, key=lambda copy: find_place(0, copy[1]))[0]
    dropped = sorted(path for path, _ in copies if path != kept)
    assert pack.notes["dropped_duplicates"] == [[path, kept] for path in dropped]
    assert kept in set(folder.read(pack)["path"])


def test_given_splits_are_used_and_missing_ones_carved_out_of_train(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for seed in range(40):
        given = "test" if seed % 4 == 0 else "train" if seed % 4 < 3 else ""
        folder.add(f"{seed:03}.png", "ab"[seed % 3 == 0], noise(seed), split=given)
    folder.add("copy.png", "b", noise(0), split="train")  # leaks into the given test
    pack = folder.prepare()
    found = folder.read(pack).set_index("path")["split"]
    given = {row["path"]: row["split"] for row in folder.rows}
    for path, side in found.items():
        assert (side == "test") == (given[path] == "test")
    assert pack.counts["val"] >= 2
    assert pack.notes["dropped_duplicates"] == [["copy.png", "000.png"]]
    by_part = folder.read(folder.prepare(split_by="part")).set_index("path")["split"]
    assert by_part.to_dict() != found.to_dict()


def test_nothing_given_to_training_is_an_error() -> None:
    table = make_table({f"p{n}": "a" for n in range(4)}).assign(split=["val", "test"] * 2)
    with pytest.raises(DataError, match="only to test and val"):
        split(table)


def test_by_time_the_latest_parts_are_tested() -> None:
    table = make_table({f"p{n:02}": "ab"[n % 2] for n in range(20)})
    table["time"] = [f"2026-01-{n + 1:02}" for n in range(20)]
    sides = split(table, split_by="time", val_share=0.2, test_share=0.1)
    assert [sides[f"p{n:02}"] for n in range(20)] == ["train"] * 14 + ["val"] * 4 + ["test"] * 2
    table.loc[0, "part"] = "p19"  # a part is as late as its latest picture
    assert split(table, split_by="time")["p00"] == "test"
    table.loc[[3, 5], "time"] = ""
    with pytest.raises(DataError, match=r"2 have none: p03, p05\."):
        split(table, split_by="time")


def test_a_class_that_is_not_in_training_is_an_error(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for n in range(12):
        folder.add(f"{n:02}.png", "new" if n == 11 else "old", noise(n), time=f"{n:02}")
    with pytest.raises(DataError, match="Nothing of new is in training"):
        folder.prepare(split_by="time")


# Folds


def split_folds(table: pd.DataFrame, folds: int, **config: Any) -> list[dict[str, str]]:
    """Path to split, fold by fold."""
    configs = [PrepareConfig(folds=folds, fold=fold, **config) for fold in range(folds)]
    return [dict(zip(table["path"], assign_fold(table, each), strict=True)) for each in configs]


@pytest.mark.parametrize("folds", [2, 3, 5, 20])
def test_every_part_is_tested_in_exactly_one_fold(folds: int) -> None:
    table = make_table({f"p{n}": "aab"[n % 3] for n in range(150)})
    table = pd.concat([table, table.assign(path=[f"{path}-2" for path in table["path"]])])
    sides = split_folds(table, folds)
    for path in table["path"]:
        assert [side[path] for side in sides].count("test") == 1
        assert all(side[path] == side[path.removesuffix("-2")] for side in sides)
    for label in "ab":
        mine = table["path"][table["label"] == label]
        tested = [sum(side[path] == "test" for path in mine) for side in sides]
        assert max(tested) - min(tested) <= 2  # one part of two pictures
    sizes = [list(side.values()).count("test") for side in sides]
    assert max(sizes) - min(sizes) <= 2
    for side in sides:
        kinds = {(side[row.path], row.label) for row in table.itertuples()}
        assert {("train", label) for label in "ab"} | {("val", label) for label in "ab"} < kinds


def test_folds_do_not_depend_on_the_order_of_rows_and_differ_by_seed() -> None:
    table = make_table({f"p{n:02}": "ab"[n % 2] for n in range(40)})
    first = split_folds(table, 4)
    assert first == split_folds(table.iloc[::-1].reset_index(drop=True), 4)
    assert first != split_folds(table, 4, seed=1)


def test_folds_have_nothing_to_do_with_the_usual_split() -> None:
    parts = {f"p{n}": "ab"[n % 2] for n in range(1000)}
    usual = split(make_table(parts))
    for side in split_folds(make_table(parts), 5):
        tested = [part for part in parts if side[part] == "test"]
        both = sum(usual[part] == "test" for part in tested)
        assert both / len(tested) == pytest.approx(0.15, abs=0.06)


def test_folds_go_by_part_whatever_splits_or_times_are_given() -> None:
    table = make_table({f"p{n:02}": "ab"[n % 2] for n in range(20)})
    plain = split_folds(table, 4)
    table["split"] = ["test", "train"] * 10
    for split_by in ("given_or_part", "part", "time"):
        assert split_folds(table, 4, split_by=split_by) == plain


def test_too_few_parts_for_the_folds_are_an_error() -> None:
    parts = {f"a{n}": "a" for n in range(12)} | {"b1": "b", "b2": "b"}
    with pytest.raises(DataError, match=r"Class b has 2 distinct part\(s\), too few for 5 folds"):
        split_folds(make_table(parts), 5)
    assert split_folds(make_table(parts | {"b3": "b"}), 5)
    with pytest.raises(DataError, match=r"15 distinct part\(s\); 16 folds need at least 16"):
        split_folds(make_table(parts | {"b3": "b"}), 16)


def test_a_fold_is_packed_without_repeats(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path), 12)
    folder.add("a/copy.png", "a", noise(0))
    packs = [folder.prepare(folds=3, fold=fold) for fold in range(3)]
    tested = [path for pack in packs for path in folder.read(pack).query("split == 'test'")["path"]]
    assert len(tested) == len(set(tested)) == 12
    assert len({pack.identity for pack in packs}) == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"folds": 1}, "leaves nothing to learn from"),
        ({"folds": 21}, "less than or equal to 20"),
        ({"folds": 5, "fold": 5}, r"fold \(5\) must be smaller than folds \(5\)"),
        ({"fold": 1}, r"fold \(1\) must be smaller than folds \(0\)"),
    ],
)
def test_a_fold_that_is_none_is_refused(config: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrepareConfig.model_validate(config)


# Tiles


def tiled(root: Path, num: int = 12) -> Folder:
    """Pictures of 64 x 128; every other one has a box in its left half."""
    folder = Folder(root)
    for seed in range(num):
        path = f"{seed:02}.png"
        folder.add(path, "pit" if seed % 2 else "fine", noise(seed, 64, 128))
        if seed % 2:
            folder.add_box(path, "pit", 10, 10, 20, 20)
    return folder


TILES = {"size": 64, "overlap": 0, "min_visible": 0.5, "keep_clean": 1000}


def test_windows_bear_the_labels_of_their_boxes(tmp_path: Path) -> None:
    folder = tiled(tmp_path)
    pack = folder.prepare(good="fine", tiles=TILES)
    assert pack.classes == ("fine", "pit")
    assert (pack.preparation.good, pack.min_visible) == ("fine", 0.5)
    index = folder.read(pack)
    assert len(index) == 24
    for row in index.itertuples():
        has_box = int(row.path[:2]) % 2 == 1
        assert (row.label == "pit") == (has_box and row.x == 0)
        assert row.clean == (row.label == "fine")
        assert pack.classes[row.picture_index] == ("pit" if has_box else "fine")
        assert (row.y, row.width, row.height) == (0, 64, 64)
        picture = open_pictures(pack, row.split, folder.workspace())[row.row]
        array = np.asarray(Image.open(tmp_path / "data" / row.path))
        window = np.ascontiguousarray(array[:, row.x : row.x + 64])
        assert np.array_equal(picture, resize_picture(window, 16))
    boxes = pd.read_parquet(folder.workspace().path(pack, "boxes.parquet"))
    tested = set(index["path"][index["split"] != "train"])
    assert set(boxes["path"]) == {path for path in tested if int(path[:2]) % 2}


def test_with_a_defect_class_any_box_makes_a_window_defective(tmp_path: Path) -> None:
    folder = tiled(tmp_path)
    for row in folder.rows:
        row["label"] = "defect" if row["label"] == "pit" else "ok"
    pack = folder.prepare(good="ok", defect="defect", tiles=TILES)
    assert pack.classes == ("ok", "defect")
    assert set(folder.read(pack)["label"]) == {"ok", "defect"}


def test_a_window_takes_the_commonest_label_of_its_boxes(tmp_path: Path) -> None:
    folder = tiled(tmp_path)
    for seed in range(1, 12, 2):
        for place in (40, 50):
            folder.add_box(f"{seed:02}.png", "scratch", place, place, 9, 9)
        folder.add_box(f"{seed:02}.png", "pit", 90, 30, 9, 9)
    index = folder.read(folder.prepare(good="fine", tiles=TILES))
    marked = index[~index["clean"]]
    assert set(zip(marked["x"], marked["label"], strict=True)) == {(0, "scratch"), (64, "pit")}


def test_windows_that_show_too_little_are_left_out_of_training(tmp_path: Path) -> None:
    folder = tiled(tmp_path)
    for box in folder.boxes:
        box |= {"x": 50, "width": 20}  # 70 % in the left window, 30 % in the right one
    pack = folder.prepare(good="fine", tiles=TILES)
    index = folder.read(pack)
    ambiguous = index[~index["clean"] & (index["label"] == "fine")]
    assert len(ambiguous)
    assert "train" not in set(ambiguous["split"])
    assert set(ambiguous["x"]) == {64}
    for name in ("train", "val", "test"):  # nor are they a question of a score
        counted = read_split(pack, name, folder.workspace())
        left_out = int((ambiguous["split"] == name).sum())
        assert len(counted) == pack.counts[name] - left_out
        assert len(counted.pick(np.arange(len(counted)))[0]) == len(counted)


def test_clean_windows_do_not_drown_the_others(tmp_path: Path) -> None:
    folder = tiled(tmp_path, 40)
    many = folder.read(folder.prepare(good="fine", tiles=TILES))
    few = folder.read(folder.prepare(good="fine", tiles=TILES | {"keep_clean": 1.5}))
    train = few[few["split"] == "train"]
    num_marked = int((~train["clean"]).sum())
    assert int(train["clean"].sum()) == int(np.ceil(1.5 * num_marked))
    key = ["split", "path", "x"]
    assert set(map(tuple, few[key].to_numpy())) < set(map(tuple, many[key].to_numpy()))
    tested = [table[table["split"] != "train"][key].to_numpy().tolist() for table in (many, few)]
    assert tested[0] == tested[1]


def test_boxes_stay_in_place_when_the_picture_is_cropped(tmp_path: Path) -> None:
    folder = tiled(tmp_path)
    crop = {"step": "crop", "options": {"right": 0.25}}
    pack = folder.prepare(good="fine", tiles=TILES | {"size": 32}, clean=[crop])
    index = folder.read(pack)
    assert set(map(tuple, index[["x", "y"]].to_numpy())) == {(0, 0), (0, 32)}
    assert set(index["y"][index["label"] == "pit"]) == {0}
    away = {"step": "crop", "options": {"left": 0.5}}
    with pytest.raises(DataError, match="pit is in training"):
        folder.prepare(good="fine", tiles=TILES, clean=[away])


def test_tiles_without_boxes_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Tiles get their labels from boxes"):
        fill(Folder(tmp_path)).prepare(tiles=TILES)


# Cleaning


def test_cleaning_is_shown_and_what_it_left_is_listed(tmp_path: Path) -> None:
    folder = fill(Folder(tmp_path))
    glare = np.full((20, 24, 3), 100, np.uint8)
    glare[:10] = 255
    folder.add("a/flagged.png", "a", glare)
    pack = folder.prepare(clean=[{"step": "glare", "options": {"grow": 0}}, {"step": "blur"}])
    assert pack.notes["flagged"] == [
        ["a/flagged.png", "glare: glare on 50.0% of the picture; at most 5.0% is painted over"]
    ]
    pairs = pack.notes["cleaning"]
    assert isinstance(pairs, list)
    assert [pair["label"] for pair in pairs[:2]] == ["a", "b"]
    assert len({pair["path"] for pair in pairs}) == len(pairs) == 6
    assert all(pair["change"] > 0 for pair in pairs)
    assert set(pack.reports) == {pair["file"] for pair in pairs}
    with Image.open(folder.workspace().path(pack, "cleaning-0.png")) as sheet:
        assert sheet.size == (24 + 8 + 24, 20)


def test_a_pack_carries_every_number_of_its_cleaning(tmp_path: Path) -> None:
    pack = fill(Folder(tmp_path)).prepare(clean=[{"step": "clahe", "options": {"clip": 3}}])
    (step,) = pack.preparation.clean
    assert step.options == {"clip": 3, "grid": 8}


def test_a_recipe_names_the_steps_whose_code_counts() -> None:
    config = PrepareConfig.model_validate({"clean": [{"step": "glare"}, {"step": "clahe"}]})
    assert set(iter_choices(config)) == {("cleaners", "glare"), ("cleaners", "clahe")}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"step": "glair"}, "no cleaning step is named 'glair' \\(did you mean 'glare'\\?\\)"),
        (
            {"step": "glare", "options": {"brightnes": 200}},
            "glare: no option 'brightnes' \\(did you mean 'brightness'\\?\\); there are brightness",
        ),
        (
            {"step": "clahe", "options": {"clip": 99}},
            r"clahe: clip: Input should be less than or equal to 40 \(found 99\.0\)",
        ),
        ({"step": "crop"}, "crop: the whole picture is kept"),
        ({"step": "blur", "options": {"median": 2.5}}, "median: Input should be a valid integer"),
    ],
)
def test_a_wrong_step_or_option_is_told_by_name(step: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrepareConfig.model_validate({"clean": [step]})
