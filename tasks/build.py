"""The Prefect task of the stage `build`."""

from enginehouse.build.build import build
from tasks._stage import stage_task

build_task = stage_task(build)
