"""Optimisers and schedules do what torch's do; decay can stop after the first layer."""

from __future__ import annotations

import pytest
import torch

from starling.core.errors import InputError
from starling.nn.registry import ModelSpec, build_model
from starling.train.optimizers import OptimizerSettings, Schedule, ScheduleSettings, clip_gradients, make_optimizer


def rates(settings: ScheduleSettings, validations: list[float | None]) -> list[float]:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = Schedule(optimizer, settings, len(validations), higher_is_better=True)
    seen = []
    for validation in validations:
        seen.append(schedule.rate)
        optimizer.step()
        schedule.epoch_ended(validation)
    return seen


def test_schedules_by_hand() -> None:
    assert rates(ScheduleSettings(), [None] * 3) == [1, 1, 1]
    assert rates(ScheduleSettings(name="step", every=2, factor=0.1), [None] * 5) == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    assert rates(ScheduleSettings(name="cosine"), [None] * 4) == pytest.approx([1, 0.8535534, 0.5, 0.1464466])
    plateau = ScheduleSettings(name="plateau", patience=1, factor=0.5, least=0.3)
    assert rates(plateau, [0.5, 0.4, None, 0.4, 0.4, 0.4, 0.4, 0.9]) == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3])


def test_decay_on_the_first_layer_only() -> None:
    model = build_model(ModelSpec("gcn", 4, 2, settings={"hidden": 3}))
    optimizer = make_optimizer(model, OptimizerSettings(name="sgd", lr=0.1, weight_decay=0.5, decay_on="first"))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for name, weight in model.named_parameters():
        factor = 0.95 if name.startswith("graph_layers.0.") else 1.0
        torch.testing.assert_close(weight.detach(), before[name] * factor)


@pytest.mark.parametrize(("name", "kind"), [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW")])
def test_names(name: str, kind: str) -> None:
    settings = OptimizerSettings.model_validate({"name": name, "lr": 0.5})
    assert type(make_optimizer(torch.nn.Linear(1, 1), settings)).__name__ == kind


def test_refused() -> None:
    with pytest.raises(InputError, match="Momentum is a setting of sgd"):
        make_optimizer(torch.nn.Linear(1, 1), OptimizerSettings(momentum=0.9))
    with pytest.raises(InputError, match="needs a model made of graph layers"):
        make_optimizer(torch.nn.Linear(1, 1), OptimizerSettings(decay_on="first"))


def test_clipping() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    clip_gradients(model, 0)
    assert model.weight.grad.tolist() == [[3.0, 4.0]]
    clip_gradients(model, 1)
    assert model.weight.grad.norm() == pytest.approx(1, abs=1e-5)
