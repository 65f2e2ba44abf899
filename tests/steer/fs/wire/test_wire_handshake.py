"""Handshakes, tokens, addresses and slots: what is right is understood, everything else is refused with a reason."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.access.tokens import Claims, check_token, issue_token
from fairlead.core.errors import UsageError
from fairlead.steer.fs.wire.address import Address, parse_address
from fairlead.steer.fs.wire.frames import VERSION
from fairlead.steer.fs.wire.handshake import (
    HELLO,
    MAX_JSON,
    OLDEST,
    Feature,
    Hello,
    choose_handshake_version,
    generate_handshake_id,
    pack_handshake_hello,
    parse_handshake_prefix,
    read_handshake_hello,
)
from fairlead.steer.fs.wire.slots import MAX_SLOTS, SLOT_BYTES, make_slots, take_slots

KEY = bytes(range(32))
NS = 1_000_000_000
PRINTED = st.characters(categories=("L", "N", "P", "S"))


@settings(deadline=None)
@given(st.text(PRINTED, max_size=50), st.text(max_size=50), st.lists(st.sampled_from(list(Feature)), max_size=3))
def test_a_hello_is_read_as_it_was_said(node, user, features) -> None:
    hello = Hello(generate_handshake_id(), generate_handshake_id(), node, user=user, features=tuple(features), slots=3)
    data = pack_handshake_hello(hello)
    oldest, newest, length = parse_handshake_prefix(data)
    assert (oldest, newest, length) == (OLDEST, VERSION, len(data) - HELLO.size)
    assert read_handshake_hello(data[HELLO.size :]) == hello


@pytest.mark.parametrize("node", ["a\nb", "\x1b[2J", "x" * 256])
def test_a_node_whose_name_would_harm_a_log_is_refused(node) -> None:
    with pytest.raises(ValueError, match="name of the node"):
        read_handshake_hello(
            pack_handshake_hello(Hello(generate_handshake_id(), generate_handshake_id(), node))[HELLO.size :]
        )


@settings(deadline=None)
@given(st.binary(min_size=HELLO.size, max_size=400))
def test_anything_else_is_no_hello(data) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_handshake_prefix(data)
    with pytest.raises(ValueError, match=r"."):
        read_handshake_hello(data)


def test_a_long_hello_is_refused_before_it_is_received() -> None:
    with pytest.raises(ValueError, match="allowed"):
        parse_handshake_prefix(HELLO.pack(b"FAIRLEAD", 1, 1, MAX_JSON + 1))


@settings(deadline=None)
@given(st.integers(0, 65535), st.integers(0, 65535))
def test_versions_are_common_or_none(oldest, newest) -> None:
    chosen = choose_handshake_version(oldest, newest)
    if chosen:
        assert oldest <= chosen <= newest
        assert OLDEST <= chosen <= VERSION
    else:
        assert newest < OLDEST or oldest > VERSION or newest < oldest


@settings(deadline=None)
@given(st.text(max_size=30), st.integers(-1, 2**31), st.integers(1, 2**33))
def test_a_token_tells_its_claims_until_it_expires(job, uid, expires_s) -> None:
    claims = Claims(expires_s, job, uid)
    token = issue_token(KEY, claims)
    assert check_token(KEY, token, expires_s * NS - 1) == claims
    with pytest.raises(ValueError, match="expired"):
        check_token(KEY, token, expires_s * NS)
    with pytest.raises(ValueError, match="not valid"):
        check_token(KEY[::-1], token, 0)


@settings(deadline=None)
@given(st.data())
def test_a_token_with_one_character_changed_is_not_valid(data) -> None:
    token = issue_token(KEY, Claims(10, "job 7", 1000))
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda c: c != token[place]))
    changed = token[:place] + other + token[place + 1 :]
    try:
        claims = check_token(KEY, changed, 0)
    except ValueError:
        return
    assert claims == Claims(10, "job 7", 1000)  # the last character of base64 has bits that mean nothing


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_token_or_refused(text) -> None:
    with pytest.raises(ValueError, match="token"):
        check_token(KEY, text, 0)


@settings(deadline=None)
@given(st.sampled_from(["tcp", "tls"]), st.sampled_from(["host", "10.0.0.1", "::1", "fe80::2"]), st.integers(0, 65535))
def test_addresses_are_read_as_they_are_written(kind, host, port) -> None:
    address = Address(kind, host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "unix:", "tcp:host", "tcp::1", "udp:h:1", "tcp:h:65536", "tcp:h:-1", "/a/b", "tls:h:x"]
)
def test_wrong_addresses_say_how_to_write_them(text) -> None:
    with pytest.raises(UsageError, match="unix:PATH"):
        parse_address(text)


def test_slots_are_shared_between_both_sides() -> None:
    mine = make_slots(3)
    theirs = take_slots(os.dup(mine.descriptor), 3)
    mine.data[2][:4] = b"data"
    assert bytes(theirs.data[2][:4]) == b"data"
    theirs.close()
    mine.close()


def _memory(size: int, *, sealed: bool = True) -> int:
    if not sealed:
        descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        return descriptor
    slots = make_slots(size // SLOT_BYTES)
    descriptor = os.dup(slots.descriptor)
    slots.close()
    return descriptor


@pytest.mark.parametrize(
    ("descriptor", "count", "why"),
    [
        (lambda: _memory(2 * SLOT_BYTES, sealed=False), 2, "sealed"),
        (lambda: _memory(2 * SLOT_BYTES), 3, "size"),
        (lambda: _memory(2 * SLOT_BYTES), 1, "size"),
        (lambda: _memory(2 * SLOT_BYTES), 0, "possible"),
        (lambda: _memory(2 * SLOT_BYTES), MAX_SLOTS + 1, "possible"),
        (lambda: os.open("/proc/self/status", os.O_RDONLY), 1, "no memory file"),
        (lambda: os.open("/dev/null", os.O_RDWR), 1, "no memory file"),
    ],
)
def test_memory_that_could_shrink_or_is_none_is_refused(descriptor, count, why) -> None:
    passed = descriptor()
    with pytest.raises(ValueError, match=why):
        take_slots(passed, count)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(passed)
