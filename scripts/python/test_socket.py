"""Tests of sockets. The variables of test_ttfabric.py name the chips. 'go test ./node/admin/attach/server' starts two chips of an
n300 and runs the tests."""

from __future__ import annotations

import os
import random
import threading
import unittest
from typing import Any, List

import ttfabric
import ttfabric_socket as sockets

SOCKETS = [p for p in os.environ.get("TTFABRIC_TEST_SOCKETS", "").split(":") if p]
APIS = os.environ.get("TTFABRIC_TEST_APIS", "").split()
TOKEN = os.environ.get("TTFABRIC_TEST_TOKEN", "")
WAIT = 60.0  # longest time that an end waits for the other, in seconds


@unittest.skipUnless(len(SOCKETS) >= 2, "TTFABRIC_TEST_SOCKETS names no two chips")
class LiveSockets(unittest.TestCase):
    bytes = 3_000_000

    def dial(self, i: int) -> ttfabric.Chip:
        return ttfabric.Chip(SOCKETS[i])

    def setUp(self) -> None:
        self.a, self.b = self.dial(0), self.dial(1)
        self.addCleanup(self.a.close)
        self.addCleanup(self.b.close)
        self.options = {"chips": [self.a.chip, self.b.chip], "timeout": WAIT}

    def both(self, sender: Any, receiver: Any) -> List[Any]:
        """Runs both ends, each in a thread. Returns their results, or their errors."""
        out: List[Any] = [None, None]

        def run(i: int, f: Any) -> None:
            try:
                out[i] = f()
            except Exception as e:  # the test looks at it
                out[i] = e

        threads = [threading.Thread(target=run, args=(i, f)) for i, f in enumerate((sender, receiver))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return out

    def test_streams(self) -> None:
        for number, (size, page, plane, total) in enumerate(((1 << 18, 1, 0, self.bytes), (4096, 64, 1, 64 * 2000), (700, 700, 0, 7000), (4096, 1, 0, 0))):
            r = random.Random(number)
            data = r.randbytes(total)
            o = {**self.options, "number": number, "size": size, "page": page, "plane": plane}

            def send() -> bool:
                with sockets.Sender(self.a, self.b.chip, **o) as s:
                    at = 0
                    while at < len(data):
                        n = page * r.randint(1, 1 + 200000 // page)
                        s.send(data[at:at + n])
                        at += n
                return True

            def receive() -> bytes:
                with sockets.Receiver(self.b, self.a.chip, **o) as s:
                    return b"".join(s)

            sent, got = self.both(send, receive)
            self.assertEqual(sent, True)
            self.assertIsInstance(got, bytes)
            self.assertTrue(got == data, f"socket {number}: {len(got)} bytes came of {len(data)}, or others")

    def test_start_and_poll(self) -> None:
        o = {**self.options, "size": 64}
        go = threading.Event()

        def send() -> List[bool]:
            with sockets.Sender(self.a, self.b.chip, **o) as s:
                s.start(bytes(50))
                before = s.poll()
                s.start(bytes(50))
                full = s.poll()
                go.set()
                s.wait()
            return [before, full]

        def receive() -> bytes:
            with sockets.Receiver(self.b, self.a.chip, **o) as s:
                go.wait(WAIT)
                self.assertEqual(s.poll(), 64)
                first = s.recv_exactly(70)
                with self.assertRaises(EOFError):
                    s.recv_exactly(31)
                return first

        self.assertEqual(self.both(send, receive), [[True, False], bytes(70)])

    def test_refusals(self) -> None:
        o = {**self.options, "number": 2}
        sent, got = self.both(lambda: sockets.Sender(self.a, self.b.chip, **{**o, "size": 64, "timeout": 5}),
                              lambda: sockets.Receiver(self.b, self.a.chip, **{**o, "size": 128, "timeout": 5}))
        self.assertTrue(isinstance(sent, sockets.Mismatch) or isinstance(got, sockets.Mismatch), f"{sent}, {got}")
        self.assertRaises(ttfabric.Timeout, sockets.Sender, self.a, self.b.chip, **{**o, "timeout": 0.01})
        self.assertRaises(ValueError, sockets.Sender, self.a, self.b.chip, **{**o, "size": 10, "page": 3})
        self.assertRaises(ValueError, sockets.Sender, self.a, self.b.chip)

    def test_ends(self) -> None:
        o = {**self.options, "number": 3}

        def give_up() -> None:
            with sockets.Sender(self.a, self.b.chip, **o) as s:
                s.send(b"abc")
                raise KeyError

        def receive() -> bytes:
            with sockets.Receiver(self.b, self.a.chip, **o) as s:
                return s.recv_exactly(4)

        sent, got = self.both(give_up, receive)
        self.assertIsInstance(sent, KeyError)
        self.assertIsInstance(got, sockets.PeerGone)
        self.assertEqual(got.reason, "failed")

        def send() -> None:
            with sockets.Sender(self.a, self.b.chip, **{**o, "size": 8}) as s:
                s.send(bytes(100))

        def leave() -> bytes:
            with sockets.Receiver(self.b, self.a.chip, **{**o, "size": 8}) as s:
                self.assertRaises(sockets.InUse, sockets.Receiver, self.dial_more(), self.a.chip, **{**o, "size": 8})
                return s.recv_exactly(4)

        sent, got = self.both(send, leave)
        self.assertEqual(got, bytes(4))
        self.assertIsInstance(sent, sockets.PeerGone)
        self.assertEqual(sent.reason, "closed")

    def dial_more(self) -> ttfabric.Chip:
        c = self.dial(1)
        self.addCleanup(c.close)
        return c


@unittest.skipUnless(len(APIS) >= 2, "TTFABRIC_TEST_APIS names no two chips")
class LiveSocketsOverHTTP(LiveSockets):
    """The same tests over HTTP."""
    bytes = 300_000

    def dial(self, i: int) -> ttfabric.Chip:
        return ttfabric.HTTPChip(APIS[i], TOKEN)


if __name__ == "__main__":
    unittest.main()
