"""What benchmarks share: their mark, silence, and where their tables go."""

from pathlib import Path

import pytest

from tests.benchmarks.results import Recorder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks benchmarks as such; the warnings of their fits are not shown."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.bench)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def recorder(request: pytest.FixtureRequest) -> Recorder:
    """Where sections of the results go: the command's own recorder, or one that only prints."""
    found = (plugin for plugin in request.config.pluginmanager.get_plugins() if isinstance(plugin, Recorder))
    return next(found, Recorder())
