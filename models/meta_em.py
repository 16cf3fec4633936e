"""Meta EM: classes are clusters in a space that was learned beforehand, from few-shot tasks of other classes.

    prevalence        ~ Dirichlet(1 + prevalence_strength)         (K)
    mean[k]           ~ Normal(0, tau^-1/2)                        (K, M)
    ability[a]        ~ Dirichlet(1 + prior_strength * coin)       (A, 2), or confusion rows as in
                        bayesian_dawid_skene                       (A, K, K)
    truth[i]          ~ Categorical(prevalence)                    (N)
    embedding[i]      ~ Normal(mean[truth[i]], 1), embedding = network(features), observed    (N, M)
    label[i, a]       = truth[i] with probability ability[a, 0], else another class evenly;
                        its likelihood counts to the power likelihood_power

``meta_fit`` trains the network through steps of EM, on tasks of known classes with simulated annotators. Without
features the method is one_coin under this prior. As published are ``coins=False, likelihood_power=1, steps=3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import Annotations, few_shot, mean_field, networks

REASON = "the space was learned for points: a posterior of the means gives up classes with few items; take em"


@dataclass(frozen=True)
class MetaEm:
    """A mixture in a learned space and Dawid-Skene, for tasks with a handful of labelled items.

    Args:
        embedding: a network from features to M numbers, of which a copy is trained; by default
            ``crowdppl.networks.embedding.Layers`` of ``widths``.
        widths: of its layers, M the last.
        steps: of EM, in meta-training and to the start of a fit.
        tau: prior precision of the means, 0 for none.
        prevalence: "learned" or "uniform".
        prevalence_strength: pseudo-counts of each class, beside the 1 of a flat prior.
        coins: whether an annotator has one accuracy for all classes, in place of a confusion matrix.
        prior_strength: pseudo-counts of a confusion row, or of the coin, beside the 1 of a flat prior.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance; 1 / K in the
            paper.
        likelihood_power: power of the labels' likelihood, in meta-training too; below 1, an item's labels count for
            less.
        weights: what ``meta_fit`` learned; not to be set by hand.

    Examples:
        Images of two digits, of which the left one is the class. Tasks of digits 0 to 4 are known, also turned by
        right angles; the new task has four other classes, three images of each with labels by five annotators, and
        forty without.

        >>> from dataclasses import replace
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from crowdppl.few_shot import EpisodeSampler
        >>> images, digit = load_digits(return_X_y=True)
        >>> images = images.reshape(-1, 8, 8)
        >>> beside = np.random.default_rng(0).integers(len(digit), size=4 * len(digit))
        >>> left = np.concatenate([np.rot90(images, turn, (1, 2)) for turn in range(4)])
        >>> pairs = np.concatenate([left, images[beside]], axis=2).reshape(len(left), -1)
        >>> names = np.concatenate([digit + 10 * turn for turn in range(4)])
        >>> low = [name for name in range(40) if name % 10 < 5]
        >>> known = EpisodeSampler(names, pairs, classes=low, shots=3, annotators=5)
        >>> tasks = replace(known, classes=range(5, 10), apart_from=known).draw(10, seed=1)
        >>> model = crowdppl.method("meta_em").meta_fit(known, iterations=50, seed=0)
        >>> posterior = crowdppl.fit(model, tasks.annotations(0, queries=True))
        >>> answers = tasks.questions(0)[1]
        >>> right = posterior.labels().loc[answers.index, "label"] == answers
        >>> print(posterior, f"{right.mean():.1f} of the images without labels are right")
        <Posterior of meta_em by em: 52 items, 5 annotators, 4 classes> 0.9 of the images without labels are right

        A single task says little: over forty such tasks, .64 are right without meta-training (``iterations=1`` and
        a learning rate of almost 0), .75 after 50 steps and .78 after 200. It helps where features hold much that
        does not matter, as the digit on the right; on plain digits it gains nothing. Choose the number of steps on
        known classes that are held out, never on the new ones.
    """

    embedding: nn.Module | None = None
    widths: Sequence[int] = (128, 64)
    steps: cp.Count = 6
    tau: cp.NotNegative = 0.3
    prevalence: Literal["learned", "uniform"] = "learned"
    prevalence_strength: cp.NotNegative = 100.0
    coins: bool = True
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    likelihood_power: cp.Positive = 0.5
    weights: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)

    card: ClassVar[cp.Card] = cp.Card(
        title="Meta EM",
        reference="Kumagai et al. (2025), Meta-learning representations for learning from multiple annotators",
        sites={"prevalence": "K", "mean": "K M", "confusion": "A K K", "ability": "A 2", "truth": "N"}
        | {"abstention": "A D W"},
        prevalence="prevalence",
        assumes="the items of a class lie around one point of the space that other classes have shaped",
        fails="where new classes differ in what meta-training has taught the network to overlook",
        cost="labels x K, and items x K x M, an iteration",
        only=("em",),
        because=REASON,
        uses=("features", "history"),
    )

    def meta_fit(self, episodes: Any, **how: Any) -> MetaEm:
        """A copy whose network has learned from few-shot tasks, of other classes; fits do not train it.

        ``episodes`` are a ``crowdppl.few_shot.EpisodeSampler``; ``how`` is as for ``meta_trained``.
        """
        rows = cp.diagonal_prior(episodes.ways, self.prior_strength, self.prior_accuracy, self.coins)
        network = few_shot.meta_trained(self.embedding, self.widths, episodes, self.em, rows, **how)
        return replace(self, embedding=network, weights={n: x.clone() for n, x in network.state_dict().items()})

    def setup(self, data: Annotations) -> MetaEm:
        """A copy with the network that ``meta_fit`` trained; without features it is not needed."""
        return replace(self, embedding=networks.trained_embedding(self.embedding, self.widths, self.weights, data))

    @property
    def em(self) -> Any:
        """``crowdppl.few_shot.em_steps`` with these settings."""
        return partial(
            few_shot.em_steps,
            steps=self.steps,
            tau=self.tau,
            prevalence=self.prevalence_strength if self.prevalence == "learned" else None,
            tied=self.coins,
            power=self.likelihood_power,
        )

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """The means after some steps of EM from the votes."""
        embedding = networks.network_output(data, self.embedding, "embedding")
        if embedding is None:
            return {}
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy, self.coins)
        return {"mean": few_shot.unrolled_em(data, embedding, prior, self.em).mean}

    def model(self, data: cp.Block) -> None:
        """Draws prevalence, means, confusions, truths and labels."""
        log_p = cp.prevalence(data, self.prevalence, 1 + self.prevalence_strength)
        if self.embedding is not None:
            mean = pyro.sample("mean", few_shot.prototype_prior(self.embedding, data.n_classes, self.tau))
            log_p = log_p + few_shot.prototype_logits(data, self.embedding, mean)
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy, self.coins)
        with cp.plates.annotators(data):
            if self.coins:
                ability = pyro.sample("ability", dist.Dirichlet(1 + cp.coin_counts(prior)))
                table = cp.coin_table(ability.log().unsqueeze(-2), data.n_classes)
            else:
                table = pyro.sample("confusion", dist.Dirichlet(1 + prior).to_event(1)).log()
        table = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p), power=self.likelihood_power)

    guide = mean_field

    def classifier(self, sites: Mapping[str, Tensor]) -> nn.Module | None:
        """Features to K logits, from the posterior means of the sites; None without features."""
        return few_shot.prototype_classifier(self.embedding, sites)
