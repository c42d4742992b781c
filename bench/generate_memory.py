"""Memory and time of ``starling generate dcsbm`` at a million nodes, twice, and whether the two runs give the same bytes.

    python bench/generate_memory.py             # under a minute

Writes the raw numbers to bench/results/generate_memory.json, and prints them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from command import starling

RESULTS = Path(__file__).parent / "results" / "generate_memory.json"
FLAGS = ["generate", "dcsbm", "--nodes", "1000000", "--edges", "20000000", "--classes", "40", "--features", "64", "--seed", "1"]
KEPT = ("nodes", "edges", "seconds", "peak_rss_bytes")


def main() -> None:
    runs, files = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            shown = starling(*FLAGS, "-o", f"{folder}/{name}")
            runs.append({key: shown[key] for key in KEPT})
            files.append(json.loads(Path(folder, name, "manifest.json").read_text())["files"])
    result = {"command": " ".join(["starling", *FLAGS, "--json"]), "runs": runs, "same_bytes": files[0] == files[1]}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
