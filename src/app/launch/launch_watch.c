#include "launch_watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launch_calls.h"
#include "launch_proc.h"
#include "launch_stack.h"

enum { WATCH_LINE_BYTES = 1024, MOST_STACKS = 3 };

static const double most_idle_share = 0.02; // of a core: heartbeats and waits that wake up now and then
static const uint64_t most_idle_bytes = 4096;

// A rank since it last computed or read.
typedef struct RankStill {
    ProcessUse use;
    double began_seconds, told_seconds; // on the launcher's clock; told 0: not
    double share;                       // of a core, since then
    pid_t pid;                          // of the process at work
    bool is_still, is_named;
    ProcessWait wait;
} RankStill;

struct LaunchWatch {
    const Rank *ranks;
    int count;
    double seconds, next_seconds, told_after; // told_after: a standstill this long is told next
    void (*say)(void *context, const char *line);
    void *context;
    Stack stack;            // of the first of `queue`
    int queue[MOST_STACKS]; // ranks whose stacks are to be told
    int queued;
    RankStill stills[]; // (count)
};

static double now_seconds(void) {
    return (double)clock_nanoseconds() * 1e-9;
}

static void say(const LaunchWatch *watch, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const LaunchWatch *watch, const char *format, ...) {
    char line[WATCH_LINE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    watch->say(watch->context, line);
}

LaunchWatch *launch_watch_new(const Rank *ranks, int count, double seconds,
                              void (*say_line)(void *context, const char *line), void *context) {
    LaunchWatch *watch = calloc(1, sizeof *watch + (size_t)count * sizeof *watch->stills);
    if (!watch) return NULL;
    *watch = (LaunchWatch){
        .ranks = ranks, .count = count, .seconds = seconds, .say = say_line, .context = context, .stack = NO_STACK};
    return watch;
}

void launch_watch_free(LaunchWatch *watch) {
    if (!watch) return;
    if (watch->stack.pidfd >= 0) stack_end(&watch->stack, watch->say, watch->context);
    free(watch);
}

void launch_watch_begin(LaunchWatch *watch) {
    memset(watch->stills, 0, (size_t)watch->count * sizeof *watch->stills);
    watch->next_seconds = now_seconds();
    watch->told_after = watch->seconds;
    watch->queued = 0;
}

// Looking -------------------------------------------------------------------------------------------------------------

static bool lives(const LaunchWatch *watch, int rank) {
    return watch->ranks[rank].pidfd >= 0 && !watch->ranks[rank].lingers;
}

// A process that ended took its totals with it: smaller totals count as a change.
static void look_at(LaunchWatch *watch, int rank, double now) {
    RankStill *still = &watch->stills[rank];
    const ProcessUse use = process_use(watch->ranks[rank].pid);
    const double passed = now - still->began_seconds, computed = use.cpu_seconds - still->use.cpu_seconds;
    const uint64_t bytes = use.bytes - still->use.bytes; // wraps if smaller
    still->share = passed > 0 ? computed / passed : 0;
    const bool moved = still->began_seconds == 0 || computed < 0 || computed > most_idle_share * passed + 0.03 ||
                       bytes >= most_idle_bytes;
    still->is_still = !moved && passed >= watch->seconds;
    if (moved) {
        if (still->told_seconds > 0)
            say(watch, "watch: rank %d continues after %.0f s", watch->ranks[rank].number, passed);
        *still = (RankStill){.use = use, .began_seconds = now, .share = still->share};
    }
}

// Naming --------------------------------------------------------------------------------------------------------------

static int count_named(const LaunchWatch *watch) {
    int named = 0;
    for (int i = 0; i < watch->count; i++)
        named += watch->stills[i].is_named;
    return named;
}

static bool name_by_calls(LaunchWatch *watch, CallsMissed *missed) {
    pid_t pids[LAUNCH_MAX_RANKS];
    for (int i = 0; i < watch->count; i++)
        pids[i] = watch->stills[i].pid;
    if (!calls_missed(missed, pids, watch->count)) return false;
    for (int i = 0; i < watch->count; i++)
        watch->stills[i].is_named = missed->behind[i] && lives(watch, i);
    return count_named(watch) > 0;
}

static bool name_by_waits(LaunchWatch *watch) {
    for (int i = 0; i < watch->count; i++)
        watch->stills[i].is_named = watch->stills[i].is_still && !watch->stills[i].wait.may_be_freed;
    return count_named(watch) > 0;
}

// Whether the rank has run or read since the look before this one.
static bool is_active(const LaunchWatch *watch, int rank, double now) {
    return lives(watch, rank) && watch->stills[rank].began_seconds == now;
}

static bool name_by_work(LaunchWatch *watch, double now) {
    for (int i = 0; i < watch->count; i++)
        watch->stills[i].is_named = is_active(watch, i, now);
    return count_named(watch) > 0;
}

static bool name_the_odd(LaunchWatch *watch) {
    int most = 0;
    for (int i = 0; i < watch->count; i++) {
        int alike = 0;
        for (int other = 0; other < watch->count; other++)
            alike += watch->stills[other].is_still &&
                     strcmp(watch->stills[i].wait.text, watch->stills[other].wait.text) == 0;
        watch->stills[i].is_named = watch->stills[i].is_still && 2 * alike < watch->count;
        if (alike > most) most = alike;
    }
    return count_named(watch) > 0 && 2 * most > watch->count;
}

static void name_all(LaunchWatch *watch) {
    for (int i = 0; i < watch->count; i++)
        watch->stills[i].is_named = watch->stills[i].is_still;
}

// Telling -------------------------------------------------------------------------------------------------------------

// Whether the rank belongs to the list: those that are named or those that are not.
static bool is_listed(const LaunchWatch *watch, int rank, bool named) {
    return lives(watch, rank) && watch->stills[rank].is_named == named;
}

static void tell_named(LaunchWatch *watch, const CallsMissed *missed, double now) {
    char behind[GROUP_CALL_TEXT_BYTES + 64] = "";
    watch->queued = 0;
    for (int i = 0; i < watch->count; i++) {
        RankStill *still = &watch->stills[i];
        if (!is_listed(watch, i, true)) continue;
        if (missed) snprintf(behind, sizeof behind, "has not made call %llu, %s, and ", missed->sequence, missed->call);
        if (still->is_still)
            say(watch, "watch: rank %d (pid %d) %shas neither run nor read for %.0f s: it %s", watch->ranks[i].number,
                still->pid, behind, now - still->began_seconds, still->wait.text);
        else if (still->share > most_idle_share)
            say(watch, "watch: rank %d (pid %d) %sruns, with %.0f%% of a core, while the others wait",
                watch->ranks[i].number, still->pid, behind, 100 * still->share);
        else
            say(watch, "watch: rank %d (pid %d) %s%s", watch->ranks[i].number, still->pid, behind,
                is_active(watch, i, now) ? "reads or writes, while the others wait" : still->wait.text);
        if (still->is_still) still->told_seconds = now;
        if (watch->queued < MOST_STACKS) watch->queue[watch->queued++] = i;
    }
}

// One line for all ranks that wait in one way.
static void tell_others(LaunchWatch *watch) {
    char list[WATCH_LINE_BYTES / 2];
    for (int i = 0; i < watch->count; i++) {
        const char *where = watch->stills[i].wait.text;
        int used = 0, first = -1, ranks = 0;
        for (int other = 0; other < watch->count; other++) {
            const RankStill *still = &watch->stills[other];
            if (!is_listed(watch, other, false) || !still->is_still || strcmp(still->wait.text, where) != 0) continue;
            if (first < 0) first = other;
            if (used < (int)sizeof list - 16)
                used += snprintf(list + used, sizeof list - (size_t)used, "%s%d", ranks > 0 ? ", " : "",
                                 watch->ranks[other].number);
            ranks++;
        }
        if (first == i) say(watch, "watch: meanwhile %s %s %s", ranks > 1 ? "each of ranks" : "rank", list, where);
    }
}

static void next_stack(LaunchWatch *watch) {
    while (watch->queued > 0 && watch->stack.pidfd < 0) {
        const int rank = watch->queue[0];
        if (lives(watch, rank) && stack_begin(&watch->stack, watch->stills[rank].pid)) return;
        if (lives(watch, rank))
            say(watch, "watch: for the stack of rank %d install gdb (py-spy for Python)", watch->ranks[rank].number);
        memmove(watch->queue, watch->queue + 1, (size_t)--watch->queued * sizeof *watch->queue);
    }
}

static void say_frame(void *context, const char *line) {
    const LaunchWatch *watch = context;
    say(watch, "watch: rank %d:   %s", watch->ranks[watch->queue[0]].number, line);
}

static void take_stack(LaunchWatch *watch) {
    struct pollfd poll_now = {.fd = watch->stack.pidfd, .events = POLLIN};
    if (watch->stack.pidfd < 0) return;
    if (poll(&poll_now, 1, 0) <= 0 && clock_nanoseconds() < watch->stack.deadline_nanoseconds) return;
    stack_end(&watch->stack, say_frame, watch);
    if (watch->queued > 0) memmove(watch->queue, watch->queue + 1, (size_t)--watch->queued * sizeof *watch->queue);
    next_stack(watch);
}

// False if a rank that was still has just begun to run.
static bool find_waits(LaunchWatch *watch) {
    bool all = true;
    for (int i = 0; i < watch->count; i++) {
        RankStill *still = &watch->stills[i];
        still->is_named = false;
        if (!lives(watch, i)) continue;
        still->pid = process_at_work(watch->ranks[i].pid);
        if (!process_wait(&still->wait, still->pid) && still->is_still) all = false;
    }
    return all;
}

// Whether it is too early: a rank is neither still nor active.
static bool is_undecided(const LaunchWatch *watch, double now) {
    for (int i = 0; i < watch->count; i++)
        if (lives(watch, i) && !watch->stills[i].is_still && !is_active(watch, i, now)) return true;
    return false;
}

static bool tell(LaunchWatch *watch, double now) {
    CallsMissed missed;
    if (!find_waits(watch)) return false;
    const bool by_calls = name_by_calls(watch, &missed), is_found = by_calls || name_by_waits(watch);
    if (!is_found && is_undecided(watch, now)) return false;
    if (!is_found && !name_by_work(watch, now) && !name_the_odd(watch)) name_all(watch);
    tell_named(watch, by_calls ? &missed : NULL, now);
    tell_others(watch);
    next_stack(watch);
    return true;
}

struct pollfd launch_watch_poll(const LaunchWatch *watch) {
    return (struct pollfd){.fd = watch->stack.pidfd, .events = POLLIN};
}

int launch_watch_timeout(const LaunchWatch *watch) {
    const double left = watch->next_seconds - now_seconds();
    return left > 0 ? (int)(1000 * left) + 1 : 0;
}

// A debugger stops a rank for a moment and reads much: the ranks are not looked at meanwhile.
void launch_watch_look(LaunchWatch *watch) {
    const double now = now_seconds();
    take_stack(watch);
    if (now < watch->next_seconds) return;
    watch->next_seconds = now + (watch->seconds < 4 ? watch->seconds / 4 : 1);
    if (watch->stack.pidfd >= 0) return;
    double longest = 0;
    for (int i = 0; i < watch->count; i++) {
        if (!lives(watch, i)) continue;
        look_at(watch, i, now);
        const double still = watch->stills[i].is_still ? now - watch->stills[i].began_seconds : 0;
        if (still > longest) longest = still;
    }
    if (longest == 0) watch->told_after = watch->seconds;
    if (longest < watch->told_after || longest == 0) return;
    if (tell(watch, now)) watch->told_after = 2 * longest;
}
