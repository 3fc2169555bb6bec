#include "launch_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "shm/group/group_shared.h"
#include "shm/segment.h"

// The memory belongs to other processes, which may be of another version: it is used only if it names just these
// processes as members.
static const GroupMember *find_members(const Segment *segment, const pid_t *pids, int count) {
    const size_t record = (sizeof(GroupHeader) + 63) & ~(size_t)63, members = record + sizeof(GroupRecord);
    const GroupHeader *header = segment->memory;
    if (segment->bytes < members + (size_t)count * sizeof(GroupMember) || header->size != (uint32_t)count) return NULL;
    const GroupMember *member = (const GroupMember *)((const char *)segment->memory + members);
    for (int i = 0; i < count; i++)
        if (member[i].pid != pids[i]) return NULL;
    return member;
}

static const GroupArrival *last_arrival(const GroupMember *member) {
    const GroupArrival *arrivals = member->arrivals;
    // Acquire, pairs with the release store of an arrival: its call is complete.
    const uint64_t odd = atomic_load_explicit(&arrivals[1].step, memory_order_acquire);
    return odd > atomic_load_explicit(&arrivals[0].step, memory_order_acquire) ? &arrivals[1] : &arrivals[0];
}

static bool compare(CallsMissed *missed, const GroupMember *members, int count) {
    const GroupArrival *furthest = last_arrival(&members[0]);
    bool some = false;
    for (int i = 1; i < count; i++)
        if (last_arrival(&members[i])->step > furthest->step) furthest = last_arrival(&members[i]);
    for (int i = 0; i < count; i++) {
        missed->behind[i] = last_arrival(&members[i])->step < furthest->step;
        some |= missed->behind[i];
    }
    const GroupCall call = furthest->call;
    if (!some || call.operation >= OPERATION_COUNT || call.type > GROUP_U8 || call.op > GROUP_BXOR) return false;
    missed->sequence = call.sequence;
    group_call_text(missed->call, &call);
    return true;
}

bool calls_missed(CallsMissed *missed, const pid_t *pids, int count) {
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", pids[0]);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        char name[128], target[64] = "";
        snprintf(name, sizeof name, "%s/%.10s", path, entry->d_name);
        // Only files without a name may be segments: opening others, such as devices, may have effects.
        if (readlink(name, target, sizeof target - 1) < 0 || !strstr(target, "(deleted)")) continue;
        const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        Segment segment;
        Error ignored;
        if (fd < 0 || segment_map(&segment, fd, SEGMENT_READ, &ignored) != STATUS_OK) continue;
        const GroupMember *members = find_members(&segment, pids, count);
        found = members && compare(missed, members, count);
        segment_free(&segment);
    }
    if (folder) closedir(folder);
    return found;
}
