"""The Prefect task of the stage `prepare`."""

from enginehouse.prepare.prepare import prepare
from tasks._stage import stage_task

prepare_task = stage_task(prepare)
