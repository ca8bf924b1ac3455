"""Going on under another provider: what of a history only the old one can read, and the commit that leaves it out.

Knows: which blocks are bound to a provider, by rule. The decision is an event like any other
commit, made once when the model changes: the same log gives the same bytes under each model, and
undoing it brings the blocks back. Thinking needs no rule here: it is in no log (R2.3).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..history.chain import Node
from ..history.events import Block, MessageAppended, ProjectionCommitted, ProjectionUndone
from ..history.live import LiveLog
from .projector import Projector

POLICY = "portable/1"

BOUND = {
    "redacted_thinking": "thinking that only its provider can read",
    "thinking": "thinking is bound to the model that thought it",
    "server_tool_use": "a call that ran on the provider's side",
    "mcp_tool_use": "a call that ran on the provider's side",
    "compaction": "a summary that only its provider can read",
    "reasoning": "reasoning that only its provider can read",
    "item_reference": "a reference to an item that the provider keeps",
}
"""Block types that no other provider takes, and why."""


def provider_of(model: str) -> str:
    """The provider of a model, from its name; "" when the name does not say.

    >>> provider_of("claude-sonnet-4-5"), provider_of("gpt-5"), provider_of("offline")
    ('anthropic', 'openai', 'offline')
    """
    name = model.rpartition("/")[2].lower()
    if name.startswith("claude"):
        return "anthropic"
    if name.startswith(("gpt", "o1", "o3", "o4", "codex", "chatgpt")):
        return "openai"
    return "offline" if name.startswith("offline") else ""


def bound(block: Block) -> str:
    """Why only its own provider can read a block; "" when any can.

    >>> bound({"type": "text", "text": "hi"}), bound({"type": "thinking"})
    ('', 'thinking is bound to the model that thought it')
    """
    kind = str(block.get("type"))
    if kind.endswith("_tool_result"):
        return "a result of a call that ran on the provider's side"
    return BOUND.get(kind, "encrypted content" if "encrypted_content" in block else "")


def unportable(chain: Iterable[Node], model: str) -> dict[str, str]:
    """Blocks of a chain that `model` cannot be sent: piece key ("message:index") → the reason.

    Messages whose model is of the same provider keep everything; where a name does not say, the provider counts as another.
    """
    to = provider_of(model)
    out: dict[str, str] = {}
    for node in chain:
        if isinstance(node, MessageAppended) and (not to or provider_of(node.model or "") != to):
            for i, block in enumerate(node.content):
                if reason := bound(block):
                    out[f"{node.id}:{i}"] = reason
    return out


def carry_over(live: LiveLog, projector: Projector, model: str) -> ProjectionCommitted | None:
    """Log what the next requests leave out because `model` answers them; nothing where nothing changes.

    Call it before the first request under a model. What was left out for the model before comes back.
    `projector` holds the session's events. Returns the commit, if one was needed.
    """
    reasons = unportable(projector.chain, model)
    targets = sorted(f"{key.rpartition(':')[0]}#block:{key.rpartition(':')[2]}" for key in reasons)
    before = [commit for commit in projector.commits if commit.policy == POLICY]
    if sorted(t for commit in before for t in commit.targets) == targets:
        return None
    for commit in before:
        live.append(ProjectionUndone(id=live.new_id("u"), at=live.now(), commit=commit.id))
    if not targets:
        return None
    reason = f"{model} cannot be sent it: {'; '.join(sorted(set(reasons.values())))}"
    event = ProjectionCommitted(
        id=live.new_id("c"), at=live.now(), action="clip", targets=targets, reason=reason, policy=POLICY, leaf=live.head
    )
    live.append(event)
    return event
