// What a client sends: the encoded bytes have the size of the formula, and the server reads from them what the paper
// says.
#include "fedavg/rules/send/send_rules.h"

#include <math.h>
#include <stdlib.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/sum/aggregate.h"
#include "tests/check.h"

enum { WEIGHTS = 1003, TENSORS = 3, KEYS = 400 };

static const size_t ENDS[TENSORS] = {100, 357, WEIGHTS}, ROWS[TENSORS] = {10, 0, 19}; // matrices around a vector

// An update as a client has trained it, from weights of another size, so that differences of floats round.
typedef struct Client {
    float global[WEIGHTS], update[WEIGHTS], become[WEIGHTS], read[WEIGHTS];
    uint8_t wire[8 * WEIGHTS + 64];
    Recipe recipe;
    Coding coding;
    const SendCode *code;
    size_t bytes;
} Client;

static void fill(Client *client) {
    const RngKey key = rng_key(3, RNG_INIT, 0, 0, 0);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        client->global[i] = 0.05f * (float)rng_normal(key, i);
        client->become[i] = client->global[i] + 0.01f * (float)rng_normal(key, WEIGHTS + i);
        client->update[i] = client->become[i] - client->global[i];
    }
}

static void choose(Client *client, const char *text) {
    Error err;
    check_ok(recipe_parse(&client->recipe, text, &err));
    const Chosen *chosen = &client->recipe.code;
    client->code = send_codes[chosen->row];
    client->coding = (Coding){.number = chosen->number,
                              .count = WEIGHTS,
                              .ends = ENDS,
                              .rows = ROWS,
                              .tensors = TENSORS,
                              .key = rng_key(7, RNG_COMPRESS, 2, 5, 0),
                              .feeds_back = send_feeds_back(chosen)};
}

static void travel(Client *client) {
    memset(client->wire, 0xa5, sizeof client->wire);
    const Payload payload = {client->update, client->become};
    const Chosen *chosen = &client->recipe.code;
    client->bytes = send_encode(client->wire, &payload, chosen, &client->coding);
    for (size_t i = client->bytes; i < sizeof client->wire; i++)
        assert_int_equal(client->wire[i], 0xa5); // nothing is written behind the bytes that count
    Coding server = client->coding;
    server.key = (RngKey){{0}};
    if (client->code->becomes)
        memcpy(client->read, client->global, sizeof client->read);
    else
        for (size_t i = 0; i < WEIGHTS; i++)
            client->read[i] = NAN;
    send_decode(client->read, client->wire, client->bytes, chosen, &server);
}

static void sent(Client *client, const char *text) {
    fill(client);
    choose(client, text);
    travel(client);
}

static void encoded_updates_have_the_bytes_of_the_formula(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"send top-k share=0.01", 8 * 11},
                 {"send top-k share=0.1", 4 * 101 + 126},
                 {"send top-k share=1", 4 * 1003 + 126},
                 {"send random-k share=0.01", 4 * 11 + 8},
                 {"send random-k share=1", 4 * 1003 + 8},
                 {"send qsgd levels=255", 4 + (1003 * 9 + 7) / 8},
                 {"send qsgd levels=1", 4 + (1003 * 2 + 7) / 8},
                 {"send qsgd levels=256", 4 + (1003 * 10 + 7) / 8},
                 {"send terngrad", 4 * 3 + 251},
                 {"send bits b=8", 4 + 1003},
                 {"send bits b=3", 4 + (1003 * 3 + 7) / 8},
                 {"send scaled-sign", 4 + 126},
                 {"send sign", 126},
                 {"send top-k share=0.1 per=tensor", 4 * (10 + 26 + 65) + 13 + 33 + 81},
                 {"send random-k share=0.01 per=tensor", 4 * (1 + 3 + 7) + 3 * 8},
                 {"send qsgd levels=255 per=tensor", 3 * 4 + 113 + 290 + 727},
                 {"send bits b=3 per=tensor", 3 * 4 + 38 + 97 + 243},
                 {"send scaled-sign per=tensor", 3 * 4 + 13 + 33 + 81},
                 {"send float4", 3 * 4 + 50 + 129 + 323},
                 {"send float4 per=whole", 4 + 502},
                 {"send sparse", 4 + (21 * 12 + 7) / 8}, // 1,003 places need 10 bits, 2 bits say the value
                 {"send sparse share=0.1 chunk=500 bits=3", 2 * (4 + (50 * 12 + 7) / 8) + 4 + (1 * (2 + 3) + 7) / 8},
                 {"send sparse share=0.02 chunk=64 per=tensor", 15 * (4 + 2) + 3 * (4 + 1)},
                 {"send powersgd rank=1", 4 * (20 + 257 + 53)},
                 {"send powersgd rank=12", 4 * (10 * 20 + 257 + 12 * 53)}};
    static Client client;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sent(&client, cases[i].text);
        SentWeights weights = {.count = WEIGHTS, .tensors = TENSORS};
        memcpy(weights.ends, ENDS, sizeof ENDS);
        memcpy(weights.rows, ROWS, sizeof ROWS);
        if (client.bytes != cases[i].bytes) fail_msg("%s: %zu bytes", cases[i].text, client.bytes);
        assert_int_equal(send_bytes(&client.recipe.code, &weights), cases[i].bytes);
    }
    sent(&client, "send threshold tau=0.01");
    size_t large = 0;
    for (size_t i = 0; i < WEIGHTS; i++)
        large += fabsf(client.update[i]) >= 0.01f;
    assert_true(large > 100 && large < 900);
    assert_int_equal(client.bytes, 8 * large + 4);
}

static void codes_that_send_everything_send_what_was_trained(void **state) {
    (void)state;
    static const char *const texts[] = {"send top-k share=1", "send random-k share=1", "send threshold tau=0",
                                        "send top-k share=1 per=tensor", "send random-k share=1 per=tensor"};
    static Client client;
    for (size_t i = 0; i < 5; i++) {
        sent(&client, texts[i]);
        assert_memory_equal(client.read, client.become, sizeof client.read);
    }
}

static int by_magnitude(const void *a, const void *b) {
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}

static void top_k_sends_the_largest_and_of_equal_ones_the_first(void **state) {
    (void)state;
    static Client client;
    sent(&client, "send top-k share=0.2");
    float sorted[WEIGHTS];
    memcpy(sorted, client.update, sizeof sorted);
    qsort(sorted, WEIGHTS, sizeof *sorted, by_magnitude);
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_int_equal(client.read[i] != client.global[i], fabsf(client.update[i]) >= fabsf(sorted[200]));
    for (size_t i = 0; i < WEIGHTS; i++)
        client.update[i] = i % 2 ? 0.5f : -0.5f, client.become[i] = client.global[i] + client.update[i];
    travel(&client);
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_int_equal(client.read[i] != client.global[i], i < 201);
}

static void what_is_left_over_and_what_was_sent_are_the_update(void **state) {
    (void)state;
    static const char *const texts[] = {"send top-k share=0.3", "send random-k share=0.3 feedback=yes",
                                        "send threshold tau=0.01"};
    static Client client;
    for (size_t t = 0; t < 3; t++) {
        sent(&client, texts[t]);
        float left[WEIGHTS];
        for (size_t i = 0; i < WEIGHTS; i++) { // p = e + d
            left[i] = 0.002f * (float)rng_normal(rng_key(4, RNG_INIT, 0, 0, 0), (uint32_t)i);
            client.update[i] += left[i];
            client.become[i] = client.global[i] + client.update[i];
        }
        travel(&client);
        const Payload payload = {client.update, client.become};
        send_left_over(left, &payload, client.read, client.global, WEIGHTS);
        for (size_t i = 0; i < WEIGHTS; i++)
            assert_true((double)client.read[i] - (double)client.global[i] + (double)left[i] ==
                        (double)client.update[i]);
    }
}

// Each tensor is an update of its own: what another one's values are does not matter.
static void a_code_per_tensor_looks_at_one_at_a_time(void **state) {
    (void)state;
    static const char *const texts[] = {"send top-k share=0.2 per=tensor", "send random-k share=0.2 per=tensor",
                                        "send qsgd levels=7 per=tensor", "send bits b=4 per=tensor",
                                        "send scaled-sign per=tensor"};
    static Client client;
    for (size_t t = 0; t < 5; t++) {
        float before[WEIGHTS], most[TENSORS] = {0};
        sent(&client, texts[t]);
        memcpy(before, client.read, sizeof before);
        for (size_t i = ENDS[0]; i < ENDS[1]; i++)
            client.update[i] *= 64, client.become[i] = client.global[i] + client.update[i];
        travel(&client);
        for (size_t i = 0; i < WEIGHTS; i++)
            if (i < ENDS[0] || i >= ENDS[1]) assert_true(client.read[i] == before[i]);
        for (size_t i = 0, tensor = 0; i < WEIGHTS; i++) {
            tensor += i == ENDS[tensor];
            const float read = client.code->becomes ? client.read[i] - client.global[i] : client.read[i];
            most[tensor] = fmaxf(most[tensor], fabsf(read));
        }
        assert_true(most[1] > 20 * most[0] && most[1] > 20 * most[2] && most[0] > 0 && most[2] > 0);
    }
    sent(&client, "send scaled-sign per=tensor");
    const float mean =
        (float)(aggregate_absolute_sum(client.update + ENDS[0], ENDS[1] - ENDS[0]) / (double)(ENDS[1] - ENDS[0]));
    assert_true(fabsf(client.read[ENDS[0]]) == mean);
}

// The largest is 8: so are all values of the format, and what is between them goes to the nearest.
static void four_bits_hold_a_sign_and_seven_powers_of_two_or_zero(void **state) {
    (void)state;
    static const float in[] = {8,     -8,     4, -4,   2, -2,    1,  -1,     0.5f,    -0.5f,   0.25f,   -0.25f,
                               0.125, -0.125, 0, -0.f, 6, 5.99f, -3, -2.99f, 0.1875f, 0.1874f, 0.0625f, 0.0624f},
                       out[] = {8,      -8,      4, -4,   2, -2, 1,  -1, 0.5f,  -0.5f,  0.25f,  -0.25f,
                                0.125f, -0.125f, 0, -0.f, 8, 4,  -4, -2, 0.25f, 0.125f, 0.125f, 0};
    enum { VALUES = sizeof in / sizeof *in };
    static Client client;
    fill(&client);
    memset(client.update, 0, sizeof client.update);
    memcpy(client.update + ENDS[0], in, sizeof in);
    choose(&client, "send float4");
    travel(&client);
    for (size_t i = 0; i < VALUES; i++)
        if (client.read[ENDS[0] + i] != out[i] || signbit(client.read[ENDS[0] + i]) != signbit(out[i]))
            fail_msg("%g becomes %g, not %g", (double)in[i], (double)client.read[ENDS[0] + i], (double)out[i]);
    uint16_t seen = 0;
    for (size_t i = 0; i < 16; i++) { // behind the first tensor and the second one's scale
        const uint8_t byte = client.wire[4 + 50 + 4 + i / 2];
        seen |= (uint16_t)(1u << (i % 2 ? byte >> 4 : byte & 15));
    }
    assert_int_equal(seen, 0xffff); // all codes
}

static void of_each_chunk_the_largest_are_sent_in_a_few_bits(void **state) {
    (void)state;
    static Client client;
    fill(&client);
    memset(client.update, 0, sizeof client.update);
    static const float in[] = {1, -9, 4, 2, 8, 3, /* the second chunk */ 0.1f, 0.3f, -0.3f, 0, 0.2f, -0.1f},
                       out[] = {0, -9, 3, 0, 9, 0, /* of levels 0.2 apart */ 0, 0.3f, -0.3f, 0, 0.1f, 0};
    memcpy(client.update, in, sizeof in);
    choose(&client, "send sparse share=0.5 chunk=6");
    travel(&client);
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (!(fabsf(client.read[i] - out[i]) < 1e-6f))
            fail_msg("%g becomes %g, not %g", (double)in[i], (double)client.read[i], (double)out[i]);
    for (size_t i = sizeof in / sizeof *in; i < WEIGHTS; i++)
        assert_true(client.read[i] == 0);
    sent(&client, "send sparse share=1 bits=16 chunk=77"); // all of them, to half a step
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_true(fabsf(client.read[i] - client.update[i]) < 1.01f * 0.05f / 65535);
    SentWeights gpt = {.count = 800000};
    choose(&client, "sparseloco");
    assert_true(send_bytes(&client.recipe.code, &gpt) < 4 * 800000 / 100);
}

// The mean over many keys comes to the update: within five standard errors, each at most `most` wide.
static void is_unbiased(const char *text, double most) {
    static Client client;
    static double sum[WEIGHTS];
    memset(sum, 0, sizeof sum);
    fill(&client);
    choose(&client, text);
    for (uint32_t k = 0; k < KEYS; k++) {
        client.coding.key = rng_key(11, RNG_COMPRESS, k, 0, 0);
        travel(&client);
        for (size_t i = 0; i < WEIGHTS; i++)
            sum[i] += (double)client.read[i] - (client.code->becomes ? (double)client.global[i] : 0);
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        const double mean = sum[i] / (KEYS);
        if (!(fabs(mean - (double)client.update[i]) < 5 * most / sqrt((double)KEYS)))
            fail_msg("%s: weight %zu has a mean of %g, not %g", text, i, mean, (double)client.update[i]);
    }
}

static void random_codes_are_right_on_average(void **state) {
    (void)state;
    static Client client;
    fill(&client);
    double length = sqrt(aggregate_squared_length(client.update, WEIGHTS)), most = 0;
    for (size_t i = 0; i < WEIGHTS; i++)
        most = fmax(most, fabs((double)client.update[i]));
    is_unbiased("send qsgd levels=16", 0.5 * length / 16);
    is_unbiased("send bits b=4", 0.5 * 2 * most / 15);
    is_unbiased("send terngrad clip=0", most);
    is_unbiased("send random-k share=0.5", 1.1 * most);
    is_unbiased("send qsgd levels=16 per=tensor", 0.5 * length / 16);
    is_unbiased("send bits b=4 per=tensor", 0.5 * 2 * most / 15);
    is_unbiased("send random-k share=0.5 per=tensor", 1.1 * most);
}

// At 2.5 deviations, as in the paper, unless told otherwise; a single value has none.
static void terngrad_cuts_what_is_far_from_the_other_values_of_a_tensor(void **state) {
    (void)state;
    static const size_t ends[TENSORS] = {1, 357, WEIGHTS};
    static Client client;
    fill(&client);
    choose(&client, "send terngrad");
    client.coding.ends = ends;
    client.update[0] = 0.5f;
    client.update[400] = -0.3f, client.update[500] = 0.2f; // of some 0.01
    travel(&client);
    assert_true(client.read[0] == 0.5f);
    for (size_t t = 1, i = 1; t < TENSORS; t++) {
        const size_t first = ends[t - 1], count = ends[t] - first;
        double mean = 0, variance = 0, most = 0;
        for (size_t j = first; j < ends[t]; j++)
            mean += (double)client.update[j] / (double)count, most = fmax(most, fabs((double)client.update[j]));
        for (size_t j = first; j < ends[t]; j++)
            variance += pow((double)client.update[j] - mean, 2) / (double)count;
        const double limit = fmin(2.5 * sqrt(variance), most);
        for (; i < ends[t]; i++) {
            const double read = (double)client.read[i], update = (double)client.update[i];
            assert_true(read == 0 || fabs(read / copysign(limit, update) - 1) < 1e-6);
            if (fabs(update) > limit) assert_true(read != 0);
        }
    }
    assert_true(client.read[400] < 0 && client.read[400] > -0.06f && client.read[500] == -client.read[400]);
}

static void values_on_the_wire_are_those_of_the_papers(void **state) {
    (void)state;
    static Client client;
    sent(&client, "send terngrad clip=0");
    size_t kinds[3] = {0};
    for (size_t i = 0, t = 0; i < WEIGHTS; i++) {
        t += i == ENDS[t];
        float most = 0;
        for (size_t j = t ? ENDS[t - 1] : 0; j < ENDS[t]; j++)
            most = fmaxf(most, fabsf(client.update[j]));
        assert_true(client.read[i] == 0 || client.read[i] == copysignf(most, client.update[i]));
        kinds[client.read[i] == 0 ? 0 : client.read[i] > 0 ? 1 : 2]++;
    }
    assert_true(kinds[0] > 100 && kinds[1] > 100 && kinds[2] > 100);
    sent(&client, "send bits b=5");
    float most = 0, error = 0;
    for (size_t i = 0; i < WEIGHTS; i++)
        most = fmaxf(most, fabsf(client.update[i])), error = fmaxf(error, fabsf(client.read[i] - client.update[i]));
    assert_true(error > 0 && error <= 2 * most / 31);
    sent(&client, "send scaled-sign");
    const float mean = (float)(aggregate_absolute_sum(client.update, WEIGHTS) / WEIGHTS);
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_true(client.read[i] == (client.update[i] < 0 ? -mean : mean));
    sent(&client, "send sign");
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_true(client.read[i] == (client.update[i] < 0 ? -1 : 1));
}

// What a matrix M (rows x cols) becomes where it is projected onto what Q (2 of cols) makes of it, by the normal
// equations of M Q: no orthonormal basis is needed.
static void project(double *projection, double after[2][40], const float *m, const double q[2][40], size_t rows,
                    size_t cols) {
    double a[2][40] = {{0}}, gram[2][2] = {{0}}, right[2][40] = {{0}};
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++)
                a[c][i] += (double)m[i * cols + j] * q[c][j];
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < rows; i++) {
            gram[c][0] += a[c][i] * a[0][i], gram[c][1] += a[c][i] * a[1][i];
            for (size_t j = 0; j < cols; j++)
                right[c][j] += a[c][i] * (double)m[i * cols + j];
        }
    const double det = gram[0][0] * gram[1][1] - gram[0][1] * gram[1][0];
    for (size_t j = 0; j < cols; j++) {
        after[0][j] = right[0][j], after[1][j] = right[1][j]; // M^T M Q: what the next Q spans
        const double x = (gram[1][1] * right[0][j] - gram[0][1] * right[1][j]) / det,
                     y = (gram[0][0] * right[1][j] - gram[1][0] * right[0][j]) / det;
        for (size_t i = 0; i < rows; i++)
            projection[i * cols + j] = a[0][i] * x + a[1][i] * y;
    }
}

static void powersgd_sends_what_a_step_of_the_power_method_finds_and_goes_on_from_there(void **state) {
    (void)state;
    static Client client;
    static float kept[2 * (10 + 34)];
    sent(&client, "send powersgd rank=2");
    client.coding.after = kept;
    double first[WEIGHTS], q[2][2][40], next[2][40];
    for (uint32_t turn = 0; turn < 3; turn++) { // the first without what is kept, then with it
        travel(&client);
        for (size_t t = 0, k = 0; t < TENSORS; t += 2, k++) {
            const size_t begin = t ? ENDS[1] : 0, rows = ROWS[t], cols = (ENDS[t] - begin) / rows;
            for (size_t j = 0; j < 2 * cols && turn == 0; j++)
                q[k][j / cols][j % cols] = rng_normal(client.coding.key, (uint32_t)(begin + j));
            project(first + begin, next, client.update + begin, q[k], rows, cols);
            memcpy(q[k], next, sizeof next);
            for (size_t i = begin; i < ENDS[t]; i++)
                if (!(fabs((double)client.read[i] - first[i]) < 1e-6))
                    fail_msg("turn %u, weight %zu: %g, not %g", turn, i, (double)client.read[i], first[i]);
        }
        assert_memory_equal(client.read + ENDS[0], client.update + ENDS[0], (ENDS[1] - ENDS[0]) * sizeof(float));
        client.coding.before = kept;
    }
    sent(&client, "send powersgd rank=19"); // whole: to rounding
    for (size_t i = 0; i < WEIGHTS; i++)
        assert_true(fabsf(client.read[i] - client.update[i]) < 1e-7f);
}

static void powersgd_wakes_up_after_an_update_of_zeros(void **state) {
    (void)state;
    static Client client;
    static float kept[10 + 34];
    fill(&client);
    choose(&client, "send powersgd rank=1");
    client.coding.after = kept;
    memset(client.update, 0, sizeof client.update);
    travel(&client);
    fill(&client);
    client.coding.before = kept;
    travel(&client);
    for (size_t i = 0; i < ENDS[0]; i++)
        assert_true(client.read[i] != 0);
}

static void an_update_of_zeros_arrives_as_zeros(void **state) {
    (void)state;
    static const char *const texts[] = {"send qsgd",  "send bits",     "send terngrad", "send scaled-sign",
                                        "send top-k", "send powersgd", "send float4",   "send sparse"};
    static Client client;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        fill(&client);
        memset(client.update, 0, sizeof client.update);
        memcpy(client.become, client.global, sizeof client.become);
        choose(&client, texts[t]);
        travel(&client);
        for (size_t i = 0; i < WEIGHTS; i++)
            assert_true(client.read[i] == (client.code->becomes ? client.global[i] : 0));
    }
    choose(&client, "send sign"); // of exact zeros there are as many signs of either kind
    travel(&client);
    double sum = 0;
    for (size_t i = 0; i < WEIGHTS; i++)
        sum += (double)client.read[i];
    assert_true(fabs(sum) < 5 * sqrt(WEIGHTS));
}

static void clipping_multiplies_nothing_that_is_short_enough(void **state) {
    (void)state;
    assert_true(clip_factor(4, 2) == 1);
    assert_true(clip_factor(0, 1e-9) == 1);
    assert_true(clip_factor(4, 1) == 0.5);
}

static void weights_that_stay_are_not_sent(void **state) {
    (void)state;
    Spec spec;
    Error err;
    check_ok(spec_parse(&spec, "linear 3; relu; linear 2", (Shape){1, 2, 2}, 2, &err));
    SentWeights sent;
    const TensorList list = spec_tensors(&spec);
    PersonalPlan personal = {.end = 15, .run_count = 1, .runs = {{0, 15}}};
    sent_weights(&sent, &list, &personal, NULL, 0);
    assert_int_equal(sent.count, 8);
    assert_int_equal(sent.tensors, 2);
    assert_int_equal(sent.ends[0], 6);
    assert_int_equal(sent.ends[1], 8);
    personal = (PersonalPlan){0};
    sent_weights(&sent, &list, &personal, NULL, 0);
    assert_int_equal(sent.count, 23);
    assert_int_equal(sent.ends[3], 23);
    assert_true(sent.rows[0] == 3 && sent.rows[1] == 0 && sent.rows[2] == 2 && sent.rows[3] == 0);
    personal = (PersonalPlan){.run_count = 2, .runs = {{12, 15}, {21, 23}}}; // the biases
    sent_weights(&sent, &list, &personal, NULL, 0);
    assert_int_equal(sent.count, 18);
    assert_int_equal(sent.tensors, 2);
    assert_int_equal(sent.ends[0], 12);
    assert_int_equal(sent.run_count, 2);
    assert_true(sent.runs[0].first == 0 && sent.runs[0].end == 12 && sent.runs[1].first == 15 &&
                sent.runs[1].end == 21);
    check_ok(spec_freeze(&spec, "fc1.weight", &err));
    sent_weights(&sent, &list, &personal, NULL, 0);
    assert_int_equal(sent.count, 6);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_updates_have_the_bytes_of_the_formula),
        cmocka_unit_test(codes_that_send_everything_send_what_was_trained),
        cmocka_unit_test(top_k_sends_the_largest_and_of_equal_ones_the_first),
        cmocka_unit_test(what_is_left_over_and_what_was_sent_are_the_update),
        cmocka_unit_test(a_code_per_tensor_looks_at_one_at_a_time),
        cmocka_unit_test(four_bits_hold_a_sign_and_seven_powers_of_two_or_zero),
        cmocka_unit_test(of_each_chunk_the_largest_are_sent_in_a_few_bits),
        cmocka_unit_test(random_codes_are_right_on_average),
        cmocka_unit_test(terngrad_cuts_what_is_far_from_the_other_values_of_a_tensor),
        cmocka_unit_test(values_on_the_wire_are_those_of_the_papers),
        cmocka_unit_test(powersgd_sends_what_a_step_of_the_power_method_finds_and_goes_on_from_there),
        cmocka_unit_test(powersgd_wakes_up_after_an_update_of_zeros),
        cmocka_unit_test(an_update_of_zeros_arrives_as_zeros),
        cmocka_unit_test(clipping_multiplies_nothing_that_is_short_enough),
        cmocka_unit_test(weights_that_stay_are_not_sent),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
