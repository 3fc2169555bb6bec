// Part of format.h: NumPy's arrays as a data set: the members of a .npz archive, or .npy files in a folder. The row
// at the end describes the arrays.
#include "datasets/formats/arrays.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/text.h"

static const ArrayRole LAST_REQUIRED = Y_TEST;
enum { ALIASES = 4 };

// Names of the roles, in the order of ArrayRole, of which a place has one: that of Sounder and Keras, scikit-learn's
// usual ones, MedMNIST's, and one more.
static const char *const names[ROLES][ALIASES] = {
    [X_TRAIN] = {"x_train.npy", "X_train.npy", "train_images.npy", "train_x.npy"},
    [Y_TRAIN] = {"y_train.npy", "Y_train.npy", "train_labels.npy", "train_y.npy"},
    [X_TEST] = {"x_test.npy", "X_test.npy", "test_images.npy", "test_x.npy"},
    [Y_TEST] = {"y_test.npy", "Y_test.npy", "test_labels.npy", "test_y.npy"},
    [CLIENT_TRAIN] = {"client_train.npy"},
    [CLIENT_TEST] = {"client_test.npy"},
    [MEAN] = {"mean.npy"},
    [STD] = {"std.npy"},
    [X_VALIDATION] = {"x_validation.npy", "X_val.npy", "val_images.npy", "x_val.npy"},
    [Y_VALIDATION] = {"y_validation.npy", "Y_val.npy", "val_labels.npy", "y_val.npy"},
    [VOCABULARY] = {"vocabulary.npy"},
};

// Names of arrays of all samples, of which a share is for tests.
static const char *const single_names[ROLES][ALIASES] = {
    [X_TRAIN] = {"x.npy", "X.npy", "data.npy", "images.npy"},
    [Y_TRAIN] = {"y.npy", "Y.npy", "target.npy", "labels.npy"},
    [CLIENT_TRAIN] = {"client.npy"},
};

static bool is_archive(const char *place) {
    struct stat about;
    return dataset_has_ending(place, ".npz") && stat(place, &about) == 0 && S_ISREG(about.st_mode);
}

static DatasetPresence arrays_is_here(const char *place) {
    int found = 0;
    if (is_archive(place)) return DATASET_WHOLE;
    for (ArrayRole role = 0; role <= LAST_REQUIRED; role++) {
        int own = 0;
        for (int alias = 0; alias < ALIASES && names[role][alias]; alias++)
            own |= dataset_has_file(place, names[role][alias]);
        found += own;
    }
    return found > (int)LAST_REQUIRED ? DATASET_WHOLE : found > 0 ? DATASET_IN_PART : DATASET_ABSENT;
}

// Headers -------------------------------------------------------------------------------------------------------------

Status arrays_open(ByteStream *stream, NpyHeader *header, const Arrays *arrays, ArrayRole role, Error *err) {
    static const char *const short_names[ROLES] = {"x",    "y",   "x", "y", "client",    "client",
                                                   "mean", "std", "x", "y", "vocabulary"};
    const bool is_numbered = *short_names[role] == 'y' || *short_names[role] == 'c';
    TRY(arrays->is_archive ? byte_stream_open_part(stream, arrays->said[role], arrays->place, &arrays->parts[role], err)
                           : byte_stream_open(stream, arrays->said[role], err));
    const Status status = npy_header(header, stream, short_names[role], is_numbered, err);
    if (status != STATUS_OK) byte_stream_close(stream);
    return status;
}

static bool is_required(const Arrays *arrays, ArrayRole role) {
    if (role > LAST_REQUIRED || (arrays->is_single && (role == X_TEST || role == Y_TEST))) return false;
    return !arrays->labels_alone || (role != X_TRAIN && role != X_TEST);
}

static Status find_one(Arrays *arrays, ArrayRole role, Error *err) {
    const char *array = arrays->found[role] ? arrays->names[role] : names[role][0];
    const int length = (int)strlen(array) - 4;
    const bool have_tests = arrays->found[X_TEST] || arrays->found[Y_TEST];
    snprintf(arrays->said[role], SAID_BYTES, "%s%s%.*s%s", arrays->place, arrays->is_archive ? ": " : "/", length,
             array, arrays->is_archive ? "" : ".npy");
    if (!arrays->found[role] && is_required(arrays, role))
        return fail(err, STATUS_NOINPUT,
                    "%s: no array %.*s%s%s; save it with numpy.savez(FILE, x_train=..., y_train=..., "
                    "x_test=..., y_test=...), or as files .npy of these names in one folder%s",
                    arrays->place, length, array, *arrays->others ? ", but there are " : "", arrays->others,
                    arrays->found[X_TRAIN] && arrays->found[Y_TRAIN] && !have_tests
                        ? "; or say test-fraction=0.2 in --data: a share of the samples is then for tests"
                        : "");
    if (!arrays->found[role]) return STATUS_OK;
    ByteStream stream;
    TRY(arrays_open(&stream, &arrays->headers[role], arrays, role, err));
    const Status status = samples_file_state(&arrays->states[role], stream.fd, arrays->said[role], err);
    arrays->plain[role] = !stream.packed;
    byte_stream_close(&stream);
    return status;
}

// Finding -------------------------------------------------------------------------------------------------------------

// Lists the .npy files of a folder that are no array of a data set, for a sentence.
static void list_others(Arrays *arrays) {
    DIR *listing = opendir(arrays->place);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        const char *ending = strrchr(entry->d_name, '.');
        bool is_known = !ending || strcmp(ending, ".npy") != 0;
        for (ArrayRole role = 0; role < ROLES && !is_known; role++)
            for (int alias = 0; alias < ALIASES && names[role][alias] && !is_known; alias++)
                is_known = strcmp(names[role][alias], entry->d_name) == 0;
        if (!is_known) text_list(arrays->others, sizeof arrays->others, entry->d_name, strlen(entry->d_name));
    }
    if (listing) closedir(listing);
}

static Status note_found(Arrays *arrays, ArrayRole role, const char *name, Error *err) {
    if (arrays->found[role])
        return fail(err, STATUS_DATA, "%s: has both %.*s and %.*s; a data set has one of them, so leave out the other",
                    arrays->place, (int)strlen(name) - 4, name, (int)strlen(arrays->names[role]) - 4,
                    arrays->names[role]);
    arrays->found[role] = true;
    arrays->names[role] = name;
    return STATUS_OK;
}

static Status look_into_archive(Arrays *arrays, const char *const of[ROLES][ALIASES], Error *err) {
    const char *all[ROLES * ALIASES];
    BytePart parts[ROLES * ALIASES];
    bool found[ROLES * ALIASES];
    ArrayRole roles[ROLES * ALIASES];
    int count = 0;
    for (ArrayRole role = 0; role < ROLES; role++)
        for (int alias = 0; alias < ALIASES && of[role][alias]; alias++, count++) {
            all[count] = of[role][alias];
            roles[count] = role;
        }
    TRY(zip_look_up(parts, found, arrays->others, all, count, arrays->place, err));
    while (count-- > 0) {
        if (!found[count]) continue;
        TRY(note_found(arrays, roles[count], all[count], err));
        arrays->parts[roles[count]] = parts[count];
    }
    return STATUS_OK;
}

static Status look_into_folder(Arrays *arrays, Error *err) {
    list_others(arrays);
    for (ArrayRole role = 0; role < ROLES; role++)
        for (int alias = 0; alias < ALIASES && names[role][alias]; alias++)
            if (dataset_has_file(arrays->place, names[role][alias]))
                TRY(note_found(arrays, role, names[role][alias], err));
    return STATUS_OK;
}

// Arrays of all samples count only if there are none of training and test samples.
static Status look_for_single(Arrays *arrays, Error *err) {
    Arrays single = {.place = arrays->place};
    const bool *found = arrays->found;
    const bool have_tests = found[X_TEST] || found[Y_TEST];
    const bool have_parts = found[X_TRAIN] || found[Y_TRAIN] || have_tests;
    arrays->is_single = found[X_TRAIN] && found[Y_TRAIN] && !have_tests && settings_split(arrays->settings);
    if (!arrays->is_archive) return STATUS_OK;
    TRY(look_into_archive(&single, single_names, err));
    if (!single.found[X_TRAIN] || !single.found[Y_TRAIN]) return STATUS_OK;
    if (have_parts)
        return fail(
            err, STATUS_DATA,
            "%s: has both %s and %.*s; a data set has training and test samples or all in one, so leave out the "
            "others",
            arrays->place, found[X_TRAIN] ? "x_train" : "y_train", (int)strlen(single.names[X_TRAIN]) - 4,
            single.names[X_TRAIN]);
    arrays->is_single = true;
    for (ArrayRole role = 0; role < ROLES; role++) {
        if (!single.found[role]) continue;
        arrays->found[role] = true;
        arrays->names[role] = single.names[role];
        arrays->parts[role] = single.parts[role];
    }
    return STATUS_OK;
}

Status arrays_look_up(Arrays *arrays, const char *place, const Form *settings, Error *err) {
    *arrays = (Arrays){.place = place, .settings = settings, .is_archive = is_archive(place)};
    if (arrays->is_archive) TRY(look_into_archive(arrays, names, err));
    if (!arrays->is_archive) TRY(look_into_folder(arrays, err));
    TRY(look_for_single(arrays, err));
    const bool *found = arrays->found;
    arrays->labels_alone = found[Y_TRAIN] && found[Y_TEST] && !found[X_TRAIN] && !found[X_TEST];
    if (!arrays->is_single && settings_split(settings))
        return fail(err, STATUS_USAGE, "%s: has test samples of its own; leave out %s", place,
                    settings_split(settings));
    for (ArrayRole role = 0; role < ROLES; role++)
        TRY(find_one(arrays, role, err));
    // MedMNIST stores colour images so.
    const NpyHeader *x = &arrays->headers[X_TRAIN];
    const bool are_of_medmnist = found[X_TRAIN] && x->rank == 4 && (x->extent[3] == 1 || x->extent[3] == 3) &&
                                 strcmp(arrays->names[X_TRAIN], "train_images.npy") == 0;
    arrays->are_last = settings_say(settings, SETTING_CHANNELS, "last") || are_of_medmnist;
    return arrays_look_at_labels(arrays, err);
}

static bool is_normalised(const DatasetSource *source) {
    const bool is_asked = settings_say(&source->settings, SETTING_NORMALIZE, "yes");
    return source->items.pixel_bytes > 1 && (is_asked || (source->model && source->model->scales > 0));
}

// Samples that are stored as they enter a net stay in their file, at any address: archives align nothing. All others
// are read into the block: numbers of another type, numbers that mean and std change, samples that are parted into
// training and tests, and all samples of a set that has a packed array, because the cache of unpacked copies keeps
// whole sets.
static void leave_samples(DatasetSource *source, const Arrays *arrays, ArrayRole role, DatasetSplitKind split) {
    const NpyHeader *header = &arrays->headers[role];
    DatasetSamples *samples = &source->samples[split];
    const BytePart *part = &arrays->parts[role]; // zeros if there is no archive
    const uint64_t bytes = header->count * header->item_bytes;
    const bool is_changed = (source->items.pixel_bytes > 1 && arrays->found[MEAN]) || arrays->are_last ||
                            arrays->is_single || is_normalised(source);
    const bool is_whole = !arrays->is_archive || part->packed_bytes == header->header_bytes + bytes;
    if (!arrays->found[role] || source->packed || !arrays->plain[role] || is_changed || !is_whole ||
        strcmp(header->type, source->items.pixel_bytes == 1 ? "|u1" : "<f4") != 0)
        return;
    *samples = (DatasetSamples){.begin = part->begin + header->header_bytes,
                                .bytes = bytes,
                                .is_member = arrays->is_archive,
                                .head_bytes = (uint32_t)header->header_bytes,
                                .checksum = part->checksum,
                                .state = arrays->states[role]};
    snprintf(samples->name, sizeof samples->name, "%s", arrays->names[role]);
    source->items.outside |= 1u << split;
}

static Status arrays_find(DatasetSource *source, const char *place, Error *err) {
    Arrays arrays;
    TRY(arrays_look_up(&arrays, place, &source->settings, err));
    TRY(arrays_check(source, &arrays, err));
    TRY(arrays_count(source, &arrays, err));
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

// The row is easier to read on few lines.
// clang-format off
const DatasetFormat arrays_format = {
    .name = "NumPy", .files = "x_train.npy", .settings = SETTINGS_OF_SAMPLES | SETTINGS_OF_SPLIT | 1 << SETTING_CHANNELS | 1 << SETTING_CLASSES,
    .is_here = arrays_is_here, .find = arrays_find, .read = arrays_read,
    .help = "a file .npz (numpy.savez, or savez_compressed) or a folder of .npy files with the arrays x_train, y_train, x_test, y_test. "
            "Samples x are (N), (N,F), (N,H,W) or (N,C,H,W): uint8 pixels, or numbers of any other type, which enter a net as float32. "
            "Targets y are whole numbers, classes from 0, or floating-point ones, for the squared loss; or one-hot rows; or rows of zeros "
            "and ones (N,L), of which each says whether a label applies to the sample, for binary cross-entropy. Optional: "
            "client_train and client_test, whose samples they are (numbers from 0), for --partition natural-id; mean and std, "
            "by which samples (pixels: divided by 255) are normalised, one for all, or one a channel or feature; x_validation and "
            "y_validation, on which rounds are tested (as with --validation); vocabulary, one number, if rows of uint16 or uint32 are tokens, "
            "whole numbers below it, which trainers get as such (sounder.write_tokens). Samples of uint8 or "
            "float32 that are not packed are mapped where they lie and not copied, but for float32 with mean and std. y_train and y_test "
            "without x are labels alone, for a --trainer that has loaded the samples itself. The arrays may also be called X_train and its like, or as "
            "MedMNIST's train_images, val_images and their labels; a .npz may have all samples as x and y (X, data; Y, target, labels), of which a share "
            "(test-fraction) is for tests",
    .classes = "save y.astype('int64')", .targets = "save y.astype('float32')", .pixels = "save x.astype('uint8')"};
// clang-format on
