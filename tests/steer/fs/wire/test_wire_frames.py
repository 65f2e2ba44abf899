"""Bytes from a client become whole frames however they are cut, and nothing but `FrameError` when they are none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.steer.forwarding.forwarder.buffers import BufferPool
from fairlead.steer.forwarding.forwarder.client_sessions import Authority, Session
from fairlead.steer.forwarding.forwarder.connection import RECEIVE_BYTES, Connection, Frame, FrameError
from fairlead.steer.forwarding.forwarder.intake import Intake
from fairlead.steer.forwarding.forwarder.job_proofs import JobProofs
from fairlead.steer.forwarding.forwarder.request import Request
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.sessions import Handles
from fairlead.steer.fs.wire.frames import MAX_FRAME, NO_SLOT, PREFIX_BYTES, REQUEST, Flag
from fairlead.steer.fs.wire.handshake import Hello, generate_handshake_id
from fairlead.steer.fs.wire.slots import make_slots
from wire_client import message


class Pieces:
    """A stream that gives out what it was given in pieces, and takes as much as it is told to."""

    def __init__(self, pieces: list[bytes], takes: list[int] | None = None) -> None:
        self.pieces = [piece for piece in pieces if piece]
        self.takes = takes
        self.sent = bytearray()

    def fileno(self) -> int:
        return 99

    def receive_into(self, view, /) -> int:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        count = min(len(piece), len(view))
        view[:count] = piece[:count]
        if count < len(piece):
            self.pieces.insert(0, piece[count:])
        return count

    def send(self, buffers, /) -> int:
        whole = b"".join(bytes(one) for one in buffers)
        if self.takes is not None:
            if not self.takes:
                raise BlockingIOError
            whole = whole[: self.takes.pop(0)]
            if not whole:
                raise BlockingIOError
        self.sent += whole
        return len(whole)

    def send_along(self, buffers, descriptor) -> int:
        raise NotImplementedError

    def has_pending(self) -> bool:
        return False

    def close(self) -> None:
        pass


def connection(stream: Pieces, *, checksum: bool = False, slots=None, uid: int = -1) -> Connection:
    session = Session(Hello(generate_handshake_id(), generate_handshake_id(), "n"), Authority(uid, gid=77), Handles())
    return Connection(stream, session, slots, BufferPool(), name="test", checksum=checksum, change_mask=lambda _: None)


def intake_of() -> Intake:
    return Intake(BufferPool(), lambda _: None, proofs=JobProofs(None, frozenset()), answer_token=lambda *_: (0, b""))


def received(link: Connection, stream: Pieces) -> list:
    frames: list = []
    while stream.pieces:
        link.receive()
        while (frame := link.take_frame()) is not None:
            frames.append(frame)
    return frames


def cut(data: bytes, lengths: list[int]) -> list[bytes]:
    pieces = []
    place = 0
    for length in lengths:
        pieces.append(data[place : place + length])
        place += length
    return [*pieces, data[place:]]


@settings(deadline=None)
@given(
    st.lists(st.integers(40, 400) | st.sampled_from([64 << 10, (64 << 10) + 41, 200_000, MAX_FRAME]), max_size=6),
    st.lists(st.integers(1, RECEIVE_BYTES), max_size=8),
)
def test_frames_come_out_whole_however_they_were_cut(lengths, cuts) -> None:
    bodies = [bytes([number % 251]) * length for number, length in enumerate(lengths)]
    data = b"".join(REQUEST.pack(len(b), 0, 1, n + 1, 7, NO_SLOT, 0) + b for n, b in enumerate(bodies))
    stream = Pieces(cut(data, cuts))
    frames = received(connection(stream), stream)
    assert [(frame[2], bytes(frame[6])) for frame in frames] == [(n + 1, b) for n, b in enumerate(bodies)]


@pytest.mark.parametrize("length", [0, 39, MAX_FRAME + 1, 0xFFFFFFFF])
def test_impossible_lengths_are_refused_at_once(length) -> None:
    stream = Pieces([REQUEST.pack(length, 0, 0, 1, 0, NO_SLOT, 0)])
    with pytest.raises(FrameError):
        received(connection(stream), stream)


WHOLE = st.sampled_from(
    [
        (message(Op.LOOKUP, 1, b"name\0"), NO_SLOT),
        (message(Op.READ, 2, abi.READ_IN.pack(7, 0, 4096, 0, 0, 0, 0)), NO_SLOT),
        (message(Op.READ, 2, abi.READ_IN.pack(7, 0, 4096, 0, 0, 0, 0)), 1),
        (message(Op.WRITE, 2, abi.WRITE_IN.pack(7, 0, 64, 0, 0, 0, 0) + bytes(64)), NO_SLOT),
        (message(Op.WRITE, 2, abi.WRITE_IN.pack(7, 0, 4096, 0, 0, 0, 0), length=80 + 4096), 0),
        (message(Op.INTERRUPT, 0, abi.INTERRUPT_IN.pack(3)), NO_SLOT),
    ]
)


@settings(deadline=None)
@given(
    WHOLE,
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 200),
    st.booleans(),
)
def test_damaged_frames_are_requests_or_malformed_and_data_stays_in_bounds(whole, damage, keep, checksum) -> None:
    text, slot = whole
    flags = int(Flag.SLOT) if slot != NO_SLOT else 0
    data = bytearray(REQUEST.pack(len(text), flags, 0, 5, 0, slot, 0) + text)
    for place, value in damage:
        data[place % len(data)] = value
    data = data[: max(PREFIX_BYTES, keep)]
    slots = make_slots(2)
    stream = Pieces([bytes(data)])
    link = connection(stream, slots=slots, checksum=checksum)
    intake = intake_of()
    try:
        for frame in received(link, stream):
            request = intake.accept_frame(link, frame, 1)
            if isinstance(request, Request):
                assert request.size <= abi.MAX_WRITE
                if request.op in (Op.READ, Op.WRITE) and request.data is not None:
                    assert len(request.data) == request.size
                assert link.pending.get(request.number) is request or request.op in abi.NO_REPLY
                request.data = None
    except FrameError:
        pass
    finally:
        link.pending.clear()
        slots.close()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.lists(st.integers(0, 100), max_size=40))
def test_answers_arrive_whole_and_in_order_however_slowly_they_are_read(bodies, takes) -> None:
    stream = Pieces([], takes)
    link = connection(stream)
    for number, body in enumerate(bodies):
        link.answer(number, 0, body)
    stream.takes = None
    link.flush()
    place = 0
    for number, body in enumerate(bodies):
        length, _, _, found, error, *_ = abi.Struct("<IHHQiIII").unpack_from(stream.sent, place)
        assert (length, found, error) == (len(body), number, 0)
        place += PREFIX_BYTES
        assert stream.sent[place : place + length] == body
        place += length
    assert place == len(stream.sent)
    assert link.unread == 0


@settings(deadline=None)
@given(st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_restricted_client_acts_as_itself_only(own, claimed) -> None:
    stream = Pieces([])
    link = connection(stream, uid=own)
    text = memoryview(message(Op.LOOKUP, 1, b"a\0", uid=claimed, gid=12))
    request = intake_of().accept_frame(link, Frame(0, 0, 9, 0, NO_SLOT, 0, text), 1)
    if claimed in (own, 0):
        assert request is not None
        assert request.uid == own
        assert request.session.group(12) != 12
    else:
        assert request is None
        assert not link.pending
        assert len(stream.sent) == PREFIX_BYTES
