"""The Prefect task of the stage `export`."""

from enginehouse.export.export import export
from tasks._stage import stage_task

export_task = stage_task(export)
