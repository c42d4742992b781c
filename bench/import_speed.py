"""How fast, and in how much memory, ``starling import`` reads the same edges in each format.

    python bench/import_speed.py [--edges 100000000] [--nodes 10000000] [--memory 1GiB] [--formats npy parquet csv text-csv]

The imports alone take two to three minutes, writing 100 million edges as text several GB of disk. Each file is generated in a
temporary folder, imported by a fresh process, and deleted. "Reading alone" drains the reader in another fresh process: what is
left of the time is numbering, checking and writing. The peak is the resident memory that the import saw of itself (VmHWM; what
wait4 reports would include this process, from which it was forked). Prints a Markdown table and writes the raw numbers to
bench/results/import_speed.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from command import printed, starling
from starling.core.environment import thread_count
from starling.core.keyed import stream_key, units
from starling.core.memory import format_bytes, parse_bytes
from starling.core.npy import NpyWriter

RESULTS = Path(__file__).parent / "results" / "import_speed.json"
BLOCK = 1 << 20
DRAIN = """
import sys, time
from starling.stream.readers import open_inputs
graph = open_inputs([sys.argv[1]], memory=int(sys.argv[2]))
began = time.monotonic()
edges = sum(len(block.source) for block in graph.edges.blocks())
print(edges / (time.monotonic() - began))
"""


@dataclass(frozen=True)
class Measurement:
    """One import: what the command reported, its whole life, and its reader alone."""

    format: str
    edges: int
    file_bytes: int
    seconds: float
    wall_seconds: float
    reading_edges_per_second: float
    peak_rss_bytes: int


def pairs(edges: int, nodes: int) -> Iterator[np.ndarray]:
    """Edges whose ends are drawn with a heavy tail, spread over the numbering as in a real graph, a block at a time."""
    for start in range(0, edges, BLOCK):
        count = min(BLOCK, edges - start)
        ranks = np.stack([nodes * units(stream_key(1, "bench", step=side), start, count) ** 3 for side in (0, 1)], axis=1)
        yield ranks.astype(np.int64) * 2_654_435_761 % nodes


def write_npy(path: Path, edges: int, nodes: int) -> None:
    with NpyWriter(path, np.int64, (2,)) as writer:
        for block in pairs(edges, nodes):
            writer.append(block)


def tables(edges: int, nodes: int, *, text: bool) -> Iterator[pa.Table]:
    for block in pairs(edges, nodes):
        ends = [pa.array(block[:, side]) for side in (0, 1)]
        if text:
            ends = [pc.binary_join_element_wise("user-", end.cast(pa.string()), "") for end in ends]
        yield pa.table(ends, names=["source", "target"])


def write_parquet(path: Path, edges: int, nodes: int) -> None:
    with pq.ParquetWriter(path, pa.schema([("source", pa.int64()), ("target", pa.int64())])) as writer:
        for table in tables(edges, nodes, text=False):
            writer.write_table(table)


def write_csv(path: Path, edges: int, nodes: int, *, text: bool = False) -> None:
    kind = pa.string() if text else pa.int64()
    with pacsv.CSVWriter(path, pa.schema([("source", kind), ("target", kind)])) as writer:
        for table in tables(edges, nodes, text=text):
            writer.write_table(table)


def write_text_csv(path: Path, edges: int, nodes: int) -> None:
    write_csv(path, edges, nodes, text=True)


FORMATS: dict[str, tuple[str, Callable[[Path, int, int], None]]] = {
    "npy": ("edges.npy", write_npy),
    "parquet": ("edges.parquet", write_parquet),
    "csv": ("edges.csv", write_csv),
    "text-csv": ("text.csv", write_text_csv),
}


def run_import(path: Path, memory: str) -> tuple[dict[str, float], float]:
    """The import's own report, and its wall time from start to exit."""
    began = time.monotonic()
    report = starling("import", path, "-o", path.parent / "graph", "--memory", memory, "--force")
    return report, time.monotonic() - began


def drain(path: Path, memory: str) -> float:
    """Edges a second of the reader alone."""
    return float(printed(sys.executable, "-c", DRAIN, path, parse_bytes(memory)))


def measure(name: str, folder: Path, edges: int, nodes: int, memory: str) -> Measurement:
    file_name, write = FORMATS[name]
    path = folder / file_name
    write(path, edges, nodes)
    try:
        reading = drain(path, memory)
        report, wall = run_import(path, memory)
        if report["edges_read"] != edges:
            raise SystemExit(f"{name}: {report['edges_read']} edges were read of {edges}")
        size, peak = path.stat().st_size, int(report["peak_rss_bytes"])
        return Measurement(name, edges, size, report["seconds"], wall, reading, peak)
    finally:
        path.unlink()


def print_table(measurements: list[Measurement], memory: str) -> None:
    print(f"| format | file | edges/s | reading alone, edges/s | peak memory (budget {memory}) |")
    print("|---|---:|---:|---:|---:|")
    for one in measurements:
        rates = f"{one.edges / one.seconds / 1e6:.2f} M | {one.reading_edges_per_second / 1e6:.1f} M"
        print(f"| {one.format} | {format_bytes(one.file_bytes)} | {rates} | {format_bytes(one.peak_rss_bytes)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--folder", type=Path, help="where to put the temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name in arguments.formats:  # compile the kernels, which are cached, before any clock runs
            measure(name, Path(folder), 1000, 100, arguments.memory)
        measurements = [
            measure(name, Path(folder), arguments.edges, arguments.nodes, arguments.memory) for name in arguments.formats
        ]
    print_table(measurements, arguments.memory)
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"machine": platform.machine(), "threads": thread_count(), "memory": arguments.memory, "nodes": arguments.nodes}
    RESULTS.write_text(json.dumps(machine | {"imports": [asdict(one) for one in measurements]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
