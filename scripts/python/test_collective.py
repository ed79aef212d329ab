"""Tests of collective operations. The variables of test_ttfabric.py name the chips. 'go test ./node/admin/attach/server' starts two
chips of an n300 and runs the tests."""

from __future__ import annotations

import array
import ctypes
import json
import os
import random
import socket
import struct
import threading
import unittest
from typing import Any, Callable, List

import ttfabric
import ttfabric_collective as collective

SOCKETS = [p for p in os.environ.get("TTFABRIC_TEST_SOCKETS", "").split(":") if p]
APIS = os.environ.get("TTFABRIC_TEST_APIS", "").split()
TOKEN = os.environ.get("TTFABRIC_TEST_TOKEN", "")
PATIENCE = 60.0  # longest time of an operation, in seconds


def together(n: int, f: Callable[[int], Any]) -> List[Any]:
    """Calls f(rank) for all ranks, each in a thread. Returns the results, or the errors."""
    out: List[Any] = [None] * n

    def run(rank: int) -> None:
        try:
            out[rank] = f(rank)
        except Exception as e:  # the test looks at the error
            out[rank] = e

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


class Memory(unittest.TestCase):
    def test_pieces(self) -> None:
        m = self.memory(1 << 20)
        r, held = random.Random(1), {}
        for _ in range(3000):
            if held and r.random() < 0.5:
                at = r.choice(list(held))
                m.give(at, held.pop(at))
                continue
            n = r.choice((1, 63, 64, 65, 5000, 200000))
            try:
                at = m.take(n)
            except MemoryError:
                continue
            for other, size in held.items():
                self.assertTrue(at + n <= other or other + size <= at, "a piece was handed out twice")
            self.assertTrue(0 <= at and at + n <= 1 << 20)
            held[at] = n
        for at, n in held.items():
            m.give(at, n)
        self.assertEqual(m._free, [(0, 1 << 20)])

    def memory(self, size: int) -> collective._Memory:
        fd = os.memfd_create("test")
        os.truncate(fd, size)
        m = collective._Memory(fd, size)
        self.addCleanup(m.close)
        return m

    def test_where_a_buffer_lies(self) -> None:
        m = self.memory(4096)
        self.assertEqual(m.offset(m.view[64:128]), 64)
        self.assertIsNone(m.offset(memoryview(bytearray(8))))
        self.assertIsNone(m.offset(memoryview(b"read-only")))


@unittest.skipUnless(len(SOCKETS) >= 2, "TTFABRIC_TEST_SOCKETS names no two chips")
class LiveCollectives(unittest.TestCase):
    def setUp(self) -> None:
        self.chips = [ttfabric.Chip(p) for p in SOCKETS[:2]]
        self.names = [c.chip for c in self.chips]
        for c in self.chips:
            self.addCleanup(c.close)
        self.meeting = threading.Barrier(2)

    def open(self, **options: Any) -> List[collective.Communicator]:
        def one(rank: int) -> collective.Communicator:
            return collective.Communicator(self.chips[rank], chips=self.names, meet=lambda: self.meeting.wait(PATIENCE) and None, **options)
        comms = together(2, one)
        for c in comms:
            if isinstance(c, Exception):
                raise c
            self.addCleanup(c.close)
        return comms

    def all(self, comms: List[collective.Communicator], f: Callable[[collective.Communicator, int], Any]) -> List[Any]:
        out = together(len(comms), lambda rank: f(comms[rank], rank))
        for e in out:
            if isinstance(e, Exception):
                raise e
        return out

    def test_operations(self) -> None:
        comms = self.open()
        self.assertEqual([(c.rank, c.size, c.chips) for c in comms], [(0, 2, self.names), (1, 2, self.names)])
        r = random.Random(1)
        for n in (0, 1, 1000, 100001):
            data = [array.array("i", [r.randrange(-2 ** 31, 2 ** 31) for _ in range(2 * n)]) for _ in comms]
            whole = data[0] + data[1]
            swapped = [data[0][:n] + data[1][:n], data[0][n:] + data[1][n:]]
            for op, f in (("sum", lambda a, b: (a + b + 2 ** 31) % 2 ** 32 - 2 ** 31), ("min", min), ("max", max),
                          ("prod", lambda a, b: (a * b + 2 ** 31) % 2 ** 32 - 2 ** 31)):
                want = array.array("i", map(f, *data))

                def reductions(c: collective.Communicator, rank: int) -> None:
                    own, out = array.array("i", data[rank]), array.array("i", bytes(8 * n))
                    c.all_reduce(own, out, op=op)
                    self.assertEqual((own, out), (data[rank], want))
                    c.all_reduce(own, op=op)
                    self.assertEqual(own, want)
                    own = array.array("i", data[rank])
                    c.reduce(own, root=1, op=op)
                    self.assertEqual(own, want if rank == 1 else data[0])
                    part = array.array("i", bytes(4 * n))
                    c.reduce_scatter(data[rank], part, op=op)
                    self.assertEqual(part, want[rank * n:(rank + 1) * n])
                self.all(comms, reductions)

            def moves(c: collective.Communicator, rank: int) -> None:
                out = array.array("i", bytes(16 * n))
                c.all_gather(data[rank], out)
                self.assertEqual(out, whole)
                out = array.array("i", bytes(16 * n))
                c.gather(data[rank], out, root=1)
                self.assertEqual(out, whole if rank == 1 else array.array("i", bytes(16 * n)))
                part = array.array("i", bytes(4 * n))
                c.scatter(data[1] if rank == 1 else None, part, root=1)
                self.assertEqual(part, data[1][rank * n:(rank + 1) * n])
                out = array.array("i", data[rank])
                c.broadcast(out, root=1)
                self.assertEqual(out, data[1])
                c.all_to_all(data[rank], out)
                self.assertEqual(out, swapped[rank])
                c.send_receive(data[rank], out)
                self.assertEqual(out, data[1 - rank])
                c.barrier()
            self.all(comms, moves)

    def test_types_and_buffers(self) -> None:
        comms = self.open(memory=1 << 20)

        def floats(c: collective.Communicator, rank: int) -> None:
            for data in (array.array("f", [rank + 0.5]), (ctypes.c_float * 1)(rank + 0.5), memoryview(bytearray(struct.pack("f", rank + 0.5))).cast("f")):
                c.all_reduce(data)
                self.assertEqual(data[0], 2.0)
            half = bytearray(struct.pack("<f", rank + 0.5)[2:])  # bfloat16 is the upper half of a float
            c.all_reduce(half, dtype="bfloat16")
            self.assertEqual(half, struct.pack("<f", 2.0)[2:])
            few = bytearray([200, rank])
            c.all_reduce(few)
            self.assertEqual(few, bytes([400 % 256, 1]))
            for _ in range(50):  # if free did not work, so many buffers would not fit
                shared, other = c.allocate(300000), c.allocate(300000)
                shared[:] = bytes([rank]) * 300000
                c.send_receive(shared, other)
                self.assertEqual(other, bytes([1 - rank]) * 300000)
                c.all_reduce(shared)
                self.assertEqual(shared, bytes([1]) * 300000)
                c.free(shared)
                c.free(other)
            self.assertRaises(ValueError, c.free, other)
            self.assertRaises(MemoryError, c.all_reduce, bytearray((1 << 20) + 1))
        self.all(comms, floats)
        try:
            import numpy
        except ImportError:
            return

        def arrays(c: collective.Communicator, rank: int) -> None:
            a = numpy.full((3, 5), rank + 1, numpy.float32)
            c.all_reduce(a)
            self.assertTrue((a == 3).all())
            shared = numpy.frombuffer(c.allocate(4000), numpy.float32)
            shared[:] = rank
            c.all_reduce(shared, op="max")
            self.assertTrue((shared == 1).all())
            self.assertRaises(ValueError, c.all_reduce, a.T)
            self.assertRaises(ValueError, c.all_reduce, a.astype(numpy.float64))
        self.all(comms, arrays)

    def test_bad_arguments(self) -> None:
        c, _ = self.open()
        ten = bytearray(10)
        for call, text in ((lambda: c.all_reduce(bytes(8)), "read-only"), (lambda: c.all_reduce(ten, op="mean"), "'mean'"),
                           (lambda: c.all_reduce(ten, dtype="float64"), "'float64'"), (lambda: c.all_reduce(ten, dtype="int32"), "elements of 4 bytes"),
                           (lambda: c.all_reduce(array.array("d", [1])), "'d'"), (lambda: c.broadcast(ten, root=2), "root 2"),
                           (lambda: c.all_gather(ten, ten), "20"), (lambda: c.gather(ten), "20"), (lambda: c.all_to_all(bytes(9), bytearray(9)), "9"),
                           (lambda: c.scatter(ten, ten), "20"), (lambda: c.reduce_scatter(ten, bytearray(4)), "8")):
            with self.assertRaisesRegex(ValueError, text):
                call()
        with self.assertRaises(ttfabric.RefusedByChip):
            c.all_to_all(ten, ten)
        with self.assertRaises(ValueError):
            collective.Communicator(self.chips[0])
        c.close()
        self.assertRaises(ValueError, c.barrier)

    def test_one_program_at_a_time(self) -> None:
        self.open()
        alone = [collective.InUse] * 2
        got = together(2, lambda rank: collective.Communicator(self.chips[rank], chips=self.names, meet=lambda: None))
        self.assertEqual([type(e) for e in got], alone)
        self.assertIn(f"process {os.getpid()}", str(got[0]))

    def test_split(self) -> None:
        comms = self.open()

        def split(c: collective.Communicator, rank: int) -> collective.Communicator:
            alone, back = c.split(rank), c.split(7, -rank)
            self.assertIsNone(c.split(-1))
            self.assertEqual((alone.rank, alone.size), (0, 1))
            data = bytearray([rank])
            alone.all_reduce(data)
            self.assertEqual(data, bytes([rank]))
            alone.close()
            self.assertEqual((back.rank, back.chips), (1 - rank, self.names[::-1]))
            return back
        backs = self.all(comms, split)
        for c in backs:
            self.addCleanup(c.close)
        # Both communicators work at the same time, each in its own thread, in another order on each rank.
        go = threading.Barrier(4)

        def one(i: int) -> None:
            c = (comms + backs)[i]
            go.wait(PATIENCE)
            for k in range(200):
                data = array.array("i", [k + c.rank])
                c.all_reduce(data)
                self.assertEqual(data[0], 2 * k + 1)
        self.assertEqual(together(4, one), [None] * 4)

    def test_different_calls(self) -> None:
        comms = self.open()
        got = together(2, lambda rank: comms[rank].all_reduce(bytearray(4 + rank)))
        self.assertTrue(any(isinstance(e, collective.DifferentCalls) for e in got), got)
        self.assertTrue(all(isinstance(e, (collective.DifferentCalls, collective.RankAbandoned)) for e in got), got)
        shrunk = self.all(comms, lambda c, rank: c.shrink())
        data = [bytearray([3]), bytearray([4])]
        self.all(shrunk, lambda c, rank: c.all_reduce(data[rank]))
        self.assertEqual(data, [b"\x07"] * 2)
        for c in shrunk:
            c.close()

    def test_timeout(self) -> None:
        a, b = self.open()
        with self.assertRaisesRegex(ttfabric.Timeout, "barrier on rank 0 took longer than 0.2 s"):
            a.barrier(timeout=0.2)
        with self.assertRaises(collective.RankAbandoned) as e:
            b.barrier(timeout=PATIENCE)
        self.assertEqual(e.exception.rank, 0)

    def test_a_program_that_goes_away(self) -> None:
        a, b = self.open()
        timer = threading.Timer(0.2, lambda: b._link._sock.shutdown(socket.SHUT_RDWR))
        timer.start()
        self.assertRaises(OSError, b.all_reduce, bytearray(4 << 20))  # before the other rank comes, a rank sends only a part of these bytes
        timer.join()
        with self.assertRaises(collective.RankAbandoned) as e:
            a.all_reduce(bytearray(4 << 20), timeout=PATIENCE)
        self.assertEqual(e.exception.rank, 1)
        a.close()
        self.open()  # the claims of both programs have ended

    def test_bad_requests(self) -> None:
        for body in (b"", b"{", b"[]", b'{"chips":["M0"]}', b'{"chips":["M0D0"],"memory":0,"holder":"x"}', b'{"chips":["M0D0"],"memory":1e30,"holder":"x"}',
                     b'{"chips":["M0D0"],"memory":4096,"holder":""}', b'{"chips":[],"memory":4096,"holder":"x"}', b'{"chips":["M0D9"],"memory":4096,"holder":"x"}',
                     b'{"chips":["M0D0"],"memory":4096,"holder":"x","links":99}', b'{"chips":["M0D0"],"memory":4096,"holder":"x","means":"air"}'):
            with self.assertRaises(ttfabric.RefusedByChip, msg=body):
                self.ask(collective._COMM, body)
        a, _ = self.open(memory=1 << 16)
        pack, number = collective._OPERATION_BODY.pack, a._number

        def refused(kind: int, body: bytes, text: str) -> None:
            with self.assertRaisesRegex(ttfabric.RefusedByChip, text):
                a._link.ask(kind, body)
        other = struct.pack("<Q", number + 1000)
        refused(collective._BEGIN, struct.pack("<Q", number), "begun already")
        for kind in (collective._BEGIN, collective._SHRINK, collective._CLOSE):
            refused(kind, other, "no communicator")
            refused(kind, b"abc", "want 8")
        refused(collective._SPLIT, other, "want 16")
        refused(collective._SPLIT, other + bytes(8), "no communicator")
        refused(collective._OPERATION, pack(number + 1000, 9, 3, 0, 0, 0, 0, 0), "no communicator")
        for values, text in (((2, 9, 0, 0, 4, 0, 0), "no such type"), ((77, 3, 0, 0, 4, 0, 8), "no such operation"), ((2, 3, 9, 0, 4, 0, 8), "no such"),
                             ((3, 3, 0, 5, 4, 0, 8), "root 5"), ((3, 3, 0, 1 << 31, 4, 0, 8), "root"), ((2, 3, 0, 0, 1 << 63, 0, 0), "elements"),
                             ((2, 3, 0, 0, 10, 65530, 0), "input"), ((2, 3, 0, 0, 10, 0, 2 ** 64 - 1), "output"), ((2, 3, 0, 0, 65537, 0, 0), "input"),
                             ((2, 3, 0, 0, 10, 0, 5), "overlap"), ((7, 3, 0, 0, 10, 0, 0), "overlap")):
            refused(collective._OPERATION, pack(number, *values), text)
        self.assertGreater(a._link.chip.ping(self.names[1]), 0)  # the connection still works

    def test_requests_before_the_begin(self) -> None:
        c = ttfabric.Chip(SOCKETS[0])
        self.addCleanup(c.close)
        c._send(collective._COMM, json.dumps({"chips": self.names[:1], "memory": 4096, "holder": "x"}).encode())
        comm = c._number
        c._receive(comm, collective._COMM)
        for _ in range(5):  # the operations wait until the communicator begins
            c._send(collective._OPERATION, collective._OPERATION_BODY.pack(comm, 2, 3, 0, 0, 10, 0, 0))
        c._send(collective._BEGIN, struct.pack("<Q", comm))
        kinds = [c._frame()[1] for _ in range(6)]
        self.assertEqual(kinds, [collective._BEGIN + 128] + 5 * [collective._OPERATION + 128])
        c._send(collective._OPERATION, collective._OPERATION_BODY.pack(comm, 2, 3, 0, 0, 10, 0, 0))
        c._send(collective._CLOSE, struct.pack("<Q", comm))
        self.assertEqual([c._frame()[1] for _ in range(2)], [collective._OPERATION + 128, collective._CLOSE + 128])

    def ask(self, kind: int, body: bytes) -> None:
        link = collective._Link(SOCKETS[0])
        try:
            link.ask(kind, body)
        finally:
            link.leave()


@unittest.skipUnless(APIS, "TTFABRIC_TEST_APIS names no chip")
class OverHTTP(unittest.TestCase):
    def test_error(self) -> None:
        with ttfabric.HTTPChip(APIS[0], TOKEN) as c, self.assertRaisesRegex(ttfabric.FabricError, "over HTTP"):
            collective.Communicator(c, chips=[c.chip])


if __name__ == "__main__":
    unittest.main()
