"""Base draws of Gaussian fits: their moments, whatever the order of coordinates, and what is left to the seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

import crowdppl
from crowdppl.inference.gaussians import FEW, MANY, decorrelated, enough_draws, signatures, stratified
from crowdppl.inference.vb import fit
from tests.networks.test_networks import clouds


def drawn(draws: int, coordinates: int) -> Tensor:
    keys = torch.rand((draws, coordinates), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return stratified(keys)


def test_draws_have_mean_0_and_variance_1_and_no_two_coordinates_have_to_do_with_each_other() -> None:
    noise = drawn(enough_draws(12), 12)
    before = noise.mT @ noise / len(noise)
    found = decorrelated({"a": noise[:, :3].reshape(-1, 3, 1), "b": noise[:, 3:], "c": noise[:, :0]})
    assert {n: x.shape[1:] for n, x in found.items()} == {"a": (3, 1), "b": (9,), "c": (0,)}
    flat = torch.cat([x.flatten(1) for x in found.values()], 1)
    torch.testing.assert_close(flat.mean(0), torch.zeros(12, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(flat.mT @ flat / len(flat), torch.eye(12, dtype=torch.float64))
    assert (before - torch.eye(12)).abs().max() > 0.3  # which there was to be taken out


def test_the_order_of_coordinates_makes_no_difference() -> None:
    noise, order = drawn(16, 12), torch.randperm(12, generator=torch.Generator().manual_seed(1))
    one, other = decorrelated({"a": noise})["a"], decorrelated({"a": noise[:, order]})["a"]
    torch.testing.assert_close(one[:, order], other)


def test_few_draws_of_many_coordinates_stay_as_they_are() -> None:
    noise = drawn(8, 8)
    assert torch.equal(decorrelated({"a": noise})["a"], noise)
    assert decorrelated({}) == {}
    assert (enough_draws(1), enough_draws(60), enough_draws(MANY)) == (FEW, 62, FEW)


def test_annotators_of_a_full_table_of_numbers_have_draws_of_their_own_in_any_unit() -> None:
    """If draws were shared, those of a bias that all have in common would count as many, and be too wide."""
    labels = np.random.default_rng(0).normal(size=(9, 4))
    one, other = (signatures(crowdppl.Annotations.from_matrix(x, kind="real").blocks) for x in (labels, 7 * labels))
    assert len({*one.annotators}) == 4 and len({*one.items}) == 9
    np.testing.assert_array_equal(one.annotators, other.annotators)


@pytest.mark.slow
def test_sparse_data_leave_little_to_the_seed() -> None:
    data = replace(clouds(120, 80)[0], features=None)
    fits = [
        crowdppl.fit("hierarchical_dawid_skene", data, inference="vb", seed=n).probabilities() for n in range(2)
    ]
    apart = np.ptp(np.stack(fits), axis=0)
    assert apart.max() < 0.15 and apart.mean() < 0.03


@pytest.mark.slow
def test_small_data_leave_less_to_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root mean square deviation over seeds, of what eight base draws give and of what is taken."""

    def rough() -> float:
        found = [
            crowdppl.fit("glad", crowdppl.anaesthetists(), inference="vb", seed=seed).result.probabilities
            for seed in range(4)
        ]
        return float(np.sqrt(np.var(found, axis=0, ddof=1).mean()))

    many = rough()
    monkeypatch.setattr(fit, "MOST_DRAWS", 8)
    assert many < 0.6 * rough() and many < 0.004


@pytest.mark.slow
def test_iterations_of_both_parts_are_counted_and_told() -> None:
    seen: list[int] = []
    posterior = crowdppl.fit(
        "glad", crowdppl.anaesthetists(), inference="vb", seed=0, callback=lambda t, _: seen.append(t)
    )
    said = posterior.diagnostics()
    assert seen == list(range(said["iterations"])) and said["converged"]
    assert 1 < len(said["objectives"]) < said["iterations"]
    drawn = posterior.plot_trace(ax=Figure().subplots()).lines[0].get_xdata()
    assert list(drawn) == list(range(said["iterations"] - len(said["objectives"]) + 1, said["iterations"] + 1))
    few = crowdppl.fit("glad", crowdppl.anaesthetists(), inference="vb", seed=0, max_iterations=9).diagnostics()
    assert few["iterations"] == 9 and not few["converged"]
