"""The pages of kinds of labels, the gallery and the pages of benchmarks: complete, current, and their code runs."""

from pathlib import Path

import matplotlib
import pytest

from docs.making import benchmarks, gallery, scenes
from tests.benchmarks import results


def test_each_page_of_a_kind_has_its_picture_and_the_gallery_is_current() -> None:
    pages = {path.stem for path in (gallery.DOCS / "kinds").glob("*.md")}
    drawn = {path.stem for path in (gallery.DOCS / "pictures" / "kinds").glob("*.png")}
    assert pages == drawn == {*scenes.SCENES}
    text = (gallery.DOCS / "gallery.md").read_text(encoding="utf-8")
    assert text == gallery.gallery(), "run `python -m docs.making.gallery`"
    named = {name for name in text.split() if name.startswith("[![")}
    assert named and all(path.name in text for path in (gallery.DOCS / "pictures" / "gallery").glob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize("page", scenes.SCENES)
def test_the_code_of_a_page_draws(page: str, tmp_path: Path) -> None:
    matplotlib.use("Agg")
    gallery.store(gallery.drawn(page, tmp_path), tmp_path / "again.png")
    assert (tmp_path / "again.png").stat().st_size > 2_000


def test_each_section_of_the_benchmarks_has_one_page() -> None:
    text = results.read()
    pages = benchmarks.split(text)
    assert list(pages) == list(benchmarks.PAGES)
    titles = list(results.sections(text))
    for title in titles:
        assert sum(f"\n## {title}\n" in page for page in pages.values()) == 1
        assert benchmarks.slug(title) in benchmarks.homes(text)
    assert all(page.count("\n## ") > 4 for page in pages.values())
    assert all(f"#{benchmarks.slug(title)})" in benchmarks.overview(text) for title in titles)
