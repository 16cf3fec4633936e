"""Collapse: classes that fell together, wandered off or traded places are said; auto leaves such members out."""

from dataclasses import replace

import numpy as np
import pytest

import crowdppl
from crowdppl.criticism.doubts.classes import agreement_errors, class_agreement, contradicted
from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.calibration import stacked
from crowdppl.posterior import Posterior
from tests.class_result import changed
from tests.crowd import annotations, crowd
from tests.doubtful import kinds, simulated


def with_truth(posterior: Posterior, p: np.ndarray) -> Posterior:
    return replace(posterior, result=changed(posterior.result, probabilities=p))


def test_agreement_with_the_class_and_beside_a_label_by_loops() -> None:
    posterior = crowdppl.fit("one_coin", crowd(30, 6, 3, 3), inference="em")
    p, rows = posterior.result.probabilities, posterior.data.frame()
    named, given, again, said = parts = np.zeros((4, 30, 3))
    for item, labels in rows.groupby("item")["label"]:
        for n, label in enumerate(labels):
            named[item, label] += p[item, label]
            given[item] += p[item]
            said[item, label] += 1
            again[item, label] += np.mean([other == label for m, other in enumerate(labels) if m != n])
    whole = parts.sum(1)
    want = whole[0] / whole[1], whole[2] / whole[3]  # in the order named, given, again, said
    apart = (named - want[0] * given) / whole[1] - (again - want[1] * said) / whole[3]
    agreement = class_agreement(posterior)
    found = [*agreement, agreement_errors(posterior, np.arange(3), agreement)]
    np.testing.assert_allclose(found, [*want, np.sqrt((apart**2).sum(0))], atol=1e-12)


def test_one_class_even_shares_and_traded_places_are_said_and_sound_fits_are_not() -> None:
    sound = crowdppl.fit("dawid_skene", simulated(0, 300, 12, 5, 4), inference="em")
    p = sound.result.probabilities
    assert "collapse" not in kinds(sound)
    assert contradicted(with_truth(sound, p[:, [0, 1, 3, 2]])) == [2, 3]
    assert contradicted(with_truth(sound, np.full_like(p, 0.25))) == [0, 1, 2, 3]
    assert contradicted(with_truth(sound, np.eye(4)[np.zeros(len(p), int)])) == [0]
    merged = np.stack([p[:, 0], p[:, 1], p[:, 2] + p[:, 3], 0 * p[:, 3]], 1)
    assert contradicted(with_truth(sound, merged)) == [2]


def test_a_flat_fit_of_sources_with_one_class_each_is_doubted() -> None:
    """Maximum likelihood explains such labels by sources alone: every truth is then the prevalence."""
    rows = [[-1] * 7] * 8 + [[-1, -1, -1, -1, -1, 0, -1]] * 4 + [[1, -1, -1, -1, 1, -1, -1]] * 2
    rows += [[1, -1, -1, -1, -1, -1, -1]] * 4
    flat = crowdppl.fit("dawid_skene", Annotations.from_matrix(np.array(rows)), inference="em", seed=0)
    assert np.ptp(flat.result.probabilities[:, 1]) < 1e-6
    assert "collapse" in kinds(flat)


def test_a_member_that_labels_contradict_takes_no_part() -> None:
    data = crowd(40, 6, 3, 4)
    good = crowdppl.fit("one_coin", data, inference="vb", max_iterations=5)
    flat = with_truth(crowdppl.fit("class_coin", data, inference="vb", max_iterations=5), np.full((40, 3), 1 / 3))
    found = stacked({"flat": flat, "one_coin": good}, data)
    assert set(found.weights) == {"one_coin"}
    assert any(note.startswith("flat takes no part") for note in found.notes)
    assert set(stacked({"flat": flat}, data).weights) == {"flat"}  # there is no other


def drifting() -> tuple[Annotations, np.ndarray]:
    """Six classes of .36 to .05, three labels each of 500 items by 40 annotators, who confuse classes in pairs."""
    rng, shares = np.random.default_rng(1), [0.36, 0.24, 0.16, 0.12, 0.07, 0.05]
    truth, labels = rng.choice(6, 500, p=shares), []
    skill = np.clip(rng.normal(0.55, 0.15, (40, 6)), 0.1, 0.95)
    paired = np.clip(rng.normal(0.6, 0.2, (40, 6)), 0, 1)
    for i, k in enumerate(truth):
        for a in rng.choice(40, 3, replace=False):
            if rng.random() < skill[a, k]:
                label = k
            else:
                label = k ^ 1 if rng.random() < paired[a, k] else rng.choice(6, p=shares)
            labels.append((i, int(a), int(label)))
    return annotations(labels, 6), truth


@pytest.mark.slow
def test_a_class_that_wandered_off_is_said() -> None:
    """A class of .05 gets several times its share, and the truth is less often right than votes are."""
    data, truth = drifting()
    votes = crowdppl.fit("majority_vote", data, inference="em")
    fit = crowdppl.fit("hierarchical_dawid_skene", data, inference="vb", tolerance=1e-5, max_iterations=300)
    right, voted = (np.equal(f.result.probabilities.argmax(1), truth).mean() for f in (fit, votes))
    assert right < voted - 0.03
    assert contradicted(fit) == [4] and "collapse" in kinds(fit)
    assert fit.result.probabilities.mean(0)[4] > 0.15
    assert not contradicted(votes)
