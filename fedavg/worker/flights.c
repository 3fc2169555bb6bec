#include "flights.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/worker/client.h"

// own (parameters) becomes the newest version, whose number is returned. The parent may publish while a worker copies:
// two versions are stored, so that the copy fails only if the next but one has begun to overwrite it, and then it
// starts over. The worker never holds a lock that the parent would have to wait for.
static uint32_t copy_newest(float *own, const RunMemory *memory) {
    Control *control = memory->control;
    const RunConfig *config = memory->config;
    for (;;) {
        const uint32_t version = atomic_load_explicit(&control->published, memory_order_acquire); // pairs with publish
        assert(atomic_load_explicit(&control->writing, memory_order_relaxed) >= version);
        memcpy(own, run_memory_row(memory, flights_version_row(config->workers, version)),
               config->parameters * sizeof *own);
        atomic_thread_fence(memory_order_acquire); // pairs with that of publish: whoever saw its writes sees `writing`
        if (atomic_load_explicit(&control->writing, memory_order_relaxed) <= version + 1) return version;
    }
}

static bool is_called(const Control *control, const Flight *flight) {
    const uint32_t state = atomic_load_explicit(&flight->state, memory_order_acquire); // pairs with the parent's post
    return state == FLIGHT_POSTED || atomic_load_explicit(&control->all_land, memory_order_acquire);
}

// Sleeps until the parent gives a client. False: all workers must land, and there is no client.
static bool wait_for_client(const Control *control, Flight *flight) {
    while (!is_called(control, flight)) {
        const uint32_t heard = bell_listen(&flight->bell);
        if (!is_called(control, flight)) bell_wait(&flight->bell, heard, bell_slice_nanoseconds);
    }
    return !atomic_load_explicit(&control->all_land, memory_order_acquire);
}

// Trains client after client. The global weights of a client are the private copy that it began from, which stays as it
// is in its row: the parent computes the update from that row when the client has landed, although the shared model has
// moved on by then.
void flights_train(LocalModel *model) {
    const RunMemory *shared = model->memory;
    Control *control = shared->control;
    Flight *flight = &control->flights[model->rank];
    RunMemory own = *shared; // the same memory, in which the global weights are those that this client began with
    own.weights = run_memory_row(shared, flights_begun_row(shared->config->workers, model->rank));
    model->memory = model->sender.memory = &own;
    while (wait_for_client(control, flight)) {
        run_memory_note_start(shared, model->rank);
        flight->begin_nanoseconds = clock_nanoseconds();
        flight->version = copy_newest(own.weights, shared);
        assert(flight->job.owner == model->rank + 1 && flight->job.state == JOB_OPEN);
        client_train(model, &flight->job, flight->version + 1);
        flight->end_nanoseconds = clock_nanoseconds();
        atomic_store_explicit(&flight->state, FLIGHT_LANDED, memory_order_release); // pairs with the parent's look
        worker_ring();
    }
    model->memory = model->sender.memory = shared;
}
