"""Losses of link prediction by hand, and what its settings refuse."""

from __future__ import annotations

import math

import pytest
import torch

from starling.core.errors import InputError
from starling.train.config import RunConfig
from starling.train.links.settings import LinkSettings
from starling.train.links.task import LinkTask, edge_losses
from starling.train.tasks import TaskSettings

EDGE, NEGATIVE = torch.tensor([2.0, 0.0]), torch.tensor([[1.0, -1.0], [0.5, 3.0]])


def test_losses_by_hand() -> None:
    soft = lambda x: math.log1p(math.exp(x))  # noqa: E731
    found = edge_losses(EDGE, NEGATIVE, LinkSettings(loss="bce")).tolist()
    assert found == pytest.approx([soft(-2) + (soft(1) + soft(-1)) / 2, soft(0) + (soft(0.5) + soft(3)) / 2])
    found = edge_losses(EDGE, NEGATIVE, LinkSettings(loss="softmax")).tolist()
    e = math.exp
    assert found == pytest.approx([-math.log(e(2) / (e(2) + e(1) + e(-1))), -math.log(1 / (1 + e(0.5) + e(3)))])
    found = edge_losses(EDGE, NEGATIVE, LinkSettings(loss="margin", margin=1.5)).tolist()
    assert found == pytest.approx([(0.5 + 0) / 2, (2 + 4.5) / 2])


def test_a_step_counts_its_edges_share() -> None:
    task = LinkTask(LinkSettings(loss="margin"), TaskSettings(), 8)
    scores = torch.cat([EDGE[:, None], NEGATIVE], 1)
    loss = task.loss(scores, torch.empty(2, 0), torch.full((2,), 1 / 8))
    assert float(loss) == pytest.approx(float(edge_losses(EDGE, NEGATIVE, LinkSettings(loss="margin")).sum()) / 8)
    assert task.score.name == "auc"


def test_settings_of_links_need_the_task() -> None:
    with pytest.raises(InputError, match=r"\[link\] are for --task link, got the task classification"):
        RunConfig.from_tables({"data": {"path": "g"}, "task": {"name": "classification"}, "link": {"decoder": "mlp"}})
    with pytest.raises(InputError, match="A given split has its own shares"):
        RunConfig.from_tables(
            {"data": {"path": "g"}, "task": {"name": "link"}, "link": {"split": "given", "split_edges": "90/5/5"}}
        )
    with pytest.raises(InputError, match="add up to 100"):
        RunConfig.from_tables({"data": {"path": "g"}, "task": {"name": "link"}, "link": {"split_edges": "90/5"}})
