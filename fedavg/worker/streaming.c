#include "streaming.h"

#include <assert.h>
#include <string.h>

#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/walk.h"

static const Fragments *fragments_of(const LocalModel *model) {
    return &model->memory->config->fragments;
}

uint64_t streaming_floats(const RunConfig *config) {
    return config->fragments.count > 0 ? config->parameters + 1 : 0;
}

static void mix(LocalModel *model, double own, uint32_t round) {
    const RunMemory *memory = model->memory;
    fragments_mix(model->weights, memory->weights, own, fragments_of(model), &memory->tensors, round);
}

void streaming_begin(LocalModel *model, LocalStep *step, const Job *job, uint32_t round) {
    const RunConfig *config = model->memory->config;
    const uint32_t count = config->fragments.count;
    const float *row = client_state_row(&model->memory->client_state, job->state_from);
    if (count == 0 || !row) return;
    const uint32_t last = (uint32_t)row[config->parameters];
    assert(last >= 1 && last < round);
    memcpy(model->weights, row, config->parameters * sizeof *row);
    if (last + 1 == round) {
        step->late_round = last;
        step->late_after = walk_delay(&config->recipe.schedule);
        if (step->late_after == 0) streaming_mix(model, step);
        return;
    }
    for (uint32_t missed = round - last > count ? round - count : last; missed < round; missed++)
        mix(model, 0, missed);
}

void streaming_mix(LocalModel *model, const LocalStep *step) {
    mix(model, walk_mix(&model->memory->config->recipe.schedule), step->late_round);
}

void streaming_conclude(LocalModel *model, const Job *job, uint32_t round) {
    const RunMemory *memory = model->memory;
    const size_t parameters = memory->config->parameters;
    const float turn = (float)round; // exact below 2^24
    if (fragments_of(model)->count == 0 ||
        aggregate_first_unfit(model->weights, memory->weights, parameters) < parameters)
        return;
    if (job->state_to != NO_CLIENT_STATE) {
        client_state_row_write(&memory->client_state, job->state_to, model->weights, parameters);
        client_state_row_write_bytes(&memory->client_state, job->state_to, parameters * sizeof turn, &turn,
                                     sizeof turn);
    }
    streaming_withhold(model->weights, memory, round);
}

void streaming_withhold(float *weights, const RunMemory *memory, uint32_t round) {
    const Fragments *fragments = &memory->config->fragments;
    for (int t = 0; t < memory->tensors.count && fragments->count > 0; t++) {
        const ParameterTensor *tensor = &memory->tensors.tensors[t];
        if (!fragments_has(fragments, t, round))
            memcpy(weights + tensor->first, memory->weights + tensor->first, tensor->count * sizeof *weights);
    }
}
