"""Doorway to the zoo: makes ``crowdppl.models`` the folder ``models/`` that lies beside the library.

A wheel holds that folder as the package ``crowdppl/models/``, which Python prefers over this module, so that
this module runs only in a checkout, installed in place or not at all. It loads the folder under its own name
and leaves the result in ``sys.modules``, which is what ``import`` returns.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_zoo = Path(__file__).resolve().parent.parent / "models"
_spec = spec_from_file_location(__name__, _zoo / "__init__.py", submodule_search_locations=[str(_zoo)])
if _spec is None or _spec.loader is None or not (_zoo / "__init__.py").is_file():
    raise ImportError(
        f"the zoo is missing: {_zoo} holds no __init__.py. Keep crowdppl/ and models/ side by side as in the "
        "repository, or install crowdppl with pip",
        name=__name__,
        path=str(_zoo),
    )
_package = module_from_spec(_spec)
sys.modules[__name__] = _package
_spec.loader.exec_module(_package)
