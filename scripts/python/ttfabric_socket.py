"""Sockets over the fabric: a stream of bytes from one chip to another, with flow control.

A program on the chip of each end opens one end. The Sender and the Receiver wait for each other:

    import ttfabric, ttfabric_socket as sockets
    me = ttfabric.attach()
    with sockets.Sender(me, peer="M0D7") as s:       # on chip M0D0
        s.send(b"hello")
    with sockets.Receiver(me, peer="M0D0") as r:     # on chip M0D7
        for block in r:
            print(block)

The other end may also be a Go program (package node/session/socket), 'ttfabric socket', or a kernel. The
package node/fifo documents the protocol. An end uses its Chip for
itself: other calls of the same Chip must not run at the same time. An end of this module sends no heartbeat. So an end whose program
was killed must be taken over with force=True.
"""

from __future__ import annotations

import secrets
import struct
import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ttfabric import MAX_PACKET, Chip, FabricError, Timeout, chip_name, noc, parse_chip

BLOCK_SIZE, OWNER_SIZE = 96, 64  # lengths of an end's block, and of the first part, which its owner writes, in bytes
_MET, _COUNT, _FARE = 24, 64, 80  # offsets in a block
_SENDER_OFFSET, _RECEIVER_OFFSET = 0x20000, 0x200A0  # offsets of the two blocks of a socket, in the tile of its number
_BLOCK = struct.Struct("<IBBBxQQQIIHHI16x")
_MAGIC = 0x4B535454
_OPEN, _CLOSED, _FAILED = 0, 1, 2  # farewells
_ROLES = {1: "sender", 2: "receiver"}

CHECK_EVERY = 1.0  # time between two looks at the other end, in seconds
MAX_REPEATS = 50  # repetitions of a write that got lost
MAX_CHUNK = 1 << 18  # largest chunk, in bytes, unless a page is longer
_LONGEST_WAIT = 0.05  # longest wait for a counter between two looks at the farewell, in seconds
_LINGER = 1.0  # how long an end that has met another configuration keeps its block, in seconds
_WRAP = 1 << 32

# Columns and rows of Tensix tiles, and the tile with the life register, by architecture.
_WORMHOLE = ((1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11), (9, 0))
_BLACKHOLE = ((1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16), (2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (1, 1))
_LIFE = 0xFFBF0000


class Mismatch(FabricError):
    """The other end of the socket has another configuration."""


class PeerGone(FabricError):
    """The other end of the socket has gone away. reason is "restarted", "replaced", "failed" or "closed"."""


class InUse(FabricError):
    """Another program uses this end of the socket."""


def _machine(chip: Chip) -> Tuple[Sequence[int], Sequence[int], int]:
    """Returns the columns and the rows of the Tensix tiles, and the address of the life register."""
    for xs, ys, (x, y) in (_WORMHOLE, _BLACKHOLE):
        life = noc(x, y, _LIFE)
        try:
            if int.from_bytes(chip.read(chip.chip, life, 8), "little") == chip.incarnation:
                return xs, ys, life
        except FabricError:
            pass
    raise FabricError(f"chip {chip.chip} has no life register")


def place(chip: Chip, number: int, chips: Sequence[str]) -> int:
    """Returns the address of offset 0 in the tile of a socket's number. Sockets use the Tensix tiles that work on all chips
    of the fabric. Number 0 has the last of these tiles, number 1 the one before."""
    xs, ys, _ = _machine(chip)
    left = number
    for y in reversed(ys):
        for x in reversed(xs):
            try:
                for name in chips:
                    chip.read(name, noc(x, y, 0), 4)
            except FabricError as e:
                if e.reason != "harvested tile":
                    raise
                continue
            if left == 0:
                return noc(x, y, 0)
            left -= 1
    raise ValueError(f"socket {number}: the chips have only {number - left} Tensix tiles that work on all of them")


class _End:
    """What a Sender and a Receiver have in common."""
    _role = 0

    def __init__(self, chip: Chip, peer: str, *, number: int = 0, size: int = 1 << 20, page: int = 1, plane: int = 0,
                 at: Optional[int] = None, peer_at: Optional[int] = None, chips: Optional[Sequence[str]] = None,
                 force: bool = False, timeout: Optional[float] = None) -> None:
        """Opens the end, and waits at most timeout seconds until the other end has come.

        Both ends need the same number, size (of the FIFO, in bytes), page and plane. The tile of a number depends on all
        chips of the fabric. A rank knows all chips. Another program names all chips in chips, or gives the addresses of both
        blocks in at and peer_at.
        """
        if not 1 <= page <= size <= 1536 << 10 or size % page:
            raise ValueError(f"a FIFO of {size} bytes with pages of {page}: want at most 1536 KiB, and a multiple of the page")
        if at is None or peer_at is None:
            known = chips or getattr(chip, "chips", None)
            if known is None:
                raise ValueError("which chips does the fabric have? Give chips=[...], or at= and peer_at=")
            tile = place(chip, number, known)
            mine, theirs = (_SENDER_OFFSET, _RECEIVER_OFFSET) if self._role == 1 else (_RECEIVER_OFFSET, _SENDER_OFFSET)
            at = tile + mine if at is None else at
            peer_at = tile + theirs if peer_at is None else peer_at
        self._chip, self._peer, self._at, self._peer_at = chip, chip_name(parse_chip(peer)), at, peer_at
        self._size, self._page, self._plane = size, page, plane
        self._life_at = _machine(chip)[2]
        self._error: Optional[FabricError] = None
        self._closed = False
        self._met = self._life = 0
        block = chip.read(chip.chip, at, OWNER_SIZE)
        if not force and _BLOCK.unpack(block)[0] == _MAGIC:
            raise InUse(f"chip {chip.chip}: another program uses this end of the socket, or was killed; force=True takes its place")
        self._nonce = secrets.randbits(64) | 1
        chip.write(chip.chip, at, self._block() + bytes(BLOCK_SIZE - OWNER_SIZE))
        try:
            self._meet(timeout)
        except BaseException:
            self._free()
            raise
        self._looked = time.monotonic()

    def _block(self) -> bytes:
        mesh, number = parse_chip(self._peer)
        return _BLOCK.pack(_MAGIC, 1, self._role, self._plane, self._nonce, self._chip.incarnation, self._met, self._size, self._page,
                           mesh, number, 0)

    def _meet(self, timeout: Optional[float]) -> None:
        pause, until = 0.001, None if timeout is None else time.monotonic() + timeout
        other = _ROLES[3 - self._role]
        while True:
            if self._met and self._words()[1] != _OPEN:  # the other end has met this end, and has ended already
                return
            try:
                block = self._chip.read(self._peer, self._peer_at, OWNER_SIZE, plane=self._plane)
            except FabricError as e:
                if e.fate == "refused":
                    raise
                block = bytes(OWNER_SIZE)
            magic, version, role, plane, nonce, life, met, size, page, mesh, number, _ = _BLOCK.unpack(block)
            if magic == _MAGIC and version == 1 and nonce and met in (0, self._nonce):
                for what, ours, theirs in (("role", other, _ROLES.get(role, str(role))), ("other end", self._chip.chip, chip_name((mesh, number))),
                                           ("FIFO in bytes", self._size, size), ("page in bytes", self._page, page), ("plane", self._plane, plane)):
                    if ours != theirs:
                        time.sleep(_LINGER)  # the other end sees this end's configuration, too
                        raise Mismatch(f"the {other} at chip {self._peer} has another configuration: {what}: {theirs} there, {ours} here")
                if self._met != nonce:
                    self._met, self._life = nonce, life
                    self._chip.write(self._chip.chip, self._at + _MET, struct.pack("<Q", nonce))
                if met == self._nonce:
                    return
            if until is not None and time.monotonic() > until:
                raise Timeout(f"no {other} at chip {self._peer} has come within {timeout} s", "unknown")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _words(self) -> Tuple[int, int]:
        """Returns the counter and the farewell in this end's block."""
        b = self._chip.read(self._chip.chip, self._at + _COUNT, BLOCK_SIZE - _COUNT)
        return int.from_bytes(b[:4], "little"), int.from_bytes(b[_FARE - _COUNT:_FARE - _COUNT + 4], "little")

    def _wait_counter(self, last: int, seconds: float) -> None:
        """Waits until the counter has another value than last, at most the given time."""
        if last > _WRAP - 2 * self._size:  # a chip's wait cannot wait for a counter that wraps
            time.sleep(0.001)
            return
        try:
            self._chip.wait(self._at + _COUNT, last + 1, timeout=seconds)
        except Timeout:
            pass

    def _gone(self, reason: str, text: str) -> FabricError:
        return PeerGone(f"the {_ROLES[3 - self._role]} at chip {self._peer} is gone: {text}", "unknown", reason)

    def _look(self) -> None:
        """Looks at the other end, if the last look was a second ago."""
        if time.monotonic() - self._looked < CHECK_EVERY:
            return
        self._looked = time.monotonic()
        block = self._chip.read(self._peer, self._peer_at, OWNER_SIZE, plane=self._plane)
        life = int.from_bytes(self._chip.read(self._peer, self._life_at, 8, plane=self._plane), "little")
        if life != self._life:
            self._fail(self._gone("restarted", "the chip has restarted and lost its memory"))
        if _BLOCK.unpack(block)[4] != self._met and self._words()[1] == _OPEN:
            self._fail(self._gone("replaced", "its program has ended, or another program has taken its place"))

    def _fail(self, error: FabricError) -> None:
        """Ends the socket with an error, and tells the other end."""
        if self._error is None:
            self._error = error
            if not (isinstance(error, PeerGone) and error.reason in ("restarted", "replaced")):
                try:
                    self._tell(_FAILED)
                except FabricError:
                    pass  # the other end finds out by itself
        raise self._error

    def _tell(self, farewell: int) -> None:
        self._chip.write_word(self._peer, self._peer_at + _FARE, farewell, plane=self._plane)

    def _usable(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ValueError("the socket is closed")

    def _repeat(self, command: Callable[[], None], after: Optional[int] = None) -> None:
        """Performs a command for the other end, and repeats a command that got lost. For an increment, after is the counter's
        value after the increment.

        If nobody knows whether the command was performed, a look at the other end's block decides. A chip that has answered this
        look never performs the earlier command.
        """
        for tries in range(MAX_REPEATS + 1):
            try:
                return command()
            except FabricError as e:
                last = tries == MAX_REPEATS or "unreachable" in e.reason or e.reason == "the last route died"
                if last or e.fate != "lost":
                    self._looked = -CHECK_EVERY
                    try:
                        self._look()  # perhaps the other end has gone
                        if after is not None and self._chip.read_word(self._peer, self._peer_at + _COUNT, plane=self._plane) == after % _WRAP:
                            return None
                    except FabricError as why:
                        self._fail(why)
                if last or e.fate == "refused":
                    self._fail(e)
            time.sleep(min(0.002 * 2 ** tries, 0.2))

    def _free(self) -> None:
        self._closed = True
        self._chip.write(self._chip.chip, self._at, bytes(OWNER_SIZE))

    def close(self) -> None:
        """Ends the end."""
        raise NotImplementedError

    def __exit__(self, kind: object, *_: object) -> None:
        if self._closed:
            return
        if kind is None:
            self.close()
            return
        try:
            self._fail(FabricError("the program has given up", "unknown"))
        except FabricError:
            self._free()


class Sender(_End):
    """The sending end of a socket."""
    _role = 1

    def __enter__(self) -> "Sender":
        return self

    def __init__(self, chip: Chip, peer: str, **options: Any) -> None:
        self._sent = self._acked = 0  # bytes in the receiver's FIFO so far, and bytes that the receiver has read
        self._queue: List[memoryview] = []  # bytes that start has taken
        super().__init__(chip, peer, **options)

    def start(self, data: bytes) -> None:
        """Starts to send data, whose length is a multiple of the page. poll and wait write the data to the FIFO. Until then, the data must not change."""
        self._usable()
        view = memoryview(data).cast("B")
        if len(view) % self._page:
            raise ValueError(f"{len(view)} bytes to send: want a multiple of the page of {self._page} bytes")
        if len(view):
            self._queue.append(view)

    def poll(self) -> bool:
        """Sends what the FIFO has room for. Returns True if all bytes are in the FIFO."""
        self._usable()
        while self._queue:
            self._news()
            room = min(self._size - (self._sent - self._acked), self._size - self._sent % self._size, max(MAX_CHUNK, self._page))
            view = self._queue[0]
            n = min(room, len(view)) // self._page * self._page
            if n == 0:
                return False
            self._chunk(view[:n])
            self._queue[0] = view[n:]
            if n == len(view):
                self._queue.pop(0)
        return True

    def _chunk(self, data: memoryview) -> None:
        """Writes a chunk: first all but its last packet, then its last packet with the increment of the bytes sent."""
        at, tail = self._peer_at + BLOCK_SIZE + self._sent % self._size, (len(data) - 1) // MAX_PACKET * MAX_PACKET
        if tail:
            self._repeat(lambda: self._chip.write(self._peer, at, data[:tail], plane=self._plane))
        self._repeat(lambda: self._chip.write_inc(self._peer, at + tail, bytes(data[tail:]), self._peer_at + _COUNT, len(data),
                                                  plane=self._plane), self._sent + len(data))
        self._sent += len(data)

    def _news(self) -> None:
        """Looks at the bytes acknowledged and the farewell."""
        count, fare = self._words()
        n = (count - self._acked) % _WRAP
        if n > self._sent - self._acked:
            self._fail(FabricError("the counter is out of range: another program writes into the memory of the socket", "unknown"))
        self._acked += n
        if fare != _OPEN and (self._queue or self._acked < self._sent):
            self._fail(self._gone("closed", "it was closed before it had read all bytes") if fare == _CLOSED else
                       self._gone("failed", "it has failed, or its program has given up"))
        self._look()

    def wait(self) -> None:
        """Waits until all bytes are in the receiver's FIFO."""
        while not self.poll():
            self._wait_counter(self._acked % _WRAP, _LONGEST_WAIT)

    def send(self, data: bytes) -> None:
        """Sends data, whose length is a multiple of the page, and waits until the data is in the receiver's FIFO."""
        self.start(data)
        self.wait()

    def close(self) -> None:
        """Waits until the receiver has read all bytes, and frees the memory."""
        if self._closed:
            return
        try:
            self.wait()
            self._repeat(lambda: self._tell(_CLOSED))
            while self._acked < self._sent:
                self._wait_counter(self._acked % _WRAP, _LONGEST_WAIT)
                self._news()
        finally:
            self._free()


class Receiver(_End):
    """The receiving end of a socket. A loop over a Receiver yields the bytes as they come."""
    _role = 2

    def __enter__(self) -> "Receiver":
        return self

    def __init__(self, chip: Chip, peer: str, **options: Any) -> None:
        self._sent = self._taken = self._acked = 0
        self._ended = False
        super().__init__(chip, peer, **options)

    def poll(self) -> int:
        """Returns the number of bytes that have come and were not read yet."""
        self._usable()
        count, fare = self._words()
        if fare == _CLOSED and not self._ended:
            count, _ = self._words()  # the counter now includes all bytes
            self._ended = True
        elif fare == _FAILED and not self._ended:
            self._fail(self._gone("failed", "it has failed, or its program has given up"))
        n = (count - self._sent) % _WRAP
        if self._sent + n - self._acked > self._size or n % self._page:
            self._fail(FabricError("the counter is out of range: another program writes into the memory of the socket", "unknown"))
        self._sent += n
        if not self._ended:
            self._look()
        return self._sent - self._taken

    def recv(self, most: int = 1 << 20) -> bytes:
        """Waits until at least a page has come, and returns whole pages, with no more bytes than the argument most. After the last byte, recv returns b""."""
        if most < self._page:
            raise ValueError(f"a receive of at most {most} bytes: want at least the page of {self._page} bytes")
        seconds = 0.002
        while self.poll() == 0:
            if self._ended:
                return b""
            self._wait_counter(self._sent % _WRAP, seconds)
            seconds = min(2 * seconds, _LONGEST_WAIT)
        at = self._taken % self._size
        n = min(self._sent - self._taken, self._size - at, most) // self._page * self._page
        data = self._chip.read(self._chip.chip, self._at + BLOCK_SIZE + at, n)
        self._taken += n
        unacked = self._taken - self._acked
        if self._taken == self._sent or unacked >= self._size // 4:
            self._repeat(lambda: self._chip.atomic_inc(self._peer, self._peer_at + _COUNT, unacked, plane=self._plane), self._taken)
            self._acked = self._taken
        return data

    def recv_exactly(self, size: int) -> bytes:
        """Returns exactly size bytes, a multiple of the page. If the sender ends before, recv_exactly raises EOFError."""
        out = bytearray()
        while len(out) < size:
            data = self.recv(size - len(out))
            if not data:
                raise EOFError(f"the sender has sent {len(out)} of {size} bytes")
            out += data
        return bytes(out)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            data = self.recv()
            if not data:
                return
            yield data

    def close(self) -> None:
        """Frees the memory. A sender whose bytes were not all read gets an error."""
        if self._closed:
            return
        try:
            if self._error is None and not (self._ended and self._taken == self._sent):
                self._tell(_CLOSED)
                while self._words()[1] == _OPEN:  # writes of the sender may be under way
                    self._look()
                    time.sleep(0.001)
        finally:
            self._free()
