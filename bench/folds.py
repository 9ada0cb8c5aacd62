"""Out of fold on X-SDD: hot-rolled steel strip in seven classes, every picture judged once.

Four parts, each by the stages themselves in a store of its own (--parts chooses):
  scratch   ResNet-18 from random weights: macro F1 over all pictures, and seconds per fold
  transfer  a fine-tuned EfficientNet-Lite0 against a logistic regression on its own frozen
            features, on the same folds: the difference of macro F1, with an interval by part
  mobile    MobileNetV3-small from random weights, for bench/shipped.py to make smaller
  planted   3 % of the labels flipped at random: how many of them are in the first 6 % of the
            ranking of `enginehouse label-errors`

Pictures of equal pixels count once. Most of the pictures are JPEG files with the same tables, and
one class has PNG files beside them: those are written as such JPEGs, and all get numbers as names,
so that neither format, compression nor name tells a class. The pictures (Apache-2.0, Feng et al.
2021) are not part of the repository: name their folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import figure, make_parser, open_report, print_table
from _tiny import isolate
from _xsdd import PICTURES, lay_out
from numpy.typing import NDArray

F1_TARGET, SECONDS_TARGET, FOUND_TARGET = 0.95, 360.0, 0.80
LEAST_GAIN = 0.0001  # the lower end of the interval must lie above zero
PLANTED, LOOKED_AT = 0.03, 0.06  # shares of all pictures
ROUNDS = 2000  # of the bootstrap
TINY = {"family": "tiny", "name": "tiny_cnn"}
RESNET = {"name": "resnet18"}
MOBILE = {"name": "mobilenet_v3_small"}
LITE = {"family": "timm", "name": "tf_efficientnet_lite0"}
SURFACE = {"flip_vertical": True}  # has no upright


@dataclass(frozen=True)
class Run:
    """What one walk over all folds left behind.

    Attributes:
        store: where the bytes are.
        records: place in the walk (`fold1.train`) to record.
        suspects: the closing record.
    """

    store: Any
    records: dict[str, Any]
    suspects: Any

    @property
    def num_folds(self) -> int:
        """How many folds there were."""
        return int(self.suspects.num_folds)

    def read_table(self, place: str, name: str) -> Any:
        """A Parquet file of a record."""
        import pandas as pd

        return pd.read_parquet(self.store.blob_path(self.records[place].files[name]))

    def seconds(self, fold: int) -> float:
        """What preparing, training and answering took."""
        places = [f"fold{fold}.{stage}" for stage in ("prepare", "train", "answer")]
        return float(sum(self.records[place].made_by.seconds for place in places))


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=PICTURES, help="folder of class folders")
    parser.add_argument(
        "--parts", default="scratch,transfer,mobile,planted", help="which parts to run"
    )
    parser.add_argument("--folds", type=int, default=5, help="default: 5; --quick: 2")
    parser.add_argument("--state", type=Path, help="keep the store here; a rerun then goes on")
    parser.add_argument("--scratch-epochs", type=int, default=20)
    parser.add_argument("--transfer-epochs", type=int, default=8)
    parser.add_argument("--mobile-epochs", type=int, default=40)
    parser.add_argument("--planted-epochs", type=int, default=8)
    args = parser.parse_args()
    if not args.data.is_dir():
        sys.exit(f"skipped: there is no folder {args.data}; name one with --data")
    if unknown := set(args.parts.split(",")) - PARTS.keys():
        sys.exit(f"--parts: unknown {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("X-SDD out of fold", args, ("torch", "torchvision", "timm", "scikit-learn")),
    ):
        folder = args.state.resolve() if args.state else Path(scratch)
        isolate(folder)
        data = lay_out(args.data, folder / "data")
        for part in args.parts.split(","):
            PARTS[part](data, folder, args)


def run_folds(name: str, data: Path, folds: int, words: dict[str, Any]) -> Run:
    """Judge every picture of a folder by a network that has not seen it."""
    from enginehouse.artifact import Source
    from enginehouse.project import find_project
    from enginehouse.recipe import Recipe
    from flows.console import Console
    from flows.folds import walk_folds
    from flows.inspection import Inspection
    from flows.road import plainly
    from tasks._stage import PROGRESS, RunContext
    from tasks.data import resolve_data
    from tasks.weights import resolve_weights

    recipe = Recipe.model_validate({"name": name, "data": {"path": str(data)}, **words})
    project = find_project()
    store = project.open_store()
    with Console(sys.stderr):
        resolved = resolve_data(project, str(data), PROGRESS.info)
        source = Source(resolved.folder, resolved.listing)
        context = RunContext(store, name, {resolved.digest: source})
        found = walk_folds(
            recipe,
            resolved.version,
            plainly(context),
            Inspection(project, name, resolved, store),
            folds,
            resolve_weights(project, recipe, store, PROGRESS.info),
        )
    return Run(store, {each.place: each.record for each in context.outcomes}, found)


def measure_scratch(data: Path, folder: Path, args: argparse.Namespace) -> None:
    """Quality and time of a network that begins with nothing."""
    words = {
        "prepare": {"size": 32 if args.quick else 128, "val_share": 0.1},
        "train": {
            "model": TINY if args.quick else RESNET,
            "epochs": 1 if args.quick else args.scratch_epochs,
            "ema_decay": 0.99,
            "augment": SURFACE,
        },
    }
    run = run_folds("scratch", data, count_folds(args), words)
    truth, said, _, classes = read_answers(run)
    rows: list[list[object]] = []
    for index, label in enumerate(classes):
        hits = int(((truth == index) & (said == index)).sum())
        rows.append([label, hits / int((truth == index).sum()), score(truth, said, index)])
    print_table(("class, from scratch", "recall", "F1"), rows)
    times = [run.seconds(fold) for fold in range(1, run.num_folds + 1)]
    print(f"seconds per fold: {', '.join(f'{each:.0f}' for each in times)}")
    figure("folds_scratch_macro_f1", macro_f1(truth, said, len(classes)), F1_TARGET)
    figure("folds_scratch_seconds", max(times), SECONDS_TARGET, "lower")


def measure_transfer(data: Path, folder: Path, args: argparse.Namespace) -> None:
    """Fine-tuned weights against the same weights frozen below a logistic regression."""
    words = {
        "weights": "default",
        "prepare": {"size": 32 if args.quick else 128, "val_share": 0.1},
        "train": {
            "model": LITE,
            "epochs": 1 if args.quick else args.transfer_epochs,
            "ema_decay": 0.99,
            "finetune": {"layer_decay": 0.8},
            "loss": {"label_smoothing": 0.1},
            "augment": SURFACE,
        },
    }
    run = run_folds("transfer", data, count_folds(args), words)
    truth, tuned, parts, classes = read_answers(run)
    frozen = judge_frozen(run)
    scores = [macro_f1(truth, said, len(classes)) for said in (tuned, frozen)]
    low, high = bootstrap_difference(truth, tuned, frozen, parts, len(classes))
    rows: list[list[object]] = [
        [name, float((truth == said).mean()), f"{value:.4f}"]
        for name, said, value in zip(
            ("fine-tuned", "frozen, logistic regression"), (tuned, frozen), scores, strict=True
        )
    ]
    print_table(("EfficientNet-Lite0", "accuracy", "macro F1"), rows)
    print(f"difference {scores[0] - scores[1]:+.4f}, 95 % from {low:+.4f} to {high:+.4f}")
    figure("folds_transfer_gain_low", low, LEAST_GAIN)


def measure_mobile(data: Path, folder: Path, args: argparse.Namespace) -> None:
    """Quality of a small network that begins with nothing; no target is set for it."""
    words = {
        "prepare": {"size": 32 if args.quick else 128, "val_share": 0.1},
        "train": {
            "model": TINY if args.quick else MOBILE,
            "epochs": 1 if args.quick else args.mobile_epochs,
            "patience": args.mobile_epochs,  # its norms are slow: nothing shows for ten epochs
            "learning_rate": 0.002,
            "augment": SURFACE,
        },
    }
    truth, said, _, classes = read_answers(run_folds("mobile", data, count_folds(args), words))
    print(f"MobileNetV3-small from scratch: macro F1 {macro_f1(truth, said, len(classes)):.4f}")


def measure_planted(data: Path, folder: Path, args: argparse.Namespace) -> None:
    """How many of the labels that were flipped come first in the ranking."""
    place = folder / "planted"
    planted = plant_errors(data, place)
    words = {
        "prepare": {"size": 32 if args.quick else 96, "val_share": 0.1},
        "train": {
            "model": TINY if args.quick else RESNET,
            "epochs": 1 if args.quick else args.planted_epochs,
            "ema_decay": 0.99,
            "augment": SURFACE,
        },
    }
    run = run_folds("planted", place, count_folds(args), words)
    ranking = run.read_table("suspect", "ranking.parquet")
    is_planted = np.array([Path(path).stem in planted for path in ranking["path"]])
    assert is_planted.sum() == len(planted)
    rows: list[list[object]] = []
    for share in (0.01, 0.02, PLANTED, 0.04, LOOKED_AT, 0.10):
        first = round(share * len(ranking))
        rows.append([f"{share:.0%}", first, is_planted[:first].sum() / len(planted)])
    print_table(("first of the sheet", "rows", "share found"), rows)
    called = ranking["suspicious"].to_numpy()
    hits = int((called & is_planted).sum())
    print(f"{len(planted)} flipped; {called.sum()} called suspicious, {hits} of them flipped")
    found = is_planted[: round(LOOKED_AT * len(ranking))].sum() / len(planted)
    figure("folds_planted_found", float(found), FOUND_TARGET)


PARTS: dict[str, Callable[[Path, Path, argparse.Namespace], None]] = {
    "scratch": measure_scratch,
    "transfer": measure_transfer,
    "mobile": measure_mobile,
    "planted": measure_planted,
}


def count_folds(args: argparse.Namespace) -> int:
    """As asked for; two for a quick look."""
    return 2 if args.quick else int(args.folds)


def read_answers(run: Run) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """Given and answered class index and the part of every picture, and the classes."""
    truth, said, parts = [], [], []
    for fold in range(1, run.num_folds + 1):
        index = run.read_table(f"fold{fold}.prepare", "index.parquet")
        part_of = dict(zip(index["path"], index["part"], strict=True))
        place = f"fold{fold}.answer"
        table = run.read_table(place, "index.parquet")
        file = run.store.blob_path(run.records[place].files["predictions.npy"])
        said += np.load(file).argmax(axis=1).tolist()
        truth += [int(given[0]) for given in table["given"]]
        parts += [part_of[path] for path in table["path"]]
    return np.array(truth), np.array(said), np.array(parts), run.suspects.classes


def judge_frozen(run: Run) -> NDArray[Any]:
    """What a logistic regression answers, in the order of `read_answers`.

    It learns from training and validation together; the fine-tuned network does not learn from
    the latter.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = extract_features(run)
    said: list[int] = []
    for fold in range(1, run.num_folds + 1):
        index = run.read_table(f"fold{fold}.prepare", "index.parquet")
        learnt = index[index["split"] != "test"]
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        model.fit(np.stack([features[path] for path in learnt["path"]]), learnt["class_index"])
        asked = run.read_table(f"fold{fold}.answer", "index.parquet")["path"]
        said += model.predict(np.stack([features[path] for path in asked])).tolist()
    return np.array(said)


def extract_features(run: Run) -> dict[str, NDArray[np.float32]]:
    """What stands before the head of the network as it is delivered, for each picture."""
    import torch

    from enginehouse.artifact import Workspace
    from enginehouse.choices import load_choice
    from enginehouse.prepare.shards import open_pictures
    from enginehouse.train.network import normalise
    from enginehouse.train.pretrained import read_weights

    name = LITE["name"]
    family: Any = load_choice("models", LITE["family"])
    default = family.find_default(name)
    net: Any = family.build_model(name, 1000)
    weights = family.adapt_weights(name, read_weights(default.path, default.source))
    net.load_state_dict(weights, strict=False)
    net.eval().to(memory_format=torch.channels_last)
    pack = run.records["fold1.prepare"]
    index = run.read_table("fold1.prepare", "index.parquet")
    features: dict[str, NDArray[np.float32]] = {}
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        here = Workspace(run.store, Path(scratch))
        for split in ("train", "val", "test"):
            pictures = open_pictures(pack, split, here)
            paths = index[index["split"] == split].sort_values("row")["path"].tolist()
            for start in range(0, len(paths), 64):
                some = torch.from_numpy(pictures[start : start + 64])
                inputs = normalise(some, default.mean, default.std)
                found = net.forward_head(net.forward_features(inputs), pre_logits=True).numpy()
                features |= dict(zip(paths[start : start + 64], found, strict=True))
    print(f"frozen features of {len(features)} pictures", flush=True)
    return features


def plant_errors(source: Path, target: Path) -> set[str]:
    """Copy the pictures, some of them into a wrong class folder; returns the names of those."""
    shutil.rmtree(target, ignore_errors=True)
    files = sorted(source.glob("*/*"))
    classes = sorted({path.parent.name for path in files})
    rng = np.random.default_rng(0)
    wrong = set(rng.choice(len(files), max(1, round(PLANTED * len(files))), replace=False).tolist())
    for number, path in enumerate(files):
        label = path.parent.name
        if number in wrong:
            label = str(rng.choice([each for each in classes if each != label]))
        (target / label).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / label / path.name)
    return {files[number].stem for number in wrong}


def score(truth: NDArray[Any], said: NDArray[Any], index: int) -> float:
    """F1 of one class."""
    hits = ((truth == index) & (said == index)).sum()
    return float(2 * hits / max(1, (truth == index).sum() + (said == index).sum()))


def macro_f1(truth: NDArray[Any], said: NDArray[Any], num_classes: int) -> float:
    """Mean F1 over the classes."""
    return float(np.mean([score(truth, said, index) for index in range(num_classes)]))


def bootstrap_difference(
    truth: NDArray[Any], one: NDArray[Any], other: NDArray[Any], parts: NDArray[Any], num: int
) -> tuple[float, float]:
    """The 95 % interval of the difference of macro F1, over parts drawn with replacement."""
    rng = np.random.default_rng(0)
    names, part_of = np.unique(parts, return_inverse=True)
    drawn = np.empty(ROUNDS)
    for number in range(ROUNDS):
        weights = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names))
        values = [_weighted_f1(truth, said, weights[part_of], num) for said in (one, other)]
        drawn[number] = values[0] - values[1]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _weighted_f1(truth: NDArray[Any], said: NDArray[Any], weights: NDArray[Any], num: int) -> float:
    """Macro F1 where each picture counts so many times; over the classes that were drawn."""
    confusion = np.bincount(truth * num + said, weights, minlength=num * num).reshape(num, num)
    support, answers = confusion.sum(axis=1), confusion.sum(axis=0)
    drawn = support > 0
    return float((2 * confusion.diagonal()[drawn] / (support + answers)[drawn]).mean())


if __name__ == "__main__":
    main()
