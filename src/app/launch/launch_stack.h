// The stack of a rank's process, by a debugger that is installed: py-spy for Python, otherwise gdb. It runs beside the
// launcher, which never waits for it.
//
//   stack_begin(&stack, pid);                             // false: there is no debugger
//   ... poll stack.pidfd for reading, at most until stack.deadline_nanoseconds ...
//   stack_end(&stack, say, context);                      // one call for each frame
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_STACK_H
#define SOUNDER_APP_LAUNCH_LAUNCH_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Stack {
    int pidfd, output_fd; // owned; pidfd -1: no debugger runs
    uint64_t deadline_nanoseconds;
    bool by_py_spy, lacks_py_spy; // the latter: the process is Python's
} Stack;

#define NO_STACK ((Stack){.pidfd = -1, .output_fd = -1})

bool stack_begin(Stack *stack, pid_t pid);

// Reads what the debugger has written, and kills it if it still runs. Says at most a dozen frames, or one sentence with
// the reason why there are none.
void stack_end(Stack *stack, void (*say)(void *context, const char *line), void *context);

#endif
