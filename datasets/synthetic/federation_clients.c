// Part of federation.h: clients whose samples only a trainer has, as an app of Flower does. Each client has one number,
// its own, among the training samples and among those for tests; the trainer tells how many samples the client has.
#include <stdlib.h>
#include <string.h>

#include "datasets/synthetic/federation.h"

enum { MOST_CLIENTS = 1000000 };

static Status describe_clients(DatasetSource *source, const UserKind *kind, Error *err) {
    (void)kind;
    const char *text = form_text(&source->federation, 0);
    const size_t digits = strspn(text, "0123456789");
    const unsigned long count = digits > 0 && digits < 8 && !text[digits] ? strtoul(text, NULL, 10) : 0;
    if (count < 1 || count > MOST_CLIENTS)
        return fail(err, STATUS_USAGE, "clients:%.60s: needs a whole number from 1 to %d; write clients:10", text,
                    MOST_CLIENTS);
    source->users = (uint32_t)count;
    source->counts[DATASET_TRAIN] = source->counts[DATASET_TEST] = source->users;
    source->shape = (Shape){1, 1, 1};
    source->classes = 1;
    source->items.pixel_bytes = 0;
    source->items.are_clients = 1;
    return STATUS_OK;
}

static Status fill_clients(const DatasetArrays *arrays, const DatasetSource *source, const UserKind *kind, Error *err) {
    (void)source, (void)kind, (void)err;
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        for (uint32_t i = 0; i < arrays[split].count; i++) {
            arrays[split].labels[i] = 0;
            arrays[split].owners[i] = i;
        }
    return STATUS_OK;
}

// clang-format off
const Federation clients_federation = {
    .text = {.name = "clients", .source = "own",
        .help = "N clients whose samples are not here: a trainer (--trainer) has them, and tells how many they are. Every test is of the "
                "clients' own; a client's share in the mean is by that number with combine mean told",
        .keys = {{.name = "N", .type = FORM_TEXT, .help = "how many clients"}}},
    .describe = describe_clients, .fill = fill_clients};
// clang-format on
