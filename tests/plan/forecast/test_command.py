"""The command of a plan says what the plan is, and nothing that another plan would need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from starling.plan.forecast.command import Told, command_line
from starling.plan.forecast.forecast import Plan
from starling.plan.forecast.memory import Memory
from starling.plan.forecast.ways import Way

TOLD = Told(Path("my graph"), is_parts=False, model="gcn", layers=3, hidden=64)
NEEDED = Memory(1, 1, 1, 1, 1, 1, 1, 1, 1)


def line(way: Way, told: Told = TOLD, memory: Memory = NEEDED) -> str:
    return command_line(Plan(way, memory, 0, 1.0, 0.0, 1, fits=True, why=""), told)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way("global", "hybrid", "gradient", 1, 1), "--strategy global"),
        (
            Way("mini", "hybrid", "gradient", 4, 4, batch_size=64, fanouts=(5, "all", 3)),
            "--strategy mini --batch-size 64 --fanouts 5,all,3 --workers 4 --parallel hybrid",
        ),
        (
            Way("global", "hybrid", "gradient", 4, 4, boundary=0.1),
            "--strategy global --workers 4 --parallel hybrid --boundary 0.1",
        ),
        (Way("cohesive", "hybrid", "gradient", 1, 1, batches=20), "--strategy cohesive --batches 20"),
    ],
)
def test_a_plan_as_a_person_types_it(way: Way, words: str) -> None:
    assert line(way) == f"starling train 'my graph' --model gcn --layers 3 --hidden 64 {words}"


def test_parts_in_turn_are_cut_first() -> None:
    way = Way("mini", "data", "average", 8, 2, fanouts=(5, 5, 5))
    trained = "--strategy mini --fanouts 5,5,5 --workers 2 --parallel data --sync average"
    assert line(way) == (
        "starling partition 'my graph' -p 8 -o 'my graph-parts8' && "
        f"starling train 'my graph-parts8' --model gcn --layers 3 --hidden 64 {trained}"
    )
    parts = replace(TOLD, path=Path("parts"), is_parts=True)
    assert line(way, parts) == f"starling train parts --model gcn --layers 3 --hidden 64 {trained}"


def test_a_budget_is_rounded_up() -> None:
    assert line(Way("global", "hybrid", "gradient", 1, 1), memory=replace(NEEDED, budget=(5 << 20) + 1)).endswith(
        "--memory 6MiB"
    )


def test_what_else_was_said() -> None:
    told = replace(TOLD, path=None, model="sgc", seed=7)
    assert line(Way("global", "hybrid", "gradient", 1, 1), told) == (
        "starling train graph --model sgc --layers 3 --seed 7 --strategy global"
    )


def test_what_was_assumed_of_threads_and_edges_is_asked_for() -> None:
    told = replace(TOLD, path=None, threads=1, even_edges=True)
    assert line(Way("global", "hybrid", "gradient", 4, 4), told) == (
        "starling partition graph -p 4 -o graph-parts4 --balance edges && "
        "starling train graph-parts4 --model gcn --layers 3 --hidden 64 --threads 1 --strategy global --workers 4 --parallel hybrid"
    )
    assert "partition" not in line(Way("global", "hybrid", "gradient", 1, 1), told), "one process reads the graph as it is"
