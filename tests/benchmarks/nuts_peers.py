"""Bayesian Dawid-Skene with the truth summed out, as a careful user of NumPyro or Pyro would write it for NUTS.

Every item has equally many labels, in the order of items, so that the sum over an item's labels is a reshape: the
fastest form that either package has for it.
"""

import time
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.simulated import Drawn


@dataclass(frozen=True)
class Setting:
    """What all samplers share.

    Attributes:
        data: labels, equally many an item.
        prior: (K, K) Dirichlet parameters of an annotator's rows; the prevalence is flat.
        chains, warmup, draws: of every sampler.
    """

    data: Drawn
    prior: np.ndarray
    chains: int
    warmup: int
    draws: int

    @property
    def n_annotators(self) -> int:
        return int(self.data.annotator.max()) + 1

    @property
    def n_items(self) -> int:
        return len(self.data.truth)

    @property
    def start(self) -> np.ndarray:
        """(A, K, K) rows at their prior mean, from which every chain starts: no chain swaps classes."""
        rows = self.prior / self.prior.sum(-1, keepdims=True)
        return np.broadcast_to(rows, (self.n_annotators, *rows.shape)).copy()


@dataclass(frozen=True)
class Sampled:
    """Draws of the confusions (C, D, A, K, K), and seconds of warm-up and draws together."""

    confusion: np.ndarray
    seconds: float
    first_seconds: float


def by_numpyro(setting: Setting, chain_method: str = "vectorized") -> Sampled:
    """NumPyro's NUTS; the second run of the same compiled sampler is what counts."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, init_to_value

    k = len(setting.prior)

    def model(annotator, label):
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.ones(k)))
        with numpyro.plate("annotators", setting.n_annotators):
            confusion = numpyro.sample("confusion", dist.Dirichlet(jnp.asarray(setting.prior)).to_event(1))
        terms = jnp.log(confusion)[annotator, :, label].reshape(setting.n_items, -1, k).sum(1)
        joint = terms + jnp.log(prevalence)
        numpyro.factor("labels", jax.scipy.special.logsumexp(joint, -1).sum())

    values = {"prevalence": jnp.full(k, 1 / k), "confusion": jnp.asarray(setting.start)}
    kernel = NUTS(model, init_strategy=init_to_value(values=values))
    mcmc = MCMC(
        kernel,
        num_warmup=setting.warmup,
        num_samples=setting.draws,
        num_chains=setting.chains,
        chain_method=chain_method,
        progress_bar=False,
    )
    data = (jnp.asarray(setting.data.annotator), jnp.asarray(setting.data.label))
    took = []
    for seed in (0, 1):
        began = time.perf_counter()
        mcmc.run(jax.random.PRNGKey(seed), *data)
        draws = np.asarray(mcmc.get_samples(group_by_chain=True)["confusion"])
        took.append(time.perf_counter() - began)
    return Sampled(draws, took[1], took[0])


def by_pyro(setting: Setting) -> Sampled:
    """Pyro's NUTS with its compiled potential, chain after chain."""
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.infer import MCMC, NUTS

    k = len(setting.prior)
    prior = torch.as_tensor(setting.prior, dtype=torch.float32)
    annotator, label = (torch.as_tensor(x) for x in (setting.data.annotator, setting.data.label))

    def model():
        prevalence = pyro.sample("prevalence", dist.Dirichlet(torch.ones(k)))
        with pyro.plate("annotators", setting.n_annotators):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        terms = confusion.log()[annotator, :, label].reshape(setting.n_items, -1, k).sum(1)
        pyro.factor("labels", (terms + prevalence.log()).logsumexp(-1).sum())

    to_reals = torch.distributions.biject_to(torch.distributions.constraints.simplex).inv
    start = {
        "prevalence": to_reals(torch.full((k,), 1 / k)),
        "confusion": to_reals(torch.as_tensor(setting.start, dtype=torch.float32)),
    }
    chains, took = [], 0.0
    for chain in range(setting.chains):
        pyro.set_rng_seed(chain)
        kernel = NUTS(model, jit_compile=True, ignore_jit_warnings=True)
        mcmc = MCMC(
            kernel,
            num_samples=setting.draws,
            warmup_steps=setting.warmup,
            initial_params=start,
            disable_progbar=True,
        )
        began = time.perf_counter()
        mcmc.run()
        took += time.perf_counter() - began
        chains.append(mcmc.get_samples()["confusion"].numpy())
    return Sampled(np.stack(chains), took, took)
