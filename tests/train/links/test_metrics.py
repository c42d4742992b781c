"""AUC, average precision, MRR and Hits@k: by hand, against torchmetrics, and in blocks against a whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.kernels.csr import csr_from_pairs
from starling.nn.decoders import make_decoder
from starling.plan.links.pairs import TargetEdges
from starling.train.links import ranking
from starling.train.links.metrics import area, average_precision, make_link_score
from starling.train.links.ranking import Known, count_better, queries_of, true_destinations, true_sources
from starling.train.links.scores import ranks_of

few = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


def test_by_hand() -> None:
    edge, other = np.array([3.0, 1.0]), np.array([2.0, 1.0, 0.0])
    assert area(edge, other) == (3 + 1.5) / 6
    # thresholds 3, 2, 1, 0: precision 1/1, 1/2, 2/4, 2/5 at recall 1/2, 1/2, 1, 1
    assert average_precision(edge, other) == pytest.approx(0.5 * 1 + 0.5 * 0.5)
    ranks = ranks_of(edge, np.array([4.0, 3.0, 1.0, 0.0, 0.0, 5.0]))  # 3 against 4, 3, 1; 1 against 0, 0, 5
    assert ranks.tolist() == [2.5, 2.0]
    assert make_link_score("mrr").points(ranks).mean() == pytest.approx((1 / 2.5 + 1 / 2) / 2)
    assert make_link_score("hits@2").points(ranks).tolist() == [0, 1]
    assert make_link_score(None).name == "auc"


@settings(max_examples=25)
@given(few, few)
def test_pair_metrics_agree_with_torchmetrics(edge: list[int], other: list[int]) -> None:
    from torchmetrics.functional import auroc
    from torchmetrics.functional import average_precision as precision

    one, two = np.array(edge, np.float64), np.array(other, np.float64)
    scores = torch.sigmoid(torch.from_numpy(np.concatenate([one, two])))
    wanted = torch.cat([torch.ones(len(one)), torch.zeros(len(two))]).long()
    assert area(one, two) == pytest.approx(float(auroc(scores, wanted, task="binary")), abs=1e-6)
    assert average_precision(one, two) == pytest.approx(float(precision(scores, wanted, task="binary")), abs=1e-6)


def test_unknown_metrics_are_refused() -> None:
    for wrong in ("acuracy", "hits@0", "hits@", "hits@-1"):
        with pytest.raises(InputError, match=f"There is no metric '{wrong}' for link"):
            make_link_score(wrong)


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("cells", [1 << 22, 8])
def test_ranks_in_blocks_are_those_of_the_whole_matrix(typed: bool, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filtered: other true ends do not count. Rows are whole numbers, so that there are many exact ties."""
    monkeypatch.setattr(ranking, "_CELLS", cells)
    draw, nodes = np.random.default_rng(4), 23
    pairs = draw.integers(0, nodes, (90, 2))
    relation = draw.integers(0, 3, 90) if typed else None
    rows = torch.from_numpy(draw.integers(-1, 2, (nodes, 4)).astype(np.float32))
    decoder = make_decoder("dot", 4, 0, 0)
    lists, position = csr_from_pairs(pairs.astype(np.int32), nodes), np.arange(nodes)
    in_order = None if relation is None else relation[lists.edge]
    edges = TargetEdges(np.arange(90), pairs[:, 0], pairs[:, 1], pairs[:, 1], relation)
    queries = queries_of(edges, both_ends=True)
    assert len(queries) == 180
    sources = true_sources(lists, position, in_order).of(np.where(queries.at_source, queries.kept, -1), queries.relation)
    ends = true_destinations(lists, nodes, position, in_order).of(
        np.where(queries.at_source, -1, queries.kept), queries.relation
    )
    known = Known(np.concatenate([sources.query, ends.query]), np.concatenate([sources.node, ends.node]))
    kept, truth = rows[torch.from_numpy(queries.kept)], rows[torch.from_numpy(queries.truth)]
    blocks: list[int] = []

    def candidates(start: int, stop: int) -> torch.Tensor:
        blocks.append(stop - start)
        return rows[start:stop]

    counts = count_better(decoder, kept, decoder(kept, truth), None, known, candidates, nodes)
    assert max(blocks) <= max(1, cells // 180)
    blocks.clear()
    none = Known(np.empty(0, np.int64), np.empty(0, np.int64))
    count_better(decoder, kept[:1], decoder(kept, truth)[:1], None, none, candidates, nodes)
    assert max(blocks) <= cells // 4, "few queries: a block is bounded by its candidates' own numbers"
    kinds = np.zeros(90, np.int64) if relation is None else relation
    facts = {(int(s), int(d), int(r)) for (s, d), r in zip(pairs, kinds, strict=True)}
    matrix = (rows @ rows.T).numpy()
    for query in range(180):
        edge, at_source = query % 90, query < 90
        (s, d), r = pairs[edge], int(kinds[edge])
        mine = matrix[s, d]
        others = [
            matrix[n, d] if at_source else matrix[s, n]
            for n in range(nodes)
            if ((n, int(d), r) if at_source else (int(s), n, r)) not in facts
        ]
        expected = 1 + sum(score > mine for score in others) + sum(score == mine for score in others) / 2
        assert counts.rank[query] == expected
