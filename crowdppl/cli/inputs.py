"""The file of answers that a command is given, and messages that name its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, cast

from crowdppl import registry
from crowdppl.cli import arguments
from crowdppl.core.validation import warn
from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.primitives.model import card_of

ENGINE = ["batch_size", "chains", "checkpoint", "checkpoint_every", "checkpoint_steps", "draws", "guide"]
ENGINE += ["learning_rate", "max_iterations", "restarts", "tolerance", "warmup"]
"""Options of engines."""
OPTIONS: Mapping[str, str] = {
    "abstentions": "--abstain",
    "annotator_covariates": "--annotator-covariates",
    "annotator": "--annotator",
    "calibrate": "--calibrate",
    "classes": "--classes",
    "delimiter": "--delimiter",
    "device": "--device",
    "encoding": "--encoding",
    "features": "--features",
    "folds": "--folds",
    "format": "--format",
    "gold": "--gold",
    "inference": "--inference",
    "informative_abstentions": "--informative-abstentions",
    "item": "--item",
    "item_covariates": "--item-covariates",
    "kind": "--kind",
    "label": "--label",
    "models": "--model",
    "overwrite": "--overwrite",
    "repeats": "--repeats",
    "seed": "--seed",
    "settings": "--setting",
    "training": "--setting training=",
    "wide": "--wide",
    **{name: f"--option {name}=" for name in ENGINE},
}
"""What keywords are called on the command line."""
PYTHON = "(in Python)"
NOTES, SAID = ("corrected: ", "note: "), ("warning: ", "doubt: ")
"""How lines of a summary begin that are messages, and those that were warned of already; others hold ids."""
IN_PYTHON: Mapping[str, str] = dict.fromkeys(
    ["annotators", "callback", "dtype", "embedding", "items", "start", "story", "whole_items"], PYTHON
)
"""Keywords that no option stands for."""
OF_GOLD: Mapping[str, str] = {
    "item": "--gold-item",
    "label": "--gold-label",
    "format": PYTHON,
    "delimiter": PYTHON,
    "encoding": "--gold-encoding",
}
"""What keywords are called where the file of known truths is read beside the answers."""

OF_COVARIATES: Mapping[str, str] = {
    "item": "--covariates-item",
    "annotator": "--covariates-annotator",
    "format": PYTHON,
    "delimiter": PYTHON,
    "encoding": "--covariates-encoding",
}
"""What keywords are called where a file of covariates is read beside the answers."""

OF_FEATURES: Mapping[str, str] = {**OF_COVARIATES, "item": "--features-item", "encoding": "--features-encoding"}
"""What keywords are called where a file of features is read beside the answers."""

# What is quoted is a value, and a call is Python as it stands: neither is translated. Keywords may have a value.
_KEYWORD = re.compile(
    r"""[\w.]+\([^()]*\)|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w)"""
    r"""|(?<![\w./-])(?<!--option )(?<!--setting )(?P<name>[a-z_]+)="""
    r"""(?:(?P<list>\[)?(?P<value>'[^']*'|"[^"]*"|(?:True|False|None|nan|-?[0-9][0-9.e-]*)(?![\w./\\]))"""
    r"""(?(list)\])|(?=[\s,;:)]|\.(?!\w)|$))"""
    r"""(?! \(in)"""
)


def on_command_line(text: str, names: Mapping[str, str] | None = None) -> str:
    """A message for users of the command line: "say item=" becomes "say --item".

    Args:
        text: what an error or a warning says.
        names: what keywords are called; by default ``OPTIONS``, and what has no option is said to be Python's.
    """
    called = {**OPTIONS, **IN_PYTHON} if names is None else names

    def said(found: re.Match[str]) -> str:
        option, value = called.get(found["name"] or "", ""), found["value"] or ""
        if not option:
            return found[0]
        if option == PYTHON:
            return f"{found[0]} {PYTHON}"
        return option + ("" if not value or value == "True" else value if option.endswith("=") else f" {value}")

    return _KEYWORD.sub(said, text).replace("crowdppl.zoo()", "crowdppl zoo")


def summary_on_command_line(summary: str) -> str:
    """A posterior's summary for users of the command line, without warnings and doubts: the fit said them aloud."""
    fit, blank, tables = summary.partition("\n\n")
    lines = [on_command_line(line) if line.startswith(NOTES) else line for line in fit.split("\n")]
    return "\n".join(line for line in lines if not line.startswith(SAID)) + blank + tables


AS_THEY_ARE: tuple[str, ...] = (
    "item",
    "annotator",
    "label",
    "format",
    "delimiter",
    "encoding",
    "wide",
    "kind",
    "repeats",
    "informative_abstentions",
)
"""Options that ``read_annotations`` takes as they are."""
READING: Mapping[str, tuple[Any, Any]] = {
    "format": (arguments.Format, None),
    "delimiter": (arguments.Delimiter, None),
    "encoding": (arguments.Encoding, None),
    "wide": (arguments.Wide, False),
    "item": (arguments.Item, None),
    "annotator": (arguments.Annotator, None),
    "label": (arguments.Label, None),
    "classes": (arguments.Classes, None),
    "abstain": (arguments.Abstain, None),
    "informative_abstentions": (arguments.Informative, False),
    "kind": (arguments.Kind, "nominal"),
    "repeats": (arguments.Repeats, "keep"),
    "gold": (arguments.Gold, None),
    "gold_item": (arguments.GoldItem, None),
    "gold_label": (arguments.GoldLabel, None),
    "gold_encoding": (arguments.GoldEncoding, None),
    "features": (arguments.Features, None),
    "features_item": (arguments.FeaturesItem, None),
    "features_encoding": (arguments.FeaturesEncoding, None),
    "item_covariates": (arguments.ItemCovariates, None),
    "covariates_item": (arguments.CovariatesItem, None),
    "annotator_covariates": (arguments.AnnotatorCovariates, None),
    "covariates_annotator": (arguments.CovariatesAnnotator, None),
    "covariates_encoding": (arguments.CovariatesEncoding, None),
}
"""What each command that reads answers can be told of them: kind and default."""


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of ``READING`` in place of its ``**how``."""
    own, made = signature(command, eval_str=True), cast(Any, command)
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=x, annotation=kind) for name, (kind, x) in READING.items()
    ]
    made.__signature__ = own.replace(parameters=[*kept, *more])
    return command


def read_answers(answers: Path, said: Mapping[str, Any]) -> Annotations:
    """The annotations that a command is given.

    Args:
        answers: the file.
        said: how it is to be read, and known truths, features and covariates: the options of ``READING``.

    Raises:
        DataError: as ``read_annotations``, ``read_gold`` and ``read_item_covariates`` do.
    """
    from crowdppl.data import files  # imports torch

    how: Any = {name: said[name] for name in AS_THEY_ARE}
    how |= {"classes": arguments.names(said["classes"]), "abstentions": said["abstain"] or ()}
    if said["gold"] is not None:
        try:
            encoding = said["gold_encoding"]
            how["gold"] = files.read_gold(said["gold"], said["gold_item"], said["gold_label"], encoding=encoding)
        except DataError as error:  # --item and --label are about the answers
            raise DataError(on_command_line(str(error), OF_GOLD)) from error
    items, annotators = files.read_item_covariates, files.read_annotator_covariates
    for what, read, column, spelled in (
        ("features", items, "features_item", OF_FEATURES),
        ("item_covariates", items, "covariates_item", OF_COVARIATES),
        ("annotator_covariates", annotators, "covariates_annotator", OF_COVARIATES),
    ):
        if said[what] is None:
            continue
        try:
            encoding = said["features_encoding" if what == "features" else "covariates_encoding"]
            how[what] = read(said[what], said[column], encoding=encoding)
        except DataError as error:
            raise DataError(on_command_line(str(error), spelled)) from error
    return files.read_annotations(answers, **how)


def sources(answers: Path, said: Mapping[str, Any]) -> dict[str, Path | None]:
    """The files that a command is given, by what they are."""
    names = ("gold", "features", "item_covariates", "annotator_covariates")
    return {"answers": answers, **{name: said[name] for name in names}}


def warn_of_unread(models: Sequence[str], said: Mapping[str, Any]) -> None:
    """Warns of files that none of some methods reads, by their cards.

    Without a card, it is not known what a method reads.
    """
    cards = {name: card_of(registry.method(name)) for name in models if name != "auto"}
    uses = [card.uses for card in cards.values() if card is not None]
    for what in ("features", "item_covariates", "annotator_covariates"):
        if said[what] is not None and len(uses) == len(cards) and not any(what in some for some in uses):
            text = f"{', '.join(models)}: no card says that {what} are read, so that {said[what]} changes nothing"
            warn(text, CrowdpplWarning)
