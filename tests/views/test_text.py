"""What is invisible becomes visible, so that no text can change how a page reads."""

from nova_nb.views.text import head, visible


def test_half_an_emoji_and_terminal_codes_are_named():
    assert visible("half \ud83d, \x1b[31mred\x1b[0m, \u202eback\u2028") == "half ‹U+D83D›, ␛[31mred␛[0m, ‹U+202E›back‹U+2028›"


def test_line_ends_and_ordinary_languages_stay_as_they_are():
    assert visible("über\n\t日本 עברית é\r\n") == "über\n\t日本 עברית é\n"


def test_a_head_is_one_line_and_says_when_it_is_cut():
    assert head("a\n\n  b") == "a b"
    assert head("word " * 100).endswith("…")
    assert len(head("x" * 12_000_000)) == 160
