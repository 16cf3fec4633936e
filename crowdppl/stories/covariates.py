"""How a story reads what is known of items and annotators beside their labels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crowdppl.errors import DataError
from crowdppl.plates import Data, block_of

if TYPE_CHECKING:
    from crowdppl.data.covariate_columns import CovariateColumns


def item_covariates(data: Data, *names: Hashable) -> Tensor:
    """What is known of each item, as numbers: the length of a text, or where it is from.

    They are those that annotations were given as ``item_covariates``. Where tables of annotators are read off a fit
    (``Posterior.confusion``), which are those of an item that nobody has seen, they are the mean over all items.

    Args:
        data: the story's argument.
        names: of columns; by default all, in the order of the table.

    Returns:
        (n_items, D), in the order of the plate of items, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each item.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations, item_covariates
        >>> words = pd.DataFrame({"words": [120, 45], "source": ["web", "print"]}, index=["x", "y"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> data = Annotations.from_dicts(dicts, item_covariates=words)
        >>> sorted(item_covariates(data, "words").tolist())
        [[45.0], [120.0]]
    """
    return _numbers(block_of(data).item_covariates, "item", names)


def annotator_covariates(data: Data, *names: Hashable) -> Tensor:
    """What is known of each annotator, as numbers: years of practice, or whether they were trained.

    They are those that annotations were given as ``annotator_covariates``.

    Args:
        data: the argument of the story's ``model``, or of its ``prepare``.
        names: of columns; by default all, in the order of the table.

    Returns:
        (A, D), in the order of ``data.annotators``, in torch's default dtype.

    Raises:
        DataError: when the data have none, lack a column, or a column does not hold a finite number for each
            annotator.

    Examples:
        >>> import pandas as pd
        >>> from crowdppl import Annotations, annotator_covariates
        >>> people = pd.DataFrame({"years": [3, 20]}, index=["bob", "ann"])
        >>> dicts = {"ann": {"x": "spam", "y": "ham"}, "bob": {"x": "spam", "y": "ham"}}
        >>> annotator_covariates(Annotations.from_dicts(dicts, annotator_covariates=people), "years")
        tensor([[20.],
                [ 3.]])
    """
    return _numbers(block_of(data).annotator_covariates, "annotator", names)


def _numbers(held: CovariateColumns | None, entity: str, names: tuple[Hashable, ...]) -> Tensor:
    what = f"{entity}_covariates"
    if held is None:
        raise DataError(f"the story reads {what}, and the data have none; give {what}=, a DataFrame by {entity} id")
    return held.chosen(names).to(torch.get_default_dtype())
