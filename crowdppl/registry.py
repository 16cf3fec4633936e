"""Methods by name: those of the zoo, of installed packages, and registered ones."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from crowdppl.core.validation import check_settings, named_settings, near_names, shown, switch, warn
from crowdppl.errors import CrowdpplWarning, MethodError

if TYPE_CHECKING:  # what is slow to import waits for its use, so that methods are listed quickly
    from importlib.metadata import EntryPoint

    import pandas as pd

    from crowdppl.data.annotations import Annotations
    from crowdppl.primitives.model import Card, Model

_registered: dict[str, type[Any]] = {}


def method(name: str, /, **settings: Any) -> Model:
    """A method by its name, with its settings: ``method("one_coin", prevalence="learned")``.

    Args:
        name: a name that ``zoo()`` lists.
        settings: constructor arguments of the method.

    Raises:
        MethodError: for an unknown name, an unknown or missing setting, or a value out of range.

    Examples:
        >>> crowdppl.method("one_coin", prevalence="uniform")
        OneCoin(prevalence='uniform', right=1.0, wrong=1.0, taxonomy=None)
    """
    if not isinstance(name, str):
        raise MethodError(f"{shown(name)} is not a name; crowdppl.zoo() lists the methods")
    cls = _find(name)
    parameters = inspect.signature(cls).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for wrong in sorted(settings.keys() - parameters.keys()):
            hint = near_names(wrong, parameters)
            raise MethodError(f"{name} has no setting {shown(wrong)}{hint}; its settings: {_settings(cls)}")
    for missing, p in sorted(parameters.items()):
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and missing not in settings:
            raise MethodError(f"{name} needs the setting {missing!r}; its settings: {_settings(cls)}")
    model: Model = cls(**settings)
    check_settings(model)
    return model


def register(name: str, cls: type[Any], *, replace: bool = False) -> None:
    """Registers a method of your own for this session, so that ``fit`` and ``load`` find it by name.

    Args:
        name: lower case, words joined by underscores.
        cls: a class with ``model(data)``; its constructor arguments are the method's settings.
        replace: whether to replace a method of that name.

    Raises:
        MethodError: for a name of another form or in use, or a class without a model.

    Examples:
        >>> class Mine:
        ...     def model(self, data):
        ...         log_p = crowdppl.primitives.prevalence(data)
        ...         rows = crowdppl.primitives.diagonal_prior(data.n_classes, prior_strength=1.0).log()
        ...         table = rows.expand(data.n_annotators, -1, -1)
        ...         with crowdppl.primitives.plates.items(data):
        ...             crowdppl.primitives.annotate(data, table, crowdppl.primitives.truth(data, log_p))
        >>> crowdppl.register("mine", Mine)
        >>> crowdppl.fit("mine", crowdppl.anaesthetists(), inference="em")
        <Posterior of mine by em: 45 items, 5 annotators, 4 classes>
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower() or name.startswith("_"):
        raise MethodError(f"name={shown(name)} must be lower case with underscores, as in 'one_coin'")
    _check(name, cls)
    if name in names() and _registered.get(name) is not cls and not replace:
        raise MethodError(f"{name!r} is a method already; choose another name, or use replace=True")
    _registered[name] = cls


def resolve(model: str | Model, settings: Mapping[str, Any] | None = None) -> Model:
    """The model of a name, with its settings, or the object itself; MethodError for what has no ``model``."""
    given = {} if settings is None else named_settings(settings)
    if isinstance(model, str):
        return method(model, **given)
    if given:
        raise MethodError(f"settings={shown(settings)} go with a method's name; give them to {shown(model)} itself")
    if isinstance(model, type):
        raise MethodError(f"{model.__name__} is a class; give an object, {model.__name__}(...)")
    if not callable(getattr(model, "model", None)):
        raise MethodError(
            f"{shown(model)} is not a method; give a name from crowdppl.zoo(), or an object with model(data)"
        )
    check_settings(model)
    return model


def names() -> list[str]:
    """Names of all methods, sorted; nothing is imported to find them."""
    return sorted({*_registered, *_zoo_names(), *_of_packages()})


def names_for(kind: str) -> list[str]:
    """Names of the methods that take labels of a kind, sorted."""
    return [name for name, model in _loaded(names()) if (card := _card_of(model)) is None or card.takes(kind)]


def name_of(model: object) -> str | None:
    """The registered name of a model's class, or None."""
    cls = type(model)
    in_zoo = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    candidates = [*_registered, *([in_zoo] if _in_zoo(in_zoo) else [])]
    candidates += [name for name, point in _of_packages().items() if point.attr == cls.__name__]
    return next((name for name in candidates if _find(name) is cls), None)


def zoo(*, engines: bool = True) -> pd.DataFrame:
    """All methods as a table: title, kind of labels, reference, settings, and a column an engine.

    An engine's cell is "exact", "mean-field", "gradient", or why it refuses, with default settings; or "not tried"
    and what a method reads that examples of its kind lack, unless its card gives ``examples``. A method that cannot
    be loaded is left out with a warning.

    Args:
        engines: whether to add the engines' columns, which takes a few seconds.

    Returns:
        DataFrame indexed by name, sorted.

    Examples:
        >>> crowdppl.zoo(engines=False).loc["mace", "title"]
        'MACE'
    """
    import pandas as pd

    from crowdppl.primitives.model import kind_of_labels  # imports torch

    columns = _engine_columns() if switch("engines", engines) else {}
    rows = []
    for name, model in _loaded(names()):
        card = _card_of(model)
        row = {
            "method": name,
            "title": card.title if card else type(model).__name__,
            "kind": kind_of_labels(model),
            "reference": card.reference if card else "",
            "settings": _settings(type(model)),
        }
        rows.append(row | {column: cell(model) for column, cell in columns.items()})
    header = ["method", "title", "kind", "reference", "settings", *columns]
    return pd.DataFrame(rows, columns=header).set_index("method")


def summaries() -> dict[str, str]:
    """What each method is, in a line; those of the zoo are read from the text of their files, without torch."""
    zoo = {name: line for name in _zoo_names() if name not in _registered and (line := _first_line(name))}
    others = _loaded(name for name in names() if name not in zoo)
    return dict(sorted({**zoo, **{name: in_a_line(model) for name, model in others}}.items()))


def in_a_line(model: object) -> str:
    """The first line of the docstring of a model's class; without one, the title of its card."""
    own, card = inspect.getdoc(type(model)) or "", _card_of(model)
    written = not own.startswith(f"{type(model).__name__}(")  # dataclasses fill it in
    return (own.partition("\n")[0] if written else "") or (card.title if card else type(model).__name__)


def _card_of(model: object) -> Card | None:
    """The card of a model; its class is imported with torch."""
    from crowdppl.primitives.model import card_of

    return card_of(model)


def _first_line(name: str) -> str:
    """The first line of the docstring of a class of the zoo, read from its file; empty without one."""
    spec = find_spec(f"crowdppl.models.{name}")
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    own = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == _class_name(name)]
    return (ast.get_docstring(own[0]) or "").partition("\n")[0] if own else ""


def _loaded(names: Iterable[str]) -> Iterator[tuple[str, Model]]:
    """Methods with default settings by name; one that cannot be loaded is left out with a warning."""
    for name in names:
        try:
            yield name, method(name)
        except Exception as error:
            warn(f"{name} is left out of the zoo: {error}", CrowdpplWarning)


def engine_cell(model: Model, data: Annotations, engine: str) -> str:
    """What an engine does with a model, as the table of ``zoo`` says it."""
    from crowdppl.inference.engines import engine_support

    try:
        return engine_support(model, data, engine)
    except Exception as error:  # a model of somebody else's may raise anything
        return f"not tried: {error}"


def _engine_columns() -> dict[str, Callable[[Model], str]]:
    from crowdppl.datasets.examples import example
    from crowdppl.inference.engines import ENGINES
    from crowdppl.primitives.model import kind_of_labels, with_examples

    def support(model: Model, engine: str) -> str:
        return engine_cell(model, with_examples(model, example(kind_of_labels(model))), engine)

    return {engine: partial(support, engine=engine) for engine in ENGINES}


def _find(name: str) -> type[Any]:
    if name in _registered:
        return _registered[name]
    packages = _of_packages()
    if _in_zoo(name):
        if name in packages:
            text = f"{packages[name].value} has a method {name!r}, too; the zoo's is used. Register the other"
            warn(f"{text} under another name", CrowdpplWarning)
        cls = getattr(import_module(f"crowdppl.models.{name}"), _class_name(name), None)
        if cls is None:
            raise MethodError(
                f"models/{name}.py has no class {_class_name(name)}; give the method's class this name"
            )
        return _check(name, cls)
    if name in packages:
        try:
            cls = packages[name].load()
        except (ImportError, AttributeError) as error:
            raise MethodError(f"{name} cannot be loaded from {packages[name].value}: {error}") from error
        return _check(name, cls)
    raise MethodError(f"unknown method {shown(name)}{near_names(name, names())}; crowdppl.zoo() lists all")


def _zoo_names() -> tuple[str, ...]:
    path = import_module("crowdppl.models").__path__
    return tuple(module.name for module in iter_modules(path) if not module.name.startswith("_"))


def _in_zoo(name: str) -> bool:
    return name.isidentifier() and name[0] != "_" and find_spec(f"crowdppl.models.{name}") is not None


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _of_packages() -> dict[str, EntryPoint]:
    return _entry_points(tuple(sys.path))


@lru_cache(maxsize=1)
def _entry_points(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Entry points, read once for each search path, because reading takes as long as a small fit."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="crowdppl.methods")}


def _check(name: str, cls: Any) -> type[Any]:
    if not isinstance(cls, type) or not callable(getattr(cls, "model", None)):
        raise MethodError(f"{name} is {shown(cls)}, not a class with model(data)")
    _card_of(cls)
    return cls


def _settings(cls: type[Any]) -> str:
    parameters = inspect.signature(cls).parameters.values()
    return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters) or "none"
