#include "shm/group/group_shared.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/group/group_combine.h"
#include "shm/group/rendezvous.h"

enum { SPINS_WHEN_CORES_SUFFICE = 4000 };

// Life ----------------------------------------------------------------------------------------------------------------

// Offsets of the parts of the segment, for a group of one size.
typedef struct Layout {
    size_t record, members, rings, ring_bytes, slots, total;
    size_t bytes_per_ring, bytes_per_chunk, slot_bytes;
} Layout;

static size_t clamp(size_t value, size_t least, size_t most) {
    return value < least ? least : value > most ? most : value;
}

// Rings and slots shrink as the group grows, so that the segment has about 25 MB for up to a hundred ranks. Slots are
// long because a line that is reused only after a megabyte has left the caches of its reader; otherwise the writer
// would have to get it back from there.
static Layout layout_of(size_t size) {
    assert(size >= 1 && size <= GROUP_MAX_RANKS);
    enum { RINGS_TOTAL = 16 << 20, SLOTS_TOTAL = 8 << 20 };
    Layout layout = {.bytes_per_ring = 1024};
    while (layout.bytes_per_ring < 65536 && 2 * layout.bytes_per_ring * size * size <= RINGS_TOTAL)
        layout.bytes_per_ring *= 2;
    layout.bytes_per_chunk = clamp(SLOTS_TOTAL / (2 * size) / 64 * 64, 32768, 1048576);
    layout.record = (sizeof(GroupHeader) + 63) & ~(size_t)63;
    layout.members = layout.record + sizeof(GroupRecord);
    layout.rings = layout.members + size * sizeof(GroupMember);
    layout.ring_bytes = layout.rings + size * size * sizeof(GroupRing);
    layout.slots = layout.ring_bytes + size * size * layout.bytes_per_ring;
    layout.slot_bytes = size * 2 * layout.bytes_per_chunk;
    layout.total = layout.slots + layout.slot_bytes;
    assert((layout.bytes_per_ring & (layout.bytes_per_ring - 1)) == 0); // positions are masked, not divided
    assert(layout.members % 64 == 0 && layout.rings % 64 == 0 && layout.ring_bytes % 64 == 0 && layout.slots % 64 == 0);
    return layout;
}

static void find_parts(SharedGroup *shared, size_t size) {
    Layout layout = layout_of(size);
    unsigned char *base = shared->segment.memory;
    assert(shared->segment.bytes >= layout.total && (uintptr_t)base % 64 == 0);
    shared->header = (GroupHeader *)base;
    shared->record = (GroupRecord *)(base + layout.record);
    shared->members = (GroupMember *)(base + layout.members);
    shared->rings = (GroupRing *)(base + layout.rings);
    shared->ring_bytes = base + layout.ring_bytes;
    shared->slots = base + layout.slots;
    shared->payload_bytes = shared->ring_bytes;
    shared->device_slots = shared->slots;
}

static Status make_segment(SharedGroup *shared, uint32_t size, GroupMemory memory, Error *err) {
    Layout layout = layout_of(size);
    TRY(segment_create(&shared->segment, "group", layout.total, err));
    find_parts(shared, size);
    *shared->header = (GroupHeader){
        .size = size, .memory = memory, .ring_bytes = layout.bytes_per_ring, .chunk_bytes = layout.bytes_per_chunk};
    if (memory == GROUP_CUDA) TRY(group_cuda_create(shared, layout.slot_bytes, layout.slots - layout.ring_bytes, err));
    segment_publish(&shared->segment);
    return STATUS_OK;
}

static Status map_segment(SharedGroup *shared, int fd, Error *err) {
    TRY(segment_map(&shared->segment, fd, SEGMENT_READ_WRITE, err));
    find_parts(shared, shared->group->size);
    assert(shared->header->size == shared->group->size);
    assert(shared->header->chunk_bytes == layout_of(shared->group->size).bytes_per_chunk);
    return STATUS_OK;
}

static Status publish_host(void *to, const void *from, size_t bytes, Error *err) {
    (void)err;
    group_stream(to, from, bytes);
    return STATUS_OK;
}

static Status copy_host(void *to, const void *from, size_t bytes, Error *err) {
    (void)err;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static Status combine_host(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type,
                           GroupOp op, Error *err) {
    (void)err;
    group_combine(out, inputs, ranks, count, type, op);
    return STATUS_OK;
}

static Status settle_host(Error *err) {
    (void)err;
    return STATUS_OK; // the arrival is a release store: earlier writes are visible with it
}

static void shared_free(SharedGroup *shared, uint32_t size) {
    for (uint32_t i = 0; shared->pidfds && i < 2 * size; i++) // the sockets, too
        if (shared->pidfds[i] >= 0) close(shared->pidfds[i]);
    if (shared->device.memory) group_cuda_detach(shared);
    segment_free(&shared->segment);
    owned_free(&shared->owned);
    free(shared);
}

static Status shared_new(SharedGroup **made, Group *group, Error *err) {
    SharedGroup *shared = calloc(1, sizeof *shared);
    if (shared) {
        shared->group = group;
        shared->peers = own(&shared->owned, group->size, sizeof *shared->peers);
        shared->polls = own(&shared->owned, group->size, sizeof *shared->polls);
        shared->pidfds = own(&shared->owned, 2 * group->size, sizeof *shared->pidfds);
        shared->mover = shared->host_mover = (GroupMover){publish_host, copy_host, combine_host, settle_host};
        if (shared->pidfds) memset(shared->pidfds, -1, 2 * group->size * sizeof *shared->pidfds);
        if (shared->pidfds) shared->sockets = shared->pidfds + group->size;
    }
    if (!shared || shared->owned.lacks_memory) {
        if (shared) shared_free(shared, group->size);
        return fail(err, STATUS_OS, "out of memory for a group of %u ranks", group->size);
    }
    *made = shared;
    return STATUS_OK;
}

// Counts the cores of all ranks together: a launcher may have bound each rank to a core of its own.
static uint32_t count_cores(const SharedGroup *shared) {
    uint32_t count = 0;
    for (size_t word = 0; word < sizeof shared->members->cores / sizeof *shared->members->cores; word++) {
        uint64_t mask = 0;
        for (uint32_t rank = 0; rank < shared->group->size; rank++)
            mask |= shared->members[rank].cores[word];
        count += (uint32_t)__builtin_popcountll(mask);
    }
    return count;
}

// Meets the others in the segment for the first time; the segment is mapped and the process descriptors are known.
static Status enter(SharedGroup *shared, Error *err) {
    assert(shared->segment.memory && shared->step == 0);
    Group *group = shared->group;
    group->state = shared;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        assert(shared->pidfds[rank] >= 0);
        shared->polls[rank] = (struct pollfd){.fd = rank == group->rank ? -1 : shared->pidfds[rank], .events = POLLIN};
    }
    GroupMember *self = &shared->members[group->rank];
    struct stat about;
    self->pid = getpid();
    self->pid_namespace = stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
    sched_getaffinity(0, sizeof self->cores, (cpu_set_t *)self->cores); // a mask that does not fit leaves no core
    Status opened = STATUS_OK;
    if (group->rank > 0 && shared->header->memory == GROUP_CUDA)
        opened = group_cuda_open(shared, layout_of(group->size).slot_bytes, &group->error);
    // The caller gets no group, so it cannot ask which rank failed: the sentence alone says it.
    if (opened != STATUS_OK) return group_shared_fail(shared, opened, err);
    GroupCall call = {.operation = OPERATION_BARRIER, .type = GROUP_U8};
    TRY(group_shared_collective(group, &call, NULL, NULL, err));
    shared->spins = group->size <= count_cores(shared) ? SPINS_WHEN_CORES_SUFFICE : 0;
    return STATUS_OK;
}

// If a failure has kept the others from finishing, rank 0 leaves the block that it has exported to the end of its
// process.
static void release(Group *group, bool failed) {
    SharedGroup *shared = group->state;
    if (failed && !shared->device.imported) shared->device = (CudaShare){0};
    shared_free(shared, group->size);
}

static Status split(Group *part, Group *parent, const uint32_t *members, Error *err);

static const GroupTransport shared_transport = {.collective = group_shared_collective,
                                                .start = group_mailbox_start,
                                                .wait = group_mailbox_wait,
                                                .test = group_mailbox_test,
                                                .split = split,
                                                .release = release};

// Rank 0 makes the segment when all ranks have come, and sends it to them.
static Status share_segment(SharedGroup *shared, Rendezvous *meeting, Error *err) {
    if (meeting->rank > 0) {
        int fd = -1;
        TRY(rendezvous_receive(meeting, &fd, err));
        return map_segment(shared, fd, err);
    }
    Error reason = {.message = ""};
    Status status = make_segment(shared, meeting->size, meeting->memory, &reason);
    if (status == STATUS_OK) status = rendezvous_share(meeting, shared->segment.fd, &reason);
    if (status == STATUS_OK) return STATUS_OK;
    rendezvous_refuse(meeting, status, &reason);
    return fail(err, status, "%s", reason.message);
}

// The ranks meet through sockets, then share the segment and their process descriptors. The sockets stay open, because
// later splits send the memory of their parts through them.
Status group_shared_open(Group *group, const GroupPlace *place, GroupMemory memory, Error *err) {
    if (memory == GROUP_CUDA && !group_cuda_create)
        return fail(err, STATUS_UNAVAILABLE,
                    "this program was built without groups whose buffers are on a CUDA device");
    group->transport = &shared_transport;
    group->rank = (uint32_t)place->rank;
    group->size = (uint32_t)place->size;
    group->local_rank = (uint32_t)(place->local_rank < 0 ? place->rank : place->local_rank);
    SharedGroup *shared;
    TRY(shared_new(&shared, group, err));
    Rendezvous meeting;
    const uint64_t deadline = clock_nanoseconds() + group->timeout_nanoseconds;
    Status status = rendezvous_join(&meeting, place, memory, deadline, err);
    if (status == STATUS_OK) {
        status = share_segment(shared, &meeting, err);
        assert(meeting.size == group->size && meeting.rank == group->rank);
        if (status == STATUS_OK) {
            memcpy(shared->pidfds, meeting.pidfds, group->size * sizeof *shared->pidfds);
            memcpy(shared->sockets, meeting.sockets, group->size * sizeof *shared->sockets);
            memset(meeting.pidfds, -1, sizeof meeting.pidfds); // owned by `shared` now
            memset(meeting.sockets, -1, sizeof meeting.sockets);
        }
        rendezvous_free(&meeting);
    }
    if (status == STATUS_OK) status = enter(shared, err);
    if (status != STATUS_OK) shared_free(shared, group->size);
    return status;
}

// Sub-groups ----------------------------------------------------------------------------------------------------------

static Status take_part(SharedGroup *shared, const SharedGroup *parent, const uint32_t *members, int memory_fd,
                        Error *err) {
    Group *part = shared->group;
    assert(part->rank < part->size && members[part->rank] == parent->group->rank);
    if (part->rank > 0 && memory_fd < 0)
        return fail(err, STATUS_OS, "rank %u could not make the memory of a sub-group", members[0]);
    if (part->rank > 0) TRY(map_segment(shared, memory_fd, err));
    for (uint32_t rank = 0; rank < part->size; rank++) {
        shared->pidfds[rank] = fcntl(parent->pidfds[members[rank]], F_DUPFD_CLOEXEC, 0);
        if (shared->pidfds[rank] >= 0) continue;
        const Status status = fail_errno(&part->error, STATUS_OS, "no process descriptors for a sub-group");
        return group_shared_fail(shared, status, err); // the other members wait for this rank in the part's memory
    }
    return enter(shared, err);
}

static Status split(Group *part, Group *parent, const uint32_t *members, Error *err) {
    SharedGroup *shared = NULL;
    GroupOffer own = {.leader = -1}, offers[GROUP_MAX_RANKS];
    Error reason;
    // If this rank fails here, the others must learn of it before it returns.
    Status made = part ? shared_new(&shared, part, &reason) : STATUS_OK;
    if (part)
        own = (GroupOffer){.leader = (int32_t)members[0], .place = (int32_t)part->rank, .size = (int32_t)part->size};
    if (made == STATUS_OK && part && part->rank == 0) {
        made = make_segment(shared, part->size, ((SharedGroup *)parent->state)->header->memory, &reason);
        own.has_memory = made == STATUS_OK;
    }
    GroupCall call = {
        .sequence = ++parent->sequence, .count = sizeof own, .operation = OPERATION_SPLIT, .type = GROUP_U8};
    int memory_fd = -1;
    Status status = group_shared_collective(parent, &call, offers, &own, err);
    // A member without memory for its part would leave the descriptors that are sent to it in its socket.
    if (status == STATUS_OK && part && !shared) {
        parent->error = reason;
        status = group_shared_fail(parent->state, made, err);
    } else if (status == STATUS_OK) {
        status = group_shared_hand_over(&memory_fd, parent->state, shared, offers, err);
    }
    if (made != STATUS_OK) status = fail(err, made, "%s", reason.message);
    if (status == STATUS_OK && part)
        status = take_part(shared, parent->state, members, memory_fd, err);
    else if (memory_fd >= 0)
        close(memory_fd);
    if (status != STATUS_OK && shared) shared_free(shared, part->size);
    return status;
}
