#include "combine.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/crafted.h"
#include "fedavg/rules/sum/aggregate.h"

// Mixing and choosing work on shares and products alone, matrices of rows by rows; only the products and the final sum
// pass over the weights, which are the long side.

// Life ----------------------------------------------------------------------------------------------------------------

static const Recipe *recipe_of(const Combine *combine) {
    return &combine->memory->config->recipe;
}

static void allocate(Combine *combine) {
    const RunConfig *config = combine->memory->config;
    const size_t jobs = config->cohort, rows = jobs + combine->asides, square = rows * rows;
    combine->jobs = own(&combine->owned, jobs, sizeof *combine->jobs);
    combine->picked = own(&combine->owned, rows, sizeof *combine->picked);
    combine->shares = own(&combine->owned, rows, sizeof *combine->shares);
    combine->mixed_shares = own(&combine->owned, rows, sizeof *combine->mixed_shares);
    combine->weights = own(&combine->owned, rows, sizeof *combine->weights);
    combine->chosen = own(&combine->owned, rows, sizeof *combine->chosen);
    combine->columns = own(&combine->owned, rows * ROW_LANES, sizeof *combine->columns);
    combine->total = own(&combine->owned, config->parameters, sizeof *combine->total);
    if (combine->mix->mix) {
        combine->order = own(&combine->owned, rows, sizeof *combine->order);
        combine->parts = own(&combine->owned, square, sizeof *combine->parts);
        combine->mixed = own(&combine->owned, rows * ROW_BLOCK, sizeof *combine->mixed);
    }
    if (!combine->wants_products) return;
    combine->products = own(&combine->owned, square, sizeof *combine->products);
    combine->mixed_products = own(&combine->owned, square, sizeof *combine->mixed_products);
    combine->workspace = own(&combine->owned, 2 * square + 4 * rows, sizeof *combine->workspace);
}

static bool wants_products(const Algorithm *algorithm) {
    return algorithm->combine->choose || algorithm->mix->products;
}

// *blas: NULL where products are few, or not wanted. combine_blas_name asks by this function, too, so that the run's
// record names the library that the run then opens.
static Status open_blas(Blas **blas, const Algorithm *algorithm, const Chosen *attack, uint32_t cohort,
                        uint64_t parameters, Error *err) {
    const bool wanted = wants_products(algorithm) || crafted_wants_products(attack);
    bool allowed;
    *blas = NULL;
    TRY(blas_allowed(&allowed, err));
    if (!allowed || !wanted || !rows_want_blas(cohort, parameters)) return STATUS_OK;
    return blas_open(blas, kernels_best(), err);
}

Status combine_blas_name(char name[BLAS_NAME_BYTES], const Algorithm *algorithm, const Chosen *attack, uint32_t cohort,
                         uint64_t parameters, Error *err) {
    Blas *blas;
    TRY(open_blas(&blas, algorithm, attack, cohort, parameters, err));
    snprintf(name, BLAS_NAME_BYTES, "%s", blas ? blas_name(blas) : "");
    blas_close(blas);
    return STATUS_OK;
}

// Mixing in buckets of one leaves every update as it is. Without it no bit of the products is rounded.
static const MixRule *find_mix(const Combine *combine) {
    const Chosen *chosen = &recipe_of(combine)->mix;
    const bool alone = chosen->row == MIX_BUCKETS && chosen->number[0] == 1;
    return alone ? &mix_rules[MIX_NONE] : combine->memory->algorithm.mix;
}

Status combine_init(Combine *combine, const RunMemory *memory, Nodes *nodes, Error *err) {
    const RunConfig *config = memory->config;
    *combine = (Combine){.memory = memory, .nodes = nodes};
    if (config->slots.rows == 0) return STATUS_OK;
    combine->rule = memory->algorithm.combine;
    combine->mix = find_mix(combine);
    combine->wants_products = wants_products(&memory->algorithm);
    combine->asides = combine->rule->remembers || combine->rule->trusts ? 1 : 0;
    if (combine->asides > 0) // what it remembers, or what the server trained (SlotPlan.vectors)
        combine->center = run_memory_vector(memory, combine->rule->remembers ? state_vector(memory, STATE_CENTER)
                                                                             : config->slots.lasting);
    allocate(combine);
    Status status = STATUS_OK;
    if (combine->owned.lacks_memory)
        status = fail(err, STATUS_OS, "no memory to combine the updates of %u clients", config->cohort);
    if (status == STATUS_OK)
        status =
            open_blas(&combine->blas, &memory->algorithm, &config->attack, config->cohort, config->parameters, err);
    const bool products = combine->wants_products || crafted_wants_products(&config->attack);
    if (status == STATUS_OK)
        status =
            row_walk_init(&combine->walk, memory, nodes, ROW_TRAVELLING_FLOATS, products ? config->cohort + 1 : 0, err);
    combine->walk.blas = combine->blas;
    if (status != STATUS_OK) combine_free(combine);
    return status;
}

void combine_free(Combine *combine) {
    row_walk_free(&combine->walk);
    blas_close(combine->blas);
    owned_free(&combine->owned);
    *combine = (Combine){0};
}

// Rows ----------------------------------------------------------------------------------------------------------------

static double training_loss(const Combine *combine, const Job *job) {
    return run_objective(combine->memory->config) * job->loss_sum / (double)job->samples;
}

// A loss counts by its distance from the least one, so that not all weights can be too small for a double. exp of the
// distance is the C library's: combine_rows broadcasts node 0's weights.
static double weight_of(const Combine *combine, const Job *job, double least) {
    if (!combine->rule->by_training) return job->share;
    const double weight = job->share * combine->rule->by_training(training_loss(combine, job) - least,
                                                                  recipe_of(combine)->combine.number);
    return weight > 0 ? weight : 0; // a loss that is no number
}

// Rows are in the order of the clients, not of the jobs, so that ties go to the lower client, whatever the order of the
// work was. Weights of updates that arrived are scaled to a sum of 1.
static void list_jobs(Combine *combine) {
    Queue *queue = combine->memory->queue;
    double sum = 0, least = INFINITY;
    combine->count = 0;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_DONE) combine->jobs[combine->count++] = &queue->jobs[i];
    qsort(combine->jobs, combine->count, sizeof *combine->jobs, row_walk_by_client);
    assert(combine->count <= combine->memory->config->cohort);
    for (uint32_t row = 0; row < combine->count; row++)
        least = fmin(least, training_loss(combine, combine->jobs[row])); // passes over what is no number
    for (uint32_t row = 0; row < combine->count; row++)
        sum += combine->weights[row] = weight_of(combine, combine->jobs[row], least);
    const bool is_part = sum > 0 && (combine->count < queue->count || combine->rule->by_training);
    for (uint32_t row = 0; row < combine->count && is_part; row++)
        combine->weights[row] /= sum; // of those that arrived
}

// Mixing --------------------------------------------------------------------------------------------------------------

static uint32_t all_rows(const Combine *combine) {
    return combine->count + combine->asides;
}

// products (mixed, mixed) = parts * products * parts^T. Mixed updates are never made for this: their products follow
// from the products of the rows. A row aside (a center, the server's own update) is not mixed.
static void mix_products(Combine *combine) {
    const size_t from = all_rows(combine), to = combine->mixed_count + combine->asides;
    assert(to <= from);
    double *half = combine->workspace;
    for (size_t i = 0; i < to; i++)
        for (size_t j = 0; j < from; j++) {
            half[i * from + j] = 0;
            for (size_t k = 0; k < from; k++)
                if (combine->parts[i * from + k] != 0)
                    half[i * from + j] += combine->parts[i * from + k] * combine->products[k * from + j];
        }
    for (size_t i = 0; i < to; i++)
        for (size_t j = 0; j < to; j++) {
            combine->mixed_products[i * to + j] = 0;
            for (size_t k = 0; k < from; k++)
                if (combine->parts[j * from + k] != 0)
                    combine->mixed_products[i * to + j] += half[i * from + k] * combine->parts[j * from + k];
        }
}

static void mix_rows(Combine *combine, uint32_t round) {
    const RunConfig *config = combine->memory->config;
    const uint32_t all = all_rows(combine);
    const MixTurn turn = {.products = combine->products,
                          .count = combine->count,
                          .stride = all,
                          .number = recipe_of(combine)->mix.number,
                          .seed = config->seed,
                          .round = round,
                          .order = combine->order};
    memset(combine->parts, 0, (size_t)all * all * sizeof *combine->parts);
    combine->mix->mix(combine->parts, &turn);
    for (uint32_t aside = 0; aside < combine->asides; aside++)
        combine->parts[(size_t)(combine->mixed_count + aside) * all + combine->count + aside] = 1;
    if (combine->rule->choose) mix_products(combine);
}

// Choosing ------------------------------------------------------------------------------------------------------------

// The rule sets the shares of the (mixed) rows in the result, beginning with equal ones or with the weights of a mean.
// Mixed updates count equally, since each holds parts of several clients. Without a rule that chooses, these shares are
// the result: a mean of rows that an attack or a mixture needed.
static void choose(Combine *combine) {
    const bool mixes = combine->mix->mix != NULL;
    const uint32_t count = combine->mixed_count;
    assert(count >= 1 && count <= combine->count);
    const Choice choice = {.products = mixes ? combine->mixed_products : combine->products,
                           .count = count + combine->asides,
                           .weights = combine->weights,
                           .number = recipe_of(combine)->combine.number,
                           .workspace = combine->workspace};
    const bool weighs = combine->rule->by_training || combine->rule->adapters ||
                        !combine->rule->rows; // a mean, with rows for an attack's sake or mixed
    for (uint32_t row = 0; row < count; row++)
        combine->mixed_shares[row] = weighs && !mixes ? combine->weights[row] : 1.0 / count;
    if (mixes) // all mixed updates count the same
        memcpy(combine->weights, combine->mixed_shares, count * sizeof *combine->weights);
    if (combine->rule->choose) combine->rule->choose(combine->mixed_shares, &choice);
}

static void share_rows(Combine *combine) {
    const uint32_t all = all_rows(combine), mixed = combine->mixed_count + combine->asides;
    if (!combine->mix->mix) {
        memcpy(combine->shares, combine->mixed_shares, mixed * sizeof *combine->shares);
        return;
    }
    memset(combine->shares, 0, all * sizeof *combine->shares);
    for (uint32_t i = 0; i < mixed; i++)
        for (uint32_t k = 0; k < all; k++)
            combine->shares[k] += combine->mixed_shares[i] * combine->parts[(size_t)i * all + k];
}

// Sums ----------------------------------------------------------------------------------------------------------------

// Adds the exact mean by shares: each node adds the rows of its own clients, the first node also what is aside. A block
// of the total stays in the cache while all rows pass.
static void add_by_share(Combine *combine) {
    const RunMemory *memory = combine->memory;
    const size_t parameters = memory->config->parameters;
    for (size_t first = 0; first < parameters; first += ROW_BLOCK) {
        const size_t count = parameters - first < ROW_BLOCK ? parameters - first : ROW_BLOCK;
        for (uint32_t row = 0; row < combine->count; row++)
            if (combine->shares[row] != 0 && combine->jobs[row]->node == combine->nodes->rank)
                aggregate_add(combine->total + first, run_memory_row(memory, combine->jobs[row]->place) + first,
                              memory->weights + first, combine->shares[row], count);
        if (combine->center && combine->shares[combine->count] != 0 && combine->nodes->rank == 0)
            aggregate_add(combine->total + first, combine->center + first, NULL, combine->shares[combine->count],
                          count);
    }
}

// Runs a column rule (a median, say) on mixed updates, which are made block by block: stored whole, they would take as
// much memory as all rows.
static void add_mixed_columns(const Combine *combine, const Rows *rows, size_t first, size_t count) {
    const Chosen *chosen = &recipe_of(combine)->combine;
    const size_t all = all_rows(combine);
    for (size_t done = 0; done < count; done += ROW_BLOCK) {
        const size_t block = count - done < ROW_BLOCK ? count - done : ROW_BLOCK;
        Rows picked = {.values = combine->picked, .from = (const float *const[]){NULL}};
        for (uint32_t row = 0; row < combine->mixed_count; row++) {
            if (combine->mixed_shares[row] == 0) continue;
            float *mixed = combine->mixed + picked.count * ROW_BLOCK;
            rows_mix(mixed, rows, combine->parts + row * all, done, block);
            combine->picked[picked.count++] = mixed;
        }
        rows_columns(combine->total + first + done, &picked, combine->rule->column, chosen->number, combine->columns,
                     block);
    }
}

static void add_columns(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Combine *combine = context;
    Rows picked = {.values = combine->picked, .from = rows->from};
    (void)section;
    if (combine->mix->mix) {
        add_mixed_columns(combine, rows, first, count);
        return;
    }
    for (uint32_t row = 0; row < combine->count; row++)
        if (combine->mixed_shares[row] > 0) combine->picked[picked.count++] = rows->values[row];
    rows_columns(combine->total + first, &picked, combine->rule->column, recipe_of(combine)->combine.number,
                 combine->columns, count);
}

// The jobs' shares become what the combined update has of each client: the report and the clients' figures show what
// the rule has decided.
static void note_choice(Combine *combine) {
    for (uint32_t row = 0; row < combine->count && combine->rule->choose; row++) {
        combine->jobs[row]->share = combine->shares[row];
        if (combine->rule->picks && combine->shares[row] > 0)
            combine->chosen[combine->chosen_count++] = combine->jobs[row]->client;
    }
}

// Every step is computed on all nodes from equal numbers, so that they agree without asking; only the rows are
// distributed. The jobs of all nodes are merged by now, and no worker writes a row.
Status combine_rows(Combine *combine, bool *enough, uint32_t round, Error *err) {
    const double *number = recipe_of(combine)->combine.number;
    const CombineRule *rule = combine->rule;
    const size_t parameters = combine->memory->config->parameters;
    list_jobs(combine);
    if (rule->by_training) // an exponential of the first node's, for all
        TRY(nodes_broadcast(combine->nodes, combine->weights, combine->count * sizeof *combine->weights, err));
    combine->chosen_count = 0;
    combine->mixed_count =
        combine->mix->mix ? combine->mix->mixed(combine->count, recipe_of(combine)->mix.number) : combine->count;
    *enough = combine->mixed_count >= (rule->least ? rule->least(number) : 1);
    if (!*enough || rule->external) return STATUS_OK;
    const Job *const *jobs = (const Job *const *)combine->jobs;
    if (combine->wants_products)
        TRY(row_walk_products(&combine->walk, combine->products, jobs, combine->count, combine->center, err));
    if (combine->mix->mix) mix_rows(combine, round);
    choose(combine);
    share_rows(combine);
    memset(combine->total, 0, parameters * sizeof *combine->total);
    if (rule->column && combine->mixed_count > 1) // a single one is what any rule takes
        TRY(row_walk(&combine->walk, jobs, combine->count, combine->center, add_columns, combine, err));
    else
        add_by_share(combine);
    note_choice(combine);
    TRY(nodes_sum(combine->nodes, combine->total, parameters, err));
    return combine_adapters(combine, err);
}

void combine_conclude(Combine *combine) {
    for (size_t i = 0; combine->center && combine->rule->remembers && i < combine->memory->config->parameters; i++)
        combine->center[i] = (float)((double)combine->total[i] / AGGREGATE_UNIT);
}
