#include "nodes.h"

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owned.h"

// A run on several nodes must end on all of them when it ends on one, and no wait may last for ever. Signals are small
// messages on a channel of their own: alive, busy, leaving. Every wait sends and reads them, so that a node that waits
// learns of a death (a pidfd on its own machine, silence elsewhere) or of a farewell, and fails with a sentence instead
// of hanging in a collective that a missing node will never join.

static const uint64_t watch_nanoseconds = 100000000;  // between two looks at the others
static const uint64_t eager_nanoseconds = 200000;     // of a wait without sleep: a message takes some microseconds
static const uint64_t goodbye_nanoseconds = 50000000; // for the last signal to go out

// Joining -------------------------------------------------------------------------------------------------------------

// A variable that is not set, or no number, reads as 0: this launcher has not started the process.
static uint32_t number_in_environment(const char *name) {
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

// The variables that tell a process how many copies were started: Open MPI's mpirun; MPICH's and its kin's, and srun
// with PMI-2; srun otherwise.
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

static const char *size_name(void) {
    for (size_t i = 0; i < sizeof size_names / sizeof *size_names; i++)
        if (number_in_environment(size_names[i]) > 0) return size_names[i];
    return NULL;
}

// Returns how many copies of this program mpirun or srun has started, by the environment alone: 1 if it was started
// alone. A program that runs on one machine must not need an MPI library to find that out.
static uint32_t started_copies(void) {
    const char *name = size_name();
    return name ? number_in_environment(name) : 1;
}

Status nodes_refuse_copies(const char *command, const char *way_out, Error *err) {
    const uint32_t copies = started_copies();
    if (copies <= 1) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "sounder %s: mpirun or srun has started it %u times (%s), and each would do the same; start it once%s",
                command, copies, size_name(), way_out);
}

// The variables are removed, so that a program that this process starts does not take itself for one of several either.
void nodes_stay_alone(void) {
    for (size_t i = 0; i < sizeof size_names / sizeof *size_names; i++)
        unsetenv(size_names[i]);
}

// The place of a process: two processes that share boot and process namespace can see each other's deaths.
typedef struct Place {
    char host[NODE_HOST_BYTES];
    char boot[NODE_HOST_BYTES]; // changes with every start of a machine, and differs between any two
    uint64_t pid_namespace;
    int32_t pid;
} Place;

// The name of a machine is for messages alone: two containers may share it. The boot identity and the process namespace
// decide whether a death can be seen.
static Place own_place(void) {
    Place place = {.pid = getpid()};
    gethostname(place.host, sizeof place.host - 1);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(place.boot, sizeof place.boot, file)) place.boot[0] = 0;
        fclose(file);
    }
    struct stat about;
    if (stat("/proc/self/ns/pid", &about) == 0) place.pid_namespace = about.st_ino;
    return place;
}

// A place that could not be read, for lack of /proc, counts as elsewhere: silence then tells of a death there.
static bool sees_death_of(const Place *mine, const Place *other) {
    return mine->boot[0] && strcmp(mine->boot, other->boot) == 0 && mine->pid_namespace != 0 &&
           mine->pid_namespace == other->pid_namespace;
}

// Nodes on one machine watch each other through a pidfd, which shows a death at once. Only silence tells of a death
// elsewhere.
static Status meet(Nodes *nodes, Error *err) {
    Place mine = own_place();
    Owned owned = {0};
    Place *places = own(&owned, nodes->size, sizeof *places);
    size_t *counts = own(&owned, nodes->size, sizeof *counts);
    for (uint32_t node = 0; node < nodes->size && counts; node++)
        counts[node] = sizeof mine;
    const Status status = !owned.lacks_memory ? nodes_gather(nodes, places, &mine, counts, err)
                                              : fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    for (uint32_t node = 0; node < nodes->size && status == STATUS_OK; node++) {
        NodePeer *peer = &nodes->peers[node];
        memcpy(peer->host, places[node].host, sizeof peer->host);
        peer->pid = places[node].pid;
        if (node != nodes->rank && sees_death_of(&mine, &places[node])) peer->pidfd = pidfd_open(peer->pid, 0);
    }
    owned_free(&owned);
    return status;
}

// Without peers the node is alone again: every function then needs no other node.
static void release(Nodes *nodes) {
    for (uint32_t node = 0; node < nodes->size && nodes->peers; node++)
        if (nodes->peers[node].pidfd >= 0) close(nodes->peers[node].pidfd);
    free(nodes->peers);
    *nodes = (Nodes){.size = 1};
}

// MPI starts threads of its own. A signal to this process must not be delivered to one of them, for the supervisor
// waits for it: the threads inherit the blocked mask.
static Status open_transport(Nodes *nodes, Error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    Status status = nodes->transport->open(&nodes->connection, &nodes->rank, &nodes->size, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

// MPI may connect fewer processes than were started, if it was built for another launcher: each copy would then run the
// whole training alone and write to files of one name.
static Status join(Nodes *nodes, uint32_t started, Error *err) {
    TRY(nodes_transport_load(&nodes->transport, err));
    nodes->size = started;
    TRY(open_transport(nodes, err));
    if (nodes->size != started)
        return fail(
            err, STATUS_UNAVAILABLE,
            "started as one of %u nodes, but MPI connects %u; under Slurm take srun --mpi=pmix or --mpi=pmi2, as "
            "MPI was built, or mpirun",
            started, nodes->size);
    nodes->peers = calloc(nodes->size, sizeof *nodes->peers);
    if (!nodes->peers) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    for (uint32_t node = 0; node < nodes->size; node++)
        nodes->peers[node] = (NodePeer){.pidfd = -1, .heard_nanoseconds = clock_nanoseconds()};
    return meet(nodes, err);
}

// After a failure the process is about to end, and MPI with it, so that nothing is left to close.
Status nodes_init(Nodes *nodes, Error *err) {
    *nodes = (Nodes){.size = 1, .silence_seconds = 60, .message_bytes = NODES_MESSAGE_BYTES}; // until more is known
    uint32_t started = started_copies();
    if (started <= 1) return STATUS_OK;
    Status status = join(nodes, started, err);
    if (status == STATUS_OK) status = nodes_busy(nodes, err);
    if (status == STATUS_OK) return STATUS_OK;
    release(nodes);
    return status;
}

// Watching ------------------------------------------------------------------------------------------------------------

// The sentence names what a user can do next, since no node can repair the run from here.
static Status lost(const Nodes *nodes, uint32_t node, const char *how, Error *err) {
    const NodePeer *peer = &nodes->peers[node];
    return fail(err, STATUS_UNAVAILABLE,
                "node %u (process %d on %s) is lost: %s; --resume continues the run from its last checkpoint, with any "
                "number of nodes",
                node, peer->pid, peer->host, how);
}

static Status gave_up(const Nodes *nodes, uint32_t node, Error *err) {
    const NodePeer *peer = &nodes->peers[node];
    return fail(err, STATUS_UNAVAILABLE, "node %u (process %d on %s) has ended the run; its own message says why", node,
                peer->pid, peer->host);
}

// Takes all signals that have arrived. NODE_BUSY gives a node more time until its silence counts; the next sign of life
// ends that.
static Status hear(Nodes *nodes, Error *err) {
    for (;;) {
        uint32_t from;
        NodeSignal signal;
        TRY(nodes->transport->listen(nodes->connection, &from, &signal, err));
        if (signal == 0) return STATUS_OK;
        if (signal == NODE_LEAVING) nodes->peers[from].has_left = true;
        nodes->peers[from].is_busy = signal == NODE_BUSY;
        nodes->peers[from].heard_nanoseconds = clock_nanoseconds();
    }
}

// A node that has said that it leaves dies next: its leaving is the better reason, and is looked for first.
static Status find_gone(const Nodes *nodes, Error *err) {
    for (uint32_t node = 0; node < nodes->size; node++)
        if (nodes->peers[node].has_left) return gave_up(nodes, node, err);
    for (uint32_t node = 0; node < nodes->size; node++) {
        struct pollfd death = {.fd = nodes->peers[node].pidfd, .events = POLLIN};
        if (death.fd >= 0 && poll(&death, 1, 0) == 1) return lost(nodes, node, "it has died", err);
    }
    return STATUS_OK;
}

// A node that has said that it is busy gets at least an hour; a bound of 0 means that silence is never taken for a
// death.
static Status find_silent(const Nodes *nodes, Error *err) {
    for (uint32_t node = 0; node < nodes->size && nodes->silence_seconds > 0; node++) {
        const NodePeer *peer = &nodes->peers[node];
        const double bound = peer->is_busy ? fmax(nodes->silence_seconds, NODES_BUSY_SECONDS) : nodes->silence_seconds;
        if (node == nodes->rank || clock_seconds_since(peer->heard_nanoseconds) < bound) continue;
        char how[64];
        snprintf(how, sizeof how, "nothing was heard of it for %g s", bound);
        return lost(nodes, node, how, err);
    }
    return STATUS_OK;
}

// Called in every turn of every wait, and does something ten times a second. A signal goes to all nodes each time, so
// that their silence bound is measured from the last sign of life and not from the last message.
Status nodes_watch(Nodes *nodes, Error *err) {
    if (nodes->size == 1) return STATUS_OK;
    uint64_t now = clock_nanoseconds();
    if (now - nodes->watched_nanoseconds < watch_nanoseconds && !nodes->is_busy) return STATUS_OK;
    // If this process has not looked for long, because it was stopped or busy, no other node can be blamed for the
    // silence: it is added to when each was heard. A signal that arrived meanwhile (nodes_busy listens, too) counts as
    // heard now at the latest, since a later time would be a silence to come.
    const uint64_t since = nodes->watched_nanoseconds ? now - nodes->watched_nanoseconds : 0,
                   away = since > watch_nanoseconds ? since - watch_nanoseconds : 0;
    for (uint32_t node = 0; node < nodes->size; node++) {
        const uint64_t heard = nodes->peers[node].heard_nanoseconds + away;
        nodes->peers[node].heard_nanoseconds = heard < now ? heard : now;
    }
    nodes->watched_nanoseconds = now;
    Status heard = hear(nodes, err);
    TRY(find_gone(nodes, err)); // first: its sentence says more than MPI's about a broken connection
    TRY(heard);
    TRY(nodes->transport->signal(nodes->connection, NODE_ALIVE, err));
    nodes->is_busy = false;
    return find_silent(nodes, err);
}

// Signals twice: a node whose last signal is still under way is left out, and looking for signals moves those along.
Status nodes_busy(Nodes *nodes, Error *err) {
    for (int times = 0; times < 2 && nodes->size > 1; times++) {
        TRY(nodes->transport->signal(nodes->connection, NODE_BUSY, err));
        TRY(hear(nodes, err));
    }
    nodes->is_busy = nodes->size > 1;
    return STATUS_OK;
}

// Waiting -------------------------------------------------------------------------------------------------------------

// A failure of MPI is judged after the signals: a node that has died or left explains a broken connection better than
// MPI's text.
Status nodes_test(Nodes *nodes, bool *done, Error *err) {
    Status status = nodes->transport->test(nodes->connection, done, err);
    if (status == STATUS_OK) return *done && !nodes->is_busy ? STATUS_OK : nodes_watch(nodes, err);
    hear(nodes, NULL);          // what has come through
    TRY(find_gone(nodes, err)); // says more about a connection that has broken
    return status;
}

// Spins for a moment, since most messages of a round arrive within microseconds, and sleeps between looks after that.
// Every look watches the other nodes, so that the wait ends if one of them is lost.
Status nodes_wait(Nodes *nodes, Error *err) {
    uint64_t start = clock_nanoseconds();
    for (;;) {
        bool done;
        TRY(nodes_test(nodes, &done, err));
        if (done) return STATUS_OK;
        if (nodes->cancelled && nodes->cancelled(nodes->context))
            return fail(err, STATUS_CANCELLED, "stopped while waiting for the other nodes");
        if (clock_nanoseconds() - start < eager_nanoseconds)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

// Sums piece by piece, for a message holds at most message_bytes: MPI counts in int.
Status nodes_sum(Nodes *nodes, int64_t *values, size_t count, Error *err) {
    const size_t most = nodes->message_bytes / sizeof *values;
    for (size_t first = 0; first < count && nodes->size > 1; first += most) {
        size_t piece = count - first < most ? count - first : most;
        TRY(nodes->transport->begin_sum(nodes->connection, values + first, piece, err));
        TRY(nodes_wait(nodes, err));
    }
    return STATUS_OK;
}

// Every node loops over equal sizes, so that all of them begin as many collectives.
Status nodes_broadcast(Nodes *nodes, void *bytes, size_t count, Error *err) {
    for (size_t first = 0; first < count && nodes->size > 1; first += nodes->message_bytes) {
        size_t piece = count - first < nodes->message_bytes ? count - first : nodes->message_bytes;
        TRY(nodes->transport->begin_broadcast(nodes->connection, (char *)bytes + first, piece, err));
        TRY(nodes_wait(nodes, err));
    }
    return STATUS_OK;
}

// All nodes know the sizes of all pieces, so that each computes by itself whether one message is enough.
static size_t sum_of(const size_t *counts, uint32_t nodes) {
    size_t sum = 0;
    for (uint32_t node = 0; node < nodes; node++)
        sum += counts[node];
    return sum;
}

// The pieces arrive side by side and are then copied to their places. pieces (nodes) and arrived are the caller's.
static Status gather_pieces(Nodes *nodes, char *all, const char *mine, const size_t *counts, size_t *pieces,
                            char *arrived, size_t most, Error *err) {
    for (size_t done = 0;; done += most) {
        for (uint32_t node = 0; node < nodes->size; node++) {
            const size_t left = counts[node] > done ? counts[node] - done : 0;
            pieces[node] = left < most ? left : most;
        }
        if (sum_of(pieces, nodes->size) == 0) return STATUS_OK;
        TRY(nodes->transport->begin_gather(nodes->connection, arrived, mine + done, pieces, err));
        TRY(nodes_wait(nodes, err));
        const char *from = arrived;
        char *to = all + done;
        for (uint32_t node = 0; node < nodes->size; to += counts[node], from += pieces[node], node++)
            memcpy(to, from, pieces[node]);
    }
}

// Small gathers, which are nearly all, arrive in their places at once. Only pieces that are too long for a message need
// a buffer beside them.
Status nodes_gather(Nodes *nodes, void *all, const void *mine, const size_t *counts, Error *err) {
    const size_t most = nodes->message_bytes / nodes->size;
    if (nodes->size == 1) {
        memcpy(all, mine, counts[0]);
        return STATUS_OK;
    }
    if (sum_of(counts, nodes->size) <= nodes->message_bytes) {
        TRY(nodes->transport->begin_gather(nodes->connection, all, mine, counts, err));
        return nodes_wait(nodes, err);
    }
    size_t *pieces = malloc(nodes->size * sizeof *pieces);
    char *arrived = malloc(most * nodes->size);
    Status status = pieces && arrived
                        ? gather_pieces(nodes, all, mine, counts, pieces, arrived, most, err)
                        : fail(err, STATUS_OS, "no memory for %zu bytes of %u nodes", most * nodes->size, nodes->size);
    free(arrived);
    free(pieces);
    return status;
}

Status nodes_collect(Nodes *nodes, void **all, size_t *counts, const void *mine, size_t bytes, Error *err) {
    *all = NULL;
    size_t *sizes = malloc(nodes->size * sizeof *sizes);
    if (!sizes) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    for (uint32_t node = 0; node < nodes->size; node++)
        sizes[node] = sizeof bytes;
    const Status status = nodes_gather(nodes, counts, &bytes, sizes, err);
    free(sizes);
    TRY(status);
    const size_t total = sum_of(counts, nodes->size);
    *all = aligned_alloc(64, total / 64 * 64 + 64);
    if (!*all) return fail(err, STATUS_OS, "no memory for %zu bytes of %u nodes", total, nodes->size);
    return nodes_gather(nodes, *all, mine, counts, err);
}

// Every node calls it at one place of the program, also a node that has failed: without its answer the others would
// wait for it. The own error is kept, since it names the reason.
Status nodes_agree(Nodes *nodes, Status mine, Error *err) {
    if (nodes->size == 1) return mine;
    // One count of failures per node, so that all nodes name one: the lowest that failed.
    int64_t *failures = calloc(nodes->size, sizeof *failures);
    if (!failures) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    failures[nodes->rank] = mine != STATUS_OK;
    Error unheard;
    Status status = nodes_sum(nodes, failures, nodes->size, mine == STATUS_OK ? err : &unheard);
    if (mine != STATUS_OK) status = mine;
    for (uint32_t node = 0; node < nodes->size && status == STATUS_OK; node++)
        if (failures[node]) status = gave_up(nodes, node, err);
    free(failures);
    return status == STATUS_OK ? nodes_busy(nodes, err) : status;
}

// Leaving -------------------------------------------------------------------------------------------------------------

// Not a collective: a node that leaves because of an error cannot rely on the others to take part.
static void say_goodbye(const Nodes *nodes) {
    uint64_t start = clock_nanoseconds();
    while (clock_nanoseconds() - start < goodbye_nanoseconds) { // a signal that is still under way goes out first
        if (nodes->transport->signal(nodes->connection, NODE_LEAVING, NULL) != STATUS_OK) return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

void nodes_free(Nodes *nodes, bool in_good_order) {
    if (nodes->size == 1) return;
    // MPI_Finalize waits without end for a missing node, so the nodes first make sure that all are here.
    if (in_good_order) in_good_order = nodes_sum(nodes, &(int64_t){0}, 1, NULL) == STATUS_OK;
    if (!in_good_order) say_goodbye(nodes);
    nodes->transport->close(nodes->connection, in_good_order);
    release(nodes);
}
