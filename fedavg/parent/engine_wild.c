// Part of engine.h: hogwild. The workers have published what they trained when the round ends.
#include "fedavg/parent/rounds.h"
#include "fedavg/worker/hogwild.h"

// Workers have written the weights during the round; the parent only judges them. A round in which every step was
// dropped for its gradient leaves finite weights that have learned nothing, so it fails, too.
static Status settle(Rounds *rounds, uint32_t round, Error *err) {
    Control *control = rounds->memory->control;
    TRY(engine_adopt(rounds, round, err));
    if (atomic_load_explicit(&control->updates, memory_order_relaxed) > 0) return STATUS_OK;
    return engine_reject(rounds, round, "gradients", err); // of all steps, so none was applied
}

// With a bound, a worker waits for one that lags.
static bool is_waiting(const Rounds *rounds, uint32_t rank) {
    return hogwild_waits(rounds->memory->control, rank);
}

const Engine engine_wild = {.run = engine_run_clients, .settle = settle, .is_waiting = is_waiting};
