"""Merging listings: what becomes of each new file."""

from __future__ import annotations

import unicodedata

from enginehouse.merge import plan_merge

OLD = {"ok/a.jpg": "1", "ok/b.jpg": "2", "pit/c.jpg": "3", "notes.txt": "n"}


def test_every_new_file_has_one_fate() -> None:
    new = {
        "ok/a.jpg": "1",
        "ok/b.jpg": "other",
        "ok/d.jpg": "4",
        "ok/copy.jpg": "2",
        "pit/moved.jpg": "2",  # it would bear another label: the check of the whole decides
        "ok/.DS_Store": "j",
    }
    merge = plan_merge(new, OLD, replace=False)
    assert merge.added == ("ok/d.jpg", "pit/moved.jpg")
    assert merge.same == ("ok/a.jpg",)
    assert merge.repeats == {"ok/copy.jpg": "ok/b.jpg"}
    assert merge.clashes == {"ok/b.jpg": "is there with other content"}
    assert merge.junk == ("ok/.DS_Store",)
    assert plan_merge(new, OLD, replace=True).replaced == ("ok/b.jpg",)


def test_a_repeat_that_a_label_file_may_name_is_kept() -> None:
    merge = plan_merge({"ok/copy.jpg": "2", "labels.csv": "l"}, OLD, replace=False)
    assert merge.added == ("labels.csv", "ok/copy.jpg")


def test_what_cannot_lie_beside_what_is_there_is_in_the_way_even_with_replace() -> None:
    nfc, nfd = (unicodedata.normalize(form, "é.jpg") for form in ("NFC", "NFD"))
    new = {"ok": "x", "notes.txt/a.jpg": "y", nfd: "z"}
    merge = plan_merge(new, OLD | {nfc: "z"}, replace=True)
    assert merge.clashes.keys() == new.keys()
    assert merge.added == merge.replaced == ()
