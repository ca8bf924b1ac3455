"""Changes to source: hunk by hunk to the target, each hunk unique, imports in order."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nova_nb.models.offline.edits import Helper, next_hunk, with_column, with_database_time, with_name, with_utc

LINES = st.lists(st.sampled_from(["", "a = 1", "b = 2", "    return a", "def f():"]), max_size=8).map(
    lambda x: "\n".join([*x, ""])
)


@settings(max_examples=150, deadline=None)
@given(LINES.filter(str.strip), LINES)
@example("a = 1\n\n\n", "\na = 1\n\na = 1\n")
def test_hunks_lead_to_the_target_and_each_stands_once(text: str, target: str) -> None:
    for _ in range(20):
        hunk = next_hunk(text, target)
        if hunk is None:
            break
        assert text.count(hunk[0]) == 1
        text = text.replace(*hunk, 1)
    assert text == target


def test_utc_and_the_habit_differ_only_in_how_the_time_is_taken() -> None:
    source = '"""Doc."""\n\nfrom datetime import datetime\n\n\ndef f(db):\n    db.execute("x")\n    return datetime.now().isoformat()\n'
    utc = with_utc(source, Helper("shop.clock", "utc_now"))
    assert "from shop.clock import utc_now\n" in utc
    assert "return utc_now().isoformat()" in utc
    assert "datetime import" not in utc
    habit = with_database_time(source, "Because.")
    assert '    # Because.\n    return db.execute("SELECT CURRENT_TIMESTAMP").fetchone()[0]\n' in habit
    assert with_utc(habit, Helper("shop.clock", "utc_now")).split("def f")[1] == utc.split("def f")[1]


def test_a_bare_reading_of_the_clock_stays_a_datetime() -> None:
    source = "from datetime import datetime\n\nnow = datetime.now()\n"
    assert with_utc(source, None) == "from datetime import datetime, timezone\n\nnow = datetime.now(timezone.utc)\n"


def test_a_column_joins_its_table_once() -> None:
    schema = "CREATE TABLE orders (\n    id INTEGER\n)"
    once = with_column(schema, "orders", "shipped_at")
    assert once == "CREATE TABLE orders (\n    id INTEGER,\n    shipped_at TEXT\n)"
    assert with_column(once, "orders", "shipped_at") == once
    assert with_column(schema, "items", "shipped_at") == schema


def test_a_rename_takes_whole_words() -> None:
    assert with_name("find(x); find_all(x); refind(x)", "find", "load") == "load(x); find_all(x); refind(x)"
