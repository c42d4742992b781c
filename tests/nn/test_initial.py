"""Initial weights by threads that build models at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from starling.nn.initial import initialise, torch_seeded


class Slow(nn.Module):
    """Draws its weights itself, as users' and PyG's modules do, and lets other threads in between."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(6))

    def reset_parameters(self) -> None:
        for position in range(len(self.weights)):
            time.sleep(0.002)
            self.weights.data[position] = torch.rand(())


def test_threads_draw_what_one_draws() -> None:
    def drawn(seed: int) -> Tensor:
        model = nn.Sequential(Slow())
        initialise(model, seed)
        return model[0].weights.detach()

    alone = [drawn(seed) for seed in (1, 2)]
    assert not torch.equal(*alone)
    with ThreadPoolExecutor(4) as threads:
        for found, seed in zip(threads.map(drawn, [1, 2] * 4), [0, 1] * 4, strict=True):
            torch.testing.assert_close(found, alone[seed], rtol=0, atol=0)


def test_a_seeded_thread_has_torchs_generator_for_itself() -> None:
    def drawn(seed: int) -> list[float]:
        with torch_seeded(seed):
            found = []
            for _ in range(6):
                time.sleep(0.002)
                found.append(float(torch.rand(())))
        return found

    expected = [torch.rand(6, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        for found, alone in zip(threads.map(drawn, (1, 2)), expected, strict=True):
            torch.testing.assert_close(torch.tensor(found), alone, rtol=0, atol=1e-7)
