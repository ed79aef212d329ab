// Writes and reads random places of all chips of a fabric through one of the two libraries, and checks every byte
// that it reads. The program reaches chips on PCIe directly. The program also reaches every chip
// through the firmware queues of every chip on PCIe. The program works in turn as tt-umd does, and
// as luwen does (crates/luwen-pci/src/wormhole/ethernet).
//
//   random -jtag|-ttsim LIBRARY CHIPS COUNT [SEED]       COUNT writes and reads; no write may fail
//   random -jtag|-ttsim LIBRARY CHIPS SECONDSs [SEED]    for a time, while links retrain: a write whose fate is unknown is repeated

#include <unistd.h>

#include <random>

#include "discovery.hpp"

// Limits.
constexpr unsigned maxSeconds = 120;            // a run ends if the run makes no progress for this time
constexpr uint32_t window = 16 << 10;           // bytes of each chip's L1 and of each chip's DRAM that the program uses
constexpr uint32_t longest = 8 << 10;           // longest block in host memory, in bytes
constexpr uint64_t l1At = 0x30000, dramAt = 0x8000000;
constexpr int retries = 1000;                   // repetitions of one write

// Host memory behind the DMA callbacks, from physical address 0 on.
static std::vector<uint8_t> hostMemory(1 << 20);
static void readHost(uint64_t at, void *to, uint32_t n) {
    if (at + n > hostMemory.size()) throw "beyond the end";
    memcpy(to, &hostMemory[at], n);
}
static void writeHost(uint64_t at, const void *from, uint32_t n) {
    if (at + n > hostMemory.size()) throw "beyond the end";
    memcpy(&hostMemory[at], from, n);
}

// Route leads to a chip through the queues of an ethernet tile of a chip on PCIe.
struct Route : Queue {
    enum : uint32_t { dram = 0x10, errorCounter = 0x10, unavailable = 1u << 30, unreachable = 1u << 31 };
    uint32_t errors() { return h.word(x, y, requests + errorCounter); }

    // fixup makes the completion queue empty, as luwen does before each call.
    void fixup() {
        uint32_t w = h.word(x, y, completions + wrIdx), r = h.word(x, y, completions + rdIdx);
        if (w != r) h.write(x, y, completions + rdIdx, &w, 4);
    }

    // idle waits for room in the submission queue, and returns its write index.
    uint32_t idle() {
        uint32_t w = h.word(x, y, requests + wrIdx);
        for (auto end = Clock::now() + std::chrono::seconds(20);; w = h.word(x, y, requests + wrIdx)) {
            uint32_t r = h.word(x, y, requests + rdIdx);
            if (w == r || (w & 3) != (r & 3)) return w;
            if (Clock::now() > end) fail("the firmware takes no requests", w, r);
        }
    }

    void store(uint64_t at, uint32_t v) { h.write(x, y, at, &v, 4); }

    // ask pushes a request word by word, as luwen does. luwen leaves the words 5 and 6 of the entry as they are, and
    // for a read of a word also the word 2.
    void ask(uint32_t tx, uint32_t ty, uint64_t at, uint32_t flags, uint32_t data, uint32_t hostAt) {
        uint32_t w = idle();
        uint64_t e = requests + entries + w % 4 * sizeof(Entry), target = chip | uint64_t(ty) << 42 | uint64_t(tx) << 36 | at;
        store(e, uint32_t(target)), store(e + 4, uint32_t(target >> 32)), store(e + 16, rack);
        if (flags != rdReq) store(e + 8, data);
        if (flags & dram) store(e + 28, hostAt);
        store(e + 12, flags);
        store(requests + wrIdx, (w + 1) % 8);
    }

    // answer waits for a completion, pops it, and returns its slot and its inline data.
    uint32_t answer(uint32_t want, uint32_t *data) {
        uint32_t r = h.word(x, y, completions + rdIdx), flags = 0;
        auto end = Clock::now() + std::chrono::seconds(30);
        while (h.word(x, y, completions + wrIdx) == r)
            if (Clock::now() > end) fail("the firmware accepts no read", r, 0);
        uint64_t e = completions + entries + r % 4 * sizeof(Entry);
        while (!(flags = h.word(x, y, e + 12)))
            if (Clock::now() > end) fail("the firmware completes no read", r, 0);
        *data = h.word(x, y, e + 8);
        same("flags of a completion", flags, want);
        store(completions + rdIdx, (r + 1) % 8);
        return r % 4;
    }

    // luwenRead reads as luwen does: a word, or a block by host memory.
    void luwenRead(uint32_t tx, uint32_t ty, uint64_t at, void *to, uint32_t n, bool memory) {
        fixup();
        uint32_t v;
        if (!memory) {
            for (uint32_t i = 0; i < n; i += 4) {
                ask(tx, ty, at + i, rdReq, 0, 0);
                answer(rdData, &v);
                memcpy((char *)to + i, &v, 4);
            }
            return;
        }
        ask(tx, ty, at, rdReq | dataBlock | dram, n, 0);
        answer(rdData | dataBlock | dram, &v);
        memcpy(to, &hostMemory[0], n);
    }

    // luwenWrite writes as luwen does.
    void luwenWrite(uint32_t tx, uint32_t ty, uint64_t at, const void *from, uint32_t n, bool memory) {
        fixup();
        if (!memory) {
            for (uint32_t i = 0, v; i < n; i += 4) memcpy(&v, (const char *)from + i, 4), ask(tx, ty, at + i, wrReq, v, 0);
            return;
        }
        memcpy(&hostMemory[0], from, n);
        ask(tx, ty, at, wrReq | dataBlock | dram, n, 0);
    }
};

struct Program {
    Discovery d;
    std::mt19937_64 random;
    std::map<uint64_t, std::vector<uint8_t>> model;  // by unique id: the bytes of L1, and then those of DRAM
    bool memory = false;                             // chips can use host memory
    bool doubts = false;                             // writes may fail
    uint64_t reads = 0, writes = 0, queued = 0, blocks = 0, bytes = 0, repeated = 0;
    double slowest = 0;  // ms

    uint64_t below(uint64_t n) { return random() % n; }

    // route returns the queues of a random tile of a random chip on PCIe, with a chip as target.
    Route route(const Chip &c) {
        const Chip &by = d.chips[d.order[below(d.onPcieChips)]];
        uint32_t ch = uint32_t(below(16));
        return Route{{*by.host, ethX[ch], ethY(ch), c.at, c.rack}};
    }

    void write(uint64_t id, uint32_t tile, uint32_t at, uint32_t n, bool first) {
        const Chip &c = d.chips[id];
        std::vector<uint8_t> b(n);
        for (auto &v : b) v = uint8_t(random());
        uint32_t tx = tile ? 0 : 1, ty = tile ? 0 : 1;
        uint64_t to = (tile ? dramAt : l1At) + at;
        if (!c.queue && !first && below(4) == 0) {
            c.host->write(tx, ty, to, b.data(), n);
            c.host->word(tx, ty, to);  // the write is posted: the read waits for it
        } else {
            queued++;
            for (int i = 0;; i++) {
                Route r = route(c);
                bool luwen = below(3) == 0, host = luwen && memory && n > 64;
                uint32_t before = r.errors();
                if (luwen && (host || n <= 64)) r.luwenWrite(tx, ty, to, b.data(), n, host);
                else
                    for (uint32_t k = 0; k < n; k += Queue::block) r.write(tx, ty, to + k, b.data() + k, std::min(n - k, +Queue::block));
                r.flush();
                if (r.errors() == before) break;
                if (!doubts || i == retries) fail("writes that failed", r.errors() - before, 0);
                repeated++;
            }
        }
        memcpy(&model[id][tile * window + at], b.data(), n);
        writes++, bytes += n;
    }

    void read(uint64_t id, uint32_t tile, uint32_t at, uint32_t n) {
        const Chip &c = d.chips[id];
        std::vector<uint8_t> b(n);
        uint32_t tx = tile ? 0 : 1, ty = tile ? 0 : 1;
        uint64_t from = (tile ? dramAt : l1At) + at;
        if (!c.queue && below(4) == 0) {
            c.host->read(tx, ty, from, b.data(), n);
        } else {
            queued++;
            Route r = route(c);
            bool luwen = below(3) == 0, host = luwen && memory && n > 64;
            if (luwen && (host || n <= 64)) r.luwenRead(tx, ty, from, b.data(), n, host);
            else
                for (uint32_t k = 0; k < n; k += Queue::block) r.read(tx, ty, from + k, b.data() + k, std::min(n - k, +Queue::block));
        }
        if (memcmp(b.data(), &model[id][tile * window + at], n)) {
            uint32_t k = 0;
            while (b[k] == model[id][tile * window + at + k]) k++;
            fprintf(stderr, "chip %#llx, tile %u-%u, byte 0x%llx, of a read of %u bytes: ", (unsigned long long)id, tx, ty, (unsigned long long)(from + k), n);
            fail("a wrong byte", b[k], model[id][tile * window + at + k]);
        }
        reads++, bytes += n;
    }

    void prepare() {
        d.run();
        for (uint64_t id : d.order) {
            model[id].resize(2 * window);
            for (uint32_t tile : {0, 1})
                for (uint32_t at = 0; at < window; at += longest / 2) write(id, tile, at, longest / 2, true);
        }
        reads = writes = queued = bytes = repeated = 0;
    }

    void step() {
        uint64_t id = d.order[below(d.order.size())];
        uint32_t tile = uint32_t(below(2)), n = 4;
        switch (below(4)) {
        case 0: n = 4 + 4 * uint32_t(below(256)); break;
        case 1: n = memory ? 4 + 4 * uint32_t(below(longest / 4)) : 32; break;
        }
        uint32_t at = uint32_t(below((window - n) / 32 + 1)) * 32;
        if (n == 4) at += 4 * uint32_t(below(8));
        at = std::min(at, window - n);
        blocks += n > 4;
        auto begin = Clock::now();
        below(2) ? write(id, tile, at, n, false) : read(id, tile, at, n);
        slowest = std::max(slowest, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
};

int main(int argc, char **argv) {
    bool jtag = argc >= 5 && !strcmp(argv[1], "-jtag");
    if (!jtag && !(argc >= 5 && !strcmp(argv[1], "-ttsim"))) return fprintf(stderr, "usage: %s -jtag|-ttsim LIBRARY CHIPS COUNT|SECONDSs [SEED]\n", argv[0]), 2;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    Program p;
    uint64_t seed = argc > 5 ? strtoull(argv[5], nullptr, 10) : std::random_device{}();
    p.random.seed(seed);
    p.memory = !jtag;
    char *unit;
    uint64_t count = strtoull(argv[4], &unit, 10);
    p.doubts = *unit == 's';
    printf("seed %llu\n", (unsigned long long)seed);
    alarm(maxSeconds);
    p.d.open(jtag, argv[2], readHost, writeHost);
    p.prepare();
    same("chips", p.d.order.size(), strtoul(argv[3], nullptr, 10));
    auto begin = Clock::now(), told = begin;
    for (uint64_t i = 0; p.doubts ? Clock::now() - begin < std::chrono::seconds(count) : i < count; i++) {
        alarm(maxSeconds);
        p.step();
        if (Clock::now() - told < std::chrono::minutes(1)) continue;
        told = Clock::now();
        printf("%.0f s: %llu writes and reads\n", std::chrono::duration<double>(told - begin).count(), (unsigned long long)(p.writes + p.reads));
    }
    printf("random by %s: %llu writes and %llu reads of %zu chips, all right; %llu through the queues, %llu of more than 4 bytes, %.1f MB, %llu writes repeated; %.1f s, the slowest took %.0f ms\n",
           jtag ? "JTAG" : "ttsim", (unsigned long long)p.writes, (unsigned long long)p.reads, p.d.order.size(), (unsigned long long)p.queued, (unsigned long long)p.blocks, double(p.bytes) / 1e6,
           (unsigned long long)p.repeated, std::chrono::duration<double>(Clock::now() - begin).count(), p.slowest);
    if (p.d.s) p.d.s->exit();
}
