#!/usr/bin/env python3
"""Writes vectors/*.txt: golden bytes for the formats of package wire.

It is an encoder of its own, written from the package's documentation and not
from its code, with nothing but the standard library. The Go test compares
both. Run it in this directory after a change of a format:

    python3 vectors.py

A vector is a block of lines: "name" first, "hex" last, between them one field
a line as "key value", all numbers in decimal but bytes, which are in hex.
Blocks are separated by empty lines.
"""
import inspect
import os
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
assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720 §B.4
assert crc32c(bytes([0xFF] * 32)) == 0x62A8AB43
assert crc32c(bytes(range(32))) == 0x46DD794E


def pattern(n, seed=1):
    return bytes((seed + 7 * i) & 0xFF for i in range(n))


def frame(channel=0, session=0, kind=1, vc=0, flags=0, dest=0, tx=0, rx=0, padded=0, payload=b""):
    body = payload + bytes(padded - len(payload)) if padded else payload
    b = b"TT" + bytes([3 << 4 | channel, padded // 32]) + struct.pack("<I", session)
    b += struct.pack("<BBHIII", vc << 4 | kind, flags, len(payload), dest, tx, rx) + body
    return b + struct.pack("<I", crc32c(b))


def hello(up=0, want=0, fm=0, fc=0, fch=0, em=0, ec=0, ech=0, echotraining=0, incarnation=1, echoincarnation=0,
          stamp=0, echostamp=0, training=0, maxpayload=32, slots=(0, 0, 0), fabric=0, grants=(0, 0, 0)):
    b = struct.pack("<BBBBHHHHI", 3, up | want << 1, fch, ech, fm, fc, em, ec, echotraining)
    b += struct.pack("<QQQQI", incarnation, echoincarnation, stamp, echostamp, training)
    b += struct.pack("<HHHH", maxpayload, *slots) + bytes(4) + struct.pack("<I3I", fabric, *grants)
    assert len(b) == 80
    return b


def update(grants):
    return struct.pack("<3I", *grants)


def nocaddr(x, y, offset):
    assert offset < 1 << 36 and x < 64 and y < 64
    return offset | x << 36 | y << 42


def union(send, addr=0, sem=0, value=0, flush=0, chunks=()):
    if send in (0, 7):
        b = struct.pack("<Q", addr)
    elif send == 1:
        b = struct.pack("<QI", addr, value)
    elif send == 2:
        b = struct.pack("<QIB", addr, value, flush)
    elif send == 3:
        b = struct.pack("<QQIB", addr, sem, value, flush)
    elif send == 4:
        addrs = [a for a, _ in chunks] + [0] * (4 - len(chunks))
        sizes = [s for _, s in chunks[:-1]] + [0] * (4 - len(chunks))
        kinds = sum(1 << 2 * i for i in range(len(chunks)))
        b = struct.pack("<4Q3HBB", *addrs, *sizes, len(chunks), kinds)
    elif send == 5:  # addr: last tile in bits 36 to 47, first tile in bits 48 to 59
        x, y = addr >> 48 & 63, addr >> 54 & 63
        b = struct.pack("<IBBBB", addr & 0xFFFFFFFF, x, y, (addr >> 36 & 63) - x + 1, (addr >> 42 & 63) - y + 1)
    elif send == 6:
        x, y = addr >> 48 & 63, addr >> 54 & 63
        b = struct.pack("<IIBBBB", addr & 0xFFFFFFFF, value, x, y, (addr >> 36 & 63) - x + 1, (addr >> 42 & 63) - y + 1)
    else:
        b = b""
    return b + bytes(40 - len(b))


def packet(type=1, vc=0, plane=0, ttl=0, sm=0, sc=0, dm=0, dc=0, flowepoch=0, flowseq=0, flowbase=0, id=0, epoch=0,
           flags=0, group=0, trunk=0, ranges=(0, 0, 0, 0, 0, 0, 0, 0), members=(), send=255, size=None, hop=0, route=b"",
           payload=b"", life=0, **command):
    size = len(payload) if size is None else size
    if type in (3, 4, 6):
        actions = sum({1: 0, 2: 1, 4: 2, 8: 3}[a] << 2 * i for i, a in enumerate(route))
        b = struct.pack("<BBHHBBHH", type, vc | plane << 4, ttl, 96, 44, len(route), sm, sc) + actions.to_bytes(17, "little")
        b += struct.pack("<BBBIHHHH", hop, len(payload), 0, epoch, flags, group, dc, dm)
        assert len(b) == 44 and len(payload) <= 52 and size == len(payload)
        return b + payload + bytes(52 - len(payload))
    r = next(n for n in (19, 35, 51, 67) if len(route) <= n)
    b = union(send, **command) + struct.pack("<HBB", size, send, 0)
    b += struct.pack("<HBB", hop, 0, 0) + route + bytes(r - len(route)) + struct.pack("<HH", dc, dm)
    b += (bytes(ranges) if trunk else struct.pack("<II", life, 0)) + bytes([trunk])  # hops and skip of each direction: east, west, north, south
    assert len(b) in (80, 96, 112, 128)
    if members:  # bit c % 8 of byte c / 8 stands for chip c
        flags |= 32
        b += bytes(sum(1 << c % 8 for c in members if c // 8 == i) for i in range(32))
    total = 40 + len(b) + len(payload)
    ext = struct.pack("<BBHHBBHH", type, vc | plane << 4, ttl, total, 40, r, sm, sc)
    ext += struct.pack("<IIIQIHH", flowepoch, flowseq, flowbase, id, epoch, flags, group)
    assert len(ext) == 40
    return ext + b + payload


def completion(flowepoch, first, next, exceptions=()):
    b = struct.pack("<IIII", flowepoch, first, next, len(exceptions))
    for first, count, outcome in exceptions:
        b += struct.pack("<IHBB", first, count, outcome, 0)
    return b


def dropreport(dm, dc, flowepoch, flowseq, plane, reason, channel, type, id, other=0, group=0, dir=0, trunk=0,
               ranges=(0, 0, 0, 0, 0, 0, 0, 0), members=(), open=0):
    kind = type | 0x10 * open | (0x80 if group else 0) | 0x40 * other | (0x20 if members else 0)
    b = struct.pack("<HHIIBBBBQ", dm, dc, flowepoch, flowseq, plane, reason, channel, kind, id)
    if members:  # all in the same half of the mesh's 256 chips
        half = members[0] // 128
        assert all(c // 128 == half for c in members)
        return b + struct.pack("<HBB", group, half, trunk) + sum(1 << c % 128 for c in members).to_bytes(16, "little")
    return b + struct.pack("<HBB8B", group, dir, trunk, *ranges) if group else b


def linkstates(entries):
    return b"".join(struct.pack("<HHIHH", *e) for e in entries)


def ident(mesh, chip, channel, incarnation):
    return struct.pack("<HHBQ", mesh, chip, channel, incarnation)


def session(a, b):
    low, high = sorted([a, b])
    return crc32c(ident(*low) + ident(*high)) or 1


def show(v):
    if isinstance(v, bytes):
        return v.hex() or "-"
    if isinstance(v, (tuple, list)):
        return ",".join(show(x) if not isinstance(x, tuple) else ":".join(map(str, x)) for x in v) or "-"
    return str(v)


def defaults(encode):
    """The fields that a vector leaves to the encoder, so that each block is complete."""
    parameters = inspect.signature(encode).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def write(file, encode, vectors):
    with open(os.path.join("vectors", file + ".txt"), "w") as out:
        for name, fields in vectors:
            out.write("name %s\n" % name)
            fields = {**defaults(encode), **fields}
            if fields.get("size", 0) is None:
                fields["size"] = len(fields["payload"])
            for k, v in fields.items():
                out.write("%s %s\n" % (k, show(v)))
            out.write("hex %s\n\n" % encode(**fields).hex())


def frames():
    full = hello(up=1, want=1, fm=3, fc=7, fch=9, em=3, ec=8, ech=1, incarnation=0x0123456789ABCDEF, maxpayload=1440,
                 slots=(32, 16, 8), stamp=99)
    yield "data one piece", dict(channel=9, session=0xDEADBEEF, kind=1, vc=0, flags=1, dest=5 * 8192, tx=0xFFFFFFFF,
                                 rx=7, padded=128, payload=pattern(120))
    yield "data first piece", dict(channel=15, session=1, kind=1, vc=1, dest=31 * 8192, tx=17, rx=18, padded=32,
                                   payload=pattern(32))
    yield "data last piece on control", dict(channel=0, session=2, kind=1, vc=2, flags=1, dest=2 * 96 + 48, tx=1,
                                             rx=0xFFFFFFFE, padded=64, payload=pattern(33))
    yield "data of the largest size", dict(channel=1, session=3, kind=1, flags=1, dest=8192, tx=2, rx=3, padded=8160,
                                           payload=pattern(8160))
    yield "data padded although empty", dict(channel=1, session=3, kind=1, padded=32, payload=b"")
    yield "update", dict(channel=4, session=0x80000000, kind=2, rx=100, payload=update((1, 2, 3)))
    yield "update nack", dict(channel=4, session=0x80000000, kind=2, flags=2, rx=100, payload=update((9, 0, 0xFFFFFFFF)))
    yield "update solicit", dict(channel=4, session=4, kind=2, flags=4, rx=100, payload=update((0, 0, 0)))
    yield "update nack solicit", dict(channel=4, session=4, kind=2, flags=6, rx=0, payload=update((7, 8, 9)))
    yield "hello before a session", dict(channel=1, kind=3, payload=full)
    yield "hello in a session", dict(channel=1, session=77, kind=3, rx=0x89ABCDEF, payload=full)
    yield "close", dict(channel=3, session=5, kind=5, rx=6)
    yield "L1 write, first piece", dict(channel=8, session=6, kind=6, dest=0x1A2B0, tx=0xFFFFFFFF, rx=9, padded=1472,
                                        payload=pattern(1472))
    yield "L1 write, last piece on queue 1", dict(channel=8, session=6, kind=6, vc=1, flags=1, dest=0x3FFF0, tx=0, rx=9,
                                                  padded=32, payload=pattern(16))
    yield "MMIO write", dict(channel=0, session=7, kind=7, flags=1, dest=0xFFB9001C, tx=5, rx=6, padded=32,
                             payload=struct.pack("<I", 0xA1B2C3D4))


def raw(channel=0, payload=b""):
    b = b"TT" + bytes([15 << 4 | channel, 0]) + struct.pack("<I", len(payload)) + payload
    return b + struct.pack("<I", crc32c(b))


def raws():
    yield "one byte", dict(channel=15, payload=b"\xA5")
    yield "short", dict(channel=2, payload=pattern(50))
    yield "largest", dict(channel=0, payload=pattern(1500))


def hellos():
    yield "first", dict(want=1, fm=0, fc=0, fch=0, em=0, ec=1, ech=1, incarnation=1, stamp=1, training=1,
                        maxpayload=1440, slots=(32, 16, 8))
    yield "answer", dict(want=1, fm=0, fc=1, fch=1, em=0, ec=0, ech=0, incarnation=2, echoincarnation=1, stamp=5,
                         echostamp=1, training=1, echotraining=1, maxpayload=1440, slots=(32, 16, 8))
    yield "up", dict(up=1, fm=0, fc=0, fch=0, em=0, ec=1, ech=1, incarnation=1, echoincarnation=2, stamp=9,
                     echostamp=5, training=1, echotraining=1, maxpayload=8160, slots=(1, 0, 65535), grants=(1, 0, 65535))
    yield "all fields differ", dict(up=1, want=1, fm=0x3FE, fc=0xFD, fch=14, em=0x3FF, ec=0xFF, ech=15,
                                    echotraining=0x11121314, incarnation=0x2122232425262728,
                                    echoincarnation=0x3132333435363738, stamp=0x4142434445464748,
                                    echostamp=0x5152535455565758, training=0x61626364, maxpayload=96,
                                    slots=(0x7172, 0x7374, 0x7576), fabric=0x81828384,
                                    grants=(0x91929394, 0xA1A2A3A4, 0xB1B2B3B4))
    yield "least", dict()


def packets():
    base = dict(vc=0, plane=1, ttl=3, sm=0, sc=0, dm=1, dc=7, flowepoch=0x12345001, flowseq=9, flowbase=4, id=77,
                epoch=0xCAFEF00D)
    a, b = nocaddr(1, 2, 0x1000), nocaddr(63, 63, (1 << 36) - 1)
    yield "write", dict(base, send=0, addr=a, route=bytes([1, 1, 8, 4]), payload=pattern(64))
    yield "write empty", dict(base, send=0, addr=b, route=bytes([2]))
    yield "write of the largest size", dict(base, send=0, addr=a, route=bytes([1, 2]), payload=pattern(4096))
    yield "inline write", dict(base, send=1, addr=a, value=0xA1B2C3D4, route=bytes([4]))
    yield "atomic", dict(base, send=2, addr=a, value=0xFFFFFFFF, flush=1, route=bytes([8]))
    yield "atomic no flush", dict(base, send=2, addr=a, value=1, route=bytes([8]))
    yield "write and increment", dict(base, send=3, addr=a, sem=b, value=3, flush=1, route=bytes([8]),
                                      payload=pattern(17))
    for n in (2, 3, 4):
        chunks = [(nocaddr(i, i + 1, 4096 * i), 10 + i) for i in range(n)]
        yield "scatter %d" % n, dict(base, send=4, chunks=chunks, route=bytes([1]),
                                     payload=pattern(sum(s for _, s in chunks)))
    yield "scatter with empty chunks", dict(base, send=4, chunks=[(a, 0), (b, 5), (a, 0)], route=bytes([1]),
                                            payload=pattern(5))
    yield "write at NoC 1", dict(base, send=0, addr=a | 1 << 60, route=bytes([8]), payload=pattern(4))
    rect = nocaddr(4, 5, 0xFFFFFFF0) | 1 << 48 | 2 << 54
    yield "NoC multicast", dict(base, send=5, addr=rect, route=bytes([8]), payload=pattern(33))
    yield "NoC multicast to one tile", dict(base, send=5, addr=nocaddr(63, 63, 0) | 63 << 48 | 63 << 54, route=bytes([8]))
    yield "NoC multicast increment", dict(base, send=6, addr=rect, value=0xFFFFFFFE, route=bytes([8]))
    yield "read", dict(base, send=7, addr=a, size=4096, route=bytes([1]))
    for n in (0, 1, 19, 20, 35, 36, 51, 52, 67):
        route = bytes(1 << (i % 4) for i in range(n))
        yield "route of %d" % n, dict(base, send=0, addr=a, hop=n // 2, ttl=n, route=route, payload=pattern(5))
    home = dict(plane=15, ttl=0xFFFF, sm=1023, sc=255, dm=1022, dc=254, epoch=0x01020304, route=bytes([2, 1]))
    yield "reply", dict(home, type=2, vc=1, id=0x0102030405060708, payload=pattern(100))
    yield "completion", dict(home, type=3, vc=2, payload=completion(1, 0, 2, [(0, 1, 5)]))
    yield "drop report", dict(home, type=4, vc=2, payload=dropreport(1, 7, 1, 2, 3, 1, 8, 1, 9))
    yield "probe", dict(base, type=5, route=bytes([1, 2]))
    yield "round a fault", dict(base, type=5, vc=10, flags=4, route=bytes([1, 2]))
    yield "upwards, round a fault, traced", dict(base, type=5, vc=13, flags=7, route=bytes([1, 2]))
    yield "request of a known flow", dict(base, send=0, addr=a, flags=8, route=bytes([1, 2]), payload=pattern(9))
    yield "request for one life", dict(base, send=0, addr=a, life=0xD1D2D3D4, route=bytes([1, 2]), payload=pattern(9))
    yield "probe for one life", dict(base, type=5, flags=8, life=1, route=bytes([1, 2]))
    yield "the other way round", dict(base, send=0, addr=a, flags=16, route=bytes([2, 1]), payload=pattern(9))
    yield "reply the other way round", dict(home, type=2, vc=1, id=3, flags=16, payload=pattern(5))
    yield "completion the other way round", dict(home, type=3, vc=2, flags=16, payload=completion(1, 0, 2))
    yield "all flags", dict(base, type=5, vc=13, flags=31, route=bytes([1, 2]))
    for n in (0, 1, 4, 66, 67):
        route = bytes(1 << (i * i % 4) for i in range(n))
        yield "control route of %d" % n, dict(home, type=3, vc=7, flags=1, hop=n // 2, route=route, payload=completion(1, 0, 2))
    yield "full completion", dict(home, type=3, vc=12, flags=6, payload=completion(1, 0, 99, [(9 * i, i + 1, 1 + i) for i in range(4)]))
    yield "largest drop report", dict(home, type=4, vc=15, flags=5, payload=dropreport(1, 7, 1, 2, 3, 1, 8, 1, 9, group=5, dir=3, trunk=2,
                                                                                    ranges=(1, 2, 3, 4, 5, 6, 7, 8)))
    yield "four link states", dict(home, type=6, vc=2, route=bytes([8]), payload=linkstates([(1, i, 7, i, 8) for i in range(4)]))
    yield "link state", dict(home, type=6, vc=2, route=bytes([2]), payload=linkstates([(1023, 255, 7, 0x8001, 0x10)]))
    many = dict(base, dm=0, dc=0, group=0x1234, trunk=1)
    yield "multicast write", dict(many, send=0, addr=a, ranges=(3, 0, 0, 0, 2, 0, 1, 0), payload=pattern(64))
    yield "multicast on a line", dict(many, send=1, addr=a, value=5, ranges=(4, 2, 0, 0, 0, 0, 0, 0))
    yield "multicast with its trunk north and south", dict(many, group=0xFFFF, trunk=2, send=2, addr=a, value=1, flush=1,
                                                           ranges=(255, 254, 1, 2, 3, 4, 5, 6))
    yield "multicast at its end", dict(many, send=3, addr=a, sem=b, value=1, payload=pattern(3))
    yield "multicast probe", dict(many, type=5, ranges=(0, 0, 1, 0, 0, 0, 0, 0))
    some = dict(many, dm=0, dc=2, members=(2, 3, 8, 63, 64, 255))
    yield "multicast to members", dict(some, send=0, addr=a, payload=pattern(64))
    yield "multicast to members, trunk north and south", dict(some, trunk=2, send=2, addr=a, value=7)
    yield "multicast to members of another mesh", dict(some, dm=7, trunk=0, flags=1, send=3, addr=a, sem=b, value=1,
                                                       route=bytes([1, 2, 4] * 7), payload=pattern(5))
    yield "probe to members", dict(some, type=5, members=(0,))
    yield "posted write", dict(base, send=0, addr=a, flags=64, route=bytes([1, 2]), payload=pattern(9))
    yield "posted write to members", dict(some, send=0, addr=a, flags=64, payload=pattern(9))
    yield "completion of a group", dict(home, type=3, vc=2, group=0x1234, payload=completion(1, 0, 2))


def completions():
    yield "nothing wrong", dict(flowepoch=1, first=0, next=2, exceptions=[])
    for o in range(1, 14):
        yield "outcome %d" % o, dict(flowepoch=0xFFFFF000, first=0xFFFFFF00, next=0x00000003,
                                     exceptions=[(0xFFFFFF00 + 2 * o, 1 if o != 5 else 65535, o)])
    yield "full", dict(flowepoch=3, first=7, next=1000, exceptions=[(10 + 3 * i, i + 1, 1 + i) for i in range(4)])
    yield "nothing settled", dict(flowepoch=3, first=7, next=7, exceptions=[])


def dropreports():
    for reason in range(1, 10):
        yield "reason %d" % reason, dict(dm=1023, dc=255, flowepoch=0xA1A2A3A4, flowseq=0xB1B2B3B4, plane=15,
                                         reason=reason, channel=15, type=1, id=0xC1C2C3C4C5C6C7C8)
    yield "probe", dict(dm=0, dc=1, flowepoch=0, flowseq=0, plane=0, reason=1, channel=0, type=5, id=0)
    yield "reply", dict(dm=0, dc=1, flowepoch=0, flowseq=0, plane=1, reason=6, channel=3, type=2, id=0xC1C2C3C4C5C6C7C8)
    yield "the other way round", dict(dm=0, dc=1, flowepoch=1, flowseq=2, plane=1, reason=2, channel=3, type=1, id=4, other=1)
    yield "open", dict(dm=0, dc=1, flowepoch=1, flowseq=2, plane=1, reason=1, channel=3, type=1, id=4, open=1)
    yield "multicast", dict(dm=0, dc=1, flowepoch=1, flowseq=2, plane=0, reason=1, channel=3, type=1, id=4, group=0xA1B2,
                            dir=3, trunk=2, ranges=(1, 2, 3, 4, 5, 6, 7, 8))
    yield "members", dict(dm=5, dc=1, flowepoch=1, flowseq=2, plane=0, reason=1, channel=3, type=1, id=4, group=0xA1B2,
                          trunk=1, members=(1, 9, 127))
    yield "members of the higher half", dict(dm=5, dc=1, flowepoch=1, flowseq=2, plane=0, reason=1, channel=3, type=1, id=4,
                                             group=0xA1B2, trunk=1, members=(128, 137, 255))
    yield "members of a mesh not entered", dict(dm=5, dc=1, flowepoch=1, flowseq=2, plane=0, reason=6, channel=3, type=5, id=4,
                                                group=1, members=(0,))


def linkstatelists():
    yield "nothing to avoid", dict(entries=[(0, 1, 0, 0, 0)])
    yield "out of service and silent", dict(entries=[(0x3FE, 0xFD, 0x11121314, 0x2122, 0x4011)])
    yield "all silent", dict(entries=[(1023, 255, 0xFFFFFFFF, 0, 0xFFFF)])
    yield "full", dict(entries=[(i, 2 * i, 7 + i, 1 << i, 1 << 15 - i) for i in range(4)])


def sessions():
    ends = [((0, 0, 0, 1), (0, 1, 1, 2)), ((0, 1, 1, 2), (0, 0, 0, 1)), ((1023, 255, 15, 2**64 - 1), (0, 256 - 1, 0, 5)),
            ((2, 9, 3, 0x0123456789ABCDEF), (2, 9, 1, 0xFEDCBA9876543210)), ((1, 0, 0, 8), (0, 200, 9, 1 << 32))]
    with open("vectors/sessions.txt", "w") as out:
        for i, (a, b) in enumerate(ends):
            out.write("name cable %d\na %s\nb %s\nsession %d\nseqa %d\nseqb %d\nhex %s\n\n" % (
                i, show([a]), show([b]), session(a, b), a[3] & 0xFFFFFFFF, b[3] & 0xFFFFFFFF,
                (ident(*min(a, b)) + ident(*max(a, b))).hex()))


def main():
    write("frames", frame, frames())
    write("raws", raw, raws())
    write("hellos", hello, hellos())
    write("updates", update, [("zero", dict(grants=(0, 0, 0))), ("each", dict(grants=(0x01020304, 0x11121314, 0xFFFFFFFF)))])
    write("packets", packet, packets())
    write("completions", completion, completions())
    write("dropreports", dropreport, dropreports())
    write("linkstates", linkstates, linkstatelists())
    sessions()


main()
