#include "view_rules.h"

#include "base/rng.h"
#include "fedavg/rules/rule.h"

enum { DRIFT_ROUND, DRIFT_PERIOD, DRIFT_CHANGE, DRIFT_STEP };
enum { CHANGE_SUDDEN, CHANGE_GRADUAL, CHANGE_RECURRENT };

#define DRIFT_NUMBERS(periods)                                                                                         \
    {.name = "round", .preset = 10, .minimum = 1, .maximum = 1000000, .whole = true},                                  \
        {.name = "period", .preset = (periods), .minimum = 0, .maximum = 1000000, .whole = true}, {                    \
        .name = "change", .words = { "sudden", "gradual", "recurrent" }                                                \
    }

const RuleText view_noises[VIEW_NOISE_COUNT] = {
    [VIEW_NOISE_NONE] = {"none", "clients see their samples as they are", "", {{0}}},
    [VIEW_NOISE_GAUSSIAN] = {"gaussian",
                             "normal numbers on every pixel, of deviation SIGMA k / (clients - 1) for client k; pixels "
                             "go from 0 to 1",
                             "Li, Diao, Chen, He, ICDE 2022: feature noise",
                             {{.name = "sigma", .preset = 0.1, .minimum = 0, .maximum = 1000}}},
    [VIEW_NOISE_BLOCK] = {"block",
                          "normal numbers of deviation SIGMA on one block of the image, another one for each client",
                          "Li, Diao, Chen, He, ICDE 2022: noise in space",
                          {{.name = "sigma", .preset = 0.1, .minimum = 0, .maximum = 1000}}},
};

const RuleText view_drifts[VIEW_DRIFT_COUNT] = {
    [VIEW_DRIFT_NONE] = {"none", "samples mean the same in every round", "", {{0}}},
    [VIEW_DRIFT_LABELS] = {"labels",
                           "from ROUND on labels are permuted: P(y|x) changes",
                           "Gama et al., ACM Computing Surveys 2014",
                           {DRIFT_NUMBERS(0)}},
    [VIEW_DRIFT_CLASSES] = {"classes",
                            "from ROUND on each client holds the samples of the next one: P(y) changes",
                            "Gama et al., ACM Computing Surveys 2014",
                            {DRIFT_NUMBERS(0)}},
    [VIEW_DRIFT_PIXELS] = {"pixels",
                           "from ROUND on images are shifted by STEP pixels down and right: P(x) changes",
                           "Gama et al., ACM Computing Surveys 2014",
                           {DRIFT_NUMBERS(0),
                            {.name = "step", .preset = 2, .minimum = 1, .maximum = 1000, .whole = true}}},
};

Status view_parse_noise(Chosen *noise, const char *text, Error *err) {
    TRY(rule_parse(noise, &view_noises[1], VIEW_NOISE_COUNT - 1, "client noise", text, err));
    noise->row = noise->number[0] > 0 ? noise->row + 1 : VIEW_NOISE_NONE;
    return STATUS_OK;
}

Status view_parse_drift(Chosen *drift, const char *text, Error *err) {
    TRY(rule_parse(drift, &view_drifts[1], VIEW_DRIFT_COUNT - 1, "drift", text, err));
    drift->row++;
    if (drift->number[DRIFT_CHANGE] == CHANGE_SUDDEN || drift->number[DRIFT_PERIOD] > 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, "a drift that is %s needs a period, in rounds, such as period=10",
                view_drifts[drift->row].numbers[DRIFT_CHANGE].words[(int)drift->number[DRIFT_CHANGE]]);
}

// Gradual: each client changes at a random round within the period. Recurrent: the concept alternates every period.
uint32_t view_concept(const Chosen *drift, uint64_t seed, uint32_t round, uint32_t client) {
    if (drift->row == VIEW_DRIFT_NONE) return 0;
    const uint32_t first = (uint32_t)drift->number[DRIFT_ROUND], period = (uint32_t)drift->number[DRIFT_PERIOD];
    if (round < first) return 0;
    const uint32_t since = round - first;
    switch ((int)drift->number[DRIFT_CHANGE]) {
    case CHANGE_GRADUAL:
        if (client == VIEW_TEST_SET) return 1;
        return since >= rng_below(rng_block(rng_key(seed, RNG_DRIFT, 0, client, 0), 0, 0, 0, 0).word[0], period);
    case CHANGE_RECURRENT:
        return since / period % 2 == 0;
    default:
        return period > 0 ? 1 + since / period : 1;
    }
}

uint32_t view_holding(const ViewPlan *plan, uint64_t seed, uint32_t round, uint32_t client, uint32_t clients) {
    if (plan->drift.row != VIEW_DRIFT_CLASSES) return client;
    return (client + view_concept(&plan->drift, seed, round, client) % clients) % clients;
}

uint32_t view_holders(const ViewPlan *plan) {
    const Chosen *drift = &plan->drift;
    return drift->row == VIEW_DRIFT_CLASSES && drift->number[DRIFT_CHANGE] == CHANGE_GRADUAL ? 2 : 1;
}

// Each concept has a permutation of its own, drawn by its number: all clients in one concept agree on what labels mean.
void view_labels(uint16_t *label_of, uint32_t *order, int classes, uint64_t seed, uint32_t concept) {
    for (int label = 0; label < classes; label++)
        order[label] = (uint32_t)label;
    if (concept > 0) rng_shuffle(order, (size_t)classes, rng_key(seed, RNG_DRIFT, concept, 0, 1));
    for (int label = 0; label < classes; label++)
        label_of[label] = (uint16_t)order[label];
}

// The client's block in the smallest square grid with one block per client.
typedef struct BlockOf {
    int first_row, first_column, rows, columns;
} BlockOf;

// Edges are rounded down on both sides of a block, so that neighbours share an edge and no pixel is left out.
static BlockOf block_of(Shape shape, uint32_t client, uint32_t clients) {
    int side = 1;
    while ((uint32_t)(side * side) < clients)
        side++;
    const int row = (int)client / side, column = (int)client % side;
    const int rows = shape.rows, columns = shape.columns;
    const int first_row = row * rows / side, first_column = column * columns / side;
    return (BlockOf){first_row, first_column, (row + 1) * rows / side - first_row,
                     (column + 1) * columns / side - first_column};
}

// Refuses a view that would change no sample, or leave none.
Status view_check(const ViewPlan *plan, Shape shape, uint32_t clients, Error *err) {
    const BlockOf smallest = block_of(shape, 0, clients);
    if (plan->noise.row == VIEW_NOISE_BLOCK && (smallest.rows == 0 || smallest.columns == 0))
        return fail(err, STATUS_USAGE,
                    "client-noise block: samples of %dx%d have no block of their own for each of %u clients; take "
                    "gaussian, or fewer clients",
                    shape.rows, shape.columns, clients);
    const double step = plan->drift.row == VIEW_DRIFT_PIXELS ? plan->drift.number[DRIFT_STEP] : 0;
    if (step >= shape.rows || step >= shape.columns)
        return fail(
            err, STATUS_USAGE,
            "drift pixels step=%g: nothing would be left of samples of %dx%d; give a smaller step, or take labels "
            "or classes",
            step, shape.rows, shape.columns);
    return STATUS_OK;
}

// Sigma is in units of a pixel's range; it grows with the client's number where the noise is everywhere.
SampleNoise view_noise(const Chosen *noise, Shape shape, uint64_t seed, uint32_t client, uint32_t clients) {
    const bool everywhere = noise->row == VIEW_NOISE_GAUSSIAN;
    const double part = everywhere && clients > 1 ? (double)client / (clients - 1) : 1;
    const BlockOf block = everywhere ? (BlockOf){0, 0, shape.rows, shape.columns} : block_of(shape, client, clients);
    return (SampleNoise){.deviation = noise->number[0] * part,
                         .seed = seed,
                         .client = client,
                         .first_row = block.first_row,
                         .first_column = block.first_column,
                         .rows = block.rows,
                         .columns = block.columns};
}

void view_add_noise(float *inputs, Shape shape, const float *scale, const Chosen *noise, uint64_t seed, uint32_t client,
                    uint32_t clients, uint32_t index) {
    const SampleNoise of = view_noise(noise, shape, seed, client, clients);
    const RngKey key = sample_noise_key(&of, index);
    for (int channel = 0; channel < shape.channels && of.deviation > 0; channel++) {
        const double deviation = sample_noise_deviation(&of, scale, channel);
        for (int row = of.first_row; row < of.first_row + of.rows; row++)
            for (int column = of.first_column; column < of.first_column + of.columns; column++) {
                const int at = (channel * shape.rows + row) * shape.columns + column;
                inputs[at] += (float)(deviation * rng_normal(key, (uint32_t)at));
            }
    }
}
