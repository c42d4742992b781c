"""The tables of docs/speed.md, from the lines that bench/train_speed.py kept."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A line of the table: where its numbers are, and how many times DGL's speed was asked for."""

    title: str
    case: str
    measure: str
    field: str
    target: float
    reuse: bool = True
    rate: bool = False
    unit: float = 1.0
    digits: int = 3


ROWS = (
    Row("SAGE 2 × 128, epoch, s", "sage", "full_epoch", "all_seconds", 1.8),
    Row("… input aggregated every epoch", "sage", "full_epoch", "all_seconds", 1.25, reuse=False),
    Row("SAGE 3 × 256, epoch, s", "deep", "full_epoch", "all_seconds", 1.8),
    Row("… input aggregated every epoch", "deep", "full_epoch", "all_seconds", 1.25, reuse=False),
    Row("GCN 2 × 128, epoch, s", "gcn", "full_epoch", "all_seconds", 1.4),
    Row("… input aggregated every epoch", "gcn", "full_epoch", "all_seconds", 1.0, reuse=False),
    Row("GAT 2 × 128, 4 heads, epoch, s", "gat", "full_epoch", "all_seconds", 3.0),
    Row("whole-graph inference, SAGE, s", "sage", "inference", "whole_graph_seconds", 1.5),
    Row("… input aggregated every time", "sage", "inference", "whole_graph_seconds", 1.5, reuse=False),
    Row("whole-graph inference, GCN, s", "gcn", "inference", "whole_graph_seconds", 1.5),
    Row("… input aggregated every time", "gcn", "inference", "whole_graph_seconds", 1.5, reuse=False),
    Row("whole-graph inference, GAT, s", "gat", "inference", "whole_graph_seconds", 1.5),
    Row("layer-wise inference, SAGE, s", "sage", "inference", "seconds", 1.0, reuse=False),
    Row("layer-wise inference, GCN, s", "gcn", "inference", "seconds", 1.0, reuse=False),
    Row("layer-wise inference, GAT, s", "gat", "inference", "seconds", 1.0),
    Row(
        "sampling 25, 10 with relabelling, M edges/s", "sampled", "sampling", "edges_per_s", 1.5, rate=True, unit=1e6, digits=1
    ),
    Row("sampled training, batches/s", "sampled", "sampled_training", "batches_per_s", 1.5, rate=True, digits=1),
)
SIDES: dict[str, Callable[[Line, Row], bool]] = {
    "DGL": lambda line, row: line["side"] == "dgl",
    "PyG": lambda line, row: line["side"] == "pyg",
    "imported": lambda line, row: _own(line, row, "as imported"),
    "community": lambda line, row: _own(line, row, "community"),
}


def _own(line: Line, row: Row, order: str) -> bool:
    return line["side"] == "starling" and line["order"] == order and (line["reuse"] == row.reuse)


def lines_for(document: dict[str, Any], row: Row, side: str) -> list[Line]:
    lines: Iterable[Line] = document["cases"].get(row.case, [])
    return [line for line in lines if line["measure"] == row.measure and row.field in line and SIDES[side](line, row)]


def values(document: dict[str, Any], row: Row, side: str) -> list[float]:
    """Every repetition of every round."""
    found: list[float] = []
    for line in lines_for(document, row, side):
        value = line[row.field]
        found += [one / row.unit for one in (value if isinstance(value, list) else [value])]
    return found


def speed_table(document: dict[str, Any]) -> str:
    adjacency = {line["adjacency"] for lines in document["cases"].values() for line in lines if "adjacency" in line}
    pyg = f"PyG, {', '.join(sorted(adjacency))}" if adjacency else "PyG"
    text = [f"| work | DGL | Starling, ids as imported | Starling, ids by community | times DGL | target | {pyg} | times PyG |"]
    text.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in ROWS:
        middle = {side: statistics.median(found) for side in SIDES if (found := values(document, row, side))}
        best = {side: (max if row.rate else min)(found) for side in SIDES if (found := values(document, row, side))}
        if "community" not in middle:
            continue
        shown = {side: f"{middle[side]:.{row.digits}f} ({best[side]:.{row.digits}f})" for side in middle}
        times = {peer: _times(best["community"], best[peer], row.rate) for peer in ("DGL", "PyG") if peer in best}
        spread = _times(best["imported"], best["DGL"], row.rate) if {"imported", "DGL"} <= set(best) else None
        ratio = f"{spread:.2f} → **{times['DGL']:.2f}**" if spread and "DGL" in times else "–"
        text.append(
            f"| {row.title} | {shown.get('DGL', '–')} | {shown.get('imported', '–')} | {shown['community']} | {ratio} | "
            f"{row.target:g} | {shown.get('PyG', '–')} | {_shown(times.get('PyG'))} |"
        )
    return "\n".join(text)


def _times(own: float, peer: float, rate: bool) -> float:
    return own / peer if rate else peer / own


def _shown(times: float | None) -> str:
    return "–" if times is None else f"{times:.1f}"


def memory_table(document: dict[str, Any]) -> str:
    """Peaks of each measure; those of a repetition where there is one, since they do not depend on what else ran."""
    document = {"cases": {**document["cases"], **document.get("repeated", {})}}
    text = [
        "| peak memory, GiB | DGL | Starling, ids as imported | Starling, ids by community | PyG |",
        "|---|---:|---:|---:|---:|",
    ]
    seen = set()
    for row in ROWS:
        if row.field == "whole_graph_seconds" or (key := (row.case, row.measure, row.reuse)) in seen:
            continue
        seen.add(key)
        peaks = {
            side: max(line["peak_rss_bytes"] for line in found) / 2**30
            for side in SIDES
            if (found := lines_for(document, row, side))
        }
        if "community" in peaks:
            cells = " | ".join(
                f"{peaks[side]:.2f}" if side in peaks else "–" for side in ("DGL", "imported", "community", "PyG")
            )
            above = next(r for r in ROWS if (r.case, r.measure, r.field) == (row.case, row.measure, row.field))
            title = _work(row) if above is row else f"{_work(above)} {row.title}"
            text.append(f"| {title} | {cells} |")
    return "\n".join(text)


def _work(row: Row) -> str:
    """A row's title without its unit."""
    return row.title.rsplit(",", 1)[0]


def losses_text(document: dict[str, Any]) -> str:
    """Whether all sides computed the same: the losses of each, to five digits."""
    text = ["| losses | steps compared | DGL's first and last | largest difference of Starling's |", "|---|---:|---|---:|"]
    for case, lines in document["cases"].items():
        epochs = [line for line in lines if line["measure"] == "full_epoch"]
        peer = next((line["losses"] for line in epochs if line["side"] == "dgl"), None)
        own = [line["losses"] for line in epochs if line["side"] == "starling"]
        if peer is None or not own:
            continue
        steps = min(len(peer), *map(len, own))
        largest = max(abs(a - b) / abs(b) for losses in own for a, b in zip(losses[:steps], peer[:steps], strict=True))
        text.append(f"| {case} | {steps} | {peer[0]:.5f} … {peer[steps - 1]:.5f} | {largest:.1e} |")
    return "\n".join(text)


def limits_text(document: dict[str, Any]) -> str:
    """What the machine can do, best of all rounds."""
    lines = [line for line in document["cases"].get("limits", []) if line["measure"] == "limits"]
    if not lines:
        return ""
    best = {name: max(line[name] for line in lines) for name in lines[0] if name.endswith("_per_s")}
    rates = ", ".join(
        f"{name.split('_')[0]} {name.split('_')[1]} {value:.0f}" for name, value in best.items() if "gflop" in name
    )
    return (
        f"Limits of the machine, best of all rounds: copy {best['copy_gb_per_s']:.1f} GB/s; dense products, GFLOP/s: {rates}."
    )


def failures(document: dict[str, Any]) -> str:
    failed = [
        f"- {case}, {line['side']}, round {line['round']}: status {line['status']}"
        for case, lines in document["cases"].items()
        for line in lines
        if line["measure"] == "failed"
    ]
    return "\n".join(["Contestants that failed:", *failed]) if failed else ""


def all_tables(document: dict[str, Any]) -> str:
    notes = "\n".join(f"- {note}" for note in document.get("notes", []))
    parts = [
        speed_table(document),
        notes,
        memory_table(document),
        losses_text(document),
        limits_text(document),
        failures(document),
    ]
    return "\n\n".join(part for part in parts if part)
