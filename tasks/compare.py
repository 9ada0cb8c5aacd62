"""The Prefect task of the stage `compare`."""

from enginehouse.compare.compare import compare
from tasks._stage import stage_task

compare_task = stage_task(compare)
