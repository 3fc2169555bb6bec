// The safetensors format: what is written is read again, by others too, and nothing hostile gets past the header.
#include "io/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scratch.h"

enum { FILE_ROOM = 4096 };

// Builds a file of a 2x3 F32, an empty F32, a scalar I64 and three U8; returns its size.
static size_t small_file(uint8_t bytes[FILE_ROOM]) {
    TensorEntry entries[4] = {
        {.name = "fc1.weight", .type = TENSOR_F32, .rank = 2, .shape = {2, 3}},
        {.name = "empty", .type = TENSOR_F32, .rank = 2, .shape = {0, 3}},
        {.name = "steps", .type = TENSOR_I64, .rank = 0},
        {.name = "mask \"\xc3\xa9\"", .type = TENSOR_U8, .rank = 1, .shape = {3}},
    };
    const TensorNote notes[] = {{"format", "pt"}, {"options", "rounds: 3\nlr: 0.01\n"}};
    const float weight[6] = {1.5f, -2, 3, 4, 5, 6};
    const int64_t steps = -7;
    char *header;
    size_t header_bytes;
    Error err;
    check_ok(safetensors_header(&header, &header_bytes, entries, 4, notes, 2, &err));
    assert_int_equal(header_bytes % 64, 0);
    assert_int_equal(entries[0].first_byte, 0);
    assert_int_equal(entries[1].bytes, 0);
    assert_int_equal(entries[2].first_byte, 24);
    assert_int_equal(entries[3].bytes, 3);
    assert_in_range(header_bytes, 1, FILE_ROOM - 100);
    memcpy(bytes, header, header_bytes);
    free(header);
    memcpy(bytes + header_bytes, weight, sizeof weight);
    memcpy(bytes + header_bytes + 24, &steps, sizeof steps);
    memcpy(bytes + header_bytes + 32, "\1\2\3", 3);
    return header_bytes + 35;
}

static void what_was_written_is_read_again(void **state) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[FILE_ROOM];
    Safetensors file;
    Error err;
    scratch_write(scratch_path(path, *state, "small"), bytes, small_file(bytes));
    check_ok(safetensors_open(&file, path, &err));
    assert_int_equal(file.count, 4);
    assert_int_equal(file.payload_bytes, 35);
    assert_int_equal((uintptr_t)file.payload % 64, 0);
    const TensorEntry *weight = safetensors_find(&file, "fc1.weight");
    assert_non_null(weight);
    assert_int_equal(weight->type, TENSOR_F32);
    assert_int_equal(weight->rank, 2);
    assert_int_equal(weight->shape[1], 3);
    float value;
    memcpy(&value, file.payload + weight->first_byte + 4, sizeof value);
    assert_true(value == -2.0f);
    assert_int_equal(safetensors_find(&file, "steps")->rank, 0);
    assert_int_equal(safetensors_find(&file, "mask \"\xc3\xa9\"")->first_byte, 32);
    assert_null(safetensors_find(&file, "fc2.weight"));
    assert_string_equal(safetensors_note(&file, "options"), "rounds: 3\nlr: 0.01\n");
    assert_null(safetensors_note(&file, "missing"));
    safetensors_close(&file);
}

static void equal_tensors_give_equal_bytes(void **state) {
    (void)state;
    uint8_t first[FILE_ROOM] = {0}, second[FILE_ROOM] = {0};
    assert_int_equal(small_file(first), small_file(second));
    assert_memory_equal(first, second, FILE_ROOM);
}

static void a_file_without_tensors_or_notes_is_read(void **state) {
    char path[SCRATCH_PATH_BYTES], *header;
    size_t header_bytes;
    Safetensors file;
    Error err;
    check_ok(safetensors_header(&header, &header_bytes, NULL, 0, NULL, 0, &err));
    scratch_write(scratch_path(path, *state, "none"), header, header_bytes);
    free(header);
    check_ok(safetensors_open(&file, path, &err));
    assert_int_equal(file.count, 0);
    assert_null(safetensors_note(&file, "format"));
    safetensors_close(&file);
}

// A reader of the published format in Python, without any library.
static void an_independent_reader_reads_our_files(void **state) {
    static const char reader[] =
        "import json, struct, sys\n"
        "with open(sys.argv[1], 'rb') as f:\n"
        "    length, = struct.unpack('<Q', f.read(8))\n"
        "    header = json.loads(f.read(length))\n"
        "    payload = f.read()\n"
        "assert (8 + length) % 64 == 0\n"
        "assert header.pop('__metadata__') == {'format': 'pt', 'options': 'rounds: 3\\nlr: 0.01\\n'}\n"
        "codes = {'F32': 'f', 'I64': 'q', 'U8': 'B'}\n"
        "tensors = {}\n"
        "for name, t in header.items():\n"
        "    first, end = t['data_offsets']\n"
        "    size = struct.calcsize(codes[t['dtype']])\n"
        "    count = 1\n"
        "    for extent in t['shape']: count *= extent\n"
        "    assert end - first == count * size\n"
        "    tensors[name] = struct.unpack('<%d%s' % (count, codes[t['dtype']]), payload[first:end])\n"
        "assert tensors == {'fc1.weight': (1.5, -2, 3, 4, 5, 6), 'empty': (), 'steps': (-7,),\n"
        "                   'mask \"\\u00e9\"': (1, 2, 3)}, tensors\n";
    char path[SCRATCH_PATH_BYTES], script[SCRATCH_PATH_BYTES], command[2 * SCRATCH_PATH_BYTES + 32];
    uint8_t bytes[FILE_ROOM];
    scratch_write(scratch_path(path, *state, "for-python"), bytes, small_file(bytes));
    scratch_write(scratch_path(script, *state, "reader.py"), reader, sizeof reader - 1);
    snprintf(command, sizeof command, "python3 %s %s", script, path);
    assert_int_equal(system(command), 0);
}

static void headers_that_the_format_forbids_are_not_built(void **state) {
    (void)state;
    const TensorEntry good = {.name = "a", .rank = 1, .shape = {1}};
    const TensorEntry wrong[] = {
        {.name = "", .rank = 0},
        {.name = "__metadata__", .rank = 0},
        {.name = "a", .rank = 0}, // as the good one
        {.name = "\xff", .rank = 0},
        {.name = "b", .rank = SAFETENSORS_MAX_RANK + 1},
        {.name = "b", .rank = 1, .shape = {-1}},
        {.name = "b", .rank = 2, .shape = {INT64_MAX, 4}},
        {.name = "b", .rank = 1, .shape = {INT64_MAX / 4}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        TensorEntry entries[2] = {good, wrong[i]};
        char *header;
        size_t header_bytes;
        Error err = {.message = ""};
        assert_int_equal(safetensors_header(&header, &header_bytes, entries, 2, NULL, 0, &err), STATUS_SOFTWARE);
        assert_true(strlen(err.message) > 0);
    }
    const TensorNote twice[] = {{"k", "1"}, {"k", "2"}};
    char *header;
    size_t header_bytes;
    Error err;
    assert_int_equal(safetensors_header(&header, &header_bytes, NULL, 0, twice, 2, &err), STATUS_SOFTWARE);
}

// Writes a file of this header (its true length in front) and payload, and opens it.
static Status open_header(const char *folder, const char *header, size_t header_bytes, size_t payload_bytes,
                          Error *err) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t *bytes = calloc(8 + header_bytes + payload_bytes, 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(header_bytes >> 8 * i);
    memcpy(bytes + 8, header, header_bytes);
    scratch_write(scratch_path(path, folder, "hostile"), bytes, 8 + header_bytes + payload_bytes);
    free(bytes);
    Safetensors file;
    err->message[0] = '\0';
    Status status = safetensors_open(&file, path, err);
    if (status == STATUS_OK)
        safetensors_close(&file);
    else
        assert_non_null(strstr(err->message, path));
    return status;
}

static void hostile_headers_are_refused(void **state) {
    const struct {
        const char *header;
        size_t payload_bytes;
        const char *sentence_part;
    } cases[] = {
        {"", 0, "does not start with '{'"},
        {"[]", 0, "does not start with '{'"},
        {" {}", 0, "does not start with '{'"},
        {"{", 0, "bad JSON at byte"},
        {"{} {}", 0, "bad JSON at byte"},
        {"{}", 1, "too many bytes"},
        {"{\"a\":1}", 0, "not just dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "not just dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "not just dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "not just dtype"},
        {"{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "dtype C64"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,2]}}", 2, "dtype (none)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "starts at payload byte 4"}, // they overlap
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         12, "starts at payload byte 8"}, // a gap
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "starts at payload byte 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "disagree"},
        // 2^31 * 2^31 * 4 = 2^64: the product wraps to 0
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2147483648,2147483648],\"data_offsets\":[0,0]}}", 0, "disagree"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}", 0, "bad JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "rank 9"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name of 0 bytes"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "is not a string"},
        {"{\"__metadata__\":{\"k\":\"\\u0000\"}}", 0, "bad JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        assert_int_equal(open_header(*state, cases[i].header, strlen(cases[i].header), cases[i].payload_bytes, &err),
                         STATUS_DATA);
        if (!strstr(err.message, cases[i].sentence_part))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].header, err.message, cases[i].sentence_part);
    }
}

static void a_huge_header_length_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    Safetensors file;
    Error err;
    scratch_write(scratch_path(path, *state, "huge"), bytes, sizeof bytes);
    assert_int_equal(safetensors_open(&file, path, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "18446744073709551615"));
    size_t spaces = SAFETENSORS_MAX_HEADER_BYTES + 1;
    char *header = malloc(spaces);
    memset(header, ' ', spaces);
    memcpy(header, "{}", 2);
    assert_int_equal(open_header(*state, header, spaces, 0, &err), STATUS_DATA);
    check_ok(open_header(*state, header, spaces - 1, 0, &err));
    free(header);
}

static void deep_nesting_is_refused(void **state) {
    char *header = malloc(SAFETENSORS_MAX_HEADER_BYTES);
    Error err;
    for (int depth = 1; depth < 500000; depth = depth < 70 ? depth + 1 : depth * 3) {
        size_t used = (size_t)sprintf(header, "{\"a\":{\"dtype\":\"F32\",\"shape\":");
        memset(header + used, '[', (size_t)depth);
        used += (size_t)depth + (size_t)sprintf(header + used + depth, "1");
        memset(header + used, ']', (size_t)depth);
        used += (size_t)depth;
        used += (size_t)sprintf(header + used, ",\"data_offsets\":[0,4]}}");
        assert_int_equal(open_header(*state, header, used, 4, &err), depth == 1 ? STATUS_OK : STATUS_DATA);
        if (depth > 2048) assert_non_null(strstr(err.message, "depth"));
    }
    free(header);
}

static void too_many_tensors_are_refused(void **state) {
    char *header = malloc(SAFETENSORS_MAX_HEADER_BYTES);
    size_t used = 0;
    Error err;
    for (int i = 0; i <= SAFETENSORS_MAX_TENSORS; i++)
        used += (size_t)sprintf(header + used, "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                                i ? ',' : '{', i);
    header[used++] = '}';
    assert_int_equal(open_header(*state, header, used, 0, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "10001 tensors"));
    free(header);
}

static void every_truncation_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[FILE_ROOM];
    size_t whole = small_file(bytes);
    scratch_path(path, *state, "truncated");
    for (size_t count = 0; count < whole; count++) {
        Safetensors file;
        Error err = {.message = ""};
        scratch_write(path, bytes, count);
        assert_int_equal(safetensors_open(&file, path, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, path));
    }
}

static void every_flipped_bit_is_refused_or_leaves_a_consistent_file(void **state) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[FILE_ROOM];
    size_t whole = small_file(bytes);
    scratch_path(path, *state, "flipped");
    for (size_t bit = 0; bit < 8 * whole; bit++) {
        Safetensors file;
        Error err = {.message = ""};
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        scratch_write(path, bytes, whole);
        Status status = safetensors_open(&file, path, &err);
        if (status == STATUS_OK) {
            size_t end = 0;
            for (size_t i = 0; i < file.count; i++) {
                assert_int_equal(file.entries[i].first_byte, end);
                end += file.entries[i].bytes;
            }
            assert_int_equal(end, file.payload_bytes);
            assert_ptr_equal(file.payload + end, (uint8_t *)file.mapping + file.mapping_bytes);
            safetensors_close(&file);
        } else {
            assert_int_equal(status, STATUS_DATA);
            assert_non_null(strstr(err.message, path));
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void missing_files_and_folders_are_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Safetensors file;
    Error err;
    assert_int_equal(safetensors_open(&file, scratch_path(path, *state, "missing"), &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(safetensors_open(&file, *state, &err), STATUS_DATA);
}

// jansson's allocator: the call after `allocations_left` others has no memory.
static long allocations_left;

static void *failing_malloc(size_t bytes) {
    if (allocations_left-- != 0) return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

static void a_failed_allocation_is_told_and_never_gives_another_header(void **state) {
    char path[SCRATCH_PATH_BYTES];
    TensorEntry entries[] = {{.name = "conv1.weight", .rank = 4, .shape = {2, 1, 3, 3}}, {.name = "b", .rank = 1}};
    const TensorNote notes[] = {{"format", "pt"}, {"k", "v"}};
    char *whole, *header;
    size_t whole_bytes, bytes;
    Error err;
    check_ok(safetensors_header(&whole, &whole_bytes, entries, 2, notes, 2, &err));
    char *file_bytes = calloc(1, whole_bytes + 72);
    memcpy(file_bytes, whole, whole_bytes);
    scratch_write(scratch_path(path, *state, "model"), file_bytes, whole_bytes + 72);
    json_set_alloc_funcs(failing_malloc, free);
    long failures[2] = {0, 0};
    for (long k = 0; k < 300; k++) {
        Safetensors file;
        allocations_left = k;
        Status built = safetensors_header(&header, &bytes, entries, 2, notes, 2, &err);
        allocations_left = k;
        Status opened = safetensors_open(&file, path, &err);
        allocations_left = -1;
        if (built == STATUS_OK) {
            assert_int_equal(bytes, whole_bytes);
            assert_memory_equal(header, whole, bytes);
            free(header);
        }
        if (opened == STATUS_OK) safetensors_close(&file);
        assert_true((built == STATUS_OK || built == STATUS_OS) && (opened == STATUS_OK || opened == STATUS_OS));
        failures[0] += built != STATUS_OK;
        failures[1] += opened != STATUS_OK;
    }
    json_set_alloc_funcs(malloc, free);
    assert_in_range(failures[0], 20, 299); // some of them did fail, and in the end none
    assert_in_range(failures[1], 20, 299);
    free(whole);
    free(file_bytes);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_again),
        cmocka_unit_test(equal_tensors_give_equal_bytes),
        cmocka_unit_test(a_file_without_tensors_or_notes_is_read),
        cmocka_unit_test(an_independent_reader_reads_our_files),
        cmocka_unit_test(headers_that_the_format_forbids_are_not_built),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(a_huge_header_length_is_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(too_many_tensors_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_leaves_a_consistent_file),
        cmocka_unit_test(missing_files_and_folders_are_refused),
        cmocka_unit_test(a_failed_allocation_is_told_and_never_gives_another_header),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}
