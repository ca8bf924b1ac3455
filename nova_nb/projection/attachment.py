"""What comes back after a compaction, rebuilt: files, procedures, tools, and the notice (R5.4).

Knows: the four sections and what each may cost. Does not read files: contents come from the history
itself (the last whole read) or from the caller, who may read them again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..history.events import Block
from ..settings import ContextSettings
from .calls import Call, newest_first
from .repair import Message
from .spill import FOLDER, result_text
from .summary import escape

NOTICE = "The sections above are rebuilt context. Read an original again before you rely on its exact words."


def last_read(messages: Sequence[Message], n: int) -> list[Call]:
    """The `n` files read last, newest first: the last read of each path. A stored result read back is no file."""
    out: dict[str, Call] = {}
    for call in newest_first(messages):
        if len(out) == n:
            break
        if call.kind == "read" and call.path and call.done and call.path not in out and FOLDER not in call.path.split("/"):
            out[call.path] = call
    return list(out.values())


def attachment(
    messages: Sequence[Message],
    kept: Collection[str],
    settings: ContextSettings,
    skills: Mapping[str, str] | None = None,
    tools: Sequence[str] = (),
    contents: Mapping[str, str] | None = None,
) -> list[Block]:
    """The four sections as text blocks, in order: files, skills, tools, notice; an empty one leaves no trace.

    `messages` are those of the request before the compaction, `kept` the ids of the verbatim tail: a file that
    is read there is named, not repeated. `skills` are name → procedure of the active ones, `contents`
    path → text as it is now (without it: as it was read); a path that no message names was read before them.
    """
    limit = int(settings.attachment_file_tokens * settings.chars_per_token)
    files: list[str] = []

    def show(path: str, text: str, when: str) -> None:
        cut = f" (first {limit:,} of {len(text):,} characters)" if len(text) > limit else ""
        files.extend((f"<file path={path!r}> {when}{cut}", escape(text[:limit]), "</file>"))

    read = last_read(messages, settings.attachment_files)
    for call in read:
        if call.result is not None and call.result.sources[0] in kept:
            files.append(f"{call.path}: in the messages below")
            continue
        now = (contents or {}).get(call.path)
        as_read = result_text(call.result.block) if call.result else ""
        show(call.path, as_read if now is None else now, "as it was read" if now is None else "as it is now")
    earlier = [path for path in contents or {} if path not in {call.path for call in read}]
    for path in earlier[: settings.attachment_files - len(read)]:
        show(path, (contents or {})[path], "as it is now")
    procedures = "\n\n".join(f"### {name}\n{text}" for name, text in sorted((skills or {}).items()))
    sections = [
        ["## Files read last", *files] if files else [],
        ["## Active skills", procedures] if procedures else [],
        ["## Tools available now", ", ".join(tools)] if tools else [],
        [NOTICE],
    ]
    return [{"type": "text", "text": "\n".join(("<attachment>", *lines, "</attachment>"))} for lines in sections if lines]
