// Any block of memory: what a view points at lies within it. Blocks whose last byte is odd get the layout that their
// own counts ask for, so that what lies behind that check is reached, too.
#include "fuzz.h"

#include "datasets/dataset_block.h"

static void must_lie_within(const uint8_t *block, size_t bytes, const void *from, size_t count) {
    const uint8_t *begin = from;
    must(begin >= block && (size_t)(begin - block) <= bytes && count <= bytes - (size_t)(begin - block));
}

// A split's samples, unless they lie in a file: nothing then says where.
static void must_have_samples_within(const uint8_t *block, size_t bytes, const Dataset *data, DatasetSplitKind kind) {
    const DatasetSplit *split = kind == DATASET_TRAIN ? &data->train : &data->test;
    if (data->items.outside & 1u << kind)
        must(!split->pixels);
    else
        must_lie_within(block, bytes, split->pixels, dataset_sample_bytes(data, split));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    Error err = {.message = ""};
    size_t room = (bytes + DATASET_ALIGNMENT) / DATASET_ALIGNMENT * DATASET_ALIGNMENT;
    uint8_t *block = aligned_alloc(DATASET_ALIGNMENT, room);
    must(block);
    memcpy(block, input, bytes);
    if (bytes >= sizeof(DatasetBlock) && block[bytes - 1] % 2) {
        DatasetBlock *header = (DatasetBlock *)block;
        header->magic = DATASET_MAGIC;
        header->version = DATASET_VERSION;
        Status status = dataset_layout(&header->layout, header->shape, header->counts, &header->items, &err);
        refused_with_a_sentence(status, &err);
    }
    Dataset data;
    if (refused_with_a_sentence(dataset_view(&data, block, bytes, &err), &err) == STATUS_OK) {
        must_have_samples_within(block, bytes, &data, DATASET_TRAIN);
        must_have_samples_within(block, bytes, &data, DATASET_TEST);
        must_lie_within(block, bytes, data.train.labels, data.train.count * data.items.label_bytes);
        must_lie_within(block, bytes, data.test.labels, data.test.count * data.items.label_bytes);
        if (data.users) must_lie_within(block, bytes, data.train.owners, data.train.count * sizeof(uint32_t));
        if (data.users) must_lie_within(block, bytes, data.test.owners, data.test.count * sizeof(uint32_t));
        if (data.class_names) must_lie_within(block, bytes, data.class_names, data.items.names_bytes);
        if (data.feature_names) must_lie_within(block, bytes, data.feature_names, data.items.feature_bytes);
        if (data.test_lines) must_lie_within(block, bytes, data.test_lines, data.test.count * sizeof(uint32_t));
        if (data.user_names) must_lie_within(block, bytes, data.user_names, data.items.user_bytes);
        if (data.means) must_lie_within(block, bytes, data.means, data.items.scales * 2 * sizeof(float));
        if (data.fills) must_lie_within(block, bytes, data.fills, data.items.fills * sizeof(double));
        must(memchr(data.name, 0, sizeof data.name));
    }
    free(block);
    return 0;
}
