#include "fragments.h"

#include <assert.h>
#include <string.h>

// The tensors [first, end) of the module that begins with tensor `first`, and its weights that are trained.
static int module_end(uint64_t *weights, const TensorList *list, int first) {
    const char *name = list->tensors[first].name, *dot = strrchr(name, '.');
    const size_t length = dot ? (size_t)(dot - name) + 1 : 0;
    int end = first;
    *weights = 0;
    do {
        const ParameterTensor *tensor = &list->tensors[end++];
        *weights += tensor->frozen ? 0 : tensor->count;
    } while (length > 0 && end < list->count && strncmp(list->tensors[end].name, name, length) == 0 &&
             !strchr(list->tensors[end].name + length, '.'));
    return end;
}

static uint32_t lightest(const uint64_t *weights, uint32_t count) {
    uint32_t found = 0;
    for (uint32_t fragment = 1; fragment < count; fragment++)
        if (weights[fragment] < weights[found]) found = fragment;
    return found;
}

Status fragments_plan(Fragments *fragments, uint32_t count, const TensorList *list, Error *err) {
    uint64_t weights[FRAGMENTS_MOST] = {0}, of_module;
    uint32_t modules = 0;
    assert(count <= FRAGMENTS_MOST);
    *fragments = (Fragments){.count = count};
    for (int t = 0, end; t < list->count && count > 0; t = end) {
        end = module_end(&of_module, list, t);
        const uint32_t fragment = lightest(weights, count);
        weights[fragment] += of_module;
        modules += of_module > 0;
        for (int member = t; member < end; member++)
            fragments->of[member] = (uint16_t)fragment;
    }
    if (modules >= count) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "schedule rounds fragments=%u: the net has only %u modules that are trained, and each fragment needs "
                "one; lower it",
                count, modules);
}

uint32_t fragments_runs(PersonalRun runs[TENSORS_MOST], const Fragments *fragments, const TensorList *list,
                        uint32_t round) {
    uint32_t count = 0;
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        if (tensor->frozen || !fragments_has(fragments, t, round)) continue;
        if (count > 0 && runs[count - 1].end == tensor->first)
            runs[count - 1].end += tensor->count;
        else
            runs[count++] = (PersonalRun){tensor->first, tensor->first + tensor->count};
    }
    return count;
}

void fragments_mix(float *weights, const float *global, double mix, const Fragments *fragments, const TensorList *list,
                   uint32_t round) {
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        const size_t end = tensor->first + tensor->count;
        if (tensor->frozen || !fragments_has(fragments, t, round)) continue;
        for (size_t i = tensor->first; i < end; i++)
            weights[i] = (float)(mix * (double)weights[i] + (1 - mix) * (double)global[i]);
    }
}
