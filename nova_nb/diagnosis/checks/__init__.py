"""One module a layer, one function a kind of fault: `Facts` in, findings out, all pure.

Their order is the order in which a person would look: first the bytes, then the branch, then what
is made of it. No check looks at what another one found. `failures` serves several layers: it reads
what Nova's own log says of what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..facts import Facts
from ..report import Finding
from . import artifact, boundary, branch, budget, cache, display, failures, log, memory, pairing, projection, provider, runtime

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    log.damaged_lines,
    log.parent_never_written,
    branch.injected_root,
    branch.late_graft,
    branch.turn_on_stale_leaf,
    branch.rewound,
    boundary.dangling_logical_parent,
    boundary.error_as_summary,
    boundary.nothing_of_the_conversation,
    boundary.replayed_from_before,
    projection.elided_in_one_pass,
    projection.text_on_sibling,
    projection.passed_by_on_resume,
    projection.input_shrinks,
    artifact.stored_results,
    failures.stored_by_nova,
    failures.result_not_stored,
    pairing.repeated_id,
    pairing.call_without_result,
    pairing.result_without_call,
    pairing.sent_twice,
    provider.lone_surrogate,
    provider.emptied_thinking,
    failures.refused,
    runtime.started_empty,
    runtime.moved_transcript,
    memory.silent_hook,
    budget.compaction_loop,
    failures.compactions_failed,
    failures.compaction_stopped,
    cache.prefix_broke,
    display.delivered_not_shown,
)
