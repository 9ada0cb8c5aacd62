"""Small generated data sets, each with one thing that goes wrong (or right) in the field."""

from tests.twins import boxes, pictures, tables, versions
from tests.twins._draw import Twin

TWINS: list[Twin] = [*pictures.TWINS, *boxes.TWINS, *tables.TWINS, *versions.TWINS]
