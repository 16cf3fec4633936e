"""Labels that depend on labels: drawn again, with the same random numbers, until each follows those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from crowdppl.core.validation import kind_of
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block, rows_by_item, with_covariates
from crowdppl.errors import MethodError
from crowdppl.primitives.model import Model


def draw_in_order(
    model: Model, data: Annotations, blocks: list[Block], draw: Callable[[list[Block]], list[Tensor]]
) -> list[Tensor]:
    """The labels of each block, (S,), as ``draw`` gives them under covariates that the model derives from them.

    With the same random numbers, a label changes only when those change on which it depends. After one round those
    are right that depend on none, after two those that depend on these, and so on.

    Raises:
        MethodError: when labels depend on each other in a circle, or the model derives no table of covariates.
    """
    if not hasattr(model, "derived_covariates"):
        return draw(blocks)
    noise, before = torch.get_rng_state(), [torch.zeros(block.n_labels, dtype=torch.int32) for block in blocks]
    for _ in range(data.n_labels + 2):
        torch.set_rng_state(noise)
        drawn = draw(_derived_from(model, data, blocks, before))
        if all(map(torch.equal, drawn, before)):
            return drawn
        before = drawn
    raise MethodError(
        f"labels of {type(model).__name__} depend on each other in a circle; let derived_covariates look at labels "
        "before a label alone"
    )


def with_derived(model: Model, data: Annotations) -> Annotations:
    """Annotations with the label covariates that a model derives from their labels."""
    if not hasattr(model, "derived_covariates"):
        return data
    out = _with_columns(model, data, data.frame())
    return replace(out, blocks=_with_derived(out, data.blocks))


def with_missing(model: Model, data: Annotations) -> Annotations:
    """Annotations with those label covariates that a model derives from their labels, and they do not have."""
    if not hasattr(model, "derived_covariates") or not data.blocks[0].has_labels:
        return data
    out = _with_columns(model, data, data.frame(), keep=True)
    return data if out.label_names == data.label_names else replace(out, blocks=_with_derived(out, data.blocks))


def _derived_from(model: Model, data: Annotations, blocks: list[Block], cells: list[Tensor]) -> list[Block]:
    """The blocks of a design with covariates derived from labels of it."""
    place = rows_by_item(blocks, data.order)[1]
    answers = data.answers[(torch.cat(cells).long() % data.n_answers).numpy()[place]]
    return _with_derived(_with_columns(model, data, data.frame().assign(label=answers)), blocks)


def _with_derived(data: Annotations, blocks: Sequence[Block]) -> list[Block]:
    known = (data.item_covariates, data.annotator_covariates, data.label_columns)
    return with_covariates(blocks, data.order, *known)


def _with_columns(model: Any, data: Annotations, labels: pd.DataFrame, keep: bool = False) -> Annotations:
    """Annotations with derived columns, which their blocks do not have yet; those that they have may be kept."""
    if data.item_covariates is not None:
        more = data.item_covariates.iloc[data.label_codes()[0]].set_axis(labels.index)
        labels = labels.join(more[more.columns.difference(labels.columns, sort=False)])
    found = model.derived_covariates(labels)
    if not isinstance(found, pd.DataFrame) or not found.index.equals(labels.index):
        raise MethodError(
            f"derived_covariates of {type(model).__name__} returns {kind_of(found)}; give a DataFrame of numbers "
            "with a row for each row of the labels"
        )
    found = found.drop(columns=[*data.label_names], errors="ignore") if keep else found
    kept = pd.DataFrame(index=labels.index) if data.columns is None else data.columns
    columns = kept.drop(columns=found.columns, errors="ignore").join(found)
    return replace(data, columns=columns, label_names=(*dict.fromkeys([*data.label_names, *found.columns]),))
