// Part of partitioner.h: partitions by a property of the samples, exactly or mixed with chance: their owners, their
// brightness, or the similarity of clients. Flower's NaturalIdPartitioner, GroupedNaturalIdPartitioner and
// ContinuousPartitioner; SCAFFOLD's similarity (Karimireddy et al., ICML 2020).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_text.h"
#include "datasets/partition/partitioner.h"
#include "datasets/partition/validation.h"

static Status check_owners(const PartitionTask *task, const char *name, Error *err) {
    if (task->spec->owners) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s: nobody owns the samples of this data set; take iid or another partition", name);
}

static Status partition_natural_id(PartitionTask *task, Error *err) {
    const PartitionSpec *spec = task->spec;
    TRY(check_owners(task, "natural-id", err));
    if (spec->users != task->clients)
        return fail(err, STATUS_USAGE,
                    "natural-id: the data set has %u users, and there are %u clients; set --clients %u, or "
                    "leave it out, or divide the samples by another --partition",
                    spec->users, task->clients, spec->users);
    for (uint32_t i = 0; i < task->samples; i++)
        task->owner[i] = spec->owners[i];
    return STATUS_OK;
}

// Assigns `count` samples of a random order, after the first `drawn`, evenly to the clients from first to end - 1.
static Status assign_pool(PartitionTask *task, uint32_t drawn, uint32_t count, uint32_t first, uint32_t end,
                          Error *err) {
    uint32_t *order, client = 0;
    TRY(random_order(&order, task->samples, rng_key(task->spec->seed, RNG_PARTITION, STREAM_IID, 1, 0), err));
    for (uint32_t i = 0; i < count; i++) {
        while (i >= part_start(client + 1, end - first, count))
            client++;
        task->owner[order[drawn + i]] = first + client;
    }
    free(order);
    return STATUS_OK;
}

// LEAF ----------------------------------------------------------------------------------------------------------------

// Chooses users in random order, without those that have fewer samples than the minimum, until the fraction of all
// samples is reached. room (users): how many of a user's samples are used, fewer than all for the last user; client
// (users): the user's index among the chosen ones. Fails with OS.
static Status choose_users(uint32_t *taken, uint32_t *client, uint32_t *room, const PartitionSpec *spec,
                           uint32_t samples, Error *err) {
    const uint32_t minimum = (uint32_t)spec->form.number[1], wanted = (uint32_t)(spec->form.number[0] * samples);
    uint32_t *order = NULL, *sizes = calloc(spec->users, sizeof *sizes), given = 0;
    if (!sizes) return fail(err, STATUS_OS, "no memory for %u users", spec->users);
    Status status = random_order(&order, spec->users, rng_key(spec->seed, RNG_PARTITION, STREAM_PICKS, 1, 0), err);
    for (uint32_t i = 0; i < samples; i++)
        sizes[spec->owners[i]]++;
    memset(room, 0, spec->users * sizeof *room);
    *taken = 0;
    for (uint32_t i = 0; i < spec->users && given < wanted && status == STATUS_OK; i++) {
        const uint32_t user = order[i], left = wanted - given;
        if (sizes[user] < minimum || sizes[user] == 0) continue;
        room[user] = sizes[user] < left ? sizes[user] : left;
        given += room[user];
        client[user] = (*taken)++;
    }
    free(order);
    free(sizes);
    return status;
}

static Status count_leaf(uint32_t *clients, const PartitionSpec *spec, uint32_t samples, Error *err) {
    uint32_t *client = calloc(spec->users, 2 * sizeof *client);
    if (!client) return fail(err, STATUS_OS, "no memory for %u users", spec->users);
    const Status status = choose_users(clients, client, client + spec->users, spec, samples, err);
    free(client);
    return status;
}

// A user's samples are used in the file's order, until its room is 0.
static Status partition_leaf(PartitionTask *task, Error *err) {
    const PartitionSpec *spec = task->spec;
    TRY(check_owners(task, "leaf", err));
    uint32_t *client = calloc(spec->users, 2 * sizeof *client), *room = client + spec->users, taken = 0;
    if (!client) return fail(err, STATUS_OS, "no memory for %u users", spec->users);
    Status status = choose_users(&taken, client, room, spec, task->samples, err);
    for (uint32_t i = 0; i < task->samples && status == STATUS_OK; i++) {
        const uint32_t user = spec->owners[i];
        if (room[user] == 0) continue;
        task->owner[i] = client[user];
        room[user]--;
    }
    free(client);
    if (status != STATUS_OK || taken == task->clients) return status;
    if (taken == 0)
        return fail(err, STATUS_USAGE,
                    "leaf: this fraction and minimum take none of %u users; raise the fraction, or lower "
                    "the minimum",
                    spec->users);
    return fail(err, STATUS_USAGE,
                "leaf: this fraction and minimum take %u of %u users, and there are %u clients; set --clients %u, or "
                "leave it out",
                taken, spec->users, task->clients, taken);
}

// A random fraction of all samples, whatever their owners, assigned evenly.
static Status partition_leaf_iid(PartitionTask *task, Error *err) {
    const uint32_t count = (uint32_t)(task->spec->form.number[0] * task->samples);
    return assign_pool(task, 0, count, 0, task->clients, err);
}

// Groups --------------------------------------------------------------------------------------------------------------

enum { ALLOW_SMALLER, ALLOW_BIGGER, DROP_REMINDER, STRICT };

// Number of groups that `users` users form; 0: none.
static uint32_t count_groups(uint32_t users, uint32_t size, int mode) {
    if (mode == STRICT && users % size != 0) return 0;
    return mode == ALLOW_SMALLER ? (users + size - 1) / size : users / size;
}

bool partition_is_of_users(const Form *form) {
    return partitioners[form->row]->of_a_user;
}

Status partition_count_clients(uint32_t *clients, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples,
                               int classes, Error *err) {
    const Partitioner *partitioner = partitioners[spec->form.row];
    *clients = 0;
    if (partitioner->assign == partition_natural_id) *clients = spec->users;
    if (partitioner == &grouped_natural_id_partitioner)
        *clients = count_groups(spec->users, (uint32_t)spec->form.number[0], (int)spec->form.number[1]);
    if (partitioner->assign != partition_leaf || !spec->owners) return STATUS_OK;
    if (!has_validation(spec)) return count_leaf(clients, spec, samples, err);
    Remaining remaining;
    TRY(remaining_init(&remaining, spec, labels, samples, classes, err));
    const Status status = count_leaf(clients, &remaining.spec, remaining.samples, err);
    remaining_free(&remaining);
    return status;
}

// Users are ranked by their first sample, as in Flower; consecutive ranks form a group.
static Status partition_grouped_natural_id(PartitionTask *task, Error *err) {
    const PartitionSpec *spec = task->spec;
    const uint32_t size = (uint32_t)spec->form.number[0];
    const int mode = (int)spec->form.number[1];
    TRY(check_owners(task, "grouped-natural-id", err));
    const uint32_t groups = count_groups(spec->users, size, mode);
    if (groups == 0)
        return fail(err, STATUS_USAGE, "grouped-natural-id: %u users make no groups of %u; give another size or mode",
                    spec->users, size);
    if (groups != task->clients)
        return fail(err, STATUS_USAGE,
                    "grouped-natural-id: %u users make %u groups, and there are %u clients; set --clients %u",
                    spec->users, groups, task->clients, groups);
    uint32_t *rank = malloc(spec->users * sizeof *rank), seen = 0; // a user's index in the order of appearance
    if (!rank) return fail(err, STATUS_OS, "no memory for %u users", spec->users);
    memset(rank, 0xff, spec->users * sizeof *rank);
    for (uint32_t i = 0; i < task->samples; i++) {
        uint32_t *own = &rank[spec->owners[i]];
        if (*own == NOBODY) *own = seen++;
        uint32_t group = *own / size;
        // numpy's array_split: the first groups are larger by one.
        while (mode == ALLOW_BIGGER && group > 0 && *own < part_start(group, groups, spec->users))
            group--;
        if (group < groups) task->owner[i] = group;
    }
    free(rank);
    return STATUS_OK;
}

// Similarity ----------------------------------------------------------------------------------------------------------

// `percent` of the samples, drawn at random, are assigned evenly; the rest is sorted by label and cut into runs. The
// last iid-clients clients get only random samples, as many as the others.
static Status partition_similarity(PartitionTask *task, Error *err) {
    const double *number = task->spec->form.number;
    const uint32_t apart = (uint32_t)number[1], others = task->clients - apart;
    ByClass classes;
    if (apart >= task->clients)
        return fail(err, STATUS_USAGE, "similarity iid-clients=%u: there are only %u clients; lower it", apart,
                    task->clients);
    const uint32_t left = part_start(others, task->clients, task->samples); // number of samples of the other clients
    const uint32_t alike = (uint32_t)(left * number[0] / 100);
    TRY(by_class_init(&classes, task, err));
    Status status = assign_pool(task, 0, alike, 0, others, err);
    if (status == STATUS_OK && apart > 0)
        status = assign_pool(task, alike, task->samples - left, others, task->clients, err);
    uint32_t client = 0, taken = 0;
    for (uint32_t i = 0; i < task->samples && status == STATUS_OK; i++) {
        uint32_t sample = classes.sorted[i];
        if (task->owner[sample] != NOBODY) continue;
        while (taken >= part_start(client + 1, others, left - alike))
            client++;
        task->owner[sample] = client;
        taken++;
    }
    by_class_free(&classes);
    return status;
}

// Continuous ----------------------------------------------------------------------------------------------------------

typedef struct Bright {
    double value;
    uint32_t sample;
} Bright;

static int by_value(const void *a, const void *b) {
    const Bright *x = a, *y = b;
    if (x->value != y->value) return (x->value > y->value) - (x->value < y->value);
    return (x->sample > y->sample) - (x->sample < y->sample);
}

// The mean of a sample's pixels or numbers.
static double brightness(const Dataset *data, uint32_t sample) {
    const size_t size = shape_size(data->shape);
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        if (data->items.pixel_bytes == 1)
            sum += data->train.pixels[sample * size + i];
        else
            sum += (double)dataset_number(data->train.pixels, sample * size + i);
    }
    return sum / (double)size;
}

// Sorts by strictness times the standardised brightness plus (1 - strictness) times a normal number, and cuts evenly.
static Status partition_continuous(PartitionTask *task, Error *err) {
    const double strictness = task->spec->form.number[0];
    const RngKey key = rng_key(task->spec->seed, RNG_PARTITION, STREAM_NOISE, 0, 0);
    double sum = 0, squares = 0;
    if (!task->spec->data || !dataset_has_samples(&task->spec->data->items))
        return fail(err, STATUS_USAGE, "continuous: needs the samples, which are not at hand");
    Bright *all = malloc(task->samples * sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for the brightness of %u samples", task->samples);
    for (uint32_t i = 0; i < task->samples; i++) {
        all[i] = (Bright){brightness(task->spec->data, task->spec->numbers ? task->spec->numbers[i] : i), i};
        sum += all[i].value;
    }
    const double mean = sum / task->samples;
    for (uint32_t i = 0; i < task->samples; i++)
        squares += (all[i].value - mean) * (all[i].value - mean);
    const double deviation = squares > 0 ? sqrt(squares / task->samples) : 1;
    for (uint32_t i = 0; i < task->samples; i++)
        all[i].value = strictness * (all[i].value - mean) / deviation + (1 - strictness) * rng_normal(key, i);
    qsort(all, task->samples, sizeof *all, by_value);
    for (uint32_t client = 0; client < task->clients; client++)
        for (uint32_t i = part_start(client, task->clients, task->samples);
             i < part_start(client + 1, task->clients, task->samples); i++)
            task->owner[all[i].sample] = client;
    free(all);
    return STATUS_OK;
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner natural_id_partitioner = {
    .text = {.name = "natural-id", .source = FLOWER ": NaturalIdPartitioner", .help = "every client has the samples of one user, where the data set has users"},
    .by_user = true, .of_a_user = true, .assign = partition_natural_id};
const Partitioner grouped_natural_id_partitioner = {
    .text = {.name = "grouped-natural-id", .source = FLOWER ": GroupedNaturalIdPartitioner", .help = "every client has the samples of several users, in the order in which users appear",
        .keys = {{.name = "size", .type = FORM_WHOLE, .minimum = 1, .maximum = MOST, .help = "users of a client"},
                 {.name = "mode", .type = FORM_CHOICE, .preset = "allow-smaller", .choices = "allow-smaller allow-bigger drop-reminder strict",
                  .help = "where users do not divide evenly: a smaller last group, some larger groups, users are lost, or an error"}}},
    .by_user = true, .assign = partition_grouped_natural_id};
const Partitioner continuous_partitioner = {
    .text = {.name = "continuous", .source = FLOWER ": ContinuousPartitioner",
        .help = "sorted by strictness times brightness (mean pixel, standardised) plus (1 - strictness) times a normal number, cut evenly",
        .keys = {{.name = "strictness", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.5", .help = "0 is random, 1 sorted"}}},
    .assign = partition_continuous};
const Partitioner similarity_partitioner = {
    .text = {.name = "similarity", .source = "SCAFFOLD (Karimireddy et al., ICML 2020)", .help = "so many per cent of the samples dealt at random, the others sorted by label and cut into runs",
        .keys = {{.name = "percent", .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = "10", .help = "0: clients of one or two classes, 100: iid"},
                 {.name = "iid-clients", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "0", .help = "the last so many clients, such as attackers, get only samples drawn at random (Karimireddy, He, Jaggi, ICLR 2022)"}}},
    .by_class = true, .assign = partition_similarity};
const Partitioner leaf_partitioner = {
    .text = {.name = "leaf", .source = "LEAF (Caldas et al. 2018): -s niid", .help = "users in random order until a fraction of all samples is reached, the last one cut; a client is a user, the others are lost",
        .keys = {{.name = "fraction", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.1", .help = "of the samples"},
                 {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "0", .help = "samples of a user who is taken"}}},
    .by_user = true, .of_a_user = true, .assign = partition_leaf};
const Partitioner leaf_iid_partitioner = {
    .text = {.name = "leaf-iid", .source = "LEAF (Caldas et al. 2018): -s iid", .help = "a fraction of all samples, drawn at random whoever owns them, dealt evenly; the others are lost",
        .keys = {{.name = "fraction", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.1", .help = "of the samples"}}},
    .assign = partition_leaf_iid};
// clang-format on
