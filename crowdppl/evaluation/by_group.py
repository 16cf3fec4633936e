"""Error rates, parity and calibration by groups of items and of annotators, with unknown truths averaged over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.intervals import Estimate, check_level
from crowdppl.core.validation import kind_of, seed_number, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.gold import class_codes
from crowdppl.data.ids import Codebook, by_item, native
from crowdppl.data.split import keep, whole_units
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.evaluate import Evidence, matched, nobody
from crowdppl.evaluation.metrics import Sample
from crowdppl.inference.predict.answers import drawn_truths
from crowdppl.inference.result import Fit
from crowdppl.results.choices import choose
from crowdppl.results.truths import is_corrected, labels
from crowdppl.results.updating import predict

Attribute = Hashable | Mapping[Any, Any] | pd.Series
"""A column of covariates, or the group of each item or annotator by id."""
DRAWS, FEWEST, WORK = 500, 100, 50_000_000
"""Draws of truths, at most and at least, and labels that all may read."""
RESAMPLES = 1_000
"""Of items with known truths."""


@dataclass(frozen=True, eq=False)
class _Groups:
    """What groups are called, and which each item or annotator is of, -1 for none."""

    names: pd.Index[Any]
    code: np.ndarray

    @staticmethod
    def of(attribute: Attribute | None, entity: str, data: Annotations) -> _Groups | None:
        """Groups by a column of the covariates, or by id; None without."""
        if attribute is None:
            return None
        ids = data.items if entity == "item" else data.annotators
        if isinstance(attribute, Mapping | pd.Series):
            values, name = _by_id(by_item(attribute), ids, entity, data), getattr(attribute, "name", None)
        elif not isinstance(attribute, Hashable):
            raise DataError(
                f"groups of {entity}s are {kind_of(attribute)}; name a column, or give a dict or Series by id"
            )
        else:
            values, name = _column(attribute, entity, data), attribute
        values = values.astype(object) if values.dtype == bool else values
        if pd.api.types.is_float_dtype(values.dtype) and values.nunique() > 0:
            raise DataError(
                f"the groups of {entity}s are floats, such as {native(values.dropna().iloc[0])!r}; name them, by "
                "pandas.cut or as text"
            )
        try:
            code, names = pd.factorize(values, sort=True)
        except TypeError as error:
            raise DataError(f"the groups of {entity}s cannot be sorted ({error}); name all by text") from error
        if not len(names):
            raise DataError(f"no {entity} is in a group; give one to each, or to some")
        return _Groups(pd.Index(names, name=entity if name is None else str(name)), np.asarray(code))


def _by_id(given: pd.Series[Any], ids: pd.Index[Any], entity: str, data: Annotations) -> pd.Series[Any]:
    """The groups of items or annotators in codebook order; of items that two columns name, also by the first."""
    places, table = ids, data.item_index
    if entity == "item" and table.nlevels > 1 and not given.index.isin(ids).any():
        places = table if given.index.nlevels > 1 else table.get_level_values(0)
    unknown = given.index[~given.index.isin(places)]
    if len(unknown):
        raise DataError(f"groups name the {entity} {native(unknown[0])!r}, which is not in the data; leave it out")
    if not given.index.is_unique:
        raise DataError(f"groups name the {entity} {native(given.index[given.index.duplicated()][0])!r} twice")
    return pd.Series(given.reindex(places).array, index=ids).infer_objects()


def _column(name: Hashable, entity: str, data: Annotations) -> pd.Series[Any]:
    table = data.item_covariates if entity == "item" else data.annotator_covariates
    if table is None or name not in table.columns:
        there = "none" if table is None else ", ".join(repr(native(x)) for x in table.columns)
        raise DataError(
            f"{entity}_covariates have no column {shown(name)} (there are: {there}); name one, or give groups by "
            "id as a dict or Series"
        )
    return table[name]


def by(
    posterior: Fit,
    attribute: Attribute | None = None,
    *,
    annotators: Attribute | None = None,
    decisions: Mapping[Any, Any] | pd.Series | None = None,
    seed: int = 0,
) -> ByGroup:
    """Error rates, parity and calibration by groups of items, of annotators, or both.

    Unknown truths are not put at their most probable class, by which groups whose truths are less sure would look
    better: they are drawn from the posterior, with the parameters that they share, and rates are averaged. By em
    and other engines that find points, parameters are taken for known.

    Rates are about items like those of a group, labelled by these annotators: each draw also weighs items at random
    (the Bayesian bootstrap of Rubin 1981, with one label more that may be any), and sequences and sets as one. How
    often intervals hold the truth of simulations stands in ``docs/benchmarks.md``.

    A method that takes annotators to err alike in all groups draws their rates together: where only some labels or
    truths tell of a group, fit "attribute_dawid_skene". Where some annotators err more on some items, intervals of
    ``pairs`` are too narrow by either method: in simulations those of 90 % held .6 to .8 of true values.

    Args:
        attribute: of items: a column of ``item_covariates``, or the group of each item, a dict or Series by id.
            Items without a group are left out. Of labels that are sets, and items of sequences, also by what holds
            them.
        annotators: the same of annotators, a column of ``annotator_covariates`` or groups by id.
        decisions: the class that was decided for each item, by a classifier say, whose errors are then told in
            place of those of labels; a dict or Series by item.
        seed: of the draws.

    Returns:
        Groups with tables as methods.

    Raises:
        MethodError: without an attribute, of truths that are no classes, and of annotators beside decisions.
        DataError: for a column or an id that the data lack, groups that are floats, decisions that are no class.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> crowd = crowdppl.simulate_annotators([0, 1] * 100, {"hammer": 3, "spammer": 2}, seed=0)
        >>> posterior = crowdppl.fit("one_coin", crowd.data, inference="vb", seed=0)
        >>> about = pd.Series(["men", "women", "women", "men"] * 50, crowd.data.items)
        >>> posterior.by(about).errors()[["items", "labels", "error"]].round(1)
               items  labels  error
        item
        men      100     500    0.4
        women    100     500    0.3
    """
    data, seed = posterior.data, seed_number(seed)
    of_items, of_annotators = _Groups.of(attribute, "item", data), _Groups.of(annotators, "annotator", data)
    if of_items is None and of_annotators is None:
        raise MethodError(
            "by() needs an attribute: a column of item_covariates, a dict or Series by item, or annotators="
        )
    posterior.result.probabilities  # noqa: B018  refuses truths that are numbers
    if decisions is None:
        return ByGroup(posterior, of_items, of_annotators, None, seed)
    if of_annotators is not None:
        raise MethodError("decisions= are of no annotators; leave one of decisions= and annotators= out")
    given = _by_id(by_item(decisions), data.items, "item", data)
    code = np.full(data.n_items, -1)
    there = given.notna().to_numpy()
    code[there] = class_codes(data.classes, given[there])
    return ByGroup(posterior, of_items, None, code, seed)


@dataclass(frozen=True, eq=False, repr=False)
class ByGroup:
    """Rates by groups of items, of annotators, or both, as ``Posterior.by`` finds them.

    Tables have a row a group, or a row for each pair of them. A rate has its standard deviation and the ends of its
    interval beside it, as ``error_sd``, ``error_low`` and ``error_high``; it is NaN where no label tells of it.

    Attributes:
        posterior: the fit.
        of_items, of_annotators: groups; None without.
        decisions: (N,) codes of classes, -1 without one, in place of labels; None for labels.
        seed: of draws.
    """

    posterior: Fit
    of_items: _Groups | None
    of_annotators: _Groups | None
    decisions: np.ndarray | None
    seed: int

    def __repr__(self) -> str:
        parts = [x for x in (self.of_items, self.of_annotators) if x is not None]
        return f"<ByGroup: {' x '.join(f'{len(x.names)} groups by {x.names.name}' for x in parts)}>"

    def errors(self, level: float = 0.95) -> pd.DataFrame:
        """The share of labels, or decisions, that are wrong.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame by group:

            - ``items``, ``labels``: how many; abstentions do not count
            - ``error``: share of labels that are wrong
            - ``false_positive``, ``false_negative``: with two classes, share of labels of the second class where
              the truth is the first, and the other way round
        """
        counts = self._counts
        right = counts.diagonal(axis1=-2, axis2=-1)
        rates = {"error": 1 - _ratio(right.sum(-1), counts.sum((-2, -1)))}
        if counts.shape[-1] == 2:
            rates["false_positive"] = _ratio(counts[..., 0, 1], counts[..., 0, :].sum(-1))
            rates["false_negative"] = _ratio(counts[..., 1, 0], counts[..., 1, :].sum(-1))
        return self._table(rates, level)

    def confusion(self, level: float = 0.95) -> pd.DataFrame:
        """How probable each label is given the truth.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame by group, truth and label with ``mean``, ``sd``, ``low`` and ``high``.
        """
        counts, classes = self._counts, self.posterior.data.classes
        found = _estimate(_ratio(counts, counts.sum(-1, keepdims=True)), level)
        parts = [x.names for x in (self.of_items, self.of_annotators) if x is not None]
        names = [*(x.name for x in parts), "truth", "label"]
        index = pd.MultiIndex.from_product([*parts, classes, classes], names=names)
        return pd.DataFrame({name: x.ravel() for name, x in found.columns().items()}, index=index)

    def parity(self, positive: Any = None, reference: Any = None, level: float = 0.95) -> pd.DataFrame:
        """Demographic parity: how often labels, or decisions, are positive, and truths.

        Args:
            positive: the class; of two, by default the second.
            reference: the group that others are compared with, of items where both are given; by default the one of
                most labels.
            level: probability of the intervals.

        Returns:
            DataFrame by group:

            - ``items``, ``labels``: how many
            - ``positive``: share of labels that are positive
            - ``difference``, ``ratio``: of this share, to that of the reference
            - ``truth``: share of positive truths, weighed by labels; parity of labels may be wrong where it differs
        """
        counts, k = self._counts, self._positive(positive)
        total = counts.sum((-2, -1))
        share = _ratio(counts[..., k].sum(-1), total)
        rates = {"positive": share, **self._compared(share, reference)}
        return self._table({**rates, "truth": _ratio(counts[..., k, :].sum(-1), total)}, level)

    def opportunity(self, positive: Any = None, reference: Any = None, level: float = 0.95) -> pd.DataFrame:
        """Equal opportunity: how often labels, or decisions, are positive where truths are (Hardt et al. 2016).

        Args:
            positive: the class; of two, by default the second.
            reference: the group that others are compared with, of items where both are given; by default the one of
                most labels.
            level: probability of the intervals.

        Returns:
            DataFrame by group:

            - ``items``, ``labels``: how many
            - ``true_positive``: share of positive labels where the truth is positive
            - ``difference``, ``ratio``: of this share, to that of the reference
            - ``false_positive``, ``false_positive_difference``: where the truth is another; odds are equal where
              both differences are 0
        """
        counts, k = self._counts, self._positive(positive)
        others = np.delete(counts, k, -2)
        right, wrong = (_ratio(x[..., k], x.sum(-1)) for x in (counts[..., k, :], others.sum(-2)))
        apart = {"false_positive_difference": self._compared(wrong, reference)["difference"]}
        rates = {"true_positive": right, **self._compared(right, reference), "false_positive": wrong, **apart}
        return self._table(rates, level)

    def pairs(self, level: float = 0.95) -> pd.DataFrame:
        """Who is judged worse by whom: errors of a group of annotators on a group of items, beside all others'.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame by group of items and of annotators:

            - ``items``, ``labels``: how many
            - ``error``: share of labels that are wrong
            - ``excess``: by how much these annotators err more on these items than on others, less the same of
              other annotators; 0 where nobody judges a group worse than others do
            - ``probability``: that it is above 0

        Raises:
            MethodError: without two groups of items and two of annotators.
        """
        if self._counts.shape[1] < 2 or self._counts.shape[2] < 2:
            raise MethodError(
                "pairs need two groups of items and two of annotators; give attribute and annotators="
            )
        total = self._counts.sum((-2, -1))
        wrong = total - self._counts.diagonal(axis1=-2, axis2=-1).sum(-1)

        def apart(x: np.ndarray) -> tuple[np.ndarray, ...]:
            """Of a pair, the same items by others, other items by the same, and other items by others."""
            by_items, by_annotators = x.sum(2, keepdims=True) - x, x.sum(1, keepdims=True) - x
            return x, by_items, by_annotators, x.sum((1, 2), keepdims=True) - x - by_items - by_annotators

        own, items, annotators, rest = (_ratio(a, b) for a, b in zip(apart(wrong), apart(total), strict=True))
        excess = (own - annotators) - (items - rest)
        table = self._table({"error": own, "excess": excess}, level)
        known = np.isfinite(excess)
        above = _ratio((known & (excess > 0)).sum(0), known.sum(0))
        return table.assign(probability=above.ravel())

    def changed(self) -> pd.DataFrame:
        """The decisions about items by the labels of each group of annotators alone, with what the fit learned.

        Returns:
            DataFrame by item and group of annotators, of those who labelled it:

            - ``labels``: of the item by the group
            - ``decision``, ``probability``: the most probable class by these labels, and its probability
            - ``now``: the label of ``labels()``
            - ``changes``: whether they differ

        Raises:
            MethodError: without groups of annotators.
        """
        groups, data = self.of_annotators, self.posterior.data
        if groups is None:
            raise MethodError("decisions by other annotators need their groups; give annotators= to by()")
        item, who, answer = data.label_codes()
        now, tables = labels(self.posterior)["label"].to_numpy(), []
        inside = np.ones(data.n_items, bool) if self.of_items is None else self.of_items.code >= 0
        for h in range(len(groups.names)):
            mine = groups.code[who] == h
            given = np.bincount(item[mine & (answer < data.n_classes)], minlength=data.n_items)
            asked = np.flatnonzero((given > 0) & inside)
            if not len(asked):
                continue
            part = keep(data.with_gold(None), mine)
            p = predict(self.posterior, part).to_numpy()[asked]
            code, _ = choose(p, part.votes()[asked], data.items[asked], data.classes)
            decision = data.classes.take(code)
            columns = {
                **data.item_columns(asked),
                str(groups.names.name): groups.names[h],
                "labels": given[asked],
                "decision": decision,
                "probability": p[np.arange(len(asked)), code],
                "now": now[asked],
                "changes": np.asarray(decision != now[asked]),
            }
            tables.append(pd.DataFrame(columns).assign(_item=asked, _group=h))
        out = pd.concat(tables).sort_values(["_item", "_group"]).drop(columns=["_item", "_group"])
        return out.set_index([*data.item_columns(np.arange(0)), str(groups.names.name)])

    def calibration(self, gold: Mapping[Any, Any] | pd.Series, level: float = 0.95) -> pd.DataFrame:
        """How right the fit's own probabilities are in each group of items, where truths are known.

        Args:
            gold: truths that the fit did not know, as ``evaluate`` takes them.
            level: probability of the intervals, by a bootstrap of items.

        Returns:
            DataFrame by group of items:

            - ``items``: of gold
            - ``accuracy``: of the most probable classes
            - ``overconfidence``: their mean probability less the accuracy
            - ``log_score``, ``ece``: as of ``evaluate``

            Each but ``items`` has its ``_low`` and ``_high``.

        Raises:
            MethodError: without groups of items.
        """
        check_level(level)
        if self.of_items is None:
            raise MethodError("calibration is of groups of items; give by() an attribute of items")
        p, truth, row, _ = matched(self.posterior, gold)
        code, rows = self.of_items.code[row], []
        for g in range(len(self.of_items.names)):
            mine = code == g
            if not mine.any():
                rows.append({"items": 0})
                continue
            evidence = Evidence(p[mine], truth[mine], nobody, None, RESAMPLES, level, self.seed)
            found = evidence.intervals({n: evidence.of_items[n] for n in ("accuracy", "log_score", "ece")})
            sample = Sample.of(p[mine], truth[mine])
            gap = sample.scored.confidence - sample.scored.right
            weight = np.random.default_rng(self.seed).standard_exponential((RESAMPLES, len(gap)))
            ends = np.quantile(weight @ gap / weight.sum(1), [(1 - level) / 2, (1 + level) / 2])
            own = {"overconfidence": (float(gap.mean()), *map(float, ends))}
            told = {name: tuple(found.loc[name]) for name in found.index}
            parts = {name: (told | own)[name] for name in ("accuracy", "overconfidence", "log_score", "ece")}
            rows.append(
                {"items": int(mine.sum())}
                | {
                    f"{name}{end}": x
                    for name, of in parts.items()
                    for end, x in zip(("", "_low", "_high"), of, strict=True)
                }
            )
        return pd.DataFrame(rows, index=self.of_items.names)

    @cached_property
    def _named(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Item, groups of item and annotator, and class of each label of groups that names one, (S,) each."""
        data = self.posterior.data
        if self.decisions is None:
            item, who, answer = data.label_codes()
        else:
            item, who, answer = np.arange(data.n_items), np.zeros(data.n_items, np.int64), self.decisions
        none = np.zeros(max(data.n_items, data.n_annotators), np.int64)
        g, h = (
            none[x] if of is None else of.code[x] for of, x in ((self.of_items, item), (self.of_annotators, who))
        )
        kept = (answer >= 0) & (answer < data.n_classes) & (g >= 0) & (h >= 0)
        return item[kept], g[kept], h[kept], answer[kept].astype(np.int64)

    @property
    def _shape(self) -> tuple[int, int]:
        """Groups of items and of annotators; 1 without."""
        g, h = (1 if x is None else len(x.names) for x in (self.of_items, self.of_annotators))
        return g, h

    @cached_property
    def _counts(self) -> np.ndarray:
        """Draws of how often labels fall into each cell: (draws, G, H, K, K) [groups, truth, label]."""
        data, k = self.posterior.data, self.posterior.data.n_classes
        item, g, h, answer = self._named
        cell = (g * self._shape[1] + h) * k
        unit = np.unique(whole_units(data), return_inverse=True)[1]
        n = max(FEWEST, min(DRAWS, WORK // max(1, len(item))))
        stream, size, out = np.random.default_rng(self.seed), int(np.prod(self._shape)) * k * k, []
        target = self.posterior.result.probabilities if is_corrected(self.posterior) else None
        for truth in drawn_truths(self.posterior, n, self.seed, target):
            weight = stream.standard_exponential(int(unit.max(initial=0)) + 1)[unit[item]]
            found = np.bincount((cell + truth[item]) * k + answer, weight, size)
            seen = np.repeat(np.bincount(g * self._shape[1] + h, minlength=size // k**2) > 0, k * k)
            out.append(found + seen * stream.standard_gamma(1 / k**2, size))
        return np.stack(out).reshape(n, *self._shape, k, k)

    @cached_property
    def _index(self) -> pd.Index[Any]:
        parts = [x.names for x in (self.of_items, self.of_annotators) if x is not None]
        return parts[0] if len(parts) == 1 else pd.MultiIndex.from_product(parts, names=[x.name for x in parts])

    def _table(self, rates: Mapping[str, np.ndarray], level: float) -> pd.DataFrame:
        """Numbers of items and labels, and rates (draws, G, H) as estimates."""
        item, g, h, _ = self._named
        row = g * self._shape[1] + h
        pairs = np.unique(row * (self.posterior.data.n_items + 1) + item) // (self.posterior.data.n_items + 1)
        size = int(np.prod(self._shape))
        columns: dict[str, np.ndarray] = {
            "items": np.bincount(pairs, minlength=size),
            "labels": np.bincount(row, minlength=size),
        }
        for name, draws in rates.items():
            columns |= {n: x.ravel() for n, x in _estimate(draws, level).columns(name).items()}
        return pd.DataFrame(columns, index=self._index)

    def _positive(self, given: Any) -> int:
        """The code of the positive class."""
        classes = self.posterior.data.classes
        if given is None and len(classes) == 2:
            return 1
        if given is None:
            raise MethodError(
                f"which of {len(classes)} classes is positive? name it: positive={native(classes[0])!r}, say"
            )
        return int(Codebook("class", classes).require([given], "positive=", "name one of the classes")[0])

    def _compared(self, share: np.ndarray, reference: Any) -> dict[str, np.ndarray]:
        """Difference and ratio of shares (draws, G, H) to those of a reference, of items or else of annotators."""
        axis, groups = (1, self.of_items) if self.of_items is not None else (2, self.of_annotators)
        assert groups is not None
        if reference is None:
            code = int(np.bincount(self._named[axis], minlength=len(groups.names)).argmax())
        elif reference in groups.names:
            code = groups.names.tolist().index(reference)
        else:
            there = ", ".join(repr(native(x)) for x in groups.names)
            raise MethodError(f"reference={reference!r} is none of the groups {there}; name one")
        beside = share.take([code], axis)
        return {"difference": share - beside, "ratio": _ratio(share, beside)}


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """A share, NaN of nothing."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), whole)
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def _estimate(draws: np.ndarray, level: float) -> Estimate:
    """An estimate from draws along the first axis, of those that there are; NaN where there are none."""
    check_level(level)
    none = np.isnan(draws).all(0)
    filled = np.where(none, 0.0, draws)
    low, high = np.nanquantile(filled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    parts: tuple[Callable[..., np.ndarray], ...] = (np.nanmean, np.nanstd)
    mean, sd = (of(filled, axis=0) for of in parts)
    return Estimate(*(np.where(none, np.nan, x) for x in (mean, sd, low, high)))
