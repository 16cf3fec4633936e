"""Soft labels: probabilities, scores or several noisy answers, in place of labels that are seen for certain.

An annotator means one class of an item, by a confusion as of any label; what is seen is evidence of that class.
Probabilities p are calibrated by a power b > 0 and a shift c of each annotator, q = softmax(b log p + c), and
speak for class k by q[k] / m[k], where m is the annotator's mean of q: probabilities that are the same for all
items say nothing. Of several answers of an annotator to an item, each is the class that is meant, or noise: any
class, the class that was shown first, or one that was not. All this is learned with Dawid and Skene's model (1979,
Applied Statistics 28(1)) of the classes that are meant, by maximum a posteriori.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import number_within, one_of, shown
from crowdppl.data.coded import Coded
from crowdppl.data.ids import Place, listed, native
from crowdppl.data.tables import Rows, Table, as_pandas
from crowdppl.data.votes import COUNTED
from crowdppl.errors import DataError

SCALES = ("probability", "log", "score")
ROUNDING = 1e-3
"""By how much the probabilities of a label may miss a sum of one."""
LARGEST, STEPS = 20_000_000, 200
"""Labels times squared classes from which maps are learned, and steps of the optimiser, at most."""
LOWEST = -50.0
"""Log of a probability that counts as 0 while maps are learned."""
STRENGTH, ACCURACY = 4.0, 0.7
"""Prior pseudo-counts of a row of the classes that are meant, and the share of them on the truth."""
SPREADS = {"power": (1.0, 0.5), "shift": (1.0, 0.5), "noise": (2.0, 0.7)}
"""Prior standard deviations of what all annotators share, and of an annotator's own around it."""
USUAL = (0.9, 0.06, 0.02, 0.02)
"""Prior of the shares of answers: the class that is meant, any class, the one shown first, another."""
NOISE = ("meant", "any", "first", "not_first")
MOST_PROBABLE = "most probable label"
"""The column of the classes that have the largest probabilities."""
FLAT = 1e-9
"""Spread of an annotator's scores, by their size, up to which they are alike: that of all scores is taken."""
STEADY = 10.0
"""Labels with the mean probabilities of all annotators that are added to each annotator's."""


@dataclass(frozen=True)
class SoftLabels:
    """What is seen of labels in place of classes, and how it is read.

    Attributes:
        classes: all of them.
        columns: of probabilities or scores, one a class, or one for the last of two; () where there are none.
        scale: what these hold: "probability", "log" or "score".
        floor: what a probability of 0 is read as; None where 0 stays 0.
        shown_first: the column of the class that was shown first; None where there is none.
        noisy: whether all answers of an annotator to an item tell of one class that is meant.
        annotators: ids of those from whom maps were learned.
        maps: float64 (A + 1, 5 + 2 K): power, shifts, means and shares of ``NOISE`` of each of them, and at last of
            any other annotator.
    """

    classes: pd.Index[Any]
    columns: tuple[Hashable, ...]
    scale: str
    floor: float | None
    shown_first: Hashable | None
    noisy: bool
    annotators: pd.Index[Any]
    maps: np.ndarray

    @property
    def names(self) -> list[str]:
        """The columns of annotations that hold the evidence of each class, which is at most 1."""
        return [f"evidence of {native(x)}" for x in self.classes]

    def table(self) -> pd.DataFrame:
        """By annotator, the power of probabilities and the shares of answers that are meant and that are noise."""
        found = pd.DataFrame(self.maps[:-1, -len(NOISE) :], self.annotators.rename("annotator"), NOISE)
        found.insert(0, "power", self.maps[:-1, 0])
        shown = ["power"] * bool(self.columns) + [
            *NOISE[: 4 if self.shown_first is not None else 2]
        ] * self.has_noise
        return found[shown]

    @property
    def has_noise(self) -> bool:
        """Whether answers may be noise."""
        return self.noisy or self.shown_first is not None

    def evidence(self, columns: pd.DataFrame | None, answer: np.ndarray, n_classes: int) -> np.ndarray | None:
        """Log-evidence (S, K) of each class, by the columns of annotations; None where all labels are certain.

        A label without evidence is the class that it names, of codes (S,); classes that are new have none.
        """
        if columns is None or not {*self.names} <= {*columns.columns}:
            return None
        found = columns[self.names].to_numpy(np.float64)
        found = np.pad(found, ((0, 0), (0, n_classes - found.shape[1])))
        sure = np.isnan(found).any(1)
        certain = np.eye(n_classes + 1)[np.minimum(answer, n_classes), :-1]
        found[sure] = certain[sure]
        if np.array_equal(found, certain):
            return None
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(found))


class Seen(NamedTuple):
    """What is seen of labels: codes (S,) of items and annotators, and of each label either logits or answers.

    Attributes:
        logits: (S, K); NaN of labels that are answers. None where all are.
        row, answer, first: of each answer, its label, class and the class shown first, -1 where none is known.
    """

    item: np.ndarray
    annotator: np.ndarray
    logits: np.ndarray | None
    row: np.ndarray
    answer: np.ndarray
    first: np.ndarray


def columns_of(options: Mapping[str, Any]) -> dict[Any, Hashable] | None:
    """Columns of probabilities by class, as options name them, or the one of the last of two classes."""
    given, classes = options.get("probabilities"), options.get("classes")
    if given is None:
        return None
    if isinstance(given, Mapping):
        named = dict(given)
    elif isinstance(given, str | int):
        named = {given: given} if classes is None else {[*classes][-1]: given}
    else:
        columns = listed(given, "probabilities")
        known = columns if classes is None else [*classes]
        if len(known) != len(columns):
            raise DataError(
                f"probabilities= names {len(columns)} columns and classes= {len(known)} classes; name a column for "
                "each class, in their order, or give a mapping from class to column"
            )
        named = dict(zip(known, columns, strict=True))
    wrong = next((x for x in named.values() if not isinstance(x, str | int)), None)
    if wrong is not None:
        raise DataError(f"probabilities= names {shown(wrong)}, which is no column; use text or whole numbers")
    if len(named) == 1 and (classes is None or len([*classes]) != 2):
        raise DataError(
            f"probabilities= names the one column {shown(next(iter(named.values())))}; say classes=[other, this], "
            "the two classes, or name a column for each class"
        )
    return named


def classes_of(options: Mapping[str, Any]) -> list[Any]:
    """The classes of columns of probabilities, in their order."""
    named = columns_of(options) or {}
    return [*named] if options.get("classes") is None else [*options["classes"]]


def logits_of(table: pd.DataFrame, options: Mapping[str, Any], origin: str, place: Place) -> np.ndarray:
    """Log-probabilities or scores of the classes (S, K) in columns of a table; NaN in rows that have none.

    DataError for what is missing, no number, no probability, or does not sum to one.
    """
    named, classes = columns_of(options) or {}, classes_of(options)
    scale = one_of("scale", options.get("scale") or SCALES[0], SCALES, DataError)
    floor = options.get("floor")
    if floor is not None:
        number_within("floor", floor, "a number from 0 and below 1", lambda x: 0 <= x < 1, error=DataError)
    for name in named:
        if name not in classes:
            raise DataError(f"probabilities= names the class {shown(name)}, which is none of {classes}; correct it")
    lost = [x for x in named.values() if x not in table.columns] or (
        [x for x in classes if x not in named] if len(named) > 1 else []
    )
    if lost:
        raise DataError(f"{origin} has no column {shown(lost[0])} of probabilities; correct probabilities=")
    order = [named[x] for x in classes if x in named]
    x = np.stack([_numbers(table[name], name, place) for name in order], 1)
    _refuse_rows(np.isnan(x).any(1) & ~np.isnan(x).all(1), x, place, "misses some", "give all of them, or none")
    there = ~np.isnan(x).all(1)
    if scale == "score":
        wrong = there & ~np.isfinite(x).all(1)
        _refuse_rows(wrong, x, place, "has an infinite score", "give finite numbers")
        return np.concatenate([np.zeros_like(x), x], 1) if len(order) == 1 else x
    if scale == "log":
        wrong = there & ((x == -np.inf).any(1) & (floor is None))
        _refuse_rows(
            wrong,
            x,
            place,
            "has a log-probability of minus infinity",
            "say floor=, what it is read as, such as 1e-6",
        )
        x = np.exp(x)
    wrong = there & ((x < 0) | (x > 1 + ROUNDING)).any(1)
    remedy = "say scale='log' or 'score' if they are these" if scale == SCALES[0] else "say scale='score' if not"
    _refuse_rows(wrong, x, place, "has a probability outside of 0 to 1", remedy)
    x = np.concatenate([1 - x, x], 1).clip(0) if len(order) == 1 else x
    wrong = there & (np.abs(x.sum(1) - 1) > ROUNDING)
    _refuse_rows(
        wrong,
        x,
        place,
        "has probabilities that do not sum to one",
        "divide them by their sum, or say scale='score'",
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x if floor is None else np.where(np.isnan(x), x, x.clip(floor))))


def _numbers(column: pd.Series[Any], name: Hashable, place: Place) -> np.ndarray:
    """A column as float64, NaN where it is blank; DataError for text that is no number."""
    blank = column.isna() | (column.astype(str).str.strip() == "")
    found = pd.to_numeric(column.where(~blank), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(found) & ~blank.to_numpy())
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{place(row)} has {shown(column.iloc[row])} in the column {name!r} of probabilities; give numbers"
        )
    return found


def _refuse_rows(wrong: np.ndarray, x: np.ndarray, place: Place, what: str, remedy: str) -> None:
    """Refuses the first of some rows by what it holds."""
    if wrong.any():
        row = int(np.argmax(wrong))
        values = ", ".join(f"{value:.6g}" for value in x[row])
        raise DataError(f"{place(row)} {what}: {values} ({wrong.sum()} such rows); {remedy}")


def gathered(item: np.ndarray, annotator: np.ndarray, answer: np.ndarray, n_classes: int) -> np.ndarray:
    """For each row, the one that stands for all answers of its annotator to its item, the answer given most."""
    pair = item.astype(np.int64) * (annotator.max(initial=0) + 1) + annotator
    frame = pd.DataFrame({"pair": pair, "answer": answer, "away": answer >= n_classes, "row": np.arange(len(pair))})
    frame["times"] = frame.groupby(["pair", "answer"])["row"].transform("size")
    best = frame.sort_values(["pair", "away", "times", "row"], ascending=[True, True, False, True])
    return np.asarray(frame["pair"].map(best.drop_duplicates("pair").set_index("pair")["row"]))


def _some(seen: Seen, most: int) -> Seen:
    """What is seen of some labels at random, where there are more than so many."""
    if len(seen.item) <= most:
        return seen
    kept = np.sort(np.random.default_rng(0).permutation(len(seen.item))[:most])
    place = np.full(len(seen.item), -1)
    place[kept] = np.arange(most)
    own = place[seen.row] >= 0
    logits = None if seen.logits is None else seen.logits[kept]
    return Seen(
        seen.item[kept], seen.annotator[kept], logits, place[seen.row[own]], seen.answer[own], seen.first[own]
    )


class _Maps:
    """Parameters of maps and of Dawid and Skene's model, by maximum a posteriori."""

    @classmethod
    def learned(
        cls, seen: Seen, n_annotators: int, k: int, scale: str, noisy: bool, known: np.ndarray | None
    ) -> np.ndarray:
        """Maps as of ``SoftLabels``; what labels do not have changes nothing."""
        model = cls(_some(seen, max(1, LARGEST // k**2)), n_annotators, k, scale, noisy, known)
        model.learn()
        return model.table()

    def __init__(
        self, seen: Seen, n_annotators: int, k: int, scale: str, noisy: bool, known: np.ndarray | None
    ) -> None:
        self.k, self.a = k, n_annotators
        self.item, self.annotator, self.row, self.answer, self.first = (
            torch.as_tensor(x).long() for x in (seen.item, seen.annotator, seen.row, seen.answer, seen.first)
        )
        self.logits = None if seen.logits is None else torch.as_tensor(seen.logits)
        if self.logits is not None and scale != "score":
            self.logits = self.logits.clamp(min=LOWEST)
        self.known = None if known is None else torch.as_tensor(known)
        self.noisy = noisy or bool((self.first >= 0).any())
        self.start = self._start(scale)
        off = (1 - ACCURACY) / (k - 1)
        self.prior = STRENGTH * torch.full((k, k), off, dtype=torch.float64).fill_diagonal_(ACCURACY)
        shapes = {"power": (1,), "shift": (k,), "noise": (4,)}
        self.free = {"prevalence": torch.zeros(k), "confusion": (self.prior / STRENGTH).log().expand(self.a, k, k)}
        for name, shape in shapes.items():
            if self.logits is None if name != "noise" else not self.noisy:
                continue
            self.free[name] = torch.zeros(shape)
            self.free[f"own {name}"] = torch.zeros(self.a, *shape)
        self.free = {name: x.double().clone().requires_grad_() for name, x in self.free.items()}

    def _start(self, scale: str) -> tuple[Tensor, Tensor]:
        """Power and shifts by which scores have the spread of log-probabilities; of these, 1 and 0."""
        if self.logits is None or scale != "score":
            return torch.ones(self.a + 1, 1).double(), torch.zeros(self.a + 1, self.k).double()
        there = ~self.logits.isnan().any(1)
        x, who = self.logits[there], self.annotator[there]
        x, n = x - x.mean(1, keepdim=True), torch.bincount(who, minlength=self.a).double().unsqueeze(1)
        every, largest = x.mean(0, keepdim=True), x.abs().max()
        middle = torch.zeros(self.a, self.k).double().index_add(0, who, x) / n.clamp(min=1)
        square = torch.zeros(self.a, self.k).double().index_add(0, who, (x - middle[who]).square()) / n.clamp(min=1)
        spread, usual = square.mean(1, keepdim=True).sqrt(), (x - every).square().mean().sqrt().clamp(min=1e-300)
        flat = spread <= FLAT * middle.abs().amax(1, keepdim=True).clamp(min=FLAT * largest)
        middle, spread = torch.where(flat, every, middle), torch.where(flat, usual, spread)
        power = 1 / torch.cat([spread, usual.reshape(1, 1)])
        return power, -power * torch.cat([middle, every])

    def maps(self) -> dict[str, Tensor]:
        """Power, shifts and log-shares of noise of each annotator, and at last of any other."""
        found = dict[str, Tensor]()
        for name in ("power", "shift", "noise"):
            if name in self.free:
                own = torch.cat([self.free[f"own {name}"], torch.zeros_like(self.free[name]).unsqueeze(0)])
                found[name] = self.free[name] + own
        if "power" in found:
            found["power"] = self.start[0] * found["power"].exp()
            found["shift"] = self.start[1] + found["shift"] - found["shift"].mean(1, keepdim=True)
        if "noise" in found:
            usual = torch.tensor(USUAL, dtype=torch.float64).log()
            if bool((self.first < 0).all()):
                usual[2:] = -torch.inf
            found["noise"] = (usual + found["noise"]).log_softmax(-1)
        return found

    def evidence(self, maps: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Log-evidence (S, K) of each label, and log-means (A + 1, K) of probabilities, if there are any."""
        out, mean = torch.zeros(len(self.item), self.k, dtype=torch.float64), None
        if self.logits is not None:
            there = ~self.logits.isnan().any(1)
            who = self.annotator[there]
            log_q = calibrated(self.logits[there], maps["power"][who], maps["shift"][who])
            mean = self._mean(log_q.exp(), who).log()
            out = out.index_put((there.nonzero().squeeze(1),), log_q - mean[who])
        if len(self.row):
            noise = maps.get("noise")
            shares = None if noise is None else noise[self.annotator[self.row]]
            out = out.index_add(0, self.row, log_answers(self.answer, self.first, shares, self.k).clamp(min=LOWEST))
        return out, mean

    def _mean(self, q: Tensor, who: Tensor) -> Tensor:
        """Mean probabilities of each annotator, steadied by those of all, and of all, (A + 1, K)."""
        every = q.mean(0, keepdim=True)
        total = torch.zeros(self.a, self.k, dtype=q.dtype).index_add(0, who, q) + STEADY * every
        return torch.cat([total / total.sum(1, keepdim=True), every])

    def loss(self) -> Tensor:
        """Minus the log-posterior of all parameters, a label."""
        evidence, _ = self.evidence(self.maps())
        table = self.free["confusion"].log_softmax(-1)
        given = (table[self.annotator] + evidence.unsqueeze(1)).logsumexp(-1)
        log_p = self.free["prevalence"].log_softmax(0)
        n = int(self.item.max()) + 1 if self.known is None else len(self.known)
        items = torch.zeros(n, self.k, dtype=torch.float64).index_add(0, self.item, given) + log_p
        if self.known is not None:
            told = self.known >= 0
            items = items.masked_fill(
                told.unsqueeze(1) & (self.known.unsqueeze(1) != torch.arange(self.k)), -torch.inf
            )
        total = items.logsumexp(1).sum() + (self.prior * table).sum() + log_p.sum()
        for name, (common, own) in SPREADS.items():
            if name in self.free:
                total = total - (self.free[name] / common).square().sum() / 2
                total = total - (self.free[f"own {name}"] / own).square().sum() / 2
        return -total / len(self.item)

    def learn(self) -> None:
        """Finds the mode."""
        optimiser = torch.optim.LBFGS(
            [*self.free.values()], max_iter=STEPS, tolerance_grad=1e-7, line_search_fn="strong_wolfe"
        )

        def step() -> Tensor:
            optimiser.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        optimiser.step(step)

    @torch.no_grad()
    def table(self) -> np.ndarray:
        """The maps, (A + 1, 5 + 2 K)."""
        maps = self.maps()
        ones, mean = torch.ones(self.a + 1, 1, dtype=torch.float64), self.evidence(maps)[1]
        shares = ones * (torch.full((self.k,), 1 / self.k) if mean is None else mean.exp())
        noise = ones * torch.eye(len(NOISE))[0] if "noise" not in maps else _told_apart(maps["noise"].exp(), self.k)
        parts = (maps.get("power", ones), maps.get("shift", torch.zeros_like(shares)), shares, noise)
        return torch.cat(parts, 1).numpy()


def _told_apart(noise: Tensor, k: int) -> Tensor:
    """Shares of noise, of which what goes evenly to the class shown first and to others goes to any class."""
    meant, every, first, other = noise.unbind(-1)
    even = torch.minimum(k * first, k / (k - 1) * other)
    return torch.stack([meant, every + even, first - even / k, other - even * (k - 1) / k], -1).clamp(min=0)


def calibrated(logits: Tensor, power: Tensor, shift: Tensor) -> Tensor:
    """Log-probabilities (S, K) by the power (S, 1) and shifts (S, K) of an annotator."""
    return (power * logits + shift).log_softmax(-1)


def log_answers(answer: Tensor, first: Tensor, noise: Tensor | None, k: int) -> Tensor:
    """log p(answer | class that is meant), (Q, K), by log-shares (Q, 4) of ``NOISE``; None where there is no noise.

    Where it is not known which class was shown first, noise that goes by it goes to any class.
    """
    meant = torch.nn.functional.one_hot(answer, k).double().log()
    if noise is None:
        return meant
    unknown = (first < 0).unsqueeze(1)
    is_first = torch.where(first == answer, 0.0, -torch.inf).double().unsqueeze(1)
    is_other = torch.where(first == answer, -torch.inf, -np.log(max(1, k - 1))).double().unsqueeze(1)
    even = torch.full_like(is_first, -np.log(k))
    by_place = torch.cat([noise[:, 2:3] + is_first, noise[:, 3:] + is_other], 1)
    by_place = torch.where(unknown, noise[:, 2:] + even, by_place)
    other = torch.cat([noise[:, 1:2] + even, by_place], 1).logsumexp(1, keepdim=True)
    return torch.logaddexp(noise[:, :1] + meant, other)


def _evidence(seen: Seen, soft: SoftLabels, k: int, sure: np.ndarray) -> np.ndarray:
    """Evidence (S, K) of the classes that labels mean, at most 1, by maps; of labels that are ``sure``, NaN.

    Annotators are rows of the maps.
    """
    out = torch.zeros(len(seen.item), k, dtype=torch.float64)
    mine = torch.as_tensor(soft.maps[seen.annotator])
    if seen.logits is not None:
        logits = torch.as_tensor(seen.logits)
        there = ~logits.isnan().any(1)
        power, shift, mean = (x[there] for x in mine.split((1, k, k, len(NOISE)), 1)[:3])
        out[there] = calibrated(logits[there], power, shift) - mean.log()
    if len(seen.row):
        row, answer, first = (torch.as_tensor(x).long() for x in (seen.row, seen.answer, seen.first))
        noise = mine[row, -len(NOISE) :].log()
        out.index_add_(0, row, log_answers(answer, first, noise if soft.has_noise else None, k))
    found = (out - out.max(1, keepdim=True).values).exp().numpy()
    found[sure] = np.nan
    return np.asarray(found)


def with_most_probable(
    table: Table, label: Hashable | None, options: Mapping[str, Any]
) -> tuple[Table, Hashable | None, Mapping[str, Any]]:
    """A table with a column of the most probable classes, its name, and options with the classes.

    Rows without probabilities have the class in the column ``label``. As they are where no columns of probabilities
    are named, or those of ``like`` are not there.
    """
    like = options.get("like")
    old = None if like is None else like.soft
    told = options if old is None else as_options(old)
    named = columns_of(told)
    if named is None or (old is not None and not {*named.values()} <= {*table.names}):
        return table, label, options
    frame = as_pandas(table.frame, table.origin)
    logits, classes = logits_of(frame, told, table.origin, table.place), np.array(classes_of(told), object)
    blank = np.isnan(logits).any(1)
    if blank.any() and label is None:
        raise DataError(
            f"{table.place(int(np.argmax(blank)))} has no probabilities ({blank.sum()} such rows); leave such rows "
            "out, or say label=, the column that has their label"
        )
    best = pd.Series(classes[np.where(blank[:, None], 0.0, logits).argmax(1)], frame.index, object)
    if label is not None:
        best = best.where(~blank, table.some([label]).iloc[:, 0].set_axis(frame.index))
    frame = frame.assign(**{MOST_PROBABLE: best})
    more = {} if like is not None else {"classes": [*classes]}
    return replace(table, frame=frame), MOST_PROBABLE, {**options, **more}


def as_options(soft: SoftLabels) -> dict[str, Any]:
    """Options of annotations by which labels are read as these were."""
    named: Any = dict(zip(soft.classes if len(soft.columns) > 1 else soft.classes[-1:], soft.columns, strict=False))
    return {
        "classes": [*soft.classes],
        "probabilities": named or None,
        "scale": soft.scale,
        "floor": soft.floor,
        "shown_first": soft.shown_first,
        "repeats": "noisy" if soft.noisy else "keep",
    }


def are_soft(options: Mapping[str, Any]) -> bool:
    """Whether options say that labels are seen otherwise than once and for certain."""
    told = options.get("probabilities") is not None or options.get("shown_first") is not None
    if not told and (options.get("scale") is not None or options.get("floor") is not None):
        raise DataError("scale= and floor= are of columns of probabilities; name these by probabilities=")
    return told or options.get("repeats") == "noisy"


def read_soft(
    rows: Rows, coded: Coded, options: Mapping[str, Any], known: np.ndarray | None
) -> tuple[SoftLabels, pd.DataFrame, np.ndarray | None]:
    """How labels are read, columns of the rows with the evidence of each class, and rows that stay, None for all.

    With ``like``, labels are read as its labels were; where rows have their evidence already, it stays. DataError
    for kinds of labels that are no classes of items taken one by one.
    """
    like = options.get("like")
    old, answer, classes = None if like is None else like.soft, coded.answer, coded.alphabet.classes
    k = len(classes if old is None else old.classes)  # a class that is new is seen for certain
    if coded.alphabet.kind not in COUNTED or answer is None:
        raise DataError(
            "probabilities=, shown_first= and repeats='noisy' are for labels of kind "
            f"{' or '.join(repr(kind.name) for kind in COUNTED)}, and these are "
            f"{'of a design' if answer is None else repr(coded.alphabet.kind.name)}; leave them out"
        )
    columns = pd.DataFrame(index=range(len(answer))) if rows.columns is None else rows.columns
    if old is not None and {*old.names} <= {*columns.columns}:
        return old, columns, None
    told = options if old is None else as_options(old)
    noisy, scale = told.get("repeats") == "noisy", told.get("scale") or SCALES[0]
    named = tuple((columns_of(told) or {}).values())
    there = bool(named) and (old is None or {*named} <= {*columns.columns})
    logits = logits_of(columns, told, "the table", rows.place) if there else None
    stays = gathered(coded.item, coded.annotator, answer, len(classes)) if noisy else np.arange(len(answer))
    kept, row = np.unique(stays, return_inverse=True)
    as_answers = answer < k
    if logits is not None:
        if noisy:  # answers of one pair speak by the mean of their log-probabilities
            logits = pd.DataFrame(logits.clip(LOWEST)).groupby(row).mean().to_numpy()
        as_answers &= np.isnan(logits[row]).any(1)
    first = _first_codes(columns, told.get("shown_first"), coded, rows.place)
    answers = (row[as_answers], answer[as_answers], first[as_answers])
    seen = Seen(coded.item[kept], coded.annotator[kept], logits, *answers)
    if old is None:
        maps = _Maps.learned(seen, len(coded.annotators), k, scale, noisy, known)
        how = (named, scale, told.get("floor"), told.get("shown_first"), noisy)
        old = SoftLabels(classes.ids, *how, coded.annotators.ids, maps)
    code = old.annotators.get_indexer(coded.annotators.ids)  # of those who are new -1, the last row
    evidence = _evidence(seen._replace(annotator=code[seen.annotator]), old, k, answer[kept] >= k)
    return old, columns.assign(**dict(zip(old.names, evidence[row].T, strict=True))), kept if noisy else None


def _first_codes(columns: pd.DataFrame, first: Hashable | None, coded: Coded, place: Place) -> np.ndarray:
    """The class that was shown first, of each row, (S,); -1 where its cell is blank, or nothing is said."""
    out = np.full(len(coded.item), -1)
    if first is None:
        return out
    if not isinstance(first, str | int) or first not in columns.columns:
        raise DataError(f"the table has no column {shown(first)} of classes shown first; correct shown_first=")
    column = columns[first]
    there = np.flatnonzero(~(column.isna() | (column.astype(str).str.strip() == "")).to_numpy())
    found = coded.alphabet.classes.codes(pd.Index(column.iloc[there]))
    wrong = there[found < 0]
    if len(wrong):
        raise DataError(
            f"{place(int(wrong[0]))} says that {shown(column.iloc[wrong[0]])} was shown first, which is no class; "
            "correct it, or leave the cell blank"
        )
    out[there] = found
    return out
