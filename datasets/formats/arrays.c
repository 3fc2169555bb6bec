// Part of format.h: NumPy's arrays as a data set: the members of a .npz archive, or .npy files in a folder. The row
// at the end describes the arrays.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/text.h"
#include "datasets/formats/arrays.h"
#include "datasets/samples_file.h"
#include "datasets/settings.h"

// In the order of ArrayRole.
static const char *const names[ROLES] = {"x_train.npy",      "y_train.npy",     "x_test.npy", "y_test.npy",
                                         "client_train.npy", "client_test.npy", "mean.npy",   "std.npy",
                                         "x_validation.npy", "y_validation.npy"};

static bool is_archive(const char *place) {
    struct stat about;
    const char *ending = strrchr(place, '.');
    return ending && strcasecmp(ending, ".npz") == 0 && stat(place, &about) == 0 && S_ISREG(about.st_mode);
}

static DatasetPresence arrays_is_here(const char *place) {
    int found = 0;
    if (is_archive(place)) return DATASET_WHOLE;
    for (ArrayRole role = 0; role <= LAST_REQUIRED; role++)
        found += dataset_has_file(place, names[role]);
    return found > (int)LAST_REQUIRED ? DATASET_WHOLE : found > 0 ? DATASET_IN_PART : DATASET_ABSENT;
}

static Status open_array(ByteStream *stream, const Arrays *arrays, ArrayRole role, Error *err) {
    if (!arrays->is_archive) return byte_stream_open(stream, arrays->said[role], err);
    return byte_stream_open_part(stream, arrays->said[role], arrays->place, &arrays->parts[role], err);
}

static Status read_header(NpyHeader *header, ByteStream *stream, ArrayRole role, Error *err) {
    static const char *const short_names[ROLES] = {"x", "y", "x", "y", "client", "client", "mean", "std", "x", "y"};
    const bool is_numbered = *short_names[role] == 'y' || *short_names[role] == 'c';
    return npy_header(header, stream, short_names[role], is_numbered, err);
}

static Status find_one(Arrays *arrays, ArrayRole role, Error *err) {
    const char *array = names[role];
    const int length = (int)strlen(array) - 4;
    const bool is_required = role <= LAST_REQUIRED && !(arrays->labels_alone && (role == X_TRAIN || role == X_TEST));
    snprintf(arrays->said[role], SAID_BYTES, "%s%s%.*s%s", arrays->place, arrays->is_archive ? ": " : "/", length,
             array, arrays->is_archive ? "" : ".npy");
    if (!arrays->found[role] && is_required)
        return fail(err, STATUS_NOINPUT,
                    "%s: no array %.*s%s%s; save it with numpy.savez(FILE, x_train=..., y_train=..., "
                    "x_test=..., y_test=...), or as files .npy of these names in one folder",
                    arrays->place, length, array, *arrays->others ? ", but there are " : "", arrays->others);
    if (!arrays->found[role]) return STATUS_OK;
    ByteStream stream;
    TRY(open_array(&stream, arrays, role, err));
    Status status = read_header(&arrays->headers[role], &stream, role, err);
    if (status == STATUS_OK) status = samples_file_state(&arrays->states[role], stream.fd, arrays->said[role], err);
    arrays->plain[role] = !stream.packed;
    byte_stream_close(&stream);
    return status;
}

// Lists the .npy files of a folder that are no array of a data set, for a sentence.
static void list_others(Arrays *arrays) {
    DIR *listing = opendir(arrays->place);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        const char *ending = strrchr(entry->d_name, '.');
        bool is_known = !ending || strcmp(ending, ".npy") != 0;
        for (ArrayRole role = 0; role < ROLES && !is_known; role++)
            is_known = strcmp(names[role], entry->d_name) == 0;
        if (!is_known) text_list(arrays->others, sizeof arrays->others, entry->d_name, strlen(entry->d_name));
    }
    if (listing) closedir(listing);
}

static Status find_all(Arrays *arrays, const char *place, Error *err) {
    *arrays = (Arrays){.place = place, .is_archive = is_archive(place)};
    if (arrays->is_archive) TRY(zip_look_up(arrays->parts, arrays->found, arrays->others, names, ROLES, place, err));
    if (!arrays->is_archive) list_others(arrays);
    for (ArrayRole role = 0; role < ROLES && !arrays->is_archive; role++)
        arrays->found[role] = dataset_has_file(place, names[role]);
    arrays->labels_alone =
        arrays->found[Y_TRAIN] && arrays->found[Y_TEST] && !arrays->found[X_TRAIN] && !arrays->found[X_TEST];
    for (ArrayRole role = 0; role < ROLES; role++)
        TRY(find_one(arrays, role, err));
    return STATUS_OK;
}

// Checks -------------------------------------------------------------------------------------------------------------

static const char *shape_text(char text[96], const NpyHeader *header) {
    size_t used = 0;
    for (int d = 0; d < header->rank; d++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%" PRIu64, d ? ", " : "", header->extent[d]);
    if (header->rank == 0) strcpy(text, "a single number");
    return text;
}

Status arrays_check_samples(DatasetSource *source, const Arrays *arrays, ArrayRole role, Error *err) {
    const NpyHeader *x = &arrays->headers[role];
    const char *said = arrays->said[role];
    char text[96];
    if (strcmp(x->type, "|u1") != 0 && (x->kind != 'f' || x->item_bytes < 4))
        return fail(err, STATUS_DATA,
                    "%s: values of type %s; samples are pixels of uint8, or numbers of float32 or float64: "
                    "x.astype('float32')",
                    said, x->type);
    if (x->by_columns && x->rank > 1)
        return fail(err, STATUS_DATA, "%s: stored column by column; save numpy.ascontiguousarray(x)", said);
    if (x->rank < 1 || x->extent[0] < 1 || x->extent[0] > INT32_MAX)
        return fail(err, STATUS_DATA, "%s: of shape (%s); samples are (N), (N,F), (N,H,W) or (N,C,H,W)", said,
                    shape_text(text, x));
    const uint64_t *of = x->extent + 1; // extents of one sample
    source->items.pixel_bytes = x->kind == 'f' ? sizeof(float) : 1;
    if (x->rank == 4) return dataset_take_shape(source, of[0], of[1], of[2], said, err);
    return dataset_take_shape(source, 1, x->rank == 3 ? of[0] : 1, x->rank == 3 ? of[1] : of[0], said, err);
}

// Checks an array of one number per sample: targets or clients.
Status arrays_check_column(const Arrays *arrays, ArrayRole role, ArrayRole samples, Error *err) {
    const NpyHeader *column = &arrays->headers[role], *x = &arrays->headers[samples];
    char text[96];
    if (column->rank >= 1 && column->count == column->extent[0] && column->count == x->extent[0]) return STATUS_OK;
    const bool may_be_one_hot = column->rank == 2 && column->extent[0] == x->extent[0];
    return fail(err, STATUS_DATA, "%s: of shape (%s), for %" PRIu64 " samples; give one number for each sample%s",
                arrays->said[role], shape_text(text, column), x->extent[0],
                may_be_one_hot ? ", of one-hot rows y.argmax(1)" : "");
}

Status arrays_check_pair(const Arrays *arrays, ArrayRole train, ArrayRole test, bool differ, Error *err) {
    if (!differ) return STATUS_OK;
    char train_text[96], test_text[96];
    return fail(err, STATUS_DATA, "%s: of type %s and shape (%s), and the training set's of type %s and shape (%s)",
                arrays->said[test], arrays->headers[test].type, shape_text(test_text, &arrays->headers[test]),
                arrays->headers[train].type, shape_text(train_text, &arrays->headers[train]));
}

static Status check_normalisation(const DatasetSource *source, const Arrays *arrays, Error *err) {
    const bool are_numbers = source->items.pixel_bytes > 1;
    if (arrays->found[MEAN] != arrays->found[STD])
        return fail(err, STATUS_DATA, "%s: only one of mean and std; give both, or leave both out", arrays->place);
    if (!arrays->found[MEAN]) return STATUS_OK;
    if (settings_say(&source->settings, SETTING_NORMALIZE, "yes"))
        return fail(err, STATUS_USAGE, "%s: has mean and std of its own; leave out normalize=yes", arrays->place);
    if (arrays->labels_alone)
        return fail(err, STATUS_DATA, "%s: mean and std of samples that are not there; leave them out", arrays->place);
    const uint64_t means = arrays->headers[MEAN].count, stds = arrays->headers[STD].count;
    const uint64_t channels = (uint64_t)source->shape.channels;
    if (means == stds && (means == 1 || means == channels || (are_numbers && means == shape_size(source->shape))))
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: %" PRIu64 " values of mean, %" PRIu64 " of std; give one of each, or one for each of %" PRIu64
                " channels%s",
                arrays->place, means, stds, channels, are_numbers ? ", or for each feature" : "");
}

static Status check_sample_pair(DatasetSource *source, const Arrays *arrays, Error *err) {
    DatasetSource test = *source;
    if (arrays->labels_alone) {
        source->shape = (Shape){1, 1, 1};
        source->items.pixel_bytes = 0;
        for (ArrayRole role = Y_TRAIN; role <= Y_TEST; role += Y_TEST - Y_TRAIN)
            if (arrays->headers[role].count < 1 || arrays->headers[role].count > INT32_MAX)
                return fail(err, STATUS_DATA, "%s: %" PRIu64 " labels; give one for each sample", arrays->said[role],
                            arrays->headers[role].count);
        return STATUS_OK;
    }
    TRY(arrays_check_samples(source, arrays, X_TRAIN, err));
    TRY(arrays_check_samples(&test, arrays, X_TEST, err));
    const bool differ = memcmp(&source->shape, &test.shape, sizeof test.shape) != 0 ||
                        source->items.pixel_bytes != test.items.pixel_bytes;
    return arrays_check_pair(arrays, X_TRAIN, X_TEST, differ, err);
}

// Compares the headers of all arrays before any values are read: a contradiction is found at once, also in large
// arrays.
static Status check_all(DatasetSource *source, const Arrays *arrays, Error *err) {
    const NpyHeader *headers = arrays->headers;
    const ArrayRole train = arrays->labels_alone ? Y_TRAIN : X_TRAIN, test = arrays->labels_alone ? Y_TEST : X_TEST;
    TRY(check_sample_pair(source, arrays, err));
    TRY(arrays_check_column(arrays, Y_TRAIN, train, err));
    TRY(arrays_check_column(arrays, Y_TEST, test, err));
    TRY(arrays_check_pair(arrays, Y_TRAIN, Y_TEST, (headers[Y_TRAIN].kind == 'f') != (headers[Y_TEST].kind == 'f'),
                          err));
    if (arrays->found[CLIENT_TRAIN]) TRY(arrays_check_column(arrays, CLIENT_TRAIN, train, err));
    if (arrays->found[CLIENT_TEST]) TRY(arrays_check_column(arrays, CLIENT_TEST, test, err));
    if (arrays->found[CLIENT_TEST] && !arrays->found[CLIENT_TRAIN])
        return fail(err, STATUS_DATA, "%s: client_test without client_train; give both, or leave it out",
                    arrays->place);
    source->train_count = (uint32_t)headers[train].extent[0];
    source->test_count = (uint32_t)headers[test].extent[0];
    source->items.label_bytes = headers[Y_TRAIN].kind == 'f' ? sizeof(float) : sizeof(uint16_t);
    TRY(arrays_add_validation(source, arrays, err));
    return check_normalisation(source, arrays, err);
}

// Reading -------------------------------------------------------------------------------------------------------------

// Opens an array and checks that its header is still the one that was found.
static Status reopen(ByteStream *stream, const Arrays *arrays, ArrayRole role, Error *err) {
    NpyHeader again;
    TRY(open_array(stream, arrays, role, err));
    Status status = read_header(&again, stream, role, err);
    const NpyHeader *before = &arrays->headers[role];
    if (status == STATUS_OK && (strcmp(again.type, before->type) != 0 || again.by_columns != before->by_columns ||
                                memcmp(again.extent, before->extent, sizeof again.extent) != 0))
        status = fail(err, STATUS_DATA, "%s: its header changed while the data set was being read", arrays->said[role]);
    if (status != STATUS_OK) byte_stream_close(stream);
    return status;
}

// Reads the values of an array into `to` (count): pixels unchanged, whole numbers up to `greatest` as uint32_t if
// `what` names them, all others as floats.
Status arrays_read_array(void *to, const Arrays *arrays, ArrayRole role, uint32_t greatest, const char *what,
                         Error *err) {
    const NpyHeader *header = &arrays->headers[role];
    const bool are_samples = role == X_TRAIN || role == X_TEST || role == X_VALIDATION;
    const bool are_pixels = are_samples && header->kind != 'f';
    ByteStream stream;
    TRY(reopen(&stream, arrays, role, err));
    Status status = what         ? npy_read_wholes(to, header, &stream, greatest, what, err)
                    : are_pixels ? npy_read_bytes(to, header, &stream, err)
                                 : npy_read_reals(to, header, &stream, err);
    byte_stream_close(&stream);
    return status;
}

static Status find_users(DatasetSource *source, const Arrays *arrays, Error *err) {
    if (!arrays->found[CLIENT_TRAIN]) return STATUS_OK;
    const uint32_t count = source->train_count - source->validation_count;
    uint32_t *owners = malloc(count * sizeof *owners);
    if (!owners) return fail(err, STATUS_OS, "no memory for the clients of %u samples", count);
    Status status = arrays_read_array(owners, arrays, CLIENT_TRAIN, count - 1, "clients, numbered without gaps,", err);
    if (status == STATUS_OK)
        status = dataset_count_users(&source->users, owners, count, arrays->said[CLIENT_TRAIN], err);
    free(owners);
    source->items.owner_bytes = sizeof *owners;
    return status;
}

static bool is_normalised(const DatasetSource *source) {
    const bool is_asked = settings_say(&source->settings, SETTING_NORMALIZE, "yes");
    return source->items.pixel_bytes > 1 && (is_asked || (source->model && source->model->scales > 0));
}

// Samples that are stored as they enter a net stay in their file, at any address: archives align nothing. All others
// are read into the block: numbers of float64, numbers that mean and std change, and all samples of a set that has a
// packed array, because the cache of unpacked copies keeps whole sets.
static void leave_samples(DatasetSource *source, const Arrays *arrays, ArrayRole role, DatasetSplitKind split) {
    const NpyHeader *header = &arrays->headers[role];
    DatasetSamples *samples = &source->samples[split];
    const BytePart *part = &arrays->parts[role]; // zeros if there is no archive
    const uint64_t bytes = header->count * header->item_bytes;
    const bool is_changed = source->items.pixel_bytes > 1 && arrays->found[MEAN];
    const bool is_whole = !arrays->is_archive || part->packed_bytes == header->header_bytes + bytes;
    if (!arrays->found[role] || source->packed || !arrays->plain[role] ||
        header->item_bytes != source->items.pixel_bytes || is_changed || !is_whole || is_normalised(source))
        return;
    *samples = (DatasetSamples){.begin = part->begin + header->header_bytes,
                                .bytes = bytes,
                                .is_member = arrays->is_archive,
                                .head_bytes = (uint32_t)header->header_bytes,
                                .checksum = part->checksum,
                                .state = arrays->states[role]};
    snprintf(samples->name, sizeof samples->name, "%s", names[role]);
    source->items.outside |= 1u << split;
}

static Status arrays_find(DatasetSource *source, const char *place, Error *err) {
    Arrays arrays;
    TRY(find_all(&arrays, place, err));
    TRY(check_all(source, &arrays, err));
    TRY(find_users(source, &arrays, err));
    if (arrays.is_archive) TRY(dataset_note_file(source, place, err));
    for (ArrayRole role = 0; role < ROLES; role++) {
        if (!arrays.found[role]) continue;
        if (!arrays.is_archive) TRY(dataset_note_file(source, arrays.said[role], err));
        if (arrays.parts[role].deflated) source->packed = true;
    }
    if (!arrays.found[X_VALIDATION]) leave_samples(source, &arrays, X_TRAIN, DATASET_TRAIN);
    leave_samples(source, &arrays, X_TEST, DATASET_TEST);
    return STATUS_OK;
}

// (x - mean) / std, where each mean and std applies to `run` consecutive values.
static void normalise(float *values, uint32_t samples, const float *mean, const float *std, size_t kinds, size_t run) {
    for (uint32_t i = 0; i < samples; i++)
        for (size_t k = 0; k < kinds; k++, values += run)
            for (size_t j = 0; j < run; j++)
                values[j] = (values[j] - mean[k]) / std[k];
}

Status arrays_read_targets(DatasetBlock *block, const Arrays *arrays, ArrayRole role, uint64_t place, Error *err) {
    const uint64_t count = arrays->headers[role].count;
    if (dataset_has_targets(&block->items))
        return arrays_read_array(dataset_at(block, place), arrays, role, 0, NULL, err);
    uint32_t *values = malloc(count * sizeof *values);
    if (!values) return fail(err, STATUS_OS, "no memory for %" PRIu64 " labels", count);
    Status status = arrays_read_array(values, arrays, role, DATASET_MAX_CLASSES - 1, "labels", err);
    uint16_t *labels = dataset_at(block, place);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++)
        labels[i] = (uint16_t)values[i];
    free(values);
    return status;
}

// Reads the owners; without client_test the test samples have no owners.
static Status read_owners(DatasetBlock *block, const Arrays *arrays, Error *err) {
    if (!arrays->found[CLIENT_TRAIN]) return STATUS_OK;
    uint32_t *test = dataset_at(block, block->layout.test_owners);
    TRY(arrays_read_array(dataset_at(block, block->layout.train_owners), arrays, CLIENT_TRAIN, block->users - 1,
                          "clients", err));
    if (arrays->found[CLIENT_TEST])
        return arrays_read_array(test, arrays, CLIENT_TEST, block->users - 1, "clients with training samples", err);
    memset(test, 0xff, block->test_count * sizeof *test);
    return STATUS_OK;
}

// Pixels are normalised by the net's first op, numbers are normalised here.
static void apply_normalisation(DatasetBlock *block, const float *mean, const float *std, size_t kinds) {
    const DatasetLayout *at = &block->layout;
    const size_t run = shape_size(block->shape) / kinds;
    if (block->items.pixel_bytes > 1) {
        normalise(dataset_at(block, at->train_pixels), block->train_count, mean, std, kinds, run);
        normalise(dataset_at(block, at->test_pixels), block->test_count, mean, std, kinds, run);
        return;
    }
    for (size_t c = 0; c < (size_t)block->shape.channels; c++) {
        block->scale[c] = 1 / (255 * std[c % kinds]);
        block->shift[c] = -mean[c % kinds] / std[c % kinds];
    }
}

static Status read_normalisation(DatasetBlock *block, const Arrays *arrays, Error *err) {
    if (!arrays->found[MEAN]) return STATUS_OK;
    const size_t kinds = arrays->headers[MEAN].count;
    float *mean = malloc(2 * kinds * sizeof *mean);
    if (!mean) return fail(err, STATUS_OS, "no memory for the means of %zu features", kinds);
    float *std = mean + kinds;
    Status status = arrays_read_array(mean, arrays, MEAN, 0, NULL, err);
    if (status == STATUS_OK) status = arrays_read_array(std, arrays, STD, 0, NULL, err);
    for (size_t i = 0; i < kinds && status == STATUS_OK; i++)
        if (!(std[i] > 0))
            status = fail(err, STATUS_DATA, "%s: value %zu is %g; a standard deviation is above 0", arrays->said[STD],
                          i, (double)std[i]);
        else if (block->items.pixel_bytes == 1 && !(mean[i] <= 1 && std[i] <= 1))
            status =
                fail(err, STATUS_DATA,
                     "%s: value %zu is %g, and that of std %g; those of pixels are of p / 255, from 0 to 1: mean / "
                     "255, std / 255",
                     arrays->said[MEAN], i, (double)mean[i], (double)std[i]);
    if (status == STATUS_OK) apply_normalisation(block, mean, std, kinds);
    free(mean);
    return status;
}

static Status arrays_read(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const DatasetLayout *at = &block->layout;
    Arrays arrays;
    DatasetSource again = {0};
    TRY(find_all(&arrays, source->folder, err));
    TRY(check_all(&again, &arrays, err));
    if (memcmp(&again.shape, &source->read_shape, sizeof again.shape) != 0 ||
        again.train_count != source->train_count || again.test_count != source->test_count ||
        again.validation_count != source->validation_count || again.items.pixel_bytes != source->items.pixel_bytes ||
        again.items.label_bytes != source->items.label_bytes || arrays.found[CLIENT_TRAIN] != (source->users != 0))
        return fail(err, STATUS_DATA, "%s: the arrays changed while the data set was being read", source->folder);
    const bool alone = arrays.labels_alone;
    if (!alone && !(source->items.outside & 1u << DATASET_TRAIN))
        TRY(arrays_read_array(dataset_at(block, at->train_pixels), &arrays, X_TRAIN, 0, NULL, err));
    if (!alone && !(source->items.outside & 1u << DATASET_TEST))
        TRY(arrays_read_array(dataset_at(block, at->test_pixels), &arrays, X_TEST, 0, NULL, err));
    TRY(arrays_read_targets(block, &arrays, Y_TRAIN, at->train_labels, err));
    TRY(arrays_read_targets(block, &arrays, Y_TEST, at->test_labels, err));
    TRY(arrays_read_validation(block, &arrays, err));
    TRY(read_owners(block, &arrays, err));
    TRY(read_normalisation(block, &arrays, err));
    return dataset_count_classes(block, arrays.said[Y_TEST], err);
}

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat arrays_format = {
    .name = "NumPy", .files = "x_train.npy", .settings = SETTINGS_OF_SAMPLES, .is_here = arrays_is_here, .find = arrays_find, .read = arrays_read,
    .help = "a file .npz (numpy.savez, or savez_compressed) or a folder of .npy files with the arrays x_train, y_train, x_test, y_test. "
            "Samples x are (N), (N,F), (N,H,W) or (N,C,H,W): uint8 pixels, or float32 or float64 numbers that enter a net as float32. "
            "Targets y are whole numbers, classes from 0, or floating-point ones, for the squared loss. Optional: "
            "client_train and client_test, whose samples they are (numbers from 0), for --partition natural-id; mean and std, "
            "by which samples (pixels: divided by 255) are normalised, one for all, or one a channel or feature; x_validation and "
            "y_validation, on which rounds are tested (as with --validation). Samples of uint8 or "
            "float32 that are not packed are mapped where they lie and not copied, but for float32 with mean and std. y_train and y_test "
            "without x are labels alone, for a --trainer that has loaded the samples itself",
    .classes = "save y.astype('int64')", .targets = "save y.astype('float32')", .pixels = "save x.astype('uint8')"};
// clang-format on
