"""Label files that describe one picture each (VOC, YOLO, labelme): which file counts for which.

What a label file says is read by its format; here it finds its picture. A picture whose label
file is broken, doubtful or in conflict with another is left out, never taken as good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from enginehouse.files import Files, NotFound
from enginehouse.formats._pairs import Nearness, Pairs, leaves_folder, measure_nearness
from enginehouse.formats._splits import split_of
from enginehouse.labels import Box, Finding, Labelled, LeftOut, Reading, Severity

LIBRARIES: tuple[str, ...] = ()

_REMEDY = "Check that both belong together; give the picture its name in the label file."


@dataclass
class PictureLabels:
    """What one label file says of its picture.

    Attributes:
        file: the label file.
        name: of the picture, as the label file spells it; "" if it is silent.
        num_regions: regions that it lists, usable or not.
        left_out, findings: what it has that is not used, or that people should know.
        encoding: of its text.
        broken: why nothing of it can be used, in a few words; "" if it can.
    """

    file: str
    name: str = ""
    labels: tuple[str, ...] = ()
    boxes: list[Box] = field(default_factory=list)
    size: tuple[int, int] | None = None
    num_regions: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    encoding: str = "utf-8"
    broken: str = ""

    def leave_out(self, reason: str, detail: str, place: str = "") -> None:
        """Note something that is not used; the sentence is completed with file and place."""
        where = f"{self.file}, {place}" if place else self.file
        self.left_out.append(LeftOut(self.file, reason, f"{where}: {detail}", place))

    def find(
        self, severity: Severity, reason: str, detail: str, remedy: str = "", place: str = ""
    ) -> None:
        """Note a finding; the sentence is completed likewise."""
        where = f"{self.file}, {place}" if place else self.file
        finding = Finding(severity, reason, self.file, f"{where}: {detail}", remedy, place)
        self.findings.append(finding)


def assemble_pictures(files: Files, read: Iterable[PictureLabels], reading: Reading) -> None:
    """Put what label files say into `reading`, each at its picture."""
    pairs = Pairs(files)
    claims: dict[str, list[PictureLabels]] = {}
    doubtful: dict[str, PictureLabels] = {}
    encodings: dict[str, list[str]] = {}
    for labels in read:
        encodings.setdefault(labels.encoding, []).append(labels.file)
        reading.left_out += labels.left_out
        picture = _find_picture(pairs, labels, reading)
        reading.findings += labels.findings
        if picture:
            claims.setdefault(picture, []).append(labels)
        else:
            doubtful |= dict.fromkeys(pairs.namesakes(labels.file), labels)
    for picture in sorted(claims):
        chosen = _settle(picture, claims[picture], reading)
        if chosen:
            _add(picture, chosen, reading)
    for picture in sorted(set(doubtful) - set(claims)):
        detail = f"{picture} may be what {doubtful[picture].file} is about, which is not clear."
        reading.left_out.append(LeftOut(picture, "label file not usable", detail))
    for encoding, paths in encodings.items():
        if encoding != "utf-8":
            detail = f"{len(paths)} label files are taken as {encoding.upper()}, {paths[0]} first."
            remedy = "Save them as UTF-8 to be sure."
            reading.findings.append(Finding("info", "text encoding", paths[0], detail, remedy))


def _find_picture(pairs: Pairs, labels: PictureLabels, reading: Reading) -> str:
    """The picture of a label file, or "" (and why is noted)."""
    own = pairs.by_own_name(labels.file)
    if not labels.name:
        return own if isinstance(own, str) else _miss(labels, own, reading)
    found = pairs.by_given_name(labels.name, labels.file, split_of(labels.file))
    if isinstance(found, NotFound):
        if found.reason == "path outside the data" and (
            leaves_folder(labels.name) or isinstance(own, NotFound)
        ):
            return _refuse(labels, found, reading)
        if isinstance(own, NotFound):
            return _miss(labels, found, reading)
        detail = f"it names {labels.name!r}, which is not here; taken as the labels of {own}."
        labels.find("warning", "picture found by the label file's name", detail, _REMEDY)
        return own
    if isinstance(own, str) and found not in pairs.namesakes(labels.file):
        labels.broken = f"it names {labels.name!r}, but there is a picture with its own name, too"
        reading.left_out.append(
            LeftOut(labels.file, "two pictures for one label file", _say(labels))
        )
        return own
    return found


def _miss(labels: PictureLabels, why: NotFound, reading: Reading) -> str:
    detail = f"{labels.file}: {why.detail}; its {_count(labels)} not used."
    reading.left_out.append(LeftOut(labels.file, why.reason, detail))
    return ""


def _refuse(labels: PictureLabels, why: NotFound, reading: Reading) -> str:
    detail = f"{labels.file}: {why.detail}; its {_count(labels)} not used."
    remedy = "Write paths from the data folder; put the picture inside it."
    reading.findings.append(Finding("error", why.reason, labels.file, detail, remedy))
    return ""


def _count(labels: PictureLabels) -> str:
    return "1 region is" if labels.num_regions == 1 else f"{labels.num_regions} regions are"


def _settle(picture: str, claims: list[PictureLabels], reading: Reading) -> PictureLabels | None:
    """The label file that counts for a picture: the nearest one, if that is clear."""
    if len(claims) == 1:
        return claims[0]
    marks = [_measure(labels, picture) for labels in claims]
    nearest = [labels for labels, mark in zip(claims, marks, strict=True) if mark == max(marks)]
    named = ", ".join(labels.file for labels in claims)
    for labels in claims:
        if labels is not nearest[0] or len(nearest) > 1:
            detail = f"{labels.file}: {picture} has several label files ({named})"
            reading.left_out.append(LeftOut(labels.file, "several label files", f"{detail}."))
    if len(nearest) == 1:
        return nearest[0]
    detail = f"{picture} has several label files: {named}; none of them is clearly its own."
    reading.left_out.append(LeftOut(picture, "several label files", detail))
    return None


def _measure(labels: PictureLabels, picture: str) -> tuple[bool, Nearness]:
    same_stem = PurePosixPath(labels.file).stem.casefold() == PurePosixPath(picture).stem.casefold()
    return same_stem, measure_nearness(labels.file, picture)


def _add(picture: str, labels: PictureLabels, reading: Reading) -> None:
    if labels.broken:
        reading.left_out.append(LeftOut(picture, "label file not usable", _say(labels)))
        return
    if labels.left_out and not (labels.boxes or labels.labels):
        detail = f"{picture}: none of the {labels.num_regions} regions in {labels.file} is usable."
        reading.left_out.append(LeftOut(picture, "no usable label", detail))
        return
    reading.pictures[picture] = Labelled(
        labels=labels.labels,
        boxes=tuple(labels.boxes),
        split=split_of(picture) or split_of(labels.file),
        file=labels.file,
        size=labels.size,
    )


def _say(labels: PictureLabels) -> str:
    return f"{labels.file}: {labels.broken}. The whole image is left out, not just its boxes."
