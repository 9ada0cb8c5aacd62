"""A registered model as MLflow keeps it: a pyfunc with our files and our code."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from enginehouse.choices import load_choice
from enginehouse.engine import Contract

SERVED = Path(__file__).with_name("served.py")


def log_model(run_id: str, name: str, contract: Contract, files: dict[str, str]) -> str:
    """Log the files of a model, so that MLflow alone can load and run it; gives its id."""
    import mlflow
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    import enginehouse

    signature = ModelSignature(
        Schema([TensorSpec(np.dtype("uint8"), (-1, -1, -1, -1))]),
        Schema([TensorSpec(np.dtype("float32"), (-1, len(contract.classes)))]),
    )
    with warnings.catch_warnings(), mlflow.start_run(run_id=run_id):
        warnings.simplefilter("ignore")  # it asks for an example, which would run the engine here
        info = mlflow.pyfunc.log_model(
            name=name.replace(".", "-"),
            python_model=str(SERVED),
            artifacts=files,
            signature=signature,
            code_paths=[str(Path(str(enginehouse.__file__)).parent)],
            pip_requirements=_requirements(contract),
            metadata={"contract": json.loads(contract.model_dump_json())},
        )
    return str(info.model_id)


def _requirements(contract: Contract) -> list[str]:
    from importlib.metadata import version

    names = {"filelock", "mlflow", "numpy", "onnxruntime", "opencv-python-headless", "openvino"}
    names |= {"pillow", "pyarrow", "pydantic"}
    for step in contract.preparation.clean:
        names.update(load_choice("cleaners", step.step).LIBRARIES)
    return [f"{name}=={version(name)}" for name in sorted(names)]
