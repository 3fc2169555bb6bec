// Buckets: whole layers from the last one back, the first small, and slices that cover each exactly once.
#include "fedavg/rules/sum/shard_sum.h"

#include <string.h>

#include "tests/check.h"

static void parse(Spec *spec, const char *text) {
    Error err;
    check_ok(spec_parse(spec, text, (Shape){1, 28, 28}, 10, &err));
}

static void check_cover(const Buckets *buckets, const Spec *spec) {
    size_t end = spec->parameter_count;
    for (uint32_t bucket = 0; bucket < buckets->count; bucket++) {
        assert_int_equal(buckets->end[bucket], end);
        assert_true(buckets->first[bucket] < end);
        end = buckets->first[bucket];
    }
    assert_int_equal(end, 0);
}

static void a_small_net_is_one_bucket(void **state) {
    (void)state;
    Spec spec;
    Buckets buckets;
    parse(&spec, "conv 10 5; pool 2; relu; linear 50; relu; linear 10");
    buckets_cut(&buckets, &spec);
    assert_int_equal(buckets.count, 1);
    check_cover(&buckets, &spec);
}

static void the_first_bucket_closes_at_1_mib_and_the_others_at_25(void **state) {
    (void)state;
    Spec spec;
    Buckets buckets;
    // From the end: 40 KB and 4 MB; seven layers of 4 MB (six would be 24); one of 4 MB and the first of 3 MB.
    parse(&spec,
          "linear 1000; relu; linear 1000; relu; linear 1000; relu; linear 1000; relu; linear 1000; relu; linear "
          "1000; relu; linear 1000; relu; linear 1000; relu; linear 1000; relu; linear 1000; relu; linear 10");
    buckets_cut(&buckets, &spec);
    check_cover(&buckets, &spec);
    assert_int_equal(buckets.count, 3);
    assert_int_equal(buckets.end[0] - buckets.first[0], 10010 + 1001000);
    assert_int_equal(buckets.end[1] - buckets.first[1], 7 * 1001000);
    assert_int_equal(buckets.end[2] - buckets.first[2], 1001000 + 785000);
}

static void more_layers_than_buckets_still_fit(void **state) {
    (void)state;
    // 50 layers of 27 MB and more would be 50 buckets; the last one takes what is left.
    char text[SPEC_TEXT_BYTES] = "linear 2700";
    for (int layer = 0; layer < 48; layer++)
        strcat(text, "; linear 2700");
    strcat(text, "; linear 10");
    Spec spec;
    Buckets buckets;
    parse(&spec, text);
    buckets_cut(&buckets, &spec);
    assert_int_equal(buckets.count, MAX_BUCKETS);
    check_cover(&buckets, &spec);
}

static void slices_cover_a_bucket_once_begin_on_cache_lines_and_are_equally_long(void **state) {
    (void)state;
    const Buckets buckets = {.count = 2, .first = {1003, 0}, .end = {5021, 1003}};
    for (uint32_t bucket = 0; bucket < 2; bucket++)
        for (uint32_t members = 1; members <= 256; members++) {
            size_t next = buckets.first[bucket];
            for (uint32_t position = 0; position < members; position++) {
                Slice slice = bucket_slice(&buckets, bucket, position, members);
                if (slice.first >= slice.end) continue;
                assert_int_equal(slice.first, next);
                const size_t lines = (buckets.end[bucket] + 15) / 16 - buckets.first[bucket] / 16;
                assert_in_range(slice.end - slice.first, 1, (lines / members + 1) * 16);
                if (slice.first != buckets.first[bucket]) assert_int_equal(slice.first % 16, 0);
                next = slice.end;
            }
            assert_int_equal(next, buckets.end[bucket]);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_net_is_one_bucket),
        cmocka_unit_test(the_first_bucket_closes_at_1_mib_and_the_others_at_25),
        cmocka_unit_test(more_layers_than_buckets_still_fit),
        cmocka_unit_test(slices_cover_a_bucket_once_begin_on_cache_lines_and_are_equally_long),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
