"""Collects the sections that benchmarks of one session write."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.benchmarks.results import SECTIONS


@dataclass(eq=False)
class Recorder:
    """Sections of the results by title; a pytest plugin, so that the command that started pytest holds it."""

    sections: dict[str, str] = field(default_factory=dict)

    def add(self, title: str, text: str) -> None:
        """Keeps a section, and prints it for those who run one benchmark alone."""
        if title not in SECTIONS:
            raise ValueError(f"{title!r} is no section; results.SECTIONS lists them")
        self.sections[title] = text
        print(f"\n## {title}\n\n{text}\n")
