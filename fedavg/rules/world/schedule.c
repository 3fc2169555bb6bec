#include "schedule.h"

#include <assert.h>
#include <stdlib.h>

enum { VISITS = 1 << 10, ROUND_BITS = 20 };

// Packs version and visit into one round number: the low ROUND_BITS hold version + 1, as in a synchronous run. A client
// that begins more than VISITS times from one version has the random numbers of its first visit again.
uint32_t schedule_key(uint32_t version, uint32_t visit) {
    assert(version + 1 < 1u << ROUND_BITS);
    return (version + 1) | (visit % VISITS) << ROUND_BITS;
}

uint32_t schedule_round(uint32_t key) {
    return key & ((1u << ROUND_BITS) - 1);
}

Status schedule_add(Schedule *schedule, const ScheduledJob *job, Error *err) {
    if (schedule->count == schedule->capacity) {
        const uint32_t capacity = schedule->capacity > 0 ? 2 * schedule->capacity : 1024;
        ScheduledJob *more = realloc(schedule->jobs, capacity * sizeof *more);
        if (!more) return fail(err, STATUS_OS, "no memory for a schedule of %u trainings", capacity);
        schedule->jobs = more;
        schedule->capacity = capacity;
    }
    assert(job->applied == NEVER_APPLIED || job->applied >= job->start);
    assert(job->end_microseconds >= job->begin_microseconds);
    schedule->jobs[schedule->count++] = *job;
    return STATUS_OK;
}

void schedule_free(Schedule *schedule) {
    owned_free(&schedule->owned);
    free(schedule->jobs);
    *schedule = (Schedule){0};
}

// The jobs that wait --------------------------------------------------------------------------------------------------

// Jobs that still wait keep their order, and those of the newest version follow: the list stays in the order of the
// jobs, by which checkpoints store the updates.
void schedule_advance(Schedule *schedule, uint32_t versions) {
    assert(versions >= 1 && versions <= schedule->versions);
    uint32_t left = 0;
    for (uint32_t i = 0; i < schedule->waiting_count; i++)
        if (schedule->jobs[schedule->waiting[i]].applied >= versions) schedule->waiting[left++] = schedule->waiting[i];
    for (uint32_t j = schedule->first[versions - 1]; j < schedule->first[versions]; j++)
        if (schedule->jobs[j].applied != NEVER_APPLIED && schedule->jobs[j].applied >= versions)
            schedule->waiting[left++] = j;
    assert(left <= schedule->most_pending);
    schedule->waiting_count = left;
}

void schedule_resume(Schedule *schedule, uint32_t versions) {
    schedule->waiting_count = 0;
    for (uint32_t version = 1; version <= versions; version++)
        schedule_advance(schedule, version);
}

// The other fields ----------------------------------------------------------------------------------------------------

// A version exists from the moment its last update arrives, but not before the version before it.
static void date_versions(Schedule *schedule) {
    uint64_t *published = schedule->published;
    for (uint32_t j = 0; j < schedule->count; j++) {
        const ScheduledJob *job = &schedule->jobs[j];
        uint64_t *end = job->applied < schedule->versions ? &published[job->applied + 1] : NULL;
        if (end && job->end_microseconds > *end) *end = job->end_microseconds;
    }
    for (uint32_t version = 1; version <= schedule->versions; version++)
        if (published[version] < published[version - 1]) published[version] = published[version - 1];
}

// The jobs of a version are adjacent, because jobs are in the order of their start. Those that begin after the last
// version are cut off: they were simulated only to find out when the others arrive.
static void index_versions(Schedule *schedule) {
    uint32_t job = 0;
    schedule->most_jobs = 0;
    for (uint32_t version = 0; version <= schedule->versions; version++) {
        while (job < schedule->count && schedule->jobs[job].start < version)
            job++;
        schedule->first[version] = job;
        const uint32_t jobs = version > 0 ? job - schedule->first[version - 1] : 0;
        if (jobs > schedule->most_jobs) schedule->most_jobs = jobs;
    }
    schedule->count = schedule->first[schedule->versions];
    assert(schedule->count <= schedule->capacity);
}

// Assigns the places where updates wait: the lowest free one, from the version that the update begins from to the end
// of its step. A place released in one step is used again in the next at the earliest. The jobs that are due in one
// version form a list through `after`, since the lengths of these lists are not known before.
static Status find_pending(Schedule *schedule, Error *err) {
    const uint32_t none = schedule->count;
    Owned owned = {0};
    uint32_t *free_places = own(&owned, schedule->count + 1, sizeof *free_places); // a stack
    uint32_t *due = own(&owned, schedule->versions + 1, sizeof *due); // by version: the head of a list of jobs
    uint32_t *after = own(&owned, schedule->count + 1, sizeof *after);
    if (owned.lacks_memory) {
        owned_free(&owned);
        return fail(err, STATUS_OS, "no memory for a schedule of %u trainings", schedule->count);
    }
    uint32_t free_count = 0;
    schedule->most_pending = 0;
    for (uint32_t version = 0; version < schedule->versions; version++)
        due[version] = none;
    for (uint32_t version = 0; version < schedule->versions; version++) {
        for (uint32_t j = schedule->first[version]; j < schedule->first[version + 1]; j++) {
            ScheduledJob *job = &schedule->jobs[j];
            if (job->applied == NEVER_APPLIED || job->applied == version) continue;
            job->pending = free_count > 0 ? free_places[--free_count] : schedule->most_pending++;
            assert(job->applied > version && job->pending < schedule->most_pending);
            if (job->applied >= schedule->versions) continue;
            after[j] = due[job->applied];
            due[job->applied] = j;
        }
        for (uint32_t j = due[version]; j != none; j = after[j])
            free_places[free_count++] = schedule->jobs[j].pending;
    }
    owned_free(&owned);
    schedule->waiting = own(&schedule->owned, schedule->most_pending, sizeof *schedule->waiting);
    if (!schedule->owned.lacks_memory) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for a list of %u trainings", schedule->most_pending);
}

Status schedule_complete(Schedule *schedule, Error *err) {
    const size_t versions = (size_t)schedule->versions + 1;
    owned_free(&schedule->owned);
    schedule->first = own(&schedule->owned, versions, sizeof *schedule->first);
    schedule->published = own(&schedule->owned, versions, sizeof *schedule->published);
    if (schedule->owned.lacks_memory)
        return fail(err, STATUS_OS, "no memory for a schedule of %u versions", schedule->versions);
    date_versions(schedule);
    index_versions(schedule);
    return find_pending(schedule, err);
}
