"""A posterior after other labels: more of them, or without those of some annotators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import row_codes
from crowdppl.data.likeness import alike, warn_of_repeats
from crowdppl.data.splitting import keep
from crowdppl.errors import DataError, MethodError
from crowdppl.results.averaging import averaged, members_after
from crowdppl.results.engines import CORRECTIONS, REFITS, engines_of
from crowdppl.tables.codebook import one_or_several, plain

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

OLDER = "weights, discounts and map, and what is noted of labels and truths, are of the fit before the update"


def update(posterior: Posterior, new_labels: Annotations | pd.DataFrame, **options: Any) -> Posterior:
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
    new = _still_told(posterior.data, alike(posterior.data, new_labels))
    warn_of_repeats(posterior.data, new)
    updated = members_after(posterior, lambda fit: engines_of(fit).update(fit, new, **options))
    correction = posterior.correction
    if correction is not None and posterior.memory is None:
        correction = replace(correction, notes=(*correction.notes, OLDER))
    return averaged(updated, correction)


def without(posterior: Posterior, annotators: Iterable[Any]) -> Posterior:
    """The same fit without the labels of some annotators, started from the old truth.

    Items, classes and ids stay; those left out keep a row in the tables, at what the story says of somebody whose
    labels nobody saw. A corrected posterior is corrected anew, which takes its further fits again; after an update
    it keeps its weights and discounts, which are those of more labels.

    Args:
        annotators: ids.

    Raises:
        DataError: for an id that is not one of the fit, or when no label would be left.
        MethodError: after ``update``, for an annotator who gave labels before it, whose lesson stays.
        KeyboardInterrupt: when Ctrl-C stops one of the fits of a corrected posterior.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.without(["1"]).data.n_labels
        180
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
    _, cell = row_codes(data.blocks, data.order)
    kept = ~np.isin(cell // np.int32(data.n_answers), out)
    if not kept.any():
        raise DataError(f"without these {len(names)} annotators no label is left; leave out fewer")
    left = keep(data, kept)
    if posterior.correction is not None and posterior.memory is None:
        corrected: Posterior = import_module(CORRECTIONS).corrected_again(posterior, left)
        return corrected
    refit = import_module(REFITS).refit
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
