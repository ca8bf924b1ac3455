"""The projection, kept up to date: a step costs what was added.

Knows: which events move the end of the chain, which ones change what stands before it, and how to
keep messages, canonical bytes, hash and token counts of the finished part. Does not know what a
stage does (`project`) nor where events are stored.

    projector = Projector(settings)
    for event in log: projector.add(event)
    projector.request().hash, projector.tokens, projector.budget

After any events it gives what `project` gives for the same chain; the tests hold it to that.
"""

from __future__ import annotations

from ..history.chain import Node, path_to_root, walk
from ..history.events import (
    BranchSelected,
    CompactionBoundaryCreated,
    Event,
    Failure,
    MessageAppended,
    ProjectionCommitted,
    ProjectionUndone,
    PromptSet,
    ReplyReceived,
    RequestSent,
    ToolStarted,
)
from ..settings import ContextSettings
from .budget import Budget, budget, estimate, prompt_chars
from .calls import Call, calls_of
from .capabilities import Capabilities
from .commits import View
from .compaction import Health
from .lines import Lines
from .pieces import Piece, Projection
from .project import Around, calls_in, messages_of_node, pieces_of, staged, stripped_by
from .repair import Message, Segment
from .request import Request, canonical_lines, shared_prefix


class Projector:
    """What the next request carries, after each event of a session in the order of its log."""

    def __init__(self, settings: ContextSettings, capabilities: Capabilities | None = None) -> None:
        self.settings = settings
        self.capabilities = capabilities or Capabilities(window_tokens=settings.window_tokens)
        self.by_id: dict[str, Node] = {}
        self._chain: list[Node] = []
        self.head: str | None = None
        self.prompt: PromptSet | None = None
        self.moved: list[Event] = []
        """events since the last main request that change bytes before its end: the causes of a broken prefix"""
        self._path: set[str] = set()
        self._commits: list[tuple[str | None, ProjectionCommitted]] = []
        self._undone: list[tuple[str | None, str]] = []
        self._anchors: dict[str, tuple[int, int, str | None]] = {}
        self._anchor: tuple[int, int] | None = None
        self._sending: dict[str, tuple[int, str | None]] = {}
        self._sent: tuple[Lines, int, int, list[bytes]] | None = None
        self._failures = self._refills = 0
        self._since: int | None = None
        self._around = Around()
        self._open: list[Message] = []
        self._calls: list[Call] = []
        self._tail: tuple[Segment, Lines] | None = None
        self._stale = False
        self._lines = self._fresh()
        self.last_request_at = ""
        """when the last main request left, as the log says it"""

    # --- events in -------------------------------------------------------------------------

    def add(self, event: Event) -> None:
        """Take the next event. Costs its own size, but for events that change what stands before the end."""
        match event:
            case MessageAppended():
                self.by_id[event.id] = event
                if event.parent != self.head:
                    self._move(event, event.id, False)
                    return
                self.head = event.id
                self._path.add(event.id)
                if not self._stale:
                    self._chain.append(event)
                    self._feed(event)
            case CompactionBoundaryCreated():
                quick = self._since is not None and self._since <= self.settings.thrash_steps
                self._refills, self._since, self._failures = (self._refills + 1 if quick else 0), 0, 0
                self.by_id[event.id] = event
                self._move(event, event.id, event.logical_parent == self.head)
            case BranchSelected() if event.leaf != self.head:
                self._move(event, event.leaf, False)
            case ProjectionCommitted():
                self._commits.append((event.leaf or self.head, event))
                self._change(event)
            case ProjectionUndone():
                self._undone.append((event.leaf or self.head, event.commit))
                self._change(event)
            case PromptSet():
                old, self.prompt = self.prompt, event
                if old is None or old.system != event.system or old.tools != event.tools:
                    self._change(event)
            case ToolStarted():
                self._around.started.add(event.tool_use_id)
                self._tail = None
                self._stale = self._stale or event.tool_use_id in self._around.taken
            case RequestSent() if event.kind == "main":
                self._note_sent(event)
            case ReplyReceived():
                self._note_usage(event)
            case Failure() if event.part == "compaction":
                self._failures += 1
            case _:
                pass

    def _change(self, event: Event) -> None:
        self._stale = True
        self.moved.append(event)

    def _move(self, event: Event, head: str | None, straight: bool) -> None:
        """The head goes somewhere that is not one message further on."""
        self.head = head
        if straight and head is not None:
            self._path.add(head)
        else:
            self._path = {n.id for n in path_to_root(self.by_id, head)}
        self._change(event)

    def _feed(self, node: Node) -> None:
        self._tail = None
        for message in messages_of_node(node):
            if message[0].role == "assistant" and self._open:
                self._settle()
            self._open.append(message)

    def _settle(self) -> None:
        segment = staged(self._open, self._around)
        self._calls += calls_of(segment.messages, len(self._lines.grouped))
        self._lines.extend(segment)
        self._around.taken |= calls_in(segment)
        self._around.first = self._around.first and not segment.messages
        self._open = []

    def _fresh(self) -> Lines:
        head = canonical_lines(self.prompt.tools if self.prompt else None, self.prompt.system if self.prompt else None, [])
        lines = Lines(head, self.settings.chars_per_token)
        if self.prompt is not None:
            lines.chars = {"system": prompt_chars(self.prompt.system), "tools": prompt_chars(self.prompt.tools)}
        return lines

    def _refresh(self) -> None:
        """Build the whole chain again, after an event that changed what stands before its end."""
        if not self._stale:
            return
        self._chain = walk(self.by_id, self.head)
        view = View(self.commits, (n.id for n in self._chain))
        self._around = Around(view, self._around.started, stripped=stripped_by(self._chain))
        self._lines, self._open, self._calls, self._tail, self._stale = self._fresh(), [], [], None, False
        for node in self._chain:
            self._feed(node)
        boundary = self.boundary
        found = (self._anchors[n.id] for n in reversed(self._chain) if n.id in self._anchors)
        self._anchor = next(((tokens, chars) for tokens, chars, of in found if of == boundary), None)

    def _note_sent(self, event: RequestSent) -> None:
        _, more = self._ended()
        self.last_request_at = event.at
        self._sent = (self._lines, len(self._lines.lines), self._lines.size, more.lines)
        self._sending[event.id] = (sum(more.chars.values()), event.leaf)
        self.moved = []
        self._since = None if self._since is None else self._since + 1

    def _note_usage(self, event: ReplyReceived) -> None:
        sending = self._sending.pop(event.request, None)
        if sending is None or not event.usage.context:
            return
        chars, node = sending
        tokens = event.usage.context
        if event.message is not None and event.message == self.head:
            _, more = self._ended()
            tokens, chars, node = tokens + event.usage.output, sum(more.chars.values()), event.message
        if node is not None and node in self._path:
            self._anchor = (tokens, chars)
            self._anchors[node] = (tokens, chars, self.boundary)

    # --- questions -------------------------------------------------------------------------

    @property
    def chain(self) -> list[Node]:
        """The active chain, oldest first."""
        self._refresh()
        return self._chain

    @property
    def commits(self) -> list[ProjectionCommitted]:
        """Commits in force on this branch, in the order of the log."""
        undone = {commit for leaf, commit in self._undone if leaf is None or leaf in self._path}
        return [c for leaf, c in self._commits if (leaf is None or leaf in self._path) and c.id not in undone]

    @property
    def boundary(self) -> str | None:
        """Id of the compaction boundary that this chain starts with, or None."""
        self._refresh()
        first = self._chain[0] if self._chain else None
        return first.id if isinstance(first, CompactionBoundaryCreated) else None

    @property
    def health(self) -> Health:
        """How compaction has gone lately; a refill under way counts."""
        now = self._since is not None and self._since <= self.settings.thrash_steps
        return Health(self._failures, self._refills + now)

    @property
    def just_compacted(self) -> bool:
        """Whether no main request left since the last boundary."""
        return self._since == 0

    def behind(self) -> list[Piece]:
        """What this branch holds behind its boundary and no longer sends, oldest first. Costs the whole branch."""
        here = {n.id for n in self.chain}
        return [p for n in path_to_root(self.by_id, self.head) if n.id not in here for p in pieces_of(n)]

    def _ended(self) -> tuple[Lines, Lines]:
        """The finished part, and what stands after it with the sums of both."""
        self._refresh()
        if self._tail is None:
            segment = staged(self._open, self._around) if self._open else Segment([])
            self._tail = (segment, self._lines.plus(segment))
        return self._lines, self._tail[1]

    def projection(self) -> Projection:
        """The pieces of the next request, with the prompt before them."""
        lines, more = self._ended()
        system, tools = (self.prompt.system, self.prompt.tools) if self.prompt else (None, None)
        return Projection([*lines.pieces, *more.pieces], system, tools, (), {**lines.left, **more.left})

    @property
    def messages(self) -> list[Message]:
        """The pieces of the next request, message by message: what `grouped` gives, without grouping them again."""
        lines, more = self._ended()
        return lines.grouped + more.grouped

    @property
    def calls(self) -> list[Call]:
        """The calls of the next request: what `calls_of` gives, each call of a finished message read once, when it came."""
        lines, more = self._ended()
        return self._calls + calls_of(more.grouped, len(lines.grouped))

    def request(self, step: int | None = None, kind: str = "main", model: str | None = None) -> Request:
        """The next request. Its hash and its shared prefix with the last main request are known without reading it again."""
        lines, more = self._ended()
        request = Request(
            messages=lines.messages + more.messages,
            system=self.prompt.system if self.prompt else None,
            tools=self.prompt.tools if self.prompt else None,
            pieces=lines.pieces + more.pieces,
            step=step,
            kind=kind,
            model=model,
            prefix_bytes=self._shared(lines, more),
            total_bytes=more.size,
        )
        request.__dict__["hash"] = more.sha.hexdigest()
        return request

    def _shared(self, lines: Lines, more: Lines) -> int:
        """Bytes at the start of the next request that the last main request began with."""
        if self._sent is None:
            return 0
        old, count, size, tail = self._sent
        if old is lines:
            same, before, after = size, tail, lines.lines[count : count + len(tail)] + more.lines
        else:
            same, before, after = 0, old.head + old.lines[:count] + tail, lines.head + lines.lines + more.lines
        for a, b in zip(before, after, strict=False):
            if a != b:
                return same + shared_prefix(a, b)
            same += len(a)
        return same

    @property
    def chars(self) -> int:
        """Characters of the next request's messages, an image taken as what its tokens are worth (`budget.piece_chars`)."""
        counted = self._ended()[1].chars
        return sum(counted.values()) - counted.get("system", 0) - counted.get("tools", 0)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the next request: the last true usage, and what came after it at 3.5 characters a token."""
        _, more = self._ended()
        chars = sum(more.chars.values())
        if self._anchor is None:
            return estimate(chars, self.settings)
        tokens, at = self._anchor
        since = chars - at
        return max(0, tokens + (estimate(since, self.settings) if since >= 0 else -estimate(-since, self.settings)))

    @property
    def anchored(self) -> bool:
        """Whether `tokens` rests on a usage that a provider reported."""
        self._refresh()
        return self._anchor is not None

    @property
    def budget(self) -> Budget:
        """What the next request's tokens go to."""
        _, more = self._ended()
        return budget(more.chars, self.settings, self.tokens if self.anchored else None, self.capabilities.window_tokens)
