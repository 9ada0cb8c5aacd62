"""The text of a label file, whatever its encoding; never a guess that nothing supports.

Knows encodings, and nothing of labels.
"""

from __future__ import annotations

import codecs
import re

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._frequent_characters import HAN, HANGUL
from enginehouse.labels import Finding

LIBRARIES: tuple[str, ...] = ()

_BOMS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_EAST_ASIAN = ("gb18030", "big5", "cp932", "euc_kr", "euc_jp")
_WESTERN = frozenset("äöüßàâáãåæçéèêëíìîïñóòôõøœúùûý")
_CENTRAL = frozenset("ąćęłńóśźżáčďéěíňřšťúůýžäöüßőűâăîşţđ")
_SIGNS = frozenset("°²³µ±·×÷§€£%–—‘’“”„«»…®™½¼\xa0")
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE_BYTES = 65536


def decode_text(content: bytes, whole: bool = True) -> tuple[str, str]:
    """Decode a text file.

    Byte order marks count first, then UTF-16 by its zero bytes, then UTF-8. What is none of
    them is taken for a national encoding only where its words read as words of such a language.

    Args:
        whole: False if the content is only the beginning, which may end within a character.

    Returns:
        text without byte order mark, name of the encoding.

    Raises:
        DataError: the encoding is not recognised, or the file is damaged.
    """
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _decode(content[len(mark) :], encoding, whole), encoding
    wide = _find_utf16(content)
    if wide:
        return _decode(content, wide, whole), wide
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content, whole)
    except UnicodeDecodeError as error:
        if _is_damaged_utf8(content):
            line = content.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"It is UTF-8, but byte {error.start} (in line {line}) is not.",
                "Mend that line, or write the file again as UTF-8.",
            ) from error
    else:
        if not _is_chance(text):
            return text, "utf-8"
    if b"\0" in content:
        raise DataError("It is no text.", "")
    encoding = _find_national(content)
    return _decode(content, encoding, whole), encoding


def peek_text(files: Files, path: str) -> str | None:
    """The beginning of a text file, or None if the file is no text that we can read."""
    size = 65536
    head = files.head(path, size)
    try:
        text = decode_text(head, whole=len(head) < size)[0]
    except DataError:
        return None
    odd = sum(character < " " and character not in "\t\n\r\f\x1a" for character in text)
    return None if odd > 2 + 0.02 * len(text) else text


def note_encoding(path: str, encoding: str) -> list[Finding]:
    """What to say of a file's encoding: nothing of UTF-8."""
    if encoding == "utf-8":
        return []
    detail = f"The text of {path} is taken as {encoding.upper()}."
    return [Finding("info", "text encoding", path, detail, "Save it as UTF-8 to be sure.")]


def _decode(content: bytes, encoding: str, whole: bool) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(content, whole)
    except UnicodeDecodeError as error:
        raise DataError(
            f"It begins as {encoding.upper()}, but byte {error.start} is not.",
            "Write the file again, as UTF-8.",
        ) from error


def _find_utf16(content: bytes) -> str:
    """UTF-16 without a mark: zeros in every second byte, as digits and commas have them."""
    even, odd = content[0::2].count(0), content[1::2].count(0)
    if even + odd <= 0.1 * len(content) or min(even, odd) > 0.02 * len(content):
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def _is_chance(text: str) -> bool:
    """Whether bytes are UTF-8 by chance only, as a few Chinese words in GB18030 are."""
    special = "\n".join(line for line in text[:_SAMPLE_BYTES].splitlines() if not line.isascii())
    if not special or max(special) > "\u07ff" or _is_latin(special, _WESTERN | _CENTRAL):
        return False
    chinese = [c for c in _try(special.encode(), "gb18030") if c > "\x7f"]
    return bool(chinese) and HAN.issuperset(chinese)


def _is_damaged_utf8(content: bytes) -> bool:
    """Whether far more of the bytes above ASCII are UTF-8 than are not."""
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    return sum(character > "\x7f" for character in text) - wrong >= 9 * wrong


def _find_national(content: bytes) -> str:
    lines = dict.fromkeys(line for line in content.splitlines() if not line.isascii())
    sample = b"\n".join(lines)[:_SAMPLE_BYTES]
    if _is_latin(_try(sample, "cp1252"), _WESTERN):
        return "cp1252"
    dos_or_mac = any(_is_latin(_try(sample, name), _WESTERN) for name in ("mac_roman", "cp850"))
    if not dos_or_mac and _is_latin(_try(sample, "cp1250"), _CENTRAL):
        return "cp1250"
    if _is_cyrillic(_try(sample, "cp1251")):
        return "cp1251"
    scores = {encoding: _score_east_asian(_try(sample, encoding)) for encoding in _EAST_ASIAN}
    best = max(scores, key=scores.__getitem__)  # the first of equals
    if scores[best] < 1:
        raise DataError(
            "Its text is not UTF-8, and its encoding is not recognised.",
            "Save the file as UTF-8 (in Excel: `CSV UTF-8`).",
        )
    return best


def _try(sample: bytes, encoding: str) -> str:
    """The sample's text, or "" if it cannot be this encoding."""
    try:  # the sample may end within a character
        return codecs.getincrementaldecoder(encoding)().decode(sample, False)
    except UnicodeDecodeError:
        return ""


def _is_latin(text: str, letters: frozenset[str]) -> bool:
    """Whether special letters stand within words of plain ones, and signs outside of words."""
    for word in _WORD.findall(text.replace("\xb5", "u")):  # the micro sign counts as a letter
        special = [letter for letter in word.lower() if letter > "\x7f"]
        cased = word.islower() or word.isupper() or word[1:].islower()
        if special and not (cased and letters.issuperset(special)):
            return False
        if 2 * len(special) > len(word) or re.search("ñ(?![aeiouáéíóú])", word.lower()):
            return False
    return bool(text) and _has_plain_signs(text)


def _is_cyrillic(text: str) -> bool:
    """Whether all special words are Russian by their letters, and written in one case."""
    words = [word for word in _WORD.findall(text.replace("\xb5", "u")) if not word.isascii()]
    cased = all(word.islower() or word.isupper() or word[1:].islower() for word in words)
    alphabet = all(re.fullmatch("[а-яёА-ЯЁ]{2,}", word) for word in words)
    small = sum(letter.islower() for word in words for letter in word)
    most = 2 * small >= sum(map(len, words))
    return bool(words) and cased and alphabet and most and _has_plain_signs(text)


def _has_plain_signs(text: str) -> bool:
    """Whether what is neither ASCII nor a letter is usual, and never within a word."""
    odd = {sign for sign in text if sign > "\x7f" and not sign.isalpha()} - _SIGNS
    return not odd and not re.search(r"[^\W\d_][°²³±·×÷§€£½¼®„“”‘«»\xa0][^\W\d_]", text)


def _score_east_asian(text: str) -> float:
    """How much a text consists of frequent characters: 1 and more is a language.

    Text in the wrong encoding becomes random characters, most of which are rare.
    """
    special = [character for character in text if character > "\x7f"]
    runs = re.findall(r"[a-z]?[^\x00-\x7f]+[a-z]?", text)
    stray = all(sum(c > "\x7f" for c in run) == 1 < len(run) for run in runs)
    return 0 if not special or stray else sum(map(_weigh, special)) / len(special)


def _weigh(character: str) -> int:
    if character in HAN or character in HANGUL:
        return 4
    if "\u3041" <= character <= "\u30ff" or character in "、。，．：；（）「」【】％～":
        return 3
    for encoding in ("gb2312", "euc_jp", "big5"):  # the first level of each holds what is in use
        code = character.encode(encoding, "ignore")
        first = {"gb2312": b"\xb0\xd7", "euc_jp": b"\xb0\xcf", "big5": b"\xa4\xc6"}[encoding]
        if len(code) == 2 and first[0] <= code[0] <= first[1]:
            return 1
    return 0 if "\uac00" <= character <= "\ud7a3" else -3
