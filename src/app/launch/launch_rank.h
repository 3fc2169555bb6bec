// One process of `sounder launch`: its environment, its start, its end.
//
// A rank runs in a process group of its own, so that a Ctrl-C at the terminal reaches the launcher alone, and so that
// what it starts itself can be signalled and ended together with it. The kernel kills it when the launcher dies
// (PDEATHSIG). Its stdin is /dev/null, or the launcher's own if it is the only rank; its stdout and stderr are pipes or
// log files. A single rank that reads a terminal stays in the launcher's group: in one of its own it would be stopped.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_RANK_H
#define SOUNDER_APP_LAUNCH_LAUNCH_RANK_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "launch_options.h"
#include "launch_output.h"

enum { RANK_REASON_BYTES = 512, LAUNCH_ID_BYTES = 17 };

enum { RANK_STREAMS = 2 }; // 0 stdout, 1 stderr

// What the launcher has changed for itself, as it was before: every rank gets it back.
typedef struct RankInheritance {
    sigset_t signal_mask;
    struct sigaction pipe_action; // of SIGPIPE
    struct rlimit descriptors;    // RLIMIT_NOFILE
} RankInheritance;

// What is the same for all ranks of one start of the group.
typedef struct RankPlan {
    const LaunchOptions *options;
    char **arguments; // argv of every rank, NULL-terminated
    const char *run_id;
    char id[LAUNCH_ID_BYTES]; // SOUNDER_LAUNCH_ID: drawn for this start; "": of several machines, which have none
    const char *log_folder;   // "": no logs
    int attempt;              // restarts so far
    int port;                 // MASTER_PORT
    Console *consoles;        // (RANK_STREAMS): the launcher's stdout and stderr
    const RankInheritance *inheritance;
} RankPlan;

typedef struct Rank {
    int number;           // RANK
    pid_t pid;            // also its process group, unless it shares the launcher's
    bool shares_terminal; // and with it the launcher's process group
    int pidfd;            // owned; -1 once it is reaped
    bool lingers;         // its process has ended, but what it has started in its process group has not
    int error_fd;         // owned; its TORCHELASTIC_ERROR_FILE, a file in memory that goes with the launcher; -1: none
    int report_fd;        // owned; says whether it has become the program; -1 once that is known
    int wait_status;      // of waitpid, once dead
    RankStream streams[RANK_STREAMS];
} Rank;

// The argv of every rank: the program as it is, or under Python (python3, or what PYTHON_EXEC names, unbuffered) when
// it is a module, a .py file, or a path to a file that can be read but not executed. Owned by the caller (free),
// entries borrowed from options and environment.
Status rank_arguments(char ***arguments, const LaunchOptions *options, Error *err);

// Starts the rank's process and returns before it has become the program. OS when the kernel refuses a process or
// descriptors, CANTCREATE for a log file; nothing is left to free then.
Status rank_start(Rank *rank, int local_rank, const RankPlan *plan, Error *err);

// Once report_fd is readable, and before rank_reap: NOINPUT when the process could not become the program.
Status rank_take_report(Rank *rank, const char *program, Error *err);

// Asks the rank to end by SIGTERM or another signal, which its process gets alone: helpers that died before it (the
// loaders of a data set, say) would spoil the end it wants to make. SIGINT goes to its whole group, as a terminal sends
// it, since a shell waits for what it runs then. SIGCONT follows, since a rank that is stopped cannot end. The rank has
// been started and not been reaped.
void rank_ask(const Rank *rank, int signal_number);

// SIGKILL or SIGTSTP and SIGCONT for its whole group; a rank that shares the terminal gets it alone.
void rank_signal(const Rank *rank, int signal_number);

// Once pidfd is readable: whether the process has died of this signal. It is not reaped.
bool rank_died_of(const Rank *rank, int signal_number);

// Once pidfd is readable: kills what is left of its group, takes wait_status in, closes pidfd. The streams stay open,
// since what it has printed may still be in its pipes.
void rank_reap(Rank *rank);

// What a dead rank has written into its error file, as Python programs under torchrun's @record do: reason gets the
// message in one line (RANK_REASON_BYTES), "" if there is none, which false says.
bool rank_read_reason(char reason[RANK_REASON_BYTES], const Rank *rank);

// Of a reaped rank, as a shell counts: its exit code, or 128 + n for signal n.
int rank_exit_code(const Rank *rank);

#endif
