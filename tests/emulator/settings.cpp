#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace emulator {

namespace {

[[noreturn]] void refuse(const char *name, const std::string &value, const char *remedy) {
    std::fprintf(stderr, "emulator: %s=%s: %s\n", name, value.c_str(), remedy);
    std::abort();
}

std::string text(const char *name, const char *otherwise) {
    const char *value = std::getenv(name);
    return value ? value : otherwise;
}

uint64_t number(const char *name, uint64_t otherwise) {
    std::string value = text(name, "");
    if (value.empty()) return otherwise;
    char *end = nullptr;
    uint64_t result = std::strtoull(value.c_str(), &end, 10);
    if (*end != '\0') refuse(name, value, "a whole number is wanted");
    return result;
}

bool choice(const char *name, const char *on, const char *off, bool otherwise) {
    std::string value = text(name, otherwise ? on : off);
    if (value != on && value != off) refuse(name, value, (std::string(on) + " or " + off).c_str());
    return value == on;
}

// Workers are started as "PROGRAM worker RANK ...".
std::string process_name() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::string worker("\0worker\0", 8);
    size_t place = line.find(worker);
    return place == std::string::npos ? "parent" : line.c_str() + place + worker.size();
}

} // namespace

Settings settings_from_environment() {
    Settings settings{};
    settings.order = order_named(text("SOUNDER_EMULATED_ORDER", "forward"));
    settings.devices = static_cast<int>(number("SOUNDER_EMULATED_DEVICES", 1));
    settings.driver = static_cast<int>(number("SOUNDER_EMULATED_DRIVER", 13000));
    settings.memory_bytes = number("SOUNDER_EMULATED_MEMORY_BYTES", uint64_t{4} << 30);
    settings.context_bytes = number("SOUNDER_EMULATED_CONTEXT_BYTES", uint64_t{64} << 20);
    settings.reset_milliseconds = static_cast<int>(number("SOUNDER_EMULATED_RESET_MILLISECONDS", 0));
    settings.ipc = choice("SOUNDER_EMULATED_IPC", "on", "off", true);
    settings.exclusive = choice("SOUNDER_EMULATED_MODE", "exclusive", "default", false);
    const std::string managed = text("SOUNDER_EMULATED_MANAGED", "on");
    if (managed != "on" && managed != "off" && managed != "refused")
        refuse("SOUNDER_EMULATED_MANAGED", managed, "on, off or refused");
    settings.has_managed = managed != "off";
    settings.gives_managed = managed == "on";
    settings.cublas = choice("SOUNDER_EMULATED_CUBLAS", "on", "off", true);
    settings.lazy_streams = choice("SOUNDER_EMULATED_STREAMS", "lazy", "eager", true);
    settings.late_pageable = choice("SOUNDER_EMULATED_PAGEABLE", "late", "early", false);
    settings.copies = text("SOUNDER_EMULATED_COPIES", "");
    settings.process = process_name();
    std::string rank = text("SOUNDER_EMULATED_FAIL_RANK", "");
    if (rank.empty() || rank == settings.process) set_failure(settings, text("SOUNDER_EMULATED_FAIL", ""));
    return settings;
}

Order order_named(const std::string &name) {
    if (name == "forward") return Order::forward;
    if (name == "reversed") return Order::reversed;
    if (name == "shuffled") return Order::shuffled;
    refuse("SOUNDER_EMULATED_ORDER", name, "forward, reversed or shuffled");
}

Settings &settings() {
    static Settings settings = settings_from_environment();
    return settings;
}

void set_failure(Settings &settings, const std::string &wish) {
    size_t equals = wish.find('=');
    std::string text = wish.substr(0, equals);
    settings.fail_error = equals == std::string::npos ? 0 : std::atoi(wish.c_str() + equals + 1);
    bool only_a_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    size_t colon = text.find(':');
    settings.fail_name = only_a_number ? "" : text.substr(0, colon);
    std::string count = only_a_number ? text : colon == std::string::npos ? "1" : text.substr(colon + 1);
    settings.fail_at = text.empty() ? 0 : std::strtoull(count.c_str(), nullptr, 10);
}

} // namespace emulator
