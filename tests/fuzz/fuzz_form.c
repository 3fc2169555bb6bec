// Any partition or federation: an accepted one has the numbers that its text says, a federation users and samples. The
// first byte says which of the two.
#include "fuzz.h"

#include "datasets/partition.h"
#include "datasets/synthetic/federation.h"

static void must_be_in_range(const Form *form, const FormTable *table) {
    enum { MOST_REALS = 4 };
    must(form->row < table->count);
    const FormRow *row = form_row(table, form->row);
    char usage[FORM_USAGE_BYTES];
    form_usage(usage, row);
    must(memchr(usage, 0, sizeof usage) && strncmp(usage, row->name, strlen(row->name)) == 0);
    for (int k = 0; k < FORM_MAX_KEYS && row->keys[k].name; k++) {
        const FormKey *key = &row->keys[k];
        must(form->place[k] < FORM_TEXT_BYTES && memchr(form_text(form, k), 0, FORM_TEXT_BYTES - form->place[k]));
        if (!*form_text(form, k) || key->type == FORM_TEXT) continue;
        double values[MOST_REALS] = {form->number[k]};
        uint32_t count = key->type == FORM_REALS ? form_reals(values, MOST_REALS, form, k) : 1;
        must(count > 0 && values[0] == form->number[k]);
        for (uint32_t i = 0; i < count && i < MOST_REALS && key->type != FORM_CHOICE; i++)
            must(values[i] >= key->minimum && values[i] <= key->maximum);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    if (bytes < 1) return 0;
    Error err = {.message = ""};
    char *text = text_of(input + 1, bytes - 1);
    Form form;
    if (input[0] % 2) {
        if (refused_with_a_sentence(partition_parse(&form, text, &err), &err) == STATUS_OK) {
            must(form_is(text, form_row(&partition_table, form.row)->name));
            must_be_in_range(&form, &partition_table);
        }
    } else {
        DatasetSource source = {0};
        if (refused_with_a_sentence(federation_describe(&source, text, input[0], &err), &err) == STATUS_OK) {
            must(federation_is_named(text) && source.users > 0 && source.counts[DATASET_TRAIN] > 0 &&
                 source.counts[DATASET_TEST] > 0);
            must_be_in_range(&source.federation, &federation_table);
        }
    }
    free(text);
    return 0;
}
