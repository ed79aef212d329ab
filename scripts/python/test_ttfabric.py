"""Tests of the client. With chips' sockets in TTFABRIC_TEST_SOCKETS, separated by colons, the tests
also use the chips. With the addresses of their APIs in TTFABRIC_TEST_APIS, separated by spaces, and the
token in TTFABRIC_TEST_TOKEN, the tests use the chips over HTTP, too. 'go test ./node/admin/attach/server'
starts two chips of an n300 and runs them."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
import unittest

import ttfabric
from ttfabric import noc

SOCKETS = [p for p in os.environ.get("TTFABRIC_TEST_SOCKETS", "").split(":") if p]

APIS = os.environ.get("TTFABRIC_TEST_APIS", "").split()
TOKEN = os.environ.get("TTFABRIC_TEST_TOKEN", "")


class Formats(unittest.TestCase):
    def test_addresses(self) -> None:
        self.assertEqual(noc(1, 2, 0x1000), 0x1000 | 1 << 36 | 2 << 42)
        for bad in ((64, 0, 0), (0, -1, 0), (0, 0, 1 << 36)):
            self.assertRaises(ValueError, noc, *bad)

    def test_chips(self) -> None:
        self.assertEqual(ttfabric.parse_chip("M2D17"), (2, 17))
        for bad in ("", "M0", "D1", "M0D1 ", "M0D99999", "m0d1"):
            self.assertRaises(ValueError, ttfabric.parse_chip, bad)

    def test_multicasts(self) -> None:
        self.assertEqual(ttfabric._ranges("E2,N1"), bytes([2, 0, 1, 0, 0, 0, 0, 0]))
        self.assertEqual(ttfabric._ranges("W2-4"), bytes([0, 4, 0, 0, 0, 1, 0, 0]))
        for bad in ("E0", "E", "X1", "E1,E2", "E300", "E4-2"):
            self.assertRaises(ValueError, ttfabric._ranges, bad)

    def test_vector(self) -> None:
        # The same bytes stand in node/admin/attach/format_test.go.
        want = bytes.fromhex("00000300010000000010000010080000000000000000000007000000000000000000000000000000" "0000000000000000")
        got = ttfabric._COMMAND.pack(0, 3, 1, 0, 0, noc(1, 2, 0x1000), 0, 7, 0, bytes(8), 0, 0)
        self.assertEqual(got, want)

    def test_results(self) -> None:
        b = struct.pack("<BBBBHHqQII", 1, 4, 0, 0, 0, 0, 10, 0, 1, 2) + struct.pack("<HHBBBBHH", 0, 5, 2, 0, 1, 0, 0, 6) + b"ab"
        r = ttfabric._result(b)
        self.assertEqual((r.fate, r.outcome, r.nanoseconds, r.data), ("refused", "again", 10, b"ab"))
        self.assertEqual((r.members[0][0], r.members[0][1].reason), ("M0D5", "chip M0D6 dropped it: next hop dead"))


class Frames(unittest.TestCase):
    """A script takes the place of the chip, and sends its answers in pieces."""

    def client(self, *answers: bytes, piece: int) -> ttfabric.Chip:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "s")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            with listener, listener.accept()[0] as conn:
                welcome = struct.pack("<HHH2xQIII4x", 1, 0, 3, 9, 1 << 20, 1024, 5)
                for b in (self.frame(1, 129, welcome), *answers):
                    conn.recv(1 << 16)  # the request
                    for at in range(0, len(b), piece):
                        conn.sendall(b[at:at + piece])

        t = threading.Thread(target=serve)
        t.start()
        self.addCleanup(t.join)
        c = ttfabric.Chip(path)
        self.addCleanup(c.close)
        return c

    @staticmethod
    def frame(number: int, kind: int, body: bytes) -> bytes:
        return struct.pack("<IB3xQ", 16 + len(body), kind, number) + body

    def result(self, number: int, data: bytes = b"", fate: int = 0, outcome: int = 0) -> bytes:
        return self.frame(number, 130, struct.pack("<BBBBHHqQII", fate, outcome, 0, 0, 0, 0, 10, 0, 0, len(data)) + data)

    def test_answers_in_pieces(self) -> None:
        for piece in (1, 7, 40, 1 << 20):
            long, longer = bytes(range(251)) * 20, bytes(range(251)) * (3 if piece == 1 else 3000)
            c = self.client(self.result(2), self.result(3, long), self.result(4, longer), self.result(5, b"abcd"), piece=piece)
            c.write_word("M0D3", 0, 1)
            self.assertEqual(c.read("M0D3", 0, len(long)), long)
            self.assertEqual(c.read("M0D3", 0, len(longer)), longer)
            self.assertEqual(c.read("M0D3", 0, 4), b"abcd")

    def test_a_refusal_is_repeated(self) -> None:
        c = self.client(self.result(2, fate=1, outcome=4), self.result(3), self.result(4, fate=1, outcome=1), piece=20)
        c.write_word("M0D3", 0, 1)  # the first answer says "again"
        with self.assertRaises(ttfabric.FabricError) as e:
            c.write("M0D3", 0, b"x")
        self.assertEqual(e.exception.reason, "bad address")

    def test_bad_frames(self) -> None:
        for bad in (struct.pack("<IB3xQ", 15, 130, 2), struct.pack("<IB3xQ", 1 << 30, 130, 2), self.result(7), self.frame(2, 131, bytes(32))):
            self.assertRaises(ttfabric.FabricError, self.client(bad, piece=100).write_word, "M0D3", 0, 1)

    def test_a_chip_that_goes_away(self) -> None:
        self.assertRaises(ConnectionError, self.client(self.result(2)[:20], piece=100).write_word, "M0D3", 0, 1)


@unittest.skipUnless(len(SOCKETS) >= 2, "TTFABRIC_TEST_SOCKETS names no two chips")
class LiveChips(unittest.TestCase):
    def dial(self, i: int) -> ttfabric.Chip:
        return ttfabric.Chip(SOCKETS[i])

    def setUp(self) -> None:
        self.a, self.b = self.dial(0), self.dial(1)
        self.addCleanup(self.a.close)
        self.addCleanup(self.b.close)

    def test_calls(self) -> None:
        a = self.a
        for dst in (self.a.chip, self.b.chip):
            data = bytes(range(256)) * 9000  # more than two blocks
            a.write(dst, noc(0, 0, 4097), data)
            self.assertEqual(a.read(dst, noc(0, 0, 4097), len(data)), data)
            a.write_word(dst, noc(1, 1, 0), 7)
            a.atomic_inc(dst, noc(1, 1, 0), 5, flush=True)
            a.write_inc(dst, noc(1, 1, 64), b"abcd", noc(1, 1, 0), 30, flush=True)
            a.scatter_write(dst, [(noc(1, 1, 128), b"xy"), (noc(1, 1, 192), b"z")])
            self.assertEqual(a.read_word(dst, noc(1, 1, 0)), 42)
            self.assertEqual(a.read(dst, noc(1, 1, 64), 4), b"abcd")
            self.assertEqual(a.read(dst, noc(1, 1, 128), 2) + a.read(dst, noc(1, 1, 192), 1), b"xyz")
            self.assertGreaterEqual(a.ping(dst), 0)
            a.write(dst, noc(1, 1, 256), b"!", posted=True)
            a.flush(dst)
            self.assertEqual(a.read(dst, noc(1, 1, 256), 1), b"!")

    def test_flush(self) -> None:
        for dst, counted in ((self.a.chip, self.a), (self.b.chip, self.b), ("E1", self.b)):
            at, counter = noc(1, 1, 20480), noc(1, 1, 20736)
            counted.write_word(counted.chip, counter, 0)
            for _ in range(100):
                self.a.write_inc(dst, at, b"abcd", counter, 3, posted=True)
            self.a.flush(dst)
            self.assertEqual((counted.read_word(counted.chip, counter), counted.read(counted.chip, at, 4)), (300, b"abcd"))
            with self.assertRaisesRegex(ttfabric.FabricError, "misaligned" if dst == self.a.chip else "1 posted packets"):
                self.a.write_inc(dst, at, b"abcd", noc(1, 1, 2), posted=True)  # the own chip refuses it at once
                self.a.flush(dst)

    def test_multicast(self) -> None:
        self.b.write(self.b.chip, noc(1, 1, 512), bytes(8))
        self.a.write("E1", noc(1, 1, 512), b"many")
        self.a.atomic_inc("E1", noc(1, 1, 516), 3, flush=True)
        self.assertEqual(self.b.read(self.b.chip, noc(1, 1, 512), 8), b"many\x03\0\0\0")

    def test_batch(self) -> None:
        with self.a.batch() as batch:
            for i in range(3000):  # more than may be in flight
                batch.write_word(self.a.chip, noc(1, 1, 1024 + 4 * i), i)
        self.assertEqual(self.a.read(self.a.chip, noc(1, 1, 1024), 12000), struct.pack("<3000I", *range(3000)))
        with self.assertRaises(ttfabric.FabricError), self.a.batch() as batch:
            batch.write_word(self.a.chip, noc(1, 1, 2), 1)
        with self.assertRaises(RuntimeError), self.a.batch() as batch:
            batch.read(self.a.chip, 0, 4)

    def test_errors(self) -> None:
        with self.assertRaises(ttfabric.FabricError) as e:
            self.a.write(self.b.chip, noc(0, 13, 0), b"x")
        self.assertEqual((e.exception.fate, e.exception.reason), ("refused", "bad address"))
        with self.assertRaises(ttfabric.RefusedByChip):
            self.a.write("M3D0", 0, b"x")
        with self.assertRaises(ttfabric.FabricError) as e:
            self.a.write("E1", noc(0, 13, 0), b"x")
        self.assertEqual(e.exception.members, [(self.b.chip, "refused", "bad address")])
        self.a.write_word(self.a.chip, noc(1, 1, 0), 1)  # the connection still works

    def test_wait(self) -> None:
        at = noc(1, 1, 2048 * 8)
        self.a.write_word(self.a.chip, at, 0)
        with self.assertRaises(ttfabric.Timeout):
            self.a.wait(at, 2, timeout=0.01)
        t = threading.Thread(target=lambda: [self.b.atomic_inc(self.a.chip, at) for _ in range(2)])
        t.start()
        self.assertEqual(self.a.wait(at, 2), 2)
        t.join()
        self.assertEqual(self.a.wait(at, 2, equal=True, timeout=5), 2)
        self.assertRaises(ttfabric.RefusedByChip, self.a.wait, noc(1, 1, 2), 1)

    def test_barrier(self) -> None:
        with self.dial(0) as c, self.dial(0) as d:
            with self.assertRaises(ttfabric.Timeout):
                c.barrier_of("alone " + self.id(), 0, 2, timeout=0.01)
            t = threading.Thread(target=lambda: [d.barrier_of(self.id(), 1, 2) for _ in range(3)])
            t.start()
            for _ in range(3):
                c.barrier_of(self.id(), 0, 2)
            t.join()
            self.leave(c, d)

    def leave(self, c: ttfabric.Chip, d: ttfabric.Chip) -> None:
        d.close()
        with self.assertRaises(ttfabric.RankLeft):
            c.barrier_of(self.id(), 0, 2)

    def test_moment(self) -> None:
        self.a.ping(self.b.chip)
        self.assertEqual(self.a.moment()["chip"], self.a.chip)


@unittest.skipUnless(len(APIS) >= 2, "TTFABRIC_TEST_APIS names no two chips")
class LiveAPIs(LiveChips):
    """The same tests over HTTP."""

    def dial(self, i: int) -> ttfabric.Chip:
        return ttfabric.HTTPChip(APIS[i], TOKEN)

    def leave(self, c: ttfabric.Chip, d: ttfabric.Chip) -> None:
        late = threading.Thread(target=lambda: self.assertRaises(ttfabric.Timeout, d.barrier_of, self.id(), 1, 3, timeout=1))
        late.start()
        with self.dial(0) as e, self.assertRaises(ttfabric.RankLeft):
            for rank, chip in ((0, c), (2, e)):
                chip.barrier_of(self.id(), rank, 3)
        late.join()

    def test_token(self) -> None:
        with self.assertRaises(ttfabric.RefusedByChip) as e:
            ttfabric.HTTPChip(APIS[0], "no such token")
        self.assertIn("token", str(e.exception))

    def test_coordinates_of_noc_1(self) -> None:
        self.a.write_word(self.b.chip, noc(1, 1, 24576), 5)
        self.assertEqual(self.a.read_word(self.b.chip, noc(8, 10, 24576) | 1 << 60), 5)  # the same tile in the coordinates of NoC 1


if __name__ == "__main__":
    unittest.main()
