"""Workers that compute one graph together, beside one process: time of an epoch, memory of the largest worker, bytes sent.

    python bench/hybrid.py --nodes 200000 --edges 9300000 --features 128 --classes 40       # 24 runs of seconds each
    python bench/hybrid.py --nodes 2400000 --edges 62000000 --features 100 --classes 47 --name products     # of minutes each
    python bench/hybrid.py --render             # only write the table anew

Every line is a run of ``starling train`` with one thread a worker; runs take turns, round after round, and a cell is the median of
all epochs but each run's first. Memory is that beyond a process that trains 100 nodes. The graph and its parts stay in --place for
a second call. Raw lines go to ``results/hybrid.jsonl``, where those of a graph of the same name are replaced, and the table into
docs/engine.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from command import starling, trained
from doc_tables import write_table
from kept_lines import append_line, drop_lines, read_lines

RESULTS = Path(__file__).parent / "results" / "hybrid.jsonl"
PLACE = Path(tempfile.gettempdir()) / "starling-hybrid"


def prepared(place: Path, options: argparse.Namespace) -> Path:
    """The graph and its parts, made once."""
    graph = place / "graph"
    if not graph.exists():
        size = ("--nodes", options.nodes, "--edges", options.edges)
        starling("generate", "dcsbm", *size, "--classes", options.classes, "--features", options.features, "-o", graph)
    for parts in sorted({2, 4} | set(options.parts)):
        if not (place / f"p{parts}").exists():
            starling("partition", graph, "-p", parts, "-o", place / f"p{parts}")
    return graph


def parts_of_200k(place: Path, parts: int) -> Path:
    """The *200k* graph in so many parts, for other benchmarks."""
    options = arguments([])
    (place / options.name).mkdir(parents=True, exist_ok=True)
    options.parts = [parts]
    prepared(place / options.name, options)
    return place / options.name / f"p{parts}"


def timed(data: Path, model: str, workers: int, options: argparse.Namespace, *flags: object) -> dict[str, Any]:
    """Seconds of the epochs after the first, the largest worker's memory, bytes an epoch."""
    size = ("--hidden", options.hidden, "--layers", options.layers)
    length = ("--epochs", options.epochs, "--evaluate-every", options.epochs)
    told, lines = trained(data, "--model", model, "--workers", workers, "--threads", 1, *size, *length, *flags)
    return {
        "seconds": [line["seconds"] for line in lines[1:]],
        "peak_rss_bytes": told["peak_rss_bytes"],
        "bytes_sent_per_epoch": told["bytes_sent_per_epoch"],
        "workers": lines[-1]["workers"],
        "final_loss": told["final_loss"],
    }


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", type=Path, default=PLACE)
    parser.add_argument("--name", default="200k")
    for name, default in (("nodes", 200_000), ("edges", 9_300_000), ("features", 128), ("classes", 40), ("hidden", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="sage,gcn")
    parser.add_argument("--parts", type=int, nargs="*", default=[])
    parser.add_argument("--render", action="store_true", help="only write the tables anew")
    return parser.parse_args(given)


def main() -> None:
    options = arguments(sys.argv[1:])
    if not options.render:
        measure(options)
    write_table("engine.md", "hybrid", tables(read_lines(RESULTS)))


def measure(options: argparse.Namespace) -> None:
    place = options.place / options.name
    place.mkdir(parents=True, exist_ok=True)
    graph = prepared(place, options)
    cases: list[tuple[str, Path, int, tuple[object, ...]]] = [
        ("one process", graph, 1, ()),
        ("2 workers", place / "p2", 2, ()),
        ("4 workers", place / "p4", 4, ()),
        ("4 workers, boundary 0.1", place / "p4", 4, ("--boundary", 0.1)),
    ]
    drop_lines(RESULTS, lambda line: line["graph"] == options.name)
    base = base_bytes(options)
    for number in range(options.rounds):
        for model in options.models.split(","):
            for label, data, workers, flags in cases:
                line = timed(data, model, workers, options, *flags)
                known = {"graph": options.name, "model": model, "case": label, "round": number, "base_rss_bytes": base}
                size = {name: getattr(options, name) for name in ("nodes", "edges", "features", "hidden", "layers")}
                append_line(RESULTS, {**known, **line, **size, "load": os.getloadavg()[0]})
                print(f"{model}, {label}: {_median([line]):.3f} s", file=sys.stderr, flush=True)


def base_bytes(options: argparse.Namespace) -> int:
    """What a process holds that trains a graph of next to nothing; the second time, when every kernel has been compiled."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph"
        starling("generate", "dcsbm", "--nodes", 100, "--edges", 400, "--classes", 2, "--features", 4, "-o", graph)
        flags = ("--hidden", options.hidden, "--layers", options.layers, "--epochs", 2, "--evaluate-every", 2, "--threads", 1)
        told = [starling("train", graph, *flags, "--run", Path(folder) / f"run-{number}") for number in range(2)]
    return int(told[-1]["peak_rss_bytes"])


def tables(lines: list[dict[str, Any]]) -> str:
    """A table of all graphs: medians of epochs, and the largest worker beyond the base process beside one process."""
    out = ["| graph | model | case | epoch, s | times one process | memory, MiB | of one process | sent, MiB |"]
    out.append("|---|---|---|---:|---:|---:|---:|---:|")
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault((line["graph"], line["model"], line["case"]), []).append(line)
    for (graph, model, case), group in found.items():
        alone = found[graph, model, "one process"]
        seconds, memory = _median(group), _beyond(group)
        sent = group[-1]["bytes_sent_per_epoch"] / 2**20
        out.append(
            f"| {graph} | {model} | {case} | {seconds:.3f} | {_median(alone) / seconds:.2f} | {memory / 2**20:.0f} | "
            f"{memory / _beyond(alone):.0%} | {sent:.1f} |"
        )
    return "\n".join(out)


def _beyond(lines: list[dict[str, Any]]) -> float:
    return max(line["peak_rss_bytes"] for line in lines) - lines[0]["base_rss_bytes"]


def _median(lines: list[dict[str, Any]]) -> float:
    return statistics.median(second for line in lines for second in line["seconds"])


if __name__ == "__main__":
    main()
