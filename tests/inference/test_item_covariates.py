"""Tables of annotators whose labels depend on item covariates are averages over the items."""

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist

import crowdppl
import crowdppl.primitives as cp


class BySubject:
    """An annotator has a confusion matrix for each of three subjects, a code of the item."""

    def model(self, data: cp.Block) -> None:
        k = data.n_classes
        subject = cp.item_covariates(data, "subject").squeeze(-1).long()
        log_p = cp.prevalence(data)
        with cp.plates.annotators(data):
            rows = dist.Dirichlet(cp.confusion_prior(data).expand(3, k, k)).to_event(2)
            confusion = pyro.sample("confusion", rows)
        own = data.of_annotator(confusion.log(), event_dim=3)  # (..., S, 3, K, K)
        at = subject[data.item][:, None, None, None].expand(*own.shape[:-3], 1, k, k)

        with cp.plates.items(data):
            cp.annotate(data, cp.each_label(own.gather(-3, at).squeeze(-3)), cp.truth(data, log_p))


def test_a_table_is_the_mean_over_the_subjects_of_the_items() -> None:
    rng = np.random.default_rng(0)
    n, right = 600, np.array([[0.95, 0.9, 0.85], [0.5, 0.6, 0.55], [0.9, 0.8, 0.95]])  # [subject, annotator]
    truth, subject = rng.integers(2, size=n), rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    item, annotator = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
    label = np.where(rng.random(3 * n) < right[subject[item], annotator], truth[item], 1 - truth[item])
    known = pd.DataFrame({"subject": subject}, index=np.arange(n))
    gold = dict(enumerate(truth.tolist()))
    data = crowdppl.Annotations.from_arrays(item, annotator, label, item_covariates=known, gold=gold)
    posterior = crowdppl.fit(BySubject(), data, inference="vb", seed=0)
    rows = posterior.result.sites["confusion"].mean  # (A, 3, 2, 2), known truths alone
    shares = np.bincount(subject) / n
    wanted = np.einsum("asll,s->al", rows, shares).mean(1)
    found = posterior.annotators()["accuracy"].to_numpy()
    np.testing.assert_allclose(found, wanted, atol=0.005)
    assert np.abs(found - rows[:, 1].diagonal(axis1=1, axis2=2).mean(1)).min() > 0.05  # not that of the mean code
