"""What an installation holds and costs: the zoo everywhere, pinned versions, and a light import."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import crowdppl

PROBE = '''"""A method of fewest words."""
class Probe:
    def __init__(self, size=1):
        self.size = size
    def model(self, data):
        return self.size
'''
LOOK = """
import pkgutil, crowdppl.models
from crowdppl.models.probe import Probe
assert type(crowdppl.method("probe", size=3)) is Probe
print(crowdppl.__file__)
print(*sorted(module.name for module in pkgutil.iter_modules(crowdppl.models.__path__)))
"""
# Each takes a good part of a second to import, and only some calls need it.
HEAVY = ["arviz", "h5py", "matplotlib", "pooch", "sklearn", "statsmodels", "typer", "xarray"]
HEAVIER = [*HEAVY, "pandas", "pyarrow", "scipy.stats", "torch"]
STEP = """
import torch
from crowdppl.inference.optimisers import adamw
weights = torch.ones(2, requires_grad=True)
optimiser = adamw([weights], lr=0.1)
weights.sum().backward()
optimiser.step()
optimiser.load_state_dict(optimiser.state_dict())
optimiser.zero_grad()
assert (weights < 1).all()
"""


def run(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Runs a command in another folder, with nothing of this process on its path; returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def source(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged, with one more method, so that building leaves no trace in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for folder in ("crowdppl", "models"):
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / file, copy)
    (copy / "models" / "probe.py").write_text(PROBE)
    return copy


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a fresh environment that sees this one's packages, but none installed in place."""
    venv.create(tmp_path / "env", with_pip=False)
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    (site / "these.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "env" / "bin" / "python"


def methods(source: Path) -> str:
    return " ".join(sorted(p.stem for p in (source / "models").glob("*.py") if p.stem != "__init__"))


def test_the_wheel_holds_the_library_and_the_zoo(source: Path, tmp_path: Path) -> None:
    quiet = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", *quiet, "-w", tmp_path, source, cwd=tmp_path)
    wheel = zipfile.ZipFile(next(tmp_path.glob("crowdppl-*.whl")))
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    library = {str(p.relative_to(source)) for p in (source / "crowdppl").rglob("*") if p.is_file()}
    zoo = {f"crowdppl/models/{p.name}" for p in (source / "models").glob("*.py")}
    assert packed == library | zoo
    assert {"crowdppl/py.typed", "crowdppl/models/probe.py"} <= packed
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["install", "editable", "not installed"])
def test_the_zoo_is_there_however_installed(source: Path, python: Path, tmp_path: Path, how: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if how != "not installed":
        quiet = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
        target = ("-e", source) if how == "editable" else (source,)
        run(sys.executable, "-m", "pip", "--python", python, "install", *quiet, *target, cwd=elsewhere)
        assert (python.parent / "crowdppl").exists(), "no console script"
    printed = run(python, "-c", LOOK, cwd=elsewhere, path=source if how == "not installed" else None)
    where, found = printed.splitlines()
    assert Path(where).is_relative_to(python.parent.parent if how == "install" else source)
    assert found == methods(source)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import crowdppl", HEAVIER),
        ("import crowdppl; [getattr(crowdppl, name) for name in crowdppl.__all__]", HEAVY),
        ("import crowdppl.posterior", [*HEAVY, "scipy"]),
        (STEP, ["torch._dynamo"]),
    ],
    ids=["import crowdppl", "every public name", "what a fit needs", "a step of a network"],
)
def test_importing_is_cheap(root: Path, tmp_path: Path, code: str, absent: list[str]) -> None:
    listing = f"import sys\nprint(*sorted(set({absent!r}) & sys.modules.keys()))"
    assert run(sys.executable, "-c", f"{code}\n{listing}", cwd=tmp_path, path=root) == ""


def test_public_names_exist() -> None:
    for name in crowdppl.__all__:
        assert getattr(crowdppl, name).__doc__, name
    with pytest.raises(AttributeError, match="fitt"):
        crowdppl.fitt  # noqa: B018


def test_every_dependency_is_pinned(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    pins = [line for line in (root / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    pinned = {}
    for pin in map(Requirement, pins):
        for version in ("3.11", "3.12", "3.13"):
            if pin.marker is None or pin.marker.evaluate({"python_version": version}):
                assert (pin.name, version) not in pinned, f"{pin.name} is pinned twice for Python {version}"
                pinned[pin.name, version] = next(iter(pin.specifier)).version
    for need in map(Requirement, wanted):
        if need.name == project["name"]:  # an extra that takes another one in
            continue
        for version in ("3.11", "3.12", "3.13"):
            assert need.specifier.contains(pinned[need.name, version]), f"{need} on Python {version}"


def test_one_version_everywhere(root: Path) -> None:
    citation = (root / "CITATION.cff").read_text()
    assert re.search(rf"^version: {re.escape(crowdppl.__version__)}$", citation, re.MULTILINE)
    assert f"## {crowdppl.__version__}" in (root / "CHANGELOG.md").read_text()
