"""One forecast from what a user asked to what is answered: the table, the choice, its command, and what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import psutil

from starling.core.errors import InputError
from starling.core.memory import format_bytes
from starling.plan.calibration import Calibration
from starling.plan.forecast.candidates import Asked, Offer
from starling.plan.forecast.command import Told, command_line
from starling.plan.forecast.forecast import Forecast, Means, Plan, forecast
from starling.plan.forecast.model import ForecastModel, forecast_model
from starling.plan.forecast.network import Network
from starling.plan.forecast.remedies import nothing_fits
from starling.plan.forecast.scaling import Point, scaled_plans, worker_counts
from starling.plan.forecast.seconds import Cluster
from starling.plan.forecast.subject import Subject
from starling.plan.forecast.ways import Way


@dataclass(frozen=True)
class Request:
    """What a user asked. `worker_memory` None: what this machine has free; `network` None: workers of this machine."""

    asked: Asked
    model: str = "sage"
    layers: int = 2
    hidden: int = 128
    dropout: float = 0.0
    worker_memory: int | None = None
    network: Network | None = None
    threads: int | None = None
    simulate: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """What came out."""

    subject: Subject
    request: Request
    model: ForecastModel
    found: Forecast
    points: tuple[Point, ...]
    """The simulated clusters, where they were asked for."""
    calibration: Calibration
    notes: tuple[str, ...]
    refusal: str | None
    """Why nothing is recommended, and what would help."""

    @property
    def command(self) -> str | None:
        """What runs the recommended plan."""
        best = self.found.best
        return None if best is None else command_line(best, self.told)

    @property
    def told(self) -> Told:
        """What a command must say again."""
        r = self.request
        return Told(
            self.subject.path,
            self.subject.parts is not None,
            r.model,
            r.layers,
            r.hidden,
            r.dropout,
            r.seed,
            r.threads,
            self.subject.even_edges,
        )

    def to_json(self) -> dict[str, Any]:
        """With the keys of docs/forecast.md."""
        facts, request = self.subject.facts, self.request
        answer: dict[str, Any] = {
            "graph": {
                "path": None if self.subject.path is None else str(self.subject.path),
                "nodes": facts.nodes,
                "edges": facts.edges,
                "features": facts.features,
                "classes": facts.classes,
                "train": facts.train,
                "parts": self.subject.parts,
            },
            "model": {"name": request.model, "layers": request.layers, "hidden": request.hidden, "weights": self.model.weights},
            "workers": request.asked.workers,
            "worker_memory_bytes": request.worker_memory,
            "network": None if request.network is None else {
                "bytes_per_second": request.network.bandwidth, "latency_seconds": request.network.latency
            },
            "calibration": {
                "measured": self.calibration.measured.isoformat(),
                "quick": self.calibration.quick,
                "machine": self.calibration.machine.model_dump(),
                "warning": self.calibration.warning(),
            },
            "assumptions": list(self.notes),
            "plans": [plan.to_json() | {"command": command_line(plan, self.told)} for plan in self.found.plans],
            "recommended": self.found.recommended,
            "command": self.command,
            "refusal": self.refusal,
        }  # fmt: skip
        if self.points:
            answer["simulation"] = {"plan": self.points[0].plan.way.strategy, "points": [p.to_json() for p in self.points]}
        return answer


def answer(subject: Subject, request: Request, offer: Offer, calibration: Calibration) -> Answer:
    """Make the forecast."""
    if request.asked.parts != subject.parts:
        request = replace(request, asked=replace(request.asked, parts=subject.parts))
    if request.simulate is not None and request.simulate > subject.facts.nodes:
        raise InputError(
            f"Expected at most as many simulated workers as the {subject.facts.nodes:,} nodes, got {request.simulate:,}. Lower "
            "--simulate."
        )
    model = forecast_model(request.model, subject.facts, layers=request.layers, hidden=request.hidden, dropout=request.dropout)
    machines = Machines(request, calibration)
    means = Means(
        subject.cut, lambda way: subject.sizes(way, len(model.layers)), machines.of, machines.limit, request.network is None
    )
    found = forecast(subject.facts, model, request.asked, offer, means)
    if not found.plans:
        raise InputError(
            f"No way to train with {request.asked.words} by {request.asked.workers} "
            f"worker{'s' * (request.asked.workers > 1)} is forecast. Leave one of them out, or change --workers."
        )
    _refuse_what_nobody_runs(found, request)
    refusal = None
    if found.best is None:
        least = min(found.plans, key=lambda plan: plan.memory_bytes)
        refusal = nothing_fits(subject.facts, model, request.asked, offer, means, least)
    points: list[Point] = []
    if request.simulate is not None:
        points = scaled_plans(
            subject.facts,
            model,
            _way_to_scale(found, request),
            means,
            worker_counts(request.simulate),
        )
    notes = [*subject.notes, *machines.notes]
    return Answer(subject, request, model, found, tuple(points), calibration, tuple(notes), refusal)


def _refuse_what_nobody_runs(found: Forecast, request: Request) -> None:
    """A parallelism that was asked for and that no plan of several workers has would be ignored."""
    asked = request.asked
    if asked.parallel is None or asked.workers == 1 or any(not plan.way.alone for plan in found.plans):
        return
    raise InputError(
        f"The strategy {asked.strategy} is not trained by {asked.workers} workers with --parallel {asked.parallel}. Leave one of "
        "them out."
    )


def _way_to_scale(found: Forecast, request: Request) -> Way:
    """What is simulated: hybrid `global`, or the strategy that was asked for."""
    if request.asked.strategy == "saint":
        raise InputError("The strategy saint draws from a whole graph, in one process, so there is no cluster to simulate.")
    strategy = request.asked.strategy or "global"
    plan: Plan = next((p for p in found.plans if p.way.strategy == strategy and not p.way.in_turn), found.plans[0])
    return replace(plan.way, parallel="hybrid", boundary=1.0, sync="gradient")


class Machines:
    """The machines workers are on: this one for all of them, or one like it for each where a network is given."""

    def __init__(self, request: Request, calibration: Calibration) -> None:
        self._request, self._calibration = request, calibration
        self._free = int(psutil.virtual_memory().available)
        local = calibration.link("shared-memory")
        self._network = request.network or Network(local.bandwidth, local.latency, shared_memory=True)

    def of(self, way: Way) -> Cluster:
        """Rates, network and crowding of a way's workers."""
        cores = self._calibration.machine.cores
        together = way.workers if self._network.shared_memory else 1
        threads = self._request.threads or max(1, cores // together)
        return Cluster(self._calibration.with_threads(threads), self._network, max(1.0, together * threads / cores))

    def limit(self, way: Way) -> int:
        """Memory of each worker."""
        if self._request.worker_memory is not None:
            return self._request.worker_memory
        return self._free // (way.workers if self._network.shared_memory else 1)

    @property
    def notes(self) -> list[str]:
        """What was assumed, in words."""
        found = []
        if self._request.worker_memory is None:
            shared = ", divided among workers" if self._network.shared_memory and self._request.asked.workers > 1 else ""
            found.append(f"memory: the {format_bytes(self._free)} that are free here{shared} (say --worker-memory)")
        if not self._network.shared_memory:
            found.append(f"machines: one for each worker, like the calibrated one ({self._calibration.machine.processor})")
        return found
