"""Client of a TT-Fabric chip, over the chip's Unix socket, or over HTTP if there is no socket.

The module needs nothing but Python 3.9 and its standard library. Copy it, or put its folder on
PYTHONPATH. The format of the frames on a socket is in the Go package node/admin/attach. 'ttfabric
node' serves a description of the HTTP calls at /v1/ of each chip.

A rank that 'ttfabric run' started:

    import ttfabric
    me = ttfabric.attach()
    right = me.chips[(me.rank + 1) % me.world_size]
    me.write(right, ttfabric.noc(1, 1, 0x20000), b"hello")
    me.barrier()

Any other program beside a chip:

    chip = ttfabric.Chip("/run/user/1000/ttfabric/default/chip-M0D0.sock")
    chip = ttfabric.HTTPChip("127.0.0.1:33154", token)

A destination is a chip such as "M0D3", or a multicast such as "E2,N1": two hops east and one
north. Each call waits until its command has ended, and raises a FabricError if the destination
did not perform the command. A Chip serves one thread; open another Chip for another thread.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

MAX_BLOCK = 1 << 20  # largest payload of one write or read, in bytes
MAX_PACKET = 4096  # largest payload of the other commands, in bytes
MAX_STATE = 64 << 20  # largest state of a rank in a checkpoint, in bytes
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
             "too many exceptions", "out of memory", "flow unknown", "harvested tile", "untranslated coordinates",
             "no host memory", "host gone")
_DROPS = ("", "next hop dead", "TTL expired", "no route", "malformed", "timeout", "unreachable",
          "tables replaced", "drained", "flushed")
_DOUBTS = ("", "the destination restarted", "the route died", "no answer came", "the last route died",
           "the epoch was older", "the request is late", "the data were lost", "the host has gone")

# A call repeats a command after these results, as the Go sessions do. A write of unknown outcome is
# never repeated.
_REPEATED_OUTCOMES = {"again", "too many exceptions", "flow unknown"}
_REPEATED_DROPS = {"", "next hop dead", "tables replaced"}
_MAX_REFUSALS = 200  # largest number of repetitions after refusals
_MAX_LOSSES = 4  # largest number of repetitions after losses
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1  # pauses before repetitions, in seconds

# The names of the HTTP API for the numbers above.
_API_COMMANDS = {_WRITE: "write", _INLINE: "inline-write", _ATOMIC: "atomic-inc", _FUSED: "fused-write-inc",
                 _SCATTER: "scatter-write", _READ: "read"}
_API_OUTCOMES = tuple(name.replace(" ", "-") for name in _OUTCOMES)
_API_DROPS = ("none",) + tuple(name.lower().replace(" ", "-") for name in _DROPS[1:])
_API_DOUBTS = ("none", "destination-restarted", "route-died", "no-answer", "unreachable", "taken-for-former", "not-seen",
               "data-lost", "host-gone")
_API_EVENTS = {"link up": "link up", "link down": "link down", "link session ended": "session ended",
               "packet dropped": "packets dropped", "tables installed": "tables changed"}
_API_BATCH = 256  # largest number of packets in one call
_NO_WAY = "tag:ttfabric,2026:no-way"

_KEPT_CHECKPOINTS = 2  # number of complete checkpoints that a folder keeps

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
            with contextlib.suppress(BrokenPipeError):  # a chip that refuses the client has sent its reason before
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
        self._disconnect()

    def _disconnect(self) -> None:
        self._sock.close()

    def __enter__(self) -> "Chip":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Commands

    def write(self, dst: str, addr: int, data: bytes, *, plane: int = 0, posted: bool = False) -> None:
        """Writes data of any length. The own chip performs each block of up to 1 MiB at one instant."""
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
        """Waits until all posted commands to dst have ended. Raises FabricError if one was not performed, or perhaps not performed."""
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
        """Waits until all ranks have called barrier_of with this name at this chip. Raises RankLeft if a rank goes away."""
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


class HTTPChip(Chip):
    """A connection to the API of one chip, for a chip whose socket this machine cannot reach.

    The calls are those of a Chip, but slower. A write of more than 4096 bytes travels as several
    packets, which the chip does not perform at one instant. A barrier that takes longer than its
    timeout breaks for the other ranks, too.
    """

    def __init__(self, address: str, token: str) -> None:
        """Connects to the API at an address of the form HOST:PORT. Each call carries the token."""
        self._address, self._token = address, token
        self._conn = http.client.HTTPConnection(address)
        self._places = {}
        self._batch = None
        self._requests: List[Tuple[Dict[str, Any], str]] = []  # packets of the batch, and their destinations
        try:
            view = self._json("GET", "/v1/chip")
        except BaseException:
            self._conn.close()
            raise
        self.chip, self.incarnation = view["chip"], int(view["incarnation"], 16)
        self.max_frame, self.max_in_flight = MAX_BLOCK, _API_BATCH

    def _disconnect(self) -> None:
        self._conn.close()

    @contextlib.contextmanager
    def batch(self) -> Iterator["Chip"]:
        """Sends the commands of a with-block together, as Chip.batch does."""
        if self._batch is not None:
            raise RuntimeError("a batch within a batch")
        self._batch, self._requests = [], []
        try:
            yield self
            packets = self._requests
        finally:
            self._batch, self._requests = None, []
        errors: List[FabricError] = []
        for body, (_, dst) in zip(self._perform([p for p, _ in packets]), packets):
            try:
                if isinstance(body, FabricError):
                    raise body
                self._check(_result(body), dst)
            except FabricError as e:
                errors.append(e)
        if errors:
            raise errors[0]

    def wait(self, addr: int, value: int, *, equal: bool = False, timeout: Optional[float] = None) -> int:
        """Waits until a word of this chip's memory is at least value, and returns the word, as Chip.wait does."""
        body = {"addr": _api_addr(addr), "value": value, "equal": equal}
        return int(self._json("POST", "/v1/wait", body, timeout, f"the word at {addr:#x} did not become {value}")["word"])

    def barrier_of(self, name: str, rank: int, ranks: int, timeout: Optional[float] = None) -> None:
        """Waits until all ranks have called barrier_of with this name at this chip. Raises RankLeft if a rank goes away."""
        self._json("POST", "/v1/barrier", {"name": name, "rank": rank, "ranks": ranks}, timeout,
                   f"not all {ranks} ranks came to barrier {name!r}")

    def events(self) -> Iterator[dict]:
        """Yields the chip's events from now on, as dictionaries with "time", "kind" and more."""
        conn = http.client.HTTPConnection(self._address)
        try:
            conn.request("GET", "/v1/events", headers={"Authorization": "Bearer " + self._token})
            answer = conn.getresponse()
            if answer.status != 200:
                raise self._problem(answer.status, answer.read(), "/v1/events")
            latest = int(answer.headers["Ttfabric-Seq"])
            for line in answer:
                if line.startswith(b"data: "):
                    view = json.loads(line[6:])
                    if view["seq"] > latest and f"{view['type']} {view['action']}" in _API_EVENTS:
                        yield _api_event(view)
        finally:
            conn.close()

    def moment(self) -> dict:
        """Returns how the chip's requests have ended so far."""
        return dict(self._json("GET", "/v1/ends"))

    def save_memory(self) -> bytes:
        """Returns an image of the memory of the chip's tiles. The Go package node/noc/image describes the format."""
        return self._call("GET", "/v1/memory")

    def restore_memory(self, image: bytes) -> None:
        """Replaces the memory of the chip's tiles by an image. Memory that the image lacks then reads as zero."""
        self._call("PUT", "/v1/memory", bytes(image))

    def _do(self, dst: str, kind: int, addr: int, value: int, flags: int, plane: int, *, sem: int = 0,
            payload: bytes | memoryview = b"", size: int = 0, chunks: Sequence[Tuple[int, bytes]] = ()) -> memoryview:
        """Performs a command, and repeats it if a repetition can mend its failure. Returns its result, as Chip._do does."""
        packets = self._packets(dst, kind, addr, value, flags, plane, sem, payload, size, chunks)
        reads = kind == _READ or bool(flags & _PROBE)
        if self._batch is not None:
            if reads:
                raise RuntimeError("reads, pings and flushes cannot be part of a batch")
            self._requests += [(p, dst) for p in packets]
            return memoryview(b"")
        tries, pause = 0, _FIRST_PAUSE
        while True:
            bodies = self._perform(packets)
            for body in bodies:
                if isinstance(body, FabricError):
                    raise body
                r = _result(body)
                if r.members or r.fate not in ("done", "posted"):
                    break
            else:
                if len(bodies) == 1:
                    return memoryview(bodies[0])
                return memoryview(bodies[0][:_RESULT.size] + b"".join(b[_RESULT.size:] for b in bodies))
            if r.members or not _repeats(r, reads, tries):
                self._check(r, dst)
            time.sleep(pause)
            tries, pause = tries + 1, min(2 * pause, _LONGEST_PAUSE)

    def _packets(self, dst: str, kind: int, addr: int, value: int, flags: int, plane: int, sem: int,
                 payload: bytes | memoryview, size: int, chunks: Sequence[Tuple[int, bytes]]) -> List[Dict[str, Any]]:
        """Returns the packets of a command. A write or a read has one packet for each 4096 bytes."""
        mesh, chip, ranges = self._places.get(dst) or self._place(dst)
        packet: Dict[str, Any] = {"dst": chip_name((mesh, chip)), "plane": plane, "posted": bool(flags & _POSTED)}
        if any(ranges):
            packet["multicast"] = dst
        if flags & _PROBE:
            return [{**packet, "probe": True, "flush": bool(flags & _FLUSH)}]
        command: Dict[str, Any] = {"type": _API_COMMANDS[kind], "value": value & 0xFFFFFFFF, "flush": bool(flags & _FLUSH)}
        if kind == _FUSED:
            command["sem"] = _api_addr(sem)
        if kind == _SCATTER:
            command.update(chunks=len(chunks), scatter=[_api_addr(a) for a, _ in chunks], sizes=[len(d) for _, d in chunks])
        else:
            command["addr"] = _api_addr(addr)
        if kind not in (_WRITE, _READ):
            return [{**packet, "command": command, "payload": base64.b64encode(payload).decode()}]
        out = []
        n = size or len(payload)
        for at in range(0, max(n, 1), MAX_PACKET):
            piece: Dict[str, Any] = {**packet, "command": {**command, "addr": _api_addr(addr + at)}}
            if kind == _READ:
                piece["command"]["size"] = min(MAX_PACKET, n - at)
            else:
                piece["payload"] = base64.b64encode(payload[at:at + MAX_PACKET]).decode()
            out.append(piece)
        return out

    def _perform(self, packets: List[Dict[str, Any]]) -> List[Any]:
        """Sends packets in order. Returns the packed result of each packet, or an error if the chip did not start the packet."""
        out: List[Any] = []
        while len(out) < len(packets):
            part = packets[len(out):len(out) + _API_BATCH]
            answer = self._call("POST", "/v1/requests", part)
            lines = [json.loads(line) for line in answer.splitlines()]
            started = next(line for line in lines if "started" in line)
            ends = {line["index"]: line for line in lines if "index" in line}
            for i in range(started["started"]):
                if i not in ends:
                    raise ConnectionError(_CLOSED)
                out.append(_api_result(ends[i]))
            if started["started"] < len(part):
                why = started["problem"]
                out.append(RefusedByChip(2 if why["type"] == _NO_WAY else 1, why["detail"]))
        return out

    def _json(self, method: str, path: str, body: Any = None, timeout: Optional[float] = None, text: str = "") -> Any:
        return json.loads(self._call(method, path, body, timeout, text))

    def _call(self, method: str, path: str, body: Any = None, timeout: Optional[float] = None, text: str = "") -> bytes:
        """Makes a call of the API, and returns the body of the answer."""
        pause = _FIRST_PAUSE
        for tries in range(_MAX_REFUSALS + 1):
            try:
                self._conn.timeout = timeout if timeout is None else max(timeout, 1e-6)
                if self._conn.sock is not None:
                    self._conn.sock.settimeout(self._conn.timeout)
                self._conn.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
                                   {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"})
                answer = self._conn.getresponse()
                content = answer.read()
            except socket.timeout:
                self._conn.close()  # the chip then ends the wait
                raise Timeout(f"{text} within {timeout} s", "unknown") from None
            except http.client.HTTPException as e:
                self._conn.close()
                raise ConnectionError(f"{_CLOSED}: {e}") from e
            except OSError:
                self._conn.close()
                raise
            if answer.status // 100 == 2:
                return content
            if answer.status != 503 or path != "/v1/requests" or tries == _MAX_REFUSALS:
                raise self._problem(answer.status, content, path)
            time.sleep(pause)  # the chip has as many batches under way as it may have
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    @staticmethod
    def _problem(status: int, content: bytes, path: str) -> RefusedByChip:
        """Returns the error of a call that the chip refuses, with the code of the protocol on sockets."""
        try:
            why = json.loads(content)
            kind, text = str(why["type"]), str(why["detail"])
        except (ValueError, KeyError, TypeError):
            kind, text = "", content.decode(errors="replace").strip()
        if status == 409 and path == "/v1/barrier":
            return RankLeft(6, text)
        return RefusedByChip(2 if kind == _NO_WAY else 5 if status == 503 else 1, text)


def _api_addr(addr: int) -> Any:
    """Returns an address as the API takes it."""
    if addr >> 60:
        return f"noc1:{addr >> 36 & 63}-{addr >> 42 & 63}:{addr & (1 << 36) - 1:#x}"
    return addr


def _api_end(end: Dict[str, Any]) -> Tuple[int, int, int, int, Node]:
    """Returns fate, outcome, drop, doubt and place of a drop as the numbers of the protocol on sockets."""
    def number(names: Sequence[str], name: str) -> int:
        return names.index(name) if name in names else 255
    return (number(_FATES, end["fate"]), number(_API_OUTCOMES, end.get("outcome", "done")), number(_API_DROPS, end.get("drop", "none")),
            number(_API_DOUBTS, end.get("doubt", "none")), parse_chip(end["at"]) if "at" in end else (0, 0))


def _api_result(end: Dict[str, Any]) -> bytes:
    """Packs a result of the API as the protocol on sockets does."""
    fate, outcome, drop, doubt, at = _api_end(end)
    members, data = end.get("members", []), base64.b64decode(end.get("data", ""))
    out = [_RESULT.pack(fate, outcome, drop, doubt, *at, end["nanoseconds"], end.get("missed", 0), len(members), len(data))]
    for m in members:
        fate, outcome, drop, doubt, at = _api_end(m)
        out.append(_MEMBER.pack(*parse_chip(m["chip"]), fate, outcome, drop, doubt, *at))
    return b"".join(out) + data


def _api_port(text: str) -> dict:
    """Returns a port such as "M0D1 channel 3" in the form of the protocol on sockets."""
    chip, _, channel = text.partition(" channel ")
    return {"Node": chip, "Channel": int(channel) if channel.isdigit() else 0}


def _api_event(view: Dict[str, Any]) -> dict:
    """Returns an event of the API in the form of the protocol on sockets."""
    detail = view.get("detail", {})
    out = {"time": view["time"], "kind": _API_EVENTS[f"{view['type']} {view['action']}"]}
    if out["kind"] != "tables changed":
        out.update(port=_api_port(view["actor"]), peer=_api_port(detail.get("peer", "")))
    if "reason" in detail:
        out["reason"] = detail["reason"]
    for name in ("count", "packets_of_unknown_fate"):
        if detail.get(name, "").isdigit():
            out["count"] = int(detail[name])
    for name in ("silent", "unreachable"):
        chips = [w for w in detail.get(name, "").split() if re.fullmatch(r"M\d+D\d+", w)]
        if chips:
            out[name] = chips
    return out


def _write(path: str, content: bytes) -> None:
    """Makes a file, and returns when the disk has the content."""
    with open(path, "xb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())


class Rank(Chip):
    """A rank of a job that 'ttfabric run' started."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._of_environment()

    def _of_environment(self) -> None:
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.chips = os.environ["TTFABRIC_CHIPS"].split(",")  # chip of each rank
        self.job = os.environ["TTFABRIC_JOB"]
        self.attempt = int(os.environ["TTFABRIC_ATTEMPT"])
        row, _, column = os.environ.get("TTFABRIC_COORDINATES", "0,0").partition(",")
        self.coordinates = int(row), int(column)  # row and column of the chip in its mesh
        self._meeting: Optional[Chip] = None
        self._checkpoints = os.environ.get("TTFABRIC_CHECKPOINTS", "")
        self.restored = int(os.environ.get("TTFABRIC_CHECKPOINT") or 0)  # checkpoint whose memory all chips have; 0: none
        self.state = b""  # what this rank gave to save for this checkpoint
        self._latest = self.restored  # latest checkpoint
        if self.restored:
            with open(os.path.join(self._checkpoints, f"{self.restored:08d}", os.environ["TTFABRIC_CHIP"] + ".state"), "rb") as f:
                self.state = f.read(MAX_STATE + 1)

    def save(self, state: bytes = b"") -> None:
        """Makes a checkpoint of the job, with the memory of each rank's chip and the state of each rank.

        All ranks must call save, after their own requests have ended. If 'ttfabric run' starts the
        job again later, it first restores the memory of all chips. restored is then the number of
        the checkpoint, and state has the state of this rank. After an error, the rank should end.
        """
        if not self._checkpoints:
            raise FabricError("this job has no folder for checkpoints: start it with 'ttfabric run --checkpoints FOLDER'")
        if len(state) > MAX_STATE:
            raise ValueError(f"a state of {len(state)} bytes: want at most {MAX_STATE}")
        number = self._latest + 1
        part = os.path.join(self._checkpoints, f"{number:08d}.partial")
        if self.rank == 0:
            shutil.rmtree(part, ignore_errors=True)
            os.makedirs(part, 0o700)
        self.barrier()
        chip = os.environ["TTFABRIC_CHIP"]
        with open(os.environ["TTFABRIC_TOKEN_FILE"]) as f:
            with HTTPChip(os.environ["TTFABRIC_API"], f.read().strip()) as api:
                moment = api.moment()
                _write(os.path.join(part, chip + ".mem"), api.save_memory())
        _write(os.path.join(part, chip + ".state"), bytes(state))
        _write(os.path.join(part, chip + ".json"), json.dumps({
            "number": number, "rank": self.rank, "ranks": self.world_size, "chip": chip, "topology": os.environ["TTFABRIC_TOPOLOGY"],
            "moment": moment, "state": len(state)}).encode())
        self.barrier()
        if self.rank == 0:
            os.rename(part, part[:-len(".partial")])
            for name in os.listdir(self._checkpoints):
                if re.fullmatch(r"\d{8}", name) and 0 < int(name) <= number - _KEPT_CHECKPOINTS:
                    shutil.rmtree(os.path.join(self._checkpoints, name))
        self.barrier()
        self._latest = number

    def _root(self) -> Chip:
        """Connects to the chip of rank 0, where barriers meet."""
        return Chip(os.environ["TTFABRIC_ROOT_SOCKET"])

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Waits until all ranks of the job have called barrier. Raises RankLeft if a rank has ended."""
        if self._meeting is None:
            self._meeting = self._root()
        self._meeting.barrier_of(f"{self.job}.{self.attempt}", self.rank, self.world_size, timeout)

    def close(self) -> None:
        """Ends the connections."""
        if self._meeting is not None:
            self._meeting.close()
        self._disconnect()


class HTTPRank(HTTPChip, Rank):
    """A rank that reaches its chip over HTTP."""

    def __init__(self, address: str) -> None:
        with open(os.environ["TTFABRIC_TOKEN_FILE"]) as f:
            HTTPChip.__init__(self, address, f.read().strip())
        self._of_environment()

    def _root(self) -> Chip:
        return HTTPChip(os.environ["TTFABRIC_ROOT_API"], self._token)


def attach() -> Rank:
    """Attaches to the chip of this rank, from the variables that 'ttfabric run' sets: over its socket, or else over HTTP."""
    if "RANK" not in os.environ:
        raise FabricError("this program is no rank: start it with 'ttfabric run', or name a socket: ttfabric.Chip(path)")
    path, address = os.environ.get("TTFABRIC_SOCKET", ""), os.environ.get("TTFABRIC_API", "")
    if not path and not address:
        raise FabricError("this rank has neither a socket in TTFABRIC_SOCKET nor an address in TTFABRIC_API: start it with 'ttfabric run'")
    return Rank(path) if path else HTTPRank(address)
