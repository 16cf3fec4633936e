"""What benchmarks share: where their tables go, and the peers."""

from __future__ import annotations

import pytest

from tests.benchmarks.recorder import Recorder


@pytest.fixture(scope="session")
def recorder(request: pytest.FixtureRequest) -> Recorder:
    """Where sections of the results go: the command's own recorder, or one that only prints."""
    found = (plugin for plugin in request.config.pluginmanager.get_plugins() if isinstance(plugin, Recorder))
    return next(found, Recorder())
