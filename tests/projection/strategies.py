"""Random histories for property tests: a valid agent session, or one with anything broken in it."""

from __future__ import annotations

from hypothesis import strategies as st

from nova_nb.history.events import BranchSelected, Event, MessageAppended, ProjectionCommitted, ProjectionUndone, ToolStarted


def text(chars: str) -> dict:
    return {"type": "text", "text": chars}


def call(id: str, name: str = "read", **arguments) -> dict:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: str = "ok", **more) -> dict:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def message(id: str, parent: str | None, role: str, *blocks: dict, **more) -> MessageAppended:
    return MessageAppended(id=id, parent=parent, role=role, content=list(blocks), **more)


@st.composite
def turns(draw, min_turns: int = 1, max_turns: int = 6) -> list[MessageAppended]:
    """A whole session: person, steps with one to three parallel calls, a final answer, again."""
    out: list[MessageAppended] = []

    def say(role: str, *blocks: dict, **more) -> None:
        out.append(message(f"m{len(out) + 1}", out[-1].id if out else None, role, *blocks, **more))

    calls = 0
    for _ in range(draw(st.integers(min_turns, max_turns))):
        say("user", text("ask " + "x" * draw(st.integers(1, 400))), origin="person")
        for _ in range(draw(st.integers(0, 4))):
            ids = [f"t{calls + i + 1}" for i in range(draw(st.integers(1, 3)))]
            calls += len(ids)
            path = draw(st.sampled_from(["a.py", "b.py", "c.py"]))
            name = draw(st.sampled_from(["read_file", "search", "write_file", "run_command"]))
            thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if draw(st.booleans()) else []
            say("assistant", *thinking, *(call(id, name, path=path, content="y" * draw(st.integers(0, 600))) for id in ids))
            say("user", *(result(id, "z" * draw(st.integers(0, 3_000))) for id in ids), origin="tool")
        say("assistant", text("done " + "w" * draw(st.integers(1, 300))), origin="model")
    return out


@st.composite
def broken(draw) -> list[Event]:
    """Any order of calls, results and texts, with repeated ids, empty messages, branches and commits."""
    events: list[Event] = []
    ids: list[str] = []
    head: str | None = None
    for n in range(draw(st.integers(1, 14))):
        what = draw(st.integers(0, 9))
        if what <= 6 or not ids:
            role = draw(st.sampled_from(["user", "assistant"]))
            uses = st.builds(call, st.sampled_from(["t1", "t2", "t3"]))
            results = st.builds(result, st.sampled_from(["t1", "t2", "t3", "t9"]))
            words = st.builds(text, st.sampled_from(["", "one", "two"]))
            blocks = draw(st.lists(st.one_of(words, uses if role == "assistant" else results), max_size=4))
            id = f"m{n}"
            events.append(message(id, head, role, *blocks))
            ids.append(id)
            head = id
        elif what == 7:
            head = draw(st.sampled_from(ids))
            events.append(BranchSelected(id=f"b{n}", leaf=head))
        elif what == 8:
            action = draw(st.sampled_from(["reclaim", "clip", "fold"]))
            targets = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
            events.append(ProjectionCommitted(id=f"c{n}", action=action, targets=targets))
            if draw(st.booleans()):
                events.append(ProjectionUndone(id=f"u{n}", commit=f"c{n}"))
        else:
            events.append(ToolStarted(id=f"s{n}", tool_use_id=draw(st.sampled_from(["t1", "t2"]))))
    return events


def wire_errors(messages: list[dict]) -> list[str]:
    """What the Messages API would refuse, in words; adjacent messages of one role are read as one."""
    merged: list[dict] = []
    for m in messages:
        if merged and merged[-1]["role"] == m["role"]:
            merged[-1] = {"role": m["role"], "content": merged[-1]["content"] + m["content"]}
        else:
            merged.append(m)
    errors = []
    if merged and merged[0]["role"] != "user":
        errors.append("the first message is no user message")
    seen: set[str] = set()
    before: list[str] = []
    for i, m in enumerate(merged):
        if not m["content"]:
            errors.append(f"message {i} is empty")
        for b in m["content"]:
            if b["type"] == "text" and not b["text"].strip():
                errors.append(f"message {i} has an empty text")
        results = [b["tool_use_id"] for b in m["content"] if b["type"] == "tool_result"]
        if sorted(results) != sorted(before):
            errors.append(f"message {i} answers {results}, the calls before it are {before}")
        kinds = [b["type"] == "tool_result" for b in m["content"]]
        if kinds != sorted(kinds, reverse=True):
            errors.append(f"message {i} has a result after other content")
        before = [b["id"] for b in m["content"] if b["type"] == "tool_use"]
        if m["role"] == "user" and before:
            errors.append(f"message {i}: a user message calls a tool")
        if len(set(before)) != len(before) or seen & set(before):
            errors.append(f"message {i} uses an id again")
        seen |= set(before)
    if before:
        errors.append("the last calls have no result")
    return errors
