"""Spans of items, such as names in a text, where classes are BIO tags of sequences."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.core.validation import number_within, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.sequences import POSITION, SEQUENCE, Tags, units_of
from crowdppl.errors import MethodError
from crowdppl.inference.predict.answers import chain_steps
from crowdppl.inference.result import Fit
from crowdppl.results.choices import choose
from crowdppl.results.tables import is_corrected


def spans(posterior: Fit, minimum: float = 0.5) -> pd.DataFrame:
    """The spans of each sequence, such as the names in a sentence, and how sure each is.

    A span is a B-X and all the I-X that follow it; an I-X after anything else belongs to none. Its probability is
    that of exactly this first item, last item and type. Under a chain of truths it is exact, averaged over draws of
    the parameters where there are draws. Under other methods, and where probabilities are corrected or averaged, it
    is the product of those of the items.

    Exact means exact under the model. Labels alone cannot show errors that annotators share: where several cut the
    same name short, spans are told surer than they are right. Known truths of whole sequences correct this
    (``gold=`` of ``fit``, with ``calibrate=True``).

    Args:
        minimum: the least probability of a span. Above 0.5, all such spans are listed; below, those of the most
            probable labels. None overlap.

    Returns:
        DataFrame, a row a span, in order of sequence and position: sequence; first and last, positions in it; type,
        "" of the bare tags B and I; probability.

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
        of = f" with the classes {shown([*data.classes])}" if data.kind == "sequence" else ""
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
        "probability": _probabilities(posterior, tags, order, starts, code, ends),
    }
    found = pd.DataFrame(columns)
    return found[found["probability"] >= minimum].reset_index(drop=True)


def tags_of(data: Annotations) -> Tags | None:
    """The classes of sequences as BIO tags; None for other kinds, and where a class is no such tag."""
    return Tags.of(data.classes) if data.kind == "sequence" else None


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


def _probabilities(
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
    paths = [share[:, a] * step[:, a + 1 : b].prod(1) for a, b in zip(first, after, strict=True)]
    return np.array([(path * end).mean() for path, end in zip(paths, ended.T, strict=True)]).clip(0, 1)
