"""Methods by name: the zoo's, installed packages' and registered ones, and what is refused."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import crowdppl.models
from crowdppl import registry
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.primitives.model import Card, settings_of

ZOO = sorted(p.stem for p in Path(crowdppl.models.__path__[0]).glob("*.py") if not p.stem.startswith("_"))

ONE_COIN = """
from dataclasses import dataclass
from typing import ClassVar
from crowdppl.primitives import Card

@dataclass
class OneCoin:
    prevalence: str = "uniform"
    cap: int = 10
    card: ClassVar[Card] = Card("One coin", "somebody, 1999")
    def model(self, data): pass
"""


@dataclass
class Mine:
    needed: int
    kind: str = "learned"
    card: ClassVar[Card] = Card("Mine", "myself")

    def model(self, data: Any) -> None: ...


class Bare:
    def model(self, data: Any) -> None: ...


@pytest.fixture
def methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zoo of two files, one of them misnamed; nothing registered; a folder on the path for packages."""
    zoo, packages = tmp_path / "zoo", tmp_path / "packages"
    zoo.mkdir()
    packages.mkdir()
    (zoo / "one_coin.py").write_text(ONE_COIN)
    (zoo / "misnamed.py").write_text("class Other:\n    def model(self, data): pass\n")
    (zoo / "_private.py").write_text("")
    monkeypatch.setattr(crowdppl.models, "__path__", [str(zoo)])
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.syspath_prepend(packages)
    before = {name: module for name, module in sys.modules.items() if name.startswith("crowdppl.models.")}
    for name in before:
        del sys.modules[name]
    yield packages
    for name in [name for name in sys.modules if name.startswith(("crowdppl.models.", "theirs"))]:
        del sys.modules[name]
    sys.modules.update(before)


def install(folder: Path, points: str) -> None:
    """Puts a package with entry points on the path, as pip would."""
    (folder / "theirs.py").write_text("class Drift:\n    rate = 1\n    def model(self, data): pass\nnumber = 3\n")
    meta = folder / "theirs-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(f"[crowdppl.methods]\n{points}\n")


def test_a_name_and_settings_make_a_model(methods: Path) -> None:
    model: Any = registry.method("one_coin", prevalence="learned")
    assert (type(model).__name__, model.prevalence, model.cap) == ("OneCoin", "learned", 10)
    assert registry.names() == ["misnamed", "one_coin"]
    assert registry.name_of(model) == "one_coin"


def test_an_unknown_name_is_refused_with_near_matches(methods: Path) -> None:
    with pytest.raises(MethodError, match="'onecoin'.*'one_coin'"):
        registry.method("onecoin")


def test_an_unknown_or_missing_setting_is_refused_with_those_there_are(methods: Path) -> None:
    with pytest.raises(MethodError, match="'prevalance'.*'prevalence'.*cap=10"):
        registry.method("one_coin", prevalance="learned")
    registry.register("mine", Mine)
    with pytest.raises(MethodError, match="'needed'"):
        registry.method("mine")


def test_a_file_without_its_class_is_named(methods: Path) -> None:
    with pytest.raises(MethodError, match="models/misnamed.py.*Misnamed"):
        registry.method("misnamed")


def test_registering_takes_no_name_silently(methods: Path) -> None:
    registry.register("mine", Mine)
    registry.register("mine", Mine)  # the same class again is no conflict
    assert registry.name_of(Mine(1)) == "mine"
    with pytest.raises(MethodError, match="'mine'"):
        registry.register("mine", Bare)
    with pytest.raises(MethodError, match="'one_coin'"):
        registry.register("one_coin", Bare)
    registry.register("one_coin", Bare, replace=True)
    assert type(registry.method("one_coin")) is Bare


def test_resolve_takes_names_and_models(methods: Path) -> None:
    model = Mine(3)
    assert registry.resolve(model) is model
    assert registry.name_of(model) is None
    assert type(registry.resolve("one_coin")).__name__ == "OneCoin"
    with pytest.raises(MethodError, match="Mine"):
        registry.resolve(Mine)
    with pytest.raises(MethodError, match="3"):
        registry.resolve(3)


def test_installed_packages_offer_methods(methods: Path) -> None:
    install(methods, "drift = theirs:Drift\nbroken = theirs:Missing\nnumber = theirs:number")
    assert registry.names() == ["broken", "drift", "misnamed", "number", "one_coin"]
    model = registry.method("drift")
    assert type(model).__module__ == "theirs"
    assert registry.name_of(model) == "drift"
    with pytest.raises(MethodError, match="theirs:Missing"):
        registry.method("broken")
    with pytest.raises(MethodError, match="number is 3"):
        registry.method("number")
    with pytest.raises(MethodError, match="'drift'"):
        registry.register("drift", Bare)


def test_a_package_does_not_take_a_name_of_the_zoo(methods: Path) -> None:
    install(methods, "one_coin = theirs:Drift")
    with pytest.warns(CrowdpplWarning, match="theirs:Drift.*'one_coin'"):
        assert type(registry.method("one_coin")).__name__ == "OneCoin"


def test_lines_read_from_files_are_those_of_the_loaded_methods(methods: Path) -> None:
    registry.register("bare", Bare)
    with pytest.warns(CrowdpplWarning, match="misnamed"):
        assert registry.summaries() == {"bare": "Bare", "one_coin": "One coin"}


def test_lines_of_the_zoo() -> None:
    lines = registry.summaries()
    assert {name: registry.in_a_line(registry.method(name)) for name in registry.names()} == lines


@pytest.mark.parametrize("name", ZOO)
def test_a_method_of_the_zoo_is_named_alike_everywhere(name: str) -> None:
    model: Any = registry.method(name)  # so every setting has a default
    assert type(model).__name__ == "".join(word.capitalize() for word in name.split("_"))
    assert model.card.name == name
    assert registry.name_of(model) == name
    assert settings_of(type(model)(**settings_of(model))) == settings_of(model)
