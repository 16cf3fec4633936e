"""Doubts about annotators: too few labels, labels that say nothing, and labels that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism import collusion
from crowdppl.criticism.collusion import excess_agreement
from crowdppl.criticism.design import Design
from crowdppl.criticism.doubts.search import AUTO, Search, doubt, quoted
from crowdppl.criticism.expected_agreement import shares_more
from crowdppl.criticism.joint_errors import among_all, joint_errors, shared_errors
from crowdppl.criticism.tails import ERRORS
from crowdppl.data.blocks import row_sizes
from crowdppl.data.coded import count_repeats
from crowdppl.data.split import keep
from crowdppl.errors import DataError, MethodError
from crowdppl.inference.engines import engine_support
from crowdppl.inference.result import Fit, NumberTruth
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.labels import LARGE_TABLE
from crowdppl.primitives.model import discount_of
from crowdppl.results.annotators import information, informative_part
from crowdppl.results.correction import MIN_GOLD, members

SPAMMER_BITS = 0.05
"""Information below which an annotator is a spammer: three times as much has to be ruled out by the labels."""
LEVEL = 0.01
"""Chance that some pair of honest annotators is taken for copiers."""
QUICK_PAIRS = {"em": 20_000}
MAX_PAIRS, MAX_SIZE = 200_000, 100_000_000
"""Pairs of labels of one item up to which they are compared beside a fit, by em fewer; and times K squared."""
FIGURES = "crowdppl.suspicious_annotators(posterior)"


@doubt("thin")
def thin(search: Search) -> Iterator[Doubt]:
    """More than a quarter of the labels are by annotators who gave too few.

    Each needs 2 for each free parameter that the method has for an annotator, and 8 for each row of these. Not
    where the posterior is narrow all the same; nor for draws of a sampler, unless annotators agree less than the
    mean table expects, or it expects next to nothing: the draws then rest on a prior that is wrong, or flat.
    """
    found, posterior = search.sparse, search.posterior
    if found is None:
        return
    median, n, free = float(np.median(search.given[found.few])), len(search.given), found.parameters
    figures = {"annotators": n, "share": found.share, "needed": found.need, "median": median, "parameters": free}
    prior = "on the prior, which no agreement of annotators confirms"
    if not found.sampled:
        prior = "on the prior, or on chance where there is none"
    elif found.agreement is not None:
        observed, expected = found.agreement
        figures |= {"observed": observed, "expected": expected}
        says = "next to nothing" if observed > expected else "too much"
        prior = (
            f"on a prior that says {says} of the annotators, who agree in {observed:.0%} of pairs of labels where "
            f"the fit expects {expected:.0%}"
        )
    remedy, calls = _fewer_parameters(search, not found.sampled and median < 0.1 * free, free)
    yield Doubt(
        "thin",
        f"{found.few.sum()} of {n} annotators, with {found.share:.0%} of all labels, gave fewer than {found.need} "
        f"labels (median {median:.0f}), and {posterior.method} has {free} free parameter{'s' * (free > 1)} for "
        f"each: do not rely on its probabilities near 1, which rest {prior}. {remedy}, give annotators who are "
        "alike one id, or collect more labels",
        {"annotators": search.annotators(np.flatnonzero(found.few))},
        figures,
        calls,
    )


def _fewer_parameters(search: Search, very_sparse: bool, free: int) -> tuple[str, tuple[str, ...]]:
    """What to fit instead: the start of a sentence, and the calls."""
    posterior, data = search.posterior, search.posterior.data
    pooled, coin, _ = search.methods
    names = [pooled] + [coin] * (free > 1 and coin != pooled)
    very_sparse = very_sparse or math.prod(posterior.result.confusions.shape) > LARGE_TABLE  # gibbs would take long
    coins = very_sparse and free > data.n_classes and not search.compares
    fewer = tuple(f"crowdppl.fit({name!r}, data)" for name in (("one_coin", "class_coin") if coins else names))
    if coins:
        of_each = f"one_coin (1 for each) or class_coin ({data.n_classes} for each)"
        return f"Take a method with fewer, such as {of_each}", fewer
    with_fewer = f"with fewer, such as {' or '.join(names)}"
    if very_sparse:
        return f"Take a method {with_fewer}", fewer
    if search.sparse is not None and search.sparse.sampled:
        return f"Choose another prior, take a method {with_fewer}", fewer
    some = keep(data, np.arange(data.n_labels) < 100)
    if not networks_of(posterior.model) and engine_support(posterior.model, some, "gibbs") == "exact":
        again = "crowdppl.fit(posterior.model, data, inference='gibbs')"
        text = f'Fit it with inference="gibbs", which averages over all tables, or take a method {with_fewer}'
        return text, (again, *fewer)
    text = f'Take a method that inference="gibbs" fits (crowdppl.zoo() lists them), or one {with_fewer}'
    return text, (*fewer, "crowdppl.zoo()")


@doubt("spammers")
def spammers(search: Search) -> Iterator[Doubt]:
    """There are annotators whose labels say less than .05 bits about the truth, beyond chance."""
    posterior, given, result = search.posterior, search.given, search.posterior.result
    even = np.full(posterior.data.n_classes, 1 / posterior.data.n_classes)
    table = informative_part(posterior, result.confusions)
    bits = np.maximum(*(information(table, share) for share in (result.prevalence, even)))
    error = 1 / np.sqrt(2 * math.log(2) * np.maximum(given, 1))
    sure = bits**0.5 + ERRORS * error < (3 * SPAMMER_BITS) ** 0.5
    bad = np.flatnonzero(~search.one_class & (bits < SPAMMER_BITS) & sure)
    if len(bad):
        bad = bad[np.argsort(-given[bad], kind="stable")]
        who, share = search.annotators(bad), float(given[bad].sum() / given.sum())
        yield Doubt(
            "spammers",
            f"{len(bad)} of {len(given)} annotators, with {share:.0%} of all labels, answer almost as if they "
            f"had not looked (below {SPAMMER_BITS} bits about the truth): {quoted(who)}. The fit makes little of "
            "them, so that results can stand; ask them no more. posterior.without([...]) fits without them",
            {"annotators": who},
            {"annotators": len(given), "share": share, "bits": SPAMMER_BITS},
            (f"posterior.without({list(who)})",),
        )


@doubt("one class")
def one_class(search: Search) -> Iterator[Doubt]:
    """Over a quarter of the labels are by annotators who name one class alone, where others name it, too."""
    given, sources = search.given, np.flatnonzero(search.one_class)
    share = float(given[sources].sum() / max(1, given.sum()))
    if share > 0.25 and not search.posterior.data.alphabet.informative:
        yield Doubt(
            "one class",
            f"{len(sources)} of {len(given)} annotators, with {share:.0%} of all labels, only ever say one class "
            "or nothing, and what they leave unsaid tells as well: give it as a label named in abstentions=, with "
            "informative_abstentions=True",
            {"annotators": search.annotators(sources)},
            {"annotators": len(given), "share": share},
            (search.reread(abstentions="['nothing']", informative_abstentions="True"),),
        )


def _testable(search: Search, posterior: Fit) -> bool:
    """Whether items have labels of several annotators, few repeats, and not too many to be compared at once.

    Not where the model takes for granted that annotators err together (``discount``).
    """
    data = posterior.data
    if discount_of(search.posterior.model):
        return False
    sizes = search.sizes.astype(np.int64)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    most = min(QUICK_PAIRS.get(posterior.inference, MAX_PAIRS), MAX_SIZE // data.n_classes**2)
    if not pairs or (pairs > most and not search.thorough):
        return False
    return count_repeats(data.blocks) <= 0.05 * data.n_labels


@doubt("copying")
def copying(search: Search) -> Iterator[Doubt]:
    """Pairs of annotators stand out ("copying"), or groups that they form ("colluding").

    They are those of ``crowdppl.suspicious_annotators`` at level .01, unless most pairs stand out, as where items
    are hard for all. Without ``thorough`` up to 200,000 pairs of labels are looked at (fewer with over 22 classes),
    by em 20,000.
    """
    posterior = search.posterior
    if not _testable(search, posterior):
        return
    excess = excess_agreement(posterior, alone=True)  # the model's own expectation takes longer
    if not (excess.tail * len(excess.tail) <= LEVEL).any():  # no pair can stand out from the others
        return
    if shares_more(posterior.model):
        excess = excess_agreement(posterior)
    p = collusion.p_values(excess)
    linked = p <= LEVEL
    if linked.mean() > 0.5:
        return
    group = collusion.groups(excess.one[linked], excess.other[linked], posterior.data.n_annotators)
    alone = np.flatnonzero(linked & (group[excess.one] < 0))
    how = (
        "If they do copy, their agreement is no evidence, and probabilities of their items are too sure. "
        f"{FIGURES} has the figures, posterior.without([...]) fits without them"
    )
    if len(alone):
        first = alone[np.argmin(p[alone])]
        who = search.annotators([excess.one[first], excess.other[first]])
        agreed, shared, expected = (float(x[first]) for x in (excess.agreed, excess.shared, excess.expected))
        more = f"; {len(alone)} pairs stand out like this" if len(alone) > 1 else ""
        yield Doubt(
            "copying",
            f"annotators {quoted(who)} agree in {agreed:.0f} of {shared:.0f} shared labels, where the fit expects "
            f"{expected:.0f}{more}: one may copy the other. {how}",
            {"annotators": who},
            {
                "agreed": agreed,
                "shared": shared,
                "expected": expected,
                "p_value": float(p[first]),
                "pairs": len(alone),
            },
            (FIGURES, f"posterior.without({[who[1]]})"),
        )
    if group.max() >= 0:
        n, large = int(group.max()) + 1, np.argmax(np.bincount(group[group >= 0]))
        who = search.annotators(np.flatnonzero(group == large))
        most = "" if n == 1 else f"; there are {n} such groups, of which this is the largest"
        yield Doubt(
            "colluding",
            f"{len(who)} annotators agree among themselves more than the fit expects: {quoted(who)}{most}. {how}",
            {"annotators": who},
            {"groups": n},
            (FIGURES, f"posterior.without({list(who[1:])})"),
        )


@doubt("copying", truth=NumberTruth)
def copied_numbers(search: Search) -> Iterator[Doubt]:
    """Errors of two annotators correlate by more than .5, at level .01 over all pairs.

    For labels that are measurements, on items with two other labels at least.
    """
    data = search.posterior.data
    sizes = np.concatenate([row_sizes(block) for block in data.blocks]).astype(np.int64)
    many = not search.thorough and (sizes * (sizes - 1)).sum() / 2 > MAX_PAIRS
    measured = data.alphabet.kind.numeric and data.alphabet.kind.parts is None
    if not measured or sizes.max(initial=0) < 4 or many:  # the two, and two others
        return
    pair, correlation, p = shared_errors(Design.of(data, numbers=True))
    p = among_all(p)
    found = np.flatnonzero((correlation > 0.5) & (p <= LEVEL))
    if len(found):
        first = found[np.argmax(correlation[found])]
        who, most = search.annotators(np.divmod(pair[first], data.n_annotators)), float(min(correlation[first], 1))
        more = f"; {len(found)} pairs stand out like this" if len(found) > 1 else ""
        yield Doubt(
            "copying",
            f"errors of annotators {quoted(who)} correlate by {most:.2f}{more}: one may copy the other, and both "
            "then count as precise. posterior.without([...]) fits without them",
            {"annotators": who},
            {"correlation": most, "p_value": float(p[first]), "pairs": len(found)},
            (f"posterior.without({[who[1]]})",),
        )


@doubt("together", engines=("em", "vb"))
def together(search: Search) -> Iterator[Doubt]:
    """Over .05 of the disagreements that the fit expects among labels of an item are none, beyond chance.

    Errors then meet on the same items, whoever makes them. Looked at by em or vb, of one member of ``auto``, and
    not where data are thin, for a prior decides what is expected, where a network decides how labels agree, or
    where known truths have told how far probabilities are too sure.
    """
    corrected = search.posterior.correction
    if corrected is not None and corrected.gold:
        return
    fits = [*members(search.posterior).values()]
    alone = next((fit for fit in fits if not shares_more(fit.model)), fits[0])
    more = shares_more(alone.model)
    trained = more and networks_of(alone.model)
    if search.sparse or trained or not _testable(search, alone):
        return
    try:
        # A model that says how labels agree takes longer.
        share, error = joint_errors(alone, 50_000 // alone.data.n_classes**2 if more else 100_000)
    except (MethodError, DataError):  # its plate is not that of items; or an item's labels are one annotator's
        return
    if share > 0.05 and share > 1.96 * error:
        how = "Leave some annotators out (posterior.without([...]))"
        calls: tuple[str, ...] = ("crowdppl.suspicious_annotators(posterior)",)
        if not search.compares:
            how = (
                f"By {MIN_GOLD} known truths or more, fit('auto', data, gold=...) measures how far, and corrects "
                "them; without any it takes what is usual. Or leave some annotators out (posterior.without([...]))"
            )
            calls = ("crowdppl.fit('auto', data, gold=gold)", AUTO)
        yield Doubt(
            "together",
            f"labels of an item agree more than the fit expects: {share:.0%} of the disagreements expected "
            "are none. Annotators copy one source, are models of one family or are misled by the same items, or "
            "the method is too coarse for them: do not rely on probabilities near 1, which are then too sure. "
            f"{how}",
            figures={"share": share, "error": error},
            remedies=calls,
        )
