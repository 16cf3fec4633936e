"""On what and with which versions a benchmark ran, in words."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("crowdppl", "torch", "pyro-ppl", "numpy", "pandas", "crowd-kit", "numpyro", "jax")


def processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown memory"
    return f"{size / 2**30:.0f} GiB"


def versions() -> dict[str, str]:
    """Versions of crowdppl, of what it stands on and of the peers; "not installed" for what is not there."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = _of_the_checkout() if name == "crowdppl" else "not installed"
    return found


def describe() -> str:
    """The machine and the versions, as a paragraph."""
    listed = ", ".join(f"{name} {number}" for name, number in versions().items())
    return (
        f"Machine: {processor()}, {os.cpu_count()} cores, {memory()}, {platform.system()} "
        f"{platform.machine()}. Versions: {listed}."
    )


def _of_the_checkout() -> str:
    import crowdppl

    return crowdppl.__version__
