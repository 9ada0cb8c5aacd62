"""The Prefect task of the stage `answer`."""

from enginehouse.answer.answer import answer
from tasks._stage import stage_task

answer_task = stage_task(answer)
