"""What processes that share a fit must agree on, and which fits they cannot share yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pandas as pd

from crowdppl.core.collective import agreed, group_size, n_processes, process
from crowdppl.core.validation import shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.numbers import NUMBER
from crowdppl.data.kinds.parts import Parts
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.inference.sites import Site
from crowdppl.networks.outputs import networks_of
from crowdppl.networks.refitted import SklearnClassifier
from crowdppl.networks.training import training_of
from crowdppl.primitives.model import Model, card_of, settings_of


def require_share(data: Annotations) -> None:
    """Refuses data that are whole in a process group, a share out of one, or none, by a DataError."""
    size, given = group_size(), 1 if data.share is None else data.share[1]
    if size > 1 and not data.n_items:
        raise DataError("the process has no items; start no more processes than there are parts with items")
    if data.share is not None and size == given and data.share[0] != process():
        raise DataError(
            f"process {process()} of {size} has the share of process {data.share[0]}, whose labels would count "
            "twice: each opens its own (crowdppl.Annotations.open)"
        )
    if size == given:
        return
    if data.share is None:
        raise DataError(
            f"torch.distributed has a group of {size} processes, each of which would count all labels: open parts "
            "of the data in each (crowdppl.Annotations.open), or leave the group "
            "(torch.distributed.destroy_process_group)"
        )
    raise DataError(
        f"these annotations are the share of process {data.share[0]} of {given}, and torch.distributed has a group "
        f"of {size}: call torch.distributed.init_process_group first, or start by torchrun, and open them then"
    )


def require_agreement(
    model: Model, data: Annotations, engine: str, options: Options, start: Mapping[str, Any] | None
) -> None:
    """Refuses processes with other parts, annotators, classes, settings, options or starts by a ProcessError."""
    if n_processes() == 1:
        return
    remedy = "give all the same, as one script on all does"
    agreed("the parts", _digest(None if data.opened is None else data.opened.digest), "give all the same folder")
    agreed("the annotators", _digest(data.annotators, data.abstainers, data.annotator_covariates), remedy)
    what = (data.alphabet.book.ids, data.n_classes, data.kind, data.alphabet.informative, data.repeat_correlation)
    agreed("the classes", _digest(*what), remedy)
    of_items = data.item_covariates
    if data.alphabet.kind.parts is not None and of_items is not None:
        objects = (of_items[name].cat.categories for name in data.alphabet.kind.parts.common)
        agreed("the objects", _digest(*objects), remedy)
    history = data.blocks[0].history
    agreed("the history", _digest(None if history is None else history.numpy()), remedy)
    settings = sorted(settings_of(model).items())
    kept = (*options.kept().items(), f"{options.checkpoint}", options.checkpoint_every)
    agreed("the method", _digest(type(model).__qualname__, *settings, engine, *kept), remedy)
    agreed("the start", _digest(*(part for each in (start or {}).items() for part in each)), remedy)


def _digest(*parts: Any) -> int:
    """A number that differs where parts do, below 2**52."""
    texts = ("\n".join(_lines(part)) for part in parts)
    return int.from_bytes(hashlib.sha256("\0".join(texts).encode()).digest()[:6], "big")


def _lines(part: Any) -> Iterator[str]:
    """What tells a part from others."""
    if isinstance(part, pd.DataFrame):
        yield str(pd.util.hash_pandas_object(part.reset_index(drop=True)).to_numpy().tobytes())
        yield from map(str, part.columns)
    elif isinstance(part, pd.Index):
        yield from map(repr, part.tolist())
    else:
        yield repr(part.tolist() if hasattr(part, "tolist") else part)


def refuse_own_setup(model: Model) -> None:
    """Refuses a model whose ``setup`` or ``init`` may read the labels of one process alone, by a MethodError."""
    card, own = card_of(model), [what for what in ("setup", "init") if hasattr(model, what)]
    if n_processes() > 1 and own and not (card and card.sharded):
        _refuse(model, f"its {' and '.join(own)} may read labels, of which a process has its share")


def _why_not_trained(model: Model, engine: str) -> str | None:
    """Why processes cannot train the model's networks together; None where they can, or there are none."""
    networks, training = networks_of(model), training_of(getattr(model, "training", {}))
    parts = [x for network in networks.values() for x in network.modules()]
    if not networks:
        return None
    if "networks" not in ENGINES[engine].shares:
        able = _engines_that_share("networks")
        return f"{engine} would train its network on a process's own items ({able} train classifiers together)"
    if others := sorted({*networks} - {"network"}):
        return f"it has a network beside the classifier ({', '.join(others)})"
    if any(isinstance(x, SklearnClassifier) for x in parts):
        return "a classifier of scikit-learn is fitted to all items at once"
    if any(getattr(x, "track_running_stats", False) for x in parts):
        return (
            "its network keeps means of a process's own batches (take layer or group norm in place of batch norm)"
        )
    if training.volume == "auto" or training.patience:
        name = "patience" if training.patience else "volume"
        value = shown(getattr(training, name))
        return f"training: {name}={value} tries fits on parts of the data, of which a process has its share"
    return None


def _engines_that_share(what: str) -> str:
    """The engines by which processes share what passes over all items do not, for a message."""
    return " and ".join(repr(name) for name, engine in ENGINES.items() if what in engine.shares)


def _is_of(site: Site, name: str, pair: Parts | None) -> bool:
    """Whether a site has an entry for each id of a column of items, and processes have other ids."""
    return pair is not None and name not in pair.common and f"groups of {name}" in site.plates


def _refuse(model: Model, why: str) -> NoReturn:
    card = card_of(model)
    name = type(model).__name__ if card is None else card.title
    raise MethodError(f"processes cannot share a fit of {name}: {why}; fit it in one process")


def refuse_unshared(problem: Problem, data: Annotations, engine: str) -> None:
    """Refuses by name what processes cannot share: it would be computed of one process's items alone.

    Raises:
        MethodError: for the model or the option.
    """
    if n_processes() == 1:
        return
    model = problem.model
    pair, card = data.alphabet.kind.parts, card_of(model)
    parts = () if pair is None else pair.names
    derived = card is not None and card.sharded  # of labels of one item, or of a unit
    own = {NUMBER} if not derived else {x for x in problem.reads.labels if x not in data.label_names}
    covariates = [
        *(x for x in problem.reads.items if x not in parts),
        *(x for x in problem.reads.labels if x not in own),
    ]
    local = [site.name for site in problem.sites.values() if site.local]
    of_parts = [(site.name, name) for site in problem.sites.values() for name in parts if _is_of(site, name, pair)]
    why: str | None
    if problem.linked and data.edges is None and not (pair is not None and pair.ordered):
        why = "it links items"
    elif local:
        why = f"{', '.join(local)} has an entry an item"
    elif of_parts:
        why = f"{of_parts[0][0]} has an entry for each {of_parts[0][1]}"
    elif covariates:
        why = f"it reads covariates ({', '.join(map(repr, covariates))})"
    elif problem.integral is not None and (moving := [*problem.of_kind("free"), *problem.of_kind("hyper")]):
        why = f"{moving[0].name} is moved along gradients, and labels are numbers"
    else:
        why = _why_not_trained(model, engine)
    if why is not None:
        _refuse(model, why)
    kinds = [(site.name, site.kind, site.batch_shape, site.event_shape) for site in problem.sites.values()]
    agreed("the sites of the model", _digest(*kinds), "fit it in one process")
    if problem.options.batch_size is not None and "batch_size" not in ENGINES[engine].shares:
        raise MethodError(
            f"processes cannot share batch_size={shown(problem.options.batch_size)} of {engine}; leave it out, or "
            f"use inference={_engines_that_share('batch_size')}"
        )
