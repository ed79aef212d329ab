"""A chip of a mesh:1x2, M0D1, written from the page of package wire (wire/doc.go)
and in another language, to find out whether that page says enough.

    peer.py FABRIC PORT4 PORT5 PEER4 PEER5 [LOSS]

FABRIC is the fabric's id, PORTn the UDP port of channel n here, or "fdN" for a
bound socket that the process inherits as descriptor N, PEERn the UDP port of
the neighbour's port at its other end (channel 0 and 1 of M0D0, to the west).
LOSS is the share of datagrams that are thrown away, out and in.

It prints "up" when both links are confirmed, obeys the requests of its
neighbour, and for each line of input makes a request of its own and prints how
it ended: "write X Y OFFSET HEX", "read X Y OFFSET N", "inc X Y OFFSET N", and
"mwrite" and "minc" for multicasts by the range of one hop to the west, "nwrite X
Y COLUMNS ROWS OFFSET HEX" and "ninc X Y COLUMNS ROWS OFFSET N" for NoC
multicasts to a rectangle of tiles. "l1write CHANNEL QUEUE ADDRESS HEX" and
"mmio CHANNEL QUEUE ADDRESS VALUE" write to the ethernet tile at the other end of
a cable; it prints "sent", because nothing tells a tile that a write has arrived.
When the input ends it says goodbye on its links.
"""
import os, random, select, socket, struct, sys, time

TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    TABLE.append(c)


def crc32c(b):
    c = 0xFFFFFFFF
    for x in b:
        c = TABLE[(c ^ x) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283
DATA, UPDATE, HELLO, CLOSE, WRITE, MMIO = 1, 2, 3, 5, 6, 7
END, NACK, SOLICIT = 1, 2, 4
SLOTS = (16, 16, 8)
STRIDE = (8192, 8192, 96)
PAYLOAD = 1408
EAST, WEST = 1, 2
TILE = {4: 7 << 36, 5: 3 << 36}  # NoC addresses of the ethernet tiles of channels 4 and 5, (7, 0) and (3, 0)


def after(a, b):
    """The wrapping distance from b to a."""
    return (a - b + 2**31) % 2**32 - 2**31


def frame(channel, session, kind, payload=b"", vc=0, flags=0, dest=0, tx=0, rx=0, padded=0):
    body = payload + bytes(padded * 32 - len(payload) if padded else 0)
    b = struct.pack("<2sBBIBBHIII", b"TT", 3 << 4 | channel, padded, session, vc << 4 | kind, flags, len(payload), dest, tx, rx) + body
    return b + struct.pack("<I", crc32c(b))


class Link:
    """One end of a cable: training, go-back-N, credits."""

    def __init__(self, chip, channel, peer_channel, local, remote, loss):
        self.chip, self.channel, self.peer_channel, self.loss = chip, channel, peer_channel, loss
        if local.startswith("fd"):
            self.sock = socket.socket(fileno=int(local[2:]))
        else:
            self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.sock.bind(("127.0.0.1", int(local)))
        self.sock.setblocking(False)
        self.remote = ("127.0.0.1", int(remote))
        self.up = self.confirmed = False
        self.training, self.session, self.peer, self.peer_training = 1, 0, 0, 0
        self.ended, self.heard = [], (0, 0)
        self.hello_at, self.hello_gap = 0, 0.02
        self.life = self.said = 0
        self.closed = False

    def begin(self, peer, slots):
        a = struct.pack("<HHBQ", 0, 0, self.peer_channel, peer)  # the lower port: mesh 0 chip 0
        b = struct.pack("<HHBQ", 0, 1, self.channel, self.chip.incarnation)
        if self.session:
            self.ended = (self.ended + [self.peer])[-8:]
        self.session, self.peer, self.peer_slots = crc32c(a + b) or 1, peer, slots
        self.training += 1
        self.tx_base = self.tx_next = self.chip.incarnation & 0xFFFFFFFF
        self.window, self.rto_at = [], None
        self.sent, self.limit, self.slot = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.expected = peer & 0xFFFFFFFF
        self.got, self.freed, self.rx_slot = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        self.partial, self.nacked = None, None

    def grants(self):
        return [self.freed[v] + SLOTS[v] for v in range(3)]

    def put(self, b):
        self.said = time.monotonic()
        if random.random() >= self.loss:
            self.sock.sendto(b, self.remote)

    def hello(self, want, echo=None, stamp=0, room=PAYLOAD):
        inc, training = echo or ((self.peer, self.peer_training) if self.session else self.heard)
        p = struct.pack("<BBBBHHHHIQQQQIH3HIIIII", 3, (1 if self.up else 0) | (2 if want else 0), self.channel, self.peer_channel, 0, 1, 0, 0, training,
                        self.chip.incarnation, inc, time.monotonic_ns(), stamp, self.training, PAYLOAD, *SLOTS, 0, self.chip.fabric,
                        *(self.grants() if self.session else (0, 0, 0)))
        assert len(p) == 80
        pad = min(room, PAYLOAD) // 32
        self.put(frame(self.peer_channel, self.session, HELLO, p, rx=self.expected if self.session else 0, padded=pad if pad * 32 >= len(p) else 0))

    def update(self, flags=0):
        self.put(frame(self.peer_channel, self.session, UPDATE, struct.pack("<III", *self.grants()), flags=flags, rx=self.expected))

    def receive(self, b):
        if random.random() < self.loss or len(b) < 28 or b[:2] != b"TT" or b[2] >> 4 != 3:
            return
        pad, session, kind, flags, length, dest, tx, rx = struct.unpack_from("<xxxBIBBHIII", b)
        vc, kind = kind >> 4, kind & 15
        if len(b) != 28 + (pad * 32 or length) or length > len(b) - 28 or crc32c(b[:-4]) != struct.unpack("<I", b[-4:])[0]:
            return
        payload = b[24:24 + length]
        if b[2] & 15 != self.channel and len(payload) > 60 and payload[60]:
            return  # another link's, by this cable: fallback is not for us
        if kind == HELLO:
            return self.take_hello(session, payload, rx, pad * 32 or length)
        if not self.up or session != self.session or b[2] & 15 != self.channel:
            return
        self.life, self.confirmed = time.monotonic(), True
        if kind == CLOSE:
            self.down()
        elif kind == UPDATE:
            self.take_ack(rx)
            self.take_grants(struct.unpack("<III", payload))
            if flags & NACK and rx == self.tx_base:
                self.go_back()
            if flags & SOLICIT:
                self.update()
        elif kind == DATA:
            self.take_ack(rx)
            self.take_data(vc, flags, dest, tx, payload)
        elif kind in (WRITE, MMIO):
            self.take_ack(rx)
            self.take_write(kind, flags, dest, tx, payload)

    def take_hello(self, session, p, rx, room):
        if len(p) != 80:
            return
        (_, bits, from_ch, exp_ch, fm, fc, em, ec, echo_training, inc, echo, stamp, echo_stamp, training, payload, s0, s1, s2, _, fabric,
         g0, g1, g2) = struct.unpack("<BBBBHHHHIQQQQIH3HIIIII", p)
        if (fm, fc, from_ch, em, ec, exp_ch) != (0, 0, self.peer_channel, 0, 1, self.channel) or fabric not in (0, self.chip.fabric):
            return print("miswired", flush=True)
        known = self.session and inc == self.peer
        if self.closed or inc in self.ended or (known and after(training, self.peer_training) < 0):
            return
        proves = echo == self.chip.incarnation and echo_training == self.training
        ours = session == self.session and echo == self.chip.incarnation
        if known or proves:
            if not known:
                self.up = False
                self.begin(inc, (s0, s1, s2))
            newer, self.peer_training = known and training != self.peer_training, training
            if not self.up and proves:
                self.up, self.confirmed, self.life = True, False, time.monotonic()
                self.payload = min(PAYLOAD, payload)
                if ours and self.session:
                    self.take_ack(rx)
                self.go_back()
                self.update()
            elif self.up and newer and not bits & 1 and self.confirmed:
                self.down()
            if self.session and session == self.session and echo == self.chip.incarnation:
                self.take_ack(rx)
                self.take_grants((g0, g1, g2))
                if bits & 1:
                    self.life = time.monotonic()
                    self.confirmed = self.confirmed or self.up
        elif not self.session:
            self.heard = (inc, training)
        if bits & 2:
            self.hello(not self.up and not echo_stamp, (inc, training), stamp, room)

    def down(self):
        self.up, self.training, self.hello_at, self.hello_gap = False, self.training + 1, 0, 0.02

    def take_grants(self, g):
        for v in range(3):
            if after(g[v], self.limit[v]) > 0 and after(g[v], self.sent[v]) <= self.peer_slots[v]:
                self.limit[v] = g[v]

    def take_ack(self, rx):
        n = after(rx, self.tx_base)
        if 0 < n <= len(self.window):
            self.window, self.tx_base = self.window[n:], rx
            self.rto_at = time.monotonic() + 0.1 if self.window else None

    def go_back(self):
        for f in self.window:
            self.transmit(*f)
        self.rto_at = time.monotonic() + 0.1 if self.window else None

    def transmit(self, seq, kind, vc, flags, dest, piece):
        self.put(frame(self.peer_channel, self.session, kind, piece, vc, flags, dest, seq, self.expected, (len(piece) + 31) // 32))

    def can_send(self, vc):
        return self.up and (vc < 0 or after(self.limit[vc], self.sent[vc]) > 0)  # writes (vc -1) need no credit

    def number(self, *f):
        self.window.append((self.tx_next, *f))
        self.tx_next = (self.tx_next + 1) % 2**32
        self.transmit(*self.window[-1])
        self.rto_at = self.rto_at or time.monotonic() + 0.1

    def write(self, kind, queue, dest, data):
        """Sends a command of a transaction command queue."""
        each = min(self.payload, 1472) // 16 * 16
        for off in range(0, len(data), each):
            self.number(kind, queue, END if off + each >= len(data) else 0, dest + off, data[off:off + each])

    def send(self, vc, packet):
        n = -(-len(packet) // self.payload)
        each = -(-len(packet) // n)
        for off in range(0, len(packet), each):
            self.number(DATA, vc, END if off + each >= len(packet) else 0, self.slot[vc] * STRIDE[vc] + off, packet[off:off + each])
        self.sent[vc] += 1
        self.slot[vc] = (self.slot[vc] + 1) % self.peer_slots[vc]

    def is_next(self, tx):
        """Whether tx is the expected number; an earlier or later number is answered."""
        d = after(tx, self.expected)
        if d < 0:
            self.update()
        elif d > 0 and self.nacked != (self.expected, int(time.monotonic() * 20)):
            self.nacked = (self.expected, int(time.monotonic() * 20))
            self.update(NACK)
        return d == 0

    def take_write(self, kind, flags, dest, tx, payload):
        """A write into the L1 of this port's ethernet tile. The tile has no registers here."""
        if not self.is_next(tx):
            return
        if kind == WRITE and (not payload or len(payload) % 16 or dest % 16) or kind == MMIO and (len(payload) != 4 or dest % 4):
            return
        self.expected = (self.expected + 1) % 2**32
        m, off = self.chip.place(TILE[self.channel] | dest, len(payload))
        if kind == WRITE and m is not None and dest + len(payload) <= 256 << 10:
            m[off:off + len(payload)] = payload
        self.update()

    def take_data(self, vc, flags, dest, tx, piece):
        if not self.is_next(tx):
            return
        at = (vc, b"") if self.partial is None else self.partial
        if at[0] != vc or not piece or dest != self.rx_slot[vc] * STRIDE[vc] + len(at[1]):
            return
        self.expected = (self.expected + 1) % 2**32
        self.partial = (vc, at[1] + piece)
        if flags & END:
            packet, self.partial = self.partial[1], None
            self.got[vc] += 1
            self.rx_slot[vc] = (self.rx_slot[vc] + 1) % SLOTS[vc]
            self.freed[vc] += 1
            self.chip.arrived(self, packet)
        self.update()

    def tick(self, now):
        if self.closed:
            return
        if self.up and now - self.life > 2:
            self.down()
        if (not self.up or not self.confirmed) and now >= self.hello_at:
            self.hello(True)
            self.hello_at, self.hello_gap = now + self.hello_gap, min(2 * self.hello_gap, 0.5)
        if self.up and self.rto_at and now >= self.rto_at:
            self.go_back()
        if self.up and now - self.said > 0.5:
            self.update(SOLICIT if any(not self.can_send(v) for v in range(3)) else 0)

    def close(self):
        if self.up:
            self.put(frame(self.peer_channel, self.session, CLOSE, rx=self.expected))
        self.closed = True


OUTCOMES = {1: "bad address", 2: "misaligned", 3: "bad command", 4: "again", 5: "lost", 6: "restarted", 7: "too many exceptions", 8: "out of memory", 9: "flow unknown", 10: "harvested tile", 11: "untranslated coordinates", 12: "no host memory", 13: "host gone"}


KNOWN, OTHER, MEMBERS, POSTED = 8, 16, 32, 64
CHIP = 1  # this chip's number in its mesh
TENSIX = [(x, y) for y in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11) for x in (1, 2, 3, 4, 6, 7, 8, 9)]  # of a Wormhole, coordinates of NoC 0
L1 = 1464 << 10
TO_MEMBERS = 2  # the group whose one member is chip 0


def merged(exceptions):
    """What follows an exception of the same outcome belongs to it; beyond 64, what became of the rest is not said apart."""
    out = []
    for e in exceptions:
        if out and (out[-1][2] == e[2] or len(out) == 64) and out[-1][0] + out[-1][1] == e[0]:
            out[-1][1] += e[1]
            out[-1][2] = out[-1][2] if out[-1][2] == e[2] else 6
        else:
            out.append(list(e))
    return out


class Chip:
    def __init__(self, fabric, ports, loss, incarnation):  # incarnation 0: a random one
        self.fabric, self.incarnation = fabric, incarnation or struct.unpack("<Q", os.urandom(8))[0] | 1
        self.links = [Link(self, 4, 0, ports[0], ports[2], loss), Link(self, 5, 1, ports[1], ports[3], loss)]
        self.memory = {}
        self.flows = {}
        self.waiting = []  # packets for lack of credit: link, vc, bytes
        self.next_id = self.incarnation
        self.outs = {g: {"epoch": int(time.time() * 1000) & 0xFFFFFFFF, "seq": 0, "base": 0, "open": {}, "known": False, "sure": set(), "ending": False} for g in (0, 1, TO_MEMBERS, -1)}  # -1: those with OTHER
        self.out = self.outs[0]
        self.reads, self.probe_at = {}, None

    def packet(self, kind, vc, plane, payload, union=b"", size=None, send=255, ident=0, flow=(0, 0, 0), group=0, trunk=0, flags=0):
        if kind == 3:  # a control packet: one action, east, then the end of the route
            b = struct.pack("<BBHHBBHH17xBBBIHHHH", kind, vc | plane << 4, 2, 96, 44, 1, 0, 1, 0, len(payload), 0, 0, flags, group, 0, 0) + payload
            return b.ljust(96, b"\0")
        r = 19
        if trunk and group == TO_MEMBERS:
            flags |= MEMBERS
            payload = struct.pack("<Q24x", 1) + payload
        size = len(payload) - (32 if flags & MEMBERS else 0) if size is None else size
        n = 101 + r + len(payload)
        b = struct.pack("<BBHHBBHHIIIQIHH", kind, vc | plane << 4, 2, n, 40, r, 0, 1, *flow, ident % 2**64, 0, flags, group)
        b += union.ljust(40, b"\0") + struct.pack("<HBBHBB", size, send, 0, 0, 0, 0)
        if trunk:  # names its source, or with MEMBERS a member; the copy to the last chip has no hops before it
            b += bytes(r) + struct.pack("<HH", 0 if flags & MEMBERS else 1, 0) + bytes(8) + bytes([trunk]) + payload
        else:
            b += bytes([EAST]).ljust(r, b"\0") + struct.pack("<HH", 0, 0) + bytes(9) + payload
        assert len(b) == n
        return b

    def post(self, link, vc, packet):
        self.waiting.append((link, vc, packet))
        self.flush()

    def flush(self):
        left, full = [], set()
        for link, vc, packet in self.waiting:
            if (link, vc) not in full and link.can_send(vc):
                link.write(*packet) if vc < 0 else link.send(vc, packet)
            else:
                full.add((link, vc))
                left.append((link, vc, packet))
        self.waiting = left

    def arrived(self, link, b):
        kind, vcp, _, n, head, r, sm, sc = struct.unpack_from("<BBHHBBHH", b)
        if kind in (3, 4, 6):
            return self.control(b) if n == len(b) == 96 and head == 44 else None
        epoch, seq, base, ident = struct.unpack_from("<IIIQ", b, 12)
        size, send = struct.unpack_from("<HB", b, 80)
        members = int.from_bytes(b[101 + r:133 + r], "little") if b[36] & MEMBERS else 0
        payload = b[(133 if b[36] & MEMBERS else 101) + r:]
        group, = struct.unpack_from("<H", b, 38)
        other = b[36] & OTHER
        if n != len(b) or other and group:
            return
        if kind == 1 and send in (5, 6):
            x, y, columns, rows = b[44:48] if send == 5 else b[48:52]
            if not columns or not rows or x == y == 0 or x + columns > 64 or y + rows > 64:
                return  # malformed
        if kind in (1, 5):
            if b[36] & MEMBERS:
                if not group or b[100 + r] not in (1, 2) or members != 1 << CHIP or send == 7:
                    return  # the packet has no other member ahead of it, because this chip is the last of its row
            elif (group != 0) != (b[100 + r] in (1, 2)) or group and (b[92 + r:100 + r] != bytes(8) or send == 7):
                return  # there is nothing to the east of this chip
            life = 0 if group else struct.unpack_from("<I", b, 92 + r)[0]
            self.request(link, kind, b[36] & (KNOWN | POSTED), life, (vcp >> 4, group, other), epoch, seq, base, ident, b[40:80], size, send, payload)
        elif kind == 2 and ident in self.reads:
            self.end(self.reads.pop(ident), "done " + payload.hex())

    def control(self, b):
        group, = struct.unpack_from("<H", b, 38)
        payload = b[44:44 + b[30]]
        if b[0] == 3:
            if group in self.outs:
                self.completion(payload, self.outs[-1 if b[36] & OTHER else group])
        elif b[0] == 4:
            seq, _, ident = struct.unpack_from("<IIQ", payload, 8)
            if payload[15] & 0x10:
                return  # the request may have arrived
            if payload[15] & 0xF == 2:  # the reply to a read
                if ident in self.reads:
                    self.end(self.reads.pop(ident), "unknown")
                return
            self.end(seq, "dropped", self.outs[-1 if payload[15] & 0x40 else 0])

    # The destination's end of a flow.

    def request(self, link, kind, known, life, key, epoch, seq, base, ident, union, size, send, payload):
        plane, group, other = key
        f = self.flows.get(key)
        if f is None or f["epoch"] != epoch:
            mine = life == self.incarnation & 0xFFFFFFFF
            f = self.flows[key] = {"epoch": epoch, "next": seq, "exc": [], "void": known & KNOWN or life and not mine}
            if 0 < after(seq, base) < 8192:
                f["exc"].append([base, after(seq, base), 5 if mine and not f["void"] else 6])
        f["exc"] = [e for e in f["exc"] if after(e[0] + e[1], base) > 0]
        if after(base, f["next"]) > 0:
            f["next"] = base
        d = after(seq, f["next"])
        if d >= 0:
            outcome = 0
            if f["void"]:
                if d > 0:
                    f["exc"].append([f["next"], d, 6])
                f["exc"].append([seq, 1, 9])
            elif len(f["exc"]) >= 62:
                f["exc"].append([f["next"], d + 1, 5 if d or len(f["exc"]) > 62 and f["exc"][-1][2] != 7 else 7])
            else:
                if d > 0:
                    f["exc"].append([f["next"], d, 5])
                if kind == 1:
                    outcome = self.perform(link, plane, other, ident, union, size, send, payload)
                if outcome:
                    f["exc"].append([seq, 1, outcome])
            f["next"] = (seq + 1) % 2**32
            f["exc"] = merged(f["exc"])
        if f["epoch"] == epoch and after(base, f.get("base", base)) >= 0:
            f["base"] = base
        if known & POSTED:
            return
        first, left = f["base"], f["exc"]
        while True:  # at most four exceptions in each completion
            part, left = left[:4], left[4:]
            nxt = left[0][0] if left else f["next"]
            p = struct.pack("<IIII", epoch, first, nxt, len(part)) + b"".join(struct.pack("<IHBB", e[0], e[1], e[2], 0) for e in part)
            self.post(link, 2, self.packet(3, 2, plane, p, group=group, flags=other))
            if not left:
                break
            first = nxt

    def place(self, address, n):
        x, y, off = address >> 36 & 63, address >> 42 & 63, address & 2**36 - 1
        if address >> 48 or x > 9 or y > 11 or off + n > 1464 << 10:
            return None, 0
        return self.memory.setdefault((x, y), bytearray(L1)), off

    def rectangle(self, offset, x, y, columns, rows, n):
        """The addresses of the n bytes in each Tensix tile of a rectangle; none if a tile lacks them."""
        if offset + n > L1:
            return []
        return [c << 36 | r << 42 | offset for c, r in TENSIX if x <= c < x + columns and y <= r < y + rows]

    def add(self, address, n, replace=False):
        m, off = self.place(address, 4)
        if m is None or off % 4:
            return 2 if m is not None else 1
        old = 0 if replace else struct.unpack_from("<I", m, off)[0]
        struct.pack_into("<I", m, off, (old + n) % 2**32)
        return 0

    def perform(self, link, plane, other, ident, union, size, send, payload):
        a, value = struct.unpack_from("<QI", union)
        if send == 7:
            m, off = self.place(a, size)
            if m is None:
                return 1
            self.post(link, 1, self.packet(2, 1, plane, bytes(m[off:off + size]), ident=ident, flags=other))
            return 0
        if size != len(payload):
            return 3
        if send in (0, 3):
            m, off = self.place(a, size)
            if m is None:
                return 1
            m[off:off + size] = payload
            return self.add(*struct.unpack_from("<QI", union, 8)) if send == 3 else 0
        if send in (1, 2):
            return self.add(a, value, send == 1)
        if send == 5:
            tiles = self.rectangle(*struct.unpack_from("<IBBBB", union), size)
            for t in tiles:
                m, off = self.place(t, size)
                m[off:off + size] = payload
            return 0 if tiles else 1
        if send == 6:
            offset, n, *where = struct.unpack_from("<IIBBBB", union)
            if size:
                return 3
            if offset % 4:
                return 2
            tiles = self.rectangle(offset, *where, 4)
            for t in tiles:
                self.add(t, n)
            return 0 if tiles else 1
        if send == 4:
            chunks, at = union[38], 0
            sizes = list(struct.unpack_from("<HHH", union, 32))[:chunks - 1]
            for i, n in enumerate(sizes + [size - sum(sizes)]):
                m, off = self.place(struct.unpack_from("<Q", union, 8 * i)[0], n)
                if m is None:
                    return 1
                m[off:off + n], at = payload[at:at + n], at + n
            return 0
        return 3

    # The source's end.

    def ask(self, what, union, size, send, payload, kind=1, group=0):
        self.next_id += 1
        o = self.outs[group]
        if o["ending"] and not o["open"]:
            o.update(epoch=(o["epoch"] + 1) % 2**32, seq=0, base=0, known=False, ending=False, sure=set())
        if o["known"]:
            o["sure"].add(o["seq"])
        flow = (o["epoch"], o["seq"], o["base"])
        o["open"][o["seq"]] = what
        if send == 7:
            self.reads[self.next_id % 2**64] = o["seq"]
        self.post(self.links[0], 0, self.packet(kind, 0, 0, payload, union, size, send, self.next_id, flow, max(group, 0), 1 if group > 0 else 0, (KNOWN if o["known"] else 0) | (OTHER if group < 0 else 0)))
        o["seq"] += 1
        self.probe_at = time.monotonic() + 0.25

    def end(self, seq, how, out=None):
        out = out or self.out
        what = out["open"].pop(seq, None)
        if what:
            print(what, how, flush=True)
        while out["base"] < out["seq"] and out["base"] not in out["open"]:
            out["base"] += 1

    def completion(self, p, out):
        epoch, start, nxt, n = struct.unpack_from("<IIII", p)
        if epoch != out["epoch"] or nxt > out["seq"] or start > out["base"]:
            return
        for i in range(n):
            first, count, outcome, _ = struct.unpack_from("<IHBB", p, 16 + 8 * i)
            out["ending"] = out["ending"] or outcome in (6, 9)
            for seq in range(first, min(first + count, nxt)):
                late = outcome == 5 and seq in out["open"] and (out["ending"] or seq not in out["sure"])
                out["ending"] = out["ending"] or late
                self.end(seq, "unknown" if late else OUTCOMES[outcome], out)
        out["known"] = True
        for seq in [s for s in out["open"] if s < nxt and (out is not self.out or s not in self.reads.values())]:
            self.end(seq, "done", out)

    def command(self, line):
        f = line.split()
        if f[0] in ("l1write", "mmio"):
            data = bytes.fromhex(f[4]) if f[0] == "l1write" else struct.pack("<I", int(f[4], 0))
            self.post(self.links[int(f[1]) - 4], -1, (WRITE if f[0] == "l1write" else MMIO, int(f[2]), int(f[3], 0), data))
            return print(line, "sent", flush=True)
        if f[0] in ("nwrite", "ninc"):
            where, offset = [int(v) for v in f[1:5]], int(f[5], 0)
            if f[0] == "nwrite":
                return self.ask(line, struct.pack("<IBBBB", offset, *where), None, 5, bytes.fromhex(f[6]))
            return self.ask(line, struct.pack("<IIBBBB", offset, int(f[6]), *where), None, 6, b"")
        a = struct.pack("<Q", int(f[1]) << 36 | int(f[2]) << 42 | int(f[3], 0))
        if f[0] == "mwrite":
            self.ask(line, a, None, 0, bytes.fromhex(f[4]), group=1)
        elif f[0] == "minc":
            self.ask(line, a + struct.pack("<IB", int(f[4]), 0), None, 2, b"", group=1)
        elif f[0] == "swrite":
            self.ask(line, a, None, 0, bytes.fromhex(f[4]), group=TO_MEMBERS)
        elif f[0] == "owrite":
            self.ask(line, a, None, 0, bytes.fromhex(f[4]), group=-1)
        elif f[0] == "write":
            self.ask(line, a, None, 0, bytes.fromhex(f[4]))
        elif f[0] == "read":
            self.ask(line, a, int(f[4]), 7, b"")
        elif f[0] == "inc":
            self.ask(line, a + struct.pack("<IB", int(f[4]), 0), None, 2, b"")

    def run(self):
        said, stdin = False, True
        while stdin:
            ready, _, _ = select.select([l.sock for l in self.links] + [sys.stdin], [], [], 0.005)
            for l in self.links:
                while l.sock in ready:
                    try:
                        l.receive(l.sock.recv(65536))
                    except (BlockingIOError, ConnectionRefusedError):
                        break
            now = time.monotonic()
            for l in self.links:
                l.tick(now)
            self.flush()
            for group, out in self.outs.items():
                if out["open"] and now > self.probe_at:
                    self.ask(None, b"", None, 255, b"", kind=5, group=group)
            if not said and all(l.up and l.confirmed for l in self.links):
                said = True
                print("up", flush=True)
            if sys.stdin in ready:
                line = sys.stdin.readline()
                stdin = bool(line)
                if line.strip():
                    self.command(line.strip())
        for l in self.links:
            l.close()


if __name__ == "__main__":
    Chip(int(sys.argv[1]), sys.argv[2:6], float(sys.argv[6]) if len(sys.argv) > 6 else 0, int(sys.argv[7]) if len(sys.argv) > 7 else 0).run()
