// Part of format.h: CIFAR-10 and CIFAR-100 in the binary version of their authors (cs.toronto.edu/~kriz/cifar.html):
// records of one label (CIFAR-100: a coarse one, then the fine one, which is used) and 3x32x32 pixels, channels first.
#include <stdio.h>
#include <string.h>

#include "datasets/formats/byte_stream.h"
#include "datasets/formats/format.h"

enum { PIXELS = 3 * 32 * 32, MOST_FILES = 32, RECORDS_AT_ONCE = 32, NAME_BYTES = 32 };

typedef struct Cifar {
    const char *first_file; // of the training set
    const char *test_file;
    bool is_numbered;    // more training files may follow: data_batch_2.bin, ...
    uint32_t labels;     // number of labels of a record; the last one is used
    uint32_t classes[2]; // of each label
} Cifar;

static const Cifar kinds[] = {
    {"data_batch_1.bin", "test_batch.bin", true, 1, {10}},
    {"train.bin", "test.bin", false, 2, {20, 100}},
};

static const Cifar *kind_of(const char *place) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (dataset_has_file(place, kinds[i].first_file)) return &kinds[i];
    return NULL;
}

static DatasetPresence cifar_is_here(const char *place) {
    const Cifar *kind = kind_of(place);
    return !kind ? DATASET_ABSENT : dataset_has_file(place, kind->test_file) ? DATASET_WHOLE : DATASET_IN_PART;
}

static void train_file(char name[NAME_BYTES], const Cifar *kind, int number) {
    if (kind->is_numbered)
        snprintf(name, NAME_BYTES, "data_batch_%d.bin", number);
    else
        snprintf(name, NAME_BYTES, "%s", kind->first_file);
}

// Adds the number of a file's records to *count.
static Status count_records(uint32_t *count, DatasetSource *source, const Cifar *kind, const char *place,
                            const char *name, Error *err) {
    char path[DATASET_PATH_BYTES];
    ByteStream stream;
    const uint64_t record = kind->labels + PIXELS;
    TRY(dataset_path(path, place, name, err));
    TRY(byte_stream_open(&stream, path, err));
    const uint64_t bytes = stream.file_bytes, records = bytes / record;
    byte_stream_close(&stream);
    if (records == 0 || bytes % record != 0 || records > (uint64_t)INT32_MAX - *count)
        return fail(err, STATUS_DATA, "%s: truncated or corrupt: %llu bytes are no multiple of the %llu of a record",
                    path, (unsigned long long)bytes, (unsigned long long)record);
    *count += (uint32_t)records;
    return dataset_note_file(source, path, err);
}

static Status cifar_find(DatasetSource *source, const char *place, Error *err) {
    const Cifar *kind = kind_of(place);
    char name[NAME_BYTES];
    if (!kind) return fail(err, STATUS_NOINPUT, "%s: no CIFAR files any more", place);
    for (int i = 1; i <= (kind->is_numbered ? MOST_FILES : 1); i++) {
        train_file(name, kind, i);
        if (i > 1 && !dataset_has_file(place, name)) break;
        TRY(count_records(&source->counts[DATASET_TRAIN], source, kind, place, name, err));
    }
    TRY(count_records(&source->counts[DATASET_TEST], source, kind, place, kind->test_file, err));
    return dataset_take_shape(source, 3, 32, 32, place, err);
}

// to: moves to what the next records fill.
static Status take_records(DatasetArrays *to, const Cifar *kind, const uint8_t *records, uint32_t count,
                           const ByteStream *stream, Error *err) {
    const size_t record = kind->labels + PIXELS;
    for (uint32_t i = 0; i < count; i++, records += record) {
        for (uint32_t l = 0; l < kind->labels; l++)
            if (records[l] >= kind->classes[l])
                return fail(err, STATUS_DATA, "%s: corrupt: label %d at byte %llu; there are %u classes", stream->path,
                            records[l], (unsigned long long)(stream->offset - (count - i) * record + l),
                            kind->classes[l]);
        *to->labels++ = records[kind->labels - 1];
        to->samples = mempcpy(to->samples, records + kind->labels, PIXELS);
    }
    return STATUS_OK;
}

static Status read_records(DatasetArrays *to, const Cifar *kind, const char *place, const char *name, Error *err) {
    uint8_t records[RECORDS_AT_ONCE * (2 + PIXELS)];
    char path[DATASET_PATH_BYTES];
    const size_t record = kind->labels + PIXELS;
    ByteStream stream;
    Status status = STATUS_OK;
    TRY(dataset_path(path, place, name, err));
    TRY(byte_stream_open(&stream, path, err));
    uint64_t rest = stream.file_bytes / record;
    if (rest > to->count) status = dataset_changed(path, err);
    while (status == STATUS_OK && rest > 0) {
        const uint32_t count = rest < RECORDS_AT_ONCE ? (uint32_t)rest : RECORDS_AT_ONCE;
        status = byte_stream_read(records, &stream, count * record, err);
        if (status == STATUS_OK) status = take_records(to, kind, records, count, &stream, err);
        to->count -= count;
        rest -= count;
    }
    if (status == STATUS_OK) status = byte_stream_end(&stream, err);
    byte_stream_close(&stream);
    return status;
}

static Status cifar_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const char *place = source->folder;
    const Cifar *kind = kind_of(place);
    DatasetArrays train = dataset_arrays(block, DATASET_TRAIN), test = dataset_arrays(block, DATASET_TEST);
    char name[NAME_BYTES];
    if (!kind) return fail(err, STATUS_NOINPUT, "%s: no CIFAR files any more", place);
    for (int i = 1; train.count > 0; i++) {
        train_file(name, kind, i);
        TRY(read_records(&train, kind, place, name, err));
    }
    TRY(read_records(&test, kind, place, kind->test_file, err));
    if (test.count > 0) return dataset_changed(place, err);
    block->classes = (int)kind->classes[kind->labels - 1];
    return STATUS_OK;
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat cifar_format = {
    .name = "CIFAR", .files = "data_batch_1.bin", .is_here = cifar_is_here, .find = cifar_find, .read = cifar_read,
    .help = "a folder with the binary version of CIFAR-10 (data_batch_1.bin and on, test_batch.bin) or CIFAR-100 (train.bin, test.bin; "
            "its fine labels)"};
// clang-format on
