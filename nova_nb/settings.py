"""Every number of the context stack, in one frozen model.

Knows: the defaults (the seeds' own figures, with the requirement each comes from) and the
presets. Does not know how a number is used; the module that uses it says so.
A preset is a name that stays while its numbers may be tuned: "seed" is the seeds' 200k window,
"late" compacts seldom (a smaller output reserve, no soft margin: a large cached share and the largest
requests), "lean" keeps results over 3,000 characters in files and compacts at 80,000 tokens (half the
cost at the same share; what it hides must be read back; both in docs/strategies.md), "workshop" shrinks
the same arithmetic so that a lesson reaches compaction within a minute.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .errors import UsageError


class ContextSettings(BaseModel):
    """The policy of one session. Characters are Python characters, tokens are estimates unless a provider counted them.

    >>> ContextSettings().soft_line, ContextSettings().hard_line
    (167000, 177000)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # the window (R4.9, R5.1)
    window_tokens: int = Field(200_000, gt=0, description="the model's context window")
    output_reserve_tokens: int = Field(20_000, ge=0, description="kept free for the answer or the summary [000]")
    safety_tokens: int = Field(2_000, ge=0, description="kept free for what the estimate misses")
    chars_per_token: float = Field(3.5, gt=0, description="estimate for text that no provider has counted yet [000]")

    # tool results (R3.1 to R3.6)
    result_limit_chars: int = Field(50_000, gt=0, description="a longer single result is written to a file")
    preview_chars: int = Field(2_000, ge=0, description="what history keeps of a written result")
    aggregate_limit_chars: int = Field(200_000, gt=0, description="all results of one message together")
    tool_limits_chars: dict[str, int] = Field(default_factory=dict, description="per tool, or 'mcp:<server>' (R3.6)")
    tool_limits_tokens: dict[str, int] = Field(default_factory=dict, description="the same in estimated tokens")

    # reclaim (R4.2): which old tool traffic may go, and when
    reclaim: bool = Field(True, description="switches the stage")
    reclaim_protect_tokens: int = Field(40_000, ge=0, description="the newest tokens of tool results are never cleared")
    reclaim_min_tokens: int = Field(20_000, ge=0, description="do nothing for less")
    reclaim_low_fraction: float = Field(0.6, ge=0, le=1, description="of the soft line: stop clearing below it")
    reclaim_keep_searches: int = Field(5, ge=0, description="the newest searches stay [002]")
    reclaim_exempt_tools: tuple[str, ...] = Field(("skill", "memory_query"), description="results that are never cleared")

    server_edits: bool = Field(False, description="let the provider clear old results on its side, where it can")

    # compaction (R5.1 to R5.4)
    soft_margin_tokens: int = Field(13_000, ge=0, description="soft trigger before the reserve; guarded by the breaker")
    hard_margin_tokens: int = Field(3_000, ge=0, description="hard trigger; forced past the breaker")
    breaker_failures: int = Field(3, gt=0, description="failures in a row that open the breaker")
    tail_min_tokens: int = Field(10_000, ge=0)
    tail_min_messages: int = Field(5, ge=0)
    tail_max_tokens: int = Field(40_000, gt=0)
    min_prefix_tokens: int = Field(2_000, ge=0, description="a smaller prefix is not worth compacting (R5.3)")
    attachment_files: int = Field(5, ge=0, description="files read last that come back after compaction")
    attachment_file_tokens: int = Field(5_000, ge=0, description="of a longer file only the first part comes back")
    summary_max_tokens: int = Field(8_000, gt=0, description="asked of the summary; within the output reserve")
    summary_timeout_seconds: float = Field(180, gt=0, description="a summary that takes longer has failed")
    keep_person_tokens: int = Field(0, ge=0, description="the person's own words, newest first, verbatim beside the summary")
    thrash_refills: int = Field(3, gt=0, description="compactions right after one another that stop it")
    thrash_steps: int = Field(3, gt=0, description="so few requests after a compaction count as right after it")
    confidence_top_k: int = Field(3, ge=0, description="original passages fetched for a symbol the summary lacks (R5.7)")

    # the log (R2.6)
    fsync: Literal["durable", "every", "os"] = Field("durable", description="when an append is safe; see history.journal")

    # the cache (R9.2)
    cache_life_seconds: int = Field(300, gt=0)

    @property
    def soft_line(self) -> int:
        """Tokens at which compaction is tried: window - output reserve - soft margin."""
        return self.window_tokens - self.output_reserve_tokens - self.soft_margin_tokens

    @property
    def hard_line(self) -> int:
        """Tokens at which compaction is forced: window - output reserve - hard margin."""
        return self.window_tokens - self.output_reserve_tokens - self.hard_margin_tokens

    def check(self) -> None:
        """Raise UsageError where no conversation could fit: a small window needs small reserves too."""
        if self.soft_line <= 0:
            raise UsageError(
                f"a window of {self.window_tokens:,} tokens leaves no room beside an output reserve of "
                f"{self.output_reserve_tokens:,} and a soft margin of {self.soft_margin_tokens:,}; set those too, or start from "
                "settings='workshop'"
            )

    @property
    def reclaim_low_line(self) -> int:
        """Tokens at which a reclaim stops."""
        return int(self.soft_line * self.reclaim_low_fraction)


PRESETS: dict[str, dict[str, Any]] = {
    "seed": {},
    "late": {"output_reserve_tokens": 12_000, "soft_margin_tokens": 3_000},
    "lean": {"result_limit_chars": 3_000, "preview_chars": 1_000, "soft_margin_tokens": 100_000},
    "workshop": {
        "window_tokens": 8_000,
        "output_reserve_tokens": 800,
        "safety_tokens": 80,
        "result_limit_chars": 2_000,
        "preview_chars": 400,
        "aggregate_limit_chars": 8_000,
        "soft_margin_tokens": 520,
        "hard_margin_tokens": 120,
        "tail_min_tokens": 400,
        "tail_max_tokens": 1_600,
        "min_prefix_tokens": 80,
        "attachment_file_tokens": 150,
        "summary_max_tokens": 400,
        "thrash_steps": 1,
        "reclaim_protect_tokens": 1_200,
        "reclaim_min_tokens": 600,
    },
}


def settings_from(value: ContextSettings | str | dict[str, Any] | None) -> ContextSettings:
    """A settings object from itself, a preset name, or a dict of changes to "seed".

    >>> settings_from("workshop").window_tokens
    8000
    """
    if isinstance(value, ContextSettings):
        return value
    if value is None:
        return ContextSettings()
    if isinstance(value, str):
        if value not in PRESETS:
            raise UsageError(f"there is no preset {value!r}; choose one of {', '.join(sorted(PRESETS))}")
        return ContextSettings(**PRESETS[value])
    return ContextSettings(**value)
