// libttsim.so: the functions of ttsim's library (ttsim, docs/libttsim_api.md), by which tt-umd's
// simulation device reaches chips. Here the chips are those of a running fabric. A PCI device is a chip
// that the host reaches over PCIe, and the number of the device is the chip's id in the cluster
// descriptor beside the library.
//
// This file keeps what belongs to the PCIe end: config space, the configurations of the TLB windows,
// and the outbound address translation (iATU). Everything else is a command to the chip. As the ABI
// demands, a call that breaks the contract ends the process.

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mutex>

#include "attach.hpp"

#define EXPORT __attribute__((visibility("default")))

using namespace ttfabric;

namespace {

// PCI config space. Each device has its own range of physical addresses.
constexpr uint32_t vendor = 0x1E52;
constexpr uint32_t deviceIDs[] = {0, 0x401E, 0xB140};   // by architecture
constexpr uint32_t bar64 = 4;                           // type of a base address register: 64 bits
constexpr uint64_t physical = uint64_t(1) << 40;        // physical address of device 0
constexpr uint64_t perDevice = uint64_t(1) << 36;       // distance from one device to the next
constexpr uint64_t bar0 = 0, bar0Size = 512 << 20;      // TLB windows, their configurations, ARC
constexpr uint64_t bar2 = 1 << 30, bar2Size = 1 << 20;  // iATU
constexpr uint64_t bar4 = uint64_t(1) << 35;            // Wormhole: the end of BAR 0 once more; Blackhole: windows of 4 GiB
constexpr uint32_t devices = 32;                        // a device number has 5 bits

// Offsets in BAR 0 (tt-umd, wormhole_implementation.hpp and blackhole_implementation.hpp).
constexpr uint32_t tlbConfig = 0x1FC00000;
constexpr uint32_t csmBar = 0x1FE80000, csmLen = 0x80000, apbBar = 0x1FF00000, apbLen = 0x100000;
constexpr uint64_t csmNoc = 0x810000000, apbNoc = 0x880000000;
constexpr uint32_t arcX = 0, arcY = 10, pcieX = 0, pcieY = 3;
constexpr uint64_t bar4Size[] = {0, 32 << 20, uint64_t(32) << 30};

// Wormhole's PCIe tile shows the NoC this range of the host's memory.
constexpr uint64_t hostBase = 0x800000000, hostSize = uint64_t(4) << 30;

// Window sizes. A window's configuration begins with the upper bits of the address.
struct Windows {
    uint32_t count;  // number of windows of this size
    int bits;        // log2 of the size
};
constexpr Windows wormhole[] = {{156, 20}, {10, 21}, {20, 24}};
constexpr Windows blackhole[] = {{202, 21}, {8, 32}};
constexpr uint32_t maxWindows = 210;

// Registers of an outbound region of the iATU.
constexpr uint32_t regions = 16, regionStep = 0x200, regionRegs = 9;
constexpr uint32_t iatuAt[] = {0, 0x1200, 0x1000};  // by architecture, in BAR 2
enum { control1, control2, lowBase, highBase, lowLimit, lowTarget, highTarget, control3, highLimit };
constexpr uint32_t enabled = 1u << 31;

struct Device {
    Chip *chip;
    uint32_t window[maxWindows * 3];  // configurations: two words of 4 bytes on Wormhole, three on Blackhole
    uint32_t region[regions][regionRegs];
};

std::mutex lock;
std::unique_ptr<Fabric> fabric;
Device device[devices];
bool running;
void (*hostRead)(uint64_t, void *, uint32_t);
void (*hostWrite)(uint64_t, const void *, uint32_t);

[[noreturn]] void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fatal(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("ttfabric: libttsim: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    fflush(nullptr);
    _Exit(1);
}

// translate returns the host's physical address of an address in a chip's 4 GiB of host memory, and
// makes n shorter if the range ends first. An address outside all regions keeps its value.
uint64_t translate(const Device &d, uint64_t address, uint32_t *n) {
    for (const auto &r : d.region) {
        if (!(r[control2] & enabled)) continue;
        uint64_t base = uint64_t(r[highBase]) << 32 | r[lowBase];
        uint64_t limit = uint64_t(d.chip->arch() == Arch::blackhole ? r[highLimit] : r[highBase]) << 32 | r[lowLimit];
        if (address < base) {
            if (address + *n > base) *n = uint32_t(base - address);
        } else if (address <= limit) {
            if (limit - address < *n) *n = uint32_t(limit - address + 1);
            return (uint64_t(r[highTarget]) << 32 | r[lowTarget]) + (address - base);
        }
    }
    return address;
}

// HostMemory is the memory behind the callbacks. A callback that throws refuses the transfer.
class HostMemory : public Memory {
  public:
    uint64_t size(int) override { return hostSize; }
    bool read(int id, uint64_t address, void *to, uint32_t n) override {
        return move(id, address, n, [&](uint64_t at, uint32_t from, uint32_t size) { hostRead(at, (char *)to + from, size); }, hostRead);
    }
    bool write(int id, uint64_t address, const void *b, uint32_t n) override {
        return move(id, address, n, [&](uint64_t at, uint32_t from, uint32_t size) { hostWrite(at, (const char *)b + from, size); }, hostWrite);
    }

  private:
    template <typename Piece, typename Callback> bool move(int id, uint64_t address, uint32_t n, Piece piece, Callback callback) {
        if (!callback || id < 0 || id >= int(devices)) return false;
        try {
            for (uint32_t done = 0; done < n;) {
                uint32_t size = n - done;
                uint64_t at = translate(device[id], address + done, &size);
                piece(at, done, size);
                done += size;
            }
            return true;
        } catch (...) {
            note("the host refuses a transfer of %u bytes at 0x%llx of its memory", n, (unsigned long long)address);
            return false;
        }
    }
};
HostMemory hostMemory;

void childAfterFork() {
    if (fabric) fabric->forget();
    lock.unlock();
}

// at returns the device of a physical address, and makes the address an offset in the device's range.
Device &at(uint64_t *address, uint32_t size) {
    if (!running) fatal("an access before libttsim_init");
    if (size == 0) fatal("an access of 0 bytes");
    uint64_t n = *address < physical ? devices : (*address - physical) / perDevice;
    if (n >= devices || !device[n].chip) fatal("no device has the physical address 0x%llx", (unsigned long long)*address);
    *address = (*address - physical) % perDevice;
    return device[n];
}

// Target is where a window leads.
struct Target {
    uint64_t address;          // as in package wire: offset, x, y and NoC
    bool many;                 // the target is a rectangle of tiles
    uint32_t x, y, x0, y0;     // end and start of the rectangle
    uint64_t offset;
};

// field returns n bits of a configuration, from bit "at" on.
uint64_t field(const uint32_t *w, int at, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= uint64_t(w[(at + i) / 32] >> (at + i) % 32 & 1) << i;
    return v;
}

// target returns where an offset in the windows of a device leads. The offset is in BAR 0, or in BAR 4
// for a window of 4 GiB.
Target target(Device &d, uint64_t offset, uint32_t size, bool large) {
    bool black = d.chip->arch() == Arch::blackhole;
    uint32_t first = 0;
    const Windows *list = black ? blackhole : wormhole;
    for (size_t i = 0; i < (black ? 2 : 3); i++) {
        const Windows &w = list[i];
        if (black && large != (i == 1)) {
            first += w.count;
            continue;
        }
        if (offset >= uint64_t(w.count) << w.bits) {
            offset -= uint64_t(w.count) << w.bits;
            first += w.count;
            continue;
        }
        uint64_t within = offset & ((uint64_t(1) << w.bits) - 1);
        if (within + size > uint64_t(1) << w.bits) fatal("an access of %u bytes crosses the end of a TLB window", size);
        uint32_t number = first + uint32_t(offset >> w.bits);
        const uint32_t *c = d.window + number * (black ? 3 : 2);
        int n = (black ? 64 : 36) - w.bits;
        Target t{};
        t.offset = field(c, 0, n) << w.bits | within;
        t.x = uint32_t(field(c, n, 6)), t.y = uint32_t(field(c, n + 6, 6));
        t.x0 = uint32_t(field(c, n + 12, 6)), t.y0 = uint32_t(field(c, n + 18, 6));
        bool one = field(c, n + 24, 1);
        t.many = field(c, n + (black ? 26 : 25), 1);
        if (!fits(t.x, t.y, t.offset)) fatal("TLB window %u leads to address 0x%llx, which no tile has", number, (unsigned long long)t.offset);
        t.address = noc(t.x, t.y, t.offset, one);
        return t;
    }
    fatal("offset 0x%llx of BAR %d is no TLB window", (unsigned long long)offset, large ? 4 : 0);
}

// toHost performs an access to the host's memory behind Wormhole's PCIe tile. If the target is not
// the host's memory, toHost returns false.
bool toHost(Device &d, const Target &t, void *to, const void *from, uint32_t size) {
    if (d.chip->arch() != Arch::wormhole || t.x != pcieX || t.y != pcieY || t.address >> 60 || t.offset < hostBase || t.offset + size > hostBase + hostSize) return false;
    bool done = to ? hostMemory.read(d.chip->id(), t.offset - hostBase, to, size) : hostMemory.write(d.chip->id(), t.offset - hostBase, from, size);
    if (!done && to) memset(to, 0xff, size);
    return true;
}

// word4 checks that an access is one aligned word.
void word4(const char *what, uint64_t offset, uint32_t size) {
    if (size != 4 || offset & 3) fatal("%s: an access of %u bytes at offset 0x%llx; want an aligned word of 4 bytes", what, size, (unsigned long long)offset);
}

// region returns the register of the iATU at an offset of BAR 2.
uint32_t &region(Device &d, uint64_t offset, uint32_t size) {
    word4("BAR 2", offset, size);
    uint32_t first = iatuAt[int(d.chip->arch())];
    uint64_t n = (offset - first) / regionStep, reg = (offset - first) % regionStep / 4;
    if (offset < first || n >= regions || reg >= regionRegs) fatal("offset 0x%llx of BAR 2 is no register of an outbound region of the iATU", (unsigned long long)offset);
    return d.region[n][reg];
}

// arc returns the address in the ARC tile for an offset of Wormhole's BAR 0. For any other offset,
// arc returns 0.
uint64_t arc(Device &d, uint64_t offset, uint32_t size) {
    if (d.chip->arch() != Arch::wormhole) return 0;
    if (offset >= csmBar && offset + size <= csmBar + csmLen) return noc(arcX, arcY, csmNoc + (offset - csmBar), false);
    if (offset >= apbBar && offset + size <= uint64_t(apbBar) + apbLen) return noc(arcX, arcY, apbNoc + (offset - apbBar), false);
    return 0;
}

// config returns the configuration bytes of the TLB windows at an offset of BAR 0, or null.
uint8_t *config(Device &d, uint64_t offset, uint32_t size) {
    uint64_t len = d.chip->arch() == Arch::blackhole ? 210 * 12 : 186 * 8;
    if (offset < tlbConfig || offset + size > tlbConfig + len) return nullptr;
    if (offset & 3 || size & 3) fatal("an access of %u bytes to the configurations of the TLB windows at offset 0x%llx; want whole words", size, (unsigned long long)offset);
    return (uint8_t *)d.window + (offset - tlbConfig);
}

// place returns the BAR that holds an offset in a device's range, and makes the offset one in this BAR.
int place(Device &d, uint64_t *offset, uint32_t size) {
    uint64_t four = bar4Size[int(d.chip->arch())];
    if (*offset + size <= bar0 + bar0Size) return 0;
    if (*offset >= bar2 && *offset + size <= bar2 + bar2Size) return *offset -= bar2, 2;
    if (*offset < bar4 || *offset + size > bar4 + four) fatal("an access of %u bytes at 0x%llx, which no BAR holds", size, (unsigned long long)*offset);
    *offset -= bar4;
    if (d.chip->arch() == Arch::wormhole) return *offset += bar0Size - four, 0;
    return 4;
}

}  // namespace

extern "C" {

EXPORT void libttsim_set_pci_dma_mem_callbacks(void (*read)(uint64_t, void *, uint32_t), void (*write)(uint64_t, const void *, uint32_t)) {
    std::lock_guard<std::mutex> guard(lock);
    if (running) fatal("the DMA callbacks must be installed before libttsim_init");
    hostRead = read, hostWrite = write;
}

EXPORT void libttsim_init(void) {
    std::lock_guard<std::mutex> guard(lock);
    static bool once = pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, childAfterFork) == 0;
    (void)once;
    if (running) fatal("libttsim_init while the library runs");
    std::string why;
    fabric = Fabric::attach(&why);
    if (!fabric) fatal("%s", why.c_str());
    for (auto &c : fabric->chips()) {
        if (c->arch() != Arch::wormhole && c->arch() != Arch::blackhole) fatal("chip %s says no architecture; use libraries and chips of one release", c->name().c_str());
        if (c->id() >= int(devices)) {
            note("chip %s has id %d, and a PCI device number is at most %u; the chip is left out", c->name().c_str(), c->id(), devices - 1);
            continue;
        }
        memset(&device[c->id()], 0, sizeof(Device));
        device[c->id()].chip = c.get();
        if (hostRead || hostWrite) c->lend(&hostMemory);
    }
    running = true;
}

EXPORT void libttsim_exit(void) {
    std::lock_guard<std::mutex> guard(lock);
    if (!running) fatal("libttsim_exit before libttsim_init");
    for (auto &c : fabric->chips()) c->flush();
    for (Device &d : device) d.chip = nullptr;
    fabric.reset();
    running = false;
}

EXPORT uint32_t libttsim_pci_config_rd32(uint32_t address, uint32_t offset) {
    std::lock_guard<std::mutex> guard(lock);
    if (!running) fatal("an access before libttsim_init");
    if (address & 7 || address >> 8) fatal("bus and function of the PCI address 0x%x: want 0", address);
    if (offset & 3) fatal("offset 0x%x of the PCI config space: want a multiple of 4", offset);
    const Device &d = device[address >> 3];
    if (!d.chip) return 0xffffffff;
    uint64_t base = physical + (address >> 3) * perDevice;
    switch (offset) {
    case 0x00: return deviceIDs[int(d.chip->arch())] << 16 | vendor;
    case 0x10: return uint32_t(base + bar0) | bar64;
    case 0x14: return uint32_t((base + bar0) >> 32);
    case 0x18: return uint32_t(base + bar2) | bar64;
    case 0x1C: return uint32_t((base + bar2) >> 32);
    case 0x20: return uint32_t(base + bar4) | bar64;
    case 0x24: return uint32_t((base + bar4) >> 32);
    case 0x3C: return 0xff;  // no interrupt
    }
    return 0;
}

EXPORT void libttsim_pci_config_wr32(uint32_t, uint32_t offset, uint32_t) { fatal("a write to the PCI config space at offset 0x%x", offset); }

EXPORT void libttsim_pci_mem_rd_bytes(uint64_t paddr, void *to, uint32_t size) {
    std::lock_guard<std::mutex> guard(lock);
    Device &d = at(&paddr, size);
    int bar = place(d, &paddr, size);
    if (bar == 2) {
        memcpy(to, &region(d, paddr, size), 4);
        return;
    }
    if (bar == 0) {
        if (const uint8_t *c = config(d, paddr, size)) {
            memcpy(to, c, size);
            return;
        }
        if (uint64_t a = arc(d, paddr, size)) {
            d.chip->read(a, to, size);
            return;
        }
    }
    Target t = target(d, paddr, size, bar == 4);
    if (t.many) fatal("a read through a TLB window that leads to a rectangle");
    if (!toHost(d, t, to, nullptr, size)) d.chip->read(t.address, to, size);
}

EXPORT void libttsim_pci_mem_wr_bytes(uint64_t paddr, const void *from, uint32_t size) {
    std::lock_guard<std::mutex> guard(lock);
    Device &d = at(&paddr, size);
    int bar = place(d, &paddr, size);
    if (bar == 2) {
        memcpy(&region(d, paddr, size), from, 4);
        return;
    }
    if (bar == 0) {
        if (uint8_t *c = config(d, paddr, size)) {
            memcpy(c, from, size);
            return;
        }
        if (uint64_t a = arc(d, paddr, size)) {
            d.chip->write(a, from, size);
            return;
        }
    }
    Target t = target(d, paddr, size, bar == 4);
    if (t.many) {
        if (t.offset >> 32 || t.x0 > t.x || t.y0 > t.y) fatal("a TLB window leads to the rectangle %u-%u to %u-%u at 0x%llx", t.x0, t.y0, t.x, t.y, (unsigned long long)t.offset);
        d.chip->multicast(noc(t.x, t.y, t.offset, false) | uint64_t(t.x0) << 48 | uint64_t(t.y0) << 54, from, size);
    } else if (!toHost(d, t, nullptr, from, size)) {
        d.chip->write(t.address, from, size);
    }
}

// The chips have their own time, which libttsim_clock does not advance. The function performs the transfers of
// host memory that chips have asked for.
EXPORT void libttsim_clock(uint32_t) {
    std::lock_guard<std::mutex> guard(lock);
    if (!running) fatal("libttsim_clock before libttsim_init");
    if (!hostRead && !hostWrite) return;
    pollfd come[devices];
    for (uint32_t i = 0; i < devices; i++) come[i] = {device[i].chip ? device[i].chip->descriptor() : -1, POLLIN, 0};
    if (poll(come, devices, 0) <= 0) return;
    for (uint32_t i = 0; i < devices; i++)
        if (come[i].revents) device[i].chip->pump();
}

EXPORT void libttsim_tile_rd_bytes(uint32_t x, uint32_t y, uint64_t, void *, uint32_t) { fatal("libttsim_tile_rd_bytes at %u-%u: want an access through a BAR on Wormhole and Blackhole", x, y); }

EXPORT void libttsim_tile_wr_bytes(uint32_t x, uint32_t y, uint64_t, const void *, uint32_t) { fatal("libttsim_tile_wr_bytes at %u-%u: want an access through a BAR on Wormhole and Blackhole", x, y); }

}  // extern "C"
