#include "datasets/partition/validation.h"

#include <stdlib.h>
#include <string.h>

#include "datasets/partition/partitioner.h"

// Samples of the classes so far, and how many of them were drawn.
typedef struct Drawn {
    uint32_t seen, taken;
} Drawn;

// Draws from the samples (count) of a class: the first ones of a random order. Rounding is carried over to the next
// class, so that the share of all is exact also with few samples per class. A class keeps one sample for training.
static void draw(uint8_t *chosen, Drawn *drawn, uint32_t *of_class, uint32_t count, uint32_t label,
                 const PartitionSpec *spec) {
    if (count == 0) return;
    drawn->seen += count;
    const uint32_t due = (uint32_t)(spec->validation * drawn->seen + 0.5) - drawn->taken;
    const uint32_t wanted = due < count ? due : count - 1;
    rng_shuffle(of_class, count, rng_key(spec->seed, RNG_PARTITION, STREAM_VALIDATION, label, 0));
    for (uint32_t i = 0; i < wanted; i++)
        chosen[of_class[i]] = 1;
    drawn->taken += wanted;
}

static Status draw_all(uint8_t *chosen, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples,
                       int classes, Error *err) {
    if (spec->validation_last > 0) {
        memset(chosen + samples - spec->validation_last, 1, spec->validation_last);
        return STATUS_OK;
    }
    const PartitionTask task = {.labels = labels, .samples = samples, .classes = (uint32_t)classes};
    ByClass sorted = {0};
    Drawn drawn = {0};
    if (labels) TRY(by_class_init(&sorted, &task, err));
    for (uint32_t label = 0; label < task.classes && labels; label++)
        draw(chosen, &drawn, sorted.sorted + sorted.first[label], class_size(&sorted, label), label, spec);
    if (!labels) {
        sorted.sorted = malloc(samples * sizeof *sorted.sorted);
        if (!sorted.sorted) return fail(err, STATUS_OS, "no memory for the numbers of %u samples", samples);
        fill_identity(sorted.sorted, samples);
        draw(chosen, &drawn, sorted.sorted, samples, 0, spec);
    }
    by_class_free(&sorted);
    return STATUS_OK;
}

// Numbers the remaining samples again, with their labels and owners.
static void collect(Remaining *remaining, const uint8_t *chosen, const uint16_t *labels, const PartitionSpec *spec,
                    uint32_t samples) {
    remaining->validation = 0;
    for (uint32_t i = 0; i < samples; i++)
        remaining->validation += chosen[i];
    remaining->samples = samples - remaining->validation;
    uint32_t *kept = remaining->numbers, *taken = kept + remaining->samples;
    for (uint32_t i = 0, next = 0; i < samples; i++) {
        if (chosen[i]) {
            *taken++ = i;
            continue;
        }
        kept[next] = i;
        if (labels) remaining->labels[next] = labels[i];
        if (spec->owners) remaining->owners[next] = spec->owners[i];
        next++;
    }
}

Status remaining_init(Remaining *remaining, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples,
                      int classes, Error *err) {
    *remaining = (Remaining){.spec = *spec};
    uint8_t *chosen = own(&remaining->owned, samples, sizeof *chosen);
    remaining->numbers = own(&remaining->owned, samples, sizeof *remaining->numbers);
    remaining->labels = own(&remaining->owned, labels ? samples : 0, sizeof *labels);
    remaining->owners = own(&remaining->owned, spec->owners ? samples : 0, sizeof *spec->owners);
    Status status = remaining->owned.lacks_memory
                        ? fail(err, STATUS_OS, "no memory for the numbers of %u samples", samples)
                        : draw_all(chosen, spec, labels, samples, classes, err);
    if (status == STATUS_OK) collect(remaining, chosen, labels, spec, samples);
    if (status == STATUS_OK && (remaining->samples == 0 || remaining->validation == 0))
        status = fail(err, STATUS_USAGE, "--validation %g of %u samples leaves none for %s; give another share",
                      spec->validation, samples, remaining->samples == 0 ? "the clients" : "the validation set");
    remaining->share = spec->validation;
    remaining->spec.owners = remaining->owners;
    remaining->spec.numbers = remaining->numbers;
    remaining->spec.validation = 0;
    remaining->spec.validation_last = 0;
    if (status != STATUS_OK) remaining_free(remaining);
    return status;
}

void remaining_free(Remaining *remaining) {
    owned_free(&remaining->owned);
}
