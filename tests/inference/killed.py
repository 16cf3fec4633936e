"""What torchrun starts: a fit that keeps a checkpoint and may be killed, beside one that nothing disturbs.

``torchrun ... -m tests.inference.killed FOLDER METHOD ENGINE OPTIONS [KILLED AT]``: the folder has ``parts``. There
each process says of each of its lives which process of the system it is, where it went on, and what it found.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

import crowdppl


def main(folder: Path, method: str, engine: str, options: dict[str, Any], killed_at: int | None) -> None:
    dist.init_process_group("gloo")
    rank, life = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    (folder / f"pid-{rank}-{life}").write_text(f"{os.getpid()}")
    calls: list[int] = []

    def callback(t: int, _: float) -> None:
        if not calls:
            (folder / f"began-{rank}-{life}").write_text(f"{t}")
        calls.append(t)
        if t == killed_at and rank == 1 and life == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    data = crowdppl.Annotations.open(folder / "parts")
    how: Any = {"inference": engine, "seed": 0, **options}
    kept: Any = {"checkpoint": folder / "kept" / "checkpoint", "checkpoint_every": 2, "callback": callback}
    found = crowdppl.fit(method, data, **kept, **how)
    if not calls:
        (folder / f"began-{rank}-{life}").write_text("the last")
    whole = crowdppl.fit(method, data, **how)
    same = all(torch.equal(x, y) for x, y in zip(numbers(found), numbers(whole), strict=True))
    told = {"same": same, "of": whole.diagnostics()["iterations"], "life": life}
    (folder / f"found-{rank}").write_text(json.dumps(told))
    dist.destroy_process_group()


def numbers(posterior: crowdppl.Posterior) -> list[torch.Tensor]:
    """All that a fit tells."""
    sites = [site.mean for site in posterior.result.sites.values()]
    told = (*sites, posterior.result.probabilities, posterior.diagnostics()["objectives"])
    return [torch.as_tensor(x) for x in told]


if __name__ == "__main__":
    place, name, how, given, *at = sys.argv[1:]
    main(Path(place), name, how, json.loads(given), int(at[0]) if at else None)
