"""Layer "pairing": calls and results that do not match.

Knows: ids of calls and results on the active branch. Parallel results that hang elsewhere were
brought back before; an open call at the very end may still be running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..facts import Facts
from ..report import Finding, many


def repeated_id(facts: Facts) -> Iterator[Finding]:
    """One answer holds two calls with the same id."""
    for rows in facts.groups.values():
        calls = [
            (str(block.get("id")), i)
            for i in rows
            if not facts.side(i) and (event := facts.message(i)) is not None
            for block in event.content
            if block.get("type") == "tool_use"
        ]
        if len(calls) < 2:
            continue
        for id, n in Counter(id for id, _ in calls).items():
            if n < 2:
                continue
            at = [i for other, i in calls if other == id]
            yield facts.finding(
                "repeated-call-id", "pairing", "cause", at,
                f"one answer (lines {', '.join(map(str, facts.lines(at)))}) holds the call id {id} {n} times; every request that carries "
                "it is refused until all but one are left out",
                fate="intact", remedy="leave out the copy with the empty or incomplete input",
            )  # fmt: skip


WRITTEN_AS_IT_RUNS = frozenset({"claude-code", "codex", "copilot", "gemini", "nova", "opencode", "openhands", "pi"})
"""Agents that write each result when it is there; in exports and stores of whole turns a missing one says nothing."""


HOSTED = frozenset({"image_generation_call", "tool_search_call", "web_search_call"})
"""Calls that the provider answers on its side; some of them have no row for a result."""


def call_without_result(facts: Facts) -> Iterator[Finding]:
    """A call that was never answered although the log goes on after it."""
    answered = _ids(facts, "tool_result", "tool_use_id")
    seen = Counter(
        id for i in facts.path if (event := facts.message(i)) is not None for id in {b.get("id") for b in event.content}
    )
    for n, i in enumerate(facts.path):
        event = facts.message(i)
        if event is None:
            continue
        open_calls = [b for b in event.content if b.get("type") == "tool_use" and str(b.get("id")) not in answered]
        calls = [b for b in open_calls if b.get("name") not in HOSTED]
        if not calls or seen[calls[0].get("id")] > 1:
            continue  # see `repeated_id`
        names = ", ".join(str(block.get("name")) for block in calls)
        group = set(facts.groups.get(event.group, [i])) if event.group else {i}
        after = next((k for m in range(n + 1, len(facts.path)) if (k := facts.path[m]) not in group), None)
        if event.meta.get("stop_reason") in ("error", "aborted"):
            continue  # an answer that broke off: its agent leaves it out of every request
        if after is None:
            yield facts.finding(
                "pending-call", "pairing", "note", [i],
                f"the call of {names} at line {facts.log.lines[i]} has no result yet and nothing follows it: it may be "
                "running, or waiting for permission", certainty="undecidable",
            )  # fmt: skip
        elif facts.log.source.format not in WRITTEN_AS_IT_RUNS:
            yield facts.finding(
                "result-not-stored", "pairing", "note", [i],
                f"the call of {names} at line {facts.log.lines[i]} has no result in this store", certainty="undecidable",
            )  # fmt: skip
        else:
            yield facts.finding(
                "call-without-result", "pairing", "cause", [i],
                f"the call of {names} at line {facts.log.lines[i]} has no result although the log goes on at line "
                f"{facts.log.lines[after]}: the process ended in between, and whether the call took effect is unknown",
                fate="never-written",
                remedy="look at what it would have changed before running it again; do not invent a result",
            )  # fmt: skip


def result_without_call(facts: Facts) -> Iterator[Finding]:
    """A result on the branch whose call is in no row."""
    calls = _ids(facts, "tool_use", "id")
    kept = {k for b in facts.boundaries for k in getattr(facts.events[b], "kept", [])}
    for i in facts.path:
        event = facts.message(i)
        if event is None or event.id in kept or i == facts.path[0]:
            continue
        for block in event.content:
            if block.get("type") == "tool_result" and str(block.get("tool_use_id")) not in calls:
                sent = i in facts.in_request
                yield facts.finding(
                    "result-without-call", "pairing", "cause" if sent else "note", [i],
                    f"the result at line {facts.log.lines[i]} answers the call {block.get('tool_use_id')}, which is in no row"
                    + ("" if sent else "; the agent leaves it out of its requests"),
                    fate="lost", remedy="leave the result out, or restore the row with its call",
                )  # fmt: skip


def sent_twice(facts: Facts) -> Iterator[Finding]:
    """The latest request carried the result of one call more than once (Gemini CLI after a resume)."""
    seen: dict[str, list[str]] = {}
    if facts.log.source.format != "gemini" or facts.last is None:
        return
    for piece in facts.session.projection(facts.last).pieces:
        if piece.block.get("type") == "tool_result":
            seen.setdefault(str(piece.block.get("tool_use_id")), []).append(piece.sources[0] if piece.sources else "")
    twice = [id for ids in seen.values() if len(ids) > 1 for id in ids]
    rows = sorted({facts.log.index[id] for id in twice if id in facts.log.index})
    if rows:
        calls = sum(len(ids) > 1 for ids in seen.values())
        yield facts.finding(
            "result-sent-twice", "pairing", "cause", rows,
            f"the latest request carried the results of {many(calls, 'call')} twice: after a resume the agent reads them with their call and again "
            "as rows of their own; nothing is lost, and the window fills twice as fast",
            certainty="proved", fate="intact", remedy="start a new session from a summary, or compress, to be rid of the copies",
        )  # fmt: skip


def _ids(facts: Facts, kind: str, key: str) -> set[str]:
    return {
        str(block.get(key))
        for i in facts.conversation
        if (event := facts.message(i)) is not None
        for block in event.content
        if block.get("type") == kind
    }
