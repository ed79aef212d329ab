-- Wireshark dissector for ttfabric: TT-link frames and the fabric packets in
-- them, from the payload of UDP datagrams. The formats are those of wire/doc.go,
-- the names of the fields those of wire/capture/doc.go. What is analysed of a
-- link, and how, is described in wire/capture/wireshark/README.md.
--
-- For Wireshark 4.0 and later, with Lua 5.2 to 5.4. 'ttfabric wireshark install'
-- puts it in place; or: tshark -X lua_script:ttfabric.lua -r FILE

-- The garbage of a frame is small beside what is remembered of it. So collecting often costs little
-- time, and keeps long captures small in memory.
collectgarbage("setpause", 130)

local MAGIC, VERSION = 0x5454, 3 -- "TT"
local MAGIC_BYTES = "TT"
local ENVELOPE, HEADER, TRAILER = 8, 16, 4
local HEAD = ENVELOPE + HEADER
local OVERHEAD = HEAD + TRAILER
local PAD_UNIT, MAX_FRAME_PAYLOAD = 32, 8160
local SLOT_STRIDE = 8192
local CONTROL_LEN, CONTROL_HEAD = 96, 44 -- control packets, and their slots
local CONTROL_VCS = { [2] = true, [7] = true, [12] = true, [15] = true }
local CONTROL_TYPES = { [3] = true, [4] = true, [6] = true }
local NUM_VCS, BASIC_VCS = 16, 3
local MAX_MESHES, MAX_CHIPS, MAX_CHANNELS = 1024, 256, 16
local DATA, UPDATE, HELLO, CLOSE, WRITE, MMIO = 1, 2, 3, 5, 6, 7
local EXTENSION, BASE_LEN, MESH_TAIL = 40, 44, 17
local MIN_PACKET, MAX_PAYLOAD, MAX_PACKET, MEMBERS_LEN = 120, 4096, 4296, 32
local HALF_LEN = MEMBERS_LEN / 2 -- half of the members, as in a drop report

-- Limits of what is remembered for the analysis.
local WINDOW = 4096           -- frames: the largest window of a link, so the largest gap
local REMEMBERED = 2 * WINDOW -- frames of one direction that may yet be acknowledged or sent again
local MAX_PIECES = 4096       -- pieces of incomplete packets of one direction (wire/capture: MaxPieces)
local MAX_DIRECTIONS = 16384  -- directions of sessions that are reassembled (wire/capture: MaxDirections)
local MAX_HOLES = 64          -- places of one direction where frames are missing
-- REORDER is how late, in seconds, a frame may come and still count as reordered,
-- where nobody asked for it again: the shortest retransmission timeout (ttlink/config.go, RTOMin).
local REORDER = 0.005
local INFO_FRAMES = 3 -- frames of one datagram that the Info column spells out

---------------------------------------------------------------- numbers

-- The operators of Lua 5.3 are the fastest; to Lua 5.2, which Wireshark before
-- 4.4 has, they are a syntax error, hence load.
local native = load([[return function(a, b) return a & b end, function(a, b) return a ~ b end, function(a, n) return a >> n end]])
local band, bxor, rshift
if native then
  band, bxor, rshift = native()
else
  local lib = bit32 or bit
  band, bxor, rshift = lib.band, lib.bxor, lib.rshift
end
local floor, byte, format = math.floor, string.byte, string.format

local POWER = {} -- powers of two, which "^" computes slowly
for i = 0, 32 do POWER[i] = 2 ^ i end
local function bits(v, from, n) return floor(v / POWER[from]) % POWER[n] end

-- distance is the signed distance from b to a of 32-bit numbers that wrap.
local function distance(a, b)
  local d = a - b
  if d >= 2147483648 then return d - 4294967296 end
  if d < -2147483648 then return d + 4294967296 end
  return d
end

-- u8, u16 and u32 read little-endian numbers of a string of bytes, at an offset counted from 0.
local function u8(b, at) return byte(b, at + 1) end
local function u16(b, at)
  local low, high = byte(b, at + 1, at + 2)
  return low + high * 256
end
local function u32(b, at)
  local b0, b1, b2, b3 = byte(b, at + 1, at + 4)
  return b0 + b1 * 256 + b2 * 65536 + b3 * 16777216
end

local NONE = {} -- an empty table

-- add32 adds n, which may be below 0, to a 32-bit number that wraps.
local function add32(a, n)
  a = a + n
  if a >= 4294967296 then return a - 4294967296 end
  if a < 0 then return a + 4294967296 end
  return a
end

-- CRC-32C (RFC 3720 §B.4), eight bytes a step: crc_table[k] is for a byte with k more behind it.
local crc_table = {}
do
  local function unsigned(v) return v % 4294967296 end
  for k = 0, 7 do crc_table[k] = {} end
  for i = 0, 255 do
    local c = i
    for _ = 1, 8 do
      if c % 2 == 1 then c = unsigned(bxor(rshift(c, 1), 0x82F63B78)) else c = rshift(c, 1) end
    end
    crc_table[0][i] = c
  end
  for k = 1, 7 do
    for i = 0, 255 do
      local c = crc_table[k - 1][i]
      crc_table[k][i] = unsigned(bxor(rshift(c, 8), crc_table[0][c % 256]))
    end
  end
end

local crc_loop = [[
local byte, t0, t1, t2, t3, t4, t5, t6, t7, bxor, rshift = ...
return function(s, n)
  local c, i = 0xFFFFFFFF, 1
  while i + 7 <= n do
    local a, b, d, e, f, g, h, j = byte(s, i, i + 7)
    %s
    i = i + 8
  end
  while i <= n do
    c = bxor(rshift(c, 8), t0[bxor(c %% 256, byte(s, i))])
    i = i + 1
  end
  return bxor(c, 0xFFFFFFFF) %% 4294967296
end]]
local crc_step = native
  and [[c = c ~ (a | b << 8 | d << 16 | e << 24)
    c = t7[c & 255] ~ t6[c >> 8 & 255] ~ t5[c >> 16 & 255] ~ t4[c >> 24 & 255] ~ t3[f] ~ t2[g] ~ t1[h] ~ t0[j] ]]
  or [[c = bxor(c, a + b * 256 + d * 65536 + e * 16777216) %% 4294967296
    local c0 = c %% 256; c = (c - c0) / 256
    local c1 = c %% 256; c = (c - c1) / 256
    local c2 = c %% 256
    c = bxor(t7[c0], t6[c1], t5[c2], t4[(c - c2) / 256], t3[f], t2[g], t1[h], t0[j]) ]]
crc_step = crc_step:gsub("%%%%", "%%")
local crc32c = assert(load(format(crc_loop, crc_step)))(byte, crc_table[0], crc_table[1], crc_table[2], crc_table[3],
  crc_table[4], crc_table[5], crc_table[6], crc_table[7], bxor, rshift)
assert(crc32c("123456789", 9) == 0xE3069283)

---------------------------------------------------------------- names

local KINDS = { [1] = "Data", [2] = "Update", [3] = "Hello", [5] = "Close", [6] = "L1 write", [7] = "MMIO write" }
local NUMBERED = { [1] = true, [6] = true, [7] = true } -- kinds with sequence numbers
local VCS = { [0] = "data", "reply", "control", "data-dateline", "reply-dateline", "data-up", "reply-up", "control-up",
  "data-up-dateline", "reply-up-dateline", "data-detour", "reply-detour", "control-detour", "data-up-detour",
  "reply-up-detour", "control-up-detour" }
local TYPES = { [1] = "Request", [2] = "Reply", [3] = "Completion", [4] = "Drop report", [5] = "Probe", [6] = "Link state" }
local SEND_TYPES = { [0] = "Write", [1] = "Inline write", [2] = "Atomic increment", [3] = "Write and increment",
  [4] = "Scatter write", [5] = "NoC multicast", [6] = "NoC multicast increment", [7] = "Read", [255] = "None" }
local OUTCOMES = { [0] = "done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted",
  "too many exceptions", "out of memory", "flow unknown", "harvested tile",
  "untranslated coordinates", "no host memory", "host gone" }
local REASONS = { [1] = "next hop dead", [2] = "TTL used up", [3] = "no route", [4] = "malformed", [5] = "timeout",
  [6] = "unreachable", [7] = "tables replaced", [8] = "drained", [9] = "flushed" }
local TRUNKS = { [0] = "none (unicast)", "east and west", "north and south" }
local DIRECTIONS = { [0] = "E", "W", "N", "S", "Z" }
local ROUTE_LETTERS = { [1] = "E", [2] = "W", [4] = "N", [8] = "S", [16] = "Z" }
local ROUTE_SIZES = { [19] = true, [35] = true, [51] = true, [67] = true }
local CRC_STATUS = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }

---------------------------------------------------------------- fields

local ttlink = Proto("ttlink", "TT-link")
local ttfabric = Proto("ttfabric", "TT-Fabric packet")

ttlink.prefs.crc = Pref.bool("Verify CRC-32C", true, "Compute each frame's checksum. Frames whose checksum is bad are not analysed.")
ttlink.prefs.analysis = Pref.bool("Analyse links", true, "Find retransmissions, gaps, acknowledgements and credits, and reassemble packets that came in several frames.")

local L, F, X = {}, {}, {} -- fields of TT-link, of the fabric packet, and expert information

local function num(into, key, kind, abbr, name, vals, desc)
  into[key] = ProtoField[kind](abbr, name, base.DEC, vals, nil, desc)
end
local function hex(into, key, kind, abbr, name, desc)
  into[key] = ProtoField[kind](abbr, name, base.HEX, nil, nil, desc)
end
local function flag(into, key, abbr, name, width, mask, desc)
  if mask then into[key] = ProtoField.bool(abbr, name, width, nil, mask, desc)
  else into[key] = ProtoField.bool(abbr, name, nil, nil, nil, desc) end
end

hex(L, "magic", "uint16", "ttlink.magic", "Magic")
num(L, "version", "uint8", "ttlink.version", "Version")
num(L, "channel", "uint8", "ttlink.channel", "Channel", nil, "Port at the receiver that the frame is for")
num(L, "padded", "uint16", "ttlink.padded", "Padded payload length", nil, "Bytes of payload with padding; 0: not padded")
hex(L, "session", "uint32", "ttlink.session", "Session")
num(L, "kind", "uint8", "ttlink.kind", "Kind", KINDS)
num(L, "vc", "uint8", "ttlink.vc", "Virtual channel", VCS, "Of an L1 write or MMIO write: the transaction command queue")
hex(L, "flags", "uint8", "ttlink.flags", "Flags")
flag(L, "fend", "ttlink.flags.end", "End of packet", 8, 1)
flag(L, "fnack", "ttlink.flags.nack", "NACK", 8, 2)
flag(L, "fsolicit", "ttlink.flags.solicit", "Solicit", 8, 4)
num(L, "length", "uint16", "ttlink.length", "Payload length")
hex(L, "dest", "uint32", "ttlink.dest", "Destination address", "At the receiver: slot × 8192 + offset in the packet; for control packets, slot × 96; for L1 and MMIO writes, an address of the ethernet tile")
num(L, "seq", "uint32", "ttlink.seq", "Sequence number", nil, "Of this data frame")
num(L, "ack", "uint32", "ttlink.ack", "Acknowledgement", nil, "Next data frame that the sender expects")
L.payload = ProtoField.bytes("ttlink.payload", "Payload")
L.padding = ProtoField.bytes("ttlink.padding", "Padding")
hex(L, "crc", "uint32", "ttlink.crc", "CRC-32C")
flag(L, "crcgood", "ttlink.crc.good", "Checksum good")
num(L, "crcstatus", "uint8", "ttlink.crc.status", "Checksum status", CRC_STATUS)
L.fault = ProtoField.string("ttlink.fault", "Fault", base.ASCII, "Why receivers refuse the frame")
num(L, "slot", "uint32", "ttlink.slot", "Slot")
num(L, "offset", "uint16", "ttlink.offset", "Offset in packet")
num(L, "queue", "uint8", "ttlink.queue", "Queue", nil, "Transaction command queue of an L1 write or MMIO write")
hex(L, "value", "uint32", "ttlink.value", "Value", "That an MMIO write stores")
num(L, "grant", "uint32", "ttlink.grant", "Grant", nil, "Packets that the peer may have sent on the virtual channel since the session began; one field for each, from 0")
flag(L, "hup", "ttlink.hello.up", "Up", 8, 1)
flag(L, "hwant", "ttlink.hello.want", "Answer wanted", 8, 2)
for _, side in ipairs({ "from", "expected" }) do
  local name = side == "from" and "From" or "Expected"
  num(L, side .. "_mesh", "uint16", "ttlink.hello." .. side .. "_mesh", name .. " mesh")
  num(L, side .. "_chip", "uint16", "ttlink.hello." .. side .. "_chip", name .. " chip")
  num(L, side .. "_channel", "uint8", "ttlink.hello." .. side .. "_channel", name .. " channel")
end
num(L, "echo_training", "uint32", "ttlink.hello.echo_training", "Echo training")
hex(L, "incarnation", "uint64", "ttlink.hello.incarnation", "Incarnation")
hex(L, "echo_incarnation", "uint64", "ttlink.hello.echo_incarnation", "Echo incarnation")
hex(L, "stamp", "uint64", "ttlink.hello.stamp", "Stamp")
hex(L, "echo_stamp", "uint64", "ttlink.hello.echo_stamp", "Echo stamp")
num(L, "training", "uint32", "ttlink.hello.training", "Training")
num(L, "max_payload", "uint16", "ttlink.hello.max_payload", "Largest frame payload")
num(L, "via", "uint8", "ttlink.hello.via", "Via", nil, "0: by the cable's own port; k+1: by the cable of the sender's channel k")
hex(L, "fabric", "uint32", "ttlink.hello.fabric", "Fabric")
num(L, "slots", "uint16", "ttlink.hello.slots", "Slots", nil, "Packets that the sender's receiver channels hold; one field for each virtual channel, from 0")

-- What is worked out, not read.
num(L, "stream", "uint32", "ttlink.stream", "Stream index", nil, "Number of the session at its place of capture, or of the cable outside a session")
num(L, "frame_len", "uint16", "ttlink.frame_len", "Frame length")
num(L, "in_flight", "uint32", "ttlink.analysis.frames_in_flight", "Frames in flight")
num(L, "lost", "uint32", "ttlink.analysis.lost_frames", "Frames missing before this one")
L.rel_seq = ProtoField.int32("ttlink.analysis.relative_seq", "Sequence number from the session's start, or from the first captured frame")
L.rel_ack = ProtoField.int32("ttlink.analysis.relative_ack", "Acknowledgement, from the same start as the peer's relative sequence numbers")
L.ack_rtt = ProtoField.relative_time("ttlink.analysis.ack_rtt", "Time from frame to acknowledgement")
L.acks = ProtoField.framenum("ttlink.analysis.acks_frame", "This acknowledges the frame in", base.NONE, frametype.ACK)
L.acked_in = ProtoField.framenum("ttlink.analysis.acked_in", "Acknowledged in", base.NONE, frametype.ACK)
L.first = ProtoField.framenum("ttlink.analysis.first_sent_in", "First sent in", base.NONE, frametype.RETRANS_PREV)
L.retrans_of = ProtoField.framenum("ttlink.analysis.retransmission_of", "Retransmission of the frame in", base.NONE, frametype.RETRANS_PREV)
L.retrans_in = ProtoField.framenum("ttlink.analysis.retransmitted_in", "Retransmitted in", base.NONE, frametype.RETRANS_NEXT)
L.dup_of = ProtoField.framenum("ttlink.analysis.duplicate_of", "Duplicate of", base.NONE, frametype.DUP_ACK)
L.reassembled = ProtoField.framenum("ttlink.reassembled_in", "Fabric packet complete in", base.NONE, frametype.NONE)
L.piece = ProtoField.framenum("ttlink.piece", "Piece in", base.NONE, frametype.NONE)

F.fault = ProtoField.string("ttfabric.fault", "Fault", base.ASCII, "Why no chip takes the packet")
flag(F, "partial", "ttfabric.partial", "Header alone")
num(F, "pieces", "uint16", "ttfabric.pieces", "Frames that it came in")
num(F, "type", "uint8", "ttfabric.type", "Type", TYPES)
num(F, "vc", "uint8", "ttfabric.vc", "Virtual channel", VCS)
num(F, "plane", "uint8", "ttfabric.plane", "Routing plane")
num(F, "ttl", "uint16", "ttfabric.ttl", "Time to live", nil, "Routers that may still forward the packet")
num(F, "length", "uint16", "ttfabric.length", "Packet length")
num(F, "route_size", "uint8", "ttfabric.route_size", "Length of route_buffer", nil, "Of control packets: number of actions")
F.src = ProtoField.string("ttfabric.src", "Source", base.ASCII)
num(F, "src_mesh", "uint16", "ttfabric.src_mesh", "Source mesh")
num(F, "src_chip", "uint16", "ttfabric.src_chip", "Source chip")
F.dst = ProtoField.string("ttfabric.dst", "Destination", base.ASCII)
num(F, "dst_mesh", "uint16", "ttfabric.dst_mesh", "Destination mesh")
num(F, "dst_chip", "uint16", "ttfabric.dst_chip", "Destination chip")
num(F, "flow_epoch", "uint32", "ttfabric.flow_epoch", "Flow epoch")
num(F, "flow_seq", "uint32", "ttfabric.flow_seq", "Flow sequence number")
num(F, "flow_base", "uint32", "ttfabric.flow_base", "Flow base")
hex(F, "id", "uint64", "ttfabric.id", "Packet id")
hex(F, "packet_id", "uint64", "ttfabric.packet_id", "Request", "Packet id of the request that the packet is, answers or reports; to follow one through all hops and home")
hex(F, "epoch", "uint32", "ttfabric.epoch", "Table epoch")
flag(F, "up", "ttfabric.up", "Crossing towards the root ahead", 8, 1)
flag(F, "trace", "ttfabric.trace", "Trace", 8, 2)
flag(F, "detour", "ttfabric.detour", "Detour", 8, 4)
flag(F, "known", "ttfabric.known", "Known flow", 8, 8)
flag(F, "other", "ttfabric.other", "Other way round", 8, 16)
flag(F, "posted", "ttfabric.posted", "Posted", 8, 64)
num(F, "group", "uint16", "ttfabric.group", "Multicast group")
num(F, "trunk", "uint8", "ttfabric.trunk", "Multicast trunk", TRUNKS)
hex(F, "life", "uint32", "ttfabric.life", "Life", "Life of the destination that the packet is for; 0: any life")
num(F, "hops", "uint8", "ttfabric.mcast.hops", "Hops", nil, "East, west, north, south")
num(F, "skip", "uint8", "ttfabric.mcast.skip", "Skip", nil, "East, west, north, south")
F.members = ProtoField.string("ttfabric.mcast.members", "Members", base.ASCII, "Chips of the destination's mesh ahead of the packet")
num(F, "hop", "uint16", "ttfabric.hop", "Hop", nil, "Index of the next router's route byte")
F.route = ProtoField.string("ttfabric.route", "Route", base.ASCII, "E, W, N, S or Z for each chip; the last one delivers")
num(F, "send_type", "uint8", "ttfabric.send_type", "NoC command", SEND_TYPES)
num(F, "size", "uint16", "ttfabric.size", "Size")
hex(F, "addr", "uint64", "ttfabric.addr", "NoC address")
num(F, "addr_x", "uint8", "ttfabric.addr.x", "NoC x")
num(F, "addr_y", "uint8", "ttfabric.addr.y", "NoC y")
hex(F, "addr_offset", "uint64", "ttfabric.addr.offset", "Offset in tile")
num(F, "rect_x", "uint8", "ttfabric.rect.x", "First NoC x")
num(F, "rect_y", "uint8", "ttfabric.rect.y", "First NoC y")
num(F, "rect_columns", "uint8", "ttfabric.rect.columns", "Columns")
num(F, "rect_rows", "uint8", "ttfabric.rect.rows", "Rows")
hex(F, "sem", "uint64", "ttfabric.sem", "Counter's address")
num(F, "value", "uint32", "ttfabric.value", "Value")
flag(F, "flush", "ttfabric.flush", "Flush")
num(F, "chunks", "uint8", "ttfabric.chunks", "Chunks")
hex(F, "scatter_addr", "uint64", "ttfabric.scatter.addr", "Chunk's address")
num(F, "scatter_size", "uint16", "ttfabric.scatter.size", "Chunk's size")
num(F, "data_len", "uint16", "ttfabric.data_len", "Payload length")
F.data = ProtoField.bytes("ttfabric.data", "Payload")
F.payload_fault = ProtoField.string("ttfabric.payload_fault", "Payload fault", base.ASCII)
num(F, "c_epoch", "uint32", "ttfabric.completion.flow_epoch", "Flow epoch")
num(F, "c_from", "uint32", "ttfabric.completion.from", "First request", nil, "If an earlier request is open, the source ignores the completion")
num(F, "c_next", "uint32", "ttfabric.completion.next", "Next", nil, "Every request before it is settled")
num(F, "c_count", "uint32", "ttfabric.completion.count", "Exceptions")
num(F, "c_first", "uint32", "ttfabric.completion.first", "From request")
num(F, "c_number", "uint16", "ttfabric.completion.number", "Number of requests")
num(F, "c_outcome", "uint8", "ttfabric.completion.outcome", "Outcome", OUTCOMES)
num(F, "d_mesh", "uint16", "ttfabric.drop.dst_mesh", "Other end of the flow: mesh")
num(F, "d_chip", "uint16", "ttfabric.drop.dst_chip", "Other end of the flow: chip")
num(F, "d_epoch", "uint32", "ttfabric.drop.flow_epoch", "Flow epoch")
num(F, "d_seq", "uint32", "ttfabric.drop.flow_seq", "Flow sequence number")
num(F, "d_plane", "uint8", "ttfabric.drop.plane", "Routing plane")
flag(F, "d_other", "ttfabric.drop.other", "Other way round", 8, 64)
flag(F, "d_open", "ttfabric.drop.open", "May have arrived", 8, 16)
num(F, "d_reason", "uint8", "ttfabric.drop.reason", "Reason", REASONS)
num(F, "d_channel", "uint8", "ttfabric.drop.channel", "Channel of the reporting chip")
num(F, "d_type", "uint8", "ttfabric.drop.type", "Type of the dropped packet", TYPES)
hex(F, "d_id", "uint64", "ttfabric.drop.id", "Id of the request")
num(F, "d_group", "uint16", "ttfabric.drop.group", "Multicast group")
num(F, "d_direction", "uint8", "ttfabric.drop.direction", "Direction", DIRECTIONS)
num(F, "d_trunk", "uint8", "ttfabric.drop.trunk", "Multicast trunk", TRUNKS)
num(F, "d_hops", "uint8", "ttfabric.drop.hops", "Hops", nil, "East, west, north, south")
num(F, "d_skip", "uint8", "ttfabric.drop.skip", "Skip", nil, "East, west, north, south")
F.d_members = ProtoField.string("ttfabric.drop.members", "Members", base.ASCII, "Chips that the copy would have reached")
num(F, "s_mesh", "uint16", "ttfabric.linkstate.mesh", "Mesh")
num(F, "s_chip", "uint16", "ttfabric.linkstate.chip", "Chip")
num(F, "s_version", "uint32", "ttfabric.linkstate.version", "Version")
hex(F, "s_out", "uint16", "ttfabric.linkstate.out", "Ports out of service")
hex(F, "s_silent", "uint16", "ttfabric.linkstate.silent", "Silent ports")

ttlink.fields, ttfabric.fields = L, F

local e, s = expert.group, expert.severity
X.malformed = ProtoExpert.new("ttlink.malformed", "Frame that receivers refuse", e.MALFORMED, s.ERROR)
X.cut = ProtoExpert.new("ttlink.cut", "Frame cut off in the capture", e.UNDECODED, s.NOTE)
X.crc_bad = ProtoExpert.new("ttlink.crc.bad", "Bad checksum", e.CHECKSUM, s.ERROR)
X.retransmission = ProtoExpert.new("ttlink.analysis.retransmission", "Retransmission (go-back-N)", e.SEQUENCE, s.NOTE)
X.duplicate = ProtoExpert.new("ttlink.analysis.duplicate", "Duplicate", e.SEQUENCE, s.NOTE)
X.out_of_order = ProtoExpert.new("ttlink.analysis.out_of_order", "Out of order", e.SEQUENCE, s.WARN)
X.lost = ProtoExpert.new("ttlink.analysis.lost_segment", "Frames before this one were not captured", e.SEQUENCE, s.WARN)
X.ack_lost = ProtoExpert.new("ttlink.analysis.ack_lost_segment", "Acknowledges a frame that was not captured", e.SEQUENCE, s.WARN)
X.nack = ProtoExpert.new("ttlink.analysis.nack", "NACK: a frame is missing, go back", e.SEQUENCE, s.WARN)
X.window_full = ProtoExpert.new("ttlink.analysis.window_full", "Window full: the packet takes the last credit of its virtual channel", e.SEQUENCE, s.NOTE)
X.new_session = ProtoExpert.new("ttlink.analysis.new_session", "New session: an end restarted", e.SEQUENCE, s.CHAT)
X.close = ProtoExpert.new("ttlink.analysis.close", "The sender goes away in order", e.SEQUENCE, s.CHAT)
X.solicit = ProtoExpert.new("ttlink.analysis.solicit", "The sender waits for credit", e.SEQUENCE, s.CHAT)
ttlink.experts = { X.malformed, X.cut, X.crc_bad, X.retransmission, X.duplicate, X.out_of_order, X.lost, X.ack_lost, X.nack,
  X.window_full, X.new_session, X.close, X.solicit }
X.packet = ProtoExpert.new("ttfabric.malformed", "Malformed fabric packet", e.MALFORMED, s.ERROR)
X.drop = ProtoExpert.new("ttfabric.dropped", "A router dropped a packet", e.RESPONSE_CODE, s.WARN)
X.exception = ProtoExpert.new("ttfabric.exception", "Requests that did not end as done", e.RESPONSE_CODE, s.WARN)
ttfabric.experts = { X.packet, X.drop, X.exception }

local function optional(name)
  local ok, field = pcall(Field.new, name)
  return ok and field or function() end
end
local interface_id, interface_name = optional("frame.interface_id"), optional("frame.interface_name")
local packet_direction = optional("frame.packet_flags_direction")
local comment = optional("frame.comment")
local sll_interface = optional("sll.ifindex")

local function text(node) return format("M%dD%d", node.mesh, node.chip) end

-- A shadow stands for a tree that nobody looks at: no window shows it, and no filter, column or
-- statistic names a field of it. A shadow takes items and forgets them. Only expert information goes
-- into the real tree, below the item of a frame.
local shadow = {}
shadow.__index = shadow
local function itself(t) return t end
local function shaded(tree) return type(tree) == "table" end
shadow.add, shadow.add_le, shadow.append_text, shadow.set_generated = itself, itself, itself, itself
function shadow:add_proto_expert_info(x, more)
  self.item = self.item or self.root:add(ttlink, self.tvb(self.o, self.len))
  if more then self.item:add_proto_expert_info(x, more) else self.item:add_proto_expert_info(x) end
  return self
end

local link_dissector, fabric_dissector

-- looked_at reports whether somebody looks at the trees of this datagram.
local function looked_at(root)
  link_dissector = link_dissector or Dissector.get("ttlink")
  fabric_dissector = fabric_dissector or Dissector.get("ttfabric")
  return root.visible or root:referenced(link_dissector) or root:referenced(fabric_dissector)
end

---------------------------------------------------------------- the frame

-- read_head reads envelope and header at offset o, of which all is there. Reading all bytes at once
-- takes a fifth of the time of reading each field through a range.
local function read_head(tvb, o)
  local _, _, version, pad, s0, s1, s2, s3, kind, flags, l0, l1, d0, d1, d2, d3, q0, q1, q2, q3, a0, a1, a2, a3 = byte(tvb:raw(o, HEAD), 1, HEAD)
  local vc, dest = floor(kind / 16), d0 + d1 * 256 + d2 * 65536 + d3 * 16777216
  local stride = CONTROL_VCS[vc] and CONTROL_LEN or SLOT_STRIDE
  return { o = o, version = floor(version / 16), channel = version % 16,
    padded = pad * PAD_UNIT, session = s0 + s1 * 256 + s2 * 65536 + s3 * 16777216, kind = kind % 16, vc = vc,
    flags = flags, last = flags % 2 == 1, nack = floor(flags / 2) % 2 == 1, solicit = floor(flags / 4) % 2 == 1,
    length = l0 + l1 * 256, dest = dest, slot = floor(dest / stride), offset = dest % stride,
    seq = q0 + q1 * 256 + q2 * 65536 + q3 * 16777216, ack = a0 + a1 * 256 + a2 * 65536 + a3 * 16777216 }
end

-- read_frame reads the frame at offset o of a datagram of n bytes: its fields as
-- far as they are there, and what is wrong, in the order of wire.DecodeFrame. It
-- never reads beyond n. len is how many bytes are spoken for.
local function read_frame(tvb, o, n)
  local left = n - o
  local magic = left >= 2 and tvb:raw(o, 2) == MAGIC_BYTES
  local f
  if left >= HEAD and magic then f = read_head(tvb, o) end
  if left >= OVERHEAD and not magic then return { o = o, len = left, fault = "magic" } end
  if left < OVERHEAD then
    f = f or { o = o }
    f.len, f.fault, f.here = left, "short", 0
    if f.version then f.here = math.min(left - HEAD, f.length) end
    return f
  end
  f.whole, f.head = false, true
  f.crc = f.ack + f.flags / 256 -- of a frame that the capture cut off: copies with equal headers count as equal
  local body = f.padded > 0 and f.padded or f.length
  if OVERHEAD + body > left then
    f.len, f.fault, f.here = left, "short", math.min(left - HEAD, f.length)
    return f
  end
  f.whole, f.body, f.len = true, body, OVERHEAD + body
  local c0, c1, c2, c3 = byte(tvb:raw(o + HEAD + body, 4), 1, 4)
  f.crc = c0 + c1 * 256 + c2 * 65536 + c3 * 16777216
  return f
end

local function check_frame(f)
  if f.version ~= VERSION then f.fault = "version"
  elseif f.crc_ok == false then f.fault = "checksum"
  elseif not KINDS[f.kind] then f.fault = "kind"
  elseif f.flags > 7 then f.fault = "reserved"
  elseif f.length > f.body or f.length > MAX_FRAME_PAYLOAD then f.fault = "length" end
end

-- read_hello checks a hello as wire.DecodeHello does, and returns what the analysis needs of it.
local function read_hello(tvb, o, n)
  if n ~= 80 and n ~= 158 then return nil end
  local h = { from = { mesh = tvb(o + 4, 2):le_uint(), chip = tvb(o + 6, 2):le_uint(), channel = tvb(o + 2, 1):uint() },
    expected = { mesh = tvb(o + 8, 2):le_uint(), chip = tvb(o + 10, 2):le_uint(), channel = tvb(o + 3, 1):uint() },
    low = tvb(o + 16, 4):le_uint(), max_payload = tvb(o + 52, 2):le_uint(), via = tvb(o + 60, 1):uint(), slots = {}, grants = {} }
  if tvb(o, 1):uint() ~= VERSION or tvb(o + 1, 1):uint() > 3 or tvb(o + 61, 3):uint() ~= 0 then return nil end
  if h.low == 0 and tvb(o + 20, 4):le_uint() == 0 then return nil end
  if h.via > MAX_CHANNELS or h.max_payload == 0 or h.max_payload % PAD_UNIT ~= 0 or h.max_payload > MAX_FRAME_PAYLOAD then return nil end
  for _, p in ipairs({ h.from, h.expected }) do
    if p.mesh >= MAX_MESHES or p.chip >= MAX_CHIPS or p.channel >= MAX_CHANNELS then return nil end
  end
  for v = 0, BASIC_VCS - 1 do
    h.slots[v], h.grants[v] = { o + 54 + 2 * v, 2 }, { o + 68 + 4 * v, 4 }
  end
  for v = BASIC_VCS, n == 158 and NUM_VCS - 1 or 0 do
    h.slots[v], h.grants[v] = { o + 80 + 6 * (v - BASIC_VCS), 2 }, { o + 82 + 6 * (v - BASIC_VCS), 4 }
  end
  return h
end

-- read_payload reads what the payload of a good frame says, other than a piece of a packet.
local function read_payload(tvb, f)
  local o = f.o + HEAD
  if f.kind == HELLO then
    f.hello = read_hello(tvb, o, f.length)
    if not f.hello then f.fault = "hello" end
    f.grants = f.hello and f.hello.grants
  elseif f.kind == UPDATE then
    if f.length ~= 4 * BASIC_VCS and f.length ~= 4 * NUM_VCS then f.fault = "update" return end
    f.granted = f.length / 4 -- number of grants, from the start of the payload on
  end
end

---------------------------------------------------------------- what is remembered

local results    -- by number of the captured packet and place in it: a list of what was found out of each frame
local streams    -- by place of capture and session (or cable)
local sessions   -- the streams of sessions, by place of capture and then by session
local stream_count
local assemblies -- by place of capture, addresses, session and channel
local assembly_count
local places -- by number of the interface: where its frames were seen

local function forget_all()
  places, sessions = {}, {}
  results, streams, stream_count, assemblies, assembly_count = {}, {}, 0, {}, 0
end
forget_all()
ttlink.init = forget_all

-- place_of_capture names where a frame was seen, so that a frame that was captured
-- at both ends of its cable is not taken for a retransmission. Ports of one
-- chip ("M0D3/eth8", as 'ttfabric capture' names them) are one place, since frames of a
-- link may go by another port's cable; the interface tells pieces apart, as wire/capture does.
local function place_of_capture()
  local id = interface_id()
  local number = id and id.value
  local known = number and places[number]
  if known then return known.chip, known.interface end
  local name, sll = interface_name(), sll_interface()
  local interface = format("%s/%s/%s", tostring(id), tostring(name), tostring(sll))
  local chip = name and tostring(name):match("^(.*M%d+D%d+)[/:]%a*%d+$") or interface
  if number and not sll then places[number] = { chip = chip, interface = interface } end
  return chip, interface
end

-- ports_of names both ends of a frame's cable: where one of them goes on with another session, the other restarted.
local function ports_of(place, f, from, to)
  return { format("%s sender %s %d", place, from, f.channel), format("%s receiver %s %d", place, to, f.channel) }
end

-- stream_of finds the session of a frame at its place of capture; one without a session is of its cable.
local function stream_of(place, f, from, to, create)
  local key
  if f.session ~= 0 then
    local at = sessions[place]
    local known = at and at[f.session]
    if known then return known end
    key = format("%s %d", place, f.session)
  else
    key = place .. " " .. (from < to and from .. "-" .. to or to .. "-" .. from)
  end
  local st = streams[key]
  if not st and create then
    st = { index = stream_count, dirs = {}, place = place }
    stream_count = stream_count + 1
    streams[key] = st
    if f.session ~= 0 then
      sessions[place] = sessions[place] or {}
      sessions[place][f.session] = st
      for _, port in ipairs(ports_of(place, f, from, to)) do st.follows = st.follows or streams[port] ~= nil end
    end
  end
  return st
end

-- direction_of finds the end of a session that sent a frame. Frames of a link may
-- go by another cable of the same chips, with other ports: then the channel
-- in the envelope tells the ends apart, or the sequence number where both have the same.
local function direction_of(st, f, from, to)
  local last = st.last -- frames of one direction often follow each other
  if last and last.channel == f.channel and last.from == from and last.to == to then return last.dir end
  local way, back = from .. ">" .. to, to .. ">" .. from
  local other
  for _, d in ipairs(st.dirs) do
    if d.channel == f.channel then
      if d.ways[way] then
        st.last = { channel = f.channel, from = from, to = to, dir = d }
        return d
      end
      if not d.ways[back] and (not NUMBERED[f.kind] or not d.next or math.abs(distance(f.seq, d.next)) <= REMEMBERED) then other = d end
    end
  end
  if not other then
    other = { channel = f.channel, ways = {}, sent = {}, holes = {}, vcs = {}, cause = 0 }
    st.dirs[#st.dirs + 1] = other
    for _, port in ipairs(ports_of(st.place, f, from, to)) do streams[port] = st end
  end
  other.ways[way] = true
  return other
end

local function peer_of(st, d)
  for _, p in ipairs(st.dirs) do
    if p ~= d then return p end
  end
end

---------------------------------------------------------------- analysis

-- Times are whole nanoseconds since the first captured packet.
local function seconds(from, to) return (to - from) / 1e9 end

-- asked reports whether frames of d have reason to be sent again since the time and cause of mark:
-- a NACK or a training since, the retransmission before it, or time enough for a timeout.
local function asked(d, f, mark, now)
  return d.cause > mark.cause or d.again == f.seq or seconds(mark.time, now) >= REORDER
end

local function forget(d, upto)
  local from = d.forgotten or add32(upto, -1)
  while distance(upto, from) > 0 do
    d.sent[from] = nil
    from = add32(from, 1)
  end
  d.forgotten = from
end

-- advance makes f the newest frame of d; some before it may be missing.
local function advance(d, f, r, now)
  local missing = d.next and distance(f.seq, d.next) or 0
  if missing < 0 or missing > REMEMBERED then -- nothing that a link does: begin anew
    d.sent, d.holes, d.vcs, d.forgotten, d.acked, missing = {}, {}, {}, nil, nil, 0
  end
  if missing > 0 then
    r.lost = missing
    local h = d.holes
    h[#h + 1] = { from = d.next, to = f.seq, time = now, cause = d.cause }
    if #h > MAX_HOLES then table.remove(h, 1) end
  end
  if not d.next then d.from_start, d.forgotten = d.initial == f.seq, f.seq end
  d.next = add32(f.seq, 1)
  if not d.forgotten then d.forgotten = f.seq end
  if distance(d.next, d.forgotten) > REMEMBERED then forget(d, add32(d.next, -REMEMBERED)) end
end

local function hole_of(d, seq)
  for i = #d.holes, 1, -1 do
    local h = d.holes[i]
    if distance(seq, h.from) >= 0 and distance(seq, h.to) < 0 then return h end
  end
end

-- count_credit follows the packets sent on a virtual channel, by their slots, and
-- tells whether this one took the last credit. How many were sent before the
-- capture began is not known but for a lower bound, from a grant being at most
-- the packets sent and the slots: so the window is never called full wrongly.
local function count_credit(d, peer, f)
  local w = d.vcs[f.vc]
  if not w then
    w = { count = 0, before = d.from_start and 0 or nil, slots = peer and peer.slots and peer.slots[f.vc] }
    d.vcs[f.vc] = w
  end
  if not w.slots and peer and peer.slots then w.slots = peer.slots[f.vc] end
  local step = 1
  if w.slot then
    step = f.slot - w.slot
    if step <= 0 then
      if not w.slots and f.slot == 0 and f.seq == w.following then w.slots = w.slot + 1 end
      step = w.slots and w.slots > 0 and step % w.slots or 1
      if step == 0 then step = w.slots end
    end
  end
  w.slot, w.following, w.count = f.slot, nil, w.count + step
  if not (w.grant and w.before) then return false end
  if w.count + w.before > w.grant then w.before = nil return false end
  return w.count + w.before == w.grant
end

local function note_grant(d, vc, grant)
  local w = d.vcs[vc]
  if not w then return end
  if not w.grant then w.grant = grant
  elseif distance(grant, w.grant % 4294967296) > 0 then w.grant = w.grant + distance(grant, w.grant % 4294967296) end
  if w.slots and w.slots > 0 and not d.from_start then
    w.before = math.max(w.before or w.grant - w.count - w.slots, w.grant - w.count - w.slots)
  end
end

local function analyse_data(d, peer, f, r, number, now, outbound)
  local known = d.sent[f.seq]
  local behind = d.next and distance(f.seq, d.next) < 0 and distance(f.seq, d.next) >= -REMEMBERED
  if not behind then
    advance(d, f, r, now)
    r.entry = { first = number, number = number, time = now, cause = d.cause, crc = f.crc, copies = 1 }
    d.sent[f.seq] = r.entry
    r.in_flight = d.acked and distance(d.next, d.acked) or nil
    if f.kind ~= DATA then return end
    if f.offset == 0 and peer then r.window_full = count_credit(d, peer, f) end
    local w = d.vcs[f.vc]
    if w and f.last then w.following = d.next end
    return
  end
  if known then
    r.entry, r.first, r.copy = known, known.first, known.number
    r.retransmission = outbound or known.crc ~= f.crc or asked(d, f, known, now)
    r.duplicate = not r.retransmission
    known.copies = known.copies + 1
    if r.retransmission then known.again_in, r.replaced = known.again_in or number, true end
  else
    local h = hole_of(d, f.seq)
    r.entry = { first = number, number = number, time = now, cause = d.cause, crc = f.crc, copies = 2 } -- no round trip is measured of it
    d.sent[f.seq] = r.entry
    r.retransmission = outbound or not h or asked(d, f, h, now)
    r.out_of_order = not r.retransmission
  end
  if r.retransmission then
    d.again = add32(f.seq, 1)
    r.entry.number, r.entry.time, r.entry.cause = number, now, d.cause
  end
end

-- analyse_ack notes what a frame acknowledges of the other end's.
local function analyse_ack(peer, f, r, number, now)
  if peer.next and distance(f.ack, peer.next) > 0 then
    r.ack_lost = distance(f.ack, peer.next) <= REMEMBERED
    return
  end
  if not peer.acked or distance(f.ack, peer.acked) > 0 then
    local from = peer.acked or add32(f.ack, -1)
    if distance(f.ack, from) > REMEMBERED then from = add32(f.ack, -REMEMBERED) end
    peer.acked = f.ack
    local newest = peer.sent[add32(f.ack, -1)]
    if newest and not newest.acked_in then
      r.acks = newest.number
      if newest.copies == 1 then r.rtt = now - newest.time end -- RFC 6298 §3: Karn's algorithm
    end
    while distance(f.ack, from) > 0 do
      local entry = peer.sent[from]
      if entry and not entry.acked_in then entry.acked_in = number end
      from = add32(from, 1)
    end
  end
end

-- analyse looks at one good frame, the first time that it is seen.
local function analyse(tvb, f, r, ctx)
  local st = stream_of(ctx.place, f, ctx.from, ctx.to, true)
  r.stream = st.index
  r.new_session, st.follows = st.follows, nil
  if f.session == 0 then return end
  local d = direction_of(st, f, ctx.from, ctx.to)
  local peer = peer_of(st, d)
  if f.hello then
    d.initial, d.slots = f.hello.low, {}
    for v, at in pairs(f.hello.slots) do d.slots[v] = tvb(at[1], 2):le_uint() end
    d.cause = d.cause + 1
    if peer then peer.cause = peer.cause + 1 end
  end
  if NUMBERED[f.kind] or f.hello then
    d.base = d.base or f.hello and f.hello.low or f.seq -- kept for the whole session; later hellos have higher numbers
    if not f.hello then r.rel_seq = distance(f.seq, d.base) end
  end
  if NUMBERED[f.kind] then analyse_data(d, peer, f, r, ctx.number, ctx.now, ctx.outbound) end
  if not peer then return end
  if peer.base and (NUMBERED[f.kind] or f.kind == UPDATE) then r.rel_ack = distance(f.ack, peer.base) end
  if NUMBERED[f.kind] or f.kind == UPDATE then analyse_ack(peer, f, r, ctx.number, ctx.now) end
  if f.nack and f.kind == UPDATE then peer.cause = peer.cause + 1 end
  if f.granted then
    local b = tvb:raw(f.o + HEAD, 4 * f.granted)
    for v in pairs(peer.vcs) do
      if v < f.granted then note_grant(peer, v, u32(b, 4 * v)) end
    end
  end
  for v, at in pairs(f.grants or NONE) do note_grant(peer, v, tvb(at[1], 4):le_uint()) end
end

---------------------------------------------------------------- pieces of packets

-- complete returns the packet that the piece seq belongs to, if all of it is here; as wire/capture does.
local function complete(a, seq, number)
  local first = seq
  if not a.pieces[first] then return nil end
  while a.pieces[first].offset > 0 do
    local before = a.pieces[add32(first, -1)]
    if not before or before.last or before.offset + #before.data ~= a.pieces[first].offset then return nil end
    first = add32(first, -1)
  end
  local parts, length, at = {}, 0, first
  while true do
    local p = a.pieces[at]
    if not p or p.offset ~= length or length + #p.data > SLOT_STRIDE then return nil end
    parts[#parts + 1] = p
    length = length + #p.data
    if p.last then break end
    at = add32(at, 1)
  end
  local whole = { frames = {} }
  for i, p in ipairs(parts) do
    local name = add32(first, i - 1)
    p.packet.number = number
    a.pieces[name], a.done[name] = nil, p.packet
    a.ended[a.ended_to], a.ended_to = name, a.ended_to + 1
    if a.ended_to - a.ended_from > MAX_PIECES then
      a.done[a.ended[a.ended_from]], a.ended[a.ended_from], a.ended_from = nil, nil, a.ended_from + 1
    end
    whole.frames[i], parts[i] = p.number, p.data
  end
  whole.data = table.concat(parts)
  return whole
end

-- assemble takes a piece; r.whole is the packet that it completes.
local function assemble(tvb, f, r, ctx)
  local key = format("%s %s>%s %d %d", ctx.interface, ctx.from, ctx.to, f.session, f.channel)
  local a = assemblies[key]
  if not a then
    if assembly_count >= MAX_DIRECTIONS then assemblies, assembly_count = {}, 0 end
    a = { pieces = {}, order = {}, order_from = 1, order_to = 1, done = {}, ended = {}, ended_from = 1, ended_to = 1 }
    assemblies[key], assembly_count = a, assembly_count + 1
  end
  local known = a.pieces[f.seq]
  if known or a.done[f.seq] then
    r.packet = known and known.packet or a.done[f.seq]
    return
  end
  r.packet = {} -- its number is known once the packet is complete
  a.pieces[f.seq] = { offset = f.offset, last = f.last, number = ctx.number, packet = r.packet,
    data = f.length > 0 and tvb(f.o + HEAD, f.length):raw() or "" }
  a.order[a.order_to], a.order_to = f.seq, a.order_to + 1
  if a.order_to - a.order_from > MAX_PIECES then
    a.pieces[a.order[a.order_from]], a.order[a.order_from], a.order_from = nil, nil, a.order_from + 1
  end
  r.whole = complete(a, f.seq, ctx.number)
end

---------------------------------------------------------------- the fabric packet

-- members_text returns the set of chips in the n bytes at offset o, such as "0-3,7". The bits stand
-- for the chips from the number "base" on.
local function members_text(tvb, o, n, base)
  local parts, first = {}, nil
  for i = 0, 8 * n do
    local has, c = i < 8 * n and bits(tvb(o + math.floor(i / 8), 1):uint(), i % 8, 1) == 1, base + i
    if has and not first then first = c end
    if first and not has then
      parts[#parts + 1] = first == c - 1 and tostring(first) or first .. "-" .. (c - 1)
      first = nil
    end
  end
  return table.concat(parts, ",")
end

local function known_node(node) return node.mesh < MAX_MESHES and node.chip < MAX_CHIPS end

-- read_control does for control packets what read_packet does for all others.
local function read_control(b, o, avail, partial)
  local p = { o = o, b = b, control = true, type = u8(b, 0), length = u16(b, 4), r = u8(b, 7) % 128, last_z = u8(b, 7) >= 128,
    src = { mesh = u16(b, 8), chip = u16(b, 10) }, group = u16(b, 38),
    head = CONTROL_HEAD, tail = o + 40, trunk = 0, data_len = u8(b, 30) }
  p.dst = { mesh = u16(b, p.tail - o + 2), chip = u16(b, p.tail - o) }
  local flags = u16(b, 36)
  if p.length ~= CONTROL_LEN or avail > CONTROL_LEN or not partial and avail < CONTROL_LEN or u8(b, 6) ~= CONTROL_HEAD
    or p.r > 67 or p.last_z and p.r == 0 or u8(b, 29) > p.r or p.data_len > CONTROL_LEN - CONTROL_HEAD or u8(b, 31) ~= 0
    or not CONTROL_VCS[u8(b, 1) % 16] or flags > 31 or bits(flags, 3, 1) == 1
    or p.group ~= 0 and (p.type ~= 3 or flags >= 16) or flags >= 16 and p.type ~= 3 then
    return nil, "packet"
  end
  if not known_node(p.src) or not known_node(p.dst) then return nil, "packet" end
  return p
end

local HEADERS = EXTENSION + BASE_LEN + MESH_TAIL + 67 + MEMBERS_LEN -- longest headers of a packet, with the largest route

-- read_packet checks the packet of which avail bytes from o on are here, as
-- wire.DecodePacket does; a partial one as if what is missing were there.
-- It returns nil and the fault's name for what is none.
local function read_packet(tvb, o, avail, partial)
  if avail < CONTROL_HEAD then return nil, "packet" end
  local b = tvb:raw(o, math.min(avail, HEADERS))
  if CONTROL_TYPES[u8(b, 0)] then return read_control(b, o, avail, partial) end
  if avail < MIN_PACKET or not partial and avail > MAX_PACKET then return nil, "packet" end
  local p = { o = o, b = b, type = u8(b, 0), length = u16(b, 4), r = u8(b, 7),
    src = { mesh = u16(b, 8), chip = u16(b, 10) }, group = u16(b, 38),
    size = u16(b, 80), send_type = u8(b, 82) }
  if not ROUTE_SIZES[p.r] or u8(b, 6) ~= EXTENSION then return nil, "packet" end
  local flags = u16(b, 36)
  p.has_members, p.posted = bits(flags, 5, 1) == 1, bits(flags, 6, 1) == 1
  p.tail, p.metal = o + 88 + p.r, EXTENSION + BASE_LEN + MESH_TAIL + p.r -- metal: end of tt-metal's header
  p.head = p.metal + (p.has_members and MEMBERS_LEN or 0)
  if partial then
    if avail < p.head or p.length < avail or p.length > MAX_PACKET then return nil, "packet" end
  elseif p.length ~= avail or p.head > avail then
    return nil, "packet"
  end
  p.dst = { mesh = u16(b, p.tail - o + 2), chip = u16(b, p.tail - o) }
  p.trunk, p.data_len = u8(b, p.metal - 1), p.length - p.head
  if not known_node(p.src) or not known_node(p.dst) then return nil, "packet" end
  local group_ok = p.trunk == 0 and p.group == 0
  local request = p.type == 1 or p.type == 5
  if p.has_members then group_ok = request and p.group ~= 0 and p.trunk <= 2 and members_text(tvb, o + p.metal, MEMBERS_LEN, 0) ~= ""
  elseif request then group_ok = p.trunk <= 2 and (p.trunk == 0) == (p.group == 0)
  elseif p.type == 3 then group_ok = p.trunk == 0 end
  if bits(flags, 4, 1) == 1 and (p.group ~= 0 or p.type == 4 or p.type == 6) then group_ok = false end
  if p.posted and p.type ~= 1 then group_ok = false end
  if p.type < 1 or p.type > 6 or flags > 127 or p.data_len > MAX_PAYLOAD or not group_ok then return nil, "packet" end
  if not SEND_TYPES[p.send_type] then return nil, "command" end
  if p.send_type == 4 then
    p.chunks = u8(b, EXTENSION + 38)
    local kinds, rest = u8(b, EXTENSION + 39), p.size
    if p.chunks < 2 or p.chunks > 4 then return nil, "command" end
    p.sizes = {}
    for i = 0, p.chunks - 1 do
      if bits(kinds, 2 * i, 2) ~= 1 then return nil, "command" end
      p.sizes[i] = i < p.chunks - 1 and u16(b, EXTENSION + 32 + 2 * i) or rest
      rest = rest - p.sizes[i]
      if rest < 0 then return nil, "command" end
    end
  end
  if p.send_type == 5 or p.send_type == 6 then
    local at = EXTENSION + (p.send_type == 5 and 4 or 8)
    local r = { x = u8(b, at), y = u8(b, at + 1), columns = u8(b, at + 2), rows = u8(b, at + 3), at = o + at }
    if r.columns == 0 or r.rows == 0 or r.x + r.columns > 64 or r.y + r.rows > 64 or r.x + r.y == 0 then return nil, "command" end
    p.rect = r
  end
  if p.send_type ~= 7 and p.size ~= p.data_len then return nil, "packet" end
  return p
end

-- address reads a NoC address: offset in bits 0 to 35, x in 36 to 41, y in 42 to 47, NoC 1 in 60.
local function address(tvb, o)
  local b = tvb:raw(o, 8)
  local low, high = u32(b, 0), u32(b, 4)
  local a = { x = bits(high, 4, 6), y = bits(high, 10, 6), low = low, high = high % 16 }
  a.one = bits(high, 28, 1) == 1 and "noc1:" or ""
  a.text = a.one .. (a.high > 0 and format("%d-%d:0x%x%08x", a.x, a.y, a.high, low) or format("%d-%d:0x%x", a.x, a.y, low))
  return a
end

local function command_tree(tvb, p, tree)
  local o = p.o + EXTENSION
  tree:add_le(F.send_type, tvb(o + 42, 1))
  tree:add_le(F.size, tvb(o + 40, 2))
  if p.send_type == 255 then return end
  if p.send_type == 4 then
    tree:add_le(F.chunks, tvb(o + 38, 1))
    for i = 0, p.chunks - 1 do
      local at = tree:add_le(F.scatter_addr, tvb(o + 8 * i, 8))
      at:append_text(" (" .. address(tvb, o + 8 * i).text .. ")")
      local size = i < p.chunks - 1 and tvb(o + 32 + 2 * i, 2) or tvb(o + 40, 2)
      tree:add_le(F.scatter_size, size, p.sizes[i])
    end
    return
  end
  if p.rect then
    local r = p.rect
    tree:add_le(F.addr_offset, tvb(o, 4), UInt64.new(tvb(o, 4):le_uint(), 0))
    tree:add(F.rect_x, tvb(r.at, 1))
    tree:add(F.rect_y, tvb(r.at + 1, 1))
    tree:add(F.rect_columns, tvb(r.at + 2, 1))
    tree:add(F.rect_rows, tvb(r.at + 3, 1))
    if p.send_type == 6 then tree:add_le(F.value, tvb(o + 4, 4)) end
    return
  end
  local a = address(tvb, o)
  local at = tree:add_le(F.addr, tvb(o, 8))
  at:append_text(" (" .. a.text .. ")")
  at:add(F.addr_x, tvb(o + 4, 1), a.x)
  at:add(F.addr_y, tvb(o + 5, 1), a.y)
  at:add(F.addr_offset, tvb(o, 5), UInt64.new(a.low, a.high))
  local word = p.send_type == 3 and 16 or 8
  if p.send_type == 3 then tree:add_le(F.sem, tvb(o + 8, 8)):append_text(" (" .. address(tvb, o + 8).text .. ")") end
  if p.send_type >= 1 and p.send_type <= 3 then tree:add_le(F.value, tvb(o + word, 4)) end
  if p.send_type == 2 or p.send_type == 3 then tree:add(F.flush, tvb(o + word + 4, 1), tvb(o + word + 4, 1):uint() ~= 0) end
end

local function ranges_tree(tvb, o, tree, hops, skip)
  for d = 0, 3 do tree:add(hops, tvb(o + 2 * d, 1)):append_text(" " .. DIRECTIONS[d]) end
  for d = 0, 3 do tree:add(skip, tvb(o + 2 * d + 1, 1)):append_text(" " .. DIRECTIONS[d]) end
end

local function completion_tree(tvb, o, n, tree)
  if n == 16 and shaded(tree) and tree.silent then -- without exceptions there is nothing to show
    local b = tvb:raw(o, n)
    return u32(b, 12) == 0 and (u32(b, 8) - u32(b, 4)) % 4294967296 < 2147483648, ""
  end
  local count = n >= 16 and tvb(o + 12, 4):le_uint()
  if not count or count > 4 or n ~= 16 + 8 * count then return false end
  if bits((tvb(o + 8, 4):le_uint() - tvb(o + 4, 4):le_uint()) % 4294967296, 31, 1) == 1 then return false end
  for i = 0, count - 1 do
    local at = o + 16 + 8 * i
    local outcome = tvb(at + 6, 1):uint()
    if tvb(at + 4, 2):le_uint() == 0 or outcome == 0 or not OUTCOMES[outcome] or tvb(at + 7, 1):uint() ~= 0 then return false end
  end
  tree:add_le(F.c_epoch, tvb(o, 4))
  tree:add_le(F.c_from, tvb(o + 4, 4))
  tree:add_le(F.c_next, tvb(o + 8, 4))
  tree:add_le(F.c_count, tvb(o + 12, 4))
  for i = 0, count - 1 do
    local at = o + 16 + 8 * i
    tree:add_le(F.c_first, tvb(at, 4))
    tree:add_le(F.c_number, tvb(at + 4, 2))
    local item = tree:add_le(F.c_outcome, tvb(at + 6, 1))
    item:add_proto_expert_info(X.exception, "Requests that did not end as done: " .. OUTCOMES[tvb(at + 6, 1):uint()])
  end
  return true, format("next=%d%s", tvb(o + 8, 4):le_uint(), count > 0 and format(", %d exceptions", count) or "")
end

local function drop_tree(tvb, o, n, tree)
  if n ~= 24 and n ~= 36 and n ~= 28 + HALF_LEN then return false end
  local dst = { mesh = tvb(o, 2):le_uint(), chip = tvb(o + 2, 2):le_uint() }
  local plane, reason, channel, kind = tvb(o + 12, 1):uint(), tvb(o + 13, 1):uint(), tvb(o + 14, 1):uint(), tvb(o + 15, 1):uint()
  local typ, other, members, open = kind % 16, bits(kind, 6, 1) == 1, bits(kind, 5, 1) == 1, bits(kind, 4, 1) == 1
  if dst.mesh >= MAX_MESHES or dst.chip >= MAX_CHIPS or not REASONS[reason] or channel >= MAX_CHANNELS or plane > 15
    or typ < 1 or typ > 5 or (n > 24) ~= (kind >= 128) or (n == 28 + HALF_LEN) ~= members or other and n > 24 then
    return false
  end
  if n > 24 then
    local group, direction, trunk = tvb(o + 24, 2):le_uint(), tvb(o + 26, 1):uint(), tvb(o + 27, 1):uint()
    if group == 0 or trunk > 2 then return false end
    if members and (direction > 1 or members_text(tvb, o + 28, HALF_LEN, 0) == "") or not members and (direction > 3 or trunk == 0) then return false end
  end
  tree:add_le(F.d_mesh, tvb(o, 2))
  tree:add_le(F.d_chip, tvb(o + 2, 2))
  tree:add_le(F.d_epoch, tvb(o + 4, 4))
  tree:add_le(F.d_seq, tvb(o + 8, 4))
  tree:add_le(F.d_plane, tvb(o + 12, 1))
  tree:add(F.d_other, tvb(o + 15, 1))
  tree:add(F.d_open, tvb(o + 15, 1))
  local why = format("to %s: %s%s", text(dst), REASONS[reason], open and ", may have arrived" or "")
  local expert = open and "A packet was in a link that died, and may have arrived" or "A router dropped a packet: " .. REASONS[reason]
  tree:add_le(F.d_reason, tvb(o + 13, 1)):add_proto_expert_info(X.drop, expert)
  tree:add_le(F.d_channel, tvb(o + 14, 1))
  tree:add_le(F.d_type, tvb(o + 15, 1), typ)
  tree:add_le(F.d_id, tvb(o + 16, 8))
  tree:add_le(F.packet_id, tvb(o + 16, 8)):set_generated()
  if n > 24 then
    tree:add_le(F.d_group, tvb(o + 24, 2))
    if not members then tree:add_le(F.d_direction, tvb(o + 26, 1)) end
    tree:add_le(F.d_trunk, tvb(o + 27, 1))
    if members then
      local half = tvb(o + 26, 1):uint()
      tree:add(F.d_members, tvb(o + 26, 2 + HALF_LEN), members_text(tvb, o + 28, HALF_LEN, 8 * HALF_LEN * half))
    else ranges_tree(tvb, o + 28, tree, F.d_hops, F.d_skip)
    end
  end
  return true, why
end

local function linkstate_tree(tvb, o, n, tree)
  if n == 0 or n % 12 ~= 0 then return false end
  for at = o, o + n - 1, 12 do
    if tvb(at, 2):le_uint() >= MAX_MESHES or tvb(at + 2, 2):le_uint() >= MAX_CHIPS then return false end
    if band(tvb(at + 8, 2):le_uint(), tvb(at + 10, 2):le_uint()) ~= 0 then return false end
  end
  for at = o, o + n - 1, 12 do
    tree:add_le(F.s_mesh, tvb(at, 2))
    tree:add_le(F.s_chip, tvb(at + 2, 2))
    tree:add_le(F.s_version, tvb(at + 4, 4))
    tree:add_le(F.s_out, tvb(at + 8, 2))
    tree:add_le(F.s_silent, tvb(at + 10, 2))
  end
  return true, format("%d chips", n / 12)
end

local CONTENTS = { [3] = { completion_tree, "completion" }, [4] = { drop_tree, "drop report" }, [6] = { linkstate_tree, "link state" } }

-- control_route_text reads the route of a control packet, two bits for each action. If last_z is
-- true, the last action names direction Z.
local function control_route_text(tvb, o, n, last_z)
  local out = {}
  for i = 0, n - 1 do out[i + 1] = DIRECTIONS[bits(tvb(o + floor(i / 4), 1):uint(), i % 4 * 2, 2)] end
  if last_z then out[n] = DIRECTIONS[4] end
  return table.concat(out)
end

local function route_text(tvb, o, n)
  local out, last = {}, 0
  for i = 1, n do
    local b = tvb(o + i - 1, 1):uint()
    out[i] = ROUTE_LETTERS[b] or "?"
    if b ~= 0 then last = i end
  end
  return table.concat(out, "", 1, last)
end

-- what says in a few words what a packet is for.
local function what(tvb, p)
  if p.type ~= 1 then return TYPES[p.type] end
  local name = SEND_TYPES[p.send_type]
  if p.send_type == 255 then return TYPES[1] .. " without a command" end
  if p.send_type == 4 then return format("%s %d B in %d chunks", name, p.size, p.chunks) end
  if p.rect then
    local r, off = p.rect, tvb(p.o + EXTENSION, 4):le_uint()
    local at = format("%d-%d..%d-%d:0x%x", r.x, r.y, r.x + r.columns - 1, r.y + r.rows - 1, off)
    if p.send_type == 5 then return format("%s %d B to %s", name, p.size, at) end
    return format("%s %d at %s", name, tvb(p.o + EXTENSION + 4, 4):le_uint(), at)
  end
  local at = address(tvb, p.o + EXTENSION).text
  if p.send_type == 7 then return format("%s %d B at %s", name, p.size, at) end
  if p.send_type == 0 or p.send_type == 3 then return format("%s %d B to %s", name, p.size, at) end
  return format("%s %d at %s", name, tvb(p.o + EXTENSION + 8, 4):le_uint(), at)
end

-- packet_head_tree shows all of a packet but its payload, and returns the packet's item.
local function packet_head_tree(tvb, o, avail, p, pieces, root, to, words)
  local tree = root:add(ttfabric, tvb(o, math.min(avail, p.length)),
    format("TT-Fabric packet, %s → %s, %s%s", text(p.src), to, words, pieces == nil and " (header alone)" or ""))
  tree:add(F.partial, tvb(o, 0), pieces == nil):set_generated()
  if pieces then tree:add(F.pieces, tvb(o, 0), pieces):set_generated() end
  tree:add_le(F.type, tvb(o, 1))
  tree:add(F.vc, tvb(o + 1, 1), tvb(o + 1, 1):uint() % 16)
  tree:add(F.plane, tvb(o + 1, 1), bits(tvb(o + 1, 1):uint(), 4, 4))
  tree:add_le(F.ttl, tvb(o + 2, 2))
  tree:add_le(F.length, tvb(o + 4, 2))
  tree:add_le(F.route_size, tvb(o + 7, 1))
  tree:add(F.src, tvb(o + 8, 4), text(p.src))
  tree:add_le(F.src_mesh, tvb(o + 8, 2))
  tree:add_le(F.src_chip, tvb(o + 10, 2))
  tree:add(F.dst, tvb(p.tail, 4), text(p.dst))
  tree:add_le(F.dst_mesh, tvb(p.tail + 2, 2))
  tree:add_le(F.dst_chip, tvb(p.tail, 2))
  if not p.control then
    tree:add_le(F.flow_epoch, tvb(o + 12, 4))
    tree:add_le(F.flow_seq, tvb(o + 16, 4))
    tree:add_le(F.flow_base, tvb(o + 20, 4))
    tree:add_le(F.id, tvb(o + 24, 8))
    tree:add_le(F.packet_id, tvb(o + 24, 8)):set_generated()
  end
  tree:add_le(F.epoch, tvb(o + 32, 4))
  tree:add(F.up, tvb(o + 36, 1))
  tree:add(F.trace, tvb(o + 36, 1))
  tree:add(F.detour, tvb(o + 36, 1))
  if not p.control then tree:add(F.known, tvb(o + 36, 1)) end
  tree:add(F.other, tvb(o + 36, 1))
  if not p.control then tree:add(F.posted, tvb(o + 36, 1)) end
  tree:add_le(F.group, tvb(o + 38, 2))
  if not p.control then tree:add(F.trunk, tvb(o + p.metal - 1, 1)) end
  if p.has_members then tree:add(F.members, tvb(o + p.metal, MEMBERS_LEN), members_text(tvb, o + p.metal, MEMBERS_LEN, 0))
  elseif p.trunk ~= 0 then ranges_tree(tvb, o + p.metal - 9, tree, F.hops, F.skip)
  elseif p.type == 1 or p.type == 5 then tree:add_le(F.life, tvb(o + p.metal - 9, 4)) end
  if p.control then
    tree:add(F.hop, tvb(o + 29, 1))
    tree:add(F.route, tvb(o + 12, 17), control_route_text(tvb, o + 12, p.r, p.last_z))
  else
    tree:add_le(F.hop, tvb(o + 84, 2))
    tree:add(F.route, tvb(o + 88, p.r), route_text(tvb, o + 88, p.r))
    command_tree(tvb, p, tree)
  end
  return tree
end

-- packet_tree shows a packet, and returns a few words for the Info column; nil for a partial one that is none.
local function packet_tree(tvb, o, avail, pieces, root)
  local p, fault = read_packet(tvb, o, avail, pieces == nil)
  if not p then
    if pieces == nil then return nil end
    local tree = root:add(ttfabric, tvb(o, avail), "TT-Fabric packet, malformed")
    local item = tree:add(F.fault, tvb(o, avail), fault)
    item:set_generated()
    item:add_proto_expert_info(X.packet, "Malformed " .. fault .. ": no chip takes it")
    return "[Malformed packet]"
  end
  local silent = shaded(root) and root.silent -- nobody sees the words
  local words = silent and "" or what(tvb, p)
  local to = silent and "" or (p.trunk ~= 0 or p.has_members) and format("group %d", p.group) or text(p.dst)
  local tree = root
  if not shaded(tree) then tree = packet_head_tree(tvb, o, avail, p, pieces, root, to, words) end
  if pieces then
    local at = o + p.head
    if not shaded(tree) then tree:add(F.data_len, tvb(o + 4, 2), p.data_len):set_generated() end
    local reader = CONTENTS[p.type]
    if reader then
      local good, more = reader[1](tvb, at, p.data_len, tree)
      if good then words = words .. " (" .. more .. ")" else
        local item = tree:add(F.payload_fault, tvb(at, p.data_len), reader[2])
        item:set_generated()
        item:add_proto_expert_info(X.packet, "Malformed " .. reader[2])
      end
    elseif p.data_len > 0 and not shaded(tree) then
      tree:add(F.data, tvb(at, p.data_len))
    end
  end
  return silent and "" or format("%s → %s %s", text(p.src), to, words)
end

---------------------------------------------------------------- the tree of a frame

local function head_tree(tvb, f, tree)
  local o = f.o
  tree:add(L.magic, tvb(o, 2))
  tree:add(L.version, tvb(o + 2, 1), f.version)
  tree:add(L.channel, tvb(o + 2, 1), f.channel)
  tree:add(L.padded, tvb(o + 3, 1), f.padded)
  tree:add_le(L.session, tvb(o + 4, 4))
  tree:add(L.kind, tvb(o + 8, 1), f.kind)
  tree:add(L.vc, tvb(o + 8, 1), f.vc)
  local flags = tree:add(L.flags, tvb(o + 9, 1))
  flags:add(L.fend, tvb(o + 9, 1))
  flags:add(L.fnack, tvb(o + 9, 1))
  flags:add(L.fsolicit, tvb(o + 9, 1))
  tree:add_le(L.length, tvb(o + 10, 2))
  tree:add_le(L.dest, tvb(o + 12, 4))
  tree:add_le(L.seq, tvb(o + 16, 4))
  tree:add_le(L.ack, tvb(o + 20, 4))
end

local function payload_tree(tvb, f, tree)
  local o = f.o + HEAD
  if f.kind == DATA then
    tree:add(L.slot, tvb(f.o + 12, 4), f.slot):set_generated()
    tree:add(L.offset, tvb(f.o + 12, 4), f.offset):set_generated()
    return
  end
  if NUMBERED[f.kind] then
    tree:add(L.queue, tvb(f.o + 8, 1), f.vc):set_generated()
    if f.kind == MMIO and f.length == 4 then tree:add_le(L.value, tvb(o, 4)) end
    return
  end
  for v = 0, NUM_VCS - 1 do
    local at = f.grants and f.grants[v] or f.granted and v < f.granted and { o + 4 * v, 4 }
    if at then tree:add_le(L.grant, tvb(at[1], at[2])):append_text(" (" .. VCS[v] .. ")") end
  end
  if not f.hello then return end
  tree:add(L.hup, tvb(o + 1, 1))
  tree:add(L.hwant, tvb(o + 1, 1))
  tree:add_le(L.from_mesh, tvb(o + 4, 2))
  tree:add_le(L.from_chip, tvb(o + 6, 2))
  tree:add_le(L.from_channel, tvb(o + 2, 1))
  tree:add_le(L.expected_mesh, tvb(o + 8, 2))
  tree:add_le(L.expected_chip, tvb(o + 10, 2))
  tree:add_le(L.expected_channel, tvb(o + 3, 1))
  tree:add_le(L.echo_training, tvb(o + 12, 4))
  tree:add_le(L.incarnation, tvb(o + 16, 8))
  tree:add_le(L.echo_incarnation, tvb(o + 24, 8))
  tree:add_le(L.stamp, tvb(o + 32, 8))
  tree:add_le(L.echo_stamp, tvb(o + 40, 8))
  tree:add_le(L.training, tvb(o + 48, 4))
  tree:add_le(L.max_payload, tvb(o + 52, 2))
  tree:add_le(L.via, tvb(o + 60, 1))
  tree:add_le(L.fabric, tvb(o + 64, 4))
  for v = 0, NUM_VCS - 1 do
    local at = f.hello.slots[v]
    if at then tree:add_le(L.slots, tvb(at[1], at[2])):append_text(" (" .. VCS[v] .. ")") end
  end
end

-- analysis_tree shows what was found out of a frame, and returns the words for the Info column.
local function analysis_tree(tvb, f, r, tree, number)
  local here, marks, good = not shaded(tree) and tvb(f.o, 0), {}, r.stream ~= nil
  if r.stream then tree:add(L.stream, here, r.stream):set_generated() end
  if r.rel_seq then tree:add(L.rel_seq, here, r.rel_seq):set_generated() end
  if r.rel_ack then tree:add(L.rel_ack, here, r.rel_ack):set_generated() end
  local box
  local function add(field, value)
    box = box or tree:add(here, "Analysis of the link")
    box:set_generated()
    local item = value ~= nil and box:add(field, here, value) or box
    item:set_generated()
    return item
  end
  local function mark(x, word, more)
    add(nil):add_proto_expert_info(x, more)
    marks[#marks + 1] = word
  end
  if r.lost then
    add(L.lost, r.lost)
    mark(X.lost, "Gap", "Frames before this one were not captured")
  end
  if r.retransmission then mark(X.retransmission, "Retransmission", "Retransmission (go-back-N)") end
  if r.duplicate then mark(X.duplicate, "Duplicate", "Duplicate: came twice though it was sent once") end
  if r.out_of_order then mark(X.out_of_order, "Out of order", "Out of order") end
  if r.ack_lost then mark(X.ack_lost, "ACK of unseen frame", "Acknowledges a frame that was not captured") end
  if good and f.kind == UPDATE and f.nack then mark(X.nack, "NACK", "NACK: a frame is missing, go back to it") end
  if good and f.kind == UPDATE and f.solicit then mark(X.solicit, "Solicit", "The sender waits for credit") end
  if good and f.kind == CLOSE then mark(X.close, "Close", "The sender goes away in order") end
  if r.window_full then mark(X.window_full, "Window full", "Window full: this packet takes the last credit of its virtual channel") end
  if r.new_session then mark(X.new_session, "New session", "New session: an end restarted") end
  if r.first then add(L.first, r.first) end
  if r.copy then add(r.retransmission and L.retrans_of or L.dup_of, r.copy) end
  if r.acks then add(L.acks, r.acks) end
  if r.rtt then
    local sign, ns = r.rtt < 0 and -1 or 1, math.abs(r.rtt)
    add(L.ack_rtt, NSTime.new(sign * floor(ns / 1e9), sign * (ns % 1e9)))
  end
  if r.in_flight then add(L.in_flight, r.in_flight) end
  local entry = r.entry
  if entry then
    if entry.acked_in then add(L.acked_in, entry.acked_in) end
    if entry.again_in and entry.first == number and not r.replaced then add(L.retrans_in, entry.again_in) end
  end
  return marks
end

local function frame_words(f)
  if not f.kind then return "" end
  local name = KINDS[f.kind] or format("Kind %d", f.kind)
  if f.kind == DATA then return format("%s VC=%s Seq=%d Ack=%d Len=%d", name, VCS[f.vc], f.seq, f.ack, f.length) end
  if NUMBERED[f.kind] then return format("%s Queue=%d To=0x%x Seq=%d Ack=%d Len=%d", name, f.vc, f.dest, f.seq, f.ack, f.length) end
  if f.hello then
    return format("%s from M%dD%d/%d to M%dD%d/%d%s%s", name, f.hello.from.mesh, f.hello.from.chip, f.hello.from.channel, f.hello.expected.mesh,
      f.hello.expected.chip, f.hello.expected.channel, f.hello_up and ", up" or "", f.hello_want and ", wants an answer" or "")
  end
  return format("%s Ack=%d", name, f.ack)
end

-- refused reports whether a comment of the capture says that the port refused the frame. Captures at
-- the chips have such comments on frames that they cut off.
local function refused()
  for _, c in ipairs({ comment() }) do
    if c.value:find("the port refused this frame: ", 1, true) == 1 then return true end
  end
  return false
end

-- sound reports whether a receiver took the frame, as far as can be told of one that the capture cut off.
local function sound(f, ctx)
  if not f.fault then return true end
  return f.fault == "short" and ctx.cut and f.version == VERSION and KINDS[f.kind] ~= nil and not f.refused
end

-- payload_here reports whether the capture has the whole payload of a sound frame. The capture may lack
-- only the padding and the checksum.
local function payload_here(f, ctx)
  if not f.fault then return f.whole end
  return f.head and sound(f, ctx) and f.here >= f.length
end

-- frame_tree shows one frame, and returns its words and marks for the Info column, and whether a packet is in it.
local function frame_tree(tvb, f, r, ctx, root)
  if f.hello then
    local flags = tvb(f.o + HEAD + 1, 1):uint()
    f.hello_up, f.hello_want = flags % 2 == 1, flags >= 2
  end
  local words, marks = ctx.silent and "" or frame_words(f), {}
  local headers = f.head and sound(f, ctx) and f.fault ~= nil -- the capture has the headers, and left out the payload on purpose
  local tree
  if ctx.looked_at then
    tree = root:add(ttlink, tvb(f.o, f.len), "TT-link, " .. (f.fault and not headers and format("[%s] ", f.fault) or "") .. words)
    if headers then tree:append_text(format(" (first %d bytes captured)", f.len)) end
    if f.version then head_tree(tvb, f, tree) end
  else
    tree = setmetatable({ root = root, tvb = tvb, o = f.o, len = f.len, silent = ctx.silent }, shadow)
    root = tree
  end
  if shaded(tree) then
    if f.crc_ok == false then tree:add_proto_expert_info(X.crc_bad) end
  elseif f.whole then
    local at = tvb(f.o + HEAD + f.body, 4)
    local crc = tree:add_le(L.crc, at)
    tree:add(L.crcgood, at, f.crc_ok ~= false):set_generated()
    tree:add(L.crcstatus, at, f.crc_ok == nil and 2 or f.crc_ok and 1 or 0):set_generated()
    if f.crc_ok == false then
      crc:append_text(format(" [should be 0x%08x]", f.crc_should))
      crc:add_proto_expert_info(X.crc_bad)
    end
    tree:add(L.frame_len, tvb(f.o, f.len), f.len):set_generated()
  elseif f.version then
    tree:add(L.crcstatus, tvb(f.o, 0), 2):set_generated()
  end
  if headers and shaded(tree) then -- nobody looks at the fault, which is no fault of the sender
  elseif headers then -- no receiver refused the frame: the snap length of the capture ends in the payload or in the padding
    tree:add(L.fault, tvb(f.o, f.len), f.fault):append_text(", because the capture's snap length cut the frame off"):set_generated()
  elseif f.refused then
    tree:add(L.fault, tvb(f.o, f.len), "refused"):set_generated()
    tree:add_proto_expert_info(X.malformed, "The port refused this frame, as a comment says")
    marks[1] = "Malformed"
  elseif f.fault then
    local item = tree:add(L.fault, tvb(f.o, f.len), f.fault)
    item:set_generated()
    item:add_proto_expert_info(f.fault == "short" and ctx.cut and X.cut or X.malformed,
      f.fault == "short" and ctx.cut and "The capture's snap length cut the frame off" or "No receiver takes this frame: " .. f.fault)
    marks[1] = f.fault == "short" and ctx.cut and "Cut off" or f.fault == "checksum" and "Bad checksum" or "Malformed"
  elseif not shaded(tree) then
    payload_tree(tvb, f, tree)
  end
  local n = f.whole and not (f.fault == "length") and math.min(f.length, f.body) or f.here or 0
  if n > 0 and f.kind ~= UPDATE and f.kind ~= HELLO and not shaded(tree) then tree:add(L.payload, tvb(f.o + HEAD, n)) end
  if f.whole and f.body > n and n > 0 and not shaded(tree) then tree:add(L.padding, tvb(f.o + HEAD + n, f.body - n)) end
  for _, m in ipairs(analysis_tree(tvb, f, r, tree, ctx.number)) do marks[#marks + 1] = m end

  local about
  if f.kind == DATA and f.version == VERSION and (not f.fault or f.fault == "short") and f.head then
    if not f.fault and f.offset == 0 and f.last then
      about = packet_tree(tvb, f.o + HEAD, f.length, 1, root)
    elseif r.whole then
      for _, number in ipairs(r.whole.frames) do tree:add(L.piece, tvb(f.o, 0), number):set_generated() end
      local whole = ByteArray.new(r.whole.data, true):tvb("TT-Fabric packet")
      about = packet_tree(whole, 0, whole:len(), #r.whole.frames, root)
    else
      if r.packet and r.packet.number then tree:add(L.reassembled, tvb(f.o, 0), r.packet.number):set_generated() end
      if f.offset == 0 and n > 0 and not ctx.silent then about = packet_tree(tvb, f.o + HEAD, n, nil, root) end
    end
  end
  if ctx.silent then return "", marks, about ~= nil end
  return about and about .. " | " .. words or words, marks, about ~= nil
end

---------------------------------------------------------------- the datagram

local function info_column(info, lines, marks, order)
  local head = {}
  for _, m in ipairs(order) do head[#head + 1] = marks[m] > 1 and format("[%s ×%d]", m, marks[m]) or format("[%s]", m) end
  local more = #lines > INFO_FRAMES and format(" ; … %d frames more", #lines - INFO_FRAMES) or ""
  local shown = table.concat(lines, " ; ", 1, math.min(#lines, INFO_FRAMES))
  info:set((#head > 0 and table.concat(head, " ") .. " " or "") .. shown .. more)
end

-- context is what is the same for all frames of a datagram.
local function context(tvb, pinfo, root)
  local ctx = { number = pinfo.number, cut = tvb:reported_len() > tvb:captured_len(), looked_at = looked_at(root) }
  local key = ctx.number * 65536 + tvb:offset() % 65536
  ctx.found = results[key]
  ctx.fresh = ctx.found == nil
  if ctx.fresh then
    ctx.found = {}
    results[key] = ctx.found
  end
  if ctx.fresh then
    ctx.place, ctx.interface = place_of_capture()
    ctx.from, ctx.to = format("%s:%d", tostring(pinfo.src), pinfo.src_port), format("%s:%d", tostring(pinfo.dst), pinfo.dst_port)
    local direction = packet_direction()
    ctx.outbound = direction ~= nil and direction.value == 2
    ctx.now = floor(pinfo.rel_ts * 1e9 + 0.5)
    -- What an ICMP message quotes was seen before, as a datagram of its own.
    ctx.analysis = ttlink.prefs.analysis and not pinfo.in_error_pkt
  end
  return ctx
end

-- frame_at reads the frame at offset o and looks at it, the first time that it is seen.
local function frame_at(tvb, o, n, ctx, index)
  local f = read_frame(tvb, o, n)
  local r = ctx.found[index]
  if f.fault == "short" and ctx.cut then f.refused = refused() end
  if f.whole and ttlink.prefs.crc then
    local should = r and r.crc_should
    if not r then
      should = crc32c(tvb(o, f.len - TRAILER):raw(), f.len - TRAILER)
    end
    f.crc_should, f.crc_ok = should or f.crc, should == nil or should == f.crc
    r = r or { crc_should = should ~= f.crc and should or nil, new = true }
  end
  if not r or r.new then
    r = r or {}
    r.new, ctx.found[index] = nil, r
    if f.whole then check_frame(f) end
    if payload_here(f, ctx) then read_payload(tvb, f) end
    if ctx.fresh and ctx.analysis then
      if sound(f, ctx) then analyse(tvb, f, r, ctx) end
      if not f.fault and f.kind == DATA and not (f.offset == 0 and f.last) then assemble(tvb, f, r, ctx) end
    end
    return f, r
  end
  if f.whole then check_frame(f) end
  if payload_here(f, ctx) then read_payload(tvb, f) end
  return f, r
end

---------------------------------------------------------------- raw frames

-- A raw frame (compliance mode) is a datagram of its own. Its version nibble, 15, says that no TT-link
-- header follows the envelope. Raw frames have no sequence numbers, so they take no part in the analysis.
local ttraw = Proto("ttraw", "TT-link, raw (compliance mode)")
local RAW_VERSION, RAW_OVERHEAD, MAX_RAW = 15, ENVELOPE + TRAILER, 1500
local R = {}
hex(R, "magic", "uint16", "ttraw.magic", "Magic")
num(R, "version", "uint8", "ttraw.version", "Version", nil, "15: no TT-link header follows")
num(R, "channel", "uint8", "ttraw.channel", "Channel", nil, "Port at the receiver that the frame is for")
hex(R, "reserved", "uint8", "ttraw.reserved", "Reserved")
num(R, "length", "uint32", "ttraw.length", "Payload length")
R.payload = ProtoField.bytes("ttraw.payload", "Payload")
hex(R, "crc", "uint32", "ttraw.crc", "CRC-32C")
flag(R, "crcgood", "ttraw.crc.good", "Checksum good")
num(R, "crcstatus", "uint8", "ttraw.crc.status", "Checksum status", CRC_STATUS)
R.fault = ProtoField.string("ttraw.fault", "Fault", base.ASCII, "Why receivers refuse the frame")
X.raw_malformed = ProtoExpert.new("ttraw.malformed", "Raw frame that receivers refuse", e.MALFORMED, s.ERROR)
X.raw_crc = ProtoExpert.new("ttraw.crc.bad", "Bad checksum", e.CHECKSUM, s.ERROR)
X.raw_cut = ProtoExpert.new("ttraw.cut", "Frame cut off in the capture", e.UNDECODED, s.NOTE)
ttraw.fields, ttraw.experts = R, { X.raw_malformed, X.raw_crc, X.raw_cut }

-- is_raw reports whether a datagram is a raw frame, like wire.IsRaw.
local function is_raw(tvb)
  if tvb:captured_len() < ENVELOPE then return false end
  local m0, m1, version = byte(tvb:raw(0, 3), 1, 3)
  return m0 * 256 + m1 == MAGIC and floor(version / 16) == RAW_VERSION
end

-- raw_fault returns the first fault of a complete raw frame, in the order of wire.DecodeRaw.
local function raw_fault(tvb, n, length)
  local body = n - RAW_OVERHEAD
  if body < 0 then return "short" end
  if tvb(3, 1):uint() ~= 0 then return "reserved" end
  if length < 1 or length > MAX_RAW or length < body then return "length" end
  if length > body then return "short" end
  if ttlink.prefs.crc and crc32c(tvb(0, n - TRAILER):raw(), n - TRAILER) ~= tvb(n - TRAILER, TRAILER):le_uint() then return "checksum" end
end

function ttraw.dissector(tvb, pinfo, root)
  if not is_raw(tvb) then return 0 end
  local n, cut = tvb:captured_len(), tvb:reported_len() > tvb:captured_len()
  local length = tvb(4, 4):le_uint()
  local fault = not cut and raw_fault(tvb, n, length) or nil
  local words = format("Raw Channel=%d Len=%d", tvb(2, 1):uint() % 16, length)
  local tree = root:add(ttraw, tvb(0, n), "TT-link, raw, " .. (fault and format("[%s] ", fault) or "") .. words)
  tree:add(R.magic, tvb(0, 2))
  tree:add(R.version, tvb(2, 1), RAW_VERSION)
  tree:add(R.channel, tvb(2, 1), tvb(2, 1):uint() % 16)
  tree:add(R.reserved, tvb(3, 1))
  tree:add_le(R.length, tvb(4, 4))
  local whole = not cut and n >= RAW_OVERHEAD and length == n - RAW_OVERHEAD
  local here = math.min(length, whole and length or n - ENVELOPE)
  if here > 0 then tree:add(R.payload, tvb(ENVELOPE, here)) end
  if whole then
    local at = tvb(n - TRAILER, TRAILER)
    local crc = tree:add_le(R.crc, at)
    tree:add(R.crcgood, at, fault ~= "checksum"):set_generated()
    tree:add(R.crcstatus, at, not ttlink.prefs.crc and 2 or fault == "checksum" and 0 or 1):set_generated()
    if fault == "checksum" then crc:add_proto_expert_info(X.raw_crc) end
  else
    tree:add(R.crcstatus, tvb(0, 0), 2):set_generated()
  end
  local mark = ""
  if cut then
    tree:add_proto_expert_info(X.raw_cut, "The capture's snap length cut the frame off")
    mark = "[Cut off] "
  elseif fault then
    local item = tree:add(R.fault, tvb(0, n), fault)
    item:set_generated()
    item:add_proto_expert_info(X.raw_malformed, "No receiver takes this frame: " .. fault)
    mark = fault == "checksum" and "[Bad checksum] " or "[Malformed] "
  end
  pinfo.cols.protocol:set("TT-raw")
  pinfo.cols.info:set(mark .. words)
  return n
end

function ttlink.dissector(tvb, pinfo, root)
  local n = tvb:captured_len()
  if n == 0 then return 0 end
  if is_raw(tvb) then return ttraw.dissector(tvb, pinfo, root) end
  local ctx, cols = context(tvb, pinfo, root), pinfo.cols
  local info = cols.info
  ctx.silent = not ctx.looked_at and tostring(info) == "(info)" -- the program fills in no columns
  local o, index, lines, marks, order, packets = 0, 0, {}, {}, {}, false
  while o < n do
    index = index + 1
    local f, r = frame_at(tvb, o, n, ctx, index)
    local words, found, packet = frame_tree(tvb, f, r, ctx, root)
    lines[index], packets = words, packets or packet
    for _, m in ipairs(found) do
      if not marks[m] then
        marks[m] = 0
        order[#order + 1] = m
      end
      marks[m] = marks[m] + 1
    end
    o = o + f.len
  end
  if not ctx.silent then
    cols.protocol:set(packets and "TT-Fabric" or "TT-link")
    info_column(info, lines, marks, order)
  end
  return n
end

-- ours tells a datagram of ours from others, as capture.IsTTLink does.
local function ours(tvb)
  if tvb:captured_len() < OVERHEAD then return false end
  local m0, m1, version, _, _, _, _, _, kind = byte(tvb:raw(0, 9), 1, 9)
  return m0 * 256 + m1 == MAGIC and floor(version / 16) == VERSION and KINDS[kind % 16] ~= nil
end

ttlink:register_heuristic("udp", function(tvb, pinfo, root)
  if not ours(tvb) then return false end
  -- What follows between these ports is ours even where its magic is damaged.
  if not pinfo.in_error_pkt then pinfo.conversation = ttlink end
  ttlink.dissector(tvb, pinfo, root)
  return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(ttlink)

ttraw:register_heuristic("udp", function(tvb, pinfo, root)
  if not is_raw(tvb) or tvb:captured_len() < RAW_OVERHEAD then return false end
  if not pinfo.in_error_pkt then pinfo.conversation = ttlink end -- frames of TT-link may follow
  ttraw.dissector(tvb, pinfo, root)
  return true
end)

function ttfabric.dissector(tvb, pinfo, root)
  if tvb:captured_len() == 0 then return 0 end
  local words = packet_tree(tvb, 0, tvb:captured_len(), tvb:captured_len() == tvb:reported_len() and 1 or nil, root)
  pinfo.cols.protocol:set("TT-Fabric")
  if words then pinfo.cols.info:set(words) end
  return tvb:captured_len()
end

---------------------------------------------------------------- sealed UDP

-- What a port with a pre-shared key puts around its frames, in the open
-- (ttlink/transport/pskwire.go). The frames themselves are not to be read.
local ttsealed = Proto("ttsealed", "TT-link, sealed")
local SEALED_KINDS = { [1] = "Ask", [2] = "Answer", [3] = "Sealed" }
local SEALED_HELLO, SEALED_HEAD, SEALED_TAG = 128, 16, 16
local S = {}
num(S, "version", "uint8", "ttsealed.version", "Version")
num(S, "kind", "uint8", "ttsealed.kind", "Kind", SEALED_KINDS)
hex(S, "fabric", "uint32", "ttsealed.fabric", "Fabric", "First 4 bytes of the SHA-256 of its name")
S.from = ProtoField.string("ttsealed.from", "From port", base.ASCII)
S.to = ProtoField.string("ttsealed.to", "Meant for port", base.ASCII)
hex(S, "incarnation", "uint64", "ttsealed.incarnation", "Incarnation")
S.nonce = ProtoField.bytes("ttsealed.nonce", "Nonce")
S.echo = ProtoField.bytes("ttsealed.echo", "Nonce of the ask")
S.mac = ProtoField.bytes("ttsealed.hmac", "HMAC-SHA256")
hex(S, "key", "uint32", "ttsealed.key_id", "Key id")
num(S, "counter", "uint64", "ttsealed.counter", "Counter")
S.data = ProtoField.bytes("ttsealed.ciphertext", "Ciphertext")
S.tag = ProtoField.bytes("ttsealed.tag", "Tag")
X.sealed_short = ProtoExpert.new("ttsealed.malformed", "Not all of a sealed datagram", e.MALFORMED, s.ERROR)
ttsealed.fields, ttsealed.experts = S, { X.sealed_short }

local function sealed_kind(tvb)
  if tvb:captured_len() < SEALED_HEAD or tvb(0, 3):uint() ~= 0x544b01 then return nil end
  local kind = tvb(3, 1):uint()
  return SEALED_KINDS[kind] and kind
end

-- sealed_run finds how long the datagrams of a captured run (GSO) are: the second one has the key of
-- the first and its counter plus one. All but the last are of one length.
local function sealed_run(tvb, n)
  local raw = tvb(0, n):raw()
  local low = tvb(8, 4):le_uint()
  if low == 4294967295 then return n end
  local next_low = low + 1
  local wanted = raw:sub(1, 8) .. string.char(next_low % 256, bits(next_low, 8, 8), bits(next_low, 16, 8), bits(next_low, 24, 8)) .. raw:sub(13, 16)
  local at = raw:find(wanted, SEALED_HEAD + SEALED_TAG + 1, true)
  return at and at - 1 or n
end

local function port_text(tvb, o)
  return format("M%dD%d/%d", tvb(o, 2):le_uint(), tvb(o + 2, 2):le_uint(), tvb(o + 4, 1):uint())
end

local function sealed_hello(tvb, kind, n, root)
  local words = SEALED_KINDS[kind]
  if n >= 24 then words = format("%s from %s to %s", words, port_text(tvb, 8), port_text(tvb, 16)) end
  local tree = root:add(ttsealed, tvb(0, n), "TT-link, sealed: " .. words)
  tree:add(S.version, tvb(2, 1))
  tree:add(S.kind, tvb(3, 1))
  if n ~= SEALED_HELLO then
    tree:add_proto_expert_info(X.sealed_short)
    return words
  end
  tree:add(S.fabric, tvb(4, 4))
  tree:add(S.from, tvb(8, 8), port_text(tvb, 8))
  tree:add(S.to, tvb(16, 8), port_text(tvb, 16))
  tree:add_le(S.incarnation, tvb(24, 8))
  tree:add(S.nonce, tvb(32, 32))
  tree:add(S.echo, tvb(64, 32))
  tree:add(S.mac, tvb(96, 32))
  return words
end

function ttsealed.dissector(tvb, pinfo, root)
  local kind, n = sealed_kind(tvb), tvb:captured_len()
  if not kind then return 0 end
  pinfo.cols.protocol:set("TT-sealed")
  if kind ~= 3 then
    pinfo.cols.info:set(sealed_hello(tvb, kind, n, root))
    return n
  end
  local step, o, count = sealed_run(tvb, n), 0, 0
  while o < n do
    local len = math.min(step, n - o)
    count = count + 1
    local tree = root:add(ttsealed, tvb(o, len), format("TT-link, sealed, %d bytes", len))
    if len < SEALED_HEAD + SEALED_TAG then
      tree:add_proto_expert_info(X.sealed_short)
      break
    end
    tree:add(S.version, tvb(o + 2, 1))
    tree:add(S.kind, tvb(o + 3, 1))
    tree:add(S.key, tvb(o + 4, 4))
    tree:add_le(S.counter, tvb(o + 8, 8))
    if len > SEALED_HEAD + SEALED_TAG then tree:add(S.data, tvb(o + SEALED_HEAD, len - SEALED_HEAD - SEALED_TAG)) end
    tree:add(S.tag, tvb(o + len - SEALED_TAG, SEALED_TAG))
    o = o + len
  end
  local first = tostring(tvb(8, 8):le_uint64())
  pinfo.cols.info:set(format("Sealed Key=0x%08x Counter=%s%s", tvb(4, 4):uint(), first, count > 1 and format(" ; … %d datagrams", count) or ""))
  return n
end

ttsealed:register_heuristic("udp", function(tvb, pinfo, root)
  if not sealed_kind(tvb) then return false end
  ttsealed.dissector(tvb, pinfo, root)
  return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(ttsealed)
