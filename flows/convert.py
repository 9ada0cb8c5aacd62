"""`enginehouse convert`: a source read by ingest and written out in another format."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enginehouse.convert.convert import REPORT, convert
from enginehouse.errors import DataError
from enginehouse.ingest.ingest import IngestConfig
from enginehouse.labels import Finding
from enginehouse.project import Project
from flows.source import tell_source
from flows.verdict import SHOWN, Verdict, add_findings, read_rows, render_verdict
from tasks._stage import throttled

CLIPPED = "clipped"  # a word in the reason of every finding about a box that was cut

Converted = dict[str, Any]


def find_misuse(source: Path, out: Path) -> str:
    """Why nothing can be written into `out`, or "" if it can."""
    out = Path(os.path.realpath(out))
    inside = Path(os.path.realpath(source))
    if inside.is_file():
        inside = inside.parent
    if out == inside or inside in out.parents:
        return f"{out} lies inside the source {inside}; name a folder elsewhere with --out."
    if out.exists() and not out.is_dir():
        return f"{out} is a file; name a new folder with --out."
    if out.is_dir() and any(out.iterdir()):
        return f"{out} is not empty; name a new folder with --out."
    return ""


def convert_source(
    project: Project, source: Path, ingest: IngestConfig, to: str, out: Path, with_pictures: bool
) -> tuple[Verdict, Converted | None]:
    """Read a source, write it out, and leave a report beside it.

    Returns:
        what ingest says of the source; what was written, or None if the source has errors.

    Raises:
        RecipeError: no such format.
    """
    verdict, read = tell_source(project, source, ingest)
    if read is None or verdict["errors"]:
        return verdict, None
    try:
        with tempfile.TemporaryDirectory() as scratch:
            tables = read.open_tables(Path(scratch))
            about = _describe(verdict, read_rows(tables["manifest.parquet"]))
            written = convert(
                *(read.manifest, tables, read.files, to, out, about, with_pictures),
                report=throttled("convert"),
            )
    except DataError as error:
        reason = f"cannot be written as {to}"
        add_findings(verdict, [Finding("error", reason, "", error.message, error.remedy)])
        return verdict, None
    return verdict, {"out": str(out), **written}


def _describe(verdict: Verdict, pictures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was read, clipped and dropped, each with its file and place."""
    read = Counter(row["source"] or "(folders)" for row in pictures)
    clipped = [each for each in verdict["warnings"] if CLIPPED in each["reason"]]
    return {
        "source": verdict["source"],
        "format": verdict["format"],
        "read": dict(read.most_common()),
        "clipped": clipped,
        "dropped": verdict["quarantine"],
        "ignored": verdict["ignored"],
        "warnings": [each for each in verdict["warnings"] if each not in clipped],
        "infos": verdict["infos"],
    }


def render_converted(verdict: Verdict, written: Converted | None, as_json: bool) -> str:
    """What became of a conversion, as one JSON document or as text."""
    if written is None:
        return render_verdict(verdict, as_json)
    if as_json:
        return json.dumps(written, indent=1, ensure_ascii=False)
    lines = [
        f"written  {written['out']} ({written['to']})",
        f"  read      {written['source']} ({written['format']})",
        f"  pictures  {written['images']}",
        f"  boxes     {written['boxes']}",
        f"  labels    {', '.join(written['labels'])}",
        f"  files     {_name(written['label_files'])}",
    ]
    lines += [f"  changed   {sentence}" for sentence in written["changed"]]
    for title in ("clipped", "dropped", "renamed", "warnings"):
        entries = written[title]
        if entries:
            lines.append(f"{title} ({len(entries)})")
            lines += [f"  {_say(entry)}" for entry in entries[:SHOWN]]
        if len(entries) > SHOWN:
            lines.append(f"  and {len(entries) - SHOWN} more ({REPORT} lists them)")
    return "\n".join(lines)


def _say(entry: Mapping[str, str]) -> str:
    if "name" in entry:
        return f"{entry['file']} -> {entry['name']}: {entry['reason']}"
    where = " ".join(part for part in (entry["file"], entry["place"]) if part)
    return f"{where or 'all'}: {entry['reason']}: {entry['detail']}"


def _name(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return ", ".join(parts[:3]) + more
