#include "gpu.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "settings.h"

namespace emulator {

namespace {

constexpr size_t processes_max = 512, imports_max = 8192;

struct Account {
    struct Process {
        ProcessId id;
        uint64_t bytes;
    } processes[processes_max];
    struct Import {
        ProcessId owner, importer;
        uint64_t serial;
    } imports[imports_max];
};

struct Gpu {
    int fd = -1;
    Account *account = nullptr;
};

// A new account, empty, that this process's children find too.
int create_account_file() {
    int fd = memfd_create("emulated-card", MFD_CLOEXEC);
    if (fd < 0) fault("cannot make the card's account: %s", std::strerror(errno));
    std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
    setenv("SOUNDER_EMULATED_CARD", path.c_str(), 1);
    return fd;
}

Gpu open_gpu() {
    const char *path = std::getenv("SOUNDER_EMULATED_CARD");
    Gpu gpu;
    gpu.fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : create_account_file();
    if (gpu.fd < 0 || ftruncate(gpu.fd, sizeof(Account)) != 0)
        fault("cannot open the card's account %s: %s", path ? path : "", std::strerror(errno));
    void *memory = mmap(nullptr, sizeof(Account), PROT_READ | PROT_WRITE, MAP_SHARED, gpu.fd, 0);
    if (memory == MAP_FAILED) fault("cannot map the card's account: %s", std::strerror(errno));
    gpu.account = static_cast<Account *>(memory);
    return gpu;
}

// The account, locked while this lives; the lock of a process that is killed goes with it.
class Locked {
  public:
    Locked() {
        static const Gpu gpu = open_gpu();
        gpu_ = &gpu;
        struct flock all = {};
        all.l_type = F_WRLCK;
        while (fcntl(gpu_->fd, F_SETLKW, &all) != 0 && errno == EINTR) {
        }
    }
    ~Locked() {
        struct flock all = {};
        all.l_type = F_UNLCK;
        fcntl(gpu_->fd, F_SETLK, &all);
    }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;
    Account *operator->() const { return gpu_->account; }

  private:
    const Gpu *gpu_;
};

// Field 22 of /proc/PID/stat, in clock ticks; 0 if there is no such process or only its exit status is left of it.
uint64_t start_of(int32_t pid) {
    char path[64], text[1024];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0) return 0;
    text[count] = '\0';
    char *field = std::strrchr(text, ')'); // the name before it may hold anything
    if (!field || field[2] == 'Z' || field[2] == 'X') return 0;
    for (int i = 2; i < 22 && field; i++)
        field = std::strchr(field + 1, ' ');
    return field ? std::strtoull(field, nullptr, 10) : 0;
}

size_t used_bytes(const Locked &account) {
    size_t used = 0;
    for (const auto &process : account->processes)
        if (process.id.pid != 0 && is_alive(process.id)) used += process.bytes;
    return used;
}

// This process's entry, in the place of a dead one if it is new.
Account::Process &own_entry(const Locked &account) {
    const ProcessId self = this_process();
    for (auto &process : account->processes)
        if (process.id == self) return process;
    for (auto &process : account->processes) {
        if (process.id.pid != 0 && is_alive(process.id)) continue;
        process = {self, 0};
        return process;
    }
    fault("more than %zu processes use the card", processes_max);
}

} // namespace

ProcessId this_process() {
    static ProcessId self{};
    if (self.pid != getpid()) self = {getpid(), start_of(getpid())}; // a forked child is another
    return self;
}

bool is_alive(const ProcessId &process) {
    return process == this_process() || (process.start != 0 && start_of(process.pid) == process.start);
}

size_t gpu_used_bytes() {
    Locked account;
    return used_bytes(account);
}

bool gpu_take(size_t bytes) {
    Locked account;
    if (used_bytes(account) + bytes > settings().memory_bytes) return false;
    own_entry(account).bytes += bytes;
    return true;
}

void gpu_give_back(size_t bytes) {
    Locked account;
    own_entry(account).bytes -= bytes;
}

void gpu_note_import(const ProcessId &owner, uint64_t serial) {
    Locked account;
    for (auto &import : account->imports) {
        if (import.importer.pid != 0 && is_alive(import.importer)) continue;
        import = {owner, this_process(), serial};
        return;
    }
    fault("more than %zu allocations are open in other processes", imports_max);
}

void gpu_note_close(const ProcessId &owner, uint64_t serial) {
    Locked account;
    const ProcessId self = this_process();
    for (auto &import : account->imports) {
        if (!(import.owner == owner && import.importer == self && import.serial == serial)) continue;
        import = {};
        return;
    }
}

int32_t gpu_importer(uint64_t serial) {
    Locked account;
    const ProcessId self = this_process();
    for (const auto &import : account->imports)
        if (import.owner == self && import.serial == serial && is_alive(import.importer)) return import.importer.pid;
    return 0;
}

} // namespace emulator
