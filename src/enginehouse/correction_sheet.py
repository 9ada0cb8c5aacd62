"""The words of a sheet of corrections, shared by who writes it and who reads it.

A sheet has a row per picture. A row whose label is no longer the given one corrects it. Knows
nothing of workbooks, data sets or networks.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# Columns that are read; a sheet may have any others, in any order.
PATH, GIVEN, LABEL, MD5 = "path", "given", "label", "md5"
READ = (PATH, GIVEN, LABEL, MD5)

REMOVE = "(remove)"  # in place of a label: the picture is taken out
TAKEN_OUT = "taken out by hand"  # the reason that the quarantine then gives

NAME = "corrections.xlsx"
_NAMES = re.compile(r"corrections[^/]*\.(xlsx|csv)", re.IGNORECASE)


def is_corrections(path: str) -> bool:
    """Whether a file is a sheet of corrections by its name, as `corrections-2.csv` is."""
    return _NAMES.fullmatch(PurePosixPath(path).name) is not None
