"""Methods by name: the zoo's, installed packages' and registered ones, and what is refused."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import pytest

import crowdppl.models
import crowdppl.primitives as cp
from crowdppl import registry, testing
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.primitives.model import Card, settings_of, with_examples

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


@dataclass
class Timed:
    """A model that reads a column of each table."""

    card: ClassVar[Card] = Card(
        "Timed", "myself", sites={"confusion": "A K K", "abstention": "A D W", "truth": "N"}, confusion="confusion"
    )

    def model(self, data: cp.Block) -> None:
        seen = cp.item_covariates(data, "words") + cp.label_covariates(data, "seconds").mean()
        prior = cp.confusion_prior(data) * (1 + cp.annotator_covariates(data, "trained")[..., None])
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, cp.prevalence(data, "uniform") + 0 * seen))


EXAMPLES: dict[str, Any] = {
    "item_covariates": {"words": [10, 200]},
    "annotator_covariates": {"trained": [0, 1, 1]},
    "label_covariates": {"seconds": [3.5, 40.0]},
}


class Shown(Timed):
    card: ClassVar[Card] = replace(Timed.card, title="Shown", examples=EXAMPLES)


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


def test_methods_that_read_columns_are_in_the_table(methods: Path) -> None:
    class Faulty:
        def model(self, data: Any) -> None: ...

        def setup(self, data: Any) -> None:
            raise KeyError("a fault of its author's")

    for cls in (Timed, Shown, Faulty):
        registry.register(cls.__name__.lower(), cls)
    with pytest.warns(CrowdpplWarning, match="misnamed"):
        zoo = registry.zoo()
    assert set(zoo.loc["timed", ["em", "gibbs"]]) == {zoo.loc["timed", "vb"]}
    assert zoo.loc["timed", "vb"].startswith("not tried: the model reads item_covariates")
    assert zoo.loc["shown", ["vb", "gibbs"]].tolist() == ["mean-field", "exact"]
    assert "a fault of its author's" in zoo.loc["faulty", "svi"]


def test_examples_are_given_in_turn() -> None:
    data = with_examples(Shown(), crowdppl.datasets.example("sequence"))
    assert data.item_covariates is not None and data.label_covariates is not None
    assert {"sequence", "position"} < set(data.item_covariates)  # of the items, kept
    assert data.item_covariates["words"].tolist() == [10, 200] * 6
    assert data.annotator_covariates["trained"].tolist() == [0, 1, 1]
    assert data.label_covariates["seconds"].tolist() == [3.5, 40.0] * 18
    with pytest.raises(MethodError, match="'colours'.*item_covariates"):
        replace(Timed.card, examples={"colours": {"red": [1]}})
    with pytest.raises(MethodError, match="words.*must map columns to numbers"):
        replace(Timed.card, examples={"item_covariates": {"words": "many"}})


@pytest.mark.parametrize("check", ["card", "engine vb", "odd data", "renaming", "saving", "named sites"])
def test_the_contract_reads_the_examples(check: str) -> None:
    testing.check(Shown(), check)


def test_a_card_that_names_another_site_than_the_confusion_is_found() -> None:
    class Mistaken(Shown):
        card: ClassVar[Card] = Shown.card

        def model(self, data: cp.Block) -> None:
            with cp.plates.annotators(data):
                rows = cp.confusion_prior(data)
                confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(1))
            table = cp.with_abstentions(data, (0.5 * confusion + 0.5 / data.n_classes).log())
            with cp.plates.items(data):
                cp.annotate(data, table, cp.truth(data, cp.prevalence(data)))

    with pytest.raises(AssertionError, match="calls 'confusion' the confusion"):
        testing.check(Mistaken(), "named sites")


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
