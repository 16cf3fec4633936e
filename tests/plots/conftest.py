"""Figures are closed after each test."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")
