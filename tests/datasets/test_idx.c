// IDX files: what is read, and that everything else is refused by name and offset before anyone allocates.
#include "datasets/formats/idx.h"

#include <stdbool.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "gzip_bytes.h"
#include "tests/scratch.h"

// Two images of 2 x 3 pixels.
static const uint8_t IMAGES[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
enum { HEADER = 16, PAYLOAD = 12, PACKED_ROOM = 256, PAYLOAD_ROOM = 1 << 16 };

// Reads path as the loader does: header, room, payload. Refuses what would need more than PAYLOAD_ROOM bytes.
static Status load(IdxHeader *header, uint8_t payload[PAYLOAD_ROOM], const char *path, Error *err) {
    TRY(idx_header(header, path, err));
    assert_in_range(header->payload_bytes, 1, PAYLOAD_ROOM);
    return idx_read(payload, header, path, err);
}

static void expect_refusal(const char *folder, const uint8_t *bytes, size_t count, const char *sentence_part) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t payload[PAYLOAD_ROOM];
    IdxHeader header;
    Error err = {.message = ""};
    scratch_write(scratch_path(path, folder, "refused"), bytes, count);
    assert_int_equal(load(&header, payload, path, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, path));
    if (!strstr(err.message, sentence_part)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence_part);
}

static void plain_and_packed_files_give_the_same_samples(void **state) {
    uint8_t packed[PACKED_ROOM], payload[PAYLOAD_ROOM];
    size_t packed_count = gzip_bytes(packed, sizeof packed, IMAGES, sizeof IMAGES);
    for (int gz = 0; gz < 2; gz++) {
        char path[SCRATCH_PATH_BYTES];
        IdxHeader header;
        Error err;
        scratch_write(scratch_path(path, *state, "images"), gz ? packed : IMAGES, gz ? packed_count : sizeof IMAGES);
        check_ok(load(&header, payload, path, &err));
        assert_int_equal(header.rank, 3);
        assert_int_equal(header.extent[0], 2);
        assert_int_equal(header.extent[2], 3);
        assert_int_equal(header.extent[3], 1);
        assert_int_equal(header.payload_bytes, PAYLOAD);
        assert_memory_equal(payload, IMAGES + HEADER, PAYLOAD);
    }
}

static void a_file_larger_than_the_buffer_is_unpacked_whole(void **state) {
    enum { COUNT = 300000 };
    uint8_t *plain = malloc(COUNT + 8), *packed = malloc(COUNT + 1000), *payload = malloc(COUNT);
    const uint8_t start[8] = {0, 0, 8, 1, 0, COUNT >> 16, COUNT >> 8 & 255, COUNT & 255};
    memcpy(plain, start, sizeof start);
    for (uint32_t i = 0; i < COUNT; i++)
        plain[8 + i] = (uint8_t)rng_block((RngKey){{1, 2}}, i, 0, 0, 0).word[0]; // does not pack: several reads
    char path[SCRATCH_PATH_BYTES];
    IdxHeader header;
    Error err;
    size_t packed_count = gzip_bytes(packed, COUNT + 1000, plain, COUNT + 8);
    assert_true(packed_count > 2 * 65536);
    scratch_write(scratch_path(path, *state, "long.gz"), packed, packed_count);
    check_ok(idx_header(&header, path, &err));
    check_ok(idx_read(payload, &header, path, &err));
    assert_memory_equal(payload, plain + 8, COUNT);
    free(plain);
    free(packed);
    free(payload);
}

static void every_level_and_wrapper_that_gzip_writes_is_unpacked(void **state) {
    uint8_t packed[PACKED_ROOM], payload[PAYLOAD_ROOM], name[] = "images", comment[] = "two of them", extra[] = "more";
    gz_header full = {.name = name, .comment = comment, .extra = extra, .extra_len = sizeof extra, .hcrc = 1};
    gz_header *headers[] = {NULL, &full};
    for (int level = 0; level <= 9; level++)
        for (int h = 0; h < 2; h++) {
            char path[SCRATCH_PATH_BYTES];
            IdxHeader header;
            Error err;
            size_t count = gzip_bytes_with(packed, sizeof packed, IMAGES, sizeof IMAGES, level, headers[h]);
            scratch_write(scratch_path(path, *state, "wrapped.gz"), packed, count);
            check_ok(load(&header, payload, path, &err));
            assert_memory_equal(payload, IMAGES + HEADER, PAYLOAD);
            if (h == 0) continue;
            packed[12] ^= 1; // the extra field, which only the wrapper's own checksum covers
            expect_refusal(*state, packed, count, "corrupt gzip data");
        }
}

static void a_missing_file_is_no_input(void **state) {
    char path[SCRATCH_PATH_BYTES];
    IdxHeader header;
    Error err;
    assert_int_equal(idx_header(&header, scratch_path(path, *state, "missing"), &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, path));
}

static void folders_and_fifos_are_refused_without_waiting(void **state) {
    char path[SCRATCH_PATH_BYTES];
    IdxHeader header;
    Error err;
    assert_int_equal(idx_header(&header, *state, &err), STATUS_DATA);
    assert_int_equal(mkfifo(scratch_path(path, *state, "fifo"), 0600), 0);
    assert_int_equal(idx_header(&header, path, &err), STATUS_DATA);
}

static void damaged_headers_are_refused_with_the_offset(void **state) {
    const struct {
        uint8_t bytes[24];
        size_t count;
        const char *sentence_part;
    } cases[] = {
        {{0}, 0, "end at byte 0"},
        {{0, 0, 8}, 3, "end at byte 3"},
        {{1, 0, 8, 1, 0, 0, 0, 1, 7}, 9, "not an IDX file"},
        {{0, 0, 9, 1, 0, 0, 0, 1, 7}, 9, "type 0x09 at byte 2"},
        {{0, 0, 8, 0, 7}, 5, "rank 0 at byte 3"},
        {{0, 0, 8, 5, 0, 0, 0, 1}, 8, "rank 5 at byte 3"},
        {{0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0}, 12, "byte 8 is 0"},
        {{0, 0, 8, 1, 0, 0, 0, 2, 7}, 9, "ends at byte 9"},
        {{0, 0, 8, 1, 0, 0, 0, 1, 7, 7}, 10, "from byte 9 on"},
        {{0, 0, 8, 1, 255, 255, 255, 255, 7}, 9, "announces 4294967303 bytes"},
        // 2^31 * 2^31 * 4 = 2^64: the product wraps to 0
        {{0, 0, 8, 3, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 4}, 16, "more than fits"},
        {{0, 0, 8, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 20, "fits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(*state, cases[i].bytes, cases[i].count, cases[i].sentence_part);
}

// A packed file whose header and trailer agree on more than its few bytes can hold.
static void a_packed_file_cannot_announce_what_it_cannot_hold(void **state) {
    const uint8_t start[] = {0, 0, 8, 2, 16, 0, 0, 0, 0, 0, 0, 15, 7}; // 2^28 * 15 bytes
    uint8_t packed[PACKED_ROOM];
    size_t count = gzip_bytes(packed, sizeof packed, start, sizeof start);
    const uint32_t announced = (15u << 28) + 12;
    for (int i = 0; i < 4; i++)
        packed[count - 4 + (size_t)i] = (uint8_t)(announced >> 8 * i);
    expect_refusal(*state, packed, count, "no gzip file of");
}

static void bytes_after_the_packed_data_are_refused(void **state) {
    uint8_t packed[2 * PACKED_ROOM];
    size_t count = gzip_bytes(packed, PACKED_ROOM, IMAGES, sizeof IMAGES);
    memcpy(packed + count, "\1\0\0", 4);
    expect_refusal(*state, packed, count + 4, "follow the end of the gzip data");
    memcpy(packed + count, "\x1f\1\0\0", 5);
    expect_refusal(*state, packed, count + 5, "the gzip data break off");
    memcpy(packed + count, packed, count); // a second member, and one too many
    expect_refusal(*state, packed, 2 * count, "has too many unpacked bytes");
}

// As `cat a.gz b.gz` and bgzip write it, whose last member is empty.
static void several_members_are_one_packed_file(void **state) {
    uint8_t packed[3 * PACKED_ROOM], payload[PAYLOAD_ROOM];
    for (size_t first = 0; first <= sizeof IMAGES; first++) {
        char path[SCRATCH_PATH_BYTES];
        IdxHeader header;
        Error err;
        size_t count = gzip_bytes(packed, PACKED_ROOM, IMAGES, first);
        count += gzip_bytes(packed + count, PACKED_ROOM, IMAGES + first, sizeof IMAGES - first);
        if (first % 2) count += gzip_bytes(packed + count, PACKED_ROOM, IMAGES, 0);
        scratch_write(scratch_path(path, *state, "members"), packed, count);
        check_ok(load(&header, payload, path, &err));
        assert_memory_equal(payload, IMAGES + HEADER, PAYLOAD);
        expect_refusal(*state, packed, count - 1, "");
    }
}

// Loads bytes into payload and returns true, or makes sure that they were refused as DATA by a sentence that names the
// file and returns false.
static bool loads_or_is_refused(uint8_t payload[PAYLOAD_ROOM], const char *folder, const uint8_t *bytes, size_t count) {
    char path[SCRATCH_PATH_BYTES];
    IdxHeader header;
    Error err = {.message = ""};
    scratch_write(scratch_path(path, folder, "damaged"), bytes, count);
    Status status = load(&header, payload, path, &err);
    if (status == STATUS_OK) return true;
    assert_int_equal(status, STATUS_DATA);
    assert_non_null(strstr(err.message, path));
    return false;
}

static void every_truncation_is_refused(void **state) {
    uint8_t packed[PACKED_ROOM], payload[PAYLOAD_ROOM];
    size_t packed_count = gzip_bytes(packed, sizeof packed, IMAGES, sizeof IMAGES);
    for (size_t count = 0; count < sizeof IMAGES; count++)
        assert_false(loads_or_is_refused(payload, *state, IMAGES, count));
    for (size_t count = 0; count < packed_count; count++)
        assert_false(loads_or_is_refused(payload, *state, packed, count));
}

static void every_flipped_bit_is_refused_or_harmless(void **state) {
    uint8_t plain[sizeof IMAGES], packed[PACKED_ROOM], payload[PAYLOAD_ROOM];
    size_t packed_count = gzip_bytes(packed, sizeof packed, IMAGES, sizeof IMAGES);
    memcpy(plain, IMAGES, sizeof plain);
    for (size_t bit = 0; bit < 8 * sizeof plain; bit++) {
        plain[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(loads_or_is_refused(payload, *state, plain, sizeof plain),
                         bit >= 8 * HEADER); // pixels have no checksum
        plain[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * packed_count; bit++) {
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        // Some bits mean nothing: the wrapper's time and system, the last ones before the trailer. The rest has a
        // checksum.
        if (loads_or_is_refused(payload, *state, packed, packed_count))
            assert_memory_equal(payload, IMAGES + HEADER, PAYLOAD);
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void a_header_that_changed_since_it_was_read_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t changed[sizeof IMAGES], payload[PAYLOAD];
    IdxHeader header;
    Error err;
    scratch_write(scratch_path(path, *state, "images"), IMAGES, sizeof IMAGES);
    check_ok(idx_header(&header, path, &err));
    memcpy(changed, IMAGES, sizeof changed);
    changed[11] = 3; // 2 x 3 x 2 instead of 2 x 2 x 3: as many bytes
    changed[15] = 2;
    scratch_write(path, changed, sizeof changed);
    assert_int_equal(idx_read(payload, &header, path, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "changed"));
}

// The reader's own memory: a regular file of which no byte can be read at its beginning.
static void a_file_that_cannot_be_read_is_not_called_truncated(void **state) {
    (void)state;
    IdxHeader header;
    Error err;
    assert_int_equal(idx_header(&header, "/proc/self/mem", &err), STATUS_IO);
    assert_non_null(strstr(err.message, "/proc/self/mem: byte 0: "));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_give_the_same_samples),
        cmocka_unit_test(a_file_larger_than_the_buffer_is_unpacked_whole),
        cmocka_unit_test(every_level_and_wrapper_that_gzip_writes_is_unpacked),
        cmocka_unit_test(a_missing_file_is_no_input),
        cmocka_unit_test(folders_and_fifos_are_refused_without_waiting),
        cmocka_unit_test(damaged_headers_are_refused_with_the_offset),
        cmocka_unit_test(a_packed_file_cannot_announce_what_it_cannot_hold),
        cmocka_unit_test(bytes_after_the_packed_data_are_refused),
        cmocka_unit_test(several_members_are_one_packed_file),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(a_file_that_cannot_be_read_is_not_called_truncated),
        cmocka_unit_test(a_header_that_changed_since_it_was_read_is_refused),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}
