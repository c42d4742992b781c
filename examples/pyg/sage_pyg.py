"""GraphSAGE with PyG's NeighborLoader: the script before.    torchrun --nproc-per-node 2 sage_pyg.py data.pt --classes 5"""

import argparse

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--classes", type=int, required=True)
parser.add_argument("--epochs", type=int, default=5)
options = parser.parse_args()


def loader(nodes, **settings):
    return NeighborLoader(data, [10, 5], input_nodes=data[nodes].nonzero()[rank::ranks, 0], **settings)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = torch.load(options.data, weights_only=False)
train, test = loader("train_mask", batch_size=64, shuffle=True), loader("test_mask", batch_size=256)
features = next(iter(train)).num_features
model = DistributedDataParallel(GraphSAGE(features, 64, num_layers=2, out_channels=options.classes))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(1, options.epochs + 1):
    total = torch.zeros(2)
    for batch in train:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = cross_entropy(out, batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item(), 1.0])
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: loss {total[0] / total[1]:.4f}")

right = torch.zeros(2)
with torch.no_grad():
    for batch in test:
        out = model.module(batch.x, batch.edge_index)[: batch.batch_size]
        found = out.argmax(1) == batch.y[: batch.batch_size]
        right += torch.tensor([float(found.sum()), float(len(found))])
dist.all_reduce(right)
if rank == 0:
    print(f"test accuracy {right[0] / right[1]:.4f}")
del model  # DDP must not outlive the process group that it speaks over
dist.destroy_process_group()
