"""The Prefect task of the stage `evaluate`."""

from enginehouse.evaluate.evaluate import evaluate
from tasks._stage import stage_task

evaluate_task = stage_task(evaluate)
