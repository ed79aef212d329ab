// libtt_umd_jtag.so: the library that tt-umd loads from ./build/lib to reach chips over JTAG
// (tt-umd, device/jtag/jtag.cpp). Here the chips are those of a running fabric. tt-umd calls eight
// functions. Each probe (J-Link) is a chip that the host reaches over PCIe, and the probe's serial
// number is the chip's id in a cluster descriptor.

#include <pthread.h>

#include <mutex>
#include <numeric>
#include <unordered_set>

#include "attach.hpp"

#define EXPORT __attribute__((visibility("default")))

using namespace ttfabric;

namespace {

std::mutex lock;
std::unique_ptr<Fabric> fabric;
Chip *chip;  // the chip whose probe was opened last; null: none

// The ARC tile of a Wormhole chip shows the NoC the ARC's address space from this offset on. An AXI
// address is an address in this space (tt-umd, wormhole_implementation.hpp, ARC_NOC_ADDRESS_START).
constexpr uint32_t arcX = 0, arcY = 10;
constexpr uint64_t arcBase = 0x800000000;

void beforeFork() { lock.lock(); }
void parentAfterFork() { lock.unlock(); }
void childAfterFork() {
    if (fabric) fabric->forget();
    lock.unlock();
}

// find finds the fabric, or finds it again if a chip was lost.
void find() {
    static bool once = pthread_atfork(beforeFork, parentAfterFork, childAfterFork) == 0;
    (void)once;
    if (fabric && fabric->intact()) return;
    int open = chip ? chip->id() : -1;
    chip = nullptr;
    std::string why;
    fabric = Fabric::attach(&why);
    if (!fabric) note("%s", why.c_str());
    if (fabric && open >= 0) chip = fabric->chip(open);
}

uint32_t load(uint32_t x, uint32_t y, uint64_t address, bool one) {
    uint32_t word = 0xffffffff;
    if (!chip || !fits(x, y, address))
        note("a read at %u-%u:0x%llx: %s", x, y, (unsigned long long)address, chip ? "there is no such address" : "no probe was opened");
    else
        chip->read(noc(x, y, address, one), &word, sizeof word);
    return word;
}

void store(uint32_t x, uint32_t y, uint64_t address, uint32_t data, bool one) {
    if (!chip || !fits(x, y, address))
        note("a write at %u-%u:0x%llx: %s", x, y, (unsigned long long)address, chip ? "there is no such address" : "no probe was opened");
    else
        chip->write(noc(x, y, address, one), &data, sizeof data);
}

}  // namespace

// tt_enumerate_jlink returns the serial numbers of all probes. tt-umd puts the numbers into a
// std::unordered_set, and numbers the chips in the order of this set. The function returns the numbers in an order
// for which the set of the same C++ library is sorted. So tt-umd gives the chips the ids that they have in the
// cluster descriptor. The name of the function is that of a C++ function, _Z18tt_enumerate_jlinkv.
EXPORT std::vector<uint32_t> tt_enumerate_jlink() {
    std::lock_guard<std::mutex> guard(lock);
    find();
    std::vector<uint32_t> ids;
    if (!fabric) return ids;
    ids.resize(fabric->chips().size());
    std::iota(ids.begin(), ids.end(), 0);
    std::unordered_set<int> places(ids.begin(), ids.end());
    size_t i = 0;
    for (int p : places) ids[size_t(p)] = uint32_t(fabric->chips()[i++]->id());
    return ids;
}

extern "C" {

// tt_open_jlink_by_serial_wrapper opens a probe. The result is 0, or 1 if there is no such probe.
EXPORT int tt_open_jlink_by_serial_wrapper(unsigned int serial) {
    std::lock_guard<std::mutex> guard(lock);
    if (!fabric) find();
    chip = fabric ? fabric->chip(int(serial)) : nullptr;
    return chip ? 0 : 1;
}

// tt_close_jlink closes the probe. The other functions still use the chip of this probe until the next
// probe is opened. The reason: tt-umd makes one object for each chip, and each new object opens and closes
// all probes. tt-umd then still reads and writes through the probe that an earlier object opened
// (JtagDevice::create, select_device).
EXPORT void tt_close_jlink() {}

// tt_get_device_family returns 1 for Wormhole, 2 for Blackhole and 0 if no probe was opened (tt-umd,
// jtag_device.hpp, DeviceFamily).
EXPORT uint32_t tt_get_device_family() {
    std::lock_guard<std::mutex> guard(lock);
    return chip ? uint32_t(chip->arch()) : 0;
}

// tt_read_axi reads a word of the ARC's address space.
EXPORT uint32_t tt_read_axi(uint32_t address) {
    std::lock_guard<std::mutex> guard(lock);
    return load(arcX, arcY, arcBase + address, false);
}

// tt_write_axi writes a word of the ARC's address space.
EXPORT void tt_write_axi(uint32_t address, uint32_t data) {
    std::lock_guard<std::mutex> guard(lock);
    store(arcX, arcY, arcBase + address, data, false);
}

// tt_read_noc_xy reads a word of a tile. The coordinates are those of the NoC that the last argument
// names, 0 or 1, or are translated coordinates.
EXPORT uint32_t tt_read_noc_xy(uint32_t x, uint32_t y, uint64_t address, uint8_t one) {
    std::lock_guard<std::mutex> guard(lock);
    return load(x, y, address, one != 0);
}

// tt_write_noc_xy writes a word of a tile, and does not wait for the write.
EXPORT void tt_write_noc_xy(uint32_t x, uint32_t y, uint64_t address, uint32_t data, uint8_t one) {
    std::lock_guard<std::mutex> guard(lock);
    store(x, y, address, data, one != 0);
}

}  // extern "C"
