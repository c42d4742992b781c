"""Everything a run depends on, in one value: read from TOML and flags, checked, saved with the run.

Each table of the file is one component's settings. Those of the model and the strategy are checked by the component that has the
chosen name; the rest are the small models named below, each in its component's own file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from starling.comm.heartbeat import DEADLINE
from starling.config.settings import Choice, checked
from starling.config.toml import Tables, read_tables, write_tables
from starling.core.errors import InputError, nearest
from starling.core.manifest import Record
from starling.core.memory import Size
from starling.core.user_class import ClassPlace
from starling.engine.data.stages import PipelineSettings
from starling.train.embeddings import EmbeddingSettings, check_embeddings
from starling.train.links.settings import LinkSettings, check_averaged_links
from starling.train.optimizers import OptimizerSettings, ScheduleSettings
from starling.train.tasks import TaskSettings

Whole = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]

CONFIG = "config.toml"


class DataSettings(Record):
    """What is trained on."""

    path: Path
    """A graph directory or a parts directory."""
    normalize: Literal["none", "rows", "standard"] = "none"
    """Features divided by their row's sum, or columns brought to mean 0 and deviation 1 over the training nodes."""
    features: Whole | None = None
    """Columns of the features; written with a run, and checked when it is repeated on other data."""
    outputs: Whole | None = None
    """Outputs of the model: classes, or numbers to predict; written and checked likewise."""
    classes: tuple[str, ...] = ()
    """Names of the classes in the order of the outputs, where they have names; written with a run."""
    edge_features: Annotated[int, Field(ge=0)] | None = None
    """Columns of the edges' attributes, where the model reads them; written with a run."""
    relations: Annotated[int, Field(ge=0)] | None = None
    """Kinds of edges, where the model reads them; written with a run."""
    before: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Leave out edges with a later time, in training and evaluation, as if they were not there yet."""
    type_widths: tuple[int, ...] = ()
    """Columns of each node type, where types have features of their own; written with a run."""
    node_types: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    """Names of the types that the model has weights for, in the order of their numbers; written with a run."""


class LoopSettings(Record):
    """How long to train, and with what."""

    epochs: Whole = 100
    seed: Seed = 0
    evaluate_every: Whole = 1
    """Epochs from one exact evaluation to the next; the last epoch is always evaluated."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop after so many epochs without a better validation metric; 0 never stops early."""
    checkpoint_every: Annotated[int, Field(ge=0)] | None = None
    """Epochs from one checkpoint to the next; 0 writes none. By default there is one whenever a minute has passed."""
    device: str = "cpu"
    memory: Annotated[Size, Field(ge=1)] | None = None
    """Bytes for features and evaluation, with --parallel data for everything; half of what is free by default. Never changes a
    result beyond rounding."""
    reuse: bool = True
    """Keep aggregates of constant input features."""


class TeamSettings(Record):
    """Who computes."""

    workers: Whole = 1
    parallel: Literal["hybrid", "data"] = "hybrid"
    """`hybrid`: all workers compute each step together, each its own nodes; `data`: each worker computes batches of its own."""
    shuffle: Literal["local", "global"] | None = None
    """data: `local` (default): workers draw targets each from a range of its own; `global`: the batches of one process, shared."""
    local_only: bool = False
    """data: sample only within a part and its halo."""
    cache: Annotated[Size, Field(ge=0)] = 0
    """data: bytes for copies of the rows of other hosts that batches read most often; changes no result."""
    threads: Whole | None = None
    """Of each worker; cores / workers by default."""
    boundary: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Chance that a part hears of a neighbour in another part, drawn anew each epoch; 1 is exact, 0 isolates parts."""
    boundary_choice: Literal["even", "weighted"] = "even"
    """`even`: that chance for every neighbour; `weighted`: for as many on average, more for those that weigh more there."""
    boundary_mean: Literal["unbiased", "ratio"] = "unbiased"
    """What a mean over neighbours that stay is divided by: `unbiased`: by how many there are in the whole graph; `ratio`: by how
    many those that stay stand for, which sways less."""
    overlap: bool = True
    """Compute on own rows while others' are on their way; changes no bit."""
    wire: Literal["float32", "bfloat16"] = "float32"
    """Numbers in messages between workers."""
    transport: Literal["auto", "gloo"] = "auto"
    """`auto`: shared memory between workers of one machine, sockets between machines; `gloo`: sockets only."""
    balance_workers: bool = False
    """hybrid, cohesive: each batch is shared out between workers by what its nodes cost, not by who owns them."""
    deadline: Annotated[float, Field(gt=0, le=1e7)] = DEADLINE
    """Seconds within which a run ends when a worker has stopped answering."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.parallel == "hybrid" and (self.shuffle or self.local_only):
            asked = f"--shuffle {self.shuffle}" if self.shuffle else "--local-only"
            raise InputError(
                f"{asked} is for --parallel data; workers of --parallel hybrid compute the batches of one process."
            )
        if self.parallel == "hybrid" and self.cache:
            raise InputError("--cache is for --parallel data; workers of --parallel hybrid pull no rows out of the store.")
        if self.parallel == "data" and (self.boundary < 1 or not self.overlap or self.wire != "float32"):
            asked = "--boundary" if self.boundary < 1 else "--overlap off" if not self.overlap else "--wire"
            raise InputError(f"{asked} is for --parallel hybrid; with --parallel data nothing of the kind is sent.")
        for asked, pointless in (("boundary_choice=weighted", (0, 1)), ("boundary_mean=ratio", (1,))):
            name, _, value = asked.partition("=")
            if getattr(self, name) == value and self.boundary in pointless:
                raise InputError(
                    f"{asked} is for a --boundary that leaves out some neighbours, and {self.boundary:g} leaves out "
                    f"{'none' if self.boundary else 'all'}. Pass another --boundary, or leave out team.{name}."
                )
        if self.local_only and self.shuffle == "global":
            raise InputError(
                "--local-only computes each part's own targets, got --shuffle global, which deals out everybody's. Leave one out."
            )
        return self

    @property
    def resolved(self) -> Self:
        """The same with what was left open filled in."""
        return self.model_copy(update={"shuffle": "local"}) if self.parallel == "data" and self.shuffle is None else self


class SyncSettings(Record):
    """How weights agree."""

    name: Literal["gradient", "stale", "average"] = "gradient"
    """`gradient`: summed after each step, before the next; `stale`: while the next steps compute, with older weights; `average`:
    parts train models of their own, which are averaged now and then."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """stale: step t reads the weights after t − staleness updates; 0 is `gradient`, bit for bit."""
    in_flight: Whole = 1
    """stale: batches each worker computes at once, at most staleness + 1; changes no bit."""
    every: Whole | None = None
    """average: epochs that parts train alone before their models are averaged; 1 by default."""
    rounds: Whole = 1
    """average: averagings an epoch, where `every` is 1; between two of them a part computes its share of an epoch's steps."""
    correct: bool = False
    """average: move each mean by some steps on global batches, which see the edges between parts."""
    correct_steps: Whole = 4
    """average: how many, with `correct`."""
    moments: Literal["average", "local", "reset"] = "average"
    """average: what an optimiser remembers (momentum, Adam's means) is averaged as weights are, stays with its part, or is
    forgotten at each averaging."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name != "average" and (self.every or self.correct):
            asked = f"--every {self.every}" if self.every else "--correct"
            raise InputError(f"{asked} is for --sync average; with --sync {self.name} no models are averaged. Leave it out.")
        if self.name != "average" and (unused := {"correct_steps", "moments", "rounds"} & self.changed):
            raise InputError(f"'{min(unused)}' of [sync] is for --sync average, got --sync {self.name}. Leave it out.")
        if self.rounds > 1 and (self.every or 1) > 1:
            raise InputError(
                f"Expected one of --every and 'rounds' of [sync], got an averaging every {self.every} epochs and {self.rounds} of "
                "them an epoch. Leave one out."
            )
        if "correct_steps" in self.changed and not self.correct:
            raise InputError("'correct_steps' of [sync] is for --correct, which is off. Pass --correct, or leave it out.")
        if self.name == "average" and (self.staleness or self.in_flight > 1):
            raise InputError("--staleness and --in-flight are for --sync stale; with --sync average parts train alone.")
        if self.name == "gradient" and (self.staleness or self.in_flight > 1):
            asked = f"staleness {self.staleness}" if self.staleness else f"{self.in_flight} batches in flight"
            raise InputError(f"With --sync gradient every step waits for the one before, got {asked}. Pass --sync stale.")
        if self.in_flight > self.staleness + 1:
            raise InputError(
                f"Expected --in-flight of at most {self.staleness + 1}, as a batch in flight reads weights that lack the updates "
                f"of those before it, got {self.in_flight}. Pass --staleness {self.in_flight - 1} or more."
            )
        return self

    @property
    def resolved(self) -> Self:
        """The same with what averaging leaves open filled in."""
        return self.model_copy(update={"every": self.every or 1})


class RunConfig(Record):
    """A whole run."""

    data: DataSettings
    model: Choice = Choice(name="sage")
    strategy: Choice = Choice(name="global")
    task: TaskSettings = TaskSettings()
    link: LinkSettings = LinkSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    run: LoopSettings = LoopSettings()
    team: TeamSettings = TeamSettings()
    sync: SyncSettings = SyncSettings()
    pipeline: PipelineSettings = PipelineSettings()

    @model_validator(mode="after")
    def _check_pipeline(self) -> Self:
        if self.pipeline != PipelineSettings() and (self.team.parallel != "data" or self.sync.name == "average"):
            raise InputError(
                "[pipeline] prepares the batches of --parallel data under --sync gradient or stale, got settings of it for a run "
                "that has none. Leave it out."
            )
        return self

    @model_validator(mode="after")
    def _check_average(self) -> Self:
        if self.sync.name == "average" and self.team.parallel != "data":
            raise InputError(
                f"--sync average lets parts train alone, got --parallel {self.team.parallel}, in which they compute each step "
                "together. Pass --parallel data."
            )
        if self.sync.name == "average" and self.team.cache:
            raise InputError("With --sync average parts train alone and fetch no rows, got --cache. Leave it out.")
        if self.sync.name == "average" and self.team.shuffle:
            raise InputError(
                f"With --sync average a part's targets are its own, got --shuffle {self.team.shuffle}. Leave it out."
            )
        return self

    @model_validator(mode="after")
    def _check_link(self) -> Self:
        if self.task.name != "link" and self.link != LinkSettings():
            raise InputError(f"The settings of [link] are for --task link, got the task {self.task.name or 'of the labels'}.")
        if self.task.name == "link" and "class_weights" in self.task.changed:
            raise InputError("Link prediction has no classes to weigh, got class_weights. Leave it out.")
        if self.task.name == "link" and self.sync.name == "average":
            check_averaged_links(self.link, correct=self.sync.correct)
        if self.strategy.name == "mini" and "target_share" in self.link.changed:
            raise InputError(
                "link.target_share is for --strategy global, where a step has all edges; the targets of --strategy mini are its "
                "--batch-size. Leave it out."
            )
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_embeddings(bool(self.embedding.dim), self.sync.name)
        return self

    @classmethod
    def from_tables(cls, tables: Mapping[str, Mapping[str, Any]]) -> Self:
        """From tables as they stand in a file; a table or key nobody knows is an error that suggests the right one."""
        unknown = [name for name in tables if name not in cls.model_fields]
        if unknown:
            raise InputError(f"A config has no table [{unknown[0]}]. {nearest(unknown[0], cls.model_fields)}")
        made: dict[str, Any] = {}
        for name, table in _with_layers(tables).items():
            kind = cls.model_fields[name].annotation
            if kind is Choice:
                made[name] = Choice.from_table({"name": cls.model_fields[name].default.name, **table}, name)
            elif name == "data" and "path" not in table:
                continue  # said below, where nothing else is wrong
            elif isinstance(kind, type) and issubclass(kind, Record):
                made[name] = checked(kind, table, f"[{name}]")
        if "data" not in made:
            raise InputError('Expected a graph to train on, got none. Give its path, or a config with [data] path = "…".')
        return cls(**made)

    @property
    def shares_parts(self) -> bool:
        """Whether several workers may read one part, so that there may be more workers than parts."""
        return self.team.parallel == "data" and self.sync.name != "average" and not self.team.local_only

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a TOML file."""
        return cls.from_tables(read_config(path))

    def to_tables(self) -> Tables:
        """The tables of a file that reads back as this very config."""
        tables: Tables = {}
        for name in type(self).model_fields:
            part = getattr(self, name)
            tables[name] = part.to_table() if isinstance(part, Choice) else part.model_dump(mode="python")
        return tables

    def to_toml(self) -> str:
        """The text of that file."""
        return write_tables(self.to_tables())


def _with_layers(tables: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Where fan-outs are given and the number of layers is not, there are as many layers."""
    fanouts, model = tables.get("strategy", {}).get("fanouts"), tables.get("model", {})
    if isinstance(fanouts, str):
        fanouts = None if ":" in fanouts else fanouts.split(",")
    own = not re.fullmatch(r"[^:]*|pyg:.*", str(model.get("name", "")))  # a class of the user knows its layers
    if own or not isinstance(fanouts, list | tuple) or not fanouts or "layers" in model:
        return tables
    return {**tables, "model": {**model, "layers": len(fanouts)}}


_CHOICES = {name for name, field in RunConfig.model_fields.items() if field.annotation is Choice}


def read_config(path: Path) -> Tables:
    """The tables of a config file. Paths in it, of the data and of a user's own files, start at the folder it is in."""
    tables, folder = read_tables(path), path.resolve().parent
    data = tables.get("data", {})
    if isinstance(data.get("path"), str):
        data["path"] = str(folder / data["path"])
    for name in _CHOICES & tables.keys():
        given = tables[name].get("name")
        place = ClassPlace.parse(given) if isinstance(given, str) else None
        if place is not None:
            tables[name]["name"] = str(ClassPlace(folder / place.file, place.name))
    return tables


_KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    **{name: ("name", {name: ("*",)}) for name in (*_CHOICES, "sync", "schedule")},
    "optimizer": ("name", {"optimizer": ("momentum",)}),
    "task": ("name", {"task": ("metric", "class_weights"), "link": ("*",), "data": ("outputs", "classes")}),
    "team": (
        "parallel",
        {
            "team": (
                *("shuffle", "local_only", "cache", "boundary", "boundary_choice", "boundary_mean"),
                *("overlap", "wire", "balance_workers"),
            ),
            "pipeline": ("*",),
        },
    ),
}
"""Of a table, the key that says which kind of a thing is wanted, and what is of one kind only, `*` being a whole table."""


def merged(*layers: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Tables laid over one another, later ones on top; another kind of a thing drops the settings of the one below."""
    result: Tables = {}
    for tables in layers:
        for name in _KINDS.keys() & tables.keys():
            key, owned = _KINDS[name]
            below = result.get(name, {}).get(key)
            if below is not None and tables[name].get(key, below) != below:
                _drop(result, owned)
        for name, table in tables.items():
            result[name] = {**result.get(name, {}), **table}
    return result


def _drop(tables: Tables, owned: Mapping[str, tuple[str, ...]]) -> None:
    for name in owned.keys() & tables.keys():
        keys = owned[name]
        tables[name] = {key: value for key, value in tables[name].items() if "*" not in keys and key not in keys}
