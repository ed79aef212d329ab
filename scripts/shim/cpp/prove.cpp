// Loads the two libraries as tt-umd does, and checks what a host sees of a running fabric. The chips
// that the host reaches over PCIe are the expected ones, memory written one way is read the other way,
// and all bits of reads of a lost chip are 1 until the chip runs again.
//
//   prove JTAG-LIBRARY TTSIM-LIBRARY CHIPS...    CHIPS: ids of the expected chips
//   prove -lost JTAG-LIBRARY                     the first chip does not run: waits until it runs again

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <unordered_set>
#include <vector>

using Clock = std::chrono::steady_clock;

static void fail(const char *what, unsigned long long got, unsigned long long want) {
    fprintf(stderr, "%s: got 0x%llx, want 0x%llx\n", what, got, want);
    exit(1);
}

static void same(const char *what, unsigned long long got, unsigned long long want) {
    if (got != want) fail(what, got, want);
}

template <typename F> F *find(void *lib, const char *name) {
    void *f = dlsym(lib, name);
    if (!f) fprintf(stderr, "no symbol %s: %s\n", name, dlerror()), exit(1);
    return reinterpret_cast<F *>(f);
}

static void *open(const char *path) {
    void *lib = dlopen(path, RTLD_LAZY);
    if (!lib) fprintf(stderr, "%s\n", dlerror()), exit(1);
    return lib;
}

// median returns the median time of n calls, in µs.
template <typename Call> double median(int n, Call call) {
    std::vector<double> times;
    for (int i = 0; i < n; i++) {
        auto begin = Clock::now();
        call();
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + n / 2, times.end());
    return times[n / 2];
}

struct Jtag {
    std::vector<uint32_t> (*enumerate)();
    int (*open)(unsigned);
    void (*close)();
    uint32_t (*family)();
    uint32_t (*readAxi)(uint32_t);
    void (*writeAxi)(uint32_t, uint32_t);
    uint32_t (*read)(uint32_t, uint32_t, uint64_t, uint8_t);
    void (*write)(uint32_t, uint32_t, uint64_t, uint32_t, uint8_t);

    explicit Jtag(const char *path) {
        void *lib = ::open(path);
        enumerate = find<std::vector<uint32_t>()>(lib, "_Z18tt_enumerate_jlinkv");
        open = find<int(unsigned)>(lib, "tt_open_jlink_by_serial_wrapper");
        close = find<void()>(lib, "tt_close_jlink");
        family = find<uint32_t()>(lib, "tt_get_device_family");
        readAxi = find<uint32_t(uint32_t)>(lib, "tt_read_axi");
        writeAxi = find<void(uint32_t, uint32_t)>(lib, "tt_write_axi");
        read = find<uint32_t(uint32_t, uint32_t, uint64_t, uint8_t)>(lib, "tt_read_noc_xy");
        write = find<void(uint32_t, uint32_t, uint64_t, uint32_t, uint8_t)>(lib, "tt_write_noc_xy");
    }
};

struct Sim {
    void (*init)();
    void (*exit)();
    void (*clock)(uint32_t);
    uint32_t (*config)(uint32_t, uint32_t);
    void (*read)(uint64_t, void *, uint32_t);
    void (*write)(uint64_t, const void *, uint32_t);
    void (*callbacks)(void (*)(uint64_t, void *, uint32_t), void (*)(uint64_t, const void *, uint32_t));

    explicit Sim(const char *path) {
        void *lib = ::open(path);
        init = find<void()>(lib, "libttsim_init");
        exit = find<void()>(lib, "libttsim_exit");
        clock = find<void(uint32_t)>(lib, "libttsim_clock");
        config = find<uint32_t(uint32_t, uint32_t)>(lib, "libttsim_pci_config_rd32");
        read = find<void(uint64_t, void *, uint32_t)>(lib, "libttsim_pci_mem_rd_bytes");
        write = find<void(uint64_t, const void *, uint32_t)>(lib, "libttsim_pci_mem_wr_bytes");
        for (const char *name : {"libttsim_pci_config_wr32", "libttsim_tile_rd_bytes", "libttsim_tile_wr_bytes"}) find<void()>(lib, name);
        callbacks = find<void(void (*)(uint64_t, void *, uint32_t), void (*)(uint64_t, const void *, uint32_t))>(lib, "libttsim_set_pci_dma_mem_callbacks");
    }

    uint64_t bar(uint32_t device, uint32_t at) { return (config(device << 3, at) | uint64_t(config(device << 3, at + 4)) << 32) & ~uint64_t(15); }

    // window aims a Wormhole TLB window at a tile, and returns the window's physical address.
    uint64_t window(uint64_t bar0, uint32_t number, uint32_t x, uint32_t y, uint64_t offset, bool one, uint64_t x0 = 0, uint64_t y0 = 0, bool many = false) {
        int bits = number < 156 ? 20 : number < 166 ? 21 : 24, n = 36 - bits;
        uint64_t first = number < 156 ? uint64_t(number) << 20 : number < 166 ? 0x9C00000 + (uint64_t(number - 156) << 21) : 0xB000000 + (uint64_t(number - 166) << 24);
        uint64_t c = offset >> bits | uint64_t(x) << n | uint64_t(y) << (n + 6) | x0 << (n + 12) | y0 << (n + 18) | uint64_t(one) << (n + 24) | uint64_t(many) << (n + 25);
        write(bar0 + 0x1FC00000 + number * 8, &c, 8);
        return bar0 + first + (offset & ((uint64_t(1) << bits) - 1));
    }
};

// Host reads and writes tiles of a chip on PCIe, by one of the libraries.
struct Host {
    virtual ~Host() = default;
    virtual void read(uint32_t x, uint32_t y, uint64_t at, void *to, uint32_t n) = 0;
    virtual void write(uint32_t x, uint32_t y, uint64_t at, const void *from, uint32_t n) = 0;
    uint32_t word(uint32_t x, uint32_t y, uint64_t at) {
        uint32_t v;
        read(x, y, at, &v, 4);
        return v;
    }
};

// JtagHost reads and writes the chip whose probe is open, word by word. As tt-umd does, it reads whole words
// where fewer bytes are left, at any address.
struct JtagHost : Host {
    Jtag &j;
    explicit JtagHost(Jtag &j) : j(j) {}
    void read(uint32_t x, uint32_t y, uint64_t at, void *to, uint32_t n) override {
        for (uint32_t i = 0; i < n; i += 4) {
            uint32_t v = j.read(x, y, at + i, 0);
            memcpy((char *)to + i, &v, std::min(4u, n - i));
        }
    }
    void write(uint32_t x, uint32_t y, uint64_t at, const void *from, uint32_t n) override {
        for (uint32_t i = 0; i < n; i += 4) {
            uint32_t v = n - i < 4 ? j.read(x, y, at + i, 0) : 0;
            memcpy(&v, (const char *)from + i, std::min(4u, n - i));
            j.write(x, y, at + i, v, 0);
        }
    }
};

// SimHost reads and writes a PCI device through one TLB window of 16 MiB.
struct SimHost : Host {
    Sim &s;
    uint64_t bar0;
    SimHost(Sim &s, uint32_t device) : s(s), bar0(s.bar(device, 0x10)) {}
    void read(uint32_t x, uint32_t y, uint64_t at, void *to, uint32_t n) override { s.read(s.window(bar0, 166, x, y, at, false), to, n); }
    void write(uint32_t x, uint32_t y, uint64_t at, const void *from, uint32_t n) override { s.write(s.window(bar0, 166, x, y, at, false), from, n); }
};

// Channels of a Wormhole chip have these ethernet tiles, in coordinates of NoC 0.
constexpr uint32_t ethX[] = {9, 1, 8, 2, 7, 3, 6, 4, 9, 1, 8, 2, 7, 3, 6, 4};
constexpr uint32_t ethY(uint32_t channel) { return channel < 8 ? 0 : 6; }

// Queue reads and writes a chip without PCIe through the firmware queues of an ethernet tile. The steps are
// those of "Queues" in the description of the baseline data movement service.
struct Queue {
    Host &h;
    uint32_t x, y;                  // ethernet tile
    uint64_t chip;                  // position of the chip: bits 48 to 59 of an entry's target
    uint16_t rack;
    static constexpr uint32_t base = 0x11000, requests = base + 0x80, completions = base + 0x200, buffers = base + 0x1000;
    static constexpr uint32_t wrIdx = 0x20, rdIdx = 0x30, entries = 0x40, block = 1024;
    enum : uint32_t { wrReq = 1, rdReq = 4, rdData = 8, dataBlock = 0x40 };

    struct Entry {
        uint64_t target;
        uint32_t data, flags;
        uint16_t rack, unused[5];
        uint32_t host;
    };

    // push pushes a request, and returns its slot. With "from", n bytes of payload go to the slot's buffer first.
    uint32_t push(uint32_t tx, uint32_t ty, uint64_t at, uint32_t data, uint32_t flags, const void *from, uint32_t n) {
        uint32_t w = h.word(x, y, requests + wrIdx);
        for (auto end = Clock::now() + std::chrono::seconds(20); (w - h.word(x, y, requests + rdIdx)) % 8 >= 4;)
            if (Clock::now() > end) fail("the firmware takes no requests", w, 0);
        if (from) h.write(x, y, buffers + w % 4 * block, from, n);
        Entry e{chip | uint64_t(ty) << 42 | uint64_t(tx) << 36 | at, data, flags, rack, {}, 0};
        h.write(x, y, requests + entries + w % 4 * sizeof e, &e, sizeof e);
        uint32_t next = (w + 1) % 8;
        h.write(x, y, requests + wrIdx, &next, 4);
        return w % 4;
    }

    void read(uint32_t tx, uint32_t ty, uint64_t at, void *to, uint32_t n) {
        uint32_t r = h.word(x, y, completions + rdIdx), slot = r % 4, want = n > 4 ? rdData | dataBlock : rdData;
        push(tx, ty, at, n, want ^ rdData ^ rdReq, nullptr, 0);
        uint32_t at0 = completions + entries + slot * sizeof(Entry), flags = 0;
        for (auto end = Clock::now() + std::chrono::seconds(20); h.word(x, y, completions + wrIdx) == r || !(flags = h.word(x, y, at0 + 12));)
            if (Clock::now() > end) fail("the firmware completes no read", r, 0);
        same("flags of a completion", flags, want);
        h.read(x, y, n > 4 ? buffers + slot * block : at0 + 8, to, n);
        r = (r + 1) % 8;
        h.write(x, y, completions + rdIdx, &r, 4);
    }

    void write(uint32_t tx, uint32_t ty, uint64_t at, const void *from, uint32_t n) {
        uint32_t word = 0;
        if (n == 4) memcpy(&word, from, 4);
        push(tx, ty, at, n > 4 ? n : word, n > 4 ? wrReq | dataBlock : wrReq, n > 4 ? from : nullptr, n);
    }

    // flush waits until the firmware has accepted all writes, and then until all have ended.
    void flush() {
        uint32_t counters[2] = {1, 0};
        for (auto end = Clock::now() + std::chrono::seconds(20);;) {
            if (h.word(x, y, requests + wrIdx) == h.word(x, y, requests + rdIdx)) h.read(x, y, requests, counters, sizeof counters);
            if (counters[0] == counters[1]) return;
            if (Clock::now() > end) fail("writes that did not end", counters[1], counters[0]);
        }
    }
};

// proveRemote moves data to the other chip of a chip's board, through every tile with a cable to it, and
// between. Chips of a Galaxy are all on PCIe, and their boards have routing disabled.
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
    std::unordered_set<int> order(ids.begin(), ids.end());  // tt-umd numbers the probes in the order of such a set
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
    printf("JTAG: %zu probes; median of a read %.1f µs, of a posted write %.1f µs\n", ids.size(), median(2000, [&] { j.read(1, 1, 0x20000, 0); }), median(400, [&] { j.write(1, 1, 0x20000, 1, 0); }));
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
        await("a completion", [&] { return word(0x220) != rd && (flags = word(0x240 + (rd & 3) * 32 + 12)) != 0; });
        s.write(at + 0x230, &next, 4);
        return flags;
    }
    void written() {
        await("the end of a write", [&] { return word(0xA0) == word(0xB0) && word(0x80) == word(0x84); });
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
        s.read(s.window(bar0, 0, 1, 1, 0x20000, false), &word, 4);  // the write has ended when a read behind it has: the libraries have a connection each
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
    uint64_t at = s.window(s.bar(want[0], 0x10), 166, 1, 1, 0x20000, false);
    uint32_t word = 0;
    printf("ttsim: %zu devices; median of a read %.1f µs, of a posted write %.1f µs, of a clock %.2f µs\n", want.size(), median(2000, [&] { s.read(at, &word, 4); }),
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
