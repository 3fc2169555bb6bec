#include "top_phase.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fedavg/memory/queue.h"

static bool is_this_program(pid_t pid) {
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

static bool open_segment(TopPhase *phase, const char *path, pid_t parent) {
    char name[4096 + 32];
    Error ignored;
    if (!is_this_program(parent)) return false;
    snprintf(name, sizeof name, "%s/live/control", path);
    const int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // an ending run may have a pipe under this number
    if (fd < 0 || segment_map(&phase->segment, fd, SEGMENT_READ, &ignored) != STATUS_OK) return false;
    phase->parent = parent;
    return true;
}

// Returns the queue if it is entirely within the segment; otherwise NULL.
static const Queue *find_queue(const Segment *segment) {
    const Control *control = segment->memory;
    if (segment->bytes < sizeof *control) return NULL;
    const uint64_t offset = control->config.queue_offset;
    if (offset > segment->bytes || segment->bytes - offset < sizeof(Queue)) return NULL;
    const Queue *queue = (const Queue *)((const uint8_t *)segment->memory + offset);
    return queue_bytes(queue->capacity) <= segment->bytes - offset ? queue : NULL;
}

void top_phase_read(TopPhase *phase, const char *path, pid_t parent) {
    if (phase->parent != 0 && phase->parent != parent) top_phase_close(phase);
    phase->kind = PHASE_NONE;
    phase->jobs = phase->done = 0;
    memset(phase->client, 0, sizeof phase->client);
    if (parent == 0 || (phase->parent == 0 && !open_segment(phase, path, parent))) return;
    const Control *control = phase->segment.memory;
    const Queue *queue = find_queue(&phase->segment);
    if (!queue) return;
    phase->kind = (PhaseKind)control->order.kind;
    phase->round = control->order.round;
    phase->jobs = queue->count < queue->capacity ? queue->count : queue->capacity;
    for (uint32_t i = 0; i < phase->jobs; i++) {
        const Job *job = &queue->jobs[i];
        // Pairs with the store of the worker that ends the job (queue.c).
        const bool is_done = atomic_load_explicit(&job->state, memory_order_acquire) != JOB_OPEN;
        const uint32_t owner = atomic_load_explicit(&job->owner, memory_order_relaxed);
        phase->done += is_done;
        if (!is_done && owner > 0 && owner <= MAX_WORKERS && phase->kind == PHASE_TRAIN)
            phase->client[owner - 1] = job->client + 1;
    }
}

void top_phase_close(TopPhase *phase) {
    segment_free(&phase->segment);
    *phase = (TopPhase){.segment.fd = -1};
}
