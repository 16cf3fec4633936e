"""Messages as the command line says them: with its options, where Python has keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
