"""Encodings of label files: told right even from a few words, or refused."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from enginehouse.errors import DataError
from enginehouse.formats._class_names import (
    choose_class_names,
    find_class_names,
    read_class_names,
)
from enginehouse.formats._text import decode_text, peek_text
from tests.unit.formats.lay_out import lay_out

WORDS = {
    "gb18030": ["合格", "划伤", "不良", "裂纹", "缺陷", "正常", "瑕疵", "联通"],
    "big5": ["正常", "刮傷", "不良", "裂紋", "合格"],
    "cp932": ["良品", "キズ", "不良", "汚れ", "割れ"],
    "euc_kr": ["정상", "불량", "스크래치", "결함"],
    "cp1252": [
        "Kratzer für",
        "Größe",
        "défaut",
        "éraflé",
        "arañazo",
        "5 µm",
        "20 °C",
        "Maß – groß",
    ],
    "cp1250": ["pękł", "źle, pękł"],
    "cp1251": ["брак", "царапина", "Годен"],
}


@pytest.mark.parametrize(
    ("encoding", "word"), [(encoding, word) for encoding, words in WORDS.items() for word in words]
)
def test_a_single_word_tells_the_encoding(encoding: str, word: str) -> None:
    text = f"file,label\n1.jpg,{word}\n"
    assert decode_text(text.encode(encoding)) == (text, encoding)


@pytest.mark.parametrize("words", WORDS.values())
def test_all_words_are_right_in_utf8(words: list[str]) -> None:
    text = "\n".join(words)
    assert decode_text(text.encode()) == (text, "utf-8")


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (b"", "utf-16-le"),
        (b"", "utf-16-be"),
    ],
)
def test_unicode_with_and_without_mark(mark: bytes, encoding: str) -> None:
    text = "file,label\n1.jpg,划伤\n"
    assert decode_text(mark + text.encode(encoding)) == (text, encoding)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("Größe".encode("cp850"), "not recognised"),
        ("Größe défaut".encode("mac_roman"), "not recognised"),
        (("Größe\n" * 40).encode() + b"\xff\n", "line 41"),
        (codecs.BOM_UTF8 + b"\xff", "UTF-8"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "UTF-16-LE"),
        (b"\x89PNG\x00\x00\x00", "no text"),
    ],
)
def test_what_is_not_recognised_is_refused(content: bytes, word: str) -> None:
    with pytest.raises(DataError, match=word):
        decode_text(content)


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16-le"])
def test_a_look_may_end_within_a_character(tmp_path: Path, encoding: str) -> None:
    text = "x" + "划伤,ok\n" * 20000
    files = lay_out(tmp_path, {"a.csv": text.encode(encoding)})
    head = peek_text(files, "a.csv")
    assert head
    assert text.startswith(head)


def test_pictures_are_no_text(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"a.bin": bytes(range(256)) * 10})
    assert peek_text(files, "a.bin") is None


def test_class_names_are_found_by_name_and_content(tmp_path: Path) -> None:
    texts = {
        "classes.txt": "cat\ndog\n",
        "data/obj.names": "cat\ndog\n",
        "serving/Labels.TXT": "cat\ndog\n",
        "notes.txt": "cat\ndog\n",
        "a/labels.txt": "file,label\n1.jpg,cat\n",
        "b/labels.txt": "images/1.jpg 0\n",
        "c/names.txt": "cat\n" * 20000,
    }
    files = lay_out(tmp_path, texts, ("1.jpg",))
    found = find_class_names(files)
    assert found == ["classes.txt", "data/obj.names", "serving/Labels.TXT"]
    assert choose_class_names(found, "data/labels.csv") == ["data/obj.names"]
    assert choose_class_names(found, "other/labels.csv") == ["classes.txt"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat\n dog \n\n", ("cat", "dog")),
        ("0 cat\n1 big dog\n", ("cat", "big dog")),
        ("0: cat\n1: dog\n", ("cat", "dog")),
        ("1 cat\n2 dog\n", ("1 cat", "2 dog")),
        ("0\n1\n2\n", ("0", "1", "2")),
    ],
)
def test_class_names_are_read_in_order(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    files = lay_out(tmp_path, {"classes.txt": text})
    assert read_class_names(files, "classes.txt") == (names, [])


def test_class_names_in_gbk(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"classes.txt": "合格\n划伤\n".encode("gb18030")})
    names, findings = read_class_names(files, "classes.txt")
    assert names == ("合格", "划伤")
    assert [finding.severity for finding in findings] == ["info"]
