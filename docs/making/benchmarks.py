"""The page of benchmarks as an overview and four pages of the site; in the repository they are one file."""

from __future__ import annotations

import re

PAGES = {
    "truth": ("Right labels and probabilities", "how often labels are right, how sure they may be, what helps"),
    "features": ("Labels with features, and few-shot tasks", "classifiers learned from annotators' labels"),
    "kinds": ("Other kinds of labels, intervals and decisions", "numbers, spans, rankings, panels, whom to ask"),
    "speed": ("Speed and memory", "beside other packages, from a thousand labels to ten million"),
}
"""The pages, their titles and what they hold."""

SPEED = re.compile(
    r"EM |Majority vote side|Many classes|Item difficulty|Memory|The command line|An epoch|Fits on a GPU|"
    r"bayes_dgc on|Gibbs side|Pathfinder|Import|M-MSR side|Asking among"
)
FEATURES = re.compile(
    r"Truth from|Probabilities from features|Methods chosen|The default recipe|Features|Adversaries|Weak class|"
    r"Copying annot|Few-shot|Trace reg|Unbalanced"
)
TRUTH = re.compile(
    r"Accuracy on|Baselines|A trusted|Held-out|Probabilities (on|by)|Without the annot|Classes in a tree|"
    r"Filling in|Coverage|Groups of annot"
)


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def page_of(title: str) -> str:
    """The page of a section by the words that its title begins with."""
    found = (
        name for name, words in (("speed", SPEED), ("features", FEATURES), ("truth", TRUTH)) if words.match(title)
    )
    return next(found, "kinds")


def split(text: str) -> dict[str, str]:
    """The Markdown of each page."""
    machine, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    machine = machine.partition("\n")[2].strip()
    pages = {name: [f"# {title}", machine] for name, (title, _) in PAGES.items()}
    for section in sections:
        pages[page_of(section)].append(f"## {section.strip()}")
    return {name: "\n\n".join(parts) + "\n" for name, parts in pages.items()}


def homes(text: str) -> dict[str, str]:
    """The page of each heading by its anchor."""
    return {
        slug(title): name
        for name, page in split(text).items()
        for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }


def overview(text: str) -> str:
    """The first page: the picture, and what stands where."""
    parts = ["# Benchmarks", "![Log scores of methods on nine public sets](pictures/benchmarks.png)"]
    for name, page in split(text).items():
        title, about = PAGES[name]
        titles = re.findall(r"^## (.+)$", page, re.MULTILINE)
        links = ", ".join(f"[{each}](benchmarks/{name}.md#{slug(each)})" for each in titles)
        parts.append(f"## [{title}](benchmarks/{name}.md)\n\n{about[0].upper()}{about[1:]}: {links}.")
    return "\n\n".join(parts) + "\n"
