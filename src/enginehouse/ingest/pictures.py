"""All pictures of a data set, described in order: decoded now, or remembered from before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from enginehouse.artifact import Report
from enginehouse.ingest.describe import Described, Refused, describe_file
from enginehouse.memo import Memo
from enginehouse.parallel import map_in_order

AT_ONCE = 500  # pictures that are looked up, and remembered, together


def describe_pictures(
    folder: Path, listing: Mapping[str, str], paths: Sequence[str], memo: Memo, report: Report
) -> Iterator[tuple[str, Described | Refused]]:
    """Each picture with its description, in the order of `paths`.

    Only contents that the memo does not know are read and decoded, in parallel. The result is the
    same without it.

    Args:
        listing: relative path to MD5.

    Raises:
        DataError: a file is no longer what the data version says.
    """
    is_new = bytearray()
    for some in _slice(paths):
        known = memo.get_many([listing[path] for path in some])
        is_new += bytes(listing[path] not in known for path in some)
    todo = [(path, listing[path]) for path, new in zip(paths, is_new, strict=True) if new]
    fresh = map_in_order(partial(describe_file, folder), todo)
    learnt: dict[str, str] = {}
    done = 0
    for some in _slice(paths):
        new = is_new[done : done + len(some)]
        known = memo.get_many([listing[p] for p, n in zip(some, new, strict=True) if not n])
        for path, is_fresh in zip(some, new, strict=True):
            md5 = listing[path]
            description = next(fresh) if is_fresh else _parse(known.get(md5, ""))
            if description is None:  # the memo was lost in the meantime, or is damaged
                description = describe_file(folder, (path, md5))
            if is_fresh:
                learnt[md5] = json.dumps([type(description).__name__, *description])
            done += 1
            report("reading pictures", done, len(paths))
            yield path, description
        memo.put_many(learnt)
        learnt.clear()
    left = list(fresh)  # lets the workers go
    assert not left


def _slice(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), AT_ONCE):
        yield paths[start : start + AT_ONCE]


def _parse(text: str) -> Described | Refused | None:
    """A remembered description, or None if the text is none."""
    try:
        kind, *values = json.loads(text)
        return Described(*values) if kind == Described.__name__ else Refused(*values)
    except (ValueError, TypeError):
        return None
