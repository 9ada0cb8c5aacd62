"""The Prefect task of the stage `validate`."""

from enginehouse.validate.validate import validate
from tasks._stage import stage_task

validate_task = stage_task(validate)
