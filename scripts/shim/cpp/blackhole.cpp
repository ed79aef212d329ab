// Reaches the Blackhole chips of a fabric through libttsim.so: PCI ids, TLB windows of 2 MiB and of 4 GiB, NoC
// multicast, the registers of the iATU, and the boot results by which a host discovers ethernet tiles.
//
//   blackhole LIBRARY CABLES CHIPS...      CABLES: how many there are; CHIPS: ids of the expected chips

#include <map>
#include <random>
#include <set>

#include "driver.hpp"

// TLB windows (tt-umd, blackhole_implementation.hpp): 202 of 2 MiB from the start of BAR 0 on, and 8 of 4 GiB from
// the start of BAR 4 on. A configuration has 12 bytes. The bits after those of the address are at the offsets below.
constexpr uint64_t config = 0x1FC00000;
constexpr uint32_t small = 202, large = 8;
struct Fields {
    int local, xEnd, yEnd, xStart, yStart, noc, many;
};
constexpr Fields fieldsOf2M = {21, 43, 49, 55, 61, 67, 69}, fieldsOf4G = {32, 32, 38, 44, 50, 56, 58};

static void put(uint32_t *words, int at, int n, uint64_t v) {
    for (int i = 0; i < n; i++)
        if (v >> i & 1) words[(at + i) / 32] |= 1u << (at + i) % 32;
}

// window aims a TLB window at a tile, and returns the physical address of the offset.
static uint64_t window(Sim &s, uint32_t d, uint32_t number, uint32_t x, uint32_t y, uint64_t offset, bool one = false, uint32_t x0 = 0, uint32_t y0 = 0, bool many = false) {
    const Fields &f = number < small ? fieldsOf2M : fieldsOf4G;
    uint32_t words[3] = {};
    put(words, 0, 64 - f.local, offset >> f.local);
    put(words, f.xEnd, 6, x), put(words, f.yEnd, 6, y), put(words, f.xStart, 6, x0), put(words, f.yStart, 6, y0);
    put(words, f.noc, 2, one), put(words, f.many, 1, many);
    s.write(s.bar(d, 0x10) + config + number * 12, words, sizeof words);
    uint64_t within = offset & ((uint64_t(1) << f.local) - 1);
    return number < small ? s.bar(d, 0x10) + (uint64_t(number) << 21) + within : s.bar(d, 0x20) + (uint64_t(number - small) << 32) + within;
}

// Ethernet tiles by channel, in coordinates of NoC 0.
constexpr uint32_t ethX14[] = {1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10}, ethY1 = 1;
constexpr uint64_t boot = 0x7CC00;  // boot results

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: %s LIBRARY CABLES CHIPS...\n", argv[0]), 2;
    Sim s(argv[1]);
    s.init();
    std::set<uint32_t> want;
    for (int i = 3; i < argc; i++) want.insert(uint32_t(atoi(argv[i])));
    std::mt19937 random(1);
    std::vector<uint8_t> out(1 << 20), in(out.size());
    std::map<std::pair<uint64_t, uint32_t>, std::pair<uint64_t, uint32_t>> ends;  // each end of a cable, and the other end that this end reports
    for (uint32_t d = 0; d < 32; d++) same("PCI id", s.config(d << 3, 0), want.count(d) ? 0xB1401E52 : 0xffffffff);
    for (uint32_t d : want) {
        for (uint32_t number : {0u, 100u, small - 1, small, small + large - 1}) {
            for (auto &b : out) b = uint8_t(random());
            uint64_t at = 0x20000 + number * 64;
            s.write(window(s, d, number, 16, 11, at), out.data(), 512 << 10);
            s.read(window(s, d, 7, 0, 0, at, true), in.data(), 512 << 10);  // the same tile by NoC 1
            same("memory through a TLB window", memcmp(in.data(), out.data(), 512 << 10), 0);
        }
        uint64_t top = (uint64_t(4) << 30) - out.size();  // the last bytes of a bank
        s.write(window(s, d, small + 1, 9, 0, top), out.data(), uint32_t(out.size()));
        s.read(window(s, d, 9, 9, 11, top), in.data(), uint32_t(in.size()));  // another tile of the bank
        same("the end of a bank of DRAM", in == out, 1);
        uint32_t word = 0xabcd;
        s.write(window(s, d, 1, 3, 3, 0x10000, false, 1, 2, true), &word, 4);
        for (uint32_t x : {1, 2, 3})
            for (uint32_t y : {2, 3}) s.read(window(s, d, 2, x, y, 0x10000), &word, 4), same("a word of a NoC multicast", word, 0xabcd);
        s.read(window(s, d, 2, 4, 3, 0x10000), &word, 4), same("a word outside the rectangle", word, 0);
        uint64_t region = s.bar(d, 0x18) + 0x1000 + 8 * 4;  // upper half of the limit of outbound region 0
        word = 0x12;
        s.write(region, &word, 4), word = 0, s.read(region, &word, 4);
        same("a register of the iATU", word, 0x12);
        for (uint32_t ch = 0; ch < 14; ch++) {
            auto result = [&](uint32_t i) {
                uint32_t v;
                s.read(window(s, d, 3, ethX14[ch], ethY1, boot + 4 * i), &v, 4);
                return v;
            };
            same("the result of the boot", result(0), 0xC0DEA000);
            uint32_t beat = result(28);
            same("signature of a heartbeat", beat >> 16, 0xABCD);
            for (auto end = Clock::now() + std::chrono::seconds(20); result(28) == beat;)
                if (Clock::now() > end) fail("a heartbeat that stands still", beat, 0);
            uint64_t self = uint64_t(result(245)) << 32 | result(246);
            same("the channel of a tile", result(240) >> 16 & 0xff, ch);
            if (result(1) != 1) {
                same("a port without a link: the end of the training", result(2) == 2, 0);
                continue;
            }
            same("training", result(2), 2);
            same("light from the other end", result(129), 1);
            ends[{self, ch}] = {uint64_t(result(253)) << 32 | result(254), result(248) >> 16 & 0xff};
        }
    }
    same("ends of cables", ends.size(), 2 * strtoul(argv[2], nullptr, 10));
    for (auto &[a, b] : ends)
        if (!ends.count(b) || ends[b] != a) fail("an end of a cable that the other end does not confirm", a.first, b.first);
    printf("Blackhole by ttsim: %zu devices, %zu cables, TLB windows of 2 MiB and 4 GiB, multicast, iATU, boot results: all right\n", want.size(), ends.size() / 2);
    s.exit();
}
