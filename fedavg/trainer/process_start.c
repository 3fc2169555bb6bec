// Part of process.h: starts a trainer, as a program with a guard, or as a fork of one that runs.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "fedavg/trainer/process.h"

// Where the text has a parameter of the shell itself, as $$, $? or $1; NULL if nowhere. wordexp would take it for this
// process's own: "kill $$" would end the run. Single quotes keep it for a shell that the command starts.
static const char *find_shells_own(const char *text) {
    bool quoted = false, doubly = false;
    for (; *text; text++) {
        if (*text == '\'' && !doubly) quoted = !quoted;
        if (*text == '"' && !quoted) doubly = !doubly;
        if (quoted) continue;
        const char *name = text + 1 + (text[1] == '{');
        if (*text == '$' && *name && strchr("$?!#*@-0123456789", *name)) return text;
        if (*text == '\\' && text[1]) text++;
    }
    return NULL;
}

// Splits the command as a shell would, without one. A shell between guard and program would be what a kill reaches, and
// the program would stay.
Status trainer_command_words(wordexp_t *words, const TrainerPlan *plan, Error *err) {
    const char *own = find_shells_own(plan->command);
    if (own)
        return fail(err, STATUS_USAGE,
                    "%s %.200s: %.2s is a shell's, and the run starts the command without one; write single quotes "
                    "around it, as in sh -c 'echo $$', or a script",
                    plan->option, plan->command, own);
    const int result = wordexp(plan->command, words, WRDE_NOCMD | WRDE_UNDEF);
    if (result == 0 && words->we_wordc > 0) return STATUS_OK;
    if (result == 0) wordfree(words);
    return fail(err, STATUS_USAGE,
                "%s %.200s: is no list of words (quotes as in a shell, but no pipes, no commands in it); write "
                "a script for more",
                plan->option, plan->command);
}

// Libraries read these when they are loaded, so that they have to be in the environment before the program starts. Bits
// may depend on the number of threads: it is the run's, and not that of the machine's cores.
// The program's generators begin with the run's seed (import sounder), and sets of words have one order in each start.
// The last one is where Python finds the package `sounder`.
static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                    "SOUNDER_SEED",    "PYTHONHASHSEED",       "PYTHONPATH"};

enum { THREAD_NAMES = 3, NAMES = sizeof names / sizeof *names };

void trainer_package(char folder[PATH_MAX]) {
    char path[PATH_MAX] = "", file[PATH_MAX + 64];
    *folder = '\0';
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || !strrchr(path, '/')) return;
    *strrchr(path, '/') = '\0';
    snprintf(file, sizeof file, "%s/../tools/python/sounder/__init__.py", path);
    if (access(file, R_OK) != 0) return;
    snprintf(file, sizeof file, "%s/../tools/python", path);
    if (!realpath(file, folder)) *folder = '\0';
}

// before: gets the values that the user has given, for restore_environment; programs that are not trainers have them.
// The package follows the folders of the user, who may have another one.
static void set_environment(char *before[NAMES], const TrainerPlan *plan) {
    char count[16], seed[24], folder[PATH_MAX], *path;
    snprintf(count, sizeof count, "%u", plan->threads);
    snprintf(seed, sizeof seed, "%" PRIu64, plan->seed);
    for (size_t i = 0; i < NAMES; i++) {
        const char *value = getenv(names[i]);
        before[i] = value ? strdup(value) : NULL;
        if (i < THREAD_NAMES) setenv(names[i], count, 1);
    }
    setenv("SOUNDER_SEED", seed, 1);
    setenv("PYTHONHASHSEED", plan->hash_seed, 1);
    const char *given = before[NAMES - 1];
    trainer_package(folder);
    if (*folder && asprintf(&path, "%s%s%s", given ? given : "", given && *given ? ":" : "", folder) >= 0) {
        setenv("PYTHONPATH", path, 1);
        free(path);
    }
}

static void restore_environment(char *before[NAMES]) {
    for (size_t i = 0; i < NAMES; i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
}

// The search of execvp, done here, because a program that is missing should fail with a sentence that names it. From
// the guard only exit code 127 would arrive.
static Status find_program(const char *program, const TrainerPlan *plan, Error *err) {
    char path[TRAINER_TEXT_BYTES + TRAINER_FOLDER_BYTES];
    const char *option = plan->option;
    const bool elsewhere = plan->folder[0] && program[0] != '/', is_path = strchr(program, '/') != NULL;
    snprintf(path, sizeof path, "%s%s%s", elsewhere ? plan->folder : "", elsewhere ? "/" : "", program);
    if (is_path ? access(path, X_OK) == 0 : program_is_on_path(program)) return STATUS_OK;
    const int error = errno;
    const size_t length = strlen(program);
    if (length > 3 && strcmp(program + length - 3, ".py") == 0 && access(path, R_OK) == 0)
        return fail(err, STATUS_NOINPUT, "%s: %.200s is a text for Python and no program; write %s \"python3 %.200s\"",
                    option, program, option, plan->command);
    errno = error;
    if (is_path) return fail_errno(err, STATUS_NOINPUT, "%s: %.200s", option, path);
    return fail(err, STATUS_NOINPUT, "%s: there is no program %.200s on the PATH; name it with its folder", option,
                program);
}

enum { GUARD_WORDS = 5, NUMBER_BYTES = 16 };

// The guard is this program's own file, executed and not forked: a fork would share the worker's memory with a process
// that outlives it. /proc/self/exe is the file that runs, even if another one has replaced it on disk.
static Status spawn_guard(TrainerProcess *process, const TrainerPlan *plan, const int *fds, size_t fd_count, int leash,
                          int output, const wordexp_t *words, Error *err) {
    char leash_text[NUMBER_BYTES], output_text[NUMBER_BYTES], fds_text[TRAINER_MOST_PASSED * NUMBER_BYTES] = "";
    char **line = calloc(GUARD_WORDS + words->we_wordc + 1, sizeof *line);
    if (!line) return fail(err, STATUS_OS, "no memory to start a trainer");
    snprintf(leash_text, sizeof leash_text, "%d", leash);
    snprintf(output_text, sizeof output_text, "%d", output);
    posix_spawn_file_actions_t inherited;
    posix_spawn_file_actions_init(&inherited);
    for (size_t i = 0; i < fd_count; i++) {
        const size_t used = strlen(fds_text);
        snprintf(fds_text + used, sizeof fds_text - used, "%s%d", used ? "," : "", fds[i]);
        // A duplicate under its own number is how posix_spawn makes a descriptor survive exec: everything here is
        // opened with close-on-exec, so that no other program inherits it by chance.
        posix_spawn_file_actions_adddup2(&inherited, fds[i], fds[i]);
    }
    posix_spawn_file_actions_adddup2(&inherited, leash, leash);
    if (output >= 0) posix_spawn_file_actions_adddup2(&inherited, output, output);
    if (plan->folder[0]) posix_spawn_file_actions_addchdir_np(&inherited, plan->folder);
    const char *own[GUARD_WORDS] = {"sounder", "guard", leash_text, output_text, fds_text};
    memcpy(line, own, sizeof own);
    memcpy(line + GUARD_WORDS, words->we_wordv, words->we_wordc * sizeof *line);
    posix_spawnattr_t how;
    // A process group of its own keeps signals of the terminal away from the guard; the mask keeps all others until
    // the guard has said which it ignores.
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&how, &all);
    const int error = posix_spawn(&process->guard, "/proc/self/exe", &inherited, &how, line, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&inherited);
    free(line);
    if (error == 0) return STATUS_OK;
    process->guard = 0;
    return fail(err, STATUS_OS, "a trainer cannot be started: %s", strerror(error));
}

static Status connect_process(TrainerProcess *process, int *socket, int *leash, Error *err) {
    int lines[2], leashes[2];
    *process = (TrainerProcess){.socket = -1, .leash = -1};
    process->buffer = malloc(TRAINER_LINE_BYTES);
    if (!process->buffer) return fail(err, STATUS_OS, "no memory for a trainer's lines");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0)
        return fail_errno(err, STATUS_OS, "no socket for a trainer");
    process->socket = lines[0];
    *socket = lines[1];
    // Two connections, since the first is the program's: it may close it, or hand it on to its children. The leash is
    // the guard's alone.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, leashes) != 0) {
        close(*socket);
        return fail_errno(err, STATUS_OS, "no socket for a trainer's guard");
    }
    process->leash = leashes[0];
    *leash = leashes[1];
    return STATUS_OK;
}

static Status start_words(TrainerProcess *process, const wordexp_t *words, const TrainerPlan *plan, const int *fds,
                          size_t fd_count, int output, Error *err) {
    int passed[TRAINER_MOST_PASSED], leash = -1;
    char number[NUMBER_BYTES], *before[NAMES];
    TRY(find_program(words->we_wordv[0], plan, err));
    memcpy(passed, fds, fd_count * sizeof *fds);
    TRY(connect_process(process, &passed[fd_count], &leash, err));
    snprintf(number, sizeof number, "%d", passed[fd_count]);
    // In this process's environment for a moment: workers and the parent start one program at a time, from one thread.
    setenv("SOUNDER_TRAINER", number, 1);
    set_environment(before, plan);
    const Status status = spawn_guard(process, plan, passed, fd_count + 1, leash, output, words, err);
    unsetenv("SOUNDER_TRAINER");
    restore_environment(before);
    close(passed[fd_count]);
    close(leash);
    return status;
}

Status trainer_process_start(TrainerProcess *process, const TrainerPlan *plan, const int *fds, size_t fd_count,
                             int output, Error *err) {
    wordexp_t words;
    *process = (TrainerProcess){.socket = -1, .leash = -1};
    TRY(trainer_command_words(&words, plan, err));
    const Status status = start_words(process, &words, plan, fds, fd_count, output, err);
    wordfree(&words);
    if (status != STATUS_OK) trainer_process_end(process, 0);
    return status;
}

Status trainer_process_fork(TrainerProcess *process, int nursery, int desk_fd, int output, Error *err) {
    int socket = -1, leash = -1;
    const Status connected = connect_process(process, &socket, &leash, err);
    if (connected != STATUS_OK) {
        trainer_process_end(process, 0);
        return connected;
    }
    // The nursery gets copies of the descriptors with the request. The ones here are closed afterwards, so that the end
    // of the fork is the end of its socket.
    const int fds[TRAINER_REQUEST_FDS] = {socket, leash, desk_fd, output >= 0 ? output : STDERR_FILENO};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {.bytes = {0}};
    char text[] = "{\"fork\":1}";
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    // Blocks while the socket's queue is full, which the nursery empties fork by fork.
    const ssize_t sent = sendmsg(nursery, &message, MSG_NOSIGNAL);
    const Status status =
        sent > 0 ? STATUS_OK : fail_errno(err, STATUS_OS, "a fork of the trainer cannot be asked for");
    close(socket);
    close(leash);
    if (status != STATUS_OK) trainer_process_end(process, 0);
    return status;
}
