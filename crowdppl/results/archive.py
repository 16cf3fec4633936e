"""Results on disk: annotations as Parquet, arrays as safetensors, the rest as JSON; checked when read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import __version__, errors, registry
from crowdppl.core.fields import Sizes
from crowdppl.core.files import new_files, settle
from crowdppl.core.validation import kind_of, printable, require_path
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import Coded, check_tables
from crowdppl.data.covariates import feature_table, label_columns
from crowdppl.data.features import StoredFeatures
from crowdppl.data.ids import Codebook, place_in_rows, tensor_to_numpy
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.sequences import units_of
from crowdppl.errors import CrowdpplError, CrowdpplWarning, MethodError, ResultError
from crowdppl.inference.predict.answers import redrawn
from crowdppl.inference.problem import model_sites
from crowdppl.inference.result import FORMAT, Correction, Fit, OnDemand
from crowdppl.networks.classifier import ROWS, Network
from crowdppl.networks.embedding import Embedding
from crowdppl.networks.outputs import networks_of, state_of
from crowdppl.primitives.model import Model, set_up, settings_of
from crowdppl.results.schema import FIT, LARGEST, RECORDS, require_counts, require_posterior, require_sites

TEXT, ARRAYS = "posterior.json", "posterior.safetensors"
TABLES = {name: f"posterior.{name}.parquet" for name in ("labels", "items", "annotators")}
FILES = (TEXT, ARRAYS, *TABLES.values())
AS_IT_IS: Mapping[str, Any] = {"compression": "none", "use_dictionary": False}
"""How tables are stored: in a file where each row takes a few bytes, a few bytes cannot claim many rows."""


@dataclass(frozen=True)
class Contents:
    """What the files of a posterior hold: JSON values, arrays by name and tables by name."""

    values: dict[str, Any]
    arrays: dict[str, np.ndarray]
    tables: dict[str, pd.DataFrame]


def save(posterior: Fit, path: str | Path) -> None:
    """Writes a posterior to a folder, made where it does not exist, from which ``crowdppl.load`` reads it.

    Kept are the annotations with gold, features, covariates and further columns, the method with its settings and
    the weights of its networks, what the fit found, and the other fits of a corrected posterior. Features that are
    a dataset stay where they are, and draws of vb that nobody asked for are made again after loading. Nothing is
    pickled: any Parquet, safetensors or JSON reader opens the files.

    Args:
        path: the folder. A posterior that is already there is replaced last and at once, so that it stays where the
            disk is full or the process is killed; a kill may leave a folder ``.crowdppl-...``, to be deleted.

    Raises:
        ResultError: when a setting, a column or a network's extra state is of a type that cannot be saved, the path
            is that of a file, the disk is full, or a file that crowdppl did not write would be replaced.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.save("result")
        >>> crowdppl.load("result")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    require_path(path, ResultError)
    spare_others(Path(path))
    with new_files(path) as folder:
        write(posterior, folder)


def read(folder: Path, method: str | None, model: Model | None, features: Any = None) -> Fit:
    """The posterior of a folder that ``save`` wrote; see ``crowdppl.load``."""
    try:
        settle(folder)
        return _assembled(folder, _read(folder), method, model, features)
    except CrowdpplError:
        raise
    except Exception as error:  # of whichever library meets what is damaged or forged first
        raise ResultError(f"{folder / TEXT} or a file beside it is damaged: {error!r}; fetch it anew") from error


def _assembled(folder: Path, contents: Contents, method: str | None, model: Model | None, features: Any) -> Fit:
    """The posterior of what the files hold, checked before it is used."""
    values = unpack(contents.values, contents.arrays)
    sizes = require_posterior(values, contents.tables)
    sizes["numbers"] = sum(x.size for x in contents.arrays.values())
    saved, correction = values["method"], values["correction"]
    if method is not None and method != saved:
        raise ResultError(f"{folder} holds a posterior of {saved}, not of {method}; leave method= out")
    data = _annotations(values["data"], contents.tables, features)
    fit = _fit(folder, values, data, model, sizes)
    if correction is None:
        return fit
    others = {name: _fit(folder, other, data, None, sizes) for name, other in correction["others"].items()}
    return replace(fit, correction=Correction(**correction | {"others": others}))


def write(posterior: Fit, folder: Path) -> None:
    """Writes the files of a posterior to an empty folder; errors as of ``save``."""
    import pyarrow as pa  # slow to import
    from pyarrow import parquet
    from safetensors.numpy import save_file

    contents = _contents(posterior)
    try:
        tables = {name: pa.Table.from_pandas(x, preserve_index=False) for name, x in contents.tables.items()}
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ResultError(f"annotations cannot be saved: {error}; use text, numbers or times") from error
    save_file(contents.arrays, folder / ARRAYS)
    for name, table in tables.items():
        parquet.write_table(table, folder / TABLES[name], **AS_IT_IS)
    digests = {name: _file_digest(folder / name) for name in FILES if name != TEXT}
    about = {"format": FORMAT, "crowdppl": __version__, "files": digests, "contents": contents.values}
    text = json.dumps(about | {"digest": _digest(about)}, indent=1)
    (folder / TEXT).write_text(text, encoding="ascii")


def _contents(posterior: Fit) -> Contents:
    """What the files of a posterior will hold."""
    arrays: dict[str, np.ndarray] = {}
    values, correction = _fit_values(posterior), posterior.correction
    others = {} if correction is None else {name: _fit_values(fit) for name, fit in correction.others.items()}
    values["correction"] = None if correction is None else vars(correction) | {"others": others}
    values["data"], tables = _annotation_values(posterior.data)
    return Contents(pack(values, "posterior", arrays), arrays, tables)


def _read(folder: Path) -> Contents:
    """The contents of the files; ResultError when one is missing, damaged, of another save or of another format."""
    from safetensors.numpy import load_file  # slow to import

    for name in FILES[:2]:
        if not (folder / name).is_file():
            raise ResultError(f"{folder} holds no {name}, so it is no saved posterior, or only part of one")
    text = folder / TEXT
    about = json.loads(text.read_text(encoding="utf-8"))
    written, writer, digest = int(about["format"]), printable(str(about["crowdppl"])), about.pop("digest", None)
    whole = digest == _digest(about)
    if written != FORMAT:
        remedy = "upgrade crowdppl" if written > FORMAT else f"fit again, or install crowdppl {writer}"
        raise ResultError(
            f"{folder} was written by crowdppl {writer} in format {written}, and crowdppl {__version__} reads "
            f"format {FORMAT}: {remedy}"
        )
    if not whole:
        raise ResultError(f"{text} is damaged: its contents are not those that were written")
    for name in (ARRAYS, *TABLES.values()):
        file = folder / name
        if not file.is_file() or _file_digest(file) != about["files"][name]:
            raise ResultError(f"{file} is missing, damaged, or belongs to another {TEXT}; fetch it anew")
    tables = {name: _table(folder / file) for name, file in TABLES.items()}
    return Contents(about["contents"], load_file(folder / ARRAYS), tables)


def _table(path: Path) -> pd.DataFrame:
    """A table of a file that is no larger in memory than its bytes allow; ResultError for any other."""
    from pyarrow import parquet  # slow to import

    file = parquet.ParquetFile(path)
    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    stored = {group.column(n).compression for group in groups for n in range(group.num_columns)}
    least = 4 * file.metadata.num_rows  # bytes: a row holds one code, or the length of one text
    if not stored <= {"UNCOMPRESSED"} or least > path.stat().st_size:
        raise ResultError(f"{path} has more rows than so few bytes can hold; fetch it anew, or fit again")
    found = file.read()
    found.validate(full=True)
    table: pd.DataFrame = found.to_pandas()
    return table


def spare_others(folder: Path) -> None:
    """Refuses to replace files that bear the names of a posterior's and are something else, by a ResultError."""
    text = folder / TEXT
    if text.is_file():  # a damaged or empty one may be replaced, too
        start = text.read_bytes()[:100]  # where the library is named
        found = [text] if start and b'"crowdppl"' not in start else []
    else:
        found = [folder / name for name in FILES if (folder / name).exists()]
    if found:
        raise ResultError(
            f"{found[0]} is not of a posterior that crowdppl saved; give another folder, or move it away"
        )


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON holds it; what JSON has no word for is a dict with one key that begins with "$".

    Its place, a path, names its arrays, put into ``arrays``, and stands in a ResultError for another type.
    """

    def each(parts: Mapping[str, Any]) -> dict[str, Any]:
        return {key: pack(part, f"{place}/{key}", arrays) for key, part in parts.items()}

    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list | tuple):
        packed = [pack(part, f"{place}/{n}", arrays) for n, part in enumerate(value)]
        return packed if isinstance(value, list) else {"$tuple": packed}
    if isinstance(value, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return each(value)
        return {"$dict": pack([list(pair) for pair in value.items()], place, arrays)}
    if isinstance(value, pd.Index):
        return {"$index": each({"values": _values(value), "name": value.name, "dtype": str(value.dtype)})}
    if isinstance(value, OnDemand):
        return {"$later": place} if value.left_out else {"$OnDemand": pack(value(), place, arrays)}
    if RECORDS.get(tag := f"${type(value).__name__}") is type(value):
        return {tag: each(vars(value))}
    array = tensor_to_numpy(value, place) if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
        arrays[place] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"$tensor" if isinstance(value, Tensor) else "$array": place}
    detail = f" of {array.dtype}" if isinstance(array, np.ndarray) else ""
    raise ResultError(
        f"{place} is {kind_of(value)}{detail}, which cannot be saved; use numbers, text, lists, dicts or arrays"
    )


def unpack(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that ``pack`` was given; KeyError, TypeError or ValueError when it did not write this."""
    if isinstance(packed, list):
        return [unpack(part, arrays) for part in packed]
    if not isinstance(packed, dict):
        return packed
    tag = next(iter(packed), "")
    if not tag.startswith("$"):
        return {key: unpack(part, arrays) for key, part in packed.items()}
    if tag == "$array":
        return arrays[packed[tag]]
    if tag == "$tensor":
        return torch.from_numpy(arrays[packed[tag]])
    value = unpack(packed[tag], arrays)
    if tag == "$tuple":
        return tuple(value)
    if tag == "$dict":
        return dict(value)
    if tag == "$index":
        return pd.Index(_of_values(value["values"]), dtype=value["dtype"], name=value["name"], tupleize_cols=False)
    kinds: Mapping[str, Any] = {"$OnDemand": OnDemand.of, "$later": OnDemand.lacking}
    return kinds[tag](value) if tag in kinds else RECORDS[tag](**value)


def _values(ids: pd.Index[Any]) -> Any:
    """The values of an index: text as Arrow's buffers, integers as an array, all else as a list."""
    if ids.dtype.kind in "iu":
        return ids.to_numpy()
    if ids.inferred_type != "string":
        return ids.tolist()
    import pyarrow as pa  # slow to import

    _, ends, text = pa.array(ids.to_numpy(object), pa.large_string()).buffers()
    return {"ends": np.frombuffer(ends, np.int64), "text": np.frombuffer(text, np.uint8)}


def _of_values(values: Any) -> Any:
    """What ``_values`` was given; ValueError when it gave something else."""
    if not isinstance(values, dict):
        return values
    import pyarrow as pa  # slow to import

    ends, text = np.asarray(values["ends"], np.int64), np.asarray(values["text"], np.uint8)
    found = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(text))
    found.validate(full=True)
    return found.to_pandas()


def _fit_values(fit: Fit) -> dict[str, Any]:
    """A fit without its data and its correction."""
    return {
        "settings": settings_of(fit.model) | dict.fromkeys(networks_of(fit.model)),
        "networks": network_states(fit.model),
        **{name: getattr(fit, name) for name in FIT},
    }


def _fit(folder: Path, values: Mapping[str, Any], data: Annotations, given: Model | None, sizes: Sizes) -> Fit:
    """The fit of ``_fit_values``, with the method that the user handed over, if any."""
    model = _model(folder, values["method"], values["settings"], given)
    require_counts(model, sizes["numbers"])
    shown = _with_stand_ins(data)
    model = _with_networks(model, values["networks"], shown)
    parts = {name: values[name] for name in FIT}
    known, sites = model_sites(model, shown), parts["result"].sites
    if sites.keys() != known.keys():
        raise ResultError(
            f"{folder} holds the sites {', '.join(sites)}, and {values['method']} has {', '.join(known)} on these "
            "data; fetch it anew, or fit again"
        )
    before = [] if parts["memory"] is None else [parts["memory"], *parts["memory"].records]
    for found in (sites, *(earlier.sites for earlier in before)):
        require_sites(found, known, model, sizes)
    return redrawn(Fit(model=model, data=data, **parts))


def _model(folder: Path, saved: str, settings: Mapping[str, Any], given: Model | None) -> Model:
    """The method as it was fitted; ResultError when another is handed over, or none and it is not known."""
    if given is not None:
        name = registry.name_of(given)
        if name != saved and (name is not None or saved in registry.names()):
            raise ResultError(
                f"{folder} holds a posterior of {saved}, and model= is {name or type(given).__qualname__}: hand "
                "over the method fitted"
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


def network_states(model: Model) -> dict[str, Any] | None:
    """The networks of a fitted model by attribute, None without any: tensors, whether it is the user's ``own``,
    and the ``first`` weights that have changed since, from which ``Posterior.without`` begins.
    """
    found = {}
    for name, network in networks_of(model).items():
        state = {key: x.detach().cpu() for key, x in state_of(network).items()}
        first = (network.given or {}) if isinstance(network, Network) else {}
        found[name] = {
            "own": network.own if isinstance(network, Network | Embedding) else False,
            "state": state,
            "first": {key: x for key, x in first.items() if not torch.equal(x.cpu(), state[f"body.{key}"])},
        }
    return found or None


def _with_networks(model: Model, saved: Mapping[str, Any] | None, data: Annotations) -> Model:
    """The model with saved networks; ResultError where a user's own is not handed over, or has other weights."""
    if saved is None:
        return model
    if any(parts["own"] and name not in networks_of(model) for name, parts in saved.items()):
        raise ResultError(
            "this posterior has a network of your own, which is not saved but for its weights; hand the method "
            "over with one of the same architecture: crowdppl.load(path, model=...)"
        )
    if "weights" in settings_of(model) and "embedding" in saved and is_dataclass(model):
        learned: Any = model  # the weights of the user's own network stay as they are
        weights = saved["embedding"]["state"]
        model = cast(Model, replace(learned, embedding=deepcopy(learned.embedding), weights=weights))
    try:
        built: Model = set_up(model, data)
        for name, network in networks_of(built).items():
            network.load_state_dict(saved[name]["state"])
            network.eval()
            if isinstance(network, Network) and network.given is not None:
                last = {key: x.clone() for key, x in network.body.state_dict().items()}
                first = {key: x.to(last[key].dtype) for key, x in saved[name]["first"].items()}
                network.given = {**last, **first}
    except (RuntimeError, KeyError, MethodError) as error:
        raise ResultError(f"the network handed over is not the one that was saved: {error}") from error
    return built


def _with_stand_ins(data: Annotations) -> Annotations:
    """The data with a stand-in for stored features, whose shape suffices: what was made of them is in weights."""
    features = data.features
    if not isinstance(features, StoredFeatures):
        return data
    rows = max(1, min(ROWS, LARGEST // math.prod(features.row_shape)))
    return replace(data, features=replace(features[:rows], dataset=Ramp(features.row_shape, features.whole)))


class Ramp:
    """Stand-ins for rows of features: the right shape, and not all the same, so that rows can be standardised."""

    def __init__(self, shape: tuple[int, ...], whole: bool) -> None:
        self.shape, self.whole = shape, whole

    def __getitem__(self, row: int) -> Tensor:
        size = math.prod(self.shape)
        return (torch.arange(size) % 2 if self.whole else torch.linspace(0, 1, size)).reshape(self.shape)


def _annotation_values(data: Annotations) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Annotations as tables of labels (by code), items and annotators, and everything else."""
    item, annotator, answer = data.label_codes()
    codes = {"item": item, "annotator": annotator, "answer": answer}
    features = data.features if isinstance(data.features, pd.DataFrame) else None
    items = {"id": data.items} | ({} if data.known is None else {"gold": data.known})
    tables = {
        "labels": _joined(codes, column=data.columns),
        "items": _joined(items, feature=features, covariate=data.item_covariates),
        "annotators": _joined({"id": data.annotators}, covariate=data.annotator_covariates),
    }
    values = {
        "kind": [data.kind, data.alphabet.kind.unit],
        "answers": data.alphabet.book.ids,
        "n_classes": data.n_classes,
        "informative": data.alphabet.informative,
        "history": data.history,
        "abstainers": data.blocks[0].abstainers,
        "features": None if features is not None else data.features,
        "columns": {
            "column": _names(data.columns),
            "feature": _names(features),
            "item_covariate": _names(data.item_covariates),
            "annotator_covariate": _names(data.annotator_covariates),
        },
        "categories": _categories(data.item_covariates),
        "label_names": data.label_names,
        "roles": {**data.roles},
        "warnings": [[type(warning).__name__, str(warning)] for warning in data.warnings],
    }
    if isinstance(data.features, StoredFeatures):
        values["features"] = data.features.described()
    return values, tables


def _annotations(values: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], dataset: Any) -> Annotations:
    """The annotations of ``_annotation_values``; with the dataset of their features, where they had one."""
    labels, items, people = (tables[name] for name in TABLES)
    item_ids, annotator_ids = pd.Index(items["id"].array), pd.Index(people["id"].array)
    answers = Codebook("answer", values["answers"])
    check_tables(len(annotator_ids), len(answers))
    kind, unit = values["kind"]
    alphabet = LabelSet(answers, values["n_classes"], KINDS[kind].in_unit(unit), values["informative"])
    names = values["columns"]
    gold = items["gold"].to_numpy() if "gold" in items else None
    of_items = _columns(items, "covariate", names["item_covariate"], item_ids)
    of_items = None if of_items is None else _with_categories(of_items, values["categories"])
    of_annotators = _columns(people, "covariate", names["annotator_covariate"], annotator_ids)
    columns = _columns(labels, "column", names["column"], labels.index)
    books = Codebook("item", item_ids), Codebook("annotator", annotator_ids)
    coded = Coded(*books, alphabet, *(labels[name].to_numpy() for name in ("item", "annotator", "answer")))
    order, blocks = coded.blocks(units_of(of_items))
    features = values["features"]
    if isinstance(features, Mapping):
        features = StoredFeatures.recalled(features, item_ids, dataset)
    elif dataset is not None:
        raise ResultError("this posterior was saved with its features, if it had any; leave features= out")
    elif features is None:
        features = _columns(items, "feature", names["feature"], item_ids)
    if not isinstance(features, StoredFeatures):
        features = feature_table(features, item_ids, coded.items)
    return Annotations(
        *(*books, alphabet, blocks, order),
        known=gold,
        features=features,
        item_covariates=of_items,
        annotator_covariates=of_annotators,
        columns=columns,
        label_names=label_columns(values["label_names"], columns, place_in_rows),
        roles=values["roles"],
        warnings=tuple(_warning(*parts) for parts in values["warnings"]),
    ).filled(history=values["history"], abstainers=values["abstainers"])


def _joined(first: Mapping[str, Any], **tables: pd.DataFrame | None) -> pd.DataFrame:
    """Columns and tables side by side; columns of tables bear their kind, number and name."""
    columns = [pd.Series(values, name=name) for name, values in first.items()]
    for kind, table in tables.items():
        for n, name in enumerate([] if table is None else table.columns):
            column = cast(pd.DataFrame, table).iloc[:, n]
            columns.append(column.reset_index(drop=True).rename(f"{kind} {n} {name}"))
    return pd.concat(columns, axis=1)


def _names(table: pd.DataFrame | None) -> pd.Index[Any] | None:
    return None if table is None else table.columns


def _columns(table: pd.DataFrame, kind: str, names: Any, index: pd.Index[Any]) -> pd.DataFrame | None:
    """The table that ``_joined`` took up as this kind; None where there was none."""
    if names is None:
        return None
    own = table.loc[:, [name for name in table if str(name).startswith(f"{kind} ")]]
    return own.set_axis(names, axis=1).set_axis(index)


def _categories(table: pd.DataFrame | None) -> dict[str, pd.Index[Any]]:
    """The categories of columns that have some, also those without a row, by the number of the column."""
    columns = enumerate([] if table is None else [column for _, column in table.items()])
    return {str(n): x.cat.categories for n, x in columns if isinstance(x.dtype, pd.CategoricalDtype)}


def _with_categories(table: pd.DataFrame, found: Mapping[str, pd.Index[Any]]) -> pd.DataFrame:
    columns = [
        pd.Series(pd.Categorical(np.asarray(x), found[str(n)]), table.index, name=name) if str(n) in found else x
        for n, (name, x) in enumerate(table.items())
    ]
    return pd.concat(columns, axis=1) if found else table


def _warning(name: str, text: str) -> CrowdpplWarning:
    """A warning of its class, or of their base where this version has no such class."""
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, CrowdpplWarning)
    return kind(text) if known else CrowdpplWarning(text)  # type: ignore[misc]
