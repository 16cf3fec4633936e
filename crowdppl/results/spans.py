"""Spans of sequences, and what annotators decide about them: spans of tags, else a class for each item.

The labels of a span are one decision of an annotator, and no independent witnesses. How well its truth is known is
told by what annotators left out of a fit mark: they mark a decision that is true more often than one that is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from crowdppl import registry
from crowdppl.core.validation import number_within, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.sequences import POSITION, SEQUENCE, SEQUENCES, Tags, units_of
from crowdppl.data.ragged import runs
from crowdppl.data.split import whole_units
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.inference.fit import fit_one
from crowdppl.inference.predict.answers import chain_steps
from crowdppl.inference.result import Fit
from crowdppl.primitives.model import Model, card_of
from crowdppl.results.choices import choose
from crowdppl.results.correction import members
from crowdppl.results.truths import is_corrected

ROUNDS = 200
"""Of the search for the two shares of a channel."""
MARKS_MODEL = "hierarchical_dawid_skene"
"""The method by which the marks of annotators tell whether a decision is true."""


def spans(posterior: Fit, minimum: float = 0.5) -> pd.DataFrame:
    """The spans of each sequence, such as the names in a sentence, and how sure each is.

    A span is a B-X and all the I-X that follow it; an I-X after anything else belongs to none. Its probability is
    that of exactly this first item, last item and type. Under a chain of truths it is exact, averaged over draws of
    the parameters where there are draws. Under other methods it is the product of those of the items. Where
    probabilities are corrected or averaged, the labels of a span are taken as one decision of an annotator: it is
    averaged between a member's own and what annotators' marks of exactly this span tell, by shares under which what
    annotators left out mark is most probable (``correction.of_spans``). Where there are no such shares, as with
    known truths, it is the least of the probabilities of its items, times that of its end.

    Exact means exact under the model. Labels alone cannot show errors that annotators share: where several cut the
    same name short, spans are told surer than they are right. Known truths of whole sequences correct this
    (``gold=`` of ``fit``, with ``calibrate=True``).

    Args:
        minimum: the least probability of a span. Above 0.5, all such spans are listed; below, those of the most
            probable labels. None overlap.

    Returns:
        DataFrame, a row a span, in order of sequence and position:

        - ``sequence``: its id
        - ``first``, ``last``: positions in it
        - ``type``: X of B-X; "" of the bare tags B and I
        - ``probability``: of exactly this span

    Raises:
        MethodError: for labels of another kind than "sequence", for classes that are no BIO tags, and for a minimum
            that is not between 0 and 1.

    Examples:
        >>> import pandas as pd
        >>> said = {"ann": "B-PER I-PER O", "bob": "B-PER I-PER O", "eve": "B-PER O O"}
        >>> rows = [("s", n, who, tag) for who, tags in said.items() for n, tag in enumerate(tags.split())]
        >>> table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
        >>> data = crowdppl.Annotations.from_frame(table, kind="sequence")
        >>> posterior = crowdppl.fit("hmm_crowd", data, inference="vb", seed=0)
        >>> posterior.spans().drop(columns="probability")
          sequence  first  last type
        0        s      0     1  PER
    """
    minimum = number_within("minimum", minimum, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    data, tags = posterior.data, tags_of(posterior.data)
    if tags is None:
        of = f" with the classes {shown([*data.classes])}" if data.alphabet.kind == SEQUENCES else ""
        raise MethodError(
            f"these labels are of kind={data.kind!r}{of}; spans want kind='sequence' and classes B-X, I-X and O"
        )
    order, starts = in_sequences(data)
    code = most_probable(posterior)[order]
    ends = tags.ends(code, starts)
    first = np.flatnonzero(ends >= 0)
    assert data.item_covariates is not None
    sequence, position = (np.asarray(data.item_covariates[name])[order] for name in (SEQUENCE, POSITION))
    columns = {
        "sequence": sequence[first],
        "first": position[first],
        "last": position[ends[first]],
        "type": [tags.types[k] for k in code[first]],
        "probability": _of_spans(posterior, tags, order, starts, code, ends),
    }
    found = pd.DataFrame(columns)
    return found[found["probability"] >= minimum].reset_index(drop=True)


def _of_spans(
    posterior: Fit, tags: Tags, order: np.ndarray, starts: np.ndarray, code: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """The probability of each span: averaged with that by annotators' marks where a correction says so."""
    shares = {} if posterior.correction is None or posterior.memory is not None else posterior.correction.of_spans
    if posterior.data.gold_codes is not None or all(share == 1 for share in shares.values()):
        return span_probabilities(posterior, tags, order, starts, code, ends)
    ((name, share),) = shares.items()
    first = np.flatnonzero(ends >= 0)
    spans = np.column_stack([first, ends[first], code[first]])
    own = span_probabilities(_mean_field(members(posterior)[name]), tags, order, starts, code, ends)
    return share * own + (1 - share) * probability_of(spans, *decided_by_marks(posterior.data))


def of_sequences(model: Model) -> bool:
    """Whether a method is for sequences, so that truths follow one another."""
    card = card_of(model)
    return card is not None and card.kind == SEQUENCES.name


def tags_of(data: Annotations) -> Tags | None:
    """The classes of sequences as BIO tags; None for other kinds, and where a class is no such tag."""
    return Tags.of(data.classes) if data.alphabet.kind == SEQUENCES else None


def most_probable(posterior: Fit) -> np.ndarray:
    """The code of each item's label, as of ``labels``, int64 (N,)."""
    data = posterior.data
    return choose(posterior.result.probabilities, np.asarray(data.votes()), data.items, data.classes)[0]


def in_sequences(data: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Items in order of sequence and position, int64 (N,), and which of these are first, bool (N,)."""
    units = units_of(data.item_covariates)
    assert units is not None
    order = np.lexsort(units.T[::-1])
    return order, units[order, 1] == 1


def span_probabilities(
    posterior: Fit, tags: Tags, order: np.ndarray, starts: np.ndarray, code: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """The probability of each span: of its first item, the others given those before, and that none follows."""
    first = np.flatnonzero(ends >= 0)
    after, inside = ends[first] + 1, tags.inside[code[first]]
    followed = np.append(~starts, False)[after] & (inside >= 0)
    own = code.copy()
    own[after[followed]] = inside[followed]
    asked = (x[np.argsort(order)] for x in (code, own, np.roll(code, 1)))
    found = None if is_corrected(posterior) else chain_steps(posterior, *asked)
    if found is None:
        each = posterior.result.probabilities
        share, step = (each[order, x][None] for x in (code, own))
    else:
        share, step = (x[:, order] for x in found)
    ended = np.ones((len(share), len(first)))
    ended[:, followed] -= step[:, after[followed]]
    pairs = zip(first, after, strict=True)
    if is_corrected(posterior):
        paths = [share[:, a:b].min(1) for a, b in pairs]
    else:
        paths = [share[:, a] * step[:, a + 1 : b].prod(1) for a, b in pairs]
    return np.array([(path * end).mean() for path, end in zip(paths, ended.T, strict=True)]).clip(0, 1)


@dataclass(frozen=True)
class Decisions:
    """Decisions about which annotators left out are asked.

    Attributes:
        spans: first and last place in order of sequences, and class of the first, (D, 3).
        decision: row of ``spans`` of each question, (n,).
        annotator: who is asked, (n,).
        marked: whether the annotator marks it, (n,).
        unit: its sequence, (n,).
    """

    spans: np.ndarray
    decision: np.ndarray
    annotator: np.ndarray
    marked: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, data: Annotations, out: np.ndarray, found: Iterable[np.ndarray]) -> Decisions:
        """Questions to annotators of labels ``out``, bool (S,): about what others mark, or fits ``found``."""
        order, _ = in_sequences(data)
        item, annotator, _ = data.label_codes()
        spans = np.unique(np.concatenate([marked_by(data, ~out)[0], *found]), axis=0)
        unit = whole_units(data)
        asked = np.unique(np.stack([unit[item[out]], annotator[out]], 1), axis=0)
        home = unit[order][spans[:, 0]]
        by_unit, sizes = np.argsort(home, kind="stable"), np.bincount(home, minlength=unit.max() + 1)
        pair, place = runs((np.cumsum(sizes) - sizes)[asked[:, 0]], sizes[asked[:, 0]])
        decision, who = by_unit[place], asked[pair, 1]
        said = _within(np.column_stack([spans[decision], who]), np.column_stack(marked_by(data, out)))
        return cls(spans, decision, who, said >= 0, home[decision])

    @classmethod
    def joined(cls, parts: Sequence[Decisions]) -> Decisions:
        """All questions, one after another."""
        before = np.cumsum([0, *(len(x.spans) for x in parts[:-1])])
        decision = [x.decision + n for x, n in zip(parts, before, strict=True)]
        rest = ([getattr(x, name) for x in parts] for name in ("spans", "annotator", "marked", "unit"))
        spans, annotator, marked, unit = map(np.concatenate, rest)
        return cls(spans, np.concatenate(decision), annotator, marked, unit)

    def shares(self, found: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """How probable the decision of each question is, (n,), where those ``found`` have these probabilities."""
        out: np.ndarray = probability_of(self.spans, found, probability)[self.decision]
        return out


def probability_of(spans: np.ndarray, found: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """The probability of each of some spans, (n,), where those ``found`` have these; of others it is 0."""
    return np.asarray(np.append(probability, 0.0)[_within(spans, found)])


def _within(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The place of each row (n, C) in a table of different rows (m, C); -1 where it is not there."""
    code = np.unique(np.concatenate([table, rows]), axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(code.max(initial=-1) + 1, -1)
    place[code[: len(table)]] = np.arange(len(table))
    return place[code[len(table) :]]


def found_by(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Decisions of a fit, (D, 3) as of ``Decisions``, and their probabilities (D,), by vb under its mean field."""
    fit = _mean_field(fit)
    order, starts = in_sequences(fit.data)
    code, tags = most_probable(fit)[order], tags_of(fit.data)
    first = np.arange(len(code))
    if tags is None:
        return np.column_stack([first, first, code]), fit.result.probabilities[order, code]
    ends = tags.ends(code, starts)
    first = np.flatnonzero(ends >= 0)
    spans = np.column_stack([first, ends[first], code[first]])
    return spans, span_probabilities(fit, tags, order, starts, code, ends)


def _mean_field(fit: Fit) -> Fit:
    """A fit by vb under its mean field: widths would cost more than the fit."""
    return replace(fit, result=fit.result.mean_field())


def marked_by(data: Annotations, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decisions in some labels, bool (S,): (D, 3) as of ``Decisions``, and the annotator of each."""
    order, starts = in_sequences(data)
    item, annotator, code = (x[rows & (data.label_codes()[2] < data.n_classes)] for x in data.label_codes())
    place = np.argsort(order)[item]
    once = np.unique(annotator * np.int64(data.n_items) + place, return_index=True)[1]
    place, annotator, code = place[once], annotator[once], code[once]
    tags = tags_of(data)
    if tags is None:
        return np.column_stack([place, place, code]), annotator
    begins = starts[place] | (np.diff(place, prepend=-2) != 1) | (np.diff(annotator, prepend=-1) != 0)
    ends = tags.ends(code, begins)
    first = np.flatnonzero(ends >= 0)
    return np.column_stack([place[first], place[ends[first]], code[first]]), annotator[first]


def decided_by_marks(data: Annotations, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Decisions that labels, bool (S,), all by default, mark: (D, 3) as of ``Decisions``, and their probabilities.

    Each is an item that the annotators of its sequence mark or not, whatever the places of their other marks.
    """
    rows = np.ones(data.n_labels, bool) if rows is None else rows
    asked = Decisions.of(data, rows, [marked_by(data, rows)[0]])
    if not len(asked.decision):
        return asked.spans, np.zeros(len(asked.spans))
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # of marks, which no user gave
        marks = Annotations.from_arrays(asked.decision, asked.annotator, asked.marked.astype(int), classes=[0, 1])
        fit = fit_one(registry.method(MARKS_MODEL), marks, "vb", {"seed": 0}, name=MARKS_MODEL)
    return asked.spans, fit.result.probabilities[:, 1]


def channel_log_p(share: np.ndarray, marked: np.ndarray, size: np.ndarray | None = None) -> np.ndarray:
    """Log-probability of each mark, (n,), of a decision that is true with probability ``share``, (n,).

    Marked are a share of the true decisions, and one no larger of the others, that make marks most probable (EM).
    The former is one of each ``size``, whole numbers (n,), where these are given: longer spans are harder to mark.
    """
    size = np.zeros(len(share), np.int64) if size is None else size
    hit, false = np.full(size.max(initial=0) + 1, 0.5), 0.1
    for _ in range(ROUNDS):
        each = hit[size]
        both = np.stack(
            [share * np.where(marked, each, 1 - each), (1 - share) * np.where(marked, false, 1 - false)]
        )
        true = both[0] / both.sum(0)
        of_all, false = (np.clip((x @ marked + 0.5) / (x.sum() + 1), 1e-6, 1 - 1e-6) for x in (true, 1 - true))
        counts = (np.bincount(size, x, len(hit)) for x in (true * marked, true))
        hit = np.divide(*(x + extra for x, extra in zip(counts, (of_all, 1), strict=True)))
        hit = np.clip(np.maximum(hit, false), 1e-6, 1 - 1e-6)  # who finds the opposite predicts nothing
    each = hit[size]
    p = share * np.where(marked, each, 1 - each) + (1 - share) * np.where(marked, false, 1 - false)
    return np.asarray(np.log(p))
