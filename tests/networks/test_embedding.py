"""Embeddings of meta_em: what of them learns, saving and loading, images, and flat priors of the means."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.errors import DataError
from crowdppl.few_shot.tasks import EpisodeSampler
from crowdppl.few_shot.unrolled_em import em_steps
from tests.few_shot.test_meta_em import WIDE, method, worlds


def own() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDE, 8), nn.Tanh(), nn.Linear(8, 3))


def data() -> crowdppl.Annotations:
    return worlds()[1].draw(1, 2).annotations()


def test_what_is_frozen_in_an_embedding_stays_so_and_meta_training_goes_on() -> None:
    mine = own()
    mine[0].requires_grad_(False)
    one = method(embedding=mine).meta_fit(worlds()[0], iterations=3)
    two = one.meta_fit(worlds()[0], iterations=3)
    for before, after in ((mine, one.embedding.body), (one.embedding.body, two.embedding.body)):
        assert torch.equal(before[0].weight, after[0].weight) and torch.equal(before[0].bias, after[0].bias)
        assert not torch.equal(before[2].weight, after[2].weight)


def test_the_default_embedding_takes_images(tmp_path: Path) -> None:
    truth = np.arange(60) % 4
    images = np.eye(4)[truth].reshape(60, 1, 2, 2) + np.random.default_rng(0).normal(size=(60, 1, 2, 2)) / 9
    episodes = EpisodeSampler(truth, images, ways=3, shots=2, queries=4, annotators=3)
    model = method().meta_fit(episodes, iterations=2)
    found = crowdppl.fit(model, episodes.draw(1, 1).annotations())
    found.save(tmp_path)
    loaded = crowdppl.load(tmp_path)
    np.testing.assert_array_equal(loaded.classify(images), found.classify(images))
    flat = crowdppl.Annotations.from_frame(
        found.data.frame(), like=found.data, items=found.data.items, features=np.zeros((found.data.n_items, 4))
    )
    with pytest.raises(DataError, match=r"\(4,\)"):
        crowdppl.fit(model, flat)


def test_without_a_prior_of_the_means_they_are_plain_averages() -> None:
    trained = method(tau=0.0, coins=False, likelihood_power=1.0).meta_fit(worlds()[0], iterations=2)
    found = crowdppl.fit(trained, data(), tolerance=1e-14)
    block = found.data.as_block()
    with torch.no_grad():
        placed = trained.embedding(torch.tensor(np.asarray(found.data.features, np.float32))).double()
    placed = placed[torch.from_numpy(found.data.order.astype(np.int64))]
    c = crowdppl.primitives.diagonal_prior(3, 4.0).double().expand(3, -1, -1)
    labels = (block.item, block.annotator, block.answer)
    want = em_steps(placed, *labels, c, steps=500, tau=0.0, prevalence=100.0)
    np.testing.assert_allclose(found.result.sites["mean"].mean, want.mean, atol=1e-4)
    shares = found.probabilities().to_numpy()[found.data.order]
    np.testing.assert_allclose(shares, want.shares, atol=1e-4)


def test_with_clean_labels_and_no_prior_means_are_prototypes() -> None:
    trained = method(tau=0.0, prior_strength=1e4, prior_accuracy=1 - 1e-6).meta_fit(worlds()[0], iterations=2)
    tasks = worlds()[1].draw(1, 2, clean=True)
    found = crowdppl.fit(trained, tasks.annotations(), tolerance=1e-14)
    with torch.no_grad():
        placed = trained.embedding(torch.tensor(np.asarray(found.data.features, np.float32)))
    votes = np.asarray(found.data.votes()).argmax(1)
    prototypes = np.stack([placed[torch.from_numpy(votes == k)].numpy().mean(0) for k in range(3)])
    np.testing.assert_allclose(found.result.sites["mean"].mean, prototypes, atol=1e-4)
