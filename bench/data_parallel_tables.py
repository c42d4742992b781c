"""The tables of docs/data-parallel.md, from the lines that bench/data_parallel.py kept."""

from __future__ import annotations

import statistics

from kept_lines import Line


def groups(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line["graph"], line["case"]), []).append(line)
    return found


def rate(group: list[Line]) -> float:
    return statistics.median(line["batches_per_s"] for line in group)


def distdgl_table(lines: list[Line]) -> str:
    found = groups(lines)
    out = ["| graph | fan-outs | DistDGL, batches/s | Starling | times | Starling over sockets | times |"]
    out.append("|---|---|---:|---:|---:|---:|---:|")
    for graph in dict.fromkeys(line["graph"] for line in lines):
        theirs, near, far = (rate(found[graph, case]) for case in ("distdgl", "starling", "starling, sockets"))
        fanouts = next(line["fanouts"] for line in lines if line["graph"] == graph)
        out.append(
            f"| {graph} | {fanouts} | {theirs:.1f} | {near:.1f} | {near / theirs:.2f} | {far:.1f} | {far / theirs:.2f} |"
        )
    return "\n".join(out)


def ablation_table(lines: list[Line]) -> str:
    out = ["| graph, link | | batches/s | times the first | sent an epoch, MiB |", "|---|---|---:|---:|---:|"]
    first: dict[str, float] = {}
    for (graph, case), group in groups(lines).items():
        first.setdefault(graph, rate(group))
        sent = statistics.median(line["bytes_sent_per_epoch"] for line in group) / 2**20
        place = f"{graph}, {group[0]['rate']}"
        out.append(f"| {place} | {case} | {rate(group):.2f} | {rate(group) / first[graph]:.2f} | {sent:.0f} |")
    return "\n".join(out)


def cache_table(lines: list[Line]) -> str:
    out = ["| graph, link | cache | an epoch, s | sent an epoch, MiB | hit rate |", "|---|---|---:|---:|---:|"]
    for (graph, case), group in groups(lines).items():
        seconds = statistics.median(second for line in group for second in line["epoch_seconds"])
        sent = statistics.median(line["bytes_sent_per_epoch"] for line in group) / 2**20
        hits = [worker["fetched"]["hit_rate"] for line in group for worker in line["workers"]]
        rates = [hit for hit in hits if hit is not None]
        hit = f"{statistics.mean(rates):.0%}" if rates and case != "0" else "–"
        out.append(f"| {graph}, {group[0]['rate']} | {case} | {seconds:.2f} | {sent:.0f} | {hit} |")
    return "\n".join(out)


TABLES = {"distdgl": distdgl_table, "ablation": ablation_table, "cache": cache_table}
