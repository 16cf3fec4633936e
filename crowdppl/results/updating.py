"""Predictions for new items, labels of those who did not label an item, updates and refits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from crowdppl.core import validation
from crowdppl.core.devices import device_or_cpu, moved_to
from crowdppl.core.validation import number_within, seed_number, warn, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.blocks import row_codes, rows_by_item
from crowdppl.data.ids import native, one_or_several
from crowdppl.data.ragged import runs
from crowdppl.data.split import align_to, check_aligned, joined, keep, unlabelled, warn_of_repeats, with_rows
from crowdppl.errors import DataError, DoubtWarning, MethodError
from crowdppl.inference.confusions import by_code
from crowdppl.inference.predict import update as fits
from crowdppl.inference.predict.answers import item_marginal
from crowdppl.inference.predict.predictive import LabelBags, predictive, refit
from crowdppl.inference.result import Fit, NumberTruth, require_fit
from crowdppl.networks.classifier import Rewards, log_shares
from crowdppl.networks.outputs import network_of, rows_to_classify
from crowdppl.results.choices import choose
from crowdppl.results.correction import averaged, corrected, members, members_after, of_classes
from crowdppl.results.truths import number_table

OLDER = "weights, discounts, map and notes are of the fit before the update"


def update(posterior: Fit, new_labels: Annotations | pd.DataFrame, *, forget: float = 0.0, **options: Any) -> Fit:
    """The posterior after more labels: the old one is the prior of vb on the new labels.

    An item that had labels before keeps its old evidence and gold, and counts once; a label that the fit had
    already counts again, with a ``RepeatsWarning``. Annotators and classes that are new begin at the model's prior,
    given what the fit learned of it. The result holds the items of the new labels. Networks do not learn. Of
    corrected probabilities, each method learns, and weights, discounts and map stay.

    A fit by another engine, and one of numbers of which items come again, is no prior: the method is fitted anew by
    its engine, with settings that it found in old labels, to old and new labels together, and the result holds all
    items. After an update, whose earlier labels are gone, that cannot be.

    Args:
        new_labels: annotations, or a table with one label a row.
        forget: part of what earlier labels taught about annotators and classes that no longer counts, from 0 (all
            does) to 1 (the prior alone), where these change with time; what they said of an item's truth stays. By
            the time there have been many updates of n labels each, n / ``forget`` labels count. Online EM with a
            step of t ** -a at the t-th fit (Cappé & Moulines 2009) is ``forget = 1 - (1 - 1 / t) ** -a * (1 - t **
            -a)``, of which a = 1 forgets nothing.
        options: of the engine, as for ``fit``, such as ``seed`` or ``max_iterations``; by default those of the fit.

    Raises:
        MethodError: when ``forget`` is no number from 0 to 1, or above 0 where the method is fitted anew, numbers
            of an earlier update come again, an option is none of ``fit``'s, annotators' history comes with the new
            labels, items come again whose truths enter a site that is not conjugate, or the method does not take
            what is new.
        DataError: when an abstention is not one of this fit, a class is new where classes have an order, or
            features are missing or differ.
        KeyboardInterrupt: when Ctrl-C stops the fit of one of several methods.

    Examples:
        >>> import pandas as pd
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> new = pd.DataFrame({"item": [46, 46, 47], "annotator": ["1", "4", "2"], "label": [1, 2, 3]})
        >>> posterior.update(new).probabilities().round(2)
        class     1    2     3     4
        item
        46     0.55  0.4  0.02  0.02
        47     0.10  0.1  0.70  0.10
    """
    forget = number_within("forget", forget, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    history, old = getattr(new_labels, "history", None), posterior.data.history
    if history is not None and (old is None or not np.array_equal(history.cpu(), old.cpu())):
        raise MethodError("history= of new labels is not used, as the old fit is the prior; give it to that fit")
    new = _with_old_gold(posterior.data, _aligned(posterior, new_labels))
    warn_of_repeats(posterior.data, new)
    if posterior.memory is None and not fits.is_prior(posterior, new):
        if forget:
            raise MethodError(
                f"forget={forget:g}, and an update of this fit by {posterior.inference} fits anew to all labels, "
                "old and new; fit by vb, and update with labels of other items where truths are numbers"
            )
        whole = joined(posterior.data, new)
        updated = members_after(posterior, whole, lambda fit, data: fits.anew(fit, data, **options))
    else:
        updated = members_after(posterior, new, lambda fit, data: fits.update(fit, data, forget, **options))
    correction = posterior.correction
    if correction is not None and posterior.memory is None:
        correction = replace(correction, notes=(*correction.notes, OLDER))
    return averaged(updated, correction)


def labels_without(posterior: Fit, annotators: Iterable[Any]) -> Annotations:
    """The annotations of a fit without the labels of some annotators.

    DataError for an unknown id, or when no label would be left; MethodError for one with labels before.
    """
    data, names = posterior.data, one_or_several(annotators)
    out = data.annotator_book.require(names, "annotators", "posterior.annotators() lists them")
    before = np.zeros(data.n_annotators, int) if posterior.memory is None else posterior.memory.labels
    if before[out].any():
        most = out[np.argmax(before[out])]
        raise MethodError(
            f"annotator {native(data.annotators[most])!r} gave {before[most]} labels before an update, which "
            "cannot be left out; fit again to all labels that should stay"
        )
    kept = ~np.isin(data.label_codes()[1], out)
    if not kept.any():
        raise DataError(f"no label is left without these {len(names)} annotators; leave out fewer")
    return keep(data, kept)


def refitted(posterior: Fit, left: Annotations) -> Fit:
    """A fit of the method to other labels of these items, with its correction."""
    return averaged(members_after(posterior, left, refit), posterior.correction)


def _aligned(posterior: Fit, new: Annotations | pd.DataFrame) -> Annotations:
    """New annotations under the codes of a fit; MethodError for new classes where probabilities are mapped."""
    data, correction = align_to(posterior.data, new), posterior.correction
    if data.n_classes > posterior.data.n_classes and correction is not None and correction.truth_map is not None:
        raise MethodError(
            f"probabilities are mapped to {correction.gold} known truths, none of a class that is new; fit anew to "
            "all labels, or use posterior.uncorrected()"
        )
    return data


def _with_old_gold(old: Annotations, new: Annotations) -> Annotations:
    """New annotations with gold of the fit, where they have none."""
    if old.gold_codes is None:
        return new
    code = old.item_book.codes(new.items)
    codes = np.where(code >= 0, old.gold_codes[code], -1)
    if new.gold_codes is not None:
        codes = np.where(new.gold_codes >= 0, new.gold_codes, codes)
    at = np.flatnonzero(codes >= 0)
    if not len(at):
        return new
    return new.with_gold(pd.Series(new.classes[codes[at]], index=new.items[at]))


def predict(posterior: Fit, new_data: Annotations | pd.DataFrame) -> pd.DataFrame:
    """Truths of new items from their labels; what the fit knows of annotators stays.

    Annotators and classes that the fit does not have count by the mean of the model's prior, given what the fit
    learned of it. Labels that an item had in the fit do not count; ``update`` keeps them. The probabilities of a
    corrected posterior are corrected alike. By vb, without a correction, rows of shares count by their means, which
    averages over vb's distributions where an annotator labels an item once; the fit's own items, and all in methods
    with sites of single items, count by expected logarithms, and are surer.

    Args:
        new_data: annotations, or a table with one label a row; a design, or a table that names items alone, such as
            pairs that nobody compared, asks for what the fit knows of them without labels.

    Returns:
        Probabilities, DataFrame of the new items x classes. Where truths are numbers, the table of ``truth()``.

    Raises:
        MethodError: when the method does not take annotators or classes that are new.
        DataError: when an abstention is not one of this fit, a class is new where classes have an order, or
            features differ in columns or shape.
        KeyboardInterrupt: at Ctrl-C while sites of single items (a difficulty) are fitted to the new ones.

    Warns:
        ConvergenceWarning: when these have not converged within ``max_iterations``.

    Examples:
        >>> import pandas as pd
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> new = pd.DataFrame({"item": [46, 46, 47], "annotator": ["1", "4", "2"], "label": [1, 2, 3]})
        >>> posterior.predict(new).round(2)
        class     1    2     3     4
        item
        46     0.55  0.4  0.02  0.02
        47     0.10  0.1  0.70  0.10
    """
    new, correction = _aligned(posterior, unlabelled(posterior.data, new_data)), posterior.correction
    as_fitted = correction is not None and not correction.leaves_all
    found: Any = {name: fits.predict(fit, new, as_fitted=as_fitted) for name, fit in members(posterior).items()}
    if isinstance(numbers := found[posterior.method], NumberTruth):
        return number_table(posterior, numbers, new)
    mixed = found[posterior.method] if correction is None else corrected(of_classes(correction, found), found, new)
    return pd.DataFrame(mixed, index=new.item_index, columns=new.classes)


def classify(posterior: Fit, features: Any) -> pd.DataFrame:
    """Class probabilities of new items from their features, by the fit's network; they are not corrected.

    Args:
        features: one row an item, as those of the fit: a DataFrame by item id, an array (N, ...), or a
            ``torch.utils.data.Dataset``. Where the fit's features were a DataFrame too, columns are found by name.

    Returns:
        Probabilities, DataFrame of items x classes.

    Raises:
        MethodError: when the method has no network, or one that scores objects, which ``ranking`` tells.
        DataError: when features differ from those of the fit in shape or columns, or are not finite in float32.

    Examples:
        >>> import numpy as np
        >>> truth = np.arange(90) % 3
        >>> crowd = crowdppl.simulate_annotators(truth, {"hammer": 3}, features=np.eye(3)[truth], seed=0)
        >>> settings = {"training": {"epochs": 30}}
        >>> posterior = crowdppl.fit("bayes_dgc", crowd.data, inference="vb", settings=settings, seed=0)
        >>> posterior.classify(np.eye(3)).idxmax(axis=1).tolist()
        [0, 1, 2]
    """
    build: Any = getattr(posterior.model, "classifier", None)
    network: nn.Module | None = network_of(posterior.model)
    if build is not None:
        sites = posterior.result.sites
        network = build({name: torch.from_numpy(np.asarray(site.mean)) for name, site in sites.items()})
    if network is None:
        raise MethodError(f"{posterior.method} has no network; give features= to a method that has one")
    if isinstance(network, Rewards):
        raise MethodError(
            f"the network of {posterior.method} scores objects, of which none is a class; use ranking(features=...)"
        )
    index, rows = rows_to_classify(features, posterior.data.features)
    with moved_to(network, device_or_cpu(posterior.options.get("device", "cpu"))):
        found = log_shares(network, rows).exp().double().cpu().numpy()
    return pd.DataFrame(found / found.sum(1, keepdims=True), index=index, columns=posterior.data.classes)


def draw_labels(posterior: Fit, n: int = 1, seed: int = 0, kind: str = "posterior") -> pd.DataFrame:
    """Draws labels that the annotators might have given to the items, to compare with those that they gave.

    Args:
        n: how many data sets.
        seed: of the draws.
        kind: "posterior" draws parameters and truths from the posterior; "prior" from the model.

    Returns:
        DataFrame, a row a label; within a draw, in the order of ``data.frame()``:

        - ``draw``: number of the data set, from 0
        - ``item``, ``annotator``: as in the data
        - ``label``: what is drawn; of rankings, the rank among the objects that the annotator ranked, without ties

    Raises:
        MethodError: for another kind, an n that is no whole number from 1 on, a seed out of range, or a model
            whose labels cannot be drawn at given numbers.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> len(posterior.draw_labels(2, seed=0))  # twice 315 labels
        630
    """
    n, seed = whole_number("n", n, 1), seed_number(seed)
    validation.one_of("kind", kind, ("posterior", "prior"))
    data = posterior.data
    drawn = fits.draw_labels(posterior, n, seed, kind)
    place = rows_by_item(data.blocks, data.order)[1]
    item, annotator, _ = data.label_codes()
    label = drawn[:, place].ravel()
    columns = {
        "draw": np.repeat(np.arange(n), len(item)),
        **data.item_columns(np.tile(item, n)),
        "annotator": data.annotators.take(np.tile(annotator, n)),
        "label": data.answers.take(label) if data.n_classes else label,
    }
    return pd.DataFrame(columns)


def outlier_scores(posterior: Fit) -> pd.Series[Any]:
    """How much each item looks like an outlier, for a method that allows for some.

    The probability of being one (site ``outlier``), or the Euclidean norm of the shifts of the item's labels (site
    ``departure``). With few labels an item, the rate of outliers can be far off.

    Args:
        posterior: a fit of such a method, such as ``coin_net``.

    Returns:
        Series by item, higher for outliers.

    Raises:
        MethodError: when the method has no outliers.

    Warns:
        DoubtWarning: when the probabilities hardly separate outliers from other items.

    Examples:
        >>> truth, size = ["cat", "dog"] * 20, [[0.0], [1.0]] * 20
        >>> crowd = crowdppl.simulate_annotators(truth, {"hammer": 6}, features=size)
        >>> posterior = crowdppl.fit("coin_net", crowd.data, inference="vb", seed=0)
        >>> scores = crowdppl.outlier_scores(posterior)
        >>> bool(scores.between(0, 1).all())
        True
    """
    posterior = require_fit(posterior)
    site = posterior.result.sites.get("departure")
    if site is None:
        try:
            share = item_marginal(posterior, "outlier")
        except MethodError as error:
            raise MethodError(
                f"{error}; fit a method whose items may be outliers (help(crowdppl.outlier_scores) names one)"
            ) from error
        area = expected_area(share[:, 1])
        if area < 0.75:
            text = (
                f"an outlier scores above another item in only {area:.0%} of pairs, as the fit expects, and the "
                "rate of outliers can be far off; more labels an item help, and so do features"
            )
            warn(text, DoubtWarning)
        return pd.Series(share[:, 1], posterior.data.item_index, name="outlier")
    shift = site.mean - site.mean.mean(-1, keepdims=True)
    whole = posterior.data.as_block()
    square = np.bincount(whole.item.cpu().numpy(), (shift**2).sum(-1), minlength=whole.n_items)
    return pd.Series(by_code(np.sqrt(square), posterior.data.order), posterior.data.item_index, name="outlier")


def expected_area(p: np.ndarray) -> float:
    """Area under the ROC curve of probabilities (N,) if they are right; 1 where all are 0, or all are 1."""
    _, place = np.unique(p, return_inverse=True)
    yes, no = np.bincount(place, p), np.bincount(place, 1 - p)
    pairs = yes.sum() * no.sum()
    return float((yes * (no.cumsum() - no / 2)).sum() / pairs) if pairs > 0 else 1.0


def fill(posterior: Fit, data: Annotations | None = None, *, least: int = 10, draws: int = 20) -> Annotations:
    """Adds the most probable label of each annotator to the items that they did not label.

    MMLC-df of Han et al. 2025 ("Mixture of experts based multi-task supervise learning from crowds") where the fit
    is of mmlc; fits of other methods fill, too, and those with features fill items without labels.

    Predicted labels of an item err together, and fits to the result take them as independent: their probabilities
    are overconfident and their intervals too narrow.

    Args:
        posterior: the fit.
        data: annotations to be filled, of the same annotators and classes, with features where the method has a
            network; by default those of the fit.
        least: labels in the fit from which on an annotator's are filled.
        draws: of the posterior, over which predictions are averaged where it is no point.

    Returns:
        Annotations with one label at least of each such annotator on each item; their column ``filled`` marks
        predictions. Ties are broken as in ``posterior.labels()``.

    Raises:
        DataError: when other data have other annotators, classes or abstentions.
        MethodError: for a method that reads label covariates, which new labels lack, or one with sites of items,
            given other data; or a number out of range.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="em", seed=0)
        >>> crowdppl.fill(posterior)
        Annotations(45 items, 5 annotators, 4 classes, 315 labels)
    """
    posterior, least = require_fit(posterior), whole_number("least", least, 0)
    draws = whole_number("draws", draws, 1)
    full = posterior.data if data is None else _checked(posterior, data)
    counts = np.concatenate([block.annotator.cpu().numpy() for block in posterior.data.blocks])
    may = np.flatnonzero(np.bincount(counts, minlength=full.n_annotators) >= least)
    owner, annotator, _ = full.label_codes()
    empty = np.ones((full.n_items, full.n_annotators), bool)
    empty[owner, annotator] = False
    item, place = np.nonzero(empty[:, may])
    annotator, answer = may[place], np.empty(len(item), np.int64)
    votes = np.asarray(full.votes())
    for at in _chunks(item, np.bincount(owner, minlength=full.n_items), full.n_classes):
        p = answer_shares(replace(posterior, data=full), item[at], annotator[at], draws)
        answer[at] = choose(p, votes[item[at]], full.items.take(item[at]), full.classes)[0]
    return _with_labels(full, item, annotator, answer)


def answer_shares(posterior: Fit, item: np.ndarray, annotator: np.ndarray, draws: int) -> np.ndarray:
    """p(class | item, its labels, annotator, no abstention) of pairs of codes (R,) each, over draws: (R, K)."""
    data, k = posterior.data, posterior.data.n_classes
    owner, cell = row_codes(data.blocks, data.order)
    starts = np.searchsorted(owner, np.arange(data.n_items + 1))
    mine, at = np.unique(item, return_inverse=True)
    items = np.concatenate([mine, np.repeat(item, k)])
    bag, place = runs(starts[items], starts[items + 1] - starts[items])
    tried = (annotator[:, None] * data.n_answers + np.arange(k)).ravel()
    row = np.concatenate([bag, len(mine) + np.arange(len(tried))])
    cells = np.concatenate([cell[place], tried])
    logs = predictive(posterior, LabelBags(items, row, cells), draws)
    change = logs[:, len(mine) :] - np.repeat(logs[:, : len(mine)][:, at], k, axis=1)
    p = np.exp(change).mean(0).reshape(-1, k)
    return np.asarray(p / p.sum(1, keepdims=True))


def _checked(posterior: Fit, data: Annotations) -> Annotations:
    old, data = posterior.data, require_annotations(data)
    for what in ("annotators", "classes", "answers"):
        if not getattr(old, what).equals(getattr(data, what)):
            raise DataError(f"the {what} of data= are not those of the fit; read them with like=posterior.data")
    local = [name for name, site in posterior.result.sites.items() if "item" in site.dims]
    if local:
        raise MethodError(
            f"{posterior.method} has sites of items ({', '.join(local)}), and cannot fill other items; leave data= "
            "out, or fit to all items"
        )
    return check_aligned(old, data)


def _chunks(item: np.ndarray, sizes: np.ndarray, n_classes: int) -> Iterator[slice]:
    """Chunks of pairs, sorted by item, with a bounded number of labels to score."""
    work = np.cumsum((sizes[item] + 1) * n_classes) // 500_000
    edges = np.flatnonzero(np.diff(work, prepend=-1))
    return (slice(a, b) for a, b in zip(edges, np.append(edges, len(item))[1:], strict=True))


def _with_labels(data: Annotations, item: np.ndarray, annotator: np.ndarray, answer: np.ndarray) -> Annotations:
    """The annotations and some more labels."""
    old = data.label_codes()
    items, annotators, answers = map(np.concatenate, zip(old, (item, annotator, answer), strict=True))
    columns = pd.DataFrame(index=range(data.n_labels)) if data.columns is None else data.columns
    columns = columns.reindex(range(len(items))).assign(filled=np.arange(len(items)) >= data.n_labels)
    columns = columns.iloc[np.lexsort((answers, annotators, items))].reset_index(drop=True)  # as frame() sorts
    return with_rows(data, items, annotators, answers, columns)
