"""When the summary call itself does not fit: smaller and smaller, with an end that needs no model.

Knows: the rungs of the ladder, each a pure function of the messages, and when to stop. Does not
touch history: what is shrunk here is only what the summary is made from.

    arguments  →  results  →  repeated results  →  the oldest units, one by one  →  a summary without a model
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from ..history.events import Block, RequestSent
from ..settings import ContextSettings
from .calls import grouped
from .confidence import words
from .invariants import PROTOCOL, safe_cuts
from .ledger import Entry
from .pieces import Piece, block_chars
from .repair import Message, made_up, replaced
from .spill import result_text
from .summary import mechanical

CUT_CHARS = 400
"""characters that stay of a shrunk argument or result: half from its start, half from its end"""


class Shrunk(msgspec.Struct, frozen=True):
    """Messages that fit, or (`fits` False) what is left when nothing more can go."""

    pieces: list[Piece]
    tokens: int
    fits: bool
    entries: list[Entry]


def shrink(pieces: Sequence[Piece], limit_tokens: int, settings: ContextSettings) -> Shrunk:
    """As much of a history as fits `limit_tokens`, by the fewest rungs. The latest message always stays last."""
    messages = grouped(pieces)
    entries: list[Entry] = []
    rungs: list[tuple[str, Callable[[list[Message]], list[Message]]]] = [
        ("arguments", lambda m: _each(m, _short_arguments)),
        ("results", lambda m: _each(m, _short_result)),
        ("repeats", _without_repeats),
        ("oldest", lambda m: _without_oldest(m, limit_tokens, settings)),
    ]
    tokens = _tokens(messages, settings)
    for name, rung in rungs:
        if tokens <= limit_tokens:
            break
        smaller = rung(messages)
        after = _tokens(smaller, settings)
        changed = sum(map(len, messages)) - sum(map(len, smaller)) or sum(
            a is not b for m, n in zip(messages, smaller, strict=False) for a, b in zip(m, n, strict=False)
        )
        entries.append(Entry("overflow", after < tokens, name, f"over {limit_tokens:,} tokens", tokens, after, changed))
        messages, tokens = smaller, after
    return Shrunk([p for m in messages for p in m], tokens, tokens <= limit_tokens, entries)


def as_sent(pieces: Sequence[Piece], sent: RequestSent, settings: ContextSettings) -> Sequence[Piece]:
    """What a request carried beyond (or short of) the projection: the instruction of a summary call, of a fold's only
    what it folds, and the ladder's work where that call would not have fitted. Derived again from the log, like everything else."""
    if (only := sent.meta.get("only")) is not None:
        pieces = alone(pieces, only)
    if (limit := sent.meta.get("shrink_to")) is not None:
        pieces = shrink(pieces, limit, settings).pieces
    extra = [
        Piece(f"{sent.id}:{i}:{j}", f"{sent.id}:{i}", m["role"], block, (sent.id,), "reminder", sent.kind, block_chars(block))
        for i, m in enumerate(sent.meta.get("append", []))
        for j, block in enumerate(m["content"])
    ]
    return [*pieces, *extra] if extra else pieces


def alone(pieces: Sequence[Piece], ids: Collection[str]) -> list[Piece]:
    """A run of messages as a conversation of its own, which begins with a user message as providers want it."""
    run = [p for p in pieces if p.sources[0] in ids]
    if not run or run[0].role == "user":
        return run
    return [made_up("alone", "<context>From the middle of a longer conversation.</context>", run[0].sources, "reminder"), *run]


def without_model(pieces: Sequence[Piece], settings: ContextSettings, limit_chars: int | None = None) -> str:
    """The last rung: a summary made by rule, within the size asked of a model's, or `limit_chars`."""
    texts = []
    for piece in pieces:
        if piece.block.get("type") == "text":
            texts.append(("person" if piece.role == "user" and piece.state == "whole" else "model", words(piece)))
        elif piece.block.get("type") == "tool_use":
            texts.append(("tool", ""))
    limit = int(settings.summary_max_tokens * settings.chars_per_token) if limit_chars is None else limit_chars
    return mechanical(texts, limit)


def _tokens(messages: Sequence[Message], settings: ContextSettings) -> int:
    return int(sum(p.chars for m in messages for p in m) / settings.chars_per_token)


def _each(messages: list[Message], shorter: Callable[[Piece], Piece]) -> list[Message]:
    return [[shorter(p) for p in m] for m in messages]


def middle_cut(text: str, keep: int = CUT_CHARS) -> str:
    """The start and the end of a long text.

    >>> middle_cut("a" * 600 + "b" * 600, 8)
    'aaaa\\n[… 1,192 characters left out …]\\nbbbb'
    """
    if len(text) <= keep + 60:
        return text
    half = keep // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _short_arguments(piece: Piece) -> Piece:
    if piece.block.get("type") != "tool_use" or piece.chars <= CUT_CHARS:
        return piece
    arguments = piece.block.get("input") or {}
    short = {k: middle_cut(v) if isinstance(v, str) else v for k, v in arguments.items()}
    return piece if short == arguments else replaced(piece, {**piece.block, "input": short}, "placeholder", "overflow")


def _short_result(piece: Piece) -> Piece:
    if piece.block.get("type") != "tool_result" or piece.chars <= CUT_CHARS + 60:
        return piece
    block: Block = {**piece.block, "content": middle_cut(result_text(piece.block))}
    return replaced(piece, block, "placeholder", "overflow")


def _without_repeats(messages: list[Message]) -> list[Message]:
    seen: set[str] = set()

    def once(piece: Piece) -> Piece:
        if piece.block.get("type") != "tool_result" or piece.chars < 80:
            return piece
        text = result_text(piece.block)
        if text not in seen:
            seen.add(text)
            return piece
        return replaced(piece, {**piece.block, "content": "[the same result as later on]"}, "placeholder", "overflow")

    return [[once(p) for p in reversed(m)][::-1] for m in reversed(messages)][::-1]


def _without_oldest(messages: list[Message], limit: int, settings: ContextSettings) -> list[Message]:
    """Drop whole units from the start, after a summary that stands there, until the rest fits."""
    head = 0
    while head < len(messages) and messages[head][0].state in ("summary", "attachment"):
        head += 1
    for cut in safe_cuts(messages, PROTOCOL):
        rest = messages[:head] + messages[cut:]
        if cut >= head and (_tokens(rest, settings) <= limit or cut >= len(messages) - 1):
            return rest
    return messages
