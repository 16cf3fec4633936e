"""Results on disk: annotations, posterior and networks as JSON and safetensors, checked when read."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import __version__, errors, registry
from crowdppl.core.validation import require_path
from crowdppl.data.annotations import Annotations, with_covariates, with_known
from crowdppl.data.blocks import build_blocks
from crowdppl.data.features import StoredFeatures
from crowdppl.data.ids import Codebook, LabelSet
from crowdppl.errors import CrowdpplWarning, MethodError, ResultError
from crowdppl.inference.result import CalibrationMap, Correction, Fit, FitResult, SiteResult, restore_update_state
from crowdppl.networks.classifier import ROWS, Network
from crowdppl.networks.embedding import Embedding
from crowdppl.networks.outputs import networks_of, state_of
from crowdppl.primitives.model import Model, settings_of


def without_networks(model: Model) -> dict[str, Any]:
    """Settings of a story; networks stand as None."""
    return settings_of(model) | dict.fromkeys(networks_of(model))


def network_parts(model: Model) -> dict[str, Any] | None:
    """The networks of a fitted story by attribute.

    Of each, arrays by name, whether the user brought the network, and where it did, the first weights that are not
    the last ones too, from which ``Posterior.without`` begins.
    """
    found = {}
    for name, network in networks_of(model).items():
        state = state_of(network)
        first = (network.given or {}) if isinstance(network, Network) else {}
        found[name] = {
            "own": network.own if isinstance(network, Network | Embedding) else False,
            "arrays": _arrays(state),
            "first": _arrays({key: x for key, x in first.items() if not _same(x, state[f"body.{key}"])}),
        }
    return found or None


def restored_networks(model: Model, found: Mapping[str, Any] | None, data: Annotations) -> Model:
    """The story with the networks that were saved.

    Args:
        story: built from its settings, or handed over by the user with networks of the same architecture.
        found: what ``described`` said.
        data: the annotations of the fit.

    Raises:
        ResultError: when a network was one of the user's own and is not there, or has other weights.
    """
    if found is None:
        return model
    for name, saved in found.items():
        if saved["own"] and name not in networks_of(model):
            raise ResultError(
                "this posterior has a network of your own, which is not saved but for its weights; hand the method "
                "over with one of the same architecture: crowdppl.load(path, model=...)"
            )
    model = _told(model, found)
    setup: Any = getattr(model, "setup", None)
    features = data.features
    if isinstance(features, StoredFeatures):  # only their shape is needed: what was made of them is in the arrays
        data = replace(data, features=replace(features[:ROWS], dataset=Blank(features.row_shape, features.whole)))
    try:
        again: Model = setup(data)
        for name, network in networks_of(again).items():
            network.load_state_dict(_tensors(found[name]["arrays"]))
            network.eval()
            if isinstance(network, Network) and network.given is not None and "first" in found[name]:
                last = {key: x.clone() for key, x in network.body.state_dict().items()}
                first = _tensors(found[name]["first"])
                network.given = {**last, **{key: x.to(last[key].dtype) for key, x in first.items()}}
    except (RuntimeError, MethodError) as error:
        raise ResultError(f"the network handed over is not the one that was saved: {error}") from error
    return again


def _told(model: Model, found: Mapping[str, Any]) -> Model:
    """The story, which keeps what it learned before fits as its setting ``weights``, with those that were saved."""
    if "weights" not in settings_of(model) or "embedding" not in found or not is_dataclass(model):
        return model
    told: Any = model
    embedding = deepcopy(told.embedding)  # the weights of the user's own stay as they are
    return cast(Model, replace(told, embedding=embedding, weights=_tensors(found["embedding"]["arrays"])))


def _arrays(state: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    found = {key: x.detach().cpu() for key, x in state.items()}
    # bfloat16, which numpy does not know, loses nothing in float32, and comes back when weights are loaded.
    return {key: (x.float() if x.dtype == torch.bfloat16 else x).numpy() for key, x in found.items()}


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.asarray(x)) for key, x in arrays.items()}


def _same(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.cpu(), y.cpu())


class Blank:
    """Rows that say nothing, for what is to be built in the right shape and filled from elsewhere."""

    def __init__(self, shape: tuple[int, ...], whole: bool = False) -> None:
        self.shape, self.whole = shape, whole

    def __getitem__(self, row: int) -> Tensor:
        # not all the same, or a network that standardises rows would make nothing finite of them
        size = math.prod(self.shape)
        return (torch.arange(size) % 2 if self.whole else torch.linspace(0, 1, size)).reshape(self.shape)


def annotation_parts(data: Annotations) -> dict[str, Any]:
    """Everything that annotations hold, as ids, arrays and plain values."""
    item, annotator, answer = data.label_codes()
    history = data.history
    return {
        "kind": data.kind,
        "items": data.item_book.ids,
        "annotators": data.annotator_book.ids,
        "answers": data.alphabet.book.ids,
        "n_classes": data.n_classes,
        "item": item,
        "annotator": annotator,
        "answer": answer if data.blocks[0].has_labels else None,
        "gold_codes": data.gold_codes,
        "history": None if history is None else history.cpu().numpy(),
        "abstainers": data.abstainers,
        "informative": data.alphabet.informative,
        "features": _features(data.features),
        "item_covariates": _columns(data.item_covariates),
        "annotator_covariates": _columns(data.annotator_covariates),
        "columns": _columns(data.columns),
        "warnings": [[type(warning).__name__, str(warning)] for warning in data.warnings],
    }


def read_annotation_parts(parts: Mapping[str, Any], dataset: Any = None) -> Annotations:
    """The annotations that ``take_apart`` described; with the dataset of their features, where they had one."""
    # What was saved before abstentions could be ignorable took them as informative.
    informative = parts.get("informative", parts["abstainers"] is not None)
    alphabet = LabelSet(Codebook("answer", parts["answers"]), parts["n_classes"], parts["kind"], informative)
    order, blocks = build_blocks(
        parts["item"],
        parts["annotator"],
        parts["answer"],
        n_items=len(parts["items"]),
        n_annotators=len(parts["annotators"]),
        n_classes=alphabet.n_classes,
        n_answers=len(alphabet.book),
    )
    history, abstainers, gold = parts["history"], parts["abstainers"], parts["gold_codes"]
    found = [
        replace(
            with_known(block, order, gold),
            history=None if history is None else torch.from_numpy(history),
            abstainers=None if abstainers is None else torch.from_numpy(abstainers),
            informative=alphabet.informative,
        )
        for block in blocks
    ]
    of_items = _frame(parts["item_covariates"], parts["items"])
    of_annotators = _frame(parts["annotator_covariates"], parts["annotators"])
    return Annotations(
        item_book=Codebook("item", parts["items"]),
        annotator_book=Codebook("annotator", parts["annotators"]),
        alphabet=alphabet,
        blocks=with_covariates(found, order, of_items, of_annotators),
        order=order,
        gold_codes=gold,
        features=_features_again(parts["features"], parts["items"], dataset),
        item_covariates=of_items,
        annotator_covariates=of_annotators,
        columns=_frame(parts["columns"], None),
        warnings=tuple(_warning(*said) for said in parts["warnings"]),
    )


def _features(features: Any) -> Any:
    """Features as plain values; of stored ones, where their rows are."""
    if isinstance(features, StoredFeatures):
        return features.described()
    return _columns(features) if isinstance(features, pd.DataFrame) else features


def _features_again(kept: Any, ids: pd.Index[Any], dataset: Any) -> Any:
    if isinstance(kept, Mapping) and "row_shape" in kept:
        return StoredFeatures.recalled(kept, ids, dataset)
    if dataset is not None:
        raise ResultError("this posterior was saved with its features, if it had any; leave features= out")
    return _frame(kept, ids)


def _columns(table: pd.DataFrame | None) -> dict[str, Any] | None:
    """A table as the names of its columns and their values; its index is known from elsewhere."""
    if table is None:
        return None
    return {"names": table.columns, "values": [pd.Index(table.iloc[:, n]) for n in range(table.shape[1])]}


def _frame(stored: Any, ids: pd.Index[Any] | None) -> Any:
    """The table again, or the array that features may be instead."""
    if not isinstance(stored, Mapping):
        return stored
    size = len(stored["values"][0]) if stored["values"] else 0
    index = pd.RangeIndex(size) if ids is None else ids
    series = [pd.Series(values.array, index=index) for values in stored["values"]]
    table = pd.concat(series, axis=1) if series else pd.DataFrame(index=index)
    return table.set_axis(stored["names"], axis=1)


def _warning(name: str, text: str) -> CrowdpplWarning:
    """A warning of its class, or of their base where this version has no such class."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, CrowdpplWarning):
        return kind(text)
    return CrowdpplWarning(text)


PASSING = ("callback", "progress")
"""Options that tell how a fit is watched, not what it is; they are not kept."""


def fit_parts(posterior: Fit) -> dict[str, Any]:
    """A posterior as values that ``pack`` takes; the fits that its correction holds are of the same data."""
    return {
        **_fit_apart(posterior),
        "data": annotation_parts(posterior.data),
        "correction": None if posterior.correction is None else _correction_apart(posterior.correction),
    }


def fit_from_parts(contents: Mapping[str, Any], folder: Path, model: Model | None, features: Any) -> Fit:
    """The posterior that ``taken_apart`` described.

    Args:
        contents: the values.
        folder: where they are from, for errors.
        story, features: as for ``crowdppl.load``.

    Raises:
        ResultError: when another method is handed over, or none and the saved one is not known.
    """
    data, parts = read_annotation_parts(contents["data"], features), contents["correction"]
    fit = Fit(**_fit_of(folder, contents, data, model))
    if parts is None:
        return fit
    others = {name: Fit(**_fit_of(folder, other, data, None)) for name, other in parts["others"].items()}
    found = None if parts["truth_map"] is None else CalibrationMap(**parts["truth_map"])
    return replace(fit, correction=Correction(**{**parts, "truth_map": found, "others": others}))


def _fit_apart(posterior: Fit) -> dict[str, Any]:
    """A fit without its data and its correction."""
    return {
        "method": posterior.method,
        "settings": without_networks(posterior.model),
        "networks": network_parts(posterior.model),
        "inference": posterior.inference,
        "options": {name: x for name, x in posterior.options.items() if name not in PASSING},
        "memory": None if posterior.memory is None else posterior.memory.taken_apart(),
        "result": {field.name: getattr(posterior.result, field.name) for field in fields(FitResult)}
        | {"sites": {name: vars(site) for name, site in posterior.result.sites.items()}},
    }


def _correction_apart(correction: Correction) -> dict[str, Any]:
    """A correction and the fits that it holds."""
    found = correction.truth_map
    return vars(correction) | {
        "truth_map": None if found is None else vars(found),
        "others": {name: _fit_apart(fit) for name, fit in correction.others.items()},
    }


def _fit_of(folder: Path, contents: Mapping[str, Any], data: Annotations, given: Model | None) -> dict[str, Any]:
    """What a posterior is built from, its correction apart."""
    model = _story(folder, contents["method"], contents["settings"], given)
    result = dict(contents["result"])
    sites = {name: SiteResult(**parts) for name, parts in result.pop("sites").items()}
    return {
        "model": restored_networks(model, contents["networks"], data),
        "method": contents["method"],
        "inference": contents["inference"],
        "data": data,
        "result": FitResult(sites=sites, **result),
        "options": contents["options"],
        "memory": None if contents.get("memory") is None else restore_update_state(contents["memory"]),
    }


def _story(folder: Path, saved: str, settings: Mapping[str, Any], given: Model | None) -> Model:
    """The method as it was fitted; one that was handed over, where no name leads to it or for its networks.

    Raises:
        ResultError: when another method is handed over, or none and the saved one is not known.
    """
    if given is not None:
        name = registry.name_of(given)
        if name != saved and (name is not None or saved in registry.names()):
            other = name or type(given).__qualname__
            raise ResultError(
                f"{folder} holds a posterior of {saved}, and model= is {other}: hand over the method fitted"
            )
        if name is None:
            return given
        settings = {**settings, **networks_of(given)}
    try:
        return registry.method(saved, **settings)
    except MethodError as error:
        raise ResultError(
            f"{folder} holds a posterior of {saved}, which is not known here as it was then ({error}); register "
            "the method, or hand it over with model="
        ) from error


Arrays = dict[str, np.ndarray]
"""Arrays by name; JSON refers to them as ``{"$array": name}``."""
SPELLED: dict[type, tuple[str, Callable[[Any], str]]] = {
    dt.date: ("$date", dt.date.isoformat),
    UUID: ("$uuid", str),
    Decimal: ("$decimal", str),
    bytes: ("$bytes", bytes.hex),
}
"""What a text says exactly: by type its tag, and how it is spelled."""


def pack(value: Any, where: str, arrays: Arrays) -> Any:
    """Turns a value into what JSON can say, and puts arrays aside.

    None, booleans, whole numbers, strings, lists and dicts with string keys stay as they are. Anything else is
    a dict with one key that begins with "$".

    Args:
        value: also floats, tuples, numpy scalars and arrays, torch tensors and dtypes, dates, timestamps, time
            differences, UUIDs, decimals, bytes and pandas indexes, nested as you like.
        where: path of the value, which names its arrays and the place in an error.
        arrays: filled with the arrays of the value.

    Raises:
        ResultError: for a value of any other type, with its place.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) in (list, tuple):
        packed = [pack(part, f"{where}/{n}", arrays) for n, part in enumerate(value)]
        return packed if type(value) is list else {"$tuple": packed}
    if type(value) in SPELLED:
        tag, spell = SPELLED[type(value)]
        return {tag: spell(value)}
    if isinstance(value, Mapping):
        return _pack_mapping(value, where, arrays)
    if isinstance(value, pd.Index):
        return {"$index": _pack_index(value, where, arrays)}
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str):
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": _put(value, where, arrays)}
    special = _pack_time(value) or _pack_torch(value, where, arrays)
    if special is not None:
        return special
    if isinstance(value, str):
        return str(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise ResultError(
        f"{where} is a {kind}, which cannot be saved: {value!r:.80}; use numbers, strings, lists, dicts or arrays"
    )


def unpack(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that ``pack`` was given.

    Raises:
        ResultError: when the description is none that ``pack`` writes, or an array is missing.
    """
    if isinstance(packed, list):
        return [unpack(part, arrays) for part in packed]
    if not isinstance(packed, dict):
        return packed
    tag = next(iter(packed), "")
    if not tag.startswith("$"):
        return {key: unpack(part, arrays) for key, part in packed.items()}
    if tag not in _READERS:
        raise ResultError(f"the saved value {packed!r:.80} is of a kind that this version does not know")
    try:
        return _READERS[tag](packed[tag], arrays)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ResultError(f"the saved value {packed!r:.80} cannot be read: {error}") from error


def _put(array: Any, where: str, arrays: Arrays) -> dict[str, Any]:
    """Stores a numeric array; text and times are stored by what they are made of."""
    array = np.asarray(array)
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
        # An array that is not contiguous would be written in the order of its memory.
        arrays[where] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"name": where}
    if array.dtype.kind in "mM":
        return _put(array.view(np.int64), where, arrays) | {"dtype": array.dtype.str}
    if array.dtype.kind in "UOS":
        flat = [pack(part, f"{where}/{n}", arrays) for n, part in enumerate(array.ravel().tolist())]
        return {"values": flat, "shape": list(array.shape), "dtype": array.dtype.str}
    raise ResultError(f"{where} is an array of {array.dtype}, which cannot be saved")


def _get(packed: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if "values" in packed:
        array = np.empty(math.prod(packed["shape"]), dtype=packed["dtype"])
        for n, part in enumerate(packed["values"]):
            array[n] = unpack(part, arrays)
        return array.reshape(packed["shape"])
    array = arrays[packed["name"]]
    return array.view(packed["dtype"]) if "dtype" in packed else array


def _pack_mapping(value: Mapping[Any, Any], where: str, arrays: Arrays) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: pack(part, f"{where}/{key}", arrays) for key, part in value.items()}
    pairs = [
        [pack(key, f"{where}/key {n}", arrays), pack(part, f"{where}/{n}", arrays)]
        for n, (key, part) in enumerate(value.items())
    ]
    return {"$dict": pairs}


def _pack_time(value: Any) -> Any:
    """Timestamps, time differences and what pandas calls missing; None for anything else."""
    if value is pd.NA or value is pd.NaT:
        return {"$missing": "NA" if value is pd.NA else "NaT"}
    if isinstance(value, pd.Timestamp):
        zone = None if value.tzinfo is None else str(value.tzinfo)
        return {"$timestamp": [int(value.to_numpy().view(np.int64)), value.unit, zone]}
    if isinstance(value, pd.Timedelta):
        return {"$timedelta": [int(value.to_numpy().view(np.int64)), value.unit]}
    return None


def _pack_torch(value: Any, where: str, arrays: Arrays) -> Any:
    """Tensors and dtypes of torch, which is not imported for it; None for anything else."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.Tensor):
        return {"$tensor": _put(value.detach().cpu().numpy(), where, arrays)}
    if isinstance(value, torch.dtype):
        return {"$torch": str(value).removeprefix("torch.")}
    return {"$device": str(value)} if isinstance(value, torch.device) else None


def _pack_index(index: pd.Index, where: str, arrays: Arrays) -> dict[str, Any]:
    """An index by its dtype, its name and its values: millions of ids are arrays, not JSON."""
    spec = {"dtype": str(index.dtype), "name": pack(index.name, f"{where}/name", arrays)}
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        zone = None if isinstance(index, pd.TimedeltaIndex) or index.tz is None else str(index.tz)
        values = index if zone is None else index.tz_convert("UTC").tz_localize(None)  # type: ignore[union-attr]
        return spec | {"times": _put(values.to_numpy(), where, arrays), "zone": zone}
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in "biuf":
        return spec | {"numbers": _put(index.to_numpy(), where, arrays)}
    values = index.tolist()
    if all(type(value) is str for value in values):
        return spec | {"text": _put_text(values, where, arrays)}
    return spec | {"values": [pack(value, f"{where}/{n}", arrays) for n, value in enumerate(values)]}


def _put_text(texts: list[str], where: str, arrays: Arrays) -> list[str]:
    """Strings as one run of bytes and where each ends; lone surrogates survive too."""
    coded = [text.encode("utf-8", "surrogatepass") for text in texts]
    arrays[f"{where}/text"] = np.frombuffer(b"".join(coded), np.uint8)
    arrays[f"{where}/ends"] = np.cumsum([len(text) for text in coded], dtype=np.int64)
    return [f"{where}/text", f"{where}/ends"]


def _get_index(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    name: Any = unpack(spec["name"], arrays)
    if "times" in spec:
        index = pd.Index(_get(spec["times"], arrays), name=name)
        zone = spec["zone"]
        return index if zone is None else pd.DatetimeIndex(index).tz_localize("UTC").tz_convert(zone)
    if "numbers" in spec:
        return pd.Index(_get(spec["numbers"], arrays), name=name)
    if "text" in spec:
        text, ends = (arrays[key] for key in spec["text"])
        run, bounds = text.tobytes(), [0, *ends.tolist()]
        values = [run[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
        return pd.Index(values, dtype=spec["dtype"], name=name)
    values = unpack(spec["values"], arrays)
    return pd.Index(values, dtype=spec["dtype"], name=name, tupleize_cols=False)


def _get_tensor(spec: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    import torch  # a result without tensors is read without torch

    return torch.from_numpy(_get(spec, arrays).copy())


def _get_torch(name: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    import torch

    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is no dtype of torch")
    return dtype


def _get_device(name: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    import torch

    return torch.device(name)


def _get_timestamp(spec: Any, arrays: Mapping[str, np.ndarray]) -> pd.Timestamp:
    value, unit, zone = spec
    stamp = pd.Timestamp(np.datetime64(value, unit))
    return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(zone)


_READERS: dict[str, Callable[[Any, Mapping[str, np.ndarray]], Any]] = {
    "$float": lambda text, arrays: float(text),
    "$tuple": lambda parts, arrays: tuple(unpack(part, arrays) for part in parts),
    "$dict": lambda pairs, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in pairs},
    "$index": _get_index,
    "$array": _get,
    "$scalar": lambda spec, arrays: _get(spec, arrays)[()],
    "$tensor": _get_tensor,
    "$torch": _get_torch,
    "$device": _get_device,
    "$missing": lambda name, arrays: pd.NA if name == "NA" else pd.NaT,
    "$timestamp": _get_timestamp,
    "$timedelta": lambda spec, arrays: pd.Timedelta(np.timedelta64(spec[0], spec[1])),
    "$date": lambda text, arrays: dt.date.fromisoformat(text),
    "$uuid": lambda text, arrays: UUID(text),
    "$decimal": lambda text, arrays: Decimal(text),
    "$bytes": lambda text, arrays: bytes.fromhex(text),
}


FORMAT = 2
"""Raised when older versions could no longer read what is written."""
GROWN = {"correction": "a correction", "memory": "the labels before an update"}
"""Parts of which earlier formats kept less, as a user knows them."""
TEXT, ARRAYS = "posterior.json", "posterior.safetensors"
MARKED = 100
"""Bytes at the beginning of the text in which it says who wrote it."""


def save(posterior: Fit, path: str | Path) -> None:
    """Writes a posterior to a folder, made where it does not exist, from which ``crowdppl.load`` reads it.

    Kept are the annotations with all ids as they are spelled, gold, features, covariates and further columns, the
    method with its settings, what the fit found and how it went; where the probabilities of several methods are
    averaged, the fits of all. Features that are a dataset stay where they are.

    Args:
        path: the folder; a posterior that is already there is replaced.

    Raises:
        ResultError: when a setting, or extra state of a network, is of a type that cannot be saved, the path is
            that of a file, or a file of the folder that crowdppl did not write would be replaced.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.save("result")
        >>> crowdppl.load("result")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    from safetensors.numpy import save_file

    arrays: Arrays = {}
    packed = pack(fit_parts(posterior), "posterior", arrays)
    folder = made_folder(path)
    spare_others(folder)
    # Written aside and moved, so that a crash leaves the old result or one that is seen to be damaged.
    save_file(arrays, folder / f"{ARRAYS}.part")
    about = {
        "format": FORMAT,
        "crowdppl": __version__,
        "arrays": _digest_of_file(folder / f"{ARRAYS}.part"),
        "contents": packed,
    }
    text = json.dumps(about | {"digest": _digest(about)}, indent=1)
    (folder / f"{TEXT}.part").write_text(text, encoding="ascii")
    for name in (TEXT, ARRAYS):  # the text says whose both are
        (folder / f"{name}.part").replace(folder / name)


def made_folder(path: str | Path) -> Path:
    """A folder, made where it does not exist.

    Raises:
        ResultError: when the path is that of a file, or no path.
    """
    folder = require_path(path, ResultError)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ResultError(f"{folder} is a file or lies in one; give the path of a folder") from error
    return folder


def spare_others(folder: Path) -> None:
    """Refuses to replace files that bear the names of a posterior's and are something else.

    Raises:
        ResultError: naming the first.
    """
    text = folder / TEXT
    if text.is_file():
        with text.open("rb") as file:  # also of one that is cut off or damaged, which may be replaced
            start = file.read(MARKED)
        ours = not start or b'"crowdppl"' in start
        wrong = None if ours else text
    else:
        wrong = next((path for path in (text, folder / ARRAYS) if path.exists()), None)
    if wrong is not None:
        raise ResultError(
            f"{wrong} is there already, and is not of a posterior that crowdppl saved; give another folder, or "
            "move it away"
        )


def read(folder: Path, method: str | None, model: Model | None, features: Any = None) -> Fit:
    """The posterior of a folder that ``save`` wrote; see ``crowdppl.load``."""
    contents = _contents(folder)
    saved = contents["method"]
    if method is not None and method != saved:
        raise ResultError(f"{folder} holds a posterior of {saved}, not of {method}; ask for what it is")
    return fit_from_parts(contents, folder, model, features)


def _contents(folder: Path) -> dict[str, Any]:
    """The saved values, after every check that the files allow."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    for name in (TEXT, ARRAYS):
        if not (folder / name).is_file():
            raise ResultError(f"{folder} holds no {name}, so it is no saved posterior, or only part of one")
    try:
        about = json.loads((folder / TEXT).read_text(encoding="utf-8"))
        newest, writer = int(about["format"]), about["crowdppl"]
        found = about.pop("digest", None)
        whole = found == _digest(about)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(f"{folder / TEXT} is damaged: {error}; fit again, or fetch it anew") from error
    if newest > FORMAT:
        raise ResultError(
            f"{folder} was written by crowdppl {writer} in format {newest}; this is crowdppl "
            f"{__version__}, which reads formats up to {FORMAT}: upgrade crowdppl"
        )
    if not whole:
        raise ResultError(f"{folder / TEXT} is damaged: its contents are not those that were written")
    more = [what for part, what in GROWN.items() if about["contents"].get(part) is not None]
    if newest < FORMAT and more:
        raise ResultError(
            f"{folder} was written in format {newest}, which kept less of {more[0]} than format {FORMAT} needs; "
            "fit again"
        )
    if _digest_of_file(folder / ARRAYS) != about["arrays"]:
        raise ResultError(f"{folder / ARRAYS} is damaged, or belongs to another {TEXT}: its digest differs")
    try:
        contents: dict[str, Any] = unpack(about["contents"], load_file(folder / ARRAYS))
    except SafetensorError as error:
        raise ResultError(f"{folder / ARRAYS} is damaged: {error}") from error
    except RecursionError as error:
        raise ResultError(
            f"{folder / TEXT} is nested too deeply to be read; fit again, or fetch it anew"
        ) from error
    return contents


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
