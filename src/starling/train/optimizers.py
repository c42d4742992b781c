"""Optimisers and learning-rate schedules, by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, ReduceLROnPlateau, StepLR

from starling.config.settings import Whole
from starling.core.errors import InputError
from starling.core.manifest import Record

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]

_FIRST_LAYER = "graph_layers.0."


class OptimizerSettings(Record):
    """How weights move."""

    name: Literal["sgd", "adam", "adamw"] = "adam"
    lr: Positive = 0.01
    weight_decay: AtLeastZero = 0.0
    decay_on: Literal["all", "first"] = "all"
    """`first`: only the first layer's weights decay, as in Kipf and Welling's GCN."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of sgd."""
    clip: AtLeastZero = 0.0
    """Gradients whose norm is larger are scaled down to it; 0 leaves them alone."""


_SETTINGS_OF: dict[str, set[str]] = {
    "constant": set(),
    "cosine": {"least"},
    "step": {"every", "factor"},
    "plateau": {"factor", "patience", "least"},
}


class ScheduleSettings(Record):
    """How the learning rate changes from epoch to epoch."""

    name: Literal["constant", "cosine", "step", "plateau"] = "constant"
    every: Whole = 30
    """step: epochs after which the rate is multiplied by `factor`."""
    factor: Share = 0.5
    """step and plateau."""
    patience: Whole = 10
    """plateau: evaluations without a better validation metric."""
    least: AtLeastZero = 0.0
    """cosine and plateau: the lowest rate."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if unused := self.changed - {"name"} - _SETTINGS_OF[self.name]:
            owners = " or ".join(name for name, settings in _SETTINGS_OF.items() if min(unused) in settings)
            raise InputError(f"'{min(unused)}' of [schedule] is for {owners}, got the schedule {self.name}. Leave it out.")
        return self


def make_optimizer(model: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """The optimiser over a model's weights."""
    if settings.momentum and settings.name != "sgd":
        raise InputError(f"Momentum is a setting of sgd, got the optimiser {settings.name}. Leave it out or choose sgd.")
    groups = _groups(model, settings)
    if settings.name == "sgd":
        return SGD(groups, lr=settings.lr, momentum=settings.momentum)
    return (Adam if settings.name == "adam" else AdamW)(groups, lr=settings.lr)


def _groups(model: nn.Module, settings: OptimizerSettings) -> list[dict[str, object]]:
    named = list(model.named_parameters())
    if settings.decay_on == "all":
        return [{"params": [weight for _, weight in named], "weight_decay": settings.weight_decay}]
    first = [weight for name, weight in named if name.startswith(_FIRST_LAYER)]
    if not first:
        raise InputError("decay_on = 'first' needs a model made of graph layers, got another. Set it to 'all'.")
    rest = [weight for name, weight in named if not name.startswith(_FIRST_LAYER)]
    return [{"params": first, "weight_decay": settings.weight_decay}, {"params": rest, "weight_decay": 0.0}]


class Schedule:
    """The learning rate after each epoch."""

    def __init__(self, optimizer: Optimizer, settings: ScheduleSettings, epochs: int, *, higher_is_better: bool) -> None:
        self._optimizer = optimizer
        self._plateau: ReduceLROnPlateau | None = None
        makers: dict[str, Callable[[], LRScheduler]] = {
            "cosine": lambda: CosineAnnealingLR(optimizer, T_max=epochs, eta_min=settings.least),
            "step": lambda: StepLR(optimizer, settings.every, settings.factor),
        }
        self._by_epoch = makers[settings.name]() if settings.name in makers else None
        if settings.name == "plateau":
            self._plateau = ReduceLROnPlateau(
                optimizer,
                "max" if higher_is_better else "min",
                settings.factor,
                settings.patience,
                threshold=0.0,
                min_lr=settings.least,
            )

    @property
    def rate(self) -> float:
        """The learning rate now."""
        return float(self._optimizer.param_groups[0]["lr"])

    def state(self) -> dict[str, Any]:
        """All that later rates depend on."""
        return {"rates": [group["lr"] for group in self._optimizer.param_groups]} | {
            name: made.state_dict() for name, made in self._made.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        for group, rate in zip(self._optimizer.param_groups, state["rates"], strict=True):
            group["lr"] = rate
        for name, made in self._made.items():
            made.load_state_dict(state[name])

    @property
    def _made(self) -> dict[str, LRScheduler]:
        made = {"by epoch": self._by_epoch, "plateau": self._plateau}
        return {name: scheduler for name, scheduler in made.items() if scheduler is not None}

    def epoch_ended(self, validation: float | None) -> None:
        """Move on after an epoch; `validation` is its metric where it was evaluated."""
        if self._by_epoch is not None:
            self._by_epoch.step()
        if self._plateau is not None and validation is not None:
            self._plateau.step(validation)


def clock_of(optimizer: Optimizer) -> Optimizer:
    """An optimiser of nothing for a schedule to turn, where several in turn go through the same epochs at the same rates."""
    return SGD([nn.Parameter(torch.zeros(1))], lr=optimizer.param_groups[0]["lr"])


def remembered(optimizer: Optimizer) -> list[Tensor]:
    """What an optimiser remembers, made as it is before the first step, so that it can be read and written like weights."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if isinstance(optimizer, Adam):  # AdamW is one
                optimizer.state[weight] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(weight, requires_grad=False),
                    "exp_avg_sq": torch.zeros_like(weight, requires_grad=False),
                }
            elif group["momentum"]:
                optimizer.state[weight] = {"momentum_buffer": torch.zeros_like(weight, requires_grad=False)}
    return [value for weight in optimizer.state.values() for value in weight.values()]


def moments_of(optimizer: Optimizer, state: Mapping[Any, Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """What a state of an optimiser says of each weight, in their order, without naming the weights themselves."""
    return [dict(state.get(weight, {})) for group in optimizer.param_groups for weight in group["params"]]


def state_with(optimizer: Optimizer, moments: Sequence[Mapping[str, Tensor]]) -> defaultdict[Tensor, dict[str, Tensor]]:
    """The state that `moments_of` was made from."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    return defaultdict(dict, {weight: dict(found) for weight, found in zip(weights, moments, strict=True) if found})


def clip_gradients(model: nn.Module, limit: float) -> None:
    """Scale gradients down to a norm of at most `limit`; 0 leaves them alone."""
    if limit:
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
