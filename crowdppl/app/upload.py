"""Forms and files that a browser sends, up to a size."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message

ROOM = 2**20
"""Bytes of a form beside its file."""


class TooLargeError(Exception):
    """More was sent than is taken."""


async def received(request: Request, most: int) -> FormData:
    """A form whose files lie in the temporary folder; TooLargeError as soon as it is larger than ``most`` bytes.

    What a browser still sends then is read and dropped, for it shows no answer before.
    """
    left, ended = most + ROOM, False

    async def receive() -> Message:
        nonlocal left, ended
        message = await request.receive()
        left -= len(message.get("body", b""))
        ended = not message.get("more_body", False)
        if left < 0:
            raise TooLargeError
        return message

    try:
        if int(request.headers.get("content-length", 0)) > most + ROOM:
            raise TooLargeError
        return await Request(request.scope, receive).form(max_files=1, max_fields=100)
    except TooLargeError:
        while not ended:
            message = await request.receive()
            ended = not message.get("more_body", False)
        raise


async def kept(file: UploadFile, path: Path) -> None:
    """Writes a file that was received to a place of its own."""

    def write() -> None:
        with path.open("wb") as new:
            while part := file.file.read(ROOM):
                new.write(part)

    await run_in_threadpool(write)
    await file.close()
