"""What link prediction can be asked for: the ``[link]`` table."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from starling.core.errors import InputError
from starling.core.manifest import Record
from starling.nn.decoders import DecoderName
from starling.plan.links.negatives import NegativeKind
from starling.plan.links.splits import EdgeShares

Whole = Annotated[int, Field(ge=1)]

AVERAGED_NEGATIVES = ("local", "batch")
"""Kinds of negatives that a part finds among the nodes it has."""

DEFAULT_SHARES = "90/5/5"


class LinkSettings(Record):
    """How pairs are scored, what they are told from, and which edges are held out; only for ``--task link``."""

    decoder: DecoderName = "dot"
    """How the rows of two nodes become a score."""
    width: Whole | None = None
    """Columns of the rows that the encoder gives; by default as many as its inner layers have."""
    loss: Literal["bce", "softmax", "margin"] = "bce"
    """Binary cross-entropy, cross-entropy of the edge among its negatives, or how far the edge is not `margin` above them."""
    margin: Annotated[float, Field(gt=0)] = 1.0
    negatives: NegativeKind | None = None
    """Which nodes take the place of an end; by default any node, where models are averaged those of the part that trains."""
    count: Whole = 1
    """Negatives of each target edge; with `shared` of all those of a step together."""
    itself: bool | None = None
    """One more negative: the end that stays, linked to itself. By default where a metric ranks all nodes, itself among them."""
    split: Literal["auto", "given", "random", "time"] = "auto"
    """`auto`: given where edges have a table 'split' and no shares are asked for, else random."""
    split_edges: str | None = None
    """Percentages of training, validation and test edges; 90/5/5 by default."""
    target_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """global: share of the training edges that are an epoch's targets, and so no messages in it."""
    candidates: Whole | Literal["all"] | None = None
    """What each held-out edge is told from: so many pairs, or all nodes in place of an end; 1 pair for auc and ap, else all."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.split_edges is not None:
            EdgeShares.parse(self.split_edges)
            if self.split == "given":
                raise InputError("A given split has its own shares, got --split-edges too. Leave one of them out.")
        if "margin" in self.changed and self.loss != "margin":
            raise InputError(f"'margin' of [link] is for the loss margin, got the loss {self.loss}. Leave it out.")
        return self

    @property
    def kind(self) -> NegativeKind:
        """Which nodes take the place of an end."""
        return self.negatives or "uniform"

    def with_negatives(self, kind: NegativeKind) -> Self:
        """The same with the kind of negatives said."""
        return self.model_copy(update={"negatives": kind})

    @property
    def shares(self) -> EdgeShares:
        """The shares asked for."""
        return EdgeShares.parse(self.split_edges or DEFAULT_SHARES)


def check_averaged_links(settings: LinkSettings, *, correct: bool) -> None:
    """Refuse what parts that train alone cannot do with edges."""
    if settings.negatives is not None and settings.negatives not in AVERAGED_NEGATIVES:
        raise InputError(
            f"With --sync average a part has its own nodes and their halo only, got --negatives {settings.negatives}, which are "
            "any nodes of the graph. Pass --negatives local or batch, or --sync gradient."
        )
    if correct:
        raise InputError(
            "--correct draws its targets from all training nodes, and link prediction has training edges, of which nobody holds "
            "all. Leave it out, or pass --sync gradient."
        )
