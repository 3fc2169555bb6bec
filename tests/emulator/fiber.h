// Fibers: functions with a stack of their own that are left in their middle and taken up again, so that the threads of
// a block can meet at a barrier.
//
//   Fiber fiber(index, body);
//   fiber.resume();    // runs body until it calls Fiber::pause(); it must not return
//   fiber.resume();    // goes on behind that pause
//
// A first switch to a fiber is ucontext's, all others are _setjmp and _longjmp, which make no system call.
#ifndef SOUNDER_TESTS_EMULATOR_FIBER_H
#define SOUNDER_TESTS_EMULATOR_FIBER_H

#include <cstddef>
#include <setjmp.h>
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
    void switch_in();
    void switch_out();

    void (*body_)();
    char *mapping_;
    char *stack_;
    size_t stack_bytes_;
    bool started_ = false;
    ucontext_t start_;
    jmp_buf here_, there_; // where the fiber has paused, where it was resumed from
    const void *resumer_stack_ = nullptr;
    size_t resumer_stack_bytes_ = 0; // both for AddressSanitizer
};

} // namespace emulator

#endif
