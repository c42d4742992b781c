"""``starling train``: learn from a graph or from its parts, in one process or in many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starling.cli.advice import advise
from starling.cli.auto import with_choice
from starling.cli.flags import Json, Quiet
from starling.cli.given_tables import given_tables
from starling.cli.output import print_json
from starling.cli.train_facts import print_result
from starling.cli.train_progress import training_progress
from starling.core.errors import InputError
from starling.core.memory import parse_budget, parse_bytes

if TYPE_CHECKING:
    from starling.train.results import TrainResult

_DATA: Any = {"show_default": False, "rich_help_panel": "Data and run"}
_MODEL: Any = {"show_default": False, "rich_help_panel": "Model"}
_STRATEGY: Any = {"show_default": False, "rich_help_panel": "Strategy: which nodes form a step"}
_TEAM: Any = {"show_default": False, "rich_help_panel": "Workers"}
_LINK: Any = {"show_default": False, "rich_help_panel": "Link prediction (--task link)"}
_TRAINING: Any = {"show_default": False, "rich_help_panel": "Training"}


def train(
    path: Annotated[
        Path | None,
        typer.Argument(help="A graph directory or a parts directory; may stand in the config instead.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings from a TOML file, such as config.toml of an earlier run; flags win over it.", **_DATA),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run directory to write; by default runs/GRAPH-NUMBER with the next number.", **_DATA)
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --run, from its newest checkpoint, as if not stopped.", **_DATA),
    ] = False,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            min=0, help="Epochs from one checkpoint to the next; 0 writes none. By default one every minute.", **_DATA
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="gcn, sage, gat, gatv2, gate, rgcn, rgat, gin, sgc or mlp; your own class as file.py:Class; a PyG convolution as "
            "pyg:ConvName. Default sage.",
            **_MODEL,
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Graph layers, that is hops a node sees. Default 2.", **_MODEL)
    ] = None,
    hidden: Annotated[int | None, typer.Option(min=1, help="Columns of the inner layers. Default 128.", **_MODEL)] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of values dropped between layers. Default 0.", **_MODEL)] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="global (all nodes), mini (some targets and their neighbours), cohesive (targets that share neighbours), cluster "
            "or saint (random sub-graphs); your own class as file.py:Class. Default global.",
            **_STRATEGY,
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="mini: targets a step. Default 1024, or all training nodes if fewer.", **_STRATEGY)
    ] = None,
    fanouts: Annotated[
        str | None,
        typer.Option(
            help="mini: neighbours to sample, one number a layer, the targets' first: 15,10; by relation: cites:10,5;*:5,5. "
            "Default all.",
            **_STRATEGY,
        ),
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, help="cohesive: batches an epoch, each of targets that share neighbours. Default 1024 in each.", **_STRATEGY
        ),
    ] = None,
    boundary_hops: Annotated[
        int | None,
        typer.Option(min=0, help="cluster: hops of neighbours around the clusters of a step. Default 0.", **_STRATEGY),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification, multilabel, regression or link. By default what the labels are.", **_TRAINING),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="accuracy, micro-f1, macro-f1 or auc; for regression mae or mse; for link auc, ap, mrr or hits@k. By default "
            "accuracy, micro-f1, mae or auc.",
            **_TRAINING,
        ),
    ] = None,
    decoder: Annotated[
        Literal["dot", "distmult", "mlp"] | None,
        typer.Option(help="How the rows of two nodes become a score; distmult has a vector a relation. Default dot.", **_LINK),
    ] = None,
    link_loss: Annotated[
        Literal["bce", "softmax", "margin"] | None,
        typer.Option(help="Binary cross-entropy, softmax over an edge and its negatives, or a margin. Default bce.", **_LINK),
    ] = None,
    negatives: Annotated[
        Literal["uniform", "degree", "batch", "local", "pairs", "shared"] | None,
        typer.Option(
            help="Which nodes take an end's place: any, by degree, from the step's other edges, of the same part; or pairs: any "
            "two nodes; or shared: any, the same for all edges of a step. Default uniform, with --sync average local.",
            **_LINK,
        ),
    ] = None,
    split_edges: Annotated[
        str | None,
        typer.Option(
            help="Percentages of training, validation and test edges, e.g. 85/5/10. By default the table 'split' of the edges, "
            "or 90/5/5 at random.",
            **_LINK,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the training nodes, at most. Default 100.", **_TRAINING)
    ] = None,
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"] | None, typer.Option(help="How weights move. Default adam.", **_TRAINING)
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. Default 0.01.", **_TRAINING)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Pull of all weights to zero. Default 0.", **_TRAINING)] = None,
    schedule: Annotated[
        Literal["constant", "cosine", "step", "plateau"] | None,
        typer.Option(help="How the learning rate changes over the epochs. Default constant.", **_TRAINING),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Scale gradients with a larger norm down to it. Default 0: leave them.", **_TRAINING)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=0, help="Stop after so many epochs without a better validation metric. Default 0: never.", **_TRAINING
        ),
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(min=1, help="Epochs from one exact evaluation to the next. Default 1.", **_TRAINING)
    ] = None,
    normalize: Annotated[
        Literal["none", "rows", "standard"] | None,
        typer.Option(
            help="rows: divide a node's features by their sum. standard: bring columns to mean 0 and deviation 1 over the "
            "training nodes. Default none.",
            **_DATA,
        ),
    ] = None,
    before: Annotated[
        float | None, typer.Option(help="Leave out edges with a later time, as if they were not there yet.", **_DATA)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice. Default 0.", **_TRAINING)] = None,
    device: Annotated[str | None, typer.Option(help="cpu, or cuda: a card for each worker. Default cpu.", **_TRAINING)] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_budget,
            metavar="SIZE",
            help="Budget of features and evaluation, with --parallel data of all that workers hold, e.g. 2GiB: larger features "
            "stay on disk, evaluation goes in blocks. Default half of what is free.",
            **_DATA,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that train together, each on its share of the parts. A graph is partitioned first. Default 1.",
            **_TEAM,
        ),
    ] = None,
    parallel: Annotated[
        Literal["hybrid", "data"] | None,
        typer.Option(
            help="hybrid: all compute each step together. data: each computes batches of its own. Default hybrid.", **_TEAM
        ),
    ] = None,
    shuffle: Annotated[
        Literal["local", "global"] | None,
        typer.Option(
            help="data: targets of a range of a worker's own, or shared batches of one process. Default local.", **_TEAM
        ),
    ] = None,
    local_only: Annotated[
        bool | None, typer.Option("--local-only", help="data: sample only within a part and its halo.", **_TEAM)
    ] = None,
    sync: Annotated[
        Literal["gradient", "stale", "average"] | None,
        typer.Option(
            help="gradient: gradients are summed after each step. stale: while the next steps compute, with older weights. "
            "average: parts train models of their own, which are averaged (with --parallel data). Default gradient.",
            **_TEAM,
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            min=1, help="average: epochs that parts train alone before their models are averaged. Default 1.", **_TEAM
        ),
    ] = None,
    correct: Annotated[
        bool | None,
        typer.Option(
            "--correct", help="average: move each mean by some steps on batches that see the edges between parts.", **_TEAM
        ),
    ] = None,
    staleness: Annotated[
        int | None,
        typer.Option(min=0, help="stale: updates that the weights of a step may lack. Default 0: none, as gradient.", **_TEAM),
    ] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(
            min=1, help="stale: batches a worker computes at once, at most staleness + 1; same results. Default 1.", **_TEAM
        ),
    ] = None,
    boundary: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Chance that a part hears of a neighbour in another part, new each epoch: 1 is exact, 0 isolates "
            "parts. Default 1. With --set: team.boundary_choice=weighted, team.boundary_mean=ratio.",
            **_TEAM,
        ),
    ] = None,
    overlap: Annotated[
        Literal["on", "off"] | None,
        typer.Option(help="Compute while messages fly; the results are the same. Default on.", **_TEAM),
    ] = None,
    balance_workers: Annotated[
        bool | None,
        typer.Option(
            "--balance-workers", help="cohesive: share out each batch by what its nodes cost, not by who owns them.", **_TEAM
        ),
    ] = None,
    wire: Annotated[
        Literal["float32", "bfloat16"] | None, typer.Option(help="Numbers in messages. Default float32.", **_TEAM)
    ] = None,
    cache: Annotated[
        int | None,
        typer.Option(
            parser=parse_bytes,
            metavar="SIZE",
            help="data: copies of the other hosts' rows that batches read most often, e.g. 256MiB; same results. Default none.",
            **_TEAM,
        ),
    ] = None,
    embedding_dim: Annotated[
        int | None,
        typer.Option(min=0, help="Learnt numbers a node. Default 64 for a graph without features, else none.", **_MODEL),
    ] = None,
    embedding_memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_budget,
            metavar="SIZE",
            help="Memory of each worker for embeddings; larger ones are in a file of the run directory. Default no limit, with "
            "--sync average a quarter of a worker's data.",
            **_MODEL,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of each worker. Default cores / workers.", **_TEAM)
    ] = None,
    transport: Annotated[
        Literal["auto", "gloo"] | None,
        typer.Option(help="auto: shared memory inside a machine, sockets between; gloo: sockets only. Default auto.", **_TEAM),
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds within which a run ends after a worker failed. Default 15.", **_TEAM)
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Take what starling forecast recommends for all that is not given.", **_TEAM)
    ] = False,
    worker_memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_budget,
            metavar="SIZE",
            help="auto: memory of each worker. Default: its share of what is free.",
            **_TEAM,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any other setting of the config, as table.name=value: model.norm=batch. Repeatable.", **_DATA
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on a graph's labels; write a run directory with settings, metrics, best weights and summary.

    starling train graph --model gcn --epochs 200 --patience 50

    starling train graph --workers 4

    starling train --config runs/graph-1/config.toml --seed 1

    starling train --run runs/graph-1 --resume
    """
    flags: dict[str, dict[str, Any]] = {
        "data": {"path": path, "normalize": normalize, "before": before},
        "model": {"name": model, "layers": layers, "hidden": hidden, "dropout": dropout},
        "strategy": {
            "name": strategy,
            "batch_size": batch_size,
            "fanouts": fanouts,
            "boundary_hops": boundary_hops,
            "batches": batches,
        },
        "task": {"name": task, "metric": metric},
        "link": {"decoder": decoder, "loss": link_loss, "negatives": negatives, "split_edges": split_edges},
        "optimizer": {"name": optimizer, "lr": lr, "weight_decay": weight_decay, "clip": clip},
        "schedule": {"name": schedule},
        "embedding": {"dim": embedding_dim, "memory": embedding_memory},
        "run": {
            "epochs": epochs,
            "seed": seed,
            "evaluate_every": evaluate_every,
            "patience": patience,
            "checkpoint_every": checkpoint_every,
            "device": device,
            "memory": memory,
        },
        "team": {
            "workers": workers,
            "parallel": parallel,
            "shuffle": shuffle,
            "local_only": local_only,
            "cache": cache,
            "boundary": boundary,
            "overlap": None if overlap is None else overlap == "on",
            "balance_workers": balance_workers,
            "wire": wire,
            "threads": threads,
            "transport": transport,
            "deadline": deadline,
        },
        "sync": {"name": sync, "staleness": staleness, "in_flight": in_flight, "every": every, "correct": correct},
    }
    tables = given_tables(config, flags, setting or [])
    if resume:
        _check_resume(run, config=config is not None, auto=auto or worker_memory is not None)
    if auto or worker_memory is not None:
        tables = with_choice(tables, auto, worker_memory, quiet=quiet)
    result = _fit(tables, run, resume=resume, quiet=quiet or json)
    print_json(result.to_json()) if json else print_result(result)
    advise(result)


def _check_resume(run: Path | None, *, config: bool, auto: bool) -> None:
    """A run that goes on has its settings."""
    if run is None:
        raise InputError("--resume goes on with a run, got none. Name its directory with --run.")
    if config or auto:
        raise InputError(
            f"--resume goes on with the settings of {run}, got {'--config' if config else '--auto'}. Leave it out."
        )


def _fit(layers: list[dict[str, dict[str, Any]]], run: Path | None, *, resume: bool, quiet: bool) -> TrainResult:
    from starling.launch.trainer import Trainer
    from starling.train.config import RunConfig
    from starling.train.config_tables import merged

    with training_progress(quiet=quiet) as watch:
        if resume and run is not None:
            return Trainer.resume(run, merged(*layers), watch=watch).fit()
        return Trainer(RunConfig.from_tables(merged(*layers)), run=run, watch=watch).fit()
