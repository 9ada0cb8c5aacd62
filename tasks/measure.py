"""The Prefect task of the stage `measure`."""

from enginehouse.measure.measure import measure
from tasks._stage import stage_task

measure_task = stage_task(measure)
