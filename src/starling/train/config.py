"""Everything a run depends on, in one value: read from TOML and flags, checked, saved with the run.

Each table of the file is one component's settings. Those of the model and the strategy are checked by the component that has the
chosen name; the rest are small models, each in its component's own file, but those of the data and of the loop, which are here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from starling.config.settings import Choice, Whole, checked
from starling.config.toml import Tables, read_tables, write_tables
from starling.core.errors import InputError, nearest
from starling.core.manifest import Record
from starling.core.memory import Size
from starling.core.user_class import ClassPlace
from starling.engine.data.stages import PipelineSettings
from starling.train.embeddings import EmbeddingSettings, check_embeddings
from starling.train.links.settings import LinkSettings, check_averaged_links
from starling.train.optimizers import OptimizerSettings, ScheduleSettings
from starling.train.sync_settings import SyncSettings
from starling.train.tasks import TaskSettings
from starling.train.team_settings import TeamSettings

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


CHOICES = {name for name, field in RunConfig.model_fields.items() if field.annotation is Choice}
"""Tables whose settings are those of the component that they name."""


def read_config(path: Path) -> Tables:
    """The tables of a config file. Paths in it, of the data and of a user's own files, start at the folder it is in."""
    tables, folder = read_tables(path), path.resolve().parent
    data = tables.get("data", {})
    if isinstance(data.get("path"), str):
        data["path"] = str(folder / data["path"])
    for name in CHOICES & tables.keys():
        given = tables[name].get("name")
        place = ClassPlace.parse(given) if isinstance(given, str) else None
        if place is not None:
            tables[name]["name"] = str(ClassPlace(folder / place.file, place.name))
    return tables
