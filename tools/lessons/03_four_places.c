// Lesson 3. Four places for shared memory, and what is left of each.
//
// A child makes memory in one of four ways, writes 42 to it, and is killed with SIGKILL, so that it cleans nothing up.
// The parent, which inherited none of it, tries to open the memory while the child lives, and looks for it afterwards.
//
//   anonymous   child ──────▶ memory                          mmap alone; only forks have it
//   shm_open    child ─ fd ─▶ memory ◀─ /dev/shm/NAME         a file with a name, until a process unlinks it
//   memfd       child ─ fd ─▶ memory ◀─ /proc/PID/fd/N        a file without a name or a folder
//   O_TMPFILE   child ─ fd ─▶ memory ◀─ /proc/PID/fd/N        a file in a folder, without a name
//
// A file without a name ends with its last descriptor and its last mapping. Until then its owner can pass the
// descriptor on (lesson 18), and every process that may look into /proc/PID/fd can open it.
//
// The number of the process is in the name, so that two runs at once have two names. If the lesson itself is killed,
// its name stays: the next run unlinks the names of processes that are gone.
//
// Question: one of the four is left after a kill. Which, and who removes it on the machines that you know?
// Build: cc -O2 -o lesson 03_four_places.c
// Run: ./lesson
// Prints:
//   anonymous  opened: no                  left after kill -9: no
//   shm_open   opened: by its name         left after kill -9: /dev/shm/lesson-03-<number>
//   memfd      opened: through /proc       left after kill -9: no
//   O_TMPFILE  opened: through /proc       left after kill -9: no
// Change: "/* unlink here */" -> "shm_unlink(name);":
//   prints shm_open   opened: through /proc       left after kill -9: no
// Read: shm/segment.c, nameless_memory: which of the four is it, and which of them does it fall back on? When?
// PyTorch: its sharing strategies. file_descriptor is shm_open with the Change; file_system is shm_open as it is here,
// with a process beside (torch_shm_manager) that removes the names.
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

static char name[32]; // of the second place, in /dev/shm

static const char *const places[] = {"anonymous", "shm_open", "memfd", "O_TMPFILE"};

// The descriptor of the memory; -1: it has none.
static int make(int place) {
    if (place == 1) {
        int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
        /* unlink here */
        return fd;
    }
    if (place == 2) return memfd_create("lesson", 0);
    if (place == 3) return open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    return -1;
}

static void work(int place, int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // it waits for its end, which must come if the lesson is killed, too
    int fd = make(place);
    if (fd >= 0 && ftruncate(fd, BYTES) != 0) _exit(1);
    int *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (memory == MAP_FAILED) _exit(1);
    *memory = 42;
    if (write(ready, &fd, sizeof fd) != sizeof fd) _exit(1); // the number tells the parent where in /proc to look
    pause();
}

static int holds_42(int fd) {
    int value = 0;
    if (fd < 0 || read(fd, &value, sizeof value) != sizeof value) value = 0;
    if (fd >= 0) close(fd);
    return value == 42;
}

static void unlink_names_of_the_dead(void) {
    glob_t found;
    if (glob("/dev/shm/lesson-03-*", 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (kill(atoi(strrchr(found.gl_pathv[i], '-') + 1), 0) != 0 && errno == ESRCH) unlink(found.gl_pathv[i]);
    globfree(&found);
}

int main(void) {
    unlink_names_of_the_dead();
    snprintf(name, sizeof name, "/lesson-03-%d", getpid());
    for (int place = 0; place < 4; place++) {
        int ready[2], fd = -1;
        if (pipe(ready) != 0) return EXIT_FAILURE;
        const pid_t child = fork();
        if (child < 0) return EXIT_FAILURE;
        if (child == 0) work(place, ready[1]);
        close(ready[1]); // or read would wait for ever if the child fails
        if (read(ready[0], &fd, sizeof fd) != sizeof fd) return EXIT_FAILURE;
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", child, fd);
        const char *opened = holds_42(shm_open(name, O_RDONLY, 0))       ? "by its name"
                             : fd >= 0 && holds_42(open(path, O_RDONLY)) ? "through /proc"
                                                                         : "no";
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        const int left = holds_42(shm_open(name, O_RDONLY, 0));
        printf("%-10s opened: %-19s left after kill -9: %s%s\n", places[place], opened, left ? "/dev/shm" : "no",
               left ? name : "");
        shm_unlink(name);
        close(ready[0]);
    }
    return 0;
}
