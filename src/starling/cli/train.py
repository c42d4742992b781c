"""``starling train``: learn from a graph's labels, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starling.cli.flags import Json, Quiet
from starling.cli.output import memory_line, print_facts, print_json, show
from starling.cli.train_progress import training_progress
from starling.config.toml import parse_value, read_tables
from starling.core.errors import InputError
from starling.core.memory import parse_bytes

if TYPE_CHECKING:
    from starling.train.results import TrainResult

_HIDDEN: Any = {"show_default": False}


def train(
    path: Annotated[
        Path | None, typer.Argument(help="A graph directory or a parts directory; may stand in the config.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file, such as config.toml of an earlier run; flags go before.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Directory to write; runs/<graph>-<number> by default.", **_HIDDEN)] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="gcn, sage, gat, gatv2, gate, rgcn, gin, sgc, mlp; your own as file.py:Class; pyg:ConvName. Default sage.",
            **_HIDDEN,
        ),
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the model. Default 2.", **_HIDDEN)] = None,
    hidden: Annotated[int | None, typer.Option(min=1, help="Columns of the inner layers. Default 128.", **_HIDDEN)] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout between layers. Default 0.", **_HIDDEN)] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Which nodes form a step: global, mini, cluster or saint. Default global.", **_HIDDEN)
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Targets a step, for mini.", **_HIDDEN)] = None,
    fanouts: Annotated[str | None, typer.Option(help="Neighbours taken at each hop, as 15,10; for mini.", **_HIDDEN)] = None,
    boundary_hops: Annotated[
        int | None, typer.Option(min=0, help="Hops of neighbours around the clusters of a step, for cluster.", **_HIDDEN)
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification, multilabel or regression; by default what the labels are.", **_HIDDEN)
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="accuracy, micro-f1, macro-f1, auc; mae, mse. By default the task's own.", **_HIDDEN)
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training nodes. Default 100.", **_HIDDEN)] = None,
    optimizer: Annotated[Literal["sgd", "adam", "adamw"] | None, typer.Option(help="Default adam.", **_HIDDEN)] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. Default 0.01.", **_HIDDEN)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Decay of the weights. Default 0.", **_HIDDEN)] = None,
    schedule: Annotated[
        Literal["constant", "cosine", "step", "plateau"] | None, typer.Option(help="Of the learning rate.", **_HIDDEN)
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of the gradient; 0 for any.", **_HIDDEN)] = None,
    patience: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many epochs without a better validation metric.", **_HIDDEN)
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(min=1, help="Epochs from one exact evaluation to the next. Default 1.", **_HIDDEN)
    ] = None,
    normalize: Annotated[
        Literal["none", "rows", "standard"] | None,
        typer.Option(help="Divide features by their row's sum, or scale columns by the training nodes'.", **_HIDDEN),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice. Default 0.", **_HIDDEN)] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default cpu.", **_HIDDEN)] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_bytes,
            metavar="SIZE",
            help="For features and evaluation: larger features stay on disk, evaluation goes in blocks. Default half of what "
            "is free.",
            **_HIDDEN,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting of the config, as table.name=value: model.norm=batch. Repeatable.", **_HIDDEN),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model and write a run directory: settings, metrics, best weights, summary."""
    flags: dict[str, dict[str, Any]] = {
        "data": {"path": path, "normalize": normalize},
        "model": {"name": model, "layers": layers, "hidden": hidden, "dropout": dropout},
        "strategy": {"name": strategy, "batch_size": batch_size, "fanouts": fanouts, "boundary_hops": boundary_hops},
        "task": {"name": task, "metric": metric},
        "optimizer": {"name": optimizer, "lr": lr, "weight_decay": weight_decay, "clip": clip},
        "schedule": {"name": schedule},
        "run": {
            "epochs": epochs,
            "seed": seed,
            "evaluate_every": evaluate_every,
            "patience": patience,
            "device": device,
            "memory": memory,
        },
    }
    result = _fit(_tables(config, flags, setting or []), run, quiet=quiet or json)
    print_json(result.to_json()) if json else _print(result)


def _tables(config: Path | None, flags: dict[str, dict[str, Any]], settings: list[str]) -> list[dict[str, dict[str, Any]]]:
    """The layers of settings, lowest first: the file, the flags that were given, and --set."""
    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in flags.items()}
    asked: dict[str, dict[str, Any]] = {}
    for text in settings:
        place, equals, value = text.partition("=")
        table, dot, key = place.partition(".")
        if not (equals and dot and table and key):
            raise InputError(f"Expected --set as table.name=value, such as model.norm=batch, got '{text}'.")
        asked.setdefault(table, {})[key] = parse_value(value)
    return [{} if config is None else read_tables(config), {name: table for name, table in given.items() if table}, asked]


def _fit(layers: list[dict[str, dict[str, Any]]], run: Path | None, *, quiet: bool) -> TrainResult:
    from starling.train.config import RunConfig, merged
    from starling.train.trainer import Trainer

    with training_progress(quiet=quiet) as watch:
        return Trainer(RunConfig.from_tables(merged(*layers)), run=run, watch=watch).fit()


def _print(result: TrainResult) -> None:
    scores = {name: value for name, value in vars(result.scores).items() if value is not None}
    facts: list[tuple[str, object]] = [
        ("strategy", result.strategy),
        ("epochs", f"{result.epochs:,}, the best was {result.best_epoch:,}"),
        (result.metric, ", ".join(f"{name} {show(value)}" for name, value in scores.items())),
        ("final loss", result.final_loss),
        ("an epoch", f"{result.epoch_seconds_median:.3g} s"),
        ("time", f"{result.seconds:.1f} s"),
        memory_line(result.peak_rss_bytes),
    ]
    print_facts(f"Trained {result.run}", facts)
    print(f"Predict with: starling infer {result.run} -o predictions.csv")
