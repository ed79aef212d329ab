#include "attach.hpp"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

namespace ttfabric {

using Clock = std::chrono::steady_clock;

namespace {

// Sizes and kinds of frames.
constexpr size_t headLen = 16, commandLen = 48, resultLen = 32, holdLen = 8, heldLen = 16, wordLen = 4, memberLen = 12, transferLen = 24, movedLen = 16;
enum Kind : uint8_t { kindHello = 1, kindCommand = 2, kindTile = 12, kindLend = 13, kindMoved = 14, kindHold = 15, answer = 128, kindTransfer = 145, kindError = 255 };
enum Type : uint8_t { typeWrite = 0, typeMulticast = 5, typeRead = 7 };
constexpr uint16_t version = 1;

const char *const fates[] = {"done", "refused", "lost", "unknown", "posted"};
const char *const outcomes[] = {"done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted",
                                "too many exceptions", "out of memory", "flow unknown", "harvested tile", "untranslated coordinates",
                                "no host memory", "host gone"};

template <typename T> T get(const uint8_t *p) {
    T v;
    memcpy(&v, p, sizeof v);
    return v;
}

template <typename T> void put(uint8_t *p, T v) { memcpy(p, &v, sizeof v); }

void putHead(uint8_t *p, uint8_t kind, uint64_t number, size_t body) {
    put<uint32_t>(p, uint32_t(headLen + body));
    put<uint32_t>(p + 4, kind);
    put<uint64_t>(p + 8, number);
}

}  // namespace

std::string nocText(uint64_t a) {
    char b[64];
    snprintf(b, sizeof b, "%u-%u:0x%llx%s", unsigned(a >> 36 & 63), unsigned(a >> 42 & 63), (unsigned long long)(a & ((1ull << 36) - 1)), a >> 60 & 1 ? " of NoC 1" : "");
    return b;
}

void note(const char *format, ...) {
    static int notes = 0;
    if (++notes > maxNotes + 1) return;
    char b[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(b, sizeof b, format, args);
    va_end(args);
    fprintf(stderr, "ttfabric: %s\n", notes > maxNotes ? "further messages are left out" : b);
}

Chip::Chip(std::string path) : path_(std::move(path)), posted_(2 * maxPosted) {}

Chip::~Chip() { forget(); }

std::string Chip::name() const {
    if (arch_ == Arch::unknown) return "at " + path_;
    return "M" + std::to_string(mesh_) + "D" + std::to_string(chip_);
}

void Chip::forget() {
    if (fd_ >= 0) close(fd_);
    if (passed_ >= 0) close(passed_);
    fd_ = passed_ = -1;
    from_ = to_ = inFlight_ = 0;
}

void Chip::lost(const char *why) {
    forget();
    if (!told_) note("the connection to chip %s is lost: %s; all bits of reads are 1 until the chip runs again", name().c_str(), why);
    told_ = true;
    next_ = Clock::now() + retryTime;
}

bool Chip::connect() {
    if (fd_ >= 0) return true;
    if (Clock::now() < next_) return false;
    next_ = Clock::now() + retryTime;
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path_.size() > maxPath) return false;
    memcpy(a.sun_path, path_.c_str(), path_.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return false;
    if (::connect(fd_, (sockaddr *)&a, sizeof a) != 0 || !hello() || !startLend()) {
        forget();
        return false;
    }
    if (told_) note("chip %s runs again", name().c_str());
    told_ = false;
    return true;
}

// hello says hello, and reads what the chip says about itself.
bool Chip::hello() {
    uint8_t b[headLen + 16] = {};
    putHead(b, kindHello, ++number_, 16);
    memcpy(b + headLen, "TTATTACH", 8);
    put<uint16_t>(b + headLen + 8, version);
    if (!send(b, sizeof b, nullptr, 0)) return false;
    auto begin = Clock::now();
    while (to_ < headLen || to_ < get<uint32_t>(&in_[0])) {
        if (to_ >= 4 && get<uint32_t>(&in_[0]) > maxFrame) return false;
        if (!receive(true, begin)) return false;
    }
    uint32_t n = get<uint32_t>(&in_[0]);
    const uint8_t *body = &in_[headLen];
    if (in_[4] == kindError && n >= headLen + 4) {
        note("the chip at %s refuses this program: %.*s", path_.c_str(), int(n - headLen - 4), (const char *)body + 4);
        return false;
    }
    if (in_[4] != kindHello + answer || n < headLen + 32) return false;
    mesh_ = get<uint16_t>(body + 2), chip_ = get<uint16_t>(body + 4);
    arch_ = Arch(body[28]), mmio_ = body[29] == 1, id_ = get<uint16_t>(body + 30);
    from_ = n;
    return true;
}

void Chip::lend(Memory *memory) {
    memory_ = memory;
    if (fd_ >= 0 && !startLend()) lost("the chip does not take the host's memory");
}

// If the driver has lent host memory, startLend tells the chip that the chip may read and write
// this memory.
bool Chip::startLend() {
    if (!memory_) return true;
    uint8_t b[headLen + 8];
    putHead(b, kindLend, ++number_, 8);
    put<uint64_t>(b + headLen, memory_->size(id_));
    bool done = false;
    inFlight_++;
    if (!send(b, sizeof b, nullptr, 0) || !await(number_, nullptr, 0, &done)) return false;
    if (!done) {
        note("chip %s does not take the host's memory, so that requests with data in host memory do not reach the memory of this program", name().c_str());
        memory_ = nullptr;
    }
    return true;
}

// send sends all bytes. While the socket has no room, send receives the chip's frames, because the
// chip may wait until its frames are read.
bool Chip::send(const void *head, size_t n, const void *payload, size_t size) {
    iovec v[2] = {{const_cast<void *>(head), n}, {const_cast<void *>(payload), size}};
    msghdr m{};
    m.msg_iov = v;
    m.msg_iovlen = size ? 2 : 1;
    auto begin = Clock::now();
    while (m.msg_iovlen) {
        ssize_t sent = sendmsg(fd_, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            pollfd p{fd_, POLLIN | POLLOUT, 0};
            if (Clock::now() - begin > answerTime) return lost("the chip takes no requests"), false;
            if (poll(&p, 1, 100) > 0 && (p.revents & POLLIN) && !receive(false, begin)) return false;
            continue;
        }
        if (sent < 0) return lost(strerror(errno)), false;
        while (m.msg_iovlen && size_t(sent) >= m.msg_iov->iov_len) {
            sent -= m.msg_iov->iov_len;
            m.msg_iov++, m.msg_iovlen--;
        }
        if (m.msg_iovlen) m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + sent, m.msg_iov->iov_len -= sent;
    }
    return true;
}

// room makes room for n more received bytes.
void Chip::room(size_t n) {
    if (from_ == to_) from_ = to_ = 0;
    if (to_ + n <= in_.size()) return;
    memmove(in_.data(), in_.data() + from_, to_ - from_);
    to_ -= from_, from_ = 0;
    if (to_ + n > in_.size()) in_.resize(std::max(to_ + n, 2 * in_.size()));
}

// receive reads the received bytes. With "wait", receive waits for at least one byte. receive polls
// before it sleeps, because the wake-up of a sleeping thread takes time. But if all cores are busy,
// polling keeps the chip from its core, and the answer comes only after spinTime. Most of the next
// reads then do not poll.
bool Chip::receive(bool wait, Clock::time_point since) {
    room(1 << 16);
    auto begin = Clock::now();
    for (bool spin = soon_ || (wait && ++late_ % spinEvery == 0);;) {
        alignas(cmsghdr) char rights[CMSG_SPACE(sizeof(int))];
        iovec v{&in_[to_], in_.size() - to_};
        msghdr m{};
        m.msg_iov = &v, m.msg_iovlen = 1;
        m.msg_control = rights, m.msg_controllen = sizeof rights;
        ssize_t n = recvmsg(fd_, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n > 0) {
            if (cmsghdr *c = CMSG_FIRSTHDR(&m); c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                if (passed_ >= 0) close(passed_);
                memcpy(&passed_, CMSG_DATA(c), sizeof passed_);
            }
            to_ += n;
            if (wait) soon_ = Clock::now() - begin < spinTime;
            return true;
        }
        if (n == 0) return lost("the chip has closed it"), false;
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return lost(strerror(errno)), false;
        if (!wait) return true;
        auto now = Clock::now();
        if (spin && now - begin < spinTime) continue;
        if (now - since > answerTime) return lost("the chip does not answer"), false;
        pollfd p{fd_, POLLIN, 0};
        poll(&p, 1, 100);
    }
}

// await receives until the answer to a request has come, and performs all frames before the answer.
// The result is false if the connection is lost. *done is true if the chip performed the request.
bool Chip::await(uint64_t number, void *to, size_t n, bool *done) {
    auto begin = Clock::now();
    for (bool found = false;;) {
        if (!frames(number, to, n, &found, done)) return false;
        if (found) return true;
        if (!receive(true, begin)) return false;
    }
}

// frames performs all frames that have come whole.
bool Chip::frames(uint64_t number, void *to, size_t n, bool *found, bool *done) {
    while (to_ - from_ >= headLen) {
        uint32_t len = get<uint32_t>(&in_[from_]);
        if (len < headLen || len > maxFrame) return lost("the chip sent a frame of a bad length"), false;
        if (to_ - from_ < len) return room(len - (to_ - from_)), true;
        uint8_t kind = in_[from_ + 4];
        uint64_t of = get<uint64_t>(&in_[from_ + 8]);
        const uint8_t *body = &in_[from_ + headLen];
        size_t size = len - headLen;
        from_ += len;
        if (kind == kindTransfer) {
            if (!transfer(body, size)) return false;
            continue;
        }
        if (inFlight_ > 0 && of) inFlight_--;
        const Posted &p = posted_[of % posted_.size()];
        std::string where = p.number == of ? " of " + std::to_string(p.n) + " bytes at " + nocText(p.address) : "";
        bool good = kind == kindLend + answer || ((kind == kindTile + answer || kind == kindHold + answer) && size == n);
        if (good && of == number && n) memcpy(to, body, n);
        if (kind == kindError && size >= 4) {
            note("chip %s refuses a request%s: %.*s", name().c_str(), where.c_str(), int(size - 4), (const char *)body + 4);
            if (!of) return lost("the chip does not understand this program"), false;
        } else if (kind == kindCommand + answer && size >= resultLen) {
            size_t data = get<uint32_t>(body + 28), members = get<uint32_t>(body + 24);
            if (data > size || members > size / memberLen || resultLen + members * memberLen + data != size) return lost("the chip sent a bad result"), false;
            good = body[0] == 0 && (of != number || data == n);
            if (good && of == number && n) memcpy(to, body + size - data, n);
            if (body[0] != 0)
                note("chip %s: a request%s ended as %s: %s", name().c_str(), where.c_str(), body[0] < 5 ? fates[body[0]] : "?", body[1] < sizeof outcomes / sizeof *outcomes ? outcomes[body[1]] : "?");
        }
        if (of == number) *found = true, *done = good;
    }
    return true;
}

// transfer performs a transfer of host memory.
bool Chip::transfer(const uint8_t *body, size_t n) {
    if (n < transferLen) return lost("the chip sent a bad transfer"), false;
    uint64_t id = get<uint64_t>(body), address = get<uint64_t>(body + 8);
    uint32_t size = get<uint32_t>(body + 20);
    bool write = body[16] == 1;
    if (size > maxTransfer || n != transferLen + (write ? size : 0)) return lost("the chip sent a bad transfer"), false;
    moved_.resize(headLen + movedLen + maxTransfer);
    uint8_t *b = moved_.data();
    memset(b, 0, headLen + movedLen);
    size_t data = write ? 0 : size;
    bool done = memory_ && (write ? memory_->write(id_, address, body + transferLen, size) : memory_->read(id_, address, b + headLen + movedLen, size));
    if (!done) data = 0;
    putHead(b, kindMoved, ++number_, movedLen + data);
    put<uint64_t>(b + headLen, id);
    b[headLen + 8] = done ? 0 : 1;
    return send(b, headLen + movedLen + data, nullptr, 0);
}

// command sends a command to the chip's own memory.
bool Chip::command(uint8_t type, uint64_t address, uint32_t n, const void *payload, size_t size) {
    uint8_t b[headLen + commandLen] = {};
    putHead(b, kindCommand, ++number_, commandLen + size);
    put<uint16_t>(b + headLen, uint16_t(mesh_));
    put<uint16_t>(b + headLen + 2, uint16_t(chip_));
    b[headLen + 4] = type;
    put<uint64_t>(b + headLen + 8, address);
    put<uint32_t>(b + headLen + 28, n);
    posted_[number_ % posted_.size()] = {number_, address, n};
    inFlight_++;
    return send(b, sizeof b, payload, size);
}

// A driver that polls words keeps its own core and the core of its chip busy. On a machine with few cores,
// the chip that must answer the driver's request then gets no core. So the chip holds the answer to
// a repeated read until a word of the last reads has changed.
bool Chip::read(uint64_t address, void *to, size_t n) {
    if (n == 0 || n > maxWords * wordLen || n % wordLen || address % wordLen) return readAll(address, to, n);
    size_t i = polled(address, n / wordLen);
    bool again = polls_ > 0 && i == polls_ - 1;
    bool held = i < polls_ && (again || equal_ >= maxEqual) && hold(i, to);
    if (!held && !readAll(address, to, n)) return polls_ = equal_ = 0, false;
    i = polled(address, n / wordLen);
    equal_ = i < polls_ && memcmp(polled_[i].words, to, n) == 0 ? equal_ + 1 : 0;
    if (i < polls_ || polls_ == maxLooks) unpoll(i % maxLooks);
    Look &l = polled_[polls_++];
    l.address = address, l.n = n / wordLen;
    memcpy(l.words, to, n);
    return true;
}

// polled returns the index in polled_ of the read of n words at an address. If polled_ has no such
// read, polled returns polls_.
size_t Chip::polled(uint64_t address, size_t n) const {
    size_t i = 0;
    while (i < polls_ && (polled_[i].address != address || polled_[i].n != n)) i++;
    return i;
}

// unpoll removes a read from polled_.
void Chip::unpoll(size_t i) { std::copy(&polled_[i] + 1, &polled_[0] + polls_--, &polled_[i]); }

// hold waits until a word of the driver's last reads has changed, at most for the time holdFirst or
// holdMost. If a word of read i has changed, hold returns true, and stores the new words of this
// read in "to". Otherwise the driver must read the words: some words, such as a heartbeat, change
// only when they are read. hold forgets other reads whose words have changed, so that the next hold
// waits for words that the driver knows.
bool Chip::hold(size_t i, void *to) {
    if (!connect()) return false;
    uint8_t b[headLen + holdLen + maxLooks * maxWords * heldLen] = {};
    size_t words = 0;
    for (size_t k = 0; k < polls_; k++)
        for (size_t w = 0; w < polled_[k].n; w++, words++) {
            uint8_t *p = b + headLen + holdLen + words * heldLen;
            put<uint64_t>(p, polled_[k].address + w * wordLen), put<uint32_t>(p + 8, polled_[k].words[w]);
        }
    putHead(b, kindHold, ++number_, holdLen + words * heldLen);
    put<uint32_t>(b + headLen, equal_ > 2 * maxEqual ? holdMost : holdFirst);
    uint32_t now[maxLooks * maxWords];
    bool done = false, changed = false;
    inFlight_++;
    soon_ = false;
    if (!send(b, headLen + holdLen + words * heldLen, nullptr, 0) || !await(number_, now, words * wordLen, &done) || !done) return false;
    soon_ = true;
    for (size_t k = polls_; k-- > 0;) {
        const Look &l = polled_[k];
        words -= l.n;
        if (memcmp(l.words, now + words, l.n * wordLen) == 0) continue;
        if (k == i) memcpy(to, now + words, l.n * wordLen), changed = true;
        else unpoll(k);
    }
    return changed;
}

bool Chip::readAll(uint64_t address, void *to, size_t n) {
    bool all = true;
    for (size_t at = 0; at < n; at += maxBlock) {
        size_t piece = std::min(n - at, maxBlock);
        bool done = false;
        if (!connect() || !command(typeRead, address + at, uint32_t(piece), nullptr, 0) || !await(number_, (char *)to + at, piece, &done) || !done) {
            memset((char *)to + at, 0xff, piece);
            all = false;
        }
    }
    return all;
}

void Chip::write(uint64_t address, const void *from, size_t n) {
    for (size_t at = 0; at < n; at += maxBlock) {
        size_t piece = std::min(n - at, maxBlock);
        if (!connect() || !command(typeWrite, address + at, uint32_t(piece), (const char *)from + at, piece)) return;
    }
    if (inFlight_ > maxPosted / 2) pump();
    if (inFlight_ >= maxPosted) flush();
}

void *Chip::map(uint32_t x, uint32_t y, size_t *n) {
    uint8_t b[headLen + 8] = {};
    if (!connect()) return nullptr;
    putHead(b, kindTile, ++number_, 8);
    b[headLen] = uint8_t(x), b[headLen + 1] = uint8_t(y);
    uint64_t size = 0;
    bool done = false;
    inFlight_++;
    if (!send(b, sizeof b, nullptr, 0) || !await(number_, &size, sizeof size, &done) || !done || passed_ < 0) return nullptr;
    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, passed_, 0);
    close(passed_);
    passed_ = -1;
    if (at == MAP_FAILED) return note("cannot map tile %u-%u: %s", x, y, strerror(errno)), nullptr;
    *n = size;
    return at;
}

void Chip::multicast(uint64_t rectangle, const void *from, size_t n) {
    for (size_t at = 0; at < n; at += maxMulticast) {
        size_t piece = std::min(n - at, maxMulticast);
        if (!connect() || !command(typeMulticast, rectangle + at, uint32_t(piece), (const char *)from + at, piece)) return;
        if (inFlight_ >= maxPosted) flush();
    }
}

void Chip::flush() {
    auto begin = Clock::now();
    bool found = false, done = false;
    while (fd_ >= 0 && inFlight_ > 0 && frames(0, nullptr, 0, &found, &done) && inFlight_ > 0 && receive(true, begin)) {
    }
}

void Chip::pump() {
    bool found = false, done = false;
    if (fd_ >= 0 && receive(false, Clock::now())) frames(0, nullptr, 0, &found, &done);
}

namespace {

// root returns the folder of all fabrics of this user.
std::string root() {
    const char *d = getenv("XDG_RUNTIME_DIR");
    if (d && d[0] == '/') return std::string(d) + "/ttfabric";
    d = getenv("TMPDIR");
    return std::string(d && *d ? d : "/tmp") + "/ttfabric-" + std::to_string(getuid());
}

// isPrivate reports whether a folder belongs to this user alone, so that no other user can have put files there.
bool isPrivate(const std::string &path) {
    struct stat s;
    return lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == getuid() && !(s.st_mode & 022);
}

std::vector<std::string> list(const std::string &folder) {
    std::vector<std::string> names;
    DIR *d = opendir(folder.c_str());
    if (!d) return names;
    while (dirent *e = readdir(d))
        if (e->d_name[0] != '.') names.push_back(e->d_name);
    closedir(d);
    std::sort(names.begin(), names.end());
    return names;
}

// reach connects to all chips of the fabric with a run folder. Chips in containers have their sockets in the
// folder "sockets" of the run folder.
std::vector<std::unique_ptr<Chip>> reach(const std::string &folder) {
    std::vector<std::unique_ptr<Chip>> chips;
    if (!isPrivate(folder) || access((folder + "/mesh.json").c_str(), R_OK) != 0) return chips;
    for (const std::string &place : {folder, folder + "/sockets"})
        for (const std::string &file : list(place)) {
            int mesh, chip, end = 0;
            if (sscanf(file.c_str(), "chip-M%dD%d.sock%n", &mesh, &chip, &end) != 2 || size_t(end) != file.size()) continue;
            auto c = std::make_unique<Chip>(place + "/" + file);
            if (c->connect()) chips.push_back(std::move(c));
        }
    return chips;
}

}  // namespace

std::unique_ptr<Fabric> Fabric::attach(std::string *why) {
    std::vector<std::string> names;
    std::vector<std::unique_ptr<Chip>> found;
    const std::string in = root();
    const char *name = getenv("TTFABRIC_NAME");
    for (const std::string &n : name && *name ? std::vector<std::string>{name} : isPrivate(in) ? list(in) : std::vector<std::string>{}) {
        auto chips = reach(in + "/" + n);
        if (chips.empty()) continue;
        names.push_back(n);
        found = std::move(chips);
    }
    if (names.empty()) {
        *why = name && *name ? "no fabric named " + std::string(name) + " runs on this machine as this user; the environment variable TTFABRIC_NAME names it"
                             : "no fabric runs on this machine as this user; start one with 'ttfabric up'";
        return nullptr;
    }
    if (names.size() > 1) {
        *why = "several fabrics run; set the environment variable TTFABRIC_NAME to one of:";
        for (const std::string &n : names) *why += " " + n;
        return nullptr;
    }
    int mesh = found[0]->mesh();
    for (auto &c : found) mesh = std::min(mesh, c->mesh());
    if (const char *m = getenv("TTFABRIC_MESH"); m && *m) mesh = atoi(m);
    auto f = std::make_unique<Fabric>();
    for (auto &c : found)
        if (c->mesh() == mesh && c->mmio()) f->chips_.push_back(std::move(c));
    std::sort(f->chips_.begin(), f->chips_.end(), [](const auto &a, const auto &b) { return a->id() < b->id(); });
    if (f->chips_.empty()) {
        *why = "of fabric " + names[0] + ", no chip of mesh " + std::to_string(mesh) + " that the host reaches over PCIe runs; the environment variable TTFABRIC_MESH names the mesh";
        return nullptr;
    }
    return f;
}

Chip *Fabric::chip(int id) {
    for (auto &c : chips_)
        if (c->id() == id) return c.get();
    return nullptr;
}

bool Fabric::intact() const {
    return std::all_of(chips_.begin(), chips_.end(), [](const auto &c) { return c->connected(); });
}

void Fabric::forget() {
    for (auto &c : chips_) c->forget();
}

}  // namespace ttfabric
