"""The verdict of `check`: what was found in a data set, as plain data and as text for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from enginehouse.ingest.record import Manifest
from enginehouse.labels import Finding, LeftOut

JUNK = "junk"  # the reason of files that nobody meant to be data
SHOWN = 20  # of one reason that the text names; the JSON has all
PLURALS = {"error": "errors", "warning": "warnings", "info": "infos"}

Verdict = dict[str, Any]


def make_verdict(source: Path) -> Verdict:
    """A verdict on data of which nothing is known yet."""
    return {
        "source": str(source),
        "format": "",
        "verdict": "accepted",
        "kept": {"images": 0, "boxes": 0},
        "images": 0,
        "boxes": 0,
        "classes": [],
        "picture_classes": {},
        "splits": {},
        "sizes": {},
        "label_ids": {},
        "quarantine": [],
        "ignored": [],
        "warnings": [],
        "errors": [],
        "infos": [],
        "report": "",
    }


def add_findings(verdict: Verdict, findings: Iterable[Finding]) -> None:
    """Take findings in, each once; an error rejects."""
    for finding in findings:
        entry = asdict(finding)
        entries = verdict[PLURALS[entry.pop("severity")]]
        if entry not in entries:
            entries.append(entry)
    if verdict["errors"]:
        verdict["verdict"] = "rejected"


def add_left_out(verdict: Verdict, left_out: Iterable[LeftOut]) -> None:
    """Take in what is not used."""
    for each in left_out:
        if each.reason == JUNK:
            verdict["ignored"].append(each.file)
        else:
            verdict["quarantine"].append(asdict(each))


def add_manifest(verdict: Verdict, manifest: Manifest, tables: Mapping[str, Path]) -> None:
    """Take in what ingest wrote: counts, what is left out, findings."""
    pictures = read_rows(tables["manifest.parquet"])
    boxes = read_rows(tables["boxes.parquet"])
    per_label = Counter(label for row in pictures for label in row["labels"])
    boxes_of = Counter(row["label"] for row in boxes)
    counts = {"images": len(pictures), "boxes": len(boxes)}
    verdict |= {
        "format": manifest.format,
        "kept": counts,
        **counts,
        "classes": [
            {"name": name, "index": index, "pictures": per_label[name], "boxes": boxes_of[name]}
            for index, name in enumerate(manifest.labels)
        ],
        "picture_classes": _count(row["label"] for row in pictures if row["label"]),
        "splits": _count(row["split"] for row in pictures if row["split"]),
        "sizes": _count(f"{row['width']}x{row['height']}" for row in pictures),
        "label_ids": manifest.label_ids,
    }
    rows = read_rows(tables["quarantine.parquet"])
    left_out = (LeftOut(r["path"], r["reason"], r["detail"], r["place"]) for r in rows)
    add_left_out(verdict, left_out)
    add_findings(verdict, (Finding(**row) for row in read_rows(tables["findings.parquet"])))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def render_verdict(verdict: Verdict, as_json: bool) -> str:
    """The verdict as one JSON document, or as text whose first line has the word."""
    if as_json:
        return json.dumps(verdict, indent=1, ensure_ascii=False)
    head = f"{verdict['verdict']}  {verdict['source']}"
    lines = [f"{head} ({verdict['format']})" if verdict["format"] else head, *_say_counts(verdict)]
    lines += _say_groups("errors", verdict["errors"])
    lines += _say_groups("warnings", verdict["warnings"])
    lines += _say_groups("left out", verdict["quarantine"])
    lines += _say_groups("to know", verdict["infos"])
    if verdict["ignored"]:
        lines.append(f"ignored: {_name(verdict['ignored'])}")
    if verdict["report"]:
        lines.append(f"report: {verdict['report']}")
    return "\n".join(lines)


def _say_counts(verdict: Verdict) -> list[str]:
    by_label = {entry["name"]: entry["boxes"] for entry in verdict["classes"]}
    rows = {
        "pictures": (verdict["images"], verdict["picture_classes"]),
        "boxes": (verdict["boxes"], by_label if verdict["boxes"] else {}),
        "splits": (None, verdict["splits"]),
        "sizes": (None, verdict["sizes"]),
    }
    lines = []
    for name, (total, counts) in rows.items():
        if total or counts:
            parts = [f"{label or '(no label)'} {count}" for label, count in counts.items()]
            known = f"{total}: " if total and parts else f"{total or ''}"
            lines.append(f"  {name:<9} {known}{_name(parts)}")
    return lines


def _say_groups(title: str, entries: Sequence[Mapping[str, str]]) -> list[str]:
    """Entries by reason, the remedy once for each."""
    if not entries:
        return []
    groups: dict[str, list[Mapping[str, str]]] = {}
    for entry in entries:
        groups.setdefault(entry["reason"], []).append(entry)
    lines = [f"{title} ({len(entries)})"]
    for reason, group in groups.items():
        lines.append(f"  {reason}" + (f" ({len(group)})" if len(group) > 1 else ""))
        lines += [f"    {_say_entry(entry)}" for entry in group[:SHOWN]]
        if len(group) > SHOWN:
            lines.append(f"    and {len(group) - SHOWN} more (--json lists them)")
        remedies = dict.fromkeys(entry.get("remedy", "") for entry in group[:SHOWN])
        lines += [f"    Fix: {remedy}" for remedy in remedies if remedy]
    return lines


def _say_entry(entry: Mapping[str, str]) -> str:
    named = entry["detail"].startswith(entry["file"])  # then once is enough
    where = " ".join(part for part in ("" if named else entry["file"], entry["place"]) if part)
    return f"{where}: {entry['detail']}" if where else entry["detail"]


def _name(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more
