// Discovery of all chips and cables of a fabric of Wormhole chips by a host that knows nothing of the topology.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "driver.hpp"

constexpr int maxBeats = 10000;  // reads of a heartbeat until it changes; the heartbeat counts milliseconds

// ProbeHost reads and writes the chip of one probe. Only one probe is open at a time.
struct ProbeHost : Host {
    static uint32_t opened;
    Jtag &j;
    uint32_t id;
    ProbeHost(Jtag &j, uint32_t id) : j(j), id(id) {}
    void use() {
        if (opened == id) return;
        same("opening a probe", unsigned(j.open(opened = id)), 0);
    }
    void read(uint32_t x, uint32_t y, uint64_t at, void *to, uint32_t n) override { use(), JtagHost(j).read(x, y, at, to, n); }
    void write(uint32_t x, uint32_t y, uint64_t at, const void *from, uint32_t n) override { use(), JtagHost(j).write(x, y, at, from, n); }
};
uint32_t ProbeHost::opened = 0xffffffff;

// Chip is a chip that the discovery has found.
struct Chip {
    std::shared_ptr<Host> host;    // for a chip on PCIe, the chip itself; for any other chip, the chip whose queues lead to this chip
    std::shared_ptr<Queue> queue;  // null: the chip is on PCIe
    uint64_t at = 0;    // position: bits 48 to 59 of an entry's target
    uint16_t rack = 0;  // rack and shelf, as in an entry
    unsigned words = 0;

    uint32_t word(uint32_t x, uint32_t y, uint64_t at) {
        words++;
        if (!queue) return host->word(x, y, at);
        uint32_t v;
        queue->read(x, y, at, &v, 4);
        return v;
    }
    void write(uint32_t x, uint32_t y, uint64_t at, uint32_t v) {
        if (!queue) return host->write(x, y, at, &v, 4);
        queue->write(x, y, at, &v, 4);
        queue->flush();
    }
    uint64_t id(uint32_t x, uint32_t y, uint64_t at) { return word(x, y, at) | uint64_t(word(x, y, at + 4)) << 32; }
};

using End = std::pair<uint64_t, uint32_t>;  // a chip, by its unique id, and a channel

struct Discovery {
    std::map<uint64_t, Chip> chips;  // by unique id
    std::vector<uint64_t> order;
    std::set<std::pair<End, End>> ends;  // each trained end of a cable, and the other end that this end reports

    void add(uint64_t id, Chip c) {
        same("chips with one unique id", chips.count(id), 0);
        chips[id] = c, order.push_back(id);
    }

    // onPcie adds a chip on PCIe. The chip has its unique id from the first trained tile.
    void onPcie(std::shared_ptr<Host> h) {
        Chip c{h, nullptr};
        for (uint32_t ch = 0; ch < 16; ch++)
            if (c.word(ethX[ch], ethY(ch), 0x1104) == 1) return add(c.id(ethX[ch], ethY(ch), 0x1FC0), c);
        fail("trained tiles of a chip", 0, 1);
    }

    // start makes sure that the management processor (ARC) works: its state, its telemetry, and message 0xAA57.
    static void start(Chip &c) {
        constexpr uint64_t apb = 0x880000000;
        same("scratch register of the ARC", c.word(0, 10, apb + 0x30060), 0xC0DE0001);
        uint64_t table = 0x800000000 + c.word(0, 10, apb + 0x301D0), values = 0x800000000 + c.word(0, 10, apb + 0x301D4);
        uint32_t n = c.word(0, 10, table + 4), board = 0;
        if (n == 0 || n > 69) fail("entries of the telemetry", n, 69);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t e = c.word(0, 10, table + 8 + 4 * i), v = c.word(0, 10, values + 4 * (e >> 16));
            if ((e & 0xffff) == 1) board = v;
        }
        if (board == 0) fail("board id in the telemetry", board, 1);
        c.write(0, 10, apb + 0x3006C, 0);
        c.write(0, 10, apb + 0x30074, 0xAA57);
        c.write(0, 10, apb + 0x30100, c.word(0, 10, apb + 0x30100) | 1 << 16);
        same("end of the message for harvesting", c.word(0, 10, apb + 0x30074), 0x57);
        c.word(0, 10, apb + 0x3006C);
    }

    // tiles reads what the ethernet tiles of a chip say, and adds neighbours that are not on PCIe.
    void tiles(uint64_t self) {
        Chip &c = chips[self];
        for (uint32_t ch = 0; ch < 16; ch++) {
            uint32_t x = ethX[ch], y = ethY(ch), beat = c.word(x, y, 0x1C);
            same("signature of a heartbeat", beat >> 16, 0xABCD);
            int tries = maxBeats;
            while (c.word(x, y, 0x1C) == beat)
                if (c.words--, --tries == 0) fail("a heartbeat that stands still", beat, 0);
            if (c.word(x, y, 0x210) >> 16 < 6) fail("version of the firmware", c.word(x, y, 0x210), 0x60000);
            uint32_t own = c.word(x, y, 0x1108);
            c.at = uint64_t(own >> 16 & 63) << 48 | uint64_t(own >> 24 & 63) << 54, c.rack = uint16_t(own);
            if (c.word(x, y, 0x1EFC) == 1 || c.word(x, y, 0x1104) != 1) continue;
            same("unique id", c.id(x, y, 0x1FC0), self);
            uint64_t far = c.id(x, y, 0x1FE0);
            ends.insert({{self, ch}, {far, c.word(x, y, 0x1FF0)}});
            if (chips.count(far)) continue;
            same("the firmware passes no requests on, and a neighbour is not on PCIe", c.word(x, y, 0x104C), 0);
            uint32_t xy = c.word(x, y, 0x1124), rack = c.word(x, y, 0x1128);
            Queue by = c.queue ? *c.queue : Queue{*c.host, x, y, 0, 0};
            by.chip = uint64_t(xy >> 16 & 63) << 48 | uint64_t(xy >> 22 & 63) << 54, by.rack = uint16_t(rack);
            add(far, Chip{c.host, std::make_shared<Queue>(by)});
        }
    }

    std::unique_ptr<Jtag> j;
    std::unique_ptr<Sim> s;
    size_t onPcieChips = 0;

    // open loads a library, and adds the chips on PCIe.
    void open(bool jtag, const char *library, void (*read)(uint64_t, void *, uint32_t) = nullptr, void (*write)(uint64_t, const void *, uint32_t) = nullptr) {
        if (jtag) {
            j = std::make_unique<Jtag>(library);
            for (uint32_t id : j->enumerate()) onPcie(std::make_shared<ProbeHost>(*j, id)), onPcieChips++;
            return;
        }
        s = std::make_unique<Sim>(library);
        if (read) s->callbacks(read, write);
        s->init();
        for (uint32_t device = 0; device < 32; device++)
            if (s->config(device << 3, 0) != 0xffffffff) onPcie(std::make_shared<SimHost>(*s, device)), onPcieChips++;
    }

    // run discovers all chips and cables.
    void run() {
        for (size_t i = 0; i < order.size(); i++) start(chips[order[i]]), tiles(order[i]);
    }
};
