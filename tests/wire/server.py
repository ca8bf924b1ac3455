"""A local server that speaks the Messages API, for any room's tests: JSON and SSE, faults on demand, the prefix check.

Knows: the wire. Who answers is a `Model` (the offline one by default), so a whole kernel can run over HTTP:

    with WireServer() as server:
        model = AnthropicModel("claude-opus-5-5", base_url=server.url, api_key=server.key)
        server.fail("overloaded", times=2)      # the next two requests get a 529
        ...
        server.seen[-1].body                    # what came in

It refuses what the real API refuses and a projection could get wrong: calls without results, results
without calls, repeated ids, empty texts, a conversation that does not begin with the user. With
`thinking=True` each answer begins with a signed thinking block, and `prefix_check` makes it check the
signatures that come back, as documented on 2026-11-30 ("Prefix checks on thinking blocks"):
"error" refuses with 400 unless the request asks for `drop_block`, "report" lets the block pass and names
it in `input_transformations` as `thinking_mismatch_allowed`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nova_nb.errors import ModelRefused, PromptTooLong
from nova_nb.models.base import Model, Reply
from nova_nb.models.offline import OfflineModel
from nova_nb.models.prompt_cache import size

from .checks import Refused, check_prefix, check_protocol, signed_thinking

FAULTS: dict[str, tuple[int, str, str]] = {
    "bad_request": (400, "invalid_request_error", "max_tokens: Field required"),
    "too_long": (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "unauthorized": (401, "authentication_error", "invalid x-api-key"),
    "forbidden": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "not_found": (404, "not_found_error", "model: claude-none"),
    "rate_limited": (429, "rate_limit_error", "Number of requests has exceeded your rate limit"),
    "server_error": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
}
"""Status, error type and message of each fault that is an answer. Others: "hang" gives none, "cut" breaks the
stream off in the middle, "error_event" ends it with an error event."""


@dataclass
class Seen:
    """A request that came in."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)


class WireServer:
    """The server, as a context manager; `url` while it runs, `seen` for what came in."""

    def __init__(
        self, model: Model | None = None, key: str = "test-key", thinking: bool = False, prefix_check: str | None = None
    ) -> None:
        self.model = model or OfflineModel()
        self.key = key
        self.thinking = thinking
        self.prefix_check = prefix_check
        self.seen: list[Seen] = []
        self.transformations: list[dict[str, Any]] = []
        """every entry of `input_transformations` that was answered"""
        self._faults: deque[str] = deque()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        routes = [
            Route("/v1/messages", self._messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def fail(self, fault: str, times: int = 1) -> None:
        """The next requests get this fault; see `FAULTS`."""
        if fault not in FAULTS and fault not in ("hang", "cut", "error_event"):
            raise ValueError(f"no fault {fault!r}")
        self._faults.extend([fault] * times)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    async def _messages(self, request: Request) -> Response:
        body = await self._take(request)
        fault = self._faults.popleft() if self._faults else None
        if fault in FAULTS:
            return _error(*FAULTS[fault])
        if fault == "hang":
            await asyncio.sleep(3)
        if self._keyless(request):
            return _error(*FAULTS["unauthorized"])
        try:
            check_protocol(body)
            body, changes = check_prefix(body, request.headers.get("anthropic-beta", ""), self.prefix_check)
            reply = await self.model.send({k: v for k, v in body.items() if k != "stream"})
        except (Refused, PromptTooLong, ModelRefused) as refusal:
            return _error(400, "invalid_request_error", str(refusal))
        self.transformations += changes
        content = [signed_thinking(body), *reply.content] if self.thinking else reply.content
        message = _message(body, reply, content, changes)
        if not body.get("stream"):
            return JSONResponse(message)
        return StreamingResponse(_events(message, fault), media_type="text/event-stream")

    async def _count(self, request: Request) -> Response:
        body = await self._take(request)
        return _error(*FAULTS["unauthorized"]) if self._keyless(request) else JSONResponse({"input_tokens": size(body)})

    async def _take(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.seen.append(Seen(request.url.path, body, dict(request.headers)))
        return body

    def _keyless(self, request: Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.key not in (bearer, request.headers.get("x-api-key"))


def _error(status: int, kind: str, message: str) -> JSONResponse:
    headers = {"request-id": "req_test", "retry-after-ms": "5"}
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status, headers)


def _message(body: dict[str, Any], reply: Reply, content: list[Any], changes: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.usage.input,
        "output_tokens": reply.usage.output,
        "cache_read_input_tokens": reply.usage.cache_read,
        "cache_creation_input_tokens": reply.usage.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": reply.usage.cache_write, "ephemeral_1h_input_tokens": 0},
    }
    message = {"id": reply.id, "type": "message", "role": "assistant", "model": body["model"], "content": content}
    message |= {"stop_reason": reply.stop_reason, "stop_sequence": None, "usage": usage}
    return message | ({"input_transformations": changes} if changes else {})


async def _events(message: dict[str, Any], fault: str | None) -> AsyncIterator[str]:
    """The message as server-sent events: texts by word, inputs in pieces of seven characters."""

    def event(name: str, **data: Any) -> str:
        return f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n"

    usage = {**message["usage"], "output_tokens": 1}
    yield event("message_start", message={**message, "content": [], "stop_reason": None, "usage": usage})
    yield event("ping")
    for i, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": t} for t in _words(block["text"])]
        elif block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas += [{"type": "signature_delta", "signature": block["signature"]}]
        else:
            text = json.dumps(block["input"], ensure_ascii=False)
            start = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": text[k : k + 7]} for k in range(0, len(text), 7)]
        yield event("content_block_start", index=i, content_block=start)
        for delta in deltas:
            yield event("content_block_delta", index=i, delta=delta)
            if fault == "cut":
                return
            if fault == "error_event":
                yield event("error", error={"type": "overloaded_error", "message": "Overloaded"})
                return
        yield event("content_block_stop", index=i)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage=message["usage"])
    yield event("message_stop")


def _words(text: str) -> list[str]:
    return text.replace(" ", " \0").split("\0")
