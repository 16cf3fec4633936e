"""Files that a command reads: answers, known truths, features and covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crowdppl import registry
from crowdppl.cli.arguments import names
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning
from crowdppl.primitives.model import card_of

COVARIATES = ("features", "item_covariates", "annotator_covariates")
PASSED_ON = ("item", "annotator", "label", "format", "delimiter", "encoding", "wide", "kind", "repeats")
"""Options that ``read_annotations`` takes under the same name."""


def read_answers(answers: Path, given: Mapping[str, Any]) -> Annotations:
    """The annotations of a file.

    Args:
        answers: the file.
        given: the options ``arguments.READING``.

    Raises:
        DataError: as ``read_annotations``, ``read_gold`` and ``read_item_covariates`` do.
    """
    from crowdppl.data import files  # imports torch

    found: Any = {name: given[name] for name in (*PASSED_ON, "informative_abstentions")}
    found |= {"classes": names(given["classes"]), "abstentions": given["abstain"] or ()}
    if given["gold"] is not None:
        found["gold"] = files.read_gold(
            given["gold"], given["gold_item"], given["gold_label"], encoding=given["gold_encoding"]
        )
    readers = (
        (files.read_item_covariates, "features_item", "features_encoding"),
        (files.read_item_covariates, "covariates_item", "covariates_encoding"),
        (files.read_annotator_covariates, "covariates_annotator", "covariates_encoding"),
    )
    for name, (read, column, encoding) in zip(COVARIATES, readers, strict=True):
        if given[name] is not None:
            found[name] = read(given[name], given[column], encoding=given[encoding])
    return files.read_annotations(answers, **found)


def sources(answers: Path, given: Mapping[str, Any]) -> dict[str, Path]:
    """The files that are read, by their option."""
    return {"answers": answers, **{name: given[name] for name in ("gold", *COVARIATES) if given[name] is not None}}


def warn_of_unread(models: Sequence[str], given: Mapping[str, Any]) -> None:
    """Warns of files that no method reads, according to the methods' cards."""
    cards = [card_of(registry.method(name)) for name in models if name != "auto"]
    if None in cards:
        return  # nobody knows what a method without a card reads
    used = {what for card in cards if card is not None for what in card.uses}
    for name in COVARIATES:
        if given[name] is not None and name not in used:
            text = f"{', '.join(models)}: no card says that {name} are read, so {given[name]} changes nothing"
            warn(text, CrowdpplWarning)
