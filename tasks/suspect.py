"""The Prefect task of the stage `suspect`."""

from enginehouse.suspect.suspect import suspect
from tasks._stage import stage_task

suspect_task = stage_task(suspect)
