"""The logical chain as a drawing needs it: the active path, branches off it, islands.

Knows: parents. Does not know requests; which part of the path a step sees is `request`'s matter.
A *branch* leaves the active path at a fork; an *island* hangs below a record that is not there,
or has a root of its own. Sidechains (a subagent inside the same file) are islands by nature and
are called what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .history import History, is_node

Runs = list[list[int]]


def runs(numbers: Iterable[int]) -> Runs:
    """Ascending numbers as [first, count] runs.

    >>> runs([1, 2, 3, 7])
    [[1, 3], [7, 1]]
    """
    out: Runs = []
    for n in numbers:
        if out and n == out[-1][0] + out[-1][1]:
            out[-1][1] += 1
        else:
            out.append([n, 1])
    return out


def path_of(parents: list[int], leaf: int) -> list[int]:
    """Rows from the root to `leaf`, boundaries crossed; a cycle ends it."""
    path: list[int] = []
    seen: set[int] = set()
    at = leaf
    while at >= 0 and at not in seen:
        seen.add(at)
        path.append(at)
        at = parents[at]
    return path[::-1]


def branches(history: History, leaf: str | None, reachable: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The tree as lines to draw, the active path first (lane 0).

    Each: `kind` ("path" | "branch" | "island" | "sidechain"), `rows` (runs), `fork` (row it leaves its
    parent line at, -1: none), `lane`, `tip` (its last row). `reachable` are ids that pairing brings
    back although the walk by parents misses them; they count as on the path.
    """
    parents = history.rows["parent"]
    leaf_row = history.index.get(leaf or "", -1)
    on = set(path_of(parents, leaf_row)) | {history.index[id] for id in reachable if id in history.index}
    lines: list[dict[str, Any]] = [{"kind": "path", "rows": runs(sorted(on)), "fork": -1, "lane": 0, "tip": leaf_row}]
    rows = [i for i, event in enumerate(history.events) if is_node(event) and i not in on]
    children: dict[int, list[int]] = {}
    for row in rows:
        children.setdefault(parents[row], []).append(row)
    taken: dict[int, int] = {}  # lane → last row drawn in it
    placed: set[int] = set()
    for row in rows:
        if row in placed:
            continue
        line, above = [row], parents[row]
        while children.get(line[-1], [-1])[0] > line[-1]:
            line.append(children[line[-1]][0])
        placed.update(line)
        if all(history.rows["who"][r] == "record" for r in line):
            continue  # records that hang beside the path are no branch of the conversation
        side = "sidechain" in history.rows["flags"][row].split()
        start = above if 0 <= above < row else row
        lane = next((k for k in range(1, len(taken) + 1) if taken[k] < start), len(taken) + 1)
        taken[lane] = line[-1]
        kind = "sidechain" if side else "branch" if above >= 0 else "island"
        lines.append({"kind": kind, "rows": runs(line), "fork": max(above, -1), "lane": lane, "tip": line[-1]})
    return lines
