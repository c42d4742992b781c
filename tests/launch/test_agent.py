"""Where workers of one machine meet."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from starling.launch.agent import meeting_place


def test_a_port_that_torch_remembers_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two stores are such that torch would not find them by their ports, as after many runs in one process."""
    asked: list[int] = []

    def forgetful(host: str, port: int, **how: Any) -> TCPStore:
        asked.append(port)
        found = port == 0 and asked.count(0) <= 2
        return TCPStore(host, port, **(how | {"multi_tenant": how["multi_tenant"] and not found}))

    monkeypatch.setattr(torch.distributed, "TCPStore", forgetful)
    store = meeting_place()
    assert asked.count(0) == 3
    again = TCPStore("127.0.0.1", store.port, is_master=True, wait_for_workers=False, multi_tenant=True)
    store.set("said", "here")
    assert again.get("said") == b"here"
