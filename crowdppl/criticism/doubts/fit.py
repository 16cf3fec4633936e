"""Doubts about the fit as a whole: what it predicts, what cannot be known, and what the method itself doubts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan

from crowdppl.core.doubt import Doubt
from crowdppl.core.importance import notes_on_tail
from crowdppl.core.validation import shown
from crowdppl.criticism.checks import predictive_check
from crowdppl.criticism.doubts.search import AUTO, Search, doubt
from crowdppl.criticism.overfitting import Predictions, predicted_without_itself
from crowdppl.criticism.tails import ERRORS
from crowdppl.errors import DataError
from crowdppl.evaluation.heldout import heldout_score
from crowdppl.inference.options import Options
from crowdppl.results.correction import MIN_GOLD
from crowdppl.results.leave_one_out import standard_error


@doubt("own", truth=object)
def own(search: Search) -> Iterator[Doubt]:
    """What the method itself doubts: a model may have a method ``doubts(fit)`` that returns records ``Doubt``.

    Where it raises an error, or returns something else, that is the doubt, and the fit stands.
    """
    model = search.posterior.model
    try:
        find = getattr(model, "doubts", None)
        found = list(find(search.posterior)) if callable(find) else []  # a setting may have that name
        strange = [x for x in found if not isinstance(x, Doubt)]
        if strange:
            raise TypeError(f"{shown(strange[0])} is no crowdppl.Doubt")
    except Exception as error:
        found = [
            Doubt(
                "own",
                f"what {type(model).__name__} itself doubts is not known: its method doubts(fit) failed "
                f"({type(error).__name__}: {error}); mend it so that it returns a list of Doubt, or rename it",
            )
        ]
    yield from found


@doubt("misfit", thorough=True)
def misfit(search: Search) -> Iterator[Doubt]:
    """Labels drawn from the fit differ from those given, at level .01 of ``crowdppl.predictive_check``.

    Looked for with ``thorough`` alone, and not for corrected posteriors.
    """
    posterior = search.posterior
    if posterior.correction is not None or posterior.data.n_labels > 1_000_000:  # each takes 8 bytes a draw
        return
    try:
        check = predictive_check(posterior, draws=100, seed=posterior.options["seed"])
    except DataError:  # no item has two labels
        return
    if check.p_value <= 0.01:
        remedies: tuple[str, ...] = (AUTO, search.refit(gold="gold", calibrate="True"))
        cause = (
            "Labels of an item may have more in common than its truth, and probabilities are then too sure: "
            "fit('auto', data) or calibrate=True correct them"
        )
        if check.worst == "class_shares":
            remedies = ("crowdppl.fit('bayesian_dawid_skene', data)",)
            cause = (
                "Annotators differ in what they answer by more than the method allows: one with a confusion "
                "matrix for each may fit better"
            )
        observed, low, high = check.table.loc[[check.worst], ["observed", "low", "high"]].to_numpy()[0].tolist()
        yield Doubt(
            "misfit",
            f"labels drawn from the fit are unlike those given (p = {check.p_value:.2g}), most of all in "
            f"{check.worst}: {observed:.3g}, and {low:.3g} to {high:.3g} in 95 % of draws. "
            f"{cause}; crowdppl.predictive_check(posterior) shows more",
            {"statistics": (check.worst,)},
            {"p_value": check.p_value, "observed": observed, "low": low, "high": high},
            (*remedies, "crowdppl.predictive_check(posterior)"),
        )


@doubt("votes", thorough=True)
def worse_than_votes(search: Search) -> Iterator[Doubt]:
    """Labels left out of fits are predicted worse than by a majority vote, beyond chance.

    Of a corrected posterior, the method's own predictions are meant.
    """
    posterior = search.posterior.uncorrected()
    options = posterior.options
    if posterior.inference == "gibbs":
        brief = {name: min(100, options[name]) for name in ("warmup", "draws")}
        posterior = replace(posterior, options={**options, **brief})
    try:
        fit = heldout_score(posterior).labels
        votes = heldout_score("majority_vote", posterior.data, inference="em", seed=options["seed"]).labels
    except DataError:  # no item has labels of two annotators: none can be left out
        return
    found = Predictions(fit["log_p"].to_numpy(), votes["log_p"].to_numpy(), fit["unit"].to_numpy())
    remedy = "crowdppl.compare finds a method that fits better, and fit('auto', data) chooses by it"
    call = "crowdppl.compare(['one_coin', 'bayesian_dawid_skene', 'majority_vote'], data)"
    yield from _worse(f"{posterior.method} predicts labels left out", found, remedy, call)


@doubt("votes")
def overfitting(search: Search) -> Iterator[Doubt]:
    """Labels, each taken out of its annotator's row, are predicted worse than by a majority vote, beyond chance.

    After maximum likelihood with a confusion matrix for each annotator, and in place of labels left out. Some
    doubts are missed, and none is raised in error.
    """
    found = None if search.thorough else predicted_without_itself(search.posterior.uncorrected())
    if found is not None:
        remedy = (
            "By maximum likelihood an answer that an annotator never gave is impossible: take "
            "bayesian_dawid_skene, or a method that crowdppl.compare finds; fit('auto', data) chooses by it"
        )
        what = f"{search.posterior.method} predicts a label from the others"
        yield from _worse(what, found, remedy, "crowdppl.fit('bayesian_dawid_skene', data)")


def _worse(what: str, found: Predictions, remedy: str, call: str) -> Iterator[Doubt]:
    apart = found.own - found.votes
    error = standard_error(apart, found.unit)
    if apart.mean() < -ERRORS * error:
        own, votes = float(found.own.mean()), float(found.votes.mean())
        yield Doubt(
            "votes",
            f"{what} worse than a majority vote: {own:.3f} nats a label against {votes:.3f} "
            f"(difference {apart.mean():.3f}, standard error {error:.3f}). {remedy}",
            figures={"own": own, "votes": votes, "error": error},
            remedies=(call, AUTO),
        )


@doubt("pareto", truth=object)
def pareto(search: Search) -> Iterator[Doubt]:
    """Pathfinder's normals are far from the posterior: the Pareto k of its importance weights is above .7.

    NaN where draws are too few to tell.
    """
    k = float(search.posterior.result.diagnostics.get("pareto_k", 0.0))
    for note in notes_on_tail(k):
        more = {"draws": str(max(Options.draws, 2 * search.posterior.options["draws"]))}
        remedy = search.refit(**more if isnan(k) else {"inference": "'nuts'"})
        yield Doubt("pareto", note, figures={"pareto_k": k}, remedies=(remedy,))


@doubt("bias")
def bias(search: Search) -> Iterator[Doubt]:
    """Probabilities are corrected without known truths, which alone show a bias that annotators share."""
    correction = search.posterior.correction
    if correction is None or correction.gold:
        return
    size = correction.temperature or 1.0
    assumed = "none is assumed" if size == 1 else f"assumed as on other data sets: p^(1/{size:.2f})"
    yield Doubt(
        "bias",
        f"labels cannot tell a bias that annotators share from the truth ({assumed}): where many are misled alike, "
        f"probabilities are too sure; {MIN_GOLD} known truths or more (gold=) would show it",
        figures={"temperature": size, "gold": MIN_GOLD},
        remedies=(search.refit(gold="gold"),),
        general=True,
    )
