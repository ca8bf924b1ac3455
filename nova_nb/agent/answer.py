"""What a turn came to: the last words, and what they cost. Knows no log and no model."""

from __future__ import annotations

import msgspec

from ..history.events import Usage
from ..models.base import Reply


class Answer(msgspec.Struct, frozen=True):
    """The model's last words in a turn, with the numbers of the whole turn.

    `ended` is the provider's stop reason of the last step ("end_turn", "max_tokens", "refusal", …), or "interrupted",
    or "step_limit". `usage` adds up all steps: the same prefix counts in each of them. `notices` are what a resume found
    and the person should know: the first answer after it carries them.
    """

    text: str = ""
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    ended: str = ""
    model: str = ""
    notices: tuple[str, ...] = ()

    def after(self, reply: Reply, calls: int) -> Answer:
        """The answer with one more step in it."""
        text = "\n\n".join(block["text"] for block in reply.content if block.get("type") == "text")
        sum_ = {name: getattr(self.usage, name) + getattr(reply.usage, name) for name in Usage.__struct_fields__}
        steps, tool_calls = self.steps + 1, self.tool_calls + calls
        return Answer(text, steps, tool_calls, Usage(**sum_), reply.stop_reason, reply.model, self.notices)

    @property
    def interrupted(self) -> bool:
        return self.ended == "interrupted"

    @property
    def numbers(self) -> str:
        """One line: "3 steps · 4 tool calls · 12,345 tokens in (80% from cache) · 320 out"."""
        share = f" ({self.usage.cache_read / self.usage.context:.0%} from cache)" if self.usage.cache_read else ""
        parts = [
            _count(self.steps, "step"),
            _count(self.tool_calls, "tool call"),
            f"{self.usage.context:,} tokens in{share}",
            f"{self.usage.output:,} out",
        ]
        return " · ".join(parts if self.ended in ("end_turn", "") else [*parts, self.ended.replace("_", " ")])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        told = "".join(f"\n[resumed: {notice}]" for notice in self.notices)
        return f"{self.text}\n\n[{self.numbers}]{told}".lstrip()


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
