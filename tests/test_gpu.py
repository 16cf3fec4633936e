"""Every method under every engine on CUDA, against the same on CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl import registry
from crowdppl.data.annotations import Annotations
from crowdppl.errors import MethodError
from crowdppl.fitting import fit
from crowdppl.inference.engines import ENGINES
from crowdppl.inference.replay import FIRST, Graph, Replayed
from crowdppl.networks.outputs import networks_of
from crowdppl.posterior import Posterior
from tests.benchmarks.simulated import draw
from tests.data.test_stored_features import Disk
from tests.few_shot.test_meta_em import worlds
from tests.networks.test_networks import clouds

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

METHODS = registry.names_for("nominal")
# majority_vote has a network only where it is given one.
NETWORKS = [x for x in METHODS if hasattr(crowdppl.method(x), "training") and x != "majority_vote"]
# What is dropped out differs between devices; all else of training does not.
TRAINING = {"epochs": 10, "learning_rate": 5e-3, "dropout": 0.0}
KINDS = ("real", "pair", "ranking", "similarity", "sequence", "set")
OTHERS = [(kind, x) for kind in KINDS for x in registry.names_for(kind) if x not in METHODS]
NEAR = 0.01
# Random numbers differ between devices, so that only updates without any agree to rounding.
EXACT = 1e-6
RANDOM = 0.05
SETTINGS: dict[str, dict[str, Any]] = {
    "gibbs": {"warmup": 100, "draws": 200},
    "nuts": {"warmup": 6, "draws": 6, "chains": 1},  # launches of small kernels, each a wait
    "svi": {"max_iterations": 400},
}


@pytest.fixture(scope="module")
def data() -> Annotations:
    """Clear labels, so that all engines know the truth of most items."""
    drawn = draw(150, 6, 10, 3, seed=5)
    return Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label, kind="ordinal")


def fitted(method: str, data: Annotations, engine: str, device: str, **settings: Any) -> Posterior:
    """A fit, or a skip where the engine refuses the method."""
    options = {**SETTINGS.get(engine, {}), **settings}
    try:
        return fit(method, data, inference=engine, device=device, seed=3, **options)
    except MethodError as error:
        pytest.skip(f"refused: {error}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_cuda_agrees_with_cpu(method: str, engine: str, data: Annotations) -> None:
    cpu = fitted(method, data, engine, "cpu")
    cuda = fitted(method, data, engine, "cuda")
    gap = np.abs(cuda.probabilities().to_numpy() - cpu.probabilities().to_numpy())
    random = engine not in ("em", "vb") or any(
        site.family in ("normal", "onehot") for site in cpu.result.sites.values()
    )
    assert gap.mean() < (RANDOM if random else EXACT)
    if not random:
        for name, site in cpu.result.sites.items():
            np.testing.assert_allclose(cuda.result.sites[name].mean, site.mean, rtol=1e-5, atol=1e-6)
        one, other = (p.diagnostics()["objective"] for p in (cpu, cuda))
        assert other == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
@pytest.mark.parametrize(("kind", "method"), OTHERS)
def test_other_kinds_of_labels_on_cuda(kind: str, method: str, engine: str) -> None:
    """By em and vb, sites are those of the CPU."""
    labels = crowdppl.datasets.example(kind)
    cpu, cuda = (fitted(method, labels, engine, device) for device in ("cpu", "cuda"))
    for name, site in cpu.result.sites.items():
        found = cuda.result.sites[name].mean
        assert np.isfinite(found).all() and found.shape == site.mean.shape
        if engine != "gibbs":
            np.testing.assert_allclose(found, site.mean, rtol=NEAR, atol=NEAR)


def test_a_repeated_function_becomes_one_graph() -> None:
    """It gives the function's numbers, and draws from the stream that it is given."""

    def drawn(at: Any) -> dict[str, torch.Tensor]:
        return {"sum": at["x"].exp().sum(), "gamma": torch._standard_gamma(at["x"], generator=at["stream"])}

    repeated = Replayed(drawn)
    for n in range(FIRST + 5):
        at = torch.linspace(1, 2, 7, dtype=torch.float64, device="cuda") + n
        one, two = (repeated({"x": at, "stream": torch.Generator("cuda").manual_seed(s)}) for s in (n, n))
        assert torch.equal(one["sum"], at.exp().sum()) and torch.equal(one["gamma"], two["gamma"])
    assert isinstance(repeated.program, Graph)
    stream = torch.Generator("cuda").manual_seed(1)
    one, two = (repeated({"x": at, "stream": stream})["gamma"] for _ in range(2))
    assert not torch.equal(one, two)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_blocks_and_both_precisions(dtype: torch.dtype) -> None:
    drawn = draw(250_000, 5, 500, 4, seed=6)
    large = Annotations.from_arrays(drawn.item, drawn.annotator, drawn.label)
    assert len(large.blocks) > 1
    cpu, cuda = (
        fitted("dawid_skene", large, "em", device, dtype=dtype, max_iterations=8) for device in ("cpu", "cuda")
    )
    gap = np.abs(cuda.probabilities().to_numpy() - cpu.probabilities().to_numpy())
    assert gap.max() < (1e-2 if dtype == torch.float32 else 1e-6)
    assert gap.mean() < 1e-4


@pytest.mark.parametrize("engine", ["em", "vb", "gibbs"])
def test_the_same_seed_gives_nearly_the_same_twice(engine: str, data: Annotations) -> None:
    one, two = (fitted("one_coin", data, engine, "cuda").probabilities().to_numpy() for _ in range(2))
    np.testing.assert_allclose(one, two, atol=1e-9 if engine != "gibbs" else RANDOM)


def test_results_of_cuda_are_saved_and_used_on_cpu(data: Annotations) -> None:
    posterior = fitted("bayesian_dawid_skene", data, "vb", "cuda")
    again = posterior.predict(data).to_numpy()
    np.testing.assert_allclose(again, posterior.probabilities().to_numpy(), atol=0.02)


@pytest.fixture(scope="module")
def featured() -> Annotations:
    """Items with features, of which a third have no labels."""
    return clouds(180, 120)[0]


@pytest.mark.parametrize("engine", ["em", "vb", "svi"])
@pytest.mark.parametrize("method", NETWORKS)
def test_networks_learn_on_cuda(method: str, engine: str, featured: Annotations) -> None:
    """What they then say of items without labels is near to what those say that learned on the CPU."""
    how: dict[str, Any] = {
        "settings": {"training": TRAINING},
        **({"max_iterations": None} if engine == "svi" else {}),
    }
    cpu, cuda = (fitted(method, featured, engine, device, **how) for device in ("cpu", "cuda"))
    limit = RANDOM if engine == "svi" else NEAR  # svi draws from the guide in every step
    assert np.abs((cuda.probabilities() - cpu.probabilities()).to_numpy()).mean() < limit
    one, two = (posterior.classify(featured.features) for posterior in (cpu, cuda))
    assert np.abs((one - two).to_numpy()).mean() < limit
    networks = networks_of(cuda.model).values()
    assert {str(x.device) for network in networks for x in network.parameters()} == {"cpu"}


def test_every_part_of_a_recipe_runs_on_cuda(featured: Annotations) -> None:
    training = {**TRAINING, "volume": "auto", "balance": 0.5, "shares": "auto", "mixup": 0.4, "patience": 3}
    for method, engine in (("bayes_dgc", "vb"), ("bayes_dgc", "svi"), ("raykar", "em"), ("ccem", "svi")):
        found = fitted(method, featured, engine, "cuda", settings={"training": training}, max_iterations=None)
        assert np.isfinite(found.classify(featured.features).to_numpy()).all()


@pytest.mark.parametrize(("method", "engine"), [("bayes_dgc", "vb"), ("raykar", "em"), ("ccem", "svi")])
def test_rows_of_a_dataset_go_to_cuda(method: str, engine: str, featured: Annotations) -> None:
    rows = Disk(np.asarray(featured.features))
    read = Annotations.from_frame(featured.frame(), like=featured, items=featured.items, features=rows)
    one, two = (
        fitted(method, data, engine, "cuda", settings={"training": TRAINING}, max_iterations=None)
        for data in (featured, read)
    )
    np.testing.assert_allclose(two.probabilities(), one.probabilities(), atol=1e-4)


@pytest.mark.parametrize(("method", "engine"), [("bayes_dgc", "vb"), ("raykar", "em"), ("ccem", "svi")])
def test_a_killed_fit_goes_on_on_cuda(method: str, engine: str, featured: Annotations, tmp_path: Path) -> None:

    def kill(t: int, objective: float) -> None:
        if t == 4:
            raise InterruptedError

    how = {"settings": {"training": {**TRAINING, "batch_size": 32}}, "max_iterations": None}
    kept = {"checkpoint": str(tmp_path / "file"), "checkpoint_every": 2}
    with pytest.raises(InterruptedError):
        fitted(method, featured, engine, "cuda", callback=kill, **kept, **how)
    again = fitted(method, featured, engine, "cuda", **kept, **how)
    whole = fitted(method, featured, engine, "cuda", **how)
    np.testing.assert_allclose(again.probabilities(), whole.probabilities(), atol=1e-4)


def test_what_follows_a_fit_on_cuda(data: Annotations, featured: Annotations, tmp_path: Path) -> None:
    """A saved posterior, one with more labels, one without an annotator, scores of labels and of classifiers."""
    for method, labels in (("bayesian_dawid_skene", data), ("bayes_dgc", featured)):
        how = {"settings": {"training": TRAINING}} if method == "bayes_dgc" else {}
        found = fitted(method, labels, "vb", "cuda", **how)
        found.save(tmp_path / method)
        loaded = crowdppl.load(tmp_path / method)
        np.testing.assert_array_equal(loaded.probabilities(), found.probabilities())
        fewer = found.without([labels.annotators[0]])
        assert np.isfinite(fewer.probabilities().to_numpy()).all()
        if method == "bayesian_dawid_skene":
            more = found.update(labels.frame().head(20).assign(item="new"))
            assert "new" in more.probabilities().index
        score = crowdppl.heldout_score(method, labels, device="cuda", folds=2, seed=0, **how)
        assert np.isfinite(score.per_label)
    judged = crowdppl.classifier_score(
        "bayes_dgc", featured, device="cuda", folds=2, settings={"training": TRAINING}
    )
    assert np.isfinite(judged.per_item)


def test_auto_and_corrections_run_on_cuda(data: Annotations) -> None:
    for how in ({"calibrate": True}, {}):
        method = "dawid_skene" if how else "auto"
        cpu, cuda = (crowdppl.fit(method, data, device=device, seed=0, **how) for device in ("cpu", "cuda"))
        gap = np.abs(cuda.probabilities().to_numpy() - cpu.probabilities().to_numpy())
        assert gap.mean() < RANDOM


def test_an_embedding_is_trained_on_cuda_and_used_on_either() -> None:
    train, test = worlds()
    task = test.draw(1, 9).annotations()
    how = {"iterations": 20, "batch": 4, "seed": 0}
    cpu, cuda = (crowdppl.method("meta_em").meta_fit(train, device=device, **how) for device in ("cpu", "cuda"))
    want = crowdppl.fit(cpu, task, inference="em").probabilities()
    for device in ("cpu", "cuda", "cpu"):
        found = crowdppl.fit(cuda, task, inference="em", device=device)
        np.testing.assert_allclose(found.probabilities(), want, atol=NEAR)
        assert found.classify(task.features).shape == want.shape
