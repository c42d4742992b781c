"""The same training run with PyG: its layers, the same stack, optimiser, epochs, evaluations and choice of the best epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from starling.engine.source import GraphSource, SourceRequest, open_source
from starling.train.config import RunConfig
from starling.train.model import resolved_model

_ACTIVATIONS = {"relu": torch.relu, "elu": functional.elu}


class Twin(nn.Module):
    """PyG's convolutions where the stack has Starling's."""

    def __init__(self, name: str, settings: Mapping[str, Any], source: GraphSource, outputs: int) -> None:
        super().__init__()
        self.name, self.settings = name, settings
        if name == "sgc":
            from torch_geometric.nn import SGConv

            self.convolutions = nn.ModuleList([SGConv(source.features.width, outputs, settings["layers"], cached=True)])
            self.norms = nn.ModuleList()
            return
        widths = [source.features.width] + [settings["hidden"]] * (settings["layers"] - 1) + [outputs]
        last = len(widths) - 2
        made = [convolution(name, settings, source, widths[i], widths[i + 1], i == last) for i in range(last + 1)]
        self.convolutions = nn.ModuleList(made)
        batch = settings["norm"] == "batch"
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) if batch else nn.Identity() for width in widths[1:-1])

    def forward(self, x: Tensor, edges: Tensor, extra: tuple[Tensor, ...]) -> Tensor:
        """All rows through all layers."""
        if self.name != "sgc":
            x = functional.dropout(x, self.settings["input_dropout"], self.training)
        for index, layer in enumerate(self.convolutions):
            x = layer(x) if self.name == "mlp" else layer(x, edges, *extra)
            if index < len(self.convolutions) - 1:
                x = _ACTIVATIONS[self.settings["activation"]](self.norms[index](x))
                x = functional.dropout(x, self.settings["dropout"], self.training)
        return x


def convolution(
    name: str, settings: Mapping[str, Any], source: GraphSource, fan_in: int, fan_out: int, last: bool
) -> nn.Module:
    """PyG's layer of a name."""
    import torch_geometric.nn as pyg

    if name == "mlp":
        return nn.Linear(fan_in, fan_out)
    if name == "gcn":
        return pyg.GCNConv(fan_in, fan_out, cached=True)
    if name == "sage":
        return pyg.SAGEConv(fan_in, fan_out, aggr=settings["aggregate"])
    if name == "gin":
        network = nn.Sequential(nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Linear(fan_out, fan_out))
        return pyg.GINConv(network, train_eps=True)
    if name == "rgcn":
        return pyg.RGCNConv(fan_in, fan_out, source.relations, num_bases=settings["bases"] or None)
    heads = settings["output_heads"] if last else settings["heads"]
    given = {"heads": heads, "concat": not last, "dropout": settings["attention_dropout"]}
    if name == "gate":
        return pyg.GATConv(fan_in, fan_out if last else fan_out // heads, edge_dim=source.edge_tables["attr"].shape[1], **given)
    kind = pyg.GATConv if name == "gat" else pyg.GATv2Conv
    return kind(fan_in, fan_out if last else fan_out // heads, **given)


def train_with_pyg(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, float | int]:
    """Train as `starling.Trainer(tables).fit()` does; the metric of the best epoch on validation."""
    config = RunConfig.from_tables(tables)
    name, settings = config.model.name, resolved_model(config.model)
    wanted = {"gate": ("attr",), "rgcn": ("type",)}.get(name, ())
    source = open_source(Path(config.data.path), SourceRequest(config.data.normalize, wanted))
    assert source.y is not None
    assert source.labels is not None
    y, multi = torch.from_numpy(source.y.copy()), source.labels.kind == "multi"
    destination = np.repeat(np.arange(source.nodes), np.diff(source.incoming.offsets))
    edges = torch.from_numpy(np.stack([source.incoming.neighbours.astype(np.int64), destination]))
    extra = tuple(source.edge_tables[table] for table in wanted)
    torch.manual_seed(config.run.seed)
    model = Twin(name, settings, source, source.labels.classes)
    optimizer = torch.optim.Adam(_groups(model, config), lr=config.optimizer.lr)
    train, val, test = (torch.from_numpy(source.splits[split]) for split in ("train", "val", "test"))
    best, best_epoch, tested = -1.0, 0, 0.0
    for epoch in range(1, config.run.epochs + 1):
        model.train()
        optimizer.zero_grad()
        given = model(source.x, edges, extra)[train]
        loss = (
            functional.binary_cross_entropy_with_logits(given, y[train].float())
            if multi
            else functional.cross_entropy(given, y[train])
        )
        loss.backward()
        optimizer.step()
        if epoch % config.run.evaluate_every == 0 or epoch == config.run.epochs:
            model.eval()
            with torch.no_grad():
                given = model(source.x, edges, extra)
            found = metric(config.task.metric, given[val], y[val], multi)
            if found > best:
                best, best_epoch, tested = found, epoch, metric(config.task.metric, given[test], y[test], multi)
        if config.run.patience and epoch - best_epoch >= config.run.patience:
            break
    return {"val": best, "test": tested, "best_epoch": best_epoch, "epochs": epoch}


def _groups(model: Twin, config: RunConfig) -> list[dict[str, Any]]:
    decay = config.optimizer.weight_decay
    if config.optimizer.decay_on == "all":
        return [{"params": list(model.parameters()), "weight_decay": decay}]
    first, *rest = model.convolutions
    others = [weight for layer in [*rest, *model.norms] for weight in layer.parameters()]
    return [{"params": list(first.parameters()), "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def metric(name: str | None, given: Tensor, wanted: Tensor, multi: bool) -> float:
    """Accuracy; the area under the curve where it is asked for; micro-F1 of several labels a node."""
    if multi:
        right = ((given > 0) & (wanted > 0)).sum()
        return float(2 * right / ((given > 0).sum() + (wanted > 0).sum()))
    if name == "auc":
        from torchmetrics.functional import auroc

        area = auroc(given.softmax(1), wanted, task="multiclass", num_classes=given.shape[1])
        assert area is not None
        return float(area)
    return float((given.argmax(1) == wanted).float().mean())
