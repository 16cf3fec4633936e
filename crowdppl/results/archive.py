"""Results on disk: annotations as Parquet, arrays as safetensors, the rest as JSON; checked when read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from crowdppl import __version__, registry
from crowdppl.core.collective import all_gathered, in_step, process, together
from crowdppl.core.fields import Sizes
from crowdppl.core.files import new_files_of_all, settle
from crowdppl.core.validation import kind_of, printable, require_path
from crowdppl.data.annotations import Annotations
from crowdppl.data.coded import Coded, check_tables
from crowdppl.data.covariates import feature_table, label_columns
from crowdppl.data.features import StoredFeatures
from crowdppl.data.ids import Codebook, place_in_rows, tensor_to_numpy
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.data.kinds.sequences import units_of
from crowdppl.data.parts import is_folder_of_parts
from crowdppl.data.soft_labels import SoftLabels
from crowdppl.errors import CrowdpplError, CrowdpplWarning, MethodError, ResultError
from crowdppl.inference.predict.answers import redrawn
from crowdppl.inference.problem import model_sites
from crowdppl.inference.result import FORMAT, Correction, Fit, OnDemand
from crowdppl.networks.classifier import ROWS, Network
from crowdppl.networks.embedding import Embedding
from crowdppl.networks.outputs import networks_of, state_of
from crowdppl.primitives.model import Model, set_up, settings_of
from crowdppl.results.levels import require_own_model
from crowdppl.results.part_files import OF_PARTS, array_files, read_arrays, write_arrays
from crowdppl.results.schema import FIT, LARGEST, RECORDS, require_counts, require_posterior, require_sites

TEXT, ARRAYS = "posterior.json", "posterior.safetensors"
TABLES = {name: f"posterior.{name}.parquet" for name in ("labels", "items", "annotators")}
FILES = (TEXT, ARRAYS, *TABLES.values())
FRAMES = {
    "columns": "labels",
    "features": "items",
    "item_covariates": "items",
    "annotator_covariates": "annotators",
}
"""Frames of annotations, and the table that holds the columns of each."""
CODES = ("item", "annotator", "answer")
AS_IT_IS: Mapping[str, Any] = {"compression": "none", "use_dictionary": False}
"""How tables are stored: in a file where each row takes a few bytes, a few bytes cannot claim many rows."""

WIDTH = 8
"""Bytes of a value in memory, unless its length is fixed."""
SMALL, MOST_TIMES = 2**26, 32
"""Bytes that any table may take in memory, and how many times those of its file: columns may be missing mostly."""


def save(posterior: Fit, path: str | Path) -> None:
    """Writes a posterior to a folder, made where it does not exist, from which ``crowdppl.load`` reads it.

    Kept are the annotations with gold, features, covariates and further columns, the method with its settings and
    the weights of its networks, what the fit found, and the other fits of a corrected posterior. Features that are
    a dataset stay where they are, and so do annotations that were opened from parts, if nothing but gold, history
    and features was given: the folder names theirs, and has features and what was found of items in a file a part.
    Of processes that share a fit, all must call it, with a folder that all see. Draws of vb that nobody asked for
    are made again after loading. Nothing is pickled: any Parquet, safetensors or JSON reader opens the files.

    Args:
        path: the folder. A posterior that is already there is replaced last and at once, so that it stays where the
            disk is full or the process is killed; a kill may leave a folder ``.crowdppl-...``, to be deleted.

    Raises:
        ResultError: when a setting, a column or a network's extra state is of a type that cannot be saved, the path
            is that of a file, the disk is full, a file that crowdppl did not write would be replaced, or processes
            do not see one folder, or share annotations with covariates or a dataset of features.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.save("result")
        >>> crowdppl.load("result")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    require_path(path, ResultError)
    require_own_model(posterior)
    with in_step():
        spare_others(Path(path))
    with new_files_of_all(path) as folder:
        written = write(posterior, folder)
    remove_stale(Path(path), written)


def read(
    folder: Path, method: str | None, model: Model | None, features: Any = None, parts: Path | None = None
) -> Fit:
    """The posterior of a folder that ``save`` wrote; see ``crowdppl.load``."""
    try:
        settle(folder)
        return _assembled(folder, method, model, features, parts)
    except CrowdpplError:
        raise
    except Exception as error:  # of whichever library meets what is damaged or forged first
        raise ResultError(f"{folder / TEXT} or a file beside it is damaged: {error!r}; fetch it anew") from error


def _assembled(folder: Path, method: str | None, model: Model | None, features: Any, parts: Path | None) -> Fit:
    """The posterior of what the files hold, checked before it is used."""
    about = _about(folder)
    opened = _opened(folder, about["contents"]["data"], parts)
    with together() if opened is not None and opened.is_share else nullcontext():
        return _with_data(folder, about, opened, method, model, features)


def _with_data(
    folder: Path,
    about: Mapping[str, Any],
    opened: Annotations | None,
    method: str | None,
    model: Model | None,
    features: Any,
) -> Fit:
    """The posterior of what the files hold, with annotations that were ``opened`` from parts, or saved with it."""
    contents = about["contents"]
    arrays, tables = _read(folder, about["files"], opened)
    values = unpack(contents, arrays)
    sizes = require_posterior(values, tables, opened) | {"numbers": sum(x.size for x in arrays.values())}
    saved, correction = values["method"], values["correction"]
    if method is not None and method != saved:
        raise ResultError(f"{folder} holds a posterior of {saved}, not of {method}; leave method= out")
    kept = values["data"]
    data = _annotations(kept, tables, features) if opened is None else _reopened(opened, kept)
    fit = _fit(folder, values, data, model, sizes)
    if correction is None:
        return fit
    others = {name: _fit(folder, other, data, None, sizes) for name, other in correction["others"].items()}
    return replace(fit, correction=Correction(**correction | {"others": others}))


def write(posterior: Fit, folder: Path) -> list[str]:
    """Writes the files of a posterior to an empty folder, and says which; errors as of ``save``."""
    import pyarrow as pa  # slow to import
    from pyarrow import parquet
    from safetensors.numpy import save_file

    arrays: dict[str, np.ndarray] = {}
    data, frames = _annotation_values(posterior.data)
    values, found = {**_fit_values(posterior), "data": data, "correction": None}, posterior.correction
    if found is not None:
        others = {name: _fit_values(fit) for name, fit in found.others.items()}
        values["correction"] = vars(found) | {"others": others}
    contents = pack(values, "posterior", arrays)
    try:
        tables = {name: pa.Table.from_pandas(x, preserve_index=False) for name, x in frames.items()}
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ResultError(f"annotations cannot be saved: {error}; use text, numbers or times") from error
    own = write_arrays(arrays, posterior.data, folder) if not tables else []
    if process() == 0:
        save_file(arrays, folder / ARRAYS)
        for name, table in tables.items():
            parquet.write_table(table, folder / TABLES[name], **AS_IT_IS)
        own += [ARRAYS, *(TABLES[name] for name in tables)]
    digests: dict[str, str] = {}
    for one in all_gathered({name: _file_digest(folder / name) for name in own}):
        digests |= one
    written = [TEXT, *digests]
    if process() != 0:
        return written
    about = {"format": FORMAT, "crowdppl": __version__, "files": digests, "contents": contents}
    text = json.dumps(about | {"digest": _digest(about)}, indent=1)
    (folder / TEXT).write_text(text, encoding="ascii")
    return written


def files_there(folder: Path) -> list[str]:
    """The files of a folder that bear names of a posterior's."""
    return [name for name in FILES if (folder / name).exists()] + sorted(x.name for x in folder.glob(OF_PARTS))


def remove_stale(folder: Path, written: Collection[str]) -> None:
    """Removes files of an earlier posterior that the one ``written`` does not have."""
    for name in {*files_there(folder)} - {*written} if process() == 0 else ():
        (folder / name).unlink(missing_ok=True)


def _about(folder: Path) -> dict[str, Any]:
    """What the first file says; ResultError where it is missing, damaged, or of another format."""
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
    return dict(about)


def _read(
    folder: Path, digests: Mapping[str, str], data: Annotations | None
) -> tuple[dict[str, np.ndarray], dict[str, pd.DataFrame]]:
    """Arrays and tables of the files, and of the parts of ``data``; ResultError for missing or other ones."""
    from safetensors.numpy import load_file  # slow to import

    parts = [] if data is None else array_files(data)
    for name in (ARRAYS, *(TABLES.values() if data is None else parts)):
        file = folder / name
        if not file.is_file() or _file_digest(file) != digests[name]:
            raise ResultError(f"{file} is missing, damaged, or belongs to another {TEXT}; fetch it anew")
    arrays = load_file(folder / ARRAYS)
    if data is not None:
        return arrays | read_arrays(folder, parts), {}
    return arrays, {name: _table(folder / file) for name, file in TABLES.items()}


def _table(path: Path) -> pd.DataFrame:
    """A table of a file that is no larger in memory than its bytes allow; ResultError for any other."""
    from pyarrow import parquet  # slow to import

    file = parquet.ParquetFile(path)
    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(group.num_columns)]
    stored = {word for column in columns for word in (column.compression, *column.encodings)}
    size, least = path.stat().st_size, 4 * file.metadata.num_rows  # bytes: a row holds one code, or a text's length
    # Values that are missing take no bytes in the file, and those of a fixed length as much as others in memory.
    widths = [max(WIDTH, file.schema.column(n).length) for n in range(len(file.schema))]
    unpacked = sum(group.column(n).num_values * width for group in groups for n, width in enumerate(widths))
    fixed = any("fixed_size_list" in str(field.type) for field in file.schema_arrow)
    if (
        not stored <= {"UNCOMPRESSED", "PLAIN", "RLE"}
        or least > size
        or unpacked > max(SMALL, MOST_TIMES * size)
        or fixed
    ):
        raise ResultError(f"{path} holds more rows or text than its bytes; fetch it anew, or fit again")
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
        found = [folder / name for name in files_there(folder)]
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
    value = unpack(packed[tag], arrays)
    if tag in ("$array", "$tensor"):
        return arrays[value] if tag == "$array" else torch.from_numpy(arrays[value])
    return READERS[tag](value) if tag in READERS else RECORDS[tag](**value)


READERS: Mapping[str, Any] = {
    "$tuple": tuple,
    "$dict": dict,
    "$index": lambda parts: pd.Index(
        _of_values(parts["values"]), dtype=parts["dtype"], name=parts["name"], tupleize_cols=False
    ),
    "$OnDemand": OnDemand.of,
    "$later": OnDemand.lacking,
}
"""What makes a value of what ``pack`` wrote of it, by its tag in JSON; records are made of their fields."""


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
    size = math.prod(shape := features.row_shape)
    row = np.arange(size) % 2 if features.whole else np.linspace(0, 1, size)  # not all the same: it has a scale
    ids = data.items[: max(1, min(ROWS, LARGEST // size))]
    rows = np.broadcast_to(row.reshape(shape), (len(ids), *shape))
    return replace(data, features=StoredFeatures.of(rows, ids))


def _annotation_values(data: Annotations) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Annotations as tables of labels (by code), items and annotators, and everything else.

    Where they stay in parts, there are no tables.
    """
    if stays(data):
        assert data.opened is not None
        told: dict[str, Any] = {"folder": str(data.opened.folder), "digest": data.opened.digest}
        told |= {"features": data.features, "columns": None}
        if isinstance(data.features, pd.DataFrame):
            told |= {"features": data.features.to_numpy(), "columns": data.features.columns}
        return {**told, "history": data.history, "known": data.known}, {}
    given = {name: getattr(data, name) for name in FRAMES}
    frames = {name: x if isinstance(x, pd.DataFrame) else None for name, x in given.items()}
    features = None if frames["features"] is not None else data.features
    tables = {
        "labels": pd.DataFrame(dict(zip(CODES, data.label_codes(), strict=True))),
        "items": pd.DataFrame({"id": data.items} | ({} if data.known is None else {"gold": data.known})),
        "annotators": pd.DataFrame({"id": data.annotators}),
    }
    for name, frame in frames.items():
        if frame is not None:
            columns = [f"{_prefix(name)}{n} {column}" for n, column in enumerate(frame)]
            own = frame.reset_index(drop=True).set_axis(columns, axis=1)
            tables[FRAMES[name]] = pd.concat([tables[FRAMES[name]], own], axis=1)
    of_items = enumerate([] if data.item_covariates is None else data.item_covariates.dtypes)
    values = {
        "kind": [data.kind, data.alphabet.kind.unit],
        "answers": data.alphabet.book.ids,
        "n_classes": data.n_classes,
        "informative": data.alphabet.informative,
        "history": data.history,
        "abstainers": data.blocks[0].abstainers,
        "repeat_correlation": data.repeat_correlation,
        "features": features.described() if isinstance(features, StoredFeatures) else features,
        "columns": {name[:-1]: None if frame is None else frame.columns for name, frame in frames.items()},
        "categories": {str(n): x.categories for n, x in of_items if isinstance(x, pd.CategoricalDtype)},
        "edges": data.edges,
        "label_names": data.label_names,
        "soft": None if data.soft is None else _soft_values(data.soft),
        "time": data.time,
        "roles": {**data.roles},
        "warnings": [[type(warning).__name__, str(warning)] for warning in data.warnings],
    }
    return values, tables


def _annotations(values: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], dataset: Any) -> Annotations:
    """The annotations of ``_annotation_values``; with the dataset of their features, where they had one."""
    labels, items, people = (tables[name] for name in TABLES)
    ids = {"labels": labels.index, "items": pd.Index(items["id"].array), "annotators": pd.Index(people["id"].array)}
    books = Codebook("item", ids["items"]), Codebook("annotator", ids["annotators"])
    answers, (kind, unit) = Codebook("answer", values["answers"]), values["kind"]
    check_tables(len(books[1]), len(answers))
    alphabet = LabelSet(answers, values["n_classes"], KINDS[kind].in_unit(unit), values["informative"])
    frames: dict[str, Any] = {}
    for name, held in FRAMES.items():
        if (names := values["columns"][name[:-1]]) is not None:
            own = [column for column in tables[held] if str(column).startswith(_prefix(name))]
            frames[name] = tables[held][own].set_axis(names, axis=1).set_axis(ids[held])
    for n, found in values["categories"].items():
        table = frames["item_covariates"]
        table.isetitem(int(n), pd.Categorical(np.asarray(table.iloc[:, int(n)]), found))
    coded = Coded(*books, alphabet, *(labels[name].to_numpy() for name in CODES))
    order, blocks = coded.blocks(units_of(frames.get("item_covariates"), values["edges"], len(books[0])))
    features = values["features"]
    if isinstance(features, Mapping):
        features = StoredFeatures.recalled(features, ids["items"], dataset)
    elif dataset is not None:
        raise ResultError("this posterior was saved with its features, if it had any; leave features= out")
    else:
        features = feature_table(frames.get("features", features), ids["items"], books[0])
    return Annotations(
        *(*books, alphabet, blocks, order),
        **frames | {"features": features, "edges": values["edges"]},
        known=items["gold"].to_numpy() if "gold" in items else None,
        label_names=label_columns(values["label_names"], frames.get("columns"), place_in_rows),
        roles=values["roles"],
        warnings=tuple(_warning(*parts) for parts in values["warnings"]),
        repeat_correlation=values["repeat_correlation"],
        time=values["time"],
        soft=None if values["soft"] is None else _soft_labels(values["soft"], answers.ids),
    ).filled(history=values["history"], abstainers=values["abstainers"])


def stays(data: Annotations) -> bool:
    """Whether annotations stay in the parts that they were opened from; else they are saved.

    ResultError where they cannot stay, and a process has a share of them.
    """
    pair, of_items = data.alphabet.kind.parts, data.item_covariates
    names_alone = pair is not None and of_items is not None and len(of_items.columns) == len(pair.names)
    more: dict[str, Any] = {
        "item_covariates": None if names_alone else of_items,
        "annotator_covariates": data.annotator_covariates,
    }
    more["features as a dataset"] = data.features if isinstance(data.features, StoredFeatures) else None
    found = [name for name, given in more.items() if given is not None]
    if data.share is not None and found:
        raise ResultError(
            f"processes that share a fit save no {found[0]}, which stand beside the parts: write what was found by "
            "posterior.to_parquet, or open them without"
        )
    return data.opened is not None and not found


def _opened(folder: Path, packed: Mapping[str, Any], parts: Path | None) -> Annotations | None:
    """The annotations of a posterior that stayed in their parts; None of one that was saved with them."""
    if "folder" not in packed:
        if parts is not None:
            raise ResultError(f"{folder} holds its annotations; leave parts= out")
        return None
    where = Path(str(packed["folder"])) if parts is None else parts
    if not is_folder_of_parts(where):
        raise ResultError(
            f"{folder} holds a fit of the parts in {where}, which are not there; say where they are: "
            "crowdppl.load(path, parts=...)"
        )
    data = Annotations.open(where)
    if data.opened is None or data.opened.digest != packed["digest"]:
        raise ResultError(f"{where} holds other labels than those that were fitted; give parts= of these")
    return data


def _reopened(data: Annotations, values: Mapping[str, Any]) -> Annotations:
    """Annotations that were opened, with the history, the known truths and the features of a fit."""
    history: Any = {} if values["history"] is None else {"history": values["history"]}
    features = values["features"]
    if features is not None and values["columns"] is not None:
        features = pd.DataFrame(features, data.items, values["columns"])
    features = feature_table(features, data.items, data.item_book)
    return replace(data.with_gold(None), known=values["known"], features=features).filled(**history)


def _soft_values(soft: SoftLabels) -> dict[str, Any]:
    """How soft labels are read; their classes are the first of all."""
    return {**vars(soft), "classes": len(soft.classes)}


def _soft_labels(values: Mapping[str, Any], answers: pd.Index[Any]) -> SoftLabels:
    """The same, of a file."""
    return SoftLabels(**{**values, "classes": answers[: values["classes"]]})


def _prefix(name: str) -> str:
    """How columns of a frame of annotations begin in a table, before their number and name."""
    return f"{name[:-1].split('_')[-1]} "


def _warning(name: str, text: str) -> CrowdpplWarning:
    """A warning of its class, or of their base where this version has no such class."""
    kinds = {kind.__name__: kind for kind in CrowdpplWarning.__subclasses__()}
    return kinds.get(name, CrowdpplWarning)(text)
