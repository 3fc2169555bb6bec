// Fibers: functions with a stack of their own that are left in their middle and taken up again, so that the threads of
// a block can meet at a barrier.
//
//   Fiber fiber(index, body);
//   fiber.resume();    // runs body until it calls Fiber::pause(); it must not return
//   fiber.resume();    // goes on behind that pause
//
// A first switch to a fiber is ucontext's, all others are __builtin_setjmp and __builtin_longjmp, which take
// nanoseconds.
#ifndef SOUNDER_TESTS_EMULATOR_FIBER_H
#define SOUNDER_TESTS_EMULATOR_FIBER_H

#include <cstddef>
#include <ucontext.h>

namespace emulator {

class Fiber {
  public:
    // index: fibers used together have different ones; their stacks then lie in different sets of the cache.
    Fiber(size_t index, void (*body)());
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    void resume();       // not from within a fiber
    static void pause(); // only from within a fiber
    static Fiber *current();

  private:
    static void enter();
    // Not sanitized: AddressSanitizer takes a jump for the end of what is on the stack, and cleans all of it each time.
    __attribute__((noinline, no_sanitize("address"))) void switch_in();
    __attribute__((noinline, no_sanitize("address"))) void switch_out();

    void (*body_)();
    char *mapping_;
    char *stack_;
    size_t stack_bytes_;
    bool started_ = false;
    ucontext_t start_;
    void *here_[5], *there_[5]; // where the fiber has paused, where it was resumed from
    const void *resumer_stack_ = nullptr;
    size_t resumer_stack_bytes_ = 0; // both for AddressSanitizer
};

} // namespace emulator

#endif
