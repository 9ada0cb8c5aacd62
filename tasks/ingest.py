"""The Prefect task of the stage `ingest`."""

from enginehouse.ingest.ingest import ingest
from tasks._stage import stage_task

ingest_task = stage_task(ingest)
