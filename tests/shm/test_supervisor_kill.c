// SIGKILL at random moments: to workers, who are replaced while the phases go on, and to the parent, who takes
// everything with it. SOUNDER_KILLS asks for more kills than the default.
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/rng.h"
#include "own_folder.h"
#include "tests/check.h"
#include "tests/deadline.h"
#include "world.h"

static uint32_t kills_wanted(uint32_t standard) {
    const char *text = getenv("SOUNDER_KILLS");
    return text ? (uint32_t)atoi(text) : standard;
}

static uint32_t random_below(uint32_t bound, uint32_t draw) {
    return rng_block(rng_key(1, RNG_SYNTHETIC, 0, 0, 0), draw, 0, 0, 0).word[0] % bound;
}

static void sleep_microseconds(uint32_t microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
}

// Which workers have been killed, whether or not the supervisor knows it already, and how many there were.
typedef struct Storm {
    World world;
    bool doomed[WORKERS_MAX];
    uint32_t kills;
} Storm;

static void kill_worker(Storm *storm, uint32_t rank) {
    if (storm->doomed[rank]) return;
    assert_int_equal(pidfd_send_signal(storm->world.supervisor.workers[rank].pidfd, SIGKILL, NULL, 0), 0);
    storm->doomed[rank] = true;
    storm->kills++;
}

// A phase in which workers are killed while they start, stand or work. One is spared, else nobody might be left.
static void storm_phase(Storm *storm) {
    enum { LONGEST_DELAY_MICROSECONDS = 1500 };
    Error err;
    World *world = &storm->world;
    uint32_t workers = world->supervisor.config.workers;
    uint32_t draw = 8 * ++world->control->phase, spared = random_below(workers, draw);
    while (storm->doomed[spared])
        spared = (spared + 1) % workers;
    for (uint32_t rank = 0; rank < workers; rank++) {
        if (world->supervisor.workers[rank].pidfd >= 0) continue;
        check_ok(supervisor_start(&world->supervisor, rank, &err));
        storm->doomed[rank] = false;
        if (rank != spared && random_below(4, draw + 1) == 0) kill_worker(storm, rank);
    }
    uint32_t standing = random_below(workers, draw + 2), working = random_below(workers, draw + 3);
    if (standing != spared && random_below(3, draw + 4) == 0) kill_worker(storm, standing);
    supervisor_release(&world->supervisor);
    sleep_microseconds(random_below(LONGEST_DELAY_MICROSECONDS, draw + 5));
    if (working != spared) kill_worker(storm, working);
    check_ok(supervisor_gather(&world->supervisor, &err));
    assert_int_equal(atomic_load(&world->control->seen_phase[spared]), world->control->phase);
}

static void workers_are_replaced_under_a_storm_of_kills(void **state) {
    (void)state;
    enum { WORKERS = 4, HANG_SECONDS = 20 };
    Error err;
    Storm storm = {0};
    World *world = &storm.world;
    uint32_t wanted = kills_wanted(200);
    check_ok(world_init(world, WORKERS, HANG_SECONDS, &err));
    check_ok(world_start(world, &err));
    while (storm.kills < wanted)
        storm_phase(&storm);

    check_ok(world_phase(world, &err)); // makes sure that every death has been noticed
    check_ok(world_start(world, &err)); // replaces the last ones
    check_ok(world_phase(world, &err));
    assert_int_equal(world->supervisor.deaths, 0);
    assert_int_equal(world->reported_deaths, storm.kills); // none overlooked, and nobody died of a hang
    for (uint32_t rank = 0; rank < WORKERS; rank++)
        assert_int_equal(atomic_load(&world->control->seen_phase[rank]), world->control->phase);
    assert_int_equal(atomic_load(&world->control->violations), 0);
    print_message("%u kills in %u phases\n", storm.kills, world->control->phase);
    world_free(world);
    assert_int_equal(waitpid(-1, NULL, 0), -1);
}

// What the child does that acts as the parent until it is killed: phases of workers who work, wait, hang and die.
static void act_as_parent(uint32_t trial) {
    enum { WORKERS = 4 };
    Error err;
    World world;
    deadline_join();
    log_init(LOG_ERROR, LOG_RANK_PARENT);
    if (world_init(&world, WORKERS, 60, &err) != STATUS_OK) _exit(1);
    for (uint32_t phase = 0;; phase++) {
        if (world_start(&world, &err) != STATUS_OK) _exit(1);
        static const Order orders[] = {WORK, WORK, WORK, EXIT_ZERO, HANG, WORK_FOREVER};
        for (uint32_t rank = 1; rank < WORKERS; rank++) // the last two orders end the sequence of phases
            world.control->orders[rank] = orders[random_below(phase < 3 ? 4 : 6, 1000 * trial + 8 * phase + rank)];
        if (world_phase(&world, &err) != STATUS_OK) _exit(1);
    }
}

enum { PATIENCE_SECONDS = 20 };

// Everybody whom a dead parent left behind becomes our child, being the nearest subreaper. True if all are dead in
// time.
static bool all_descendants_die(void) {
    uint64_t start = clock_nanoseconds();
    for (;;) {
        pid_t reaped = waitpid(-1, NULL, WNOHANG);
        if (reaped < 0) return errno == ECHILD;
        if (clock_seconds_since(start) > PATIENCE_SECONDS) return false;
        if (reaped == 0) sleep_microseconds(200);
    }
}

// No name, and no byte that is still held by somebody.
static bool shared_memory_folder_is_empty(void) {
    struct statvfs space;
    if (statvfs("/dev/shm", &space) != 0 || space.f_bfree != space.f_blocks) return false;
    DIR *folder = opendir("/dev/shm");
    if (!folder) return false;
    uint32_t entries = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        entries += entry->d_name[0] != '.';
    closedir(folder);
    return entries == 0;
}

// Who reads /proc/PID of a dying process, as anybody on the machine may, holds its memory for a moment longer.
static bool shared_memory_folder_gets_empty(void) {
    uint64_t start = clock_nanoseconds();
    while (!shared_memory_folder_is_empty()) {
        if (clock_seconds_since(start) > PATIENCE_SECONDS) return false;
        sleep_microseconds(200);
    }
    return true;
}

static int kill_parents(uint32_t kills) {
    enum { LONGEST_LIFE_MICROSECONDS = 40000 };
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool folder_is_ours = own_folder(NULL); // where that is not allowed, only processes are looked for
    for (uint32_t trial = 0; trial < kills; trial++) {
        pid_t parent = fork();
        if (parent == 0) act_as_parent(trial);
        sleep_microseconds(random_below(LONGEST_LIFE_MICROSECONDS, 77 + trial));
        kill(parent, SIGKILL);
        int exit_status;
        if (waitpid(parent, &exit_status, 0) != parent || !WIFSIGNALED(exit_status))
            return 1; // it had failed by itself
        if (!all_descendants_die()) return 2;
        if (folder_is_ours && !shared_memory_folder_gets_empty()) return 3;
    }
    return 0;
}

static void a_killed_parent_leaves_no_process_and_no_memory(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        deadline_join();
        _exit(kill_parents(kills_wanted(60)));
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

int main(int argc, char **argv) {
    if (is_worker(argc, argv)) return worker_main(argv);
    log_init(LOG_ERROR, LOG_RANK_PARENT); // hundreds of deaths are expected
    deadline_set(100);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_replaced_under_a_storm_of_kills),
        cmocka_unit_test(a_killed_parent_leaves_no_process_and_no_memory),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
