"""The Prefect task of the stage `train`."""

from enginehouse.train.train import train
from tasks._stage import stage_task

train_task = stage_task(train)
