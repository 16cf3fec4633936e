"""The server: an address a page, on this machine alone, and one temporary folder that goes with it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import tempfile
import time
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from crowdppl.app.guard import OF_REPORTS, TOKEN, Guard
from crowdppl.app.jobs import LEFT, Job, Jobs, safe_name
from crowdppl.app.pages import FILES, language_of, page, read, sentence
from crowdppl.app.upload import TooLargeError, kept, received

MEGABYTE = 1_000_000
MOST = 500
"""Megabytes of a file at most, where nobody says another number."""
ASKED = 1.0
"""Seconds between two questions of a page that waits."""
FIELDS = (
    *("kind", "columns", "classes", "item", "second", "annotator", "label", "gold", "text", "who", "method"),
    *("format", "delimiter", "encoding", "decimal", "abstain"),
)
"""Fields of the page of labels."""
FIRST = ("labels.csv", "annotators.csv", "check.csv", "ask_next.csv")
"""Tables that are named first."""


@dataclass
class App:
    """The pages, and the files that people gave.

    Attributes:
        most: bytes of a file at most.
    """

    jobs: Jobs
    most: int

    def routes(self) -> list[Route]:
        """The pages by their addresses."""
        return [
            Route("/", self.start),
            Route("/jobs", self.give, methods=["POST"]),
            Route("/jobs/{id}", self.where),
            Route("/jobs/{id}/state", self.state),
            Route("/jobs/{id}/labels", self.labels),
            Route("/jobs/{id}/labels", self.correct, methods=["POST"]),
            Route("/jobs/{id}/cancel", self.cancel, methods=["POST"]),
            Route("/jobs/{id}/result", self.result),
            Route("/jobs/{id}/report", self.report),
            Route("/jobs/{id}/all", self.everything),
            Route("/jobs/{id}/files/{name}", self.download),
            Route("/files/{name}", self.file),
        ]

    async def start(self, request: Request) -> Response:
        """The page on which a file is given."""
        self.jobs.prepare()
        return self._start(request)

    def _start(self, request: Request, status: int = 200, wrong: str = "") -> Response:
        done = reversed(self.jobs.all.values())
        return page(
            request, "start", status, jobs=[*done], most=self.most, megabytes=self.most // MEGABYTE, wrong=wrong
        )

    async def give(self, request: Request) -> Response:
        """Takes a file, and begins to look at it."""
        try:
            form = await received(request, self.most)
        except TooLargeError:
            return self._start(request, 413, "large")
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            return self._start(request, 400, "none")
        job = self.jobs.new(language_of(request))
        job.file = job.folder / safe_name(file.filename)
        await kept(file, job.file)
        self.jobs.all[job.id] = job
        await job.begin("look", self.jobs)
        return RedirectResponse(f"/jobs/{job.id}", 303)

    def _job(self, request: Request) -> Job:
        """The file of an address, for which somebody asks."""
        job = self.jobs.all.get(request.path_params["id"])
        if job is None:
            raise HTTPException(404)
        job.seen = time.monotonic()
        return job

    async def where(self, request: Request) -> Response:
        """The page of a file as far as it is: one to wait, its labels, or its report."""
        job = self._job(request)
        if job.busy:
            progress: Any = self._progress(request, job)
            return page(request, "wait", job=job, often=ASKED, **progress)
        return RedirectResponse(f"/jobs/{job.id}/{'result' if job.stage == 'done' else 'labels'}", 303)

    async def state(self, request: Request) -> Response:
        """How far it is, for the page that waits."""
        job = self._job(request)
        return JSONResponse({"busy": job.busy, **(self._progress(request, job) if job.busy else {})})

    def _progress(self, request: Request, job: Job) -> dict[str, str]:
        seconds, step = int(time.monotonic() - job.began), job.progress["step"]
        key = "look" if job.stage == "look" else step
        return {
            "doing": sentence(request, f"app.wait.{key}", {"n": job.progress.get("n", 0)}),
            "since": sentence(request, "app.wait.since", {"n": seconds}),
        }

    async def labels(self, request: Request) -> Response:
        """What was recognised, and what can be said otherwise."""
        job = self._job(request)
        if job.busy:
            return RedirectResponse(f"/jobs/{job.id}", 303)
        return page(request, "labels", job=job, most=self.most, megabytes=self.most // MEGABYTE)

    async def correct(self, request: Request) -> Response:
        """Takes what was said of the labels, and looks again or fits."""
        job = self._job(request)
        try:
            form = await received(request, self.most)
        except TooLargeError:
            job.error, job.at, job.notice = "", "gold_file", "large"
            return RedirectResponse(f"/jobs/{job.id}/labels", 303)
        said = {name: str(form[name]) for name in FIELDS if form.get(name)}
        said |= await self._checked(job, form)
        offers = job.found.get("offers", [])
        if (number := str(form.get("offer", ""))).isdigit() and int(number) < len(offers):
            said |= offers[int(number)]
        job.said, job.language = said, language_of(request)
        await job.begin("fit" if form.get("do") == "fit" else "look", self.jobs)
        return RedirectResponse(f"/jobs/{job.id}", 303)

    async def _checked(self, job: Job, form: FormData) -> dict[str, str]:
        """The file of known truths: a new one, or that of before unless it is to go."""
        file, before = form.get("gold_file"), job.said.get("gold_file", "")
        if isinstance(file, UploadFile) and file.filename:
            folder = job.folder / token_urlsafe(6)  # of its own, as it may be called as the other one is
            folder.mkdir()
            path = folder / safe_name(file.filename)
            await kept(file, path)
            return {"gold_file": str(path)}
        return {"gold_file": before} if before and not form.get("no_gold_file") else {}

    async def cancel(self, request: Request) -> Response:
        """Ends what is going on."""
        job = self._job(request)
        await job.leave("cancelled")
        return RedirectResponse(f"/jobs/{job.id}", 303)

    def _done(self, request: Request) -> Job:
        """A file whose report is there."""
        job = self._job(request)
        if job.stage != "done":
            raise HTTPException(404)
        return job

    async def result(self, request: Request) -> Response:
        """The report, and what can be saved."""
        try:
            job = self._done(request)
        except HTTPException:
            return RedirectResponse(f"/jobs/{self._job(request).id}", 303)
        return page(request, "result", job=job, tables=tables(job.out))

    async def report(self, request: Request) -> Response:
        """The report alone, to be shown or saved."""
        job, saved = self._done(request), "save" in request.query_params
        how: Any = {"headers": {"Content-Security-Policy": OF_REPORTS}, "media_type": "text/html"}
        return FileResponse(job.out / job.report, filename=job.report if saved else None, **how)

    async def download(self, request: Request) -> Response:
        """A table of the result."""
        job, name = self._done(request), request.path_params["name"]
        if name not in tables(job.out):
            raise HTTPException(404)
        return FileResponse(job.out / name, filename=name)

    async def everything(self, request: Request) -> Response:
        """All files of the result in one."""
        job = self._done(request)
        made = await run_in_threadpool(shutil.make_archive, str(job.folder / "all"), "zip", job.out)
        return FileResponse(made, filename=f"{job.file.stem}.zip")

    async def file(self, request: Request) -> Response:
        """A style or script of the pages."""
        name = request.path_params["name"]
        if name not in FILES:
            raise HTTPException(404)
        return Response(read(name), media_type=FILES[name])


def tables(folder: Path) -> list[str]:
    """The tables of a result, the usual ones first."""
    names = sorted(path.name for path in folder.glob("*.csv"))
    return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def application(folder: Path, token: str, port: int, most: int, left: float = LEFT) -> Starlette:
    """The app as ASGI: its pages behind the guard; processes end with it."""
    app = App(Jobs(folder, left), most)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        watching = asyncio.create_task(app.jobs.watch())
        yield
        watching.cancel()
        await app.jobs.end()

    async def missing(request: Request, error: Exception) -> Response:
        return page(request, "missing", getattr(error, "status_code", 404))

    guard = Middleware(Guard, token=token, port=port)
    return Starlette(
        routes=app.routes(), middleware=[guard], lifespan=lifespan, exception_handlers={HTTPException: missing}
    )


def serve(port: int = 0, browser: bool = True, most: int = MOST, left: float = LEFT) -> None:
    """Serves the pages on 127.0.0.1 until Ctrl-C or SIGTERM, and leaves nothing behind.

    Args:
        port: by default a free one.
        browser: whether to open the first page.
        most: megabytes of a file at most.
        left: seconds after which the process of a file ends that no page asks for.
    """

    def stop(*_: Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP"):  # the terminal was closed
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="crowdppl-") as made:
        tempfile.tempdir = made  # for parts of files that are still coming
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind(("127.0.0.1", port))
            place.listen()
            port, token = place.getsockname()[1], token_urlsafe(24)
            address = f"http://127.0.0.1:{port}/?{TOKEN}={token}"
            app = application(Path(made), token, port, most * MEGABYTE, left)
            quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False, "ws": "none"}
            server = uvicorn.Server(uvicorn.Config(app, proxy_headers=False, timeout_graceful_shutdown=1, **quiet))
            print(f"crowdppl is at {address}\nFiles stay on this machine. Ctrl-C ends it.", flush=True)
            if browser:
                Thread(target=webbrowser.open, args=[address], daemon=True).start()  # some wait until they end
            server.run(sockets=[place])
