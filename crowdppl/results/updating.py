"""Predictions for new items, updates by new labels, and refits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from crowdppl.core import validation
from crowdppl.core.devices import device_or_cpu, moved_to
from crowdppl.core.validation import seed_number, warn, whole_number
from crowdppl.data.annotations import Annotations, row_sizes
from crowdppl.data.ids import one_or_several, plain
from crowdppl.data.split import align_to, keep, warn_of_repeats
from crowdppl.errors import DataError, DoubtWarning, MethodError
from crowdppl.inference.predict import update as fits
from crowdppl.inference.predict.answers import item_marginal
from crowdppl.inference.predict.predictive import refit
from crowdppl.inference.result import Fit, require_fit
from crowdppl.networks.classifier import log_shares
from crowdppl.networks.outputs import network_of, rows_to_classify
from crowdppl.results.correction import averaged, corrected, members, members_after

OLDER = "weights, discounts and map, and what is noted of labels and truths, are of the fit before the update"


def update(posterior: Fit, new_labels: Annotations | pd.DataFrame, **options: Any) -> Fit:
    """The posterior after more labels: the old one is the prior of vb on the new labels alone.

    An item that had labels before brings its old evidence along, and its truth where the fit was told it, and
    counts once; a label that the fit had already is evidence once more, and is warned of (``RepeatsWarning``). The
    result speaks of the items of the new labels. A network stands still: it says of the items what
    it learned from the old labels, and of an item that had labels before what it said then. Of corrected
    probabilities, each method learns from the new labels, and weights, discounts and map stay as they were.

    Args:
        new_labels: annotations, or a table of them with one label a row.
        options: of the engine, as for ``fit``, such as ``seed`` or ``max_iterations``; by default those of the fit.

    Raises:
        MethodError: when the fit was not made by vb, an option is none of ``fit``'s, annotators'
            history comes with the new labels, or items come again whose truths taught a site that is no Dirichlet.
        DataError: when an annotator or a class is not one of this fit, or new items lack the features that a
            network looks at, or have others.
        KeyboardInterrupt: when Ctrl-C stops the fit of one of several methods.

    Examples:
        >>> import pandas as pd
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> new = pd.DataFrame({"item": [46, 46, 47], "annotator": ["1", "4", "2"], "label": [1, 2, 3]})
        >>> posterior.update(new).probabilities().round(2)
        class     1     2     3     4
        item
        46     0.56  0.39  0.02  0.02
        47     0.10  0.10  0.70  0.10
    """
    if posterior.inference != "vb":
        raise MethodError(f"update continues a fit by 'vb'; this one was made by {posterior.inference!r}")
    history, told = getattr(new_labels, "history", None), posterior.data.history
    if history is not None and (told is None or not np.array_equal(history.cpu(), told.cpu())):
        raise MethodError(
            "history= came with the new labels, but the prior of an update is the old fit; give the history to "
            "that fit, and leave it out of new labels"
        )
    new = _still_told(posterior.data, align_to(posterior.data, new_labels))
    warn_of_repeats(posterior.data, new)
    updated = members_after(posterior, lambda fit: fits.update(fit, new, **options))
    correction = posterior.correction
    if correction is not None and posterior.memory is None:
        correction = replace(correction, notes=(*correction.notes, OLDER))
    return averaged(updated, correction)


def labels_without(posterior: Fit, annotators: Iterable[Any]) -> Annotations:
    """The annotations of a fit without the labels of some annotators.

    Raises:
        DataError: for an id that is not one of the fit, or when no label would be left.
        MethodError: after ``update``, for an annotator who gave labels before it, whose lesson stays.
    """
    data = posterior.data
    remedy = "name annotators of this fit, as posterior.annotators() spells them"
    names = one_or_several(annotators)
    out = data.annotator_book.require(names, "annotators", remedy)
    before = np.zeros(data.n_annotators, int) if posterior.memory is None else posterior.memory.labels
    if before[out].any():
        most = out[np.argmax(before[out])]
        raise MethodError(
            f"annotator {plain(data.annotators[most])!r} gave {before[most]} labels before an update, whose lesson "
            "cannot be taken out without them; fit to all labels that are to stay, old and new together"
        )
    kept = ~np.isin(data.label_codes()[1], out)
    if not kept.any():
        raise DataError(f"without these {len(names)} annotators no label is left; leave out fewer")
    return keep(data, kept)


def refitted(posterior: Fit, left: Annotations) -> Fit:
    """The same method fitted to other labels of the same items, under the correction that it has."""
    return averaged(members_after(posterior, lambda fit: refit(fit, left)), posterior.correction)


def _still_told(old: Annotations, new: Annotations) -> Annotations:
    """New annotations with the truths that the fit was told of their items; what they say themselves goes first."""
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
    """Truth probabilities of new items that annotators of this fit labelled; nothing is learned from them.

    An item of the fit is as new as any other: the labels given here alone say what it is. ``update`` keeps others.
    Corrected probabilities are corrected here too: averaged, discounted and mapped as those of the fit were.

    Args:
        new_data: annotations, or a table of them with one label a row.

    Returns:
        DataFrame of the new items x classes.

    Raises:
        DataError: when an annotator or a class is not one of this fit, or features have other columns or another
            shape.
        KeyboardInterrupt: at Ctrl-C while sites of single items (a difficulty) are fitted to the new ones.

    Warns:
        ConvergenceWarning: when these have not settled within ``max_iterations``.

    Examples:
        >>> import pandas as pd
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> new = pd.DataFrame({"item": [46, 46, 47], "annotator": ["1", "4", "2"], "label": [1, 2, 3]})
        >>> posterior.predict(new).round(2)
        class     1     2     3     4
        item
        46     0.55  0.41  0.02  0.02
        47     0.10  0.10  0.70  0.10
    """
    new, correction = align_to(posterior.data, new_data), posterior.correction
    found = {name: fits.predict(fit, new) for name, fit in members(posterior).items()}
    mixed = found[posterior.method] if correction is None else corrected(correction, found, new)
    return pd.DataFrame(mixed, index=new.items, columns=new.classes)


def classify(posterior: Fit, features: Any) -> pd.DataFrame:
    """What the network of a fit makes of new items that nobody labelled, by itself: no correction reaches it.

    Args:
        features: one row an item, as those of the fit: a DataFrame by item id, an array (N, ...), or a
            ``torch.utils.data.Dataset``, whose rows are read as they are looked at. Where the fit's features were a
            DataFrame too, columns are found by name, in any order.

    Returns:
        Probabilities, DataFrame of items x classes.

    Raises:
        MethodError: when the method has no network.
        DataError: when features are of another shape than those of the fit, have other columns, or are not finite
            in float32.

    Examples:
        >>> import numpy as np
        >>> truth = np.arange(90) % 3
        >>> crowd = crowdppl.simulate_annotators(truth, {"hammer": 3}, features=np.eye(3)[truth], seed=0)
        >>> settings = {"training": {"epochs": 30}}
        >>> posterior = crowdppl.fit("bayes_dgc", crowd.data, inference="vb", settings=settings, seed=0)
        >>> posterior.classify(np.eye(3)).idxmax(axis=1).tolist()
        [0, 1, 2]
    """
    network = _classifier_of(posterior)
    if network is None:
        raise MethodError(f"{posterior.method} has no network; give features= to a method that has one")
    index, rows = rows_to_classify(features, posterior.data.features)
    with moved_to(network, device_or_cpu(posterior.options.get("device", "cpu"))):
        found = log_shares(network, rows).exp().double().cpu().numpy()
    return pd.DataFrame(found / found.sum(1, keepdims=True), index=index, columns=posterior.data.classes)


def _classifier_of(posterior: Fit) -> nn.Module | None:
    """The classifier of a fit: what the story builds from its sites, where it does, else its network."""
    build: Any = getattr(posterior.model, "classifier", None)
    if build is None:
        return network_of(posterior.model)
    sites = posterior.result.sites
    found: nn.Module | None = build({name: torch.from_numpy(np.asarray(site.mean)) for name, site in sites.items()})
    return found


def draw_labels(posterior: Fit, n: int = 1, seed: int = 0, kind: str = "posterior") -> pd.DataFrame:
    """Labels that the same annotators might have given to the same items.

    Args:
        n: how many data sets.
        seed: of the draws.
        kind: "posterior" keeps what was learned of parameters and truths; "prior" draws them from the story.

    Returns:
        DataFrame with draw, item, annotator and label; within a draw, rows stand as in ``data.frame()``.

    Raises:
        MethodError: for another kind, an n that is no whole number from 1 on, or a seed that is none.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> len(posterior.draw_labels(2, seed=0))  # twice 315 labels
        630
    """
    n, seed = whole_number("n", n, 1, "draw a data set"), seed_number(seed)
    validation.one_of("kind", kind, ("posterior", "prior"))
    data = posterior.data
    drawn = fits.draw_labels(posterior, n, seed, kind)
    by_item = np.argsort(np.repeat(data.order, np.concatenate([row_sizes(b) for b in data.blocks])), kind="stable")
    item, annotator, _ = data.label_codes()
    columns = {
        "draw": np.repeat(np.arange(n), len(item)),
        "item": data.items.take(np.tile(item, n)),
        "annotator": data.annotators.take(np.tile(annotator, n)),
        "label": data.answers.take(drawn[:, by_item].ravel()),
    }
    return pd.DataFrame(columns)


APART = 0.75
"""Area under the ROC curve that probabilities expect of themselves, below which they are doubted."""


def outlier_scores(posterior: Fit) -> pd.Series[Any]:
    """How much each item looks like an outlier, for a method that allows for some.

    Where the story says whether an item is an outlier (site ``outlier``), the probability of it. Where labels
    depart by shifts of their own (site ``departure``), the root of the sum of their squares over the item's labels.

    A handful of labels hardly tells outliers from other items, and their rate can then be far off. Of 2,000
    simulated items, 15 % of them outliers with shares of their own, others labelled by annotators right in three of
    four, true parameters find them with an area under the ROC curve of .55, .64 and .72 for 2, 3 and 4 classes and
    5 labels an item, and .65 and .76 for 2 and 3 classes and 12 labels. ``coin_net`` from labels alone has .55, .62
    and .71, and rates of .34, .48 and .37; .64 and .76, and .19 and .15; and a likelihood above theirs each time.

    Args:
        posterior: a fit of such a method, such as ``coin_net``.

    Returns:
        Series by item, higher for outliers.

    Raises:
        MethodError: when the method knows no outliers.
        DoubtWarning: when, by the fit's own account, probabilities hardly tell outliers from other items.

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
        _doubt(share[:, 1])
        return pd.Series(share[:, 1], posterior.data.items, name="outlier")
    shift = site.mean - site.mean.mean(-1, keepdims=True)
    whole = posterior.data.as_block()
    square = np.bincount(whole.item.cpu().numpy(), (shift**2).sum(-1), minlength=whole.n_items)
    out = np.empty(whole.n_items)
    out[posterior.data.order] = np.sqrt(square)
    return pd.Series(out, posterior.data.items, name="outlier")


def _doubt(p: np.ndarray) -> None:
    """Warns where an outlier hardly scores above another item."""
    area = expected_area(p)
    if area < APART:
        warn(
            f"by the fit's own account an outlier scores above another item in {area:.0%} of pairs, by chance in "
            "50%: these labels hardly tell outliers apart, and how many there are can be far off; more labels an "
            "item help, and so do features",
            DoubtWarning,
        )


def expected_area(p: np.ndarray) -> float:
    """Area under the ROC curve that probabilities have if they are right; 1 where all are 0, or all are 1.

    Args:
        p: (N,) probabilities.
    """
    _, place = np.unique(p, return_inverse=True)
    yes, no = np.bincount(place, p), np.bincount(place, 1 - p)
    pairs = yes.sum() * no.sum()
    return float((yes * (no.cumsum() - no / 2)).sum() / pairs) if pairs > 0 else 1.0
