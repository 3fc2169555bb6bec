// Part of group_transport.h: reads a meeting place, from its text or from the launcher's environment.
#include "shm/group/group_transport.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/launcher.h"
#include "base/text.h"

static Status read_number(int *number, const char *name, const char *text, int least, int most, Error *err) {
    long value;
    if (*text_whole(&value, text) || value < least || value > most)
        return fail(err, STATUS_USAGE, "%s=%s: give a number from %d to %d", name, text, least, most);
    *number = (int)value;
    return STATUS_OK;
}

// Reads what the configuration leaves open from the launcher's variables.
static Status read_identity(GroupPlace *place, const Launcher *launcher, Error *err) {
    if (place->size < 0)
        TRY(read_number(&place->size, launcher->size, getenv(launcher->size), 1, GROUP_MAX_RANKS, err));
    if (place->rank < 0)
        TRY(read_number(&place->rank, launcher->rank, getenv(launcher->rank), 0, GROUP_MAX_RANKS - 1, err));
    const char *local = getenv(launcher->local_rank);
    return local ? read_number(&place->local_rank, launcher->local_rank, local, 0, GROUP_MAX_RANKS - 1, err)
                 : STATUS_OK;
}

int group_place_is_here(bool *is_here, const char *host) {
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    const int error = getaddrinfo(host, NULL, &wanted, &found);
    *is_here = false;
    if (error != 0) return error;
    for (struct addrinfo *address = found; address && !*is_here; address = address->ai_next) {
        int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        *is_here = bind(fd, address->ai_addr, address->ai_addrlen) == 0;
        close(fd);
    }
    freeaddrinfo(found);
    return 0;
}

static Status check_address(const char *host, const char *name, Error *err) {
    bool is_here;
    const int error = group_place_is_here(&is_here, host);
    if (error != 0)
        return fail(err, STATUS_USAGE, "%s: the host %s has no known address: %s", name, host, gai_strerror(error));
    if (is_here) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s: %s is not an address of this machine; ranks on several machines meet by mpi://",
                name, host);
}

static Status meet_at_port(GroupPlace *place, const char *host, const char *port_text, Error *err) {
    int port = 0;
    snprintf(place->name, sizeof place->name, "tcp://%s:%s", host, port_text);
    if (read_number(&port, "port", port_text, 1, 65535, NULL) != STATUS_OK)
        return fail(err, STATUS_USAGE, "%s: the port is a number from 1 to 65535", place->name);
    TRY(check_address(host, place->name, err));
    snprintf(place->socket, sizeof place->socket, "sounder-group-%u-port-%d", getuid(), port);
    return STATUS_OK;
}

static Status meet_in_job(GroupPlace *place, const Launcher *launcher, const char *job, const char *step, Error *err) {
    assert(launcher && step);
    if (!job)
        return fail(err, STATUS_USAGE,
                    "env://: %s is set, but MASTER_ADDR and MASTER_PORT are not: set them as sounder "
                    "launch does, for all ranks alike",
                    launcher->rank);
    snprintf(place->name, sizeof place->name, "job %.40s", job);
    const char *nodes = launcher->nodes ? getenv(launcher->nodes) : NULL;
    if (nodes && strcmp(nodes, "1") != 0)
        return fail(err, STATUS_USAGE, "%s runs on %s machines: its ranks meet by mpi://", place->name, nodes);
    snprintf(place->socket, sizeof place->socket, "sounder-group-%u-job-%.40s-%.20s", getuid(), job, step);
    return STATUS_OK;
}

// A launcher that tells the number of ranks on this machine also tells whether some are on other machines: then all
// ranks fail at once, and none waits for ranks that cannot join.
static Status check_machine(const GroupPlace *place, const Launcher *launcher, Error *err) {
    const char *here = launcher && launcher->local_size ? getenv(launcher->local_size) : NULL;
    if (!here || atoi(here) <= 0 || atoi(here) >= place->size) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "env://: %s=%s of %d ranks are on this machine: ranks on several machines meet by mpi://; start them with "
        "mpirun, and the ranks of one machine with one launch",
        launcher->local_size, here, place->size);
}

static Status find_by_environment(GroupPlace *place, Error *err) {
    const Launcher *launcher = launcher_find();
    if (launcher) TRY(read_identity(place, launcher, err));
    if (place->rank < 0 || place->size < 0)
        return fail(err, STATUS_USAGE,
                    "env://: RANK and WORLD_SIZE are not set; start the ranks with sounder launch, "
                    "torchrun, mpirun or srun, or set them");
    if (launcher && launcher->in_step && place->size > 1 && !getenv(launcher->in_step))
        return fail(err, STATUS_USAGE,
                    "env://: %s is %d, but this is the batch script's own process and no rank; start the ranks with "
                    "srun",
                    launcher->size, place->size);
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    TRY(check_machine(place, launcher, err));
    // Two jobs may have been given the same port: the job's own name tells their processes apart.
    const char *job = launcher && launcher->job ? getenv(launcher->job) : NULL;
    const char *step = launcher && launcher->step ? getenv(launcher->step) : NULL;
    if (!step) step = "";
    if (job && !place->job[0]) snprintf(place->job, sizeof place->job, "%.40s-%.20s", job, step);
    if (host && port) return meet_at_port(place, host, port, err);
    if (!launcher)
        return fail(err, STATUS_USAGE, "env://: MASTER_ADDR and MASTER_PORT are not set, for all ranks alike");
    return meet_in_job(place, launcher, job, step, err);
}

static Status find_by_address(GroupPlace *place, const char *address, Error *err) {
    char host[256];
    const char *port;
    if (!text_split_address(host, sizeof host, &port, address) || !port)
        return fail(err, STATUS_USAGE, "tcp://%s: give tcp://host:port", address);
    return meet_at_port(place, host, port, err);
}

static Status find_by_file(GroupPlace *place, const char *path, Error *err) {
    enum { TEMPORARY_SUFFIX_BYTES = 16 }; // added by rank 0 while it creates the file
    place->is_file = true;
    snprintf(place->name, sizeof place->name, "file://%.200s", path);
    if (path[0] != '/') return fail(err, STATUS_USAGE, "%s: give an absolute path, file:///...", place->name);
    if (strlen(path) + TEMPORARY_SUFFIX_BYTES >= sizeof place->socket)
        return fail(err, STATUS_USAGE, "%s: a path of at most %zu bytes, since it becomes a socket", place->name,
                    sizeof place->socket - TEMPORARY_SUFFIX_BYTES - 1);
    snprintf(place->socket, sizeof place->socket, "%s", path);
    return STATUS_OK;
}

static const char *after(const char *text, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

Status group_place_find(GroupPlace *place, const GroupConfig *config, Error *err) {
    const char *init = config->init ? config->init : "env://";
    const char *launch = getenv("SOUNDER_LAUNCH_ID"), *rest;
    *place = (GroupPlace){.rank = config->rank, .size = config->size, .local_rank = -1};
    if (launch) snprintf(place->job, sizeof place->job, "%.60s", launch);
    if (after(init, "mpi://")) {
        if (config->memory == GROUP_CUDA)
            return fail(err, STATUS_USAGE, "mpi://: messages by MPI are of host memory, not of a CUDA device's");
        place->is_mpi = true;
        return STATUS_OK;
    }
    if ((rest = after(init, "env://")))
        TRY(find_by_environment(place, err));
    else if ((rest = after(init, "tcp://")))
        TRY(find_by_address(place, rest, err));
    else if ((rest = after(init, "file://")))
        TRY(find_by_file(place, rest, err));
    else
        return fail(err, STATUS_USAGE, "%s: ranks meet by env://, tcp://host:port, file:///path or mpi://", init);
    if (place->size < 1 || place->size > GROUP_MAX_RANKS)
        return fail(err, STATUS_USAGE, "%s: a group has 1 to %d ranks, not %d", place->name, GROUP_MAX_RANKS,
                    place->size);
    if (place->rank < 0 || place->rank >= place->size)
        return fail(err, STATUS_USAGE, "%s: rank %d: a group of %d has ranks 0 to %d", place->name, place->rank,
                    place->size, place->size - 1);
    return STATUS_OK;
}
