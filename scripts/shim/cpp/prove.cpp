// Loads the two libraries as tt-umd does, and checks what a host sees of a running fabric. The host
// must reach the expected chips over PCIe. Memory that the host writes in one way must have the
// same bytes in every other way: by NoC 0 and NoC 1, and by both libraries. All bits of reads of a
// lost chip must be 1 until the chip runs again.
//
//   prove JTAG-LIBRARY TTSIM-LIBRARY CHIPS...    CHIPS: ids of the expected chips
//   prove -lost JTAG-LIBRARY                     the first chip does not run: waits until it runs again

#include <time.h>
#include <unistd.h>

#include <random>
#include <unordered_set>

#include "driver.hpp"

// proveRemote writes and reads the memory of the other chip of a chip's board, through every tile
// with a cable to that chip. On a Galaxy, proveRemote does nothing, because all chips are on PCIe
// and the boards have routing disabled.
static void proveRemote(const char *what, Host &h, uint32_t id) {
    std::mt19937 random(id);
    std::vector<uint8_t> out(1024), in(1024);
    int tiles = 0;
    for (uint32_t c = 0; c < 16; c++) {
        uint32_t x = ethX[c], y = ethY(c);
        if (h.word(x, y, 0x104C) != 0) return;                                             // routing is disabled
        same("the address of the queues", h.word(x, y, 0x170), Queue::base);
        uint32_t first = h.word(x, y, 0x1C);
        same("signature of a heartbeat", first >> 16, 0xABCD);
        for (auto end = Clock::now() + std::chrono::seconds(5); h.word(x, y, 0x1C) == first;)
            if (Clock::now() > end) fail("a heartbeat that stands still", first, 0);
        if (h.word(x, y, 0x1104) != 1 || h.word(x, y, 0x1FE0) != h.word(x, y, 0x1FC0)) continue;  // not trained, or another board
        uint32_t xy = h.word(x, y, 0x1124), rack = h.word(x, y, 0x1128);
        Queue q{h, x, y, uint64_t(xy >> 16 & 63) << 48 | uint64_t(xy >> 22 & 63) << 54, uint16_t(rack)};
        tiles++;
        uint32_t node = 0;
        q.read(xy >> 4 & 63, xy >> 10 & 63, 0xFFB2002C, &node, 4);
        same("the node id of the tile at the other end", node & 0xFFF, (xy >> 4) & 0xFFF);
        q.read(0, 10, 0x880030060, &node, 4);
        same("the scratch register of the other ARC", node, 0xC0DE0001);
        for (uint32_t n : {4, 8, 12, 32, 36, 256, 1000, 1024}) {
            for (uint64_t at : {uint64_t(0x30000), uint64_t(0x4000000)}) {
                bool l1 = at < 0x100000;
                uint32_t tx = l1 ? 1 : 0, ty = l1 ? 1 : 0;
                at += c * 4096;
                for (auto &b : out) b = uint8_t(random());
                q.write(tx, ty, at, out.data(), n);
                q.flush();
                q.read(tx, ty, at, in.data(), n);
                same("bytes of a chip without PCIe", memcmp(in.data(), out.data(), n), 0);
            }
        }
        for (uint32_t i = 0; i < 200; i++) q.write(1, 1, 0x40000 + 4 * (i % 32), &i, 4);  // more than the queue holds
        q.flush();
        for (uint32_t i = 0; i < 32; i++) {
            q.read(1, 1, 0x40000 + 4 * i, in.data(), 4);
            memcpy(&node, in.data(), 4);
            same("the last of many words", node, i < 200 % 32 ? 192 + i : 160 + i);
        }
        if (tiles == 1) printf("%s: chip %u: median of a word from the other chip %.1f µs\n", what, id, median(300, [&] { q.read(1, 1, 0x40000, in.data(), 4); }));
    }
    if (tiles) printf("%s: chip %u: data through %d tiles to the other chip\n", what, id, tiles);
}

static void proveJtag(Jtag &j, const std::vector<uint32_t> &want) {
    auto ids = j.enumerate();
    same("number of probes", ids.size(), want.size());
    std::unordered_set<int> order(ids.begin(), ids.end());  // tt-umd numbers the probes in the order of a std::unordered_set
    ids.assign(order.begin(), order.end());
    for (size_t i = 0; i < ids.size(); i++) same("id of a probe", ids[i], want[i]);
    same("opening a probe that does not exist", unsigned(j.open(999)), 1);
    same("architecture without a probe", j.family(), 0);
    same("a read without a probe", j.read(1, 1, 0, 0), 0xffffffff);
    for (uint32_t id : ids) {
        same("opening a probe", unsigned(j.open(id)), 0);
        same("architecture", j.family(), 1);
        j.write(1, 1, 0x20000, 0x1000 + id, 0);
        j.close();
        same("architecture after the probe is closed", j.family(), 1);  // tt-umd still uses a probe that it has closed
        same("a word after the probe is closed", j.read(1, 1, 0x20000, 0), 0x1000 + id);
    }
    for (uint32_t id : ids) {
        j.open(id);
        same("a word of its own chip", j.read(1, 1, 0x20000, 0), 0x1000 + id);
        same("the same word by NoC 1", j.read(8, 10, 0x20000, 1), 0x1000 + id);
    }
    j.open(ids[0]);
    j.write(8, 10, 0x20000, 5, 1);
    same("a word written by NoC 1", j.read(1, 1, 0x20000, 0), 5);
    same("the node id of the ARC tile", j.read(0, 10, 0xFFFB2002C, 0), 0xA << 6 | 10 << 12 | 12 << 19 | 1 << 28);
    same("a tile that does not exist", j.read(63, 63, 0, 0), 0xffffffff);
    for (uint32_t i = 0; i < 5000; i++) j.write(1, 1, 0x20000 + 4 * (i % 64), i, 0);
    for (uint32_t i = 0; i < 64; i++) same("a posted word", j.read(1, 1, 0x20000 + 4 * i, 0), 4992 + i - (i < 8 ? 0 : 64));
    uint32_t n = 0;  // each read is of another word than the reads before, because the chip holds reads of a driver that polls
    printf("JTAG: %zu probes; median of a read %.1f µs, of a posted write %.1f µs\n", ids.size(), median(2000, [&] { j.read(1, 1, 0x20000 + n++ % 64 * 4, 0); }), median(400, [&] { j.write(1, 1, 0x20000, 1, 0); }));
    for (uint32_t id : ids) {
        j.open(id);
        JtagHost h(j);
        proveRemote("JTAG", h, id);
    }
    j.close();
}

// Host memory behind the DMA callbacks. Addresses are physical addresses of the host.
constexpr uint64_t hostAt = 0x123400000000;
static std::vector<uint8_t> host(4 << 20);
static size_t hostBytes;  // bytes that the callbacks moved
static bool hostRefuses;

static uint8_t *hostMemory(uint64_t at, uint32_t n) {
    if (getpid() != gettid()) fail("a callback in another thread", gettid(), getpid());
    if (hostRefuses) throw "no";
    if (at < hostAt || at + n > hostAt + host.size()) fail("a callback with a wrong address", at, hostAt);
    hostBytes += n;
    return &host[at - hostAt];
}
static void readHost(uint64_t at, void *to, uint32_t n) { memcpy(to, hostMemory(at, n), n); }
static void writeHost(uint64_t at, const void *from, uint32_t n) { memcpy(hostMemory(at, n), from, n); }

// Queues is the firmware's queues of tile E10 of a chip.
struct Queues {
    Sim &s;
    uint64_t at;

    Queues(Sim &sim, uint64_t bar0) : s(sim), at(s.window(bar0, 2, 8, 6, 0, false)) {
        same("address of the queues", word(0x170), 0x11000);
        at += 0x11000;
    }
    uint32_t word(uint64_t off) {
        uint32_t v;
        s.read(at + off, &v, 4);
        s.clock(1);
        return v;
    }
    template <typename Test> void await(const char *what, Test test) {
        for (auto end = Clock::now() + std::chrono::seconds(60); !test();)
            if (Clock::now() > end) fail(what, 0, 1);
    }
    void push(uint64_t target, uint32_t rack, uint32_t n, uint32_t flags, uint32_t hostAddress) {
        uint32_t wr = word(0xA0);
        await("room in the submission queue", [&] { return ((wr - word(0xB0)) & 7) < 4; });
        uint32_t e[8] = {uint32_t(target), uint32_t(target >> 32), n, flags, rack, 0, 0, hostAddress}, next = (wr + 1) & 7;
        s.write(at + 0xC0 + (wr & 3) * 32, e, sizeof e);
        s.write(at + 0xA0, &next, 4);
    }
    uint32_t pop() {  // returns the flags
        uint32_t rd = word(0x230), next = (rd + 1) & 7, flags = 0;
        await("an accepted request", [&] { return word(0x220) != rd; });
        await("a completion", [&] { return (flags = word(0x240 + (rd & 3) * 32 + 12)) != 0; });
        s.write(at + 0x230, &next, 4);
        return flags;
    }
    void written() {
        uint32_t accepted = word(0xA0);
        await("an accepted request", [&] { return word(0xB0) == accepted; });
        uint32_t writes = word(0x80);
        await("the end of a write", [&] { return word(0x84) == writes; });
    }
};

// proveHost moves a block of host memory to the DRAM of a neighbour of a device and back, through the
// firmware's queues and the DMA callbacks.
static void proveHost(Sim &s, uint32_t d) {
    constexpr uint32_t n = 1 << 20, wr = 0x51, rd = 0x54, done = 0x58;
    uint64_t bar0 = s.bar(d, 0x10), iatu = s.bar(d, 0x18) + 0x1200;
    const uint32_t region[] = {0, 1u << 31, 0, 0, uint32_t(host.size() - 1), uint32_t(hostAt), uint32_t(hostAt >> 32)};
    for (uint32_t i = 0; i < 7; i++) s.write(iatu + 4 * i, &region[i], 4);
    uint32_t xy = 0, rack = 0;
    const uint32_t ethX[] = {9, 1, 8, 2, 7, 3, 6, 4};
    for (uint32_t ch = 0; ch < 16 && !xy; ch++) {
        uint64_t l1 = s.window(bar0, 3, ethX[ch % 8], ch < 8 ? 0 : 6, 0, false);
        uint32_t trained = 0;
        s.read(l1 + 0x1104, &trained, 4);
        if (trained != 1) continue;
        s.read(l1 + 0x1124, &xy, 4), s.read(l1 + 0x1128, &rack, 4);
        xy = xy >> 16 & 0xfff;  // chip x and y
        break;
    }
    Queues q(s, bar0);
    uint64_t target = uint64_t(xy) << 48 | 0x8000;  // DRAM tile 0-0
    std::mt19937 random(d);
    for (uint32_t i = 0; i < n; i++) host[i] = uint8_t(random());
    hostBytes = 0;
    auto begin = Clock::now();
    q.push(target, rack & 0xffff, n, wr, 0);
    q.written();
    double out = n / std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    begin = Clock::now();
    q.push(target, rack & 0xffff, n, rd, 2 * n);
    same("flags of a read into host memory", q.pop(), done);
    double in = n / std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    same("a block in host memory", memcmp(&host[0], &host[2 * n], n), 0);
    same("bytes by the callbacks", hostBytes, 2 * n);
    same("errors", q.word(0x90), 0);
    q.push(target, rack & 0xffff, 64, rd, uint32_t(host.size()) - 32);  // beyond the region, the address stays
    hostRefuses = true;
    same("flags of a read that the host refuses", q.pop(), done | 1u << 30);
    hostRefuses = false;
    same("errors", q.word(0x90), 1);
    printf("host memory of device %u: 1 MiB to a neighbour's DRAM %.0f MB/s, back %.0f MB/s\n", d, out, in);
}

// provePolls reads the same words again and again for 50 ms, as a driver that polls. Unless the chip holds these
// reads, the driver makes thousands. A change of the last word ends a hold.
static void provePolls(Sim &s, uint64_t at) {
    uint32_t words[8], n = 0, next = 1;
    for (uint32_t size : {4, 8, 32}) {
        uint32_t reads = 0, *last = words + size / 4 - 1;
        for (auto end = Clock::now() + std::chrono::milliseconds(50); Clock::now() < end; reads++) s.read(at, words, size);
        if (reads > 300) fail("reads in 50 ms, of a driver that polls", reads, 300);
        n += reads;
        for (; next % 20; next++) {
            s.write(at + size - 4, &next, 4);
            s.read(at, words, size);
            same("the last word of a driver that polls", *last, next);
        }
        next++;
    }
    printf("ttsim: %u reads in 150 ms, of a driver that polls\n", n);
}

static void proveSim(Sim &s, Jtag &j, const std::vector<uint32_t> &want) {
    s.callbacks(readHost, writeHost);
    s.init();
    for (uint32_t d = 0; d < 32; d++) same("PCI id", s.config(d << 3, 0), std::count(want.begin(), want.end(), d) ? 0x401E1E52 : 0xffffffff);
    std::mt19937 random(1);
    std::vector<uint8_t> out(3 << 20), in(out.size());
    for (auto &b : out) b = uint8_t(random());
    for (uint32_t d : want) {
        uint64_t bar0 = s.bar(d, 0x10), bar4 = s.bar(d, 0x20);
        for (uint32_t number : {0u, 155u, 156u, 165u, 166u, 185u}) {
            uint32_t n = 1 + random() % (512 << 10);
            uint64_t at = s.window(bar0, number, 1, 1, 0x40000 + number * 16, false);
            s.write(at, out.data() + number, n);
            uint64_t again = s.window(bar0, 170, 8, 10, 0x40000 + number * 16, true);  // by NoC 1
            s.read(again, in.data(), n);
            same("memory through a TLB window", memcmp(in.data(), out.data() + number, n), 0);
        }
        s.write(s.window(bar0, 167, 0, 0, 0x1000000, false), out.data(), uint32_t(out.size()));
        s.read(s.window(bar0, 168, 0, 11, 0x1000000, false), in.data(), uint32_t(in.size()));  // another tile of the same bank
        same("3 MiB of DRAM", in == out, 1);
        uint32_t word = d + 7;
        s.write(s.window(bar0, 185, 1, 1, 0x20000, false) - bar0 - 0x1E000000 + bar4, &word, 4);  // window 185 through BAR 4
        s.read(s.window(bar0, 0, 1, 1, 0x20000, false), &word, 4);  // after a read on the same connection, the write has ended; the other library has its own connection
        j.open(d);
        same("a word written through BAR 4", j.read(1, 1, 0x20000, 0), d + 7);
        word = 0xabcd;
        s.write(s.window(bar0, 1, 2, 2, 0x20000, false, 1, 1, true), &word, 4);
        s.read(s.window(bar0, 1, 2, 2, 0x20000, false), &word, 4);
        same("a word of a NoC multicast, behind the write", word, 0xabcd);
        for (uint32_t x : {1, 2}) same("a word of a NoC multicast", j.read(x, 2, 0x20000, 0), 0xabcd);
        uint32_t iatu = 1u << 31;
        s.write(s.bar(d, 0x18) + 0x1204, &iatu, 4);
        s.read(s.bar(d, 0x18) + 0x1204, &word, 4);
        same("a register of the iATU", word, iatu);
        SimHost h(s, d);
        proveRemote("ttsim", h, d);
    }
    for (size_t i = 0; i < want.size(); i += 8) proveHost(s, want[i]);
    provePolls(s, s.window(s.bar(want[0], 0x10), 166, 1, 1, 0x28000, false));
    uint64_t at = s.window(s.bar(want[0], 0x10), 166, 1, 1, 0x20000, false);
    uint32_t word = 0, n = 0;
    printf("ttsim: %zu devices; median of a read %.1f µs, of a posted write %.1f µs, of a clock %.2f µs\n", want.size(), median(2000, [&] { s.read(at + n++ % 64 * 4, &word, 4); }),
           median(400, [&] { s.write(at, &word, 4); }), median(2000, [&] { s.clock(1); }));
    if (fork() == 0) {  // a child has connections of its own
        s.read(at, &word, 4);
        _exit(word == 0 ? 0 : 1);
    }
    s.read(at, &word, 4);
    same("a word beside a child", word, 0);
    s.exit();
    s.init();
    s.exit();
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "-lost")) {
        Jtag j(argv[2]);
        auto ids = j.enumerate();
        same("opening a probe", unsigned(j.open(ids.at(0))), 0);
        printf("attached\n");
        bool gone = false;
        for (auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end; usleep(20000)) {
            uint32_t v = j.read(1, 1, 0x20000, 0);
            if (v == 0xffffffff && !gone) gone = true, printf("lost\n");
            if (v == 0 && gone) return printf("back\n"), 0;  // the memory of a new chip is zero
            if (!gone) j.write(1, 1, 0x20000, 77, 0);
        }
        fail("the chip did not come back", 0, 1);
    }
    if (argc < 4) return fprintf(stderr, "usage: %s JTAG-LIBRARY TTSIM-LIBRARY CHIPS...\n", argv[0]), 2;
    std::vector<uint32_t> want;
    for (int i = 3; i < argc; i++) want.push_back(uint32_t(atoi(argv[i])));
    Jtag j(argv[1]);
    proveJtag(j, want);
    Sim s(argv[2]);
    proveSim(s, j, want);
}
