"""The recipe: everything that defines one model line, as one frozen model.

It is the form people fill in the Prefect UI, so every field is bounded and described.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.choices import iter_choices, load_choice
from enginehouse.choose.record import ChooseRules
from enginehouse.compare.record import CompareConfig
from enginehouse.engine import Target
from enginehouse.errors import RecipeError
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.export.export import ExportConfig
from enginehouse.gates import GateConfig
from enginehouse.ingest.ingest import IngestConfig
from enginehouse.measure.record import MeasureConfig
from enginehouse.prepare.config import PrepareConfig
from enginehouse.quantize.record import PLAIN, Candidate, QuantizePlan
from enginehouse.train.config import TrainConfig
from enginehouse.train.finetune import FinetuneConfig, Policy, group_parameters
from enginehouse.train.loss import check_loss
from enginehouse.train.network import build_network
from enginehouse.train.record import ModelConfig
from enginehouse.validate.validate import ValidateConfig


class DataConfig(Config):
    """Where the pictures are."""

    path: str = Field(
        min_length=1,
        max_length=1000,
        description="Folder of the data set, relative to the project or absolute.",
    )


class Recipe(Config):
    """One model line: from a folder of pictures to its engines."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$",
        description="Name of the model line, and of the registered model.",
    )
    data: DataConfig = Field(description="Where the pictures are.")
    ingest: IngestConfig = Field(IngestConfig(), description="How labels and parts are read.")
    validation: ValidateConfig = Field(
        ValidateConfig(), description="What the data must be like to be let through."
    )
    prepare: PrepareConfig = Field(PrepareConfig(), description="Picture size and splits.")
    weights: str = Field(
        "none",
        min_length=1,
        max_length=1000,
        description="What the network starts from: none (random), default (what the model family "
        "offers for the architecture), or a file (safetensors or a torch state dict), relative to "
        "the project or absolute.",
    )
    train: TrainConfig = Field(TrainConfig(), description="Network and training.")
    quantize: QuantizePlan = Field(
        QuantizePlan(), description="The ways to make the network smaller that are tried."
    )
    export: ExportConfig = Field(ExportConfig(), description="How the ONNX file is written.")
    targets: tuple[Target, ...] = Field(
        (Target(),), min_length=1, max_length=16, description="The engines to deliver."
    )
    compare: CompareConfig = Field(
        CompareConfig(), description="How near an engine must be to its ONNX file."
    )
    evaluate: EvaluateConfig = Field(EvaluateConfig(), description="How engines are scored.")
    measure: MeasureConfig = Field(MeasureConfig(), description="How latency is taken.")
    choose: ChooseRules = Field(
        ChooseRules(), description="When a smaller precision may ship on a target."
    )
    gates: GateConfig = Field(GateConfig(), description="What a candidate must meet to serve.")

    @model_validator(mode="after")
    def _check_targets(self) -> Recipe:
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise ValueError(f"targets: each needs a name of its own, got {', '.join(names)}")
        if not any(target.required for target in self.targets):
            raise ValueError("targets: at least one must be required")
        return self

    @property
    def problem(self) -> str:
        """What a label is to the network."""
        return self.ingest.problem

    @property
    def main_target(self) -> Target:
        """The first required target: the one that people look at first."""
        return next(target for target in self.targets if target.required)

    @property
    def reference(self) -> Target:
        """The fp32 twin of the main target."""
        return self.twin(self.main_target)

    def list_candidates(self, target: Target | None = None) -> list[Candidate]:
        """What may ship on a target, or on any of them; the network as it was trained first."""
        targets = self.targets if target is None else (target,)
        return [
            candidate
            for candidate in (Candidate(quantizer=PLAIN), *self.quantize.candidates)
            if any(each.admits(candidate.precision) for each in targets)
        ]

    @staticmethod
    def twin(target: Target) -> Target:
        """The same target in fp32: what its quality is compared with, on the same device."""
        return target.model_copy(update={"precision": "fp32", "name": f"{target.name}-fp32"})


def check_recipe(recipe: Recipe) -> None:
    """Find what only a look into the choices can find, before anything is computed.

    Raises:
        RecipeError: no such choice, or no such architecture; names the near ones. A loss that
            does not fit the problem, or tiles that do not. A change or a policy that does not fit
            the network.
    """
    for folder, name in iter_choices(recipe):
        load_choice(folder, name)
    _check_precisions(recipe)
    recipe.prepare.check_problem(recipe.problem)
    check_loss(recipe.train.loss, recipe.problem)
    load_choice("models", recipe.train.model.family).check_name(recipe.train.model.name)
    _check_network(recipe.train)


def _check_precisions(recipe: Recipe) -> None:
    """Each target's smallest precision needs a candidate that comes to it."""
    candidates = recipe.list_candidates()
    for target in recipe.targets:
        if target.precision not in {each.precision for each in candidates}:
            found = ", ".join(f"{each.label} ({each.precision})" for each in candidates)
            raise RecipeError(
                f"targets: {target.name} may ship {target.precision}, but no candidate comes to "
                f"it; there are {found}.",
                "Add one to quantize.candidates, or set the target's precision to one of these.",
            )


def _check_network(config: TrainConfig) -> None:
    """Try on the network itself what the recipe wants changed or frozen."""
    model = config.model
    is_plain = model == ModelConfig(family=model.family, name=model.name)
    if is_plain and config.finetune == FinetuneConfig():
        return
    import torch

    with torch.random.fork_rng(devices=[]):
        net = build_network(model, num_classes=2)
    Policy(net, config.finetune)
    group_parameters(net, config.finetune, config.weight_decay)
