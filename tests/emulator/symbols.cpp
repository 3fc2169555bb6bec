#include "symbols.h"

#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emulator {

namespace {

struct Symbol {
    char *address;
    size_t bytes;
    bool function, writable;
    std::string name; // mangled
};

int take_first_bias(dl_phdr_info *info, size_t, void *bias) {
    *static_cast<ElfW(Addr) *>(bias) = info->dlpi_addr;
    return 1; // the first object is the program itself
}

std::vector<Symbol> read_symbols(const char *file) {
    ElfW(Addr) bias = 0;
    dl_iterate_phdr(take_first_bias, &bias);
    auto *header = reinterpret_cast<const ElfW(Ehdr) *>(file);
    auto *sections = reinterpret_cast<const ElfW(Shdr) *>(file + header->e_shoff);
    std::vector<Symbol> symbols;
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const char *names = file + sections[sections[s].sh_link].sh_offset;
        auto *entries = reinterpret_cast<const ElfW(Sym) *>(file + sections[s].sh_offset);
        for (size_t i = 0; i < sections[s].sh_size / sizeof *entries; i++) {
            const ElfW(Sym) &entry = entries[i];
            int type = ELF64_ST_TYPE(entry.st_info);
            if ((type != STT_FUNC && type != STT_OBJECT) || entry.st_shndx == 0 || entry.st_shndx >= header->e_shnum)
                continue;
            bool writable = sections[entry.st_shndx].sh_flags & SHF_WRITE;
            symbols.push_back({reinterpret_cast<char *>(bias + entry.st_value), entry.st_size, type == STT_FUNC,
                               writable, names + entry.st_name});
        }
    }
    return symbols;
}

std::vector<Symbol> program_symbols() {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) return {};
    size_t bytes = static_cast<size_t>(status.st_size);
    void *file = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) return {};
    std::vector<Symbol> symbols = read_symbols(static_cast<const char *>(file));
    munmap(file, bytes);
    return symbols;
}

std::string demangled(const std::string &name) {
    int status = 0;
    std::unique_ptr<char, decltype(&free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), free);
    return status == 0 ? text.get() : name;
}

KernelSymbols find(const void *kernel) {
    static const std::vector<Symbol> symbols = program_symbols();
    KernelSymbols found;
    std::string prefix;
    for (const Symbol &symbol : symbols) {
        if (!symbol.function || symbol.address != kernel || symbol.name.compare(0, 2, "_Z") != 0) continue;
        found.name = demangled(symbol.name);
        prefix = "_ZZ" + symbol.name.substr(2) + "E"; // how the variables in a function's body are mangled
    }
    if (prefix.empty()) {
        found.name = "(no symbol)";
        return found;
    }
    for (const Symbol &symbol : symbols) {
        if (symbol.function || !symbol.writable || symbol.name.compare(0, prefix.size(), prefix) != 0) continue;
        found.shared.push_back({symbol.address, symbol.bytes});
        found.shared_bytes += symbol.bytes;
    }
    return found;
}

} // namespace

const KernelSymbols &kernel_symbols(const void *kernel) {
    static std::map<const void *, KernelSymbols> known;
    auto place = known.find(kernel);
    if (place == known.end()) place = known.emplace(kernel, find(kernel)).first;
    return place->second;
}

} // namespace emulator
