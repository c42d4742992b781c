"""The tables of docs/forecast.md, from the lines that bench/forecast.py kept."""

from __future__ import annotations

import statistics

from kept_lines import Line

PUBLISHED = {512: 0.86, 1024: 0.77}
"""GraphTheta on Alipay, global batch, against 256 workers (§5.3.1)."""


def all_tables(kept: Line) -> str:
    parts = [plans_table(kept["plans"]), scaling_table(kept["scaling"], kept.get("cores")), published_table(kept["published"])]
    return "\n\n".join(part for part in parts if part)


def plans_table(lines: list[Line]) -> str:
    """Every plan that was said to fit, beside its run."""
    runs = [line for line in lines if line.get("measured", {}).get("peak_rss_bytes")]
    broken = [line for line in lines if "failed" in line.get("measured", {})]
    if not runs:
        return ""
    over = [line for line in runs if line["measured"]["peak_rss_bytes"] > line["limit_bytes"]]
    memory = [line["plan"]["memory_bytes"] / line["measured"]["peak_rss_bytes"] for line in runs]
    seconds = [line["plan"]["seconds_per_epoch"] / line["measured"]["epoch_seconds_median"] for line in runs]
    sent = [
        line["plan"]["bytes_per_epoch"] / line["measured"]["bytes_sent_per_epoch"]
        for line in runs
        if line["measured"]["bytes_sent_per_epoch"]
    ]
    text = [
        f"{len(runs)} plans that were said to fit were run ({len(broken)} failed): **{len(over)} exceeded the limit**. Predicted "
        f"over measured memory: median {statistics.median(memory):.2f}, from {min(memory):.2f} to {max(memory):.2f}. Seconds of an "
        f"epoch: median error {_error(seconds):.0%}." + (f" Bytes: median error {_error(sent):.1%}." if sent else ""),
        "",
        "| graph | model | plan | limit | memory | measured | epoch | measured | sent | measured |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for line in runs:
        plan, seen = line["plan"], line["measured"]
        text.append(
            f"| {line['graph']} | {line['model']} {line['layers']} × {line['hidden']} | {_way(plan)} | {line['limit']} "
            f"| {_mib(plan['memory_bytes'])} | {_mib(seen['peak_rss_bytes'])} | {plan['seconds_per_epoch']:.3f} s "
            f"| {seen['epoch_seconds_median']:.3f} s | {_mib(plan['bytes_per_epoch'])} | {_mib(seen['bytes_sent_per_epoch'])} |"
        )
    return "\n".join(text)


def scaling_table(lines: list[Line], cores: int | None) -> str:
    """Simulated clusters of this machine's workers, beside their runs."""
    lines = [line for line in lines if "epoch_seconds_median" in line["measured"]]
    if not lines:
        return ""
    ratios = [line["point"]["seconds_per_epoch"] / line["measured"]["epoch_seconds_median"] for line in lines]
    text = [
        f"Simulated against run, one thread a worker on {cores} cores: median error {_error(ratios):.0%}.",
        "",
        "| graph | model | workers | epoch, simulated | measured |",
        "|---|---|---:|---:|---:|",
    ]
    text += [
        f"| {line['graph']} | {line['model']} {line['layers']} × {line['hidden']} | {line['point']['workers']} "
        f"| {line['point']['seconds_per_epoch']:.3f} s | {line['measured']['epoch_seconds_median']:.3f} s |"
        for line in lines
    ]
    return "\n".join(text)


def published_table(lines: list[Line]) -> str:
    """GraphTheta's efficiency beside the simulated one."""
    if not lines:
        return ""
    text = ["| GraphTheta on Alipay, efficiency against 256 workers | 512 | 1,024 |", "|---|---:|---:|"]
    text.append(f"| published (§5.3.1) | {PUBLISHED[512]:.0%} | {PUBLISHED[1024]:.0%} |")
    for line in lines:
        first, *more = line["points"]
        busy = first["seconds_per_epoch"] * first["workers"]
        cells = " | ".join(f"{busy / (point['seconds_per_epoch'] * point['workers']):.0%}" for point in more)
        edges = "edges evened out" if line["balanced"] else "hubs where they fall"
        text.append(f"| simulated, {line['network'].replace(',', ', ')}, {edges} | {cells} |")
    return "\n".join(text)


def _way(plan: Line) -> str:
    words = [plan["strategy"], f"{plan['workers']} × {plan['parallel']}" if plan["workers"] > 1 else "one process"]
    words += [f"{plan['parts']} parts in turn"] if plan["sync"] == "average" else []
    words += [f"boundary {plan['boundary']:g}"] if plan["boundary"] < 1 else []
    return ", ".join(words)


def _error(ratios: list[float]) -> float:
    return statistics.median(abs(ratio - 1) for ratio in ratios)


def _mib(count: float) -> str:
    return f"{count / 2**20:,.1f} MiB" if count else "–"
