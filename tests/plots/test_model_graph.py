"""Plate diagrams: the graph is that of the code, and the picture shows all of it."""

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse, FancyBboxPatch

from crowdppl import method
from crowdppl.errors import MethodError
from crowdppl.plots.axes import LIGHT
from crowdppl.plots.model_graph import a_few_labels, graph_of, plot_model
from crowdppl.primitives import Card, Categorical, annotate, label_covariates, plates, prevalence, truth
from tests.handmade import coloured


class Rumour:
    """No card; a latent of items below the truth, and labels of another name."""

    def model(self, data: Any) -> None:
        k = data.as_block().n_classes
        drift = pyro.sample("drift", dist.Dirichlet(torch.ones(k, k)).to_event(1)).log()
        with plates.annotators(data):
            habit = pyro.sample("habit", dist.Dirichlet(torch.ones(k, k)).to_event(1)).log()
        with plates.items(data):
            source = truth(data, prevalence(data, "uniform"))
            heard = pyro.sample("heard", Categorical(drift[source]), infer={"enumerate": "parallel"})
            annotate(data, habit, heard, name="said")


class Hurried:
    """Reads a column of labels, of which its card has examples."""

    card = Card(
        title="Hurried",
        reference="none",
        sites={"habit": "A K K", "truth": "N"},
        assumes="no more",
        fails="never",
        cost="labels",
        uses=("label_covariates",),
        examples={"label_covariates": {"seconds": [2, 20]}},
    )

    def model(self, data: Any) -> None:
        with plates.annotators(data):
            habit = pyro.sample("habit", dist.Dirichlet(torch.ones(3, 3)).to_event(1)).log()
        with plates.items(data):
            annotate(
                data, habit, truth(data, prevalence(data, "uniform")), weight=label_covariates(data, "seconds")
            )


class Silent:
    def model(self, data: Any) -> None:
        with plates.items(data):
            truth(data, prevalence(data, "uniform"))


def test_the_graph_is_that_of_the_code() -> None:
    graph = graph_of(Rumour(), a_few_labels())
    above = {name: set(parents) for name, parents in graph.parents.items()}
    assert above == {
        "drift": set(),
        "habit": set(),
        "truth": set(),
        "heard": {"drift", "truth"},
        "said": {"habit", "heard"},
    }
    inside = {plate: set(members) for plate, members in graph.plates.items()}
    assert inside == {"items": {"truth", "heard", "said"}, "annotators": {"habit", "said"}}
    assert graph.observed == {"said"}
    assert graph.children("drift") == ("heard",) and graph.plates_of("said") == {"items", "annotators"}


def test_chains_are_loops_and_nothing_is_loose() -> None:
    graph = graph_of(method("sequence_crowd"), a_few_labels("sequence"))
    assert graph.loops == {"truth": "one before", "label": "own last"}
    assert {"one\nbefore", "own last"} <= {text.get_text() for text in plot_model("sequence_crowd").texts}
    facets = graph_of(method("rater_facets"), a_few_labels())
    assert {*facets.parents["truth"]} == {"mean", "width"} and facets.plates_of("truth") == {"items"}
    assert {*facets.parents["label"]} == {"truth", "step", "severity", "log_centrality", "log_consistency"}
    assert "scale" in graph_of(method("madl"), a_few_labels()).parents["label"]


def test_a_picture_without_data_is_of_labels_with_the_columns_of_the_card() -> None:
    assert "habit" in {text.get_text() for text in plot_model(Hurried()).texts}


def test_the_picture_has_every_variable_arrow_and_plate() -> None:
    ax = plot_model("community")
    graph = graph_of(method("community"), a_few_labels())
    words = {text.get_text() for text in ax.texts}
    assert {*graph.parents, *graph.plates, "(M, K, K)", "(A, M)", "(N)"} <= words
    ovals = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    assert len(ovals) == len(graph.parents)
    grey = [oval for oval in ovals if oval.get_facecolor()[:3] == pytest.approx(to_rgb(LIGHT))]
    place = {text.get_text(): text.get_position() for text in ax.texts}
    assert [oval.center for oval in grey] == [pytest.approx(place["label"])]
    assert sum(isinstance(patch, FancyBboxPatch) for patch in ax.patches) == len(graph.plates) == 3
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == sum(map(len, graph.parents.values()))
    assert coloured(ax) == [] and plot_model("one_coin", ax=ax) is ax


def test_what_has_no_labels_is_refused() -> None:
    with pytest.raises(MethodError, match="annotate"):
        plot_model(Silent())
    with pytest.raises(MethodError, match="method 'onecoin"):
        plot_model("onecoin")
