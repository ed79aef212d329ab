"""Collective operations of the programs of several chips: all-reduce and the others.

    import array, ttfabric, ttfabric_collective as collective
    with ttfabric.attach() as me, collective.Communicator(me) as all:
        data = array.array("f", [me.rank] * 1000)
        all.all_reduce(data)                       # data now holds the sums of all ranks
        all.all_reduce(data, op="max")

All ranks make the same calls in the same order. A buffer is anything with Python's buffer protocol in one
piece: bytearray, array.array, memoryview, a numpy array. The chip performs the operation (Go package
node/session/collective) on memory that it shares with this program. A buffer of Communicator.allocate lies in
the shared memory. The module copies any other buffer to the shared memory and back. Without copies:

    sums = numpy.frombuffer(all.allocate(4 << 20), numpy.float32)
    all.all_reduce(sums)

The types are "float32", "bfloat16", "int32" and "uint8". The buffer's format or the argument dtype gives the type.
The reductions are "sum", "prod", "min" and "max". The order of summation is fixed, so a run repeats bit by bit.

If a chip dies, the call on every other rank raises ChipDead, and Communicator.shrink returns a communicator of the
ranks that are left. One program at a time has communicators on a chip. The module needs Linux, and a
chip whose socket this machine can reach. Threads may share a Communicator.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import select
import socket
import struct
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ttfabric import Chip, FabricError, Rank, RefusedByChip, Timeout, parse_chip

_COMM, _BEGIN, _OPERATION, _SHRINK, _SPLIT, _CLOSE, _CANCEL = 19, 20, 21, 22, 23, 24, 4
_ANSWER, _ERROR = 128, 255
_OPERATION_BODY = struct.Struct("<QBBBxIQQQ")

_KINDS = ("all-gather", "reduce-scatter", "all-reduce", "reduce", "broadcast", "gather", "scatter", "all-to-all",
          "send-receive", "barrier")
_TYPES = {"float32": (0, 4), "bfloat16": (1, 2), "int32": (2, 4), "uint8": (3, 1)}  # code, and size in bytes
_FORMATS = {"f": "float32", "i": "int32", "B": "uint8", "c": "uint8"}  # of the buffer protocol
_OPS = ("sum", "prod", "min", "max")
_MEMORY = 4 << 30  # largest size of the shared memory in bytes; memory that was never written costs nothing
_ALIGN = 64  # alignment of buffers in the shared memory, in bytes


class RankError(RefusedByChip):
    """An operation has failed because of a rank. The field rank is the rank's number in the communicator."""

    def __init__(self, code: int, text: str, rank: int) -> None:
        super().__init__(code, text)
        self.rank = rank


class ChipDead(RankError):
    """The chip of a rank died, restarted, or cannot be reached any more."""


class RankAbandoned(RankError):
    """A rank has left an operation before its end: its program has ended, or its call took longer than the timeout."""


class DifferentCalls(RankError):
    """This rank and another rank made different calls."""


class InUse(RefusedByChip):
    """Another program has communicators on this chip."""


_ERRORS = {9: ChipDead, 10: RankAbandoned, 11: DifferentCalls}  # by code of the protocol


class _Link:
    """A connection to the chip that several threads share. A thread that waits for an answer reads the answers of all."""

    def __init__(self, path: str) -> None:
        self.chip = Chip(path)
        self._sock = self.chip._sock
        self._state = threading.Condition()
        self._answers: Dict[int, Tuple[int, bytes]] = {}  # kinds and bodies, by number
        self._ignored: Set[int] = set()  # requests whose answers nobody wants
        self._reading = False
        self._users = 1  # communicators

    def send(self, kind: int, body: bytes, ignored: bool = False) -> int:
        """Sends a request, and returns its number."""
        with self._state:
            self.chip._send(kind, body)
            if ignored:
                self._ignored.add(self.chip._number)
            return self.chip._number

    def ask(self, kind: int, body: bytes, timeout: Optional[float] = None, what: str = "the request") -> bytes:
        """Makes a request, and returns the body of the answer. After the timeout, ask cancels the request."""
        return self.answer(self.send(kind, body), kind, timeout, what)

    def answer(self, number: int, kind: int, timeout: Optional[float], what: str) -> bytes:
        """Returns the body of the answer to a request, as ask does."""
        answer = self._receive(number, timeout)
        if answer is None:
            self.send(_CANCEL, struct.pack("<Q", number), ignored=True)
            answer = self._receive(number, None)
            if answer is not None and answer[0] == _ERROR and answer[1][0] in (4, 10):  # cancelled, before or after its begin
                raise Timeout(f"{what} took longer than {timeout} s; the communicator has failed on all ranks", "unknown")
        assert answer is not None
        return _body(kind, *answer)

    def _receive(self, number: int, timeout: Optional[float]) -> Optional[Tuple[int, bytes]]:
        """Waits for an answer, and returns its kind and body, or None after the timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._state:
            while number not in self._answers:
                left = None if until is None else max(0.0, until - time.monotonic())
                if left == 0.0:
                    return None
                if self._reading:
                    self._state.wait(left)
                    continue
                self._reading = True
                self._state.release()
                try:
                    frame = self._frame(left)
                finally:
                    self._state.acquire()
                    self._reading = False
                    self._state.notify_all()
                if frame is not None:
                    self._note(*frame)
            return self._answers.pop(number)

    def _frame(self, timeout: Optional[float]) -> Optional[Tuple[int, int, bytes]]:
        if self.chip._from == self.chip._to and not select.select([self._sock], [], [], timeout)[0]:
            return None
        number, kind, body = self.chip._frame()
        return number, kind, bytes(body)

    def _note(self, number: int, kind: int, body: bytes) -> None:
        if number == 0:
            _body(0, kind, body)  # an error about the connection
        if number in self._ignored:
            self._ignored.discard(number)
        else:
            self._answers[number] = (kind, body)

    def join(self) -> None:
        """Notes a further communicator."""
        with self._state:
            self._users += 1

    def leave(self) -> bool:
        """Notes the end of a communicator. After the last one, leave closes the connection, and returns True."""
        with self._state:
            self._users -= 1
            last = self._users == 0
        if last:
            self.chip.close()
        return last


def _body(asked: int, kind: int, body: bytes) -> bytes:
    """Returns the body of an answer, or raises the chip's error."""
    if kind == _ERROR:
        code, rank = struct.unpack_from("<HH", body)
        text = body[4:].decode(errors="replace")
        if code in _ERRORS:
            raise _ERRORS[code](code, text, rank)
        raise (InUse if code == 8 else RefusedByChip)(code, text)
    if kind != asked + _ANSWER:
        raise FabricError(f"the chip answered a request of kind {asked} with kind {kind}", "unknown")
    return body


class _Memory:
    """The memory that this program shares with its chip."""

    def __init__(self, fd: int, size: int) -> None:
        try:
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self.view = memoryview(self._map)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._lock = threading.Lock()
        self._free = [(0, size)]  # offsets and lengths, in order
        self.allocated: Dict[int, int] = {}  # lengths of the buffers that allocate has returned, by offset

    def take(self, n: int) -> int:
        """Returns the offset of n bytes that nobody uses."""
        n = _aligned(n)
        with self._lock:
            for i, (at, size) in enumerate(self._free):
                if size >= n:
                    self._free[i:i + 1] = [(at + n, size - n)] if size > n else []
                    return at
        raise MemoryError(f"no piece of {n} bytes is free in the {len(self.view)} bytes of memory that are shared with the chip: "
                          "free allocated buffers, or open the communicator with more memory")

    def give(self, at: int, n: int) -> None:
        """Takes back what take has returned."""
        with self._lock:
            pieces: List[Tuple[int, int]] = []
            for at, n in sorted(self._free + [(at, _aligned(n))]):
                if pieces and sum(pieces[-1]) == at:
                    at, n = pieces[-1][0], pieces.pop()[1] + n
                pieces.append((at, n))
            self._free = pieces

    def offset(self, view: memoryview) -> Optional[int]:
        """Returns the offset of a buffer in the shared memory, or None if the buffer lies elsewhere."""
        if view.readonly or not view.nbytes:
            return None
        at = ctypes.addressof(ctypes.c_char.from_buffer(view)) - self._base
        return at if 0 <= at < len(self.view) else None

    def close(self) -> None:
        """Unmaps the memory. If the program still holds buffers of allocate, the memory stays mapped."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()


def _aligned(n: int) -> int:
    return max(n + _ALIGN - 1 & -_ALIGN, _ALIGN)


def memory_at(address: int, size: int) -> memoryview:
    """Returns the size bytes of this process's memory from an address on, such as a tensor's. The caller keeps the memory alive."""
    if size == 0:
        return memoryview(bytearray())
    view = ctypes.pythonapi.PyMemoryView_FromMemory
    view.restype, view.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
    return view(address, size, 0x200)  # PyBUF_WRITE


def _bytes_of(buffer: Any, what: str) -> Tuple[memoryview, str]:
    """Returns the bytes of a buffer, and the format of its elements."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError(f"the {what} is not contiguous: give a copy in one piece")
    form = view.format.lstrip("@=<")
    if view.nbytes == 0:
        return memoryview(bytearray()), form
    try:
        return view.cast("B"), form
    except ValueError:  # formats such as "<f" of ctypes
        if view.readonly:
            return memoryview(view.tobytes()), form
        return memory_at(ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes), form


class Communicator:
    """The ranks that take part in operations together.

    rank, size and chips are this rank, the number of ranks and the chip of each rank. path says which way the data take.
    """

    def __init__(self, chip: Chip, *, links: int = 1, means: str = "fabric", memory: int = _MEMORY, chips: Optional[Sequence[str]] = None,
                 meet: Optional[Callable[[], None]] = None) -> None:
        """Opens the communicator of all ranks. All ranks call the constructor at the same time.

        links is the number of planes that carry the data. With means "edm", kernels and ERISC data movers move the data. memory is
        the size of the memory that this program shares with its chip, in bytes: one operation needs its input and its output.
        chips is the chip of each rank, and meet waits until all ranks have called meet; a Rank has both.
        """
        path = getattr(chip, "_path", None)
        if path is None:
            raise FabricError("collective operations need the chip's socket, and this program reaches its chip over HTTP")
        if isinstance(chip, Rank):
            chips, meet = chips or chip.chips, meet or chip.barrier
        if not chips or meet is None and len(chips) > 1:
            raise ValueError("which chips take part, and how do they meet? Give a Rank, or chips=[...] and meet=")
        meet = meet or (lambda: None)
        name = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
        body = {"chips": list(chips), "links": links, "means": means, "memory": memory, "holder": f"process {os.getpid()} ({name})"[:200]}
        meet()
        self._link = _Link(path)
        try:
            number = self._link.send(_COMM, json.dumps(body).encode())
            self._memory = self._shared(number)
            meet()
            self._begun(number, self._link.ask(_BEGIN, struct.pack("<Q", number)))
        except BaseException:
            self._link.leave()
            raise
        self._coordinates = getattr(chip, "coordinates", None)

    def _shared(self, number: int) -> _Memory:
        """Takes the shared memory, which comes with the chip's next answer."""
        chip = self._link.chip
        head, fds, _, _ = socket.recv_fds(chip._sock, 16, 1)
        try:
            chip._in[:len(head)] = head
            chip._from, chip._to = 0, len(head)
            n, kind, body = chip._frame()
            size = struct.unpack("<Q", _body(_COMM, kind, bytes(body)))[0]
            if n != number or not fds:
                raise FabricError("the chip did not hand over the memory of the communicator", "unknown")
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return _Memory(fds[0], size)

    def _begun(self, number: int, body: bytes) -> bool:
        """Takes the chip's description of this communicator. Returns False if this rank gets no communicator."""
        view = json.loads(body)
        self._number, self._open = number, True
        self.rank: int = view["rank"]
        self.chips: List[str] = view.get("chips", [])
        self.size, self.path = len(self.chips), view.get("path", "")
        return self.rank >= 0

    # Operations

    def all_reduce(self, data: Any, out: Any = None, *, op: str = "sum", dtype: Optional[str] = None, timeout: Optional[float] = None) -> None:
        """Combines the data of all ranks. All ranks get the same result, in out or else in place of the data."""
        self._operate("all-reduce", data, data if out is None else out, op=op, dtype=dtype, timeout=timeout)

    def reduce(self, data: Any, out: Any = None, *, root: int = 0, op: str = "sum", dtype: Optional[str] = None,
               timeout: Optional[float] = None) -> None:
        """Combines the data of all ranks, and gives the root the result, in out or else in place of its data."""
        out = (data if out is None else out) if self.rank == root else None
        self._operate("reduce", data, out, op=op, dtype=dtype, root=root, timeout=timeout)

    def reduce_scatter(self, data: Any, out: Any, *, op: str = "sum", dtype: Optional[str] = None, timeout: Optional[float] = None) -> None:
        """Combines the data of all ranks, and gives rank r part r of the result. data has size times the length of out."""
        self._operate("reduce-scatter", data, out, op=op, dtype=dtype, timeout=timeout)

    def all_gather(self, data: Any, out: Any, *, timeout: Optional[float] = None) -> None:
        """Gives all ranks the data of all ranks, in the order of the ranks. out has size times the length of data."""
        self._operate("all-gather", data, out, timeout=timeout)

    def gather(self, data: Any, out: Any = None, *, root: int = 0, timeout: Optional[float] = None) -> None:
        """Gives the root the data of all ranks, in the order of the ranks. On the other ranks, out is not used."""
        self._operate("gather", data, out if self.rank == root else None, root=root, timeout=timeout)

    def scatter(self, data: Any, out: Any, *, root: int = 0, timeout: Optional[float] = None) -> None:
        """Gives rank r part r of the root's data. On the other ranks, data is not used."""
        self._operate("scatter", data if self.rank == root else None, out, root=root, timeout=timeout)

    def broadcast(self, data: Any, *, root: int = 0, timeout: Optional[float] = None) -> None:
        """Gives all ranks the data of the root, in place of their data."""
        self._operate("broadcast", data if self.rank == root else None, data, root=root, timeout=timeout)

    def all_to_all(self, data: Any, out: Any, *, timeout: Optional[float] = None) -> None:
        """Gives rank r part r of the data of each rank, in the order of the ranks. out is another buffer than data."""
        self._operate("all-to-all", data, out, timeout=timeout)

    def send_receive(self, data: Any, out: Any, *, timeout: Optional[float] = None) -> None:
        """Gives each rank the data of the rank before it. Rank 0 gets the data of the last rank."""
        self._operate("send-receive", data, out, timeout=timeout)

    def barrier(self, *, timeout: Optional[float] = None) -> None:
        """Waits until all ranks have called barrier."""
        self._operate("barrier", None, None, timeout=timeout)

    # Memory

    def allocate(self, size: int) -> memoryview:
        """Returns size bytes of the shared memory. Operations on these bytes copy nothing. The first content of the bytes is not defined."""
        self._usable()
        if size < 1:
            raise ValueError(f"a buffer of {size} bytes: want at least 1")
        at = self._memory.take(size)
        self._memory.allocated[at] = size
        return self._memory.view[at:at + size]

    def free(self, buffer: memoryview) -> None:
        """Gives back what allocate has returned, so that later buffers can use the bytes."""
        at = self._memory.offset(buffer)
        size = None if at is None else self._memory.allocated.pop(at, None)
        if at is None or size is None:
            raise ValueError("allocate has not returned this buffer, or the buffer is free already")
        self._memory.give(at, size)

    # Further communicators

    def shrink(self, *, timeout: Optional[float] = None) -> "Communicator":
        """Makes the communicator of the ranks whose chips live. All these ranks call shrink. This communicator then ends."""
        made = self._derive(_SHRINK, struct.pack("<Q", self._number), timeout, "the shrink")
        assert made is not None
        self.close()
        return made

    def split(self, color: int, key: int = 0, *, timeout: Optional[float] = None) -> Optional["Communicator"]:
        """Makes communicators of the ranks with equal colors, as MPI_Comm_split does. All ranks call split.

        The ranks of a new communicator have the order of their keys. A rank with a negative color gets None. Operations
        of this communicator and of the new ones can be under way at the same time, each in its own thread.
        """
        return self._derive(_SPLIT, struct.pack("<Qii", self._number, color, key), timeout, "the split")

    def row(self) -> "Communicator":
        """Makes the communicators of the rows of the mesh, from west to east. All ranks call row."""
        return self._line(0)

    def column(self) -> "Communicator":
        """Makes the communicators of the columns of the mesh, from north to south. All ranks call column."""
        return self._line(1)

    def _line(self, axis: int) -> "Communicator":
        if self._coordinates is None:
            raise ValueError("rows and columns need a Rank, which knows its coordinates: use split")
        mesh, _ = parse_chip(self.chips[self.rank])
        made = self.split(mesh << 16 | self._coordinates[axis], self._coordinates[1 - axis])
        assert made is not None
        return made

    def _derive(self, kind: int, body: bytes, timeout: Optional[float], what: str) -> Optional["Communicator"]:
        self._usable()
        number = self._link.send(kind, body)
        view = self._link.answer(number, kind, timeout, what)
        made = object.__new__(Communicator)
        made._link, made._memory, made._coordinates = self._link, self._memory, self._coordinates
        if not made._begun(number, view):
            return None
        self._link.join()
        return made

    def close(self) -> None:
        """Ends the communicator. close does not wait for the other ranks."""
        if not self._open:
            return
        self._open = False
        try:
            with contextlib.suppress(FabricError, OSError):
                self._link.ask(_CLOSE, struct.pack("<Q", self._number))
        finally:
            if self._link.leave():
                self._memory.close()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls

    def _usable(self) -> None:
        if not self._open:
            raise ValueError("the communicator is closed")

    def _operate(self, kind: str, data: Any, out: Any, *, op: str = "sum", dtype: Optional[str] = None, root: int = 0,
                 timeout: Optional[float] = None) -> None:
        """Performs an operation on the buffers data and out. If the operation gives a rank no such buffer, the buffer is None."""
        self._usable()
        reduces = kind in ("all-reduce", "reduce", "reduce-scatter")
        inp, form = _bytes_of(b"" if data is None else data, "input")
        into = inp if out is data else _bytes_of(bytearray() if out is None else out, "output")[0]
        if out is not None and into.readonly:
            raise ValueError(f"the output of {kind} is read-only, such as bytes: give a bytearray, an array or a numpy array")
        name = dtype or _FORMATS.get(form, form) if reduces else "uint8"
        if name not in _TYPES:
            raise ValueError(f"{kind} of elements of the type {name!r}: want one of {', '.join(_TYPES)}, as dtype or as the buffer's format")
        if op not in _OPS:
            raise ValueError(f"{kind} with the reduction {op!r}: want one of {', '.join(_OPS)}")
        if not 0 <= root < self.size:
            raise ValueError(f"{kind} with root {root}: want a rank, 0 to {self.size - 1}")
        code, each = _TYPES[name]
        count = self._count(kind, inp.nbytes, into.nbytes, each, root)
        with contextlib.ExitStack() as undo:
            at = self._place(inp, undo, True)
            to = at if out is data else self._place(into, undo, False)
            body = _OPERATION_BODY.pack(self._number, _KINDS.index(kind), code, _OPS.index(op), root, count, at, to)
            self._link.ask(_OPERATION, body, timeout, f"{kind} on rank {self.rank}")
            if into.nbytes and self._memory.offset(into) is None:
                into[:] = self._memory.view[to:to + into.nbytes]

    def _place(self, view: memoryview, undo: contextlib.ExitStack, fill: bool) -> int:
        """Returns the offset of a buffer in the shared memory. Another buffer gets a place there until the operation has ended."""
        at = self._memory.offset(view)
        if at is None:
            at = self._memory.take(view.nbytes)
            undo.callback(self._memory.give, at, view.nbytes)
            if fill:
                self._memory.view[at:at + view.nbytes] = view
        return at

    def _count(self, kind: str, n_in: int, n_out: int, each: int, root: int) -> int:
        """Checks the lengths of the buffers, and returns the count of the call."""
        n, is_root = self.size, self.rank == root
        part = n_out if kind in ("reduce-scatter", "scatter") else n_in // n if kind == "all-to-all" else n_out if kind == "broadcast" else n_in
        want_in = {"reduce-scatter": n * part, "all-to-all": n * part, "scatter": n * part * is_root, "broadcast": part * is_root}.get(kind, part)
        want_out = {"all-gather": n * part, "all-to-all": n * part, "gather": n * part * is_root, "reduce": part * is_root}.get(kind, part)
        if (n_in, n_out) != (want_in, want_out) or part % each:
            raise ValueError(f"{kind} on rank {self.rank} of {n}: the input has {n_in} bytes and the output {n_out}; "
                             f"want {want_in} and {want_out}, in whole elements of {each} bytes")
        return part // each
