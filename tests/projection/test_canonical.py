"""Canonical bytes of whatever a caller puts into a request."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_nb.diagnosis.compare import compare
from nova_nb.projection.canonical import encode
from nova_nb.projection.pieces import block_chars
from nova_nb.projection.request import Request


def test_half_a_surrogate_pair_is_escaped_and_tells_two_requests_apart():
    one, two = ({"messages": [{"role": "user", "content": f"x {half}"}]} for half in ("\ud83d", "\ud83e"))
    found = compare(one, two)
    assert not found.equal and found.first[0].block == 0
    request = Request([{"role": "user", "content": [{"type": "text", "text": "x \ud83d é"}]}])
    assert "x \\ud83d é".encode() in request.canonical and request.hash == request.hash
    assert json.loads(request.canonical.splitlines()[2]) == request.messages[0]


def test_a_call_with_half_a_surrogate_pair_has_a_size():
    assert block_chars({"type": "tool_use", "name": "ls", "input": {"path": "\ud83d"}}) == 2 + len('{"path":"\\ud83d"}')


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_the_escaping_way_gives_the_same_bytes_wherever_none_is_needed(value):
    assert encode(value) == msgspec.json.encode(value, order="deterministic")
    assert msgspec.json.decode(encode([value, "\ud83d"]).replace(b"\\ud83d", b"h"))[0] == value


@pytest.mark.parametrize("value", ['é\x00\x1f\x7f\u2028"\\/', 1.5, {"b": 1, "a": {"d": [], "c": None}}])
def test_half_a_pair_elsewhere_moves_no_other_byte(value):
    assert encode([value, "\ud83d"]) == b"[" + encode(value) + b',"\\ud83d"]'
