"""The Prefect task of the stage `choose`."""

from enginehouse.choose.choose import choose
from tasks._stage import stage_task

choose_task = stage_task(choose)
