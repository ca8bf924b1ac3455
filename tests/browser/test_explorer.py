"""The explorer in a browser: rows appear while the agent works, and the three views move together."""

from __future__ import annotations

import pytest

from nova_nb import examples
from nova_nb.history.events import MessageAppended
from nova_nb.views.page import page as page_of
from tests.views.made import Script, eventful

LIVE = """
import tempfile, pathlib, nova_nb as nova
from nova_nb import examples
shop = examples.workspace("shop", pathlib.Path(tempfile.mkdtemp()))
kernel = nova.AgentKernel(shop, permission="allow", settings="workshop")
view = kernel.explore()
view
"""
WHY = examples.scenario("shop")["prompts"]["why"]


def row(pane, text):
    return pane.locator(".nova-h", has_text=text)


def test_rows_appear_while_the_agent_works(notebook):
    page = notebook(
        LIVE, "kernel.timeline()", f"run = kernel.start({WHY!r})", "import asyncio; await asyncio.sleep(60)", run=False
    )
    # the last cell still runs: what is seen here came without its end
    page.locator(".nova-h.nova-who-tool").first.wait_for(timeout=60_000)
    page.locator(".nova-where", has_text="after 9").wait_for(timeout=60_000)
    assert page.evaluate("() => window.__ran") is None
    page.locator(".nova-head").get_by_text("live").wait_for()
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
    assert page.locator("[data-nova-static=explorer]").first.is_hidden()
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")


def test_a_click_is_a_value_in_the_next_cell(notebook):
    path = str(examples.path("claude-code-compaction"))
    page = notebook(f"import nova_nb as nova; view = nova.open_session({path!r}).explore(); view", "import asyncio", "pass")
    page.locator(".nova-h.nova-who-model").last.click()
    page.locator(".nova-detail").wait_for()
    line = int(page.locator(".nova-dtop b").inner_text().removeprefix("line "))
    page.evaluate("""() => { const cells = window.jupyterapp.shell.currentWidget.content; cells.activeCellIndex = 2;
      cells.activeCell.model.sharedModel.setSource("print('picked', view.selected.line, view.selected.event.role)");
      window.jupyterapp.commands.execute('notebook:run-cell'); }""")
    page.get_by_text(f"picked {line} assistant").wait_for()
    page.locator(".nova-findings").wait_for()


@pytest.fixture
def opened(page, tmp_path):
    """The page of a session, opened from disk."""

    def open(session):
        file = tmp_path / "session.html"
        file.write_text(page_of(session), "utf-8")
        page.goto(file.as_uri())
        page.locator(".nova-h").first.wait_for()
        return page

    return open


def picked(page):
    """The selected row in each pane, as text."""
    return [page.locator(f".nova-pane-{pane} [aria-selected=true]").inner_text() for pane in ("history", "request", "chain")]


def test_a_row_selects_its_block_and_its_node_and_each_of_them_the_row(opened):
    page = opened(eventful().session())
    row(page, "Did you keep the rule").click()
    history, request, chain = picked(page)
    assert "Did you keep the rule" in history
    assert "person" in request
    assert "Did you keep the rule" in request
    assert "36" in chain.split()
    page.locator(".nova-pane-request .nova-q", has_text="no match").click()
    assert "no match" in picked(page)[0]
    page.locator(".nova-pane-chain .nova-who-boundary").click()
    assert "compacted" in picked(page)[0]
    assert "summary" in picked(page)[1]


def test_the_step_slider_changes_all_three(opened):
    page = opened(eventful().session())
    page.locator(".nova-slider").fill("6")
    assert page.locator(".nova-where").inner_text() == "6 / 9"
    assert "whole" in row(page, "Try a trigger instead").inner_text()
    assert "not yet" in row(page, "Right, keep it in the code").inner_text()
    assert page.locator(".nova-pane-request .nova-q", has_text="CREATE TRIGGER").count() == 1
    head = page.locator(".nova-k", has_text="head")
    assert "24" in head.inner_text().split()
    page.locator(".nova-slider").fill("8")
    assert "another branch" in row(page, "Try a trigger instead").inner_text()
    assert page.locator(".nova-pane-request .nova-q", has_text="CREATE TRIGGER").count() == 0
    assert page.locator(".nova-rule", has_text="first difference to step 7").count() == 1
    assert "36" in head.inner_text().split()


def test_keys_step_select_and_search(opened):
    page = opened(eventful().session())
    page.locator(".nova-pane-history .nova-list").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".nova-where").inner_text() == "9 / 9"
    page.keyboard.press("Home")
    assert "never CURRENT_TIMESTAMP" in page.locator(".nova-pane-history [aria-selected=true]").inner_text()
    page.keyboard.press("j")
    assert "Let me look" in page.locator(".nova-pane-history [aria-selected=true]").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("trigger hides")
    page.keyboard.press("Enter")
    page.get_by_text("1 row shows it").wait_for()


HOSTILE = (
    "<script>alert(1)</script></script><!-- <script> </textarea></pre><img src=x onerror=alert(2)> "
    "\u202eevil\u202c \x1b[31mred\x1b[0m \u2028 ${alert(3)} &lt;b&gt;"
)


def hostile():
    """Hostile text wherever text can be."""
    s = Script()
    s.ask(HOSTILE)
    s.answer(
        [{"type": "text", "text": HOSTILE}, {"type": "tool_use", "id": HOSTILE, "name": HOSTILE, "input": {HOSTILE: HOSTILE}}]
    )
    s.say("user", [{"type": "tool_result", "tool_use_id": HOSTILE, "content": HOSTILE, "is_error": True}], origin="tool")
    s.events.append(
        MessageAppended(
            id=HOSTILE, parent=s.head, role="user", content=[{"type": HOSTILE, "text": HOSTILE}], meta={HOSTILE: True}
        )
    )
    s.head = HOSTILE
    s.fail(HOSTILE, HOSTILE)
    s.compact(HOSTILE, trigger=HOSTILE)
    s.ask("and on")
    s.answer(HOSTILE)
    return s.session()


def test_hostile_text_stays_text_in_every_view(opened):
    page = opened(hostile())
    for pane in ("history", "request", "chain"):
        page.locator(f".nova-pane-{pane} .nova-row").first.click()
    page.locator(".nova-pane-history .nova-list").focus()
    page.keyboard.press("Home")
    page.locator(".nova-pre", has_text="onerror=alert(2)").wait_for()
    assert page.locator(".nova img, .nova script, .nova b[onclick]").count() == 0
    text = page.locator("body").inner_text()
    assert "<script>alert(1)</script>" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_without_script_the_page_shows_the_static_form(browser, tmp_path):
    file = tmp_path / "session.html"
    file.write_text(page_of(hostile()), "utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "how the model sees it next" in page.locator("main").inner_text()
    assert page.locator("main img, main script").count() == 0
    context.close()
