// Discovers all chips and cables of a running fabric of Wormhole chips through one of the two libraries. The
// program makes the reads of tt-umd's discovery, word by word. The program knows nothing of the topology. Chips
// that are not on PCIe are read through the firmware queues of a neighbour.
//
//   discover -jtag LIBRARY CHIPS CABLES       CHIPS, CABLES: how many there are
//   discover -ttsim LIBRARY CHIPS CABLES

#include <unistd.h>

#include "discovery.hpp"

// Limits.
constexpr unsigned maxSeconds = 300;  // a discovery that hangs ends after this time
constexpr unsigned maxWords = 700;    // largest number of words that the discovery may read of one chip

int main(int argc, char **argv) {
    bool jtag = argc == 5 && !strcmp(argv[1], "-jtag");
    if (!jtag && !(argc == 5 && !strcmp(argv[1], "-ttsim"))) return fprintf(stderr, "usage: %s -jtag|-ttsim LIBRARY CHIPS CABLES\n", argv[0]), 2;
    alarm(maxSeconds);
    auto begin = Clock::now();
    Discovery d;
    d.open(jtag, argv[2]);
    d.run();
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    same("chips", d.order.size(), strtoul(argv[3], nullptr, 10));
    unsigned words = 0;
    for (auto &[id, c] : d.chips) {
        if (c.words > maxWords) fail("words read of one chip", c.words, maxWords);
        words += c.words;
    }
    for (auto &[a, b] : d.ends)
        if (!d.ends.count({b, a})) fail("an end of a cable that the other end does not confirm", a.first, b.first);
    same("ends of cables", d.ends.size(), 2 * strtoul(argv[4], nullptr, 10));
    printf("discovery by %s: %zu chips, %zu of them on PCIe, and %zu cables; %u words in %.2f s\n", jtag ? "JTAG" : "ttsim", d.order.size(), d.onPcieChips, d.ends.size() / 2, words, seconds);
    if (d.s) d.s->exit();
}
