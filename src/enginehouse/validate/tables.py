"""The tables that are judged: a row per picture, per class, per box, and one for the set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enginehouse.choices import load_choice
from enginehouse.correction_sheet import TAKEN_OUT

if TYPE_CHECKING:
    import pandas as pd

    from enginehouse.ingest.record import Manifest

SPLITS = ("train", "val", "test")
MEANT = ("junk", TAKEN_OUT)  # reasons for which nobody misses a file that is left out


@dataclass(frozen=True)
class Tables:
    """Data frames by name, each with its id in the column `id`, and what follows from them.

    Attributes:
        frames: pictures, classes, boxes, set, quarantine. The first, the third and the last have
            the columns of the manifest's tables; `classes` has pictures (that bear it), distinct
            (contents), parts, distinct_parts (the fewer of both), missing_from (number of given
            splits without the class), lacks (their names).
        splits: those that the data brings along; () if it brings none but training.
        has_boxes: whether labels were given as boxes.
    """

    frames: Mapping[str, pd.DataFrame]
    splits: tuple[str, ...]
    has_boxes: bool

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.frames[name]

    @property
    def is_empty(self) -> bool:
        """Whether there is no usable picture."""
        return self["pictures"].empty

    @property
    def is_labelled(self) -> bool:
        """Whether any picture has a class."""
        return bool((self["pictures"]["label"] != "").any())

    @property
    def lacks_are_small(self) -> bool:
        """Whether every split that lacks a class holds too few pictures to have each class.

        Also where classes follow from boxes: a split that lacks one is then no sorting mistake.
        """
        lacking = {split for lacks in self["classes"]["lacks"] for split in lacks.split()}
        sizes = self["pictures"]["split"].value_counts()
        num_classes = len(self["classes"])
        return self.has_boxes or all(sizes[split] < num_classes for split in lacking)


def make_tables(manifest: Manifest, files: Mapping[str, Path]) -> Tables:
    """The tables of a manifest.

    Args:
        files: the manifest's files by name.
    """
    import pandas as pd

    def read(name: str) -> pd.DataFrame:
        table = pd.read_parquet(files[f"{name}.parquet"])
        return table.assign(id=table["path"])

    pictures, boxes, quarantine = read("manifest"), read("boxes"), read("quarantine")
    pictures["labels_of_content"] = pictures.groupby("pixels")["label"].transform("nunique")
    if (pictures["split"] != "").any():  # a picture that is given none is trained on, then
        pictures["split"] = pictures["split"].replace("", "train")
    given = set(pictures["split"]) - {""}
    splits = tuple(s for s in SPLITS if s in given) if given - {"train"} else ()
    classes = _describe_classes(pictures, manifest, splits)
    whole = _describe_set(pictures, classes, boxes, quarantine)
    frames = {
        "pictures": pictures,
        "classes": classes,
        "boxes": boxes,
        "set": whole,
        "quarantine": quarantine,
    }
    return Tables(frames, splits, not boxes.empty)


def add_counts(tables: Tables, counts: Mapping[str, float]) -> Tables:
    """The same tables with further columns of the whole set."""
    frames = {**tables.frames, "set": tables["set"].assign(**counts)}
    return Tables(frames, tables.splits, tables.has_boxes)


def _describe_classes(
    pictures: pd.DataFrame, manifest: Manifest, splits: tuple[str, ...]
) -> pd.DataFrame:
    labelled = pictures[pictures["label"] != ""]
    if load_choice("problems", manifest.problem).SEVERAL_LABELS:
        labelled = labelled.assign(label=labelled["labels"]).explode("label")
    classes = labelled.groupby("label").agg(
        pictures=("id", "size"), distinct=("pixels", "nunique"), parts=("part", "nunique")
    )
    # Where every picture has boxes nobody claims that there is a class for pictures without.
    declared = [name for name in manifest.classes if name != manifest.good]
    names = [*declared, *(name for name in classes.index if name not in declared)]
    classes = classes.reindex(names, fill_value=0)
    classes["distinct_parts"] = classes[["distinct", "parts"]].min(axis=1)
    present = set(zip(labelled["label"], labelled["split"], strict=True))
    lacks = [[split for split in splits if (name, split) not in present] for name in names]
    classes["missing_from"] = [len(each) for each in lacks]
    classes["lacks"] = [" ".join(each) for each in lacks]
    return classes.rename_axis("id").reset_index()


def _describe_set(
    pictures: pd.DataFrame, classes: pd.DataFrame, boxes: pd.DataFrame, quarantine: pd.DataFrame
) -> pd.DataFrame:
    import pandas as pd

    left_out = quarantine[~quarantine["reason"].isin(MEANT)]
    files = left_out.loc[left_out["place"] == "", "path"].nunique()
    rows = int((left_out["place"] != "").sum())
    used = classes.loc[classes["distinct"] > 0, "distinct"]
    num_pictures = len(pictures)
    labels = boxes.loc[boxes["label"] != "", "label"].value_counts()
    copies = int(pictures.duplicated(["pixels", "split"]).sum())  # across splits is a leak
    whole = {
        "id": "data set",
        "pictures": num_pictures,
        "classes": len(used),
        "boxes": len(boxes),
        "unlabelled": int((pictures["label"] == "").sum()),
        "quarantined_share": files / max(1, num_pictures + files),
        "left_out_share": rows / max(1, (len(boxes) or num_pictures) + rows),
        "duplicate_share": copies / max(1, num_pictures),
        "imbalance": used.max() / used.min() if len(used) else 1.0,
        "box_imbalance": labels.max() / labels.min() if len(labels) else 1.0,
    }
    return pd.DataFrame([whole])
