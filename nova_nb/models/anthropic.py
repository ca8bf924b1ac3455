"""Claude models, over the official SDK (version 2: async, streaming).

Knows: how a body goes out and an answer comes back, what each of the provider's errors means for us,
and what each family can do (`claude.toml`). Does not know what is in a request or why. The SDK is imported at
the first request, in a thread, because that takes seconds. A key is kept by the SDK's client alone: it is
in no repr, no error and no log of ours.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import tomllib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, ModelError, ModelRefused, ModelUnavailable, PromptTooLong
from ..history.events import Block, Usage
from .base import Capabilities, Delta, Reply

_KNOWN = frozenset(
    """
    max_tokens messages model cache_control diagnostics inference_geo metadata output_config container service_tier speed
    stop_sequences system thinking tool_choice tools betas context_management
    """.split()  # noqa: SIM905
)
"""Body keys that are parameters of the SDK's `stream`; any other goes into the body as it is."""

_TOO_LONG = re.compile(r"(?i)prompt is too long|exceeds? the (maximum|context)|context (window|limit)|request_too_large")
_BUSY = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
_NEXT = {
    400: "look at the request (kernel.session.request()) for what it names",
    401: "set ANTHROPIC_API_KEY to a valid key, or pass api_key=",
    402: "add credit to the account that the key belongs to",
    403: "use a key that may use this model, or another model",
    404: "check the model's name",
}


class AnthropicModel:
    """A Claude model behind the Messages API.

    `base_url` and `api_key` default to ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. `max_retries` and `timeout`
    (seconds) are the SDK's: 429, 529, 5xx and broken connections are tried again that often before ModelUnavailable.
    """

    provider = "anthropic"

    def __init__(
        self,
        name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int = 2,
        timeout: float = 600.0,
    ) -> None:
        self.name = name
        self.capabilities = capabilities(name)
        self._base_url = base_url
        self._options: dict[str, Any] = {"api_key": api_key, "max_retries": max_retries, "timeout": timeout}
        self._client: tuple[asyncio.AbstractEventLoop, Any] | None = None

    async def send(self, body: dict[str, Any], on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """Stream an answer. Raises PromptTooLong, ModelRefused or ModelUnavailable; see `nova_nb.errors`."""
        async with aclosing(self._parts(body)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
                if on_delta is not None:
                    on_delta(part)
        raise ModelUnavailable("the answer ended before it was whole; ask again")

    async def _parts(self, body: dict[str, Any]) -> AsyncGenerator[Delta | Reply, None]:
        """The answer as it comes, at its end the whole of it. A generator, so that what `on_delta` raises is not
        taken for an error of the provider."""
        sdk = await _sdk()
        words = {"model": self.name, "max_tokens": min(32_000, self.capabilities.max_output_tokens), **body}
        extra = {key: words.pop(key) for key in list(words) if key not in _KNOWN}
        try:
            client = self._connect(sdk)
            # Fields behind a beta header are parameters of the beta namespace only.
            api = client.beta.messages if "betas" in words or "context_management" in words else client.messages
            async with api.stream(**words, extra_body=extra or None) as stream:
                async for event in stream:
                    if (delta := _delta(event)) is not None:
                        yield delta
                message = await stream.get_final_message()
        except Exception as error:
            raise _translated(sdk, error, self._redact) from None
        if message.stop_reason is None:
            # The SDK takes a stream that just ends for a whole answer; a cut tool call must not run.
            raise ModelUnavailable("the answer broke off in the middle; ask again")
        yield _reply(message)

    async def count_tokens(self, body: dict[str, Any]) -> int:
        """Input tokens of a request, counted by the provider; costs nothing but a call."""
        sdk = await _sdk()
        words = {key: body[key] for key in ("messages", "system", "tools", "thinking", "tool_choice") if key in body}
        try:
            counted = await self._connect(sdk).messages.count_tokens(model=body.get("model", self.name), **words)
        except Exception as error:
            raise _translated(sdk, error, self._redact) from None
        return int(counted.input_tokens)

    def _connect(self, sdk: Any) -> Any:
        """The SDK's client; its connections belong to one event loop, so another loop gets another client."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            self._client = (loop, sdk.AsyncAnthropic(base_url=self._base_url, **self._options))
        return self._client[1]

    def _redact(self, text: str) -> str:
        for key in (self._options["api_key"], os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN")):
            text = text.replace(key, "[key]") if key else text
        return text

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r})"


def _translated(sdk: Any, error: Exception, redact: Callable[[str], str]) -> ModelError:
    if isinstance(error, sdk.APIConnectionError):
        kind = "did not answer in time" if isinstance(error, sdk.APITimeoutError) else "cannot be reached"
        return ModelUnavailable(f"the Anthropic API {kind} (after the retries); check the network or base_url, then ask again")
    if isinstance(error, sdk.APIStatusError):
        said = redact(str(error.api_message or error.message).strip())
        at = f"{error.status_code} {error.type or 'error'}" + (f", request {error.request_id}" if error.request_id else "")
        if error.status_code == 413 or (error.status_code == 400 and _TOO_LONG.search(said)):
            return PromptTooLong(said)
        if error.status_code in (408, 409, 429) or error.status_code >= 500 or error.type in _BUSY:
            return ModelUnavailable(f"the Anthropic API gave no answer ({at}): {said}; wait a moment and ask again")
        return ModelRefused(f"the Anthropic API refused the request ({at}): {said}; {_NEXT.get(error.status_code, _NEXT[400])}")
    if isinstance(error, sdk.AnthropicError | TypeError):
        return ModelRefused(f"the Anthropic SDK cannot send this: {redact(str(error))}; if it is about the key: {_NEXT[401]}")
    # What the SDK lets through: a stream that broke off in the middle, or bytes that are no event.
    return ModelUnavailable(f"the answer broke off ({type(error).__name__}); ask again")


async def _sdk() -> Any:
    try:
        return await asyncio.to_thread(importlib.import_module, "anthropic")
    except ImportError as error:
        raise MissingExtra('a "claude-…" model needs the SDK: pip install "anthropic>=2.14,<3"') from error


def _delta(event: Any) -> Delta | None:
    if event.type == "text":
        return Delta("text", event.text)
    if event.type == "thinking":
        return Delta("thinking", event.thinking)
    if event.type == "content_block_start" and event.content_block.type == "tool_use":
        return Delta("tool_use", event.content_block.name)
    return None


def _reply(message: Any) -> Reply:
    usage = message.usage
    meta = {k: v for k in ("input_transformations", "context_management") if (v := _plain(getattr(message, k, None)))}
    return Reply(
        content=[_block(block) for block in message.content],
        stop_reason=message.stop_reason or "",
        usage=Usage(
            input=usage.input_tokens or 0,
            output=usage.output_tokens or 0,
            cache_read=usage.cache_read_input_tokens or 0,
            cache_write=usage.cache_creation_input_tokens or 0,
        ),
        model=message.model,
        id=message.id,
        meta=meta,
    )


def _block(block: Any) -> Block:
    """A block as the provider sent it; of what is ours to build, without fields that are empty."""
    data: Block = block.to_dict(mode="json", exclude_unset=True)
    return {k: v for k, v in data.items() if v is not None} if data.get("type") in ("text", "tool_use") else data


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.to_dict(mode="json") if hasattr(value, "to_dict") else value


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "claude.toml").read_text("utf-8"))


def capabilities(name: str) -> Capabilities:
    """What is known of a Claude model, by the longest family name that `name` begins with; see `claude.toml`.

    >>> capabilities("claude-opus-5-5").prefix_check, capabilities("claude-opus-5").prefix_check
    (True, False)
    """
    table = _table()
    family = max((f for f in table["family"] if name == f or name.startswith(f + "-")), key=len, default=None)
    return Capabilities(**{**table["default"], **(table["family"][family] if family else {})})
