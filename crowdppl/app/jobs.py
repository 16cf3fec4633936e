"""The files that people gave: what was said of each, how far it is, and the process that works on it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

LEFT = 180.0
"""Seconds without a request about a file, after which its process ends; hidden pages ask each minute at least."""
LINE = 2**26
"""Bytes of an answer of a process at most."""
LONGEST = 100
"""Characters of a file's name that are kept."""

Stage = Literal["look", "labels", "fit", "done"]


Told = Callable[[Mapping[str, Any] | None], None]


class Worker:
    """The process of a file (``work.py``); ``told`` gets each answer, and None when it ends by itself."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.told = process, cast(Told, lambda answer: None)
        self.listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, folder: Path) -> Worker:
        """Starts it, with a folder for what it puts aside."""
        # What is found to be imported is what this process would import, and never a file that somebody gave.
        path = os.pathsep.join(place for place in sys.path if place)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "crowdppl.app.work"),
            stdin=pipe,
            stdout=pipe,
            limit=LINE,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)},
            start_new_session=True,  # Ctrl-C is for the server, which ends it
        )
        return cls(process)

    def order(self, **what: Any) -> None:
        """Gives an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what).encode() + b"\n")

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told(json.loads(line))
        await self.process.wait()
        self.told(None)

    async def end(self) -> None:
        """Ends it at once."""
        self.listening.cancel()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass(eq=False)
class Job:
    """A file, what was said of it, and how far it is.

    Attributes:
        stage: it is looked at, its labels are there to be checked, it is fitted, or its report is done.
        said: fields of the page of labels.
        found: what was recognised.
        error, at: what is wrong, and at which field.
        notice: key of a sentence about why a fit is not there.
        report: name of the file that was written last.
        progress: the latest word of the fit.
    """

    id: str
    folder: Path
    file: Path
    language: str
    said: dict[str, str] = field(default_factory=dict)
    stage: Stage = "look"
    found: dict[str, Any] = field(default_factory=lambda: {"columns": [], "rows": []})
    error: str = ""
    at: str = ""
    notice: str = ""
    report: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)
    began: float = 0.0
    seen: float = field(default_factory=time.monotonic)
    worker: Worker | None = None

    @property
    def out(self) -> Path:
        """The folder of the result."""
        return self.folder / "result"

    @property
    def busy(self) -> bool:
        """Whether its process is at work."""
        return self.stage in ("look", "fit")

    async def begin(self, stage: Literal["look", "fit"], jobs: Jobs) -> None:
        """Lets the process look at the file, or fit; what it did before is left."""
        if self.busy:
            await self.leave("")
        self.stage, self.began = stage, time.monotonic()
        self.error = self.at = self.notice = ""
        self.progress = {"step": "read"}
        if self.worker is None:
            self.worker = await jobs.worker()
            self.worker.told = self._told
        where = {"path": str(self.file), "out": str(self.out)}
        self.worker.order(do=stage, said=self.said, language=self.language, **where)

    def _told(self, answer: Mapping[str, Any] | None) -> None:
        """Takes an answer of the process."""
        if answer is None:
            self.worker = None
            if self.busy:
                self.stage, self.notice = "labels", "ended"
        elif "found" in answer:
            self.stage, self.found = "labels", dict(answer["found"])
            self.error, self.at = self.found.get("error", ""), self.found.get("field", "")
        elif "done" in answer:
            self.stage, self.report = "done", answer["done"]
        elif "error" in answer:
            self.stage, self.error, self.at = "labels", answer["error"], answer["field"]
            self.found["offers"] = answer["offers"]
        else:
            self.progress = answer

    async def leave(self, notice: str) -> None:
        """Ends the process; a later order starts another."""
        if self.worker is not None:
            worker, self.worker = self.worker, None
            await worker.end()
        if self.busy:
            self.stage, self.notice = "labels", notice


class Jobs:
    """All files of a session, in a folder.

    Attributes:
        left: seconds after which a process ends that nobody asks for.
    """

    def __init__(self, folder: Path, left: float = LEFT) -> None:
        self.folder, self.left = folder, left
        self.all: dict[str, Job] = {}
        self._spare: asyncio.Task[Worker] | None = None

    def new(self, language: str) -> Job:
        """A place for a file, which is still to come."""
        id = secrets.token_urlsafe(9)
        folder = self.folder / id
        folder.mkdir(mode=0o700)
        return Job(id, folder, folder, language)

    def prepare(self) -> None:
        """Starts a process for a file that may come, as it has much to import."""
        if self._spare is None:
            self._spare = asyncio.create_task(Worker.start(self.folder))

    async def worker(self) -> Worker:
        """A process without orders."""
        taken, self._spare = self._spare, None
        found = await (taken or Worker.start(self.folder))
        return found if found.process.returncode is None else await Worker.start(self.folder)

    async def watch(self) -> None:
        """Ends processes that nobody asks for, until it is cancelled."""
        while True:
            await asyncio.sleep(min(1.0, self.left))
            now = time.monotonic()
            for job in list(self.all.values()):
                if job.worker is not None and now - job.seen > self.left:
                    await job.leave("left")

    async def end(self) -> None:
        """Ends all processes."""
        if self._spare is not None:
            await (await self._spare).end()
        for job in self.all.values():
            await job.leave("")


def safe_name(name: str) -> str:
    """The name of a file as a person gave it, without what leads elsewhere or hides it."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w.() -]", "_", last).lstrip(". ")[-LONGEST:] or "labels"
