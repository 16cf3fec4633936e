"""What a fit says of what it has not seen: the truth of new items, and labels that might have been given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import row_codes, row_sizes
from crowdppl.data.likeness import alike
from crowdppl.doors import demands
from crowdppl.doors.counts import seed_number, whole_number
from crowdppl.networks.sight import class_shares
from crowdppl.results.averaging import members
from crowdppl.results.engines import engines_of

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior


def predict(posterior: Posterior, new_data: Annotations | pd.DataFrame) -> pd.DataFrame:
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
    new, correction = alike(posterior.data, new_data), posterior.correction
    found = {name: engines_of(fit).predict(fit, new) for name, fit in members(posterior).items()}
    mixed = found[posterior.method] if correction is None else correction(found, new)
    return pd.DataFrame(mixed, index=new.items, columns=new.classes)


def classify(posterior: Posterior, features: Any) -> pd.DataFrame:
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
    return class_shares(posterior, features)


def draw_labels(posterior: Posterior, n: int = 1, seed: int = 0, kind: str = "posterior") -> pd.DataFrame:
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
    demands.one_of("kind", kind, ("posterior", "prior"))
    data = posterior.data
    drawn = engines_of(posterior).draw_labels(posterior, n, seed, kind)
    by_item = np.argsort(np.repeat(data.order, np.concatenate([row_sizes(b) for b in data.blocks])), kind="stable")
    item, cell = row_codes(data.blocks, data.order)
    columns = {
        "draw": np.repeat(np.arange(n), len(item)),
        "item": data.items.take(np.tile(item, n)),
        "annotator": data.annotators.take(np.tile(cell // np.int32(data.n_answers), n)),
        "label": data.answers.take(drawn[:, by_item].ravel()),
    }
    return pd.DataFrame(columns)
