"""What TensorRT and TensorRT-RTX share: the same API under two module names.

Not a backend: every function takes the imported module (`tensorrt` 10.x or 11.x, or
`tensorrt_rtx` 1.x) as `trt`. Networks are strongly typed, so the precision lies in the graph:
explicit Q/DQ for INT8, casts for fp16 and bf16. Failures of the libraries come as None, False or a
negative number and words in the logger; here they become exceptions. API:
docs.nvidia.com/deeplearning/tensorrt.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends._gpu import Gpu
from enginehouse.backends._tensorrt_graph import check_symmetric
from enginehouse.engine import Contract, Pictures, Precision, Probabilities, Sidecar, Target
from enginehouse.errors import EngineError, EngineMismatch, RecipeError, Unavailable

PLAN = "engine.plan"
PRECISIONS: dict[Precision, str] = {
    "fp32": "as the graph is typed, without TF32",
    "fp16": "as the graph is typed",
    "bf16": "as the graph is typed",
    "int8": "as the graph is typed; what is float in fp32, without TF32",
}


def install_command(extra: str) -> str:
    """What brings an extra into the checkout's environment."""
    return f".venv/bin/pip install -c requirements.lock -e '.[{extra}]'"


@contextlib.contextmanager
def explain_missing(module: str, extra: str) -> Iterator[None]:
    """Around an import of `tensorrt` or `tensorrt_rtx`.

    Raises:
        Unavailable: it is not installed, or its shared libraries are not.
    """
    try:
        yield
    except (ImportError, OSError) as error:  # OSError: the package is here, its libraries are not
        absent = isinstance(error, ModuleNotFoundError) and error.name == module
        found = f"the extra {extra} is not installed" if absent else f"it says {error}"
        raise Unavailable(
            f"{module} cannot be loaded: {found}.", f"Install it: {install_command(extra)}"
        ) from error


def find_missing(module: str, extra: str, import_library: Callable[[], Any]) -> str | None:
    """Why `tensorrt` or `tensorrt_rtx` cannot be imported here (one sentence), or None."""
    if importlib.util.find_spec(module) is None:
        return f"The extra {extra} is not installed."
    try:
        import_library()
    except Unavailable as error:
        return error.message
    return None


def list_capabilities(target: Target) -> tuple[str, ...]:
    """`sm86+sm120` as `("8.6", "12.0")`; empty for `gpu`.

    Raises:
        RecipeError: the target's device is the cpu.
    """
    if target.device == "cpu":
        raise RecipeError(
            f"Target {target.name!r}: backend {target.backend} runs on NVIDIA GPUs, the target's "
            "device is cpu.",
            "Set its device to gpu or to capabilities such as sm86, or choose another backend.",
        )
    if target.device == "gpu":
        return ()
    numbers = [name.removeprefix("sm") for name in target.device.split("+")]
    return tuple(f"{number[:-1]}.{number[-1]}" for number in numbers)


def check_capability(target: Target, gpu: Gpu) -> None:
    """Raises Unavailable when the GPU here is none of those that the target names."""
    wanted = list_capabilities(target)
    if wanted and gpu.capability not in wanted:
        raise Unavailable(
            f"Target {target.name!r} is for compute capability {' or '.join(wanted)}; the GPU "
            f"here ({gpu.model}) has {gpu.capability}.",
            "Run it on a worker that has such a GPU, or set the target's device to gpu.",
        )


def build_plan(
    trt: Any,
    onnx: Path,
    target: Target,
    contract: Contract,
    report: Report,
    configure: Callable[[Any], None],
) -> bytes:
    """Parse, build and serialise.

    Args:
        trt: the module.
        onnx: the graph.
        target: gives the batch profile.
        contract: gives input name and size.
        report: progress.
        configure: what a backend sets in the builder's config besides.

    Returns:
        The plan.

    Raises:
        EngineError: the graph cannot be parsed or built; names node and operator where known.
    """
    check_symmetric(onnx)
    report("parse ONNX", 0, 2)
    logger = _make_logger(trt)
    builder = trt.Builder(logger)
    flag = trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    network = builder.create_network(1 << int(flag))
    _parse(trt, onnx, network, logger)
    config = builder.create_builder_config()
    # TF32 is on by default and rounds fp32 products to 10 bits: "fp32" is to mean fp32.
    config.clear_flag(trt.BuilderFlag.TF32)
    configure(config)
    _add_profile(builder, config, target, contract, logger)
    report("build engine", 1, 2)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise EngineError(
            f"{trt.__name__} {trt.__version__} cannot build the engine: {logger.last_words()}",
            "Choose another architecture or device for this target, or make it optional.",
        )
    report("built", 2, 2)
    return bytes(memoryview(plan))


def _parse(trt: Any, onnx: Path, network: Any, logger: Any) -> None:
    parser = trt.OnnxParser(network, logger)
    if parser.parse_from_file(str(onnx)):
        return
    errors = [parser.get_error(number) for number in range(parser.num_errors)]
    said = [
        f"node {error.node_name()!r} ({error.node_operator()}): {error.desc()}" for error in errors
    ]
    raise EngineError(
        f"{trt.__name__} {trt.__version__} cannot parse the graph: "
        f"{'; '.join(said) or logger.last_words()}",
        "Choose another architecture for this target, or make it optional.",
    )


def _add_profile(
    builder: Any, config: Any, target: Target, contract: Contract, logger: Any
) -> None:
    """The batch sizes that the engine accepts, and the one that its kernels are chosen for."""
    batch = target.batch
    profile = builder.create_optimization_profile()
    shapes = [(n, 3, contract.size, contract.size) for n in (batch.min, batch.opt, batch.max)]
    profile.set_shape(contract.input_name, *shapes)
    if config.add_optimization_profile(profile) < 0:
        raise EngineError(
            f"The batch profile {batch.min}/{batch.opt}/{batch.max} does not fit the graph: "
            f"{logger.last_words()}",
            "Choose another batch profile for this target.",
        )


def _make_logger(trt: Any) -> Any:
    """A logger that keeps the errors, which is all that the libraries say of a failure."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.errors.append(" ".join(message.split()))

        def last_words(self) -> str:
            return " | ".join(dict.fromkeys(self.errors[-5:])) or "it gave no reason"

    return Logger()


class TensorRtSession:
    """An execution context with buffers on the current CUDA device; calls must not overlap."""

    def __init__(self, trt: Any, plan: Path, sidecar: Sidecar) -> None:
        import torch

        logger = _make_logger(trt)
        self._contract = sidecar.contract
        # The runtime must live as long as the engine, the engine as long as the context.
        self._runtime = trt.Runtime(logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan.read_bytes())
        engine = self._engine
        self._context: Any = None if engine is None else engine.create_execution_context()
        if self._context is None:
            raise EngineError(
                f"{trt.__name__} {trt.__version__} cannot load the engine: {logger.last_words()}",
                "Build the engine again on this device.",
            )
        found = tuple(engine.get_tensor_shape(self._contract.output_name))
        if found[1:] != (len(self._contract.classes),):
            raise EngineMismatch(
                f"The engine's output is {found}; its sidecar promises "
                f"{len(self._contract.classes)} classes.",
                "Take engine and sidecar from the same release.",
            )
        self._logger = logger
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def run(self, pictures: Pictures) -> Probabilities:
        """float32 [n, classes] of uint8 [n, 3, size, size]; n within the batch profile.

        Raises:
            EngineError: the engine refused the shape or failed.
        """
        import torch

        names = self._contract
        with torch.cuda.stream(self._stream):
            source = torch.from_numpy(pictures).cuda()
            result = torch.empty((len(pictures), len(names.classes)), device="cuda")
            done = (
                self._context.set_input_shape(names.input_name, pictures.shape)
                and self._context.set_tensor_address(names.input_name, source.data_ptr())
                and self._context.set_tensor_address(names.output_name, result.data_ptr())
                and self._context.execute_async_v3(self._stream.cuda_stream)
            )
            if not done:
                raise EngineError(
                    f"The engine failed on {pictures.shape}: {self._logger.last_words()}",
                    "Keep to the engine's batch profile and picture size.",
                )
            answer: Probabilities = result.cpu().numpy()  # waits for the stream
        return answer

    def close(self) -> None:
        """Give context, engine and runtime back, in this order."""
        self._context = None
        self._engine = None
        self._runtime = None
