"""Forecasts beside real runs: memory, bytes and seconds of plans that are said to fit, each trained as its command says.

    python bench/forecast.py                    # about half an hour on two cores, after starling calibrate; run nothing else
    python bench/forecast.py --scale 0.02 --cases 1 --results trial.json --print     # a trial in small
    python bench/forecast.py --tables           # the tables again, from the lines that were kept

For every graph, model, number of workers and limit, `starling forecast --json` is asked once, and every plan that fits is run by
its own command for a few epochs (of parts in turn, the one with the fewest). Raw lines go to ``results/forecast.json``, tables into
``docs/forecast.md``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import ProgramFailed, starling
from doc_tables import write_table
from forecast_tables import all_tables
from kept_lines import Line

RESULTS = Path(__file__).parent / "results" / "forecast.json"

GRAPHS = {
    "blocks": ("dcsbm", 60_000, 1_200_000, 128, 16),
    "wide": ("dcsbm", 30_000, 300_000, 602, 40),
    "skewed": ("rmat", 50_000, 1_000_000, 64, 8),
    "sparse": ("dcsbm", 200_000, 1_000_000, 32, 8),
}
"""Generator, nodes, edges, features, classes."""
CASES: list[tuple[str, str, int, int, int, str]] = [
    ("blocks", "sage", 2, 128, 1, "2GiB"),
    ("wide", "sage", 2, 128, 2, "1GiB"),
    ("skewed", "gin", 2, 64, 1, "1GiB"),
    ("sparse", "sage", 2, 256, 4, "2GiB"),
    ("blocks", "gat", 2, 128, 2, "3GiB"),
    ("wide", "gcn", 2, 64, 1, "700MiB"),
]
"""Graph, model, layers, hidden, workers, memory of each."""
TIGHT: list[tuple[str, str, int, int, int, str]] = [
    ("sparse", "sage", 2, 256, 4, "global"),
    ("blocks", "sage", 2, 128, 1, "global"),
    ("skewed", "gin", 2, 64, 1, "global"),
    ("blocks", "gat", 2, 128, 1, "mini"),
]
"""Graph, model, layers, hidden, workers, strategy; the limit is what the plan is said to need, and 2 % more."""
SCALED = (("blocks", "sage", 2, 128), ("blocks", "gcn", 3, 128), ("sparse", "sage", 2, 128))
"""Strong scaling at 1, 2 and 4 workers of one thread, simulated and run."""
ALIPAY = (
    "--nodes", 1_400_000_000, "--edges", 4_140_000_000, "--features", 575, "--classes", 2, "--train-share", 0.017,
    "--edge-features", 57, "--model", "gate", "--layers", 2, "--hidden", 64, "--threads", 1, "--strategy", "global",
)  # fmt: skip
"""GraphTheta's experiment (§5.3.1)."""


def attempted(*arguments: object) -> Any:
    """What a command answers, or how it failed, where that is a result too."""
    try:
        return starling(*arguments)
    except ProgramFailed as failure:
        return {"failed": [failure.last_line], "status": failure.status}


def prepared(place: Path, name: str, scale: float) -> Path:
    kind, nodes, edges, features, classes = GRAPHS[name]
    graph = place / name
    if not graph.exists():
        nodes, edges = int(nodes * scale), int(edges * scale)
        size = ("--nodes", nodes, "--edges", edges, "--features", features, "--classes", classes)
        starling("generate", kind, *size, "-o", graph)
    return graph


def run(command: str, place: Path, epochs: int) -> Any:
    """Run a plan's command, for a few epochs."""
    *before, last = command.split(" && ")
    for first in before:
        words = shlex.split(first)
        if not Path(words[words.index("-o") + 1]).exists():
            attempted(*words[1:])
    with tempfile.TemporaryDirectory(dir=place) as folder:
        length = ("--epochs", epochs, "--evaluate-every", epochs)
        told = attempted(*shlex.split(last)[1:], *length, "--run", Path(folder) / "run")
        told.pop("run", None)  # where it was says nothing
        return told


def compared(place: Path, options: argparse.Namespace) -> list[Line]:
    lines = []
    for name, model, layers, hidden, workers, memory in CASES[: options.cases]:
        graph = prepared(place, name, options.scale)
        flags = ("--model", model, "--layers", layers, "--hidden", hidden, "--workers", workers, "--worker-memory", memory)
        told = attempted("forecast", graph, *flags)
        case = {"graph": name, "model": model, "layers": layers, "hidden": hidden, "limit": memory, "asked": workers}
        if "failed" in told:
            lines.append({**case, "plan": None, **told})
            print(f"{case}: {told}", file=sys.stderr)
            continue
        turned = [plan for plan in told["plans"] if plan["sync"] == "average" and plan["fits"]]
        for number, plan in enumerate(told["plans"]):
            if plan in turned[1:] and number != told["recommended"]:
                continue
            line = {**case, "plan": plan, "recommended": number == told["recommended"]}
            line["limit_bytes"] = told["worker_memory_bytes"]
            if plan["fits"]:
                measured = run(plan["command"], place, options.epochs)
                keys = ("peak_rss_bytes", "epoch_seconds_median", "bytes_sent_per_epoch", "failed")
                line["measured"] = {key: measured[key] for key in keys if key in measured}
            lines.append(line)
            print(_line(line), file=sys.stderr)
    return lines


def tight(place: Path, options: argparse.Namespace) -> list[Line]:
    """Plans under limits that they barely fit."""
    lines = []
    for name, model, layers, hidden, workers, strategy in TIGHT[: options.cases]:
        graph = prepared(place, name, options.scale)
        flags = ("--model", model, "--layers", layers, "--hidden", hidden, "--workers", workers, "--strategy", strategy)
        ample = starling("forecast", graph, *flags, "--parallel", "hybrid", "--worker-memory", "64GiB")
        place_of = next(n for n, p in enumerate(ample["plans"]) if (p["workers"], p["boundary"]) == (workers, 1))
        limit = int(1.02 * ample["plans"][place_of]["memory_bytes"])
        told = attempted("forecast", graph, *flags, "--parallel", "hybrid", "--worker-memory", limit)
        case = {"graph": name, "model": model, "layers": layers, "hidden": hidden, "asked": workers}
        case |= {"limit": f"{limit >> 20}MiB", "limit_bytes": limit, "recommended": False}
        if "failed" in told:
            lines.append({**case, "plan": None, **told})
            continue
        plan = told["plans"][place_of]
        measured = run(plan["command"], place, options.epochs)
        keys = ("peak_rss_bytes", "epoch_seconds_median", "bytes_sent_per_epoch", "failed")
        lines.append({**case, "plan": plan, "measured": {key: measured[key] for key in keys if key in measured}})
        print(_line(lines[-1]), file=sys.stderr)
    return lines


def scaled(place: Path, options: argparse.Namespace) -> list[Line]:
    """Simulated clusters of 1, 2 and 4 workers of this machine, and the same for real."""
    lines = []
    for name, model, layers, hidden in SCALED[: options.cases]:
        graph = prepared(place, name, options.scale)
        flags = ("--model", model, "--layers", layers, "--hidden", hidden, "--threads", 1)
        told = starling("forecast", graph, *flags, "--workers", 4, "--strategy", "global", "--simulate", 4)
        for point in told["simulation"]["points"]:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                length = ("--epochs", options.epochs, "--evaluate-every", options.epochs)
                run = ("--workers", point["workers"], *length, "--run", Path(folder) / "run")
                measured = attempted("train", graph, *flags, *run)
            case = {"graph": name, "model": model, "layers": layers, "hidden": hidden}
            lines.append({**case, "point": point, "measured": measured})
    return lines


def published() -> list[Line]:
    """The simulated cluster of GraphTheta's experiment, on two networks, with hubs where they fall and with edges evened out."""
    lines = []
    for network, more in itertools.product(("1Gbit,200us", "10Gbit,100us"), ((), ("--edge-balance", 1.05))):
        limit = ("--workers", 2, "--worker-memory", "16TiB")  # plans beside the simulation would be simulated too
        told = starling("forecast", *ALIPAY, *limit, "--network", network, "--simulate", 1024, *more)
        points = {point["workers"]: point for point in told["simulation"]["points"]}
        lines.append({"network": network, "balanced": bool(more), "points": [points[count] for count in (256, 512, 1024)]})
    return lines


def _line(line: Line) -> str:
    plan = line["plan"]
    return f"{line['graph']} {line['model']} {plan['strategy']} {plan['parallel']} {plan['workers']} {line.get('measured')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "starling-forecast")
    parser.add_argument("--scale", type=float, default=1.0, help="of the graphs' nodes and edges")
    parser.add_argument("--epochs", type=int, default=9, help="of each run; the median counts, and the first three are slow")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many of each kind")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=("plans", "scaling", "published"), help="measure this again, keep the rest")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--print", action="store_true", dest="show", help="print the tables, leave the docs alone")
    options = parser.parse_args()
    kept: dict[str, Any] = {"plans": [], "scaling": [], "published": []}
    if options.results.exists():
        kept = json.loads(options.results.read_text())
    place = options.place / f"{options.scale:g}"
    place.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if not options.tables:
        from starling.core.environment import core_count

        parts = {
            "published": published,
            "scaling": lambda: scaled(place, options),
            "plans": lambda: compared(place, options) + tight(place, options),
        }
        for name, measure in parts.items():
            if options.only in (None, name):
                kept[name] = measure()
                kept |= {"cores": core_count(), "scale": options.scale, "seconds": round(time.monotonic() - began)}
                told = json.dumps(kept, indent=1).replace(f"{place}/", "")  # where graphs lay says nothing
                options.results.write_text(told + "\n")  # what is measured is kept, whatever comes
    if options.show:
        print(all_tables(kept))
    else:
        write_table("forecast.md", "forecast", all_tables(kept))


if __name__ == "__main__":
    main()
