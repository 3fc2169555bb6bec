#include "mps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "shm/supervisor.h"

enum { START_SECONDS = 10, CLOSE_SECONDS = 5, QUICK_SECONDS = 2, POLL_MILLISECONDS = 20, SHELL_FD = 3 };

static const char control_program[] = "nvidia-cuda-mps-control";

// Keeps the daemon: starts it, waits until the other end of the pipe at descriptor 3 is closed, and ends it. The daemon
// and its sockets are removed before the shell ends, except after a SIGKILL of the shell: then this process runs its
// last line. The log stays. A plain `quit` waits until all clients have ended. This process stays one until it ends,
// although its context is gone, so the daemon gets a second for them.
#define END_DAEMON "echo quit -t 1 | nvidia-cuda-mps-control 3<&-; rm -rf \"$CUDA_MPS_PIPE_DIRECTORY\""
static const char end_script[] = END_DAEMON;
static const char keeper_script[] = "trap '" END_DAEMON "' EXIT\n"
                                    "trap exit INT TERM HUP\n"
                                    "nvidia-cuda-mps-control -d 3<&- || exit\n"
                                    "read -r nothing <&3\n";

static const char *mps_pipe_folder(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    return folder && *folder ? folder : "/tmp/nvidia-mps";
}

// Whether a control daemon listens in this folder (CUDA_MPS_PIPE_DIRECTORY, or the default of NVIDIA's programs). Asks
// the kernel with a socket of another type: EPROTOTYPE means that a process listens, ECONNREFUSED that none does. The
// daemon does not notice it.
static bool mps_listens(const char *pipe_folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe_folder);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) return false;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool listens = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EPROTOTYPE;
    close(fd);
    return listens;
}

// Whether the daemon there is another user's. It serves that user alone, and CUDA would wait until it serves this one;
// root's serves all users.
static bool is_of_another_user(const char *pipe_folder) {
    char path[PATH_MAX];
    struct stat about;
    snprintf(path, sizeof path, "%s/control", pipe_folder);
    return stat(path, &about) == 0 && about.st_uid != geteuid() && about.st_uid != 0;
}

static void avoid_daemons(void) {
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/dev/null/no-mps", 1);
}

// The shell inherits only the descriptor, and has a session of its own, so that a Ctrl-C does not end the daemon before
// the workers.
static int start_shell(pid_t *shell, const char *script, int inherited) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    char *arguments[] = {"sh", "-c", (char *)script, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, inherited, SHELL_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, SHELL_FD + 1);
    int error = posix_spawn(shell, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static Status wait_for_daemon(const char *pipe_folder, Error *err) {
    uint64_t start = clock_nanoseconds();
    while (!mps_listens(pipe_folder)) {
        if (clock_seconds_since(start) > START_SECONDS)
            return fail(
                err, STATUS_UNAVAILABLE,
                "--mps start: %s did not start within %d s; its log in %s/../log may say why, --mps off does without",
                control_program, START_SECONDS, pipe_folder);
        nanosleep(&(struct timespec){.tv_nsec = POLL_MILLISECONDS * 1000000L}, NULL);
    }
    return STATUS_OK;
}

// The daemon writes into its folders, and the folder of its sockets is removed at the end. A run folder from elsewhere
// may contain links, which must not lead these writes to other places.
static Status make_own_folder(const char *path, Error *err) {
    struct stat about;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return fail_errno(err, STATUS_CANTCREATE, "--mps start: cannot create %s", path);
    if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--mps start: %s is a link or a file, where the run makes a folder; remove it",
                path);
}

// Sets the daemon's folders in the environment, for this process and all processes that it starts.
static Status name_folders(char pipe_folder[PATH_MAX], const char *folder, Error *err) {
    char absolute[PATH_MAX], log_folder[PATH_MAX + 16];
    if (!realpath(folder, absolute)) return fail_errno(err, STATUS_IO, "--mps start: cannot find %s", folder);
    int length = snprintf(pipe_folder, PATH_MAX, "%s/mps/pipe", absolute);
    size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path - sizeof "/control";
    if ((size_t)length > most)
        return fail(err, STATUS_USAGE,
                    "--mps start: %s is too long a path for a socket by %zu characters; give a shorter --out",
                    pipe_folder, (size_t)length - most);
    snprintf(log_folder, sizeof log_folder, "%s/mps", absolute);
    TRY(make_own_folder(log_folder, err));
    TRY(make_own_folder(pipe_folder, err));
    snprintf(log_folder, sizeof log_folder, "%s/mps/log", absolute);
    TRY(make_own_folder(log_folder, err));
    setenv("CUDA_MPS_PIPE_DIRECTORY", pipe_folder, 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", log_folder, 1);
    return STATUS_OK;
}

static Status start_daemon(Mps *mps, const char *folder, Error *err) {
    char pipe_folder[PATH_MAX];
    int ends[2];
    pid_t keeper;
    if (!program_is_on_path(control_program))
        return fail(err, STATUS_UNAVAILABLE,
                    "--mps start: there is no %s in PATH; it comes with NVIDIA's driver, --mps off does without",
                    control_program);
    TRY(name_folders(pipe_folder, folder, err));
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(err, STATUS_OS, "--mps start: cannot create a pipe");
    const int error = start_shell(&keeper, keeper_script, ends[0]);
    Status status = STATUS_OK;
    close(ends[0]);
    if (error != 0) status = fail(err, STATUS_OS, "--mps start: cannot start a shell: %s", strerror(error));
    if (status == STATUS_OK) status = wait_for_daemon(pipe_folder, err);
    if (status == STATUS_OK)
        *mps = (Mps){.state = MPS_STARTED, .keeper_fd = ends[1], .keeper = keeper};
    else
        close(ends[1]);
    return status;
}

Status mps_prepare(Mps *mps, MpsUse use, const char *folder, Error *err) {
    *mps = (Mps){.keeper_fd = -1};
    if (use == MPS_OFF) {
        avoid_daemons();
        return STATUS_OK;
    }
    if (is_of_another_user(mps_pipe_folder())) {
        log_info("the Multi-Process Service in %s is another user's; this run does without it", mps_pipe_folder());
        avoid_daemons();
    } else if (mps_listens(mps_pipe_folder())) {
        mps->state = MPS_RUNNING;
        return STATUS_OK;
    }
    return use == MPS_START ? start_daemon(mps, folder, err) : STATUS_OK;
}

Status mps_check_clients(int clients, Error *err) {
    enum { MOST_CLIENTS = 60, MOST_CLIENTS_BEFORE = 48 }; // of newer drivers; of older ones
    if (clients > MOST_CLIENTS)
        return fail(err, STATUS_USAGE,
                    "--workers %d: MPS serves at most %d processes on a GPU at a time (%d with older drivers), and the "
                    "parent is one of them; lower --workers or take --mps off",
                    clients - 1, MOST_CLIENTS, MOST_CLIENTS_BEFORE);
    if (clients > MOST_CLIENTS_BEFORE)
        log_warning("--workers %d: with older drivers MPS serves at most %d processes on a GPU at a time, and the "
                    "parent is one of them",
                    clients - 1, MOST_CLIENTS_BEFORE);
    return STATUS_OK;
}

static bool stop_signal_waits(void) {
    sigset_t pending, stop, both;
    stop_signals(&stop);
    return sigpending(&pending) == 0 && sigandset(&both, &pending, &stop) == 0 && !sigisemptyset(&both);
}

// A shell that was killed left the daemon to this process.
static bool keeper_runs(Mps *mps) {
    int end = 0;
    if (waitpid(mps->keeper, &end, WNOHANG) == 0) return true;
    return WIFSIGNALED(end) && start_shell(&mps->keeper, end_script, STDIN_FILENO) == 0;
}

void mps_close(Mps *mps, bool quickly) {
    if (mps->keeper_fd < 0) return;
    close(mps->keeper_fd);
    mps->keeper_fd = -1;
    const uint64_t start = clock_nanoseconds();
    while (keeper_runs(mps)) {
        const int most = quickly || stop_signal_waits() ? QUICK_SECONDS : CLOSE_SECONDS;
        if (clock_seconds_since(start) > most) {
            log_warning("--mps start: %s has not ended within %d s; should it stay, end it: echo quit -t 1 | "
                        "CUDA_MPS_PIPE_DIRECTORY=%s %s",
                        control_program, most, mps_pipe_folder(), control_program);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MILLISECONDS * 1000000L}, NULL);
    }
}
