// What the programs that load the two libraries share: the libraries' functions, and reads and writes of chips
// on PCIe and of chips behind the firmware queues.
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const char *what, unsigned long long got, unsigned long long want) {
    fprintf(stderr, "%s: got 0x%llx, want 0x%llx\n", what, got, want);
    exit(1);
}

inline void same(const char *what, unsigned long long got, unsigned long long want) {
    if (got != want) fail(what, got, want);
}

template <typename F> F *find(void *lib, const char *name) {
    void *f = dlsym(lib, name);
    if (!f) fprintf(stderr, "no symbol %s: %s\n", name, dlerror()), exit(1);
    return reinterpret_cast<F *>(f);
}

inline void *open(const char *path) {
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
        auto end = Clock::now() + std::chrono::seconds(20);
        while (h.word(x, y, completions + wrIdx) == r)
            if (Clock::now() > end) fail("the firmware accepts no read", r, 0);
        while (!(flags = h.word(x, y, at0 + 12)))
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
