"""Client of a TT-Fabric chip, over the chip's Unix socket.

The module needs nothing but Python 3.9 and its standard library. Copy it, or put its folder on
PYTHONPATH. The format of the frames is in the Go package node/admin/attach.

A rank that 'ttfabric run' started:

    import ttfabric
    me = ttfabric.attach()
    right = me.chips[(me.rank + 1) % me.world_size]
    me.write(right, ttfabric.noc(1, 1, 0x20000), b"hello")
    me.barrier()

Any other program beside a chip:

    chip = ttfabric.Chip("/run/user/1000/ttfabric/default/chip-M0D0.sock")

A destination is a chip such as "M0D3", or a multicast such as "E2,N1": two hops east and one
north. Each call waits until its command has ended, and raises a FabricError if the destination
did not perform the command. A Chip serves one thread; open another Chip for another thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

MAX_BLOCK = 1 << 20  # largest payload of one write or read, in bytes
MAX_PACKET = 4096  # largest payload of the other commands, in bytes
MAX_IN_FLIGHT = 1024  # largest number of requests without an answer
VERSION = 1

_HEAD = struct.Struct("<IB3xQ")
_COMMAND = struct.Struct("<HHBBHQQII8sBB6x")
_HEAD_COMMAND = struct.Struct("<IB3xQHHBBHQQII8sBB6x")  # both in one
_FATE_LISTS = struct.Struct("<B23xII")  # of a result: the fate, and the lengths of its lists
_RESULT = struct.Struct("<BBBBHHqQII")
_MEMBER = struct.Struct("<HHBBBBHH")

_LONGEST_FRAME = MAX_BLOCK + (1 << 16)  # longest frame that this client takes, in bytes
_RECEIVE = 1 << 16  # size of the memory for received frames, in bytes
_JOINED = 1 << 14  # longest payload that is copied behind its header, in bytes; a longer payload is sent without a copy

_HELLO, _COMMAND_KIND, _WAIT, _CANCEL, _BARRIER, _EVENTS, _MOMENT = range(1, 8)
_ANSWER, _EVENT, _ERROR = 128, 144, 255
_WRITE, _INLINE, _ATOMIC, _FUSED, _SCATTER, _READ = 0, 1, 2, 3, 4, 7
_PROBE, _FLUSH, _POSTED, _OTHER = 1, 2, 4, 8

_FATES = ("done", "refused", "lost", "unknown", "posted")
_OUTCOMES = ("done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted",
             "too many exceptions", "out of memory", "flow unknown", "harvested tile", "untranslated coordinates")
_DROPS = ("", "next hop dead", "TTL expired", "no route", "malformed", "timeout", "unreachable",
          "tables replaced", "drained", "flushed")
_DOUBTS = ("", "the destination restarted", "the route died", "no answer came", "the last route died",
           "the epoch was older", "the request is late", "the data were lost")

# A call repeats a command after these results, as the Go sessions do. A write of unknown outcome is
# never repeated.
_REPEATED_OUTCOMES = {"again", "too many exceptions", "flow unknown"}
_REPEATED_DROPS = {"", "next hop dead", "tables replaced"}
_MAX_REFUSALS = 200  # largest number of repetitions after refusals
_MAX_LOSSES = 4  # largest number of repetitions after losses
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1  # pauses before repetitions, in seconds

_CLOSED = "the chip has closed the connection"
_MAX_PLACES = 4096  # largest number of destinations that a client notes

Node = Tuple[int, int]
_Place = Tuple[int, int, bytes]  # mesh, chip and ranges of a command


class FabricError(Exception):
    """A command was not performed, or perhaps not performed.

    fate is "refused", "lost" or "unknown". reason says why. For a multicast, members lists the
    chips that did not perform the command, with the fate and the reason of each.
    """

    def __init__(self, text: str, fate: str = "refused", reason: str = "",
                 members: Sequence[Tuple[str, str, str]] = ()) -> None:
        super().__init__(text)
        self.fate, self.reason, self.members = fate, reason, list(members)


class RefusedByChip(FabricError):
    """The chip did not start the request. code is the code of the protocol."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text, "refused", text)
        self.code = code


class RankLeft(RefusedByChip):
    """Another rank has left the barrier."""


class Timeout(FabricError):
    """A wait or a barrier took longer than its timeout."""


def noc(x: int, y: int, offset: int) -> int:
    """Returns the address of a byte in the tile at column x and row y."""
    if not (0 <= x < 64 and 0 <= y < 64 and 0 <= offset < 1 << 36):
        raise ValueError(f"address {x}-{y}:{offset:#x}: want coordinates of 0 to 63 and an offset below 2**36")
    return offset | x << 36 | y << 42


def parse_chip(name: str) -> Node:
    """Returns mesh and chip of a name such as "M0D3"."""
    m = re.fullmatch(r"M(\d+)D(\d+)", name)
    if not m or int(m[1]) > 65535 or int(m[2]) > 65535:
        raise ValueError(f'chip {name!r}: want a name such as "M0D3"')
    return int(m[1]), int(m[2])


def chip_name(node: Node) -> str:
    """Returns the name of a chip, such as "M0D3"."""
    return f"M{node[0]}D{node[1]}"


def _ranges(text: str) -> bytes:
    """Returns the ranges of a multicast such as "E2,N1". "E2-4" leaves out the first chip."""
    hops, skip = [0] * 4, [0] * 4
    for part in text.split(","):
        m = re.fullmatch(r"([EWNS])(?:(\d+)-)?(\d+)", part.strip())
        if not m:
            raise ValueError(f'multicast {text!r}: want hops such as "E2,N1", or "E2-4" for the second to fourth')
        d, first, last = "EWNS".index(m[1]), int(m[2] or 1), int(m[3])
        if not 1 <= first <= last <= 255 or hops[d]:
            raise ValueError(f"multicast {text!r}: want 1 to 255 hops, and each direction once")
        hops[d], skip[d] = last, first - 1
    return bytes(hops + skip)


@dataclass
class Result:
    """The answer to a command."""
    fate: str
    outcome: str
    drop: str
    doubt: str
    at: str  # chip that dropped the packet
    nanoseconds: int  # time from the start of the command to its end, by the chip's clock
    missed: int
    data: bytes
    members: List[Tuple[str, "Result"]] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Why the command was not performed."""
        if self.fate == "refused":
            return self.outcome
        if self.fate == "lost":
            return f"chip {self.at} dropped it: {self.drop}" if self.drop else "lost on its route"
        return self.doubt


def _name(names: Sequence[str], i: int) -> str:
    return names[i] if i < len(names) else f"number {i}"


def _result(body: bytes | memoryview) -> Result:
    fate, outcome, drop, doubt, mesh, chip, nanos, missed, members, n = _RESULT.unpack_from(body)
    r = Result(_name(_FATES, fate), _name(_OUTCOMES, outcome), _name(_DROPS, drop), _name(_DOUBTS, doubt),
               chip_name((mesh, chip)), nanos, missed, b"")
    at = _RESULT.size
    for _ in range(members):
        m, c, f, o, d, why, am, ac = _MEMBER.unpack_from(body, at)
        at += _MEMBER.size
        r.members.append((chip_name((m, c)), Result(_name(_FATES, f), _name(_OUTCOMES, o), _name(_DROPS, d),
                                                    _name(_DOUBTS, why), chip_name((am, ac)), nanos, 0, b"")))
    r.data = bytes(body[at:at + n])
    return r


class Chip:
    """A connection to one chip. The chip is the source of all commands."""

    def __init__(self, path: str) -> None:
        """Connects to the chip's Unix socket."""
        self._path = path
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._number = 0
        self._in = memoryview(bytearray(_RECEIVE))  # received bytes
        self._from = self._to = 0  # the bytes of frames that were not taken yet are self._in[self._from:self._to]
        self._long_frame = bytearray()  # memory for the body of a frame that is longer than self._in
        self._places: Dict[str, _Place] = {}  # destinations of earlier commands
        self._batch: Optional[List[Tuple[bytes, str]]] = None
        try:
            self._sock.connect(path)
            self._send(_HELLO, b"TTATTACH" + struct.pack("<H6x", VERSION))
            body = self._receive(self._number, _HELLO)
        except BaseException:
            self._sock.close()
            raise
        version, mesh, chip, self.incarnation, self.max_frame, self.max_in_flight, self.topology_hash = \
            struct.unpack("<HHH2xQIII4x", body)
        self.chip = chip_name((mesh, chip))

    def close(self) -> None:
        """Ends the connection."""
        self._sock.close()

    def __enter__(self) -> "Chip":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Commands

    def write(self, dst: str, addr: int, data: bytes, *, plane: int = 0, posted: bool = False) -> None:
        """Writes data of any length. The destination performs up to 1 MiB of a write to the own chip at one instant."""
        view = memoryview(data).cast("B")
        for at in range(0, max(len(view), 1), MAX_BLOCK):
            self._do(dst, _WRITE, addr + at, 0, _POSTED if posted else 0, plane, payload=view[at:at + MAX_BLOCK])

    def read(self, dst: str, addr: int, size: int, *, plane: int = 0) -> bytes:
        """Reads size bytes."""
        out = []
        for at in range(0, size, MAX_BLOCK):
            n = min(MAX_BLOCK, size - at)
            body = self._do(dst, _READ, addr + at, 0, 0, plane, size=n)
            if len(body) != _RESULT.size + n:
                raise FabricError(f"chip {dst} answered a read of {n} bytes with {len(body) - _RESULT.size} bytes", "unknown")
            out.append(bytes(body[_RESULT.size:]))
        return b"".join(out)

    def write_word(self, dst: str, addr: int, value: int, *, plane: int = 0, posted: bool = False) -> None:
        """Writes one word of 32 bits, which travels in the packet's header (inline write)."""
        self._do(dst, _INLINE, addr, value, _POSTED if posted else 0, plane)

    def read_word(self, dst: str, addr: int, *, plane: int = 0) -> int:
        """Reads one word of 32 bits."""
        return int.from_bytes(self.read(dst, addr, 4, plane=plane), "little")

    def atomic_inc(self, dst: str, addr: int, add: int = 1, *, flush: bool = False, plane: int = 0,
                   posted: bool = False) -> None:
        """Adds to a counter. With flush, the destination first performs this chip's earlier writes."""
        self._do(dst, _ATOMIC, addr, add, (_FLUSH if flush else 0) | (_POSTED if posted else 0), plane)

    def write_inc(self, dst: str, addr: int, data: bytes, counter: int, add: int = 1, *, flush: bool = False,
                  plane: int = 0, posted: bool = False) -> None:
        """Writes up to 4096 bytes and then adds to a counter, in one packet (fused write and increment)."""
        self._do(dst, _FUSED, addr, add, (_FLUSH if flush else 0) | (_POSTED if posted else 0), plane, sem=counter,
                 payload=data)

    def scatter_write(self, dst: str, chunks: Sequence[Tuple[int, bytes]], *, plane: int = 0) -> None:
        """Writes two to four chunks of address and data, up to 4096 bytes together, in one packet."""
        self._do(dst, _SCATTER, 0, 0, 0, plane, chunks=chunks, payload=b"".join(d for _, d in chunks))

    def ping(self, dst: str, *, plane: int = 0) -> float:
        """Sends an empty packet. Returns the time to its completion in seconds."""
        return _result(self._do(dst, 255, 0, 0, _PROBE, plane)).nanoseconds / 1e9

    def flush(self, dst: str, *, plane: int = 0) -> None:
        """Waits until all posted commands to dst have ended. Raises FabricError if some were missed."""
        missed = _result(self._do(dst, 255, 0, 0, _PROBE | _FLUSH, plane)).missed
        if missed:
            raise FabricError(f"chip {dst}: {missed} posted packets were not performed, or perhaps not performed", "unknown")

    @contextlib.contextmanager
    def batch(self) -> Iterator["Chip"]:
        """Sends the commands of a with-block together, and waits for all at its end.

        The commands are performed in order. Reads are not allowed in a batch, and no command of a
        batch is repeated. Commands within the block return at once.
        """
        if self._batch is not None:
            raise RuntimeError("a batch within a batch")
        self._batch = []
        try:
            yield self
            frames = self._batch
        finally:
            self._batch = None
        errors = []
        for at in range(0, len(frames), MAX_IN_FLIGHT):
            part = frames[at:at + MAX_IN_FLIGHT]
            first = self._number + 1
            self._sock.sendall(b"".join(_HEAD.pack(_HEAD.size + len(b), _COMMAND_KIND, first + i) + b
                                        for i, (b, _) in enumerate(part)))
            self._number += len(part)
            for _ in part:
                number, kind, body = self._frame()
                try:
                    self._check(_result(self._answer(kind, body, _COMMAND_KIND)), part[number - first][1])
                except FabricError as e:
                    errors.append(e)
        if errors:
            raise errors[0]

    # Waits, barriers and events

    def wait(self, addr: int, value: int, *, equal: bool = False, timeout: Optional[float] = None) -> int:
        """Waits until a word of this chip's memory is at least value, and returns the word.

        With equal, the word must equal the value. The timeout is in seconds.
        """
        body = struct.pack("<QIB3x", addr, value, 0 if equal else 1)
        answer = self._long(_WAIT, body, timeout, f"the word at {addr:#x} did not become {value}")
        return int(struct.unpack_from("<I", answer)[0])

    def barrier_of(self, name: str, rank: int, ranks: int, timeout: Optional[float] = None) -> None:
        """Waits until all ranks have called with this name at this chip. Raises RankLeft if one goes away."""
        body = struct.pack("<II", rank, ranks) + name.encode()
        self._long(_BARRIER, body, timeout, f"not all {ranks} ranks came to barrier {name!r}")

    def events(self) -> Iterator[dict]:
        """Yields the chip's events from now on, as dictionaries with "time", "kind" and more."""
        with Chip(self._path) as c:
            c._send(_EVENTS, b"")
            c._receive(c._number, _EVENTS)
            while True:
                _, kind, body = c._frame()
                if kind == _EVENT:
                    yield json.loads(bytes(body))
                else:
                    c._answer(kind, body, _EVENTS)

    def moment(self) -> dict:
        """Returns how the chip's requests have ended so far."""
        self._send(_MOMENT, b"")
        return json.loads(bytes(self._receive(self._number, _MOMENT)))

    # Frames

    def _do(self, dst: str, kind: int, addr: int, value: int, flags: int, plane: int, *, sem: int = 0,
            payload: bytes | memoryview = b"", size: int = 0, chunks: Sequence[Tuple[int, bytes]] = ()) -> memoryview:
        """Performs a command, and repeats it if a repetition can mend its failure. Returns its result, as _frame does."""
        place = self._places.get(dst)
        if place is None:
            place = self._place(dst)
        mesh, chip, ranges = place
        n = len(payload)
        lists = b"".join([struct.pack("<QI", a, len(d)) for a, d in chunks]) if chunks else b""
        batch, tries, pause = self._batch, 0, _FIRST_PAUSE
        if batch is not None:
            if kind == _READ or flags & _PROBE:
                raise RuntimeError("reads, pings and flushes cannot be part of a batch")
            body = _COMMAND.pack(mesh, chip, kind, plane, flags, addr, sem, value & 0xFFFFFFFF, n, ranges, len(chunks), 0)
            batch.append((b"".join((body, lists, payload)) if n else body, dst))
            return memoryview(b"")
        while True:
            number = self._number = self._number + 1
            frame = _HEAD_COMMAND.pack(_HEAD_COMMAND.size + len(lists) + n, _COMMAND_KIND, number, mesh, chip, kind, plane,
                                       flags, addr, sem, value & 0xFFFFFFFF, size or n, ranges, len(chunks), 0)
            if n <= _JOINED:
                self._sock.sendall(b"".join((frame, lists, payload)) if n else frame)
            else:
                self._send_long(frame + lists, payload)
            body = self._receive(number, _COMMAND_KIND)
            fate, members, _ = _FATE_LISTS.unpack_from(body)
            if (fate == 0 or fate == 4) and members == 0:  # done or posted
                return body
            r = _result(body)
            if r.members or not _repeats(r, kind == _READ or bool(flags & _PROBE), tries):
                self._check(r, dst)
            time.sleep(pause)
            tries, pause = tries + 1, min(2 * pause, _LONGEST_PAUSE)

    def _place(self, dst: str) -> _Place:
        """Returns mesh, chip and ranges of a destination, and notes them for later commands."""
        if dst[:1] and dst[0] in "EWNS":
            place = (*parse_chip(self.chip), _ranges(dst))
        else:
            place = (*parse_chip(dst), bytes(8))
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        self._places[dst] = place
        return place

    def _send_long(self, head: bytes, payload: bytes | memoryview) -> None:
        """Sends a frame without a copy of its payload."""
        sent = self._sock.sendmsg([head, payload])
        if sent < len(head):
            self._sock.sendall(head[sent:])
            sent = len(head)
        self._sock.sendall(memoryview(payload)[sent - len(head):])

    @staticmethod
    def _check(r: Result, dst: str) -> None:
        """Raises an error for a result that is not done."""
        if r.members:
            text = "; ".join(f"chip {n}: {m.fate}: {m.reason}" for n, m in r.members)
            raise FabricError(f"multicast to {dst}: {text}", r.fate, r.reason, [(n, m.fate, m.reason) for n, m in r.members])
        if r.fate not in ("done", "posted"):
            raise FabricError(f"chip {dst}: {r.fate}: {r.reason}", r.fate, r.reason)

    def _long(self, kind: int, body: bytes, timeout: Optional[float], text: str) -> memoryview:
        """Makes a request that may take long, and cancels it after the timeout."""
        self._send(kind, body)
        number = self._number
        try:
            self._sock.settimeout(timeout if timeout is None else max(timeout, 1e-6))  # 0 would mean: do not wait for bytes
            return self._receive(number, kind)
        except socket.timeout:
            self._sock.settimeout(None)
            self._send(_CANCEL, struct.pack("<Q", number))
            ended: Optional[memoryview] = None
            for _ in range(2):
                n, k, answer = self._frame()
                if n == number and k != _ERROR:
                    ended = memoryview(bytes(answer))  # the request ended just before the cancel
            if ended is None:
                raise Timeout(f"{text} within {timeout} s", "unknown") from None
            return ended
        finally:
            self._sock.settimeout(None)

    def _send(self, kind: int, body: bytes) -> None:
        self._number += 1
        head = _HEAD.pack(_HEAD.size + len(body), kind, self._number)
        self._sock.sendall(head + body)

    def _receive(self, number: int, kind: int) -> memoryview:
        """Returns the body of the answer to a request."""
        n, k, body = self._frame()
        if n != number and k != _ERROR:
            raise FabricError(f"the chip answered request {n}, but {number} was asked", "unknown")
        return self._answer(k, body, kind)

    @staticmethod
    def _answer(kind: int, body: memoryview, asked: int) -> memoryview:
        if kind == _ERROR:
            code, text = struct.unpack_from("<H", body)[0], bytes(body[4:]).decode(errors="replace")
            raise (RankLeft if code == 6 else RefusedByChip)(code, text)
        if kind != asked + _ANSWER:
            raise FabricError(f"the chip answered a request of kind {asked} with kind {kind}", "unknown")
        return body

    def _frame(self) -> Tuple[int, int, memoryview]:
        """Returns number, kind and body of the next frame. A timeout can end the wait only before the frame's first byte.

        The body is valid until the next frame is received.
        """
        if self._from == self._to:
            self._from = self._to = 0
            self._more()
        at, to = self._from, self._to
        if to - at < _HEAD.size:
            self._rest(_HEAD.size)
            at, to = 0, self._to
        length, kind, number = _HEAD.unpack_from(self._in, at)
        if to - at >= length >= _HEAD.size:
            self._from = at + length
            return number, kind, self._in[at + _HEAD.size:self._from]
        if not _HEAD.size <= length <= _LONGEST_FRAME:
            raise FabricError(f"the chip sent a frame of {length} bytes", "unknown")
        if length <= _RECEIVE:
            self._rest(length)
            self._from = length
            return number, kind, self._in[_HEAD.size:length]
        if not self._long_frame:
            self._long_frame = bytearray(_LONGEST_FRAME)
        body, have = memoryview(self._long_frame)[:length - _HEAD.size], to - at - _HEAD.size
        body[:have] = self._in[at + _HEAD.size:to]
        self._from = self._to = 0
        self._sock.settimeout(None)
        while have < len(body):
            n = self._sock.recv_into(body[have:])
            if n == 0:
                raise ConnectionError(_CLOSED)
            have += n
        return number, kind, body

    def _rest(self, length: int) -> None:
        """Receives until the memory begins with a whole frame, or header, of this length."""
        rest = bytes(self._in[self._from:self._to])
        self._in[:len(rest)] = rest
        self._from, self._to = 0, len(rest)
        self._sock.settimeout(None)
        while self._to < length:
            self._more()

    def _more(self) -> None:
        """Receives some bytes."""
        n = self._sock.recv_into(self._in[self._to:])
        if n == 0:
            raise ConnectionError(_CLOSED)
        self._to += n


def _repeats(r: Result, reads: bool, tries: int) -> bool:
    """Reports whether a call repeats its command after a result."""
    if r.fate == "refused":
        return tries < _MAX_REFUSALS and r.outcome in _REPEATED_OUTCOMES
    if r.fate == "lost":
        return tries < _MAX_LOSSES and r.drop in _REPEATED_DROPS
    return reads and tries < _MAX_LOSSES and r.doubt not in ("no answer came", "the last route died")


class Rank(Chip):
    """A rank of a job that 'ttfabric run' started."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.chips = os.environ["TTFABRIC_CHIPS"].split(",")  # chip of each rank
        self.job = os.environ["TTFABRIC_JOB"]
        self.attempt = int(os.environ["TTFABRIC_ATTEMPT"])
        self._meeting: Optional[Chip] = None

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Waits until all ranks of the job have called barrier. Raises RankLeft if a rank has ended."""
        if self._meeting is None:
            self._meeting = Chip(os.environ["TTFABRIC_ROOT_SOCKET"])
        self._meeting.barrier_of(f"{self.job}.{self.attempt}", self.rank, self.world_size, timeout)

    def close(self) -> None:
        if self._meeting is not None:
            self._meeting.close()
        super().close()


def attach() -> Rank:
    """Attaches to the chip of this rank, from the variables that 'ttfabric run' sets."""
    path = os.environ.get("TTFABRIC_SOCKET", "")
    if "RANK" not in os.environ:
        raise FabricError("this program is no rank: start it with 'ttfabric run', or name a socket: ttfabric.Chip(path)")
    if not path:
        raise FabricError("this rank has no Unix socket of its chip, only the API at "
                          f"{os.environ.get('TTFABRIC_API', '')}; this client needs a socket")
    return Rank(path)
