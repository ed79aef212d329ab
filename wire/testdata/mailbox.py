#!/usr/bin/env python3
"""Writes vectors/mailbox.txt: golden bytes of a router's mailbox.

It is an encoder of its own, written from the layout in mailbox.go's comment
and not from its code; vectors.py says how a vector looks. Run it in this
directory after a change of the layout:

    python3 mailbox.py
"""
import struct


def crc32c(data):
    """CRC-32C one bit at a time (RFC 3720 §B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def sealed(b):
    return b + struct.pack("<I", crc32c(b))


def port(n):
    return struct.pack("<HHB", *n)


def status(seq, incarnation, at, local, direction, plane, path, peer, link, down, flags, state, post, heartbeat, posted,
           session, retrains, longs, inside, epoch):
    b = b"TTMB" + struct.pack("<HHHHIQQ", 1, 256, 64, 64, seq, incarnation, at)
    b += port(local) + bytes([direction, plane, path]) + port(peer) + bytes([link, down, flags])
    b += struct.pack("<6I", state, post, heartbeat, posted, session, retrains)
    assert len(b) == 72 and len(longs) == 15
    b += struct.pack("<15Q", *longs) + struct.pack("<3I", *inside, epoch)
    return sealed(b + bytes(252 - len(b)))


def entry(number, life, at, kind, severity, reason, path, packets, session, retrains, src, dst, vc, wait):
    b = struct.pack("<IIQBBBBIII", number, life, at, kind, severity, reason, path, packets, session, retrains)
    b += struct.pack("<HHHHB7xQ4x", *src, *dst, vc, wait)
    return sealed(b)


STATUS = [
    ("fresh", dict(seq=1, incarnation=1, at=0, local=(0, 0, 0), direction=0, plane=0, path=255, peer=(0, 1, 8), link=0, down=0, flags=0,
                   state=0, post=0xA0B0C0D0, heartbeat=0xAABB0000, posted=0, session=0, retrains=0, longs=[0] * 15, inside=[0, 0], epoch=7)),
    ("running", dict(seq=0xFFFFFFFE, incarnation=0x0123456789ABCDEF, at=12_345_678_901, local=(1023, 255, 15), direction=3, plane=1, path=14,
                     peer=(2, 3, 9), link=2, down=1, flags=3, state=1, post=0xA3B3C3D3, heartbeat=0xAABB007B, posted=70, session=0xDEADBEEF,
                     retrains=3, longs=[10**9 + i for i in range(15)], inside=[16, 8], epoch=0xCAFEF00D)),
    ("retraining", dict(seq=2, incarnation=9, at=5, local=(0, 5, 1), direction=1, plane=0, path=255, peer=(0, 4, 0), link=1, down=2, flags=2,
                        state=4, post=0xA0B0C0D0, heartbeat=0xAABB0000, posted=64, session=1, retrains=0,
                        longs=[(1 << 64) - 1 - i for i in range(15)], inside=[(1 << 32) - 1, 0], epoch=0)),
]
ENTRY = [
    ("up", dict(number=0, life=0x89ABCDEF, at=1_000_000, kind=1, severity=1, reason=0, path=255, packets=0, session=0xDEADBEEF, retrains=1,
                src=(0, 0), dst=(0, 0), vc=0, wait=0)),
    ("dropped", dict(number=64, life=1, at=(1 << 63) + 1, kind=64, severity=3, reason=1, path=255, packets=4096, session=0, retrains=0,
                     src=(1, 2), dst=(1023, 255), vc=0, wait=0)),
    ("stuck", dict(number=0xFFFFFFFF, life=0xFFFFFFFF, at=7, kind=65, severity=3, reason=0, path=2, packets=8, session=0, retrains=0,
                   src=(0, 1), dst=(0, 2), vc=3, wait=10**10)),
]


def write(f, name, fields, raw):
    f.write("name %s\n" % name)
    for k, v in fields.items():
        f.write("%s %s\n" % (k, ":".join(map(str, v)) if isinstance(v, (list, tuple)) else v))
    f.write("hex %s\n\n" % raw.hex())


if __name__ == "__main__":
    with open("vectors/mailbox.txt", "w") as f:
        for name, v in STATUS:
            write(f, "status " + name, v, status(**v))
        for name, v in ENTRY:
            write(f, "entry " + name, v, entry(**v))
