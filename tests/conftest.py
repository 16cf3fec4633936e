"""What all tests share: one thread a process, real data where there are any, a clean Pyro, no open figures."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Before torch is imported: several workers with several threads each are slower than either.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real annotations that CROWDPPL_DATA names; tests on them are skipped without it."""
    folder = os.environ.get("CROWDPPL_DATA")
    if not folder:
        pytest.skip("real data: set CROWDPPL_DATA to the folder that holds them")
    if not Path(folder).is_dir():
        pytest.fail(f"CROWDPPL_DATA names {folder}, which is no folder")
    return Path(folder)


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def browser() -> Iterator[Any]:
    """A browser without a window; needs the extra docs and Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser: install the extra docs")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"the browser: none of {', '.join(BROWSERS)} is installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets blocks of data read from now on hold about so many labels."""
    return lambda n_labels: monkeypatch.setattr("crowdppl.data.coded.BLOCK_LABELS", n_labels)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Float64 as torch's default, as engines run models."""
    import torch  # where a test asks for it

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """Leaves no parameter of one test's guide, no registered method and no figure to the next."""
    registry = sys.modules.get("crowdppl.registry")
    registered = dict(registry._registered) if registry else {}
    yield
    if registry := sys.modules.get("crowdppl.registry"):
        registry._registered.clear()
        registry._registered.update(registered)
    if "pyro" in sys.modules:
        sys.modules["pyro"].clear_param_store()
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
