"""The page on the log says enough to read one without Nova's code."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nova_nb.history.events import Event, ForeignRow, UnknownEvent

PAGE = (Path(__file__).parents[2] / "docs" / "log.md").read_text("utf-8")
KINDS = [kind for kind in Event.__subclasses__() if kind not in (ForeignRow, UnknownEvent)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_on_the_page_with_all_its_members(kind: type[Event]) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.__struct_config__.tag}` |"))
    inherited = {"id", "at", "parent"} if kind.__name__ == "CompactionBoundaryCreated" else {"id", "at"}
    for field in msgspec.structs.fields(kind):
        if field.name not in inherited:
            assert f"**`{field.name}`**" in row if field.required else f"`{field.name}`" in row, field.name
