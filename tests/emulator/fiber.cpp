#include "fiber.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

namespace {

constexpr size_t page_bytes = 4096, mapping_bytes = 256 * 1024, line_bytes = 64;

Fiber *running = nullptr;

// A function of its own: __builtin_longjmp may not stand where __builtin_setjmp does.
[[noreturn]] __attribute__((noinline, no_sanitize("address"))) void jump(void **place) {
    __builtin_longjmp(place, 1);
}

// AddressSanitizer wants to know which stack is in use.
void leave_stack(void **fake_stack, const void *next, size_t next_bytes) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake_stack, next, next_bytes);
#else
    (void)fake_stack, (void)next, (void)next_bytes;
#endif
}

void arrive_on_stack(void *fake_stack, const void **previous, size_t *previous_bytes) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, previous, previous_bytes);
#else
    (void)fake_stack, (void)previous, (void)previous_bytes;
#endif
}

} // namespace

Fiber::Fiber(size_t index, void (*body)()) : body_(body) {
    void *memory =
        mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page_bytes, PROT_NONE) != 0) {
        std::perror("emulator: no memory for the stack of a thread");
        std::abort();
    }
    mapping_ = static_cast<char *>(memory);
    stack_ = mapping_ + page_bytes;
    stack_bytes_ = mapping_bytes - page_bytes - index % (page_bytes / line_bytes) * line_bytes;
}

Fiber::~Fiber() {
    munmap(mapping_, mapping_bytes);
}

Fiber *Fiber::current() {
    return running;
}

void Fiber::enter() {
    Fiber *self = running;
    arrive_on_stack(nullptr, &self->resumer_stack_, &self->resumer_stack_bytes_);
    self->body_();
    std::abort(); // a body never returns: whoever carries threads waits for more of them
}

void Fiber::switch_in() {
    if (__builtin_setjmp(there_) != 0) return; // paused
    if (started_) jump(here_);
    started_ = true;
    getcontext(&start_);
    start_.uc_stack.ss_sp = stack_;
    start_.uc_stack.ss_size = stack_bytes_;
    start_.uc_link = nullptr;
    makecontext(&start_, enter, 0);
    setcontext(&start_);
}

void Fiber::resume() {
    void *fake_stack = nullptr;
    running = this;
    leave_stack(&fake_stack, stack_, stack_bytes_);
    switch_in();
    arrive_on_stack(fake_stack, nullptr, nullptr);
    running = nullptr;
}

void Fiber::switch_out() {
    if (__builtin_setjmp(here_) == 0) jump(there_);
}

void Fiber::pause() {
    Fiber *self = running;
    void *fake_stack = nullptr;
    leave_stack(&fake_stack, self->resumer_stack_, self->resumer_stack_bytes_);
    self->switch_out();
    arrive_on_stack(fake_stack, &self->resumer_stack_, &self->resumer_stack_bytes_);
}

} // namespace emulator
