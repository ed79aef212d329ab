// A client of the chips of a running fabric, over the chips' Unix sockets. The format of the frames
// is in the Go package node/admin/attach, and the files of the run folder are in the package
// node/fabric/folder.
//
// The functions are for one thread at a time.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ttfabric {

// Limits. The first four are those of the protocol, the others are choices of this client.
constexpr size_t maxBlock = 1 << 20;                     // largest payload of a write or a read, in bytes
constexpr size_t maxFrame = maxBlock + 4096;             // largest frame, in bytes
constexpr size_t maxTransfer = 32 << 10;                 // largest transfer of host memory, in bytes
constexpr size_t maxPath = 107;                          // longest path of a socket, in bytes
constexpr size_t maxMulticast = 4096;                    // largest payload of a NoC multicast, in bytes
constexpr size_t maxPosted = 512;                        // largest number of writes without an answer
constexpr auto answerTime = std::chrono::seconds(10);    // a chip is lost if the chip gives no answer for this time
constexpr auto retryTime = std::chrono::milliseconds(50);  // time between two attempts to reach a lost chip
constexpr auto spinTime = std::chrono::microseconds(40); // time for which a read polls before it sleeps
constexpr size_t maxLooks = 4;                           // largest number of repeated reads of a driver that the client remembers
constexpr size_t maxWords = 8;                           // largest number of words of a repeated read; tt-umd polls both indices of a queue by one read of 8 words
constexpr int maxEqual = 1;                              // number of successive reads without a changed word after which the chip holds the next remembered read
constexpr uint32_t holdFirst = 250, holdMost = 1000;     // longest time of the first holds in µs, and of later holds if no word changes
constexpr unsigned spinEvery = 16;                       // if the last answer came later than spinTime, only every spinEvery-th read polls
constexpr int maxNotes = 50;                             // largest number of messages of one process

// Architectures, as in the answer to a hello.
enum class Arch : uint8_t { unknown, wormhole, blackhole };

// noc returns the address of a byte in a tile, in coordinates of NoC 0 or of NoC 1.
inline uint64_t noc(uint32_t x, uint32_t y, uint64_t offset, bool one) {
    return offset | uint64_t(x) << 36 | uint64_t(y) << 42 | (one ? uint64_t(1) << 60 : 0);
}

// fits reports whether noc can express an address.
inline bool fits(uint32_t x, uint32_t y, uint64_t offset) { return x < 64 && y < 64 && offset < uint64_t(1) << 36; }

// nocText returns the text of an address, such as 8-6:0x170.
std::string nocText(uint64_t address);

// note prints a message for people on the standard error output.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Memory is a host's memory that chips read and write.
class Memory {
  public:
    virtual ~Memory() = default;
    virtual uint64_t size(int chip) = 0;                                                // size of the memory that a chip may read and write, in bytes
    virtual bool read(int chip, uint64_t address, void *to, uint32_t n) = 0;            // returns false if the memory refuses
    virtual bool write(int chip, uint64_t address, const void *from, uint32_t n) = 0;
};

// Chip is a connection to a chip. While the connection is lost, all bits of reads are 1 and writes
// are dropped, as with a device that has left the PCIe bus. When the chip runs again, the Chip
// connects again.
class Chip {
  public:
    explicit Chip(std::string path);
    ~Chip();
    Chip(const Chip &) = delete;
    Chip &operator=(const Chip &) = delete;

    bool connect();                  // connects if there is no connection; returns whether there is one then
    bool connected() const { return fd_ >= 0; }
    void forget();                   // closes the connection; the next call connects anew
    int descriptor() const { return fd_; }

    std::string name() const;        // such as M0D0
    Arch arch() const { return arch_; }
    bool mmio() const { return mmio_; }
    int id() const { return id_; }   // id in a cluster descriptor
    int mesh() const { return mesh_; }

    bool read(uint64_t address, void *to, size_t n);           // waits for the answer; after a failure, sets all bits to 1 and returns false
    void write(uint64_t address, const void *from, size_t n);  // sends the write, and does not wait for its end
    void multicast(uint64_t rectangle, const void *from, size_t n);  // writes to the Tensix tiles of a rectangle, without waiting
    void flush();                                              // waits until all writes have ended
    void lend(Memory *memory);                                 // lets the chip read and write the host's memory, now and after each new connection
    void pump();                                               // performs the frames that have come, without waiting
    void *map(uint32_t x, uint32_t y, size_t *n);              // maps the L1 of an ethernet tile, whose n bytes can be used while the chip is connected; null: the chip has refused, and a message has the reason

  private:
    struct Posted {
        uint64_t number, address;
        uint32_t n;
    };
    struct Look {  // a remembered read: n words of 4 bytes, and the values that the driver got
        uint64_t address;
        size_t n;
        uint32_t words[maxWords];
    };
    bool hello();
    bool startLend();
    bool readAll(uint64_t address, void *to, size_t n);
    size_t polled(uint64_t address, size_t n) const;
    void unpoll(size_t i);
    bool hold(size_t i, void *to);
    bool send(const void *head, size_t n, const void *payload, size_t size);
    bool command(uint8_t type, uint64_t address, uint32_t n, const void *payload, size_t size);
    bool receive(bool wait, std::chrono::steady_clock::time_point since);
    void room(size_t n);
    bool await(uint64_t number, void *to, size_t n, bool *done);
    bool frames(uint64_t number, void *to, size_t n, bool *found, bool *done);
    bool transfer(const uint8_t *body, size_t n);
    void lost(const char *why);

    std::string path_;
    int fd_ = -1;
    bool told_ = false;  // a message said that the chip is lost
    std::chrono::steady_clock::time_point next_{};
    bool soon_ = false;   // the last answer came within spinTime
    unsigned late_ = 0;   // number of reads so far that followed an answer later than spinTime
    std::array<Look, maxLooks> polled_{};  // the driver's last short reads, the oldest first
    size_t polls_ = 0;              // number of reads in polled_
    int equal_ = 0;                 // number of reads in a row that were in polled_ already, with the same words

    Arch arch_ = Arch::unknown;
    bool mmio_ = false;
    int id_ = 0, mesh_ = 0, chip_ = 0;

    uint64_t number_ = 0;   // number of the last request
    size_t inFlight_ = 0;   // requests without an answer
    std::vector<Posted> posted_;
    std::vector<uint8_t> in_, moved_;
    size_t from_ = 0, to_ = 0;  // in_[from_:to_] are the received bytes whose frames are not performed yet
    Memory *memory_ = nullptr;
    int passed_ = -1;  // file that came with an answer; -1: none
};

// Fabric holds the chips of a running fabric that a host reaches over PCIe.
class Fabric {
  public:
    // attach finds the fabric that the environment variable TTFABRIC_NAME names, or the only
    // running fabric. In a fabric of several meshes, attach takes the mesh that TTFABRIC_MESH
    // names, or the first mesh. If there is no such fabric or mesh, attach returns null, and the
    // reason in "why".
    static std::unique_ptr<Fabric> attach(std::string *why);

    const std::vector<std::unique_ptr<Chip>> &chips() const { return chips_; }  // sorted by id
    Chip *chip(int id);                                                         // null: none
    bool intact() const;                                                        // all chips are connected
    void forget();                                                              // closes all connections; a child process calls forget after fork(2)

  private:
    std::vector<std::unique_ptr<Chip>> chips_;
};

}  // namespace ttfabric
