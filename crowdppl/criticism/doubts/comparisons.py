"""Doubts about comparisons: answers that follow the side on which an object stands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts.search import Search, doubt, quoted
from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES, compares
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.model import settings_of

LEVEL = 0.005
"""Chance that the answers of some annotator, or of all together, seem to follow the side where none do."""
RIDGE = 1e-3
"""Weight of the prior of log-skills, in answers, that keeps objects apart which were never compared."""


@doubt("position")
def position(search: Search) -> Iterator[Doubt]:
    """The object on one side is preferred more often than skills tell, by all annotators or by some.

    Score tests of an advantage of the left side (Rao 1948), of all answers together and of each annotator's, with
    what skills could explain of it taken off: of pairs that were asked in both orders, nothing.
    """
    posterior = search.posterior
    data, model = posterior.data, posterior.model
    known = settings_of(model)
    if not compares(data) or data.item_covariates is None or networks_of(model) or known.get("position_bias"):
        return
    from scipy import sparse  # slow to import, all three
    from scipy.sparse.linalg import cg
    from scipy.stats import norm

    item, who, answer = data.label_codes()
    grade = grades_of(data.n_classes)
    named = np.append(grade != 0, np.zeros(len(data.answers) - len(grade), bool))[answer]
    if not named.any():
        return
    item, who, left = item[named], who[named], grade[answer[named]] > 0
    own = posterior.result.probabilities[item]
    table = posterior.result.table[..., : len(grade)]
    of_sides = np.stack([table[..., side * grade > 0].sum(-1) for side in (1, -1)], -1)  # (A, K, 2)
    said = np.einsum("sk,skx->sx", own, of_sides[who])
    p = np.clip(said[:, 0] / said.sum(1), 1e-6, 1 - 1e-6)
    weight, n = p * (1 - p), data.n_annotators
    objects = [data.item_covariates[side].cat.codes.to_numpy()[item] for side in SIDES]
    at = (np.tile(np.arange(len(item)), 2), np.concatenate(objects))
    lead = sparse.csr_matrix((np.repeat([1.0, -1.0], len(item)), at))
    curvature = lead.T @ sparse.diags(weight) @ lead + RIDGE * sparse.identity(lead.shape[1])
    rest = 1 - lead @ cg(curvature, lead.T @ weight, rtol=1e-8, M=sparse.diags(1 / curvature.diagonal()))[0]
    score, info = np.bincount(who, rest * (left - p), n), np.bincount(who, rest**2 * weight, n)
    z = np.append(score, score.sum()) / np.sqrt(np.maximum(np.append(info, info.sum()), 1e-9))
    each = norm.isf(LEVEL / (2 * np.append(np.full(n, 2 * n), 2)))
    found = np.flatnonzero(np.abs(z) > each)
    if not len(found):
        return
    some = found[found < n] if n not in found else np.arange(n)
    sides = [some] if n in found else [own for own in (some[score[some] > 0], some[score[some] <= 0]) if len(own)]
    shares = [float(1 / (1 + np.exp(-np.clip(score[x].sum() / info[x].sum(), -20, 20)))) for x in sides]
    whose = ["" if n in found else f" by {quoted(search.annotators(own))}" for own in sides]
    told = " and ".join(f"about {share:.0%} of answers{by}" for share, by in zip(shares, whose, strict=True))
    bias = True if n in found else "judge"
    name, setting = "'crowd_bt'", f"settings={{'position_bias': {bias!r}}}"
    if "position_bias" in known and (n in found or "right" in known):
        name, setting = f"dataclasses.replace(posterior.model, position_bias={bias!r})", ""
    others = ", which crowd_bt has" if setting else ""
    call = f"crowdppl.fit({', '.join(x for x in (name, 'data', setting) if x)}, inference='vb')"
    yield Doubt(
        "position",
        f"of two equal objects, {told} name the left one, because of the side on "
        f"which it stands: ask in both orders, and fit with position_bias={bias!r}{others}",
        {"annotators": search.annotators(some)},
        {"share": max(shares, key=lambda share: abs(share - 0.5)), "z": float(z[found[-1]])},
        (call,),
    )
