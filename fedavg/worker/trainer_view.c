#include "trainer_view.h"

#include <string.h>

#include "fedavg/rules/attack/attack_rules.h"
#include "nn/augment.h"

// A turn has one row per sample, however many epochs it has: noise and drift are the same in each of them. Marks of a
// backdoor follow from the place in a batch, so that a marked sample gets a row each time.
static uint32_t put_row(LocalModel *model, const DatasetSplit *split, uint32_t index, bool marked) {
    const RunConfig *config = model->memory->config;
    Desk *desk = &model->by.trainer->desk;
    Batch one = view_batch(model->memory, split, &index, 1);
    view_apply(&model->view, &one);
    const size_t at = one.indices ? index : 0; // the view has copied it, or not
    uint8_t *sample = desk->samples + desk->rows * desk->sample_bytes;
    uint8_t *label = desk->labels + desk->rows * desk->label_bytes;
    memcpy(sample, one.pixels + at * desk->sample_bytes, desk->sample_bytes);
    memcpy(label, (const uint8_t *)one.labels + at * desk->label_bytes, desk->label_bytes);
    uint16_t *class = (uint16_t *)(void *)label;
    if (one.label_of) *class = one.label_of[*class];
    if (marked) {
        augment_mark(sample, config->spec.trigger, config->spec.input, 1);
        *class = (uint16_t)config->attack.number[BACKDOOR_TARGET];
    }
    return desk->rows++;
}

bool trainer_view_differs(const LocalModel *model) {
    return model->liar.lies || view_differs(&model->view);
}

void trainer_view_add(LocalModel *model, const DatasetSplit *split, uint32_t count, uint32_t marked) {
    Desk *desk = &model->by.trainer->desk;
    if (desk->overfull) return;
    const uint32_t first = desk->count - count, *indices = desk->order + first;
    uint32_t *places = desk->places + first;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *row = &desk->row_of[indices[i]];
        if (i < marked) {
            places[i] = put_row(model, split, indices[i], true);
            continue;
        }
        if (*row == 0) *row = 1 + put_row(model, split, indices[i], false);
        places[i] = *row - 1;
    }
}
