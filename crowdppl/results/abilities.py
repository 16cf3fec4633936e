"""What a posterior says about annotators, as tables: accuracies, and confusions with their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.decoding import labels_given
from crowdppl.inference.fit_result import FitResult
from crowdppl.results import intervals
from crowdppl.statistics.estimates import Estimate

if TYPE_CHECKING:
    import xarray as xr


def annotator_table(data: Annotations, result: FitResult, level: float) -> pd.DataFrame:
    """Labels given and accuracy of each annotator; see ``Posterior.annotators``."""
    columns: dict[str, Any] = {"labels": labels_given(data)}
    columns |= intervals.accuracy(result, level).columns("accuracy")
    if data.n_answers > data.n_classes:
        columns |= intervals.abstention(result, level).columns("abstention")
    if data.n_classes == 2:
        table = intervals.among_classes(result, level)
        columns |= table.at(slice(None), 1, 1).columns("sensitivity")
        columns |= table.at(slice(None), 0, 0).columns("specificity")
    return pd.DataFrame(columns, index=data.annotators)


def confusion_array(data: Annotations, table: np.ndarray) -> xr.DataArray:
    """A copy of (A, K, L) or (draws, A, K, L), with names for dimensions and places."""
    import xarray as xr  # slow to import

    ids = {"annotator": data.annotators, "truth": data.classes, "label": data.answers}
    names = {name: index.rename(name) for name, index in ids.items()}
    dims = [*(["draw"] if table.ndim == 4 else []), *names]
    return xr.DataArray(table.copy(), dims=dims, coords=names, name="confusion")


def confusion_table(data: Annotations, estimate: Estimate) -> pd.DataFrame:
    """An estimate (A, K, L) as rows by annotator, truth and label."""
    names = ["annotator", "truth", "label"]
    index = pd.MultiIndex.from_product([data.annotators, data.classes, data.answers], names=names)
    return pd.DataFrame({name: x.ravel() for name, x in estimate.columns().items()}, index=index)
