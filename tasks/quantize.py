"""The Prefect task of the stage `quantize`."""

from enginehouse.quantize.quantize import quantize
from tasks._stage import stage_task

quantize_task = stage_task(quantize)
