"""Limits of bodies, connections, and the time that a client may take.

uvicorn bounds none of these by itself. Its HTTP protocol in pure Python is extended here by subclassing.
"""

from __future__ import annotations

import asyncio
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
#: Connections that are accepted in one turn of asyncio's loop; one that is refused is closed three turns later.
BACKLOG = 128


class BodyLimit:
    """ASGI middleware that reads at most `longest` bytes of a body."""

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
    """A connection whose client must send a request, and take the answer, in time.

    Attributes:
        most: connections that may be open; the next one gets :data:`REFUSAL` at once.
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
        """Return whether a request is complete, and its answer is not."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _next_turn(self) -> None:
        if self._timer:
            self._timer.cancel()
        seconds = self.server_seconds if self._is_our_turn() else self.client_seconds
        self._timer = self.loop.call_later(seconds, self.transport.abort)
