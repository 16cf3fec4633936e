"""The zoo once more, as plain loops over items, classes and labels: the oracle of every model's density.

Nothing here is shared with the library but the names of the sites.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.coded import build_blocks

Values = Mapping[str, Tensor]
# p(label | truth k) of annotator a on the item at position i: (model, values, a, i, k, label).
LabelGiven = Callable[[Any, Values, int, int, int, int], Tensor]


@dataclass(frozen=True)
class Tiny:
    """A handful of labels, (item, annotator, answer); answers from ``n_classes`` on are abstentions."""

    labels: tuple[tuple[int, int, int], ...]
    n_items: int
    n_annotators: int
    n_classes: int
    n_answers: int
    gold: tuple[int, ...]
    abstainers: tuple[bool, ...]
    informative: bool = False

    @cached_property
    def built(self) -> tuple[np.ndarray, Block]:
        """The same labels as a model receives them, and which item stands at each position."""
        item, annotator, answer = (np.array(x) for x in zip(*self.labels, strict=True))
        order, (block,) = build_blocks(
            item,
            annotator,
            answer,
            n_items=self.n_items,
            n_annotators=self.n_annotators,
            n_classes=self.n_classes,
            n_answers=self.n_answers,
        )
        gold = torch.tensor([self.gold[i] for i in order])
        may = torch.tensor(self.abstainers)
        return order, replace(block, gold=gold, abstainers=may, informative=self.informative)

    def at(self, position: int) -> list[tuple[int, int]]:
        """(annotator, answer) of each label of the item at a position."""
        return [(a, label) for i, a, label in self.labels if i == self.built[0][position]]


# Item 3 has no label, annotator 1 labels item 0 twice, class 2 is never given, the truth of item 1 is known.
PLAIN = Tiny(
    labels=((0, 0, 0), (0, 1, 1), (0, 1, 0), (0, 4, 0), (1, 0, 1), (1, 2, 0), (2, 1, 1), (2, 2, 1), (2, 3, 0)),
    n_items=4,
    n_annotators=5,
    n_classes=3,
    n_answers=3,
    gold=(-1, 2, -1, -1),
    abstainers=(False,) * 5,
)
# The same, and two ways to decline, one of them unused; annotators 1 and 4 never decline.
ABSTAINING = replace(
    PLAIN,
    labels=(*PLAIN.labels, (0, 2, 3), (1, 3, 3), (2, 0, 3), (2, 3, 3)),
    n_answers=5,
    abstainers=(True, False, True, True, False),
)
TELLING = replace(ABSTAINING, informative=True)


def joint(name: str, model: Any, v: Values, tiny: Tiny) -> Tensor:
    """p(truth = k, labels) of the item at each position: (N, K)."""
    order, _ = tiny.built
    k = tiny.n_classes
    prevalence = v["prevalence"] if "prevalence" in v else torch.full((k,), 1 / k)
    rows = []
    for i in range(tiny.n_items):
        possible = [tiny.gold[order[i]] in (-1, t) for t in range(k)]
        if "mixed_membership" in name:
            seen = v if "confusion" in v else {**v, "confusion": _levels(v, tiny)}
            given = [_between_classes(seen, tiny, i, t) * k for t in range(k)]
        else:
            given = [_labels_of_item(name, model, v, tiny, i, t) for t in range(k)]
        rows.append(torch.stack([prevalence[t] * given[t] * possible[t] for t in range(k)]))
    return torch.stack(rows)


def _labels_of_item(name: str, model: Any, v: Values, tiny: Tiny, i: int, truth: int) -> Tensor:
    """p(all labels of the item at position i | its truth)."""
    if name == "dependent_clusters":
        return _through_opinions(model, v, tiny, i, truth)
    if name == "coin_net" and "rate" in v:
        return _nominal_or_outlying(model, v, tiny, i, truth)
    if name == "ebcc":
        total = torch.zeros(())
        for m in range(model.subtypes):
            term = v["subtypes"][truth, m]
            for a, label in tiny.at(i):
                term = (
                    term
                    * _answer(v, tiny, a, truth * model.subtypes + m, label)
                    * (v["confusion"][a, truth, m, label] if label < tiny.n_classes else 1)
                )
            total = total + term
        return total
    out = torch.ones(())
    for a, label in tiny.at(i):
        state = 0 if name == "majority_vote" else truth
        out = out * _answer(v, tiny, a, state, label)
        if label < tiny.n_classes:
            out = out * LABEL[name](model, v, a, i, truth, label)
    return out


def _between_classes(v: Values, tiny: Tiny, i: int, truth: int) -> Tensor:
    """p(truth, all labels of the item): a sum over atoms, and for each label one over what was seen."""
    k, given = tiny.n_classes, []
    for a, label in tiny.at(i):
        looks = [
            _answer(v, tiny, a, c, label) * (v["confusion"][a, c, label] if label < k else 1) for c in range(k)
        ]
        given.append(torch.stack(looks))
    total = torch.zeros(())
    for share, atom in zip(v["kinds"], _atoms(k), strict=True):
        term = share * atom[truth]
        for seen in given:
            term = term * (torch.tensor(atom) @ seen)
        total = total + term
    return total


def _levels(v: Values, tiny: Tiny) -> Tensor:
    """Confusions from being right and, if not, from which other class it was, in order."""
    k = tiny.n_classes
    out = torch.zeros(tiny.n_annotators, k, k)
    for a in range(tiny.n_annotators):
        for c in range(k):
            out[a, c, c] = v["hit"][a, c, 0]
            for n, other in enumerate(x for x in range(k) if x != c):
                out[a, c, other] = v["hit"][a, c, 1] * v["error"][a, c, n]
    return out


def _atoms(k: int) -> list[list[float]]:
    """Corners; blends of two, the even one once; corners diluted; everything alike."""
    out = [[float(c == at) for c in range(k)] for at in range(k)]
    for x in (0.1, 0.2, 0.3, 0.4, 0.5):
        pairs = [(at, to) for at in range(k) for to in range(k) if (at < to if x == 0.5 else at != to)]
        out += [[(1 - x) * (c == at) + x * (c == to) for c in range(k)] for at, to in pairs]
    for x in (0.25, 0.5, 0.75):
        out += [[(1 - x) * (c == at) + x / k for c in range(k)] for at in range(k)]
    return [*out, [1 / k] * k]


def _through_opinions(model: Any, v: Values, tiny: Tiny, i: int, truth: int) -> Tensor:
    """Each group on its own: an opinion given the truth, labels given the opinion."""
    out, linked = torch.ones(()), 0
    for g in dict.fromkeys(model.groups):
        members = [a for a in range(tiny.n_annotators) if model.groups[a] == g]
        total = torch.zeros(())
        for opinion in range(tiny.n_classes):
            term = (
                v["link"][linked, 0, truth, opinion] if len(members) > 1 else torch.tensor(float(opinion == truth))
            )
            for a, label in tiny.at(i):
                if a in members:
                    term = term * _answer(v, tiny, a, opinion, label)
                    term = term * (v["confusion"][a, opinion, label] if label < tiny.n_classes else 1)
            total = total + term
        linked += len(members) > 1
        out = out * total
    return out


def _nominal_or_outlying(model: Any, v: Values, tiny: Tiny, i: int, truth: int) -> Tensor:
    """Labels by confusion matrices, or drawn from an urn, one after the other."""
    nominal, outlying = v["rate"]
    drawn: list[int] = []
    for a, label in tiny.at(i):
        nominal = nominal * _answer(v, tiny, a, truth, label)
        outlying = outlying * _answer(v, tiny, a, tiny.n_classes, label)
        if label < tiny.n_classes:
            nominal = nominal * v["confusion"][a, truth, label]
            share = (model.spread + drawn.count(label)) / (model.spread * tiny.n_classes + len(drawn))
            outlying = outlying * share
            drawn.append(label)
    return nominal + outlying


def _answer(v: Values, tiny: Tiny, a: int, state: int, label: int) -> Tensor:
    """p(giving a class at all), or p(this abstention)."""
    if "abstention" not in v or not tiny.abstainers[a]:
        return torch.tensor(float(label < tiny.n_classes))
    return v["abstention"][a, state if tiny.informative else 0, max(0, label - tiny.n_classes + 1)]


def _coin(coin: Tensor, right: bool, k: int) -> Tensor:
    return coin[0] if right else coin[1] / (k - 1)


def _majority_vote(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    return _coin(v["ability"], label == k, 3)


def _one_coin(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    return _coin(v["ability"][a], label == k, 3)


def _class_coin(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    return _coin(v["ability"][a, k], label == k, 3)


def _multinomial(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    return v["confusion"][k, label]


def _dawid_skene(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    return v["confusion"][a, k, label]


def _mace(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    knows, guesses = v["competence"][a]
    return knows * (label == k) + guesses * v["guess"][a, label]


def _glad(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    right = 1 / (1 + torch.exp(-v["ability"][a] / torch.exp(v["difficulty"][i])))
    return right if label == k else (1 - right) / 2


def _item_difficulty(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    odds = torch.exp(v["logits"][a, k] / torch.exp(v["difficulty"][i]))
    return odds[label] / odds.sum()


def _minimax_entropy(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    odds = torch.exp(v["habit"][a, k] + (v["trap"][i, k] if s.items else 0))
    return odds[label] / odds.sum()


def _community(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Shared rows as a geometric mixture, so that an expected one-hot vector has a meaning too."""
    if s.own:
        return v["confusion"][a, k, label]
    log_p = [v["community"][a, m] * v["shared"][m, k, label].log() for m in range(s.communities)]
    return torch.stack(log_p).sum().exp()


def _ordinal(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Three grades. Biases are centred by the number of labels of each annotator, 0 to 4."""
    work = torch.tensor(s.work)
    bias = v["bias"][a] - (v["bias"] * work).sum() if s.bias else 0
    gap = v["log_gap"][0].exp() if s.cutpoints else 1
    cuts = (1 - gap / 2, 1 + gap / 2)
    at = [v["log_precision"][a].exp() * (cut - k - bias) for cut in cuts]
    if s.tail == "laplace":
        below = [0.5 * x.exp() if x < 0 else 1 - 0.5 * (-x).exp() for x in at]
    else:
        below = [0.5 * (1 + torch.erf(x / 2**0.5)) for x in at]
    known = [below[0], below[1] - below[0], 1 - below[1]][label]
    knows, guesses = v["competence"][a]
    return knows * known + guesses * v["guess"][a, label]


def _crowd_layer(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Where nothing is seen of an item, the layer is put on its truth."""
    p, w = torch.eye(3)[k], v["weights"][a]
    logits = {"MW": w @ p if s.form == "MW" else 0, "VW": w[0] * p, "VB": p + w[0], "VW+B": w[0] * p + w[-1]}[
        s.form
    ]
    return logits.softmax(-1)[label]


def _mmlc(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Experts see the truth: each in its way."""
    logits = torch.stack([v["gate"][a, m] * v["view"][m, k] for m in range(s.n_experts)]).sum(0)
    return logits.softmax(-1)[label]


def _madl(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Where nothing is seen of an item, its embedding and all products with it are 0."""
    own = v["embedding"][a]
    inner = torch.stack([own[j] + sum(own[q] * v["mix"][q, j] for q in range(len(own))) for j in range(len(own))])
    odds = torch.exp(torch.einsum("q,ql->l", inner.clamp(min=0), v["readout"][:, k]))
    right = torch.where(torch.arange(3) == k, 2 * s.right / (1 - s.right), 1.0)
    return (odds * right)[label] / (odds * right).sum()


def _conal(s: Any, v: Values, a: int, i: int, k: int, label: int) -> Tensor:
    """Where nothing is seen of an item, half of the noise is common, and layers are put on its truth."""
    return ((v["common"][k] + v["individual"][a, k]) / 2).softmax(-1)[label]


LABEL: dict[str, LabelGiven] = {
    "bayes_dgc": _dawid_skene,
    "raykar": _dawid_skene,
    "ccem": _dawid_skene,
    "coin_net": _dawid_skene,
    "geo_crowdnet": _dawid_skene,
    "trace_reg": _dawid_skene,
    "global_noise": _multinomial,
    "crowd_layer": _crowd_layer,
    "instance_trace": _dawid_skene,
    "madl": _madl,
    "conal": _conal,
    "majority_vote": _majority_vote,
    "multinomial": _multinomial,
    "one_coin": _one_coin,
    "class_coin": _class_coin,
    "dawid_skene": _dawid_skene,
    "bayesian_dawid_skene": _dawid_skene,
    "hierarchical_dawid_skene": _dawid_skene,
    "mace": _mace,
    "meta_em": _dawid_skene,
    "mmlc": _mmlc,
    "glad": _glad,
    "item_difficulty": _item_difficulty,
    "minimax_entropy": _minimax_entropy,
    "community": _community,
    "ordinal": _ordinal,
}
