"""Wiring: flows, and the command line over them. Whoever imports it, no library phones home."""

from __future__ import annotations

import logging
import os
import sys

TELEMETRY_OFF = {
    "DO_NOT_TRACK": "true",  # Prefect's client and MLflow
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GX_ANALYTICS_ENABLED": "false",
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime, whose import begins a session
    "DVC_NO_ANALYTICS": "true",
    "ITERATIVE_DO_NOT_TRACK": "true",  # DVC's telemetry library
}
for _name, _value in TELEMETRY_OFF.items():
    os.environ.setdefault(_name, _value)

# OpenVINO reports every import unless this module is absent; no variable switches it off.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

# A run's progress goes to Prefect at this level (PREFECT_LOGGING_EXTRA_LOGGERS).
logging.getLogger("enginehouse").setLevel(logging.INFO)
os.environ.setdefault("PREFECT_LOGGING_EXTRA_LOGGERS", "enginehouse")
