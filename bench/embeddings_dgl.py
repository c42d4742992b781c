"""DGL's side of bench/embeddings.py: SAGE on `dgl.nn.NodeEmbedding` with `dgl.optim.SparseAdam`, as in DGL's own examples.

    python bench/embeddings_dgl.py GRAPH --trainers 1 [--dim 64 --hidden 64 --batch 1024 --fanouts 10,10 --epochs 4]

GRAPH is a graph directory of Starling, of which only edges, labels and masks are read. Run it with an interpreter that has DGL. One
line of JSON out: seconds of every epoch but the first, and the accuracy on test nodes.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import dgl
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy, relu


class Sage(nn.Module):
    def __init__(self, dim: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([dgl.nn.SAGEConv(dim, hidden, "mean"), dgl.nn.SAGEConv(hidden, classes, "mean")])

    def forward(self, blocks, x):
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer(block, x)
            if number == 0:
                x = relu(x)
        return x


def read(path: Path):
    edges, arrays = np.load(path / "edges.npy"), {name: np.load(path / f"{name}.npy") for name in ("y", "train", "test")}
    graph = dgl.graph(tuple(torch.from_numpy(edges.T.astype(np.int64))), num_nodes=len(arrays["y"]))
    return (
        graph,
        torch.from_numpy(arrays["y"]).long(),
        *(torch.from_numpy(np.flatnonzero(arrays[n])) for n in ("train", "test")),
    )


def train(rank: int, args: argparse.Namespace, answers) -> None:
    for limit in (torch.set_num_threads, dgl.utils.set_num_threads):
        limit(max(1, args.threads // args.trainers))
    if args.trainers > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{args.port}", rank=rank, world_size=args.trainers)
    graph, y, train_nodes, test_nodes = read(args.graph)
    torch.manual_seed(0)
    bound = (3 / args.dim) ** 0.5
    rows = dgl.nn.NodeEmbedding(graph.num_nodes(), args.dim, "rows", init_func=lambda t: t.uniform_(-bound, bound))
    model = Sage(args.dim, args.hidden, int(y.max()) + 1)
    if args.trainers > 1:
        model = nn.parallel.DistributedDataParallel(model)
    dense, sparse = torch.optim.Adam(model.parameters(), 0.01), dgl.optim.SparseAdam([rows], lr=0.01)
    fanouts = [int(number) for number in args.fanouts.split(",")][::-1]  # DGL lists the outermost first
    batches = dgl.dataloading.DataLoader(
        graph.formats("csc"), train_nodes, dgl.dataloading.NeighborSampler(fanouts), batch_size=args.batch // args.trainers,
        shuffle=True, drop_last=False, num_workers=0, use_ddp=args.trainers > 1,
    )  # fmt: skip
    seconds = []
    for _ in range(args.epochs):
        began = time.perf_counter()
        for inputs, outputs, blocks in batches:
            loss = cross_entropy(model(blocks, rows(inputs)), y[outputs])
            dense.zero_grad()
            sparse.zero_grad()  # lets go of the rows of steps before
            loss.backward()
            dense.step()
            sparse.step()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        answers.put({"epoch_seconds": seconds[1:], "test": score(model, rows, graph, y, test_nodes), **peak()})
    if args.trainers > 1:
        dist.barrier()


@torch.no_grad()
def score(model, rows, graph, y, test_nodes) -> float:
    """From all neighbours of every node."""
    inner = model.module if hasattr(model, "module") else model
    found = inner([graph, graph], rows.weight)
    return float((found[test_nodes].argmax(1) == y[test_nodes]).float().mean())


def peak() -> dict:
    return {"peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--port", type=int, default=29517)
    args = parser.parse_args()
    answers = mp.get_context("spawn").SimpleQueue()
    if args.trainers == 1:
        train(0, args, answers)
    else:
        mp.spawn(train, (args, answers), args.trainers)
    print(json.dumps(answers.get()))


if __name__ == "__main__":
    main()
