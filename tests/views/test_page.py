"""The page is whole in itself: no address outside, no script but its own, no text that can end a script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from nova_nb.views import html
from nova_nb.views.assets import script
from nova_nb.views.page import TEXT_CHARS, page

from .made import Script, eventful


class Parts(HTMLParser):
    """Scripts of a page by id or type, and every address it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self._in = given.get("id") or given.get("type", "") if tag == "script" else ""

    def handle_data(self, data):
        if self._in:
            self.scripts[self._in] = self.scripts.get(self._in, "") + data

    def handle_endtag(self, tag):
        self._in = ""


def test_the_page_names_no_address_and_allows_only_its_own_script():
    text = page(eventful().session())
    parts = Parts(text)
    assert parts.addresses == []
    digest = base64.b64encode(hashlib.sha256(parts.scripts["module"].encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy
    assert "default-src &#x27;none&#x27;" in policy
    assert "</script" not in script()


def test_text_cannot_end_the_data_it_stands_in():
    s = Script()
    s.ask("before </script><script>alert(1)</script><!-- \u2028 after")
    s.answer("ok")
    parts = Parts(page(s.session()))
    assert parts.tags.count("script") == 4
    texts = json.loads(parts.scripts["nova-texts"])
    assert "before </script><script>alert(1)</script><!-- ‹U+2028› after" in texts.values()
    assert json.loads(parts.scripts["nova-frame"])["rows"]["id"] == [e.id for e in s.events]


def test_the_same_session_gives_the_same_page():
    assert page(eventful().session()) == page(eventful().session())


def test_a_long_text_is_cut_and_says_where_the_rest_is():
    s = Script()
    s.ask("x" * (TEXT_CHARS + 5_000))
    texts = json.loads(Parts(page(s.session())).scripts["nova-texts"])
    (text,) = (t for t in texts.values() if t.startswith("xxx"))
    assert text.endswith("… 5,000 more characters: line 3 of s")


def test_markup_is_written_in_one_place_and_escapes_what_it_is_given():
    assert html.tag("p", "<b>", html.tag("i", 'a"&'), title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;<i>a&quot;&amp;</i></p>'
    )


def test_the_drawing_of_the_budget_is_one_valid_document():
    from xml.etree import ElementTree

    from nova_nb.views.picture import Picture

    picture = Picture()
    picture.update(
        eventful(
            {"window_tokens": 4000, "output_reserve_tokens": 400, "soft_margin_tokens": 300, "hard_margin_tokens": 100}
        ).session()
    )
    root = ElementTree.fromstring(html.svg(picture))
    words = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"window 4.0k", "soft 3.3k", "hard 3.5k", "◆", "◫", "!"} <= set(words)
