"""What a server bounds when its clients are not its friends: bodies, connections, and how long a client may take.

uvicorn bounds none of these by itself. Its HTTP protocol in pure Python is extended here by subclassing.
"""

from __future__ import annotations

import asyncio
import os
import resource
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

CLOSE = {"connection": "close"}
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: 35\r\n\r\n"
    b'{"detail":"too many are connected"}'
)
#: How many connections are accepted at once, and how many descriptors are left for other files.
BACKLOG, RESERVE = 128, 64


class BodyLimit:
    """ASGI middleware: the application reads at most `longest` bytes of a body, however its length is declared."""

    def __init__(self, app: ASGIApp, longest: int):
        self.app = app
        self.longest = longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        message = f"expected a body of at most {self.longest} bytes"
        if length and "transfer-encoding" in headers:  # a proxy might have taken the other one
            refusal = JSONResponse({"detail": "expected one length of the body, found two"}, 400, CLOSE)
            return await refusal(scope, receive, send)
        if length.isdecimal() and int(length[:20]) > self.longest:
            return await JSONResponse({"detail": message}, 413, CLOSE)(scope, receive, send)
        arrived = 0

        async def bounded() -> Message:
            nonlocal arrived
            part = await receive()
            arrived += len(part.get("body", b""))
            if arrived > self.longest:
                raise HTTPException(413, message, CLOSE)
            return part

        await self.app(scope, bounded, send)


class BoundedProtocol(H11Protocol):
    """A connection whose client must do its part in time: send a request, and take the answer.

    Attributes:
        most: how many connections may be open; the next one gets :data:`REFUSAL` at once.
        client_seconds: for a whole request, from the connection or the last answer on; half a request is cut off then,
            and so is who has not taken the last answer.
        server_seconds: for making and sending an answer.
    """

    most: int
    client_seconds: float
    server_seconds: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= self.most:
            transport.set_protocol(asyncio.Protocol())
            transport.write(REFUSAL)
            transport.close()
            return
        super().connection_made(transport)
        self._next_turn()

    def data_received(self, data: bytes) -> None:
        before = self._is_our_turn()
        super().data_received(data)
        if self._is_our_turn() != before:
            self._next_turn()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._next_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        if not self._is_our_turn():  # uvicorn would wait for the rest of the request
            self.transport.close()

    def _is_our_turn(self) -> bool:
        """Return whether a request is complete and not answered yet."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _next_turn(self) -> None:
        if self._timer:
            self._timer.cancel()
        seconds = self.server_seconds if self._is_our_turn() else self.client_seconds
        self._timer = self.loop.call_later(seconds, self.transport.abort)


def room_for_connections(wanted: int) -> tuple[int, int]:
    """How many connections there may be, `wanted` at most, and uvicorn's backlog, so that descriptors always suffice.

    Without a free one, asyncio tries to accept again and again. It accepts up to `backlog` connections in each turn of
    its loop, and one that is refused is closed three turns later. Raises the soft limit of descriptors where it must.
    """
    used = len(os.listdir("/dev/fd")) + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = used + wanted + 4 * BACKLOG
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = needed - used if soft == resource.RLIM_INFINITY else soft - used
    if room < 8:
        raise SystemExit(f"expected at least {used + 8} file descriptors, found {soft} (ulimit -n)")
    backlog = min(BACKLOG, room // 8)
    return min(wanted, room - 4 * backlog), backlog
