// Part of partition.h: the partitioners: their texts, and the functions of their rows in the same order.
#include "datasets/partition/partitioner.h"

#include <assert.h>

#include "base/keyed_text.h"

#define FLOWER     "Flower Datasets"
#define MOST       1e9
#define NIID_BENCH "NIID-Bench (Li, Diao, Chen, He, ICDE 2022)"

#define ALPHA(preset_)                                                                                                 \
    {                                                                                                                  \
        .name = "alpha", .type = FORM_REALS, .minimum = 1e-9, .maximum = 1e9, .preset = preset_,                       \
        .help = "concentration: the smaller, the fewer classes a client has; one, or one for each client"              \
    }
#define COUNT(name_, preset_, help_)                                                                                   \
    { .name = name_, .type = FORM_WHOLE, .minimum = 1, .maximum = MOST, .preset = preset_, .help = help_ }
#define CLASSES_EACH(preset_)                                                                                          \
    { .name = "classes", .type = FORM_WHOLE, .minimum = 1, .maximum = 256, .preset = preset_, .help = "of a client" }

// Rows are easier to read on few lines.
// clang-format off
static const FormRow rows[] = {
    {.name = "contiguous", .source = "own", .help = "equal runs of the file's order; the last client takes the remainder"},
    {.name = "iid", .source = FLOWER ": IidPartitioner", .help = "a random permutation, cut into equal runs; sizes differ by at most one"},
    {.name = "dirichlet", .source = FLOWER ": DirichletPartitioner",
     .help = "class after class, dealt by proportions from Dirichlet(alpha)",
     .keys = {ALPHA("0.5"),
              {.name = "form", .type = FORM_CHOICE, .preset = "topped", .choices = "topped plain balanced niid-bench",
               .help = "plain: drawn up to 11 times until all have the minimum, else an error (Flower's default); balanced: "
                       "and who has more than the average gets no more (self_balancing=True); topped: as balanced, but the "
                       "tenth draw is kept, and those who lack samples get them from the largest; niid-bench: who has the "
                       "average gets no more, drawn again until it fits"},
              {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "10", .help = "samples that every client has; 0: some may have none"}}},
    {.name = "shards", .source = "McMahan et al. 2017", .help = "sorted by label, cut into shards that differ by at most one sample, dealt at random; none is lost",
     .keys = {{.name = "per-client", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "2", .help = "shards of a client"}}},
    {.name = "inner-dirichlet", .source = FLOWER ": InnerDirichletPartitioner (Hsu, Qi, Brown 2019)",
     .help = "each client has its own mixture of classes, from Dirichlet(alpha), and a size of its own",
     .keys = {ALPHA("0.5"),
              {.name = "sizes", .type = FORM_REALS, .minimum = 0, .maximum = MOST, .preset = "",
               .help = "samples of a client: one for all, or one for each; equal ones if it is left out"}}},
    {.name = "pathological", .source = FLOWER ": PathologicalPartitioner",
     .help = "every client has so many classes; a class is cut evenly among those who have it, one that nobody has is lost",
     .keys = {CLASSES_EACH("2"),
              {.name = "mode", .type = FORM_CHOICE, .preset = "random", .choices = "random first-deterministic deterministic",
               .help = "which: at random; the client's number modulo the classes, then at random; or the classes from that on"}}},
    {.name = "shard", .source = FLOWER ": ShardPartitioner",
     .help = "sorted by label, cut into equal shards, dealt at random; what does not fill a shard is lost",
     .keys = {COUNT("per-client", "", "shards of a client"),
              COUNT("size", "", "samples of a shard; one of the two, or both"),
              {.name = "keep-incomplete", .type = FORM_CHOICE, .preset = "no", .choices = "no yes",
               .help = "whether a last, smaller shard is dealt, too (with size alone)"}}},
    {.name = "linear", .source = FLOWER ": LinearPartitioner", .help = "sizes grow as 1, 2, 3, ...; runs of the file's order"},
    {.name = "square", .source = FLOWER ": SquarePartitioner", .help = "sizes grow as 1, 4, 9, ...; runs of the file's order"},
    {.name = "exponential", .source = FLOWER ": ExponentialPartitioner", .help = "sizes grow as e, e^2, e^3, ...; runs of the file's order"},
    {.name = "size", .source = FLOWER ": SizePartitioner", .help = "runs of the file's order with these sizes; what is left over is lost",
     .keys = {{.name = "sizes", .type = FORM_REALS, .minimum = 0, .maximum = MOST, .help = "samples of a client: one for all, or one for each"}}},
    {.name = "distribution", .source = FLOWER ": DistributionPartitioner, with FedProx's power law",
     .help = "so many classes a client, neighbours in a ring; how much of each, by a lognormal distribution",
     .keys = {CLASSES_EACH("2"),
              {.name = "mean", .type = FORM_REAL, .minimum = -100, .maximum = 100, .preset = "0", .help = "of the logarithm"},
              {.name = "sigma", .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = "2", .help = "its standard deviation"},
              {.name = "preassigned", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "5", .help = "samples of each of a client's classes, before the rest is dealt"}}},
    {.name = "noniid-labeldir", .source = "NIID-Bench (Li, Diao, Chen, He, ICDE 2022)",
     .help = "dirichlet in the form niid-bench",
     .keys = {ALPHA("0.5"), COUNT("minimum", "10", "samples that every client has")}},
    {.name = "noniid-label", .source = "NIID-Bench: noniid-#label",
     .help = "pathological with mode=first-deterministic, each class shuffled before it is cut",
     .keys = {CLASSES_EACH("2")}},
    {.name = "natural-id", .source = FLOWER ": NaturalIdPartitioner", .help = "every client has the samples of one user, where the data set has users"},
    {.name = "file", .source = "own", .help = "as the file says that `sounder partition --save FILE` has written",
     .keys = {{.name = "FILE", .type = FORM_TEXT, .help = "a line for each client, with its samples"}}},
    {.name = "grouped-natural-id", .source = FLOWER ": GroupedNaturalIdPartitioner", .help = "every client has the samples of several users, in the order in which users appear",
     .keys = {{.name = "size", .type = FORM_WHOLE, .minimum = 1, .maximum = MOST, .help = "users of a client"},
              {.name = "mode", .type = FORM_CHOICE, .preset = "allow-smaller", .choices = "allow-smaller allow-bigger drop-reminder strict",
               .help = "where users do not divide evenly: a smaller last group, some larger groups, users are lost, or an error"}}},
    {.name = "continuous", .source = FLOWER ": ContinuousPartitioner",
     .help = "sorted by strictness times brightness (mean pixel, standardised) plus (1 - strictness) times a normal number, cut evenly",
     .keys = {{.name = "strictness", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.5", .help = "0 is random, 1 sorted"}}},
    {.name = "iid-diff-quantity", .source = NIID_BENCH, .help = "random samples, sizes from Dirichlet(beta)",
     .keys = {{.name = "beta", .type = FORM_REAL, .minimum = 1e-6, .maximum = 1e9, .preset = "0.5", .help = "the smaller, the more the sizes differ"},
              {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "10", .help = "samples that every client has"}}},
    {.name = "homo", .source = NIID_BENCH, .help = "iid by the name it has there"},
    {.name = "similarity", .source = "SCAFFOLD (Karimireddy et al., ICML 2020)", .help = "so many per cent of the samples dealt at random, the others sorted by label and cut into runs",
     .keys = {{.name = "percent", .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = "10", .help = "0: clients of one or two classes, 100: iid"},
              {.name = "iid-clients", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "0", .help = "the last so many clients, such as attackers, get only samples drawn at random (Karimireddy, He, Jaggi, ICLR 2022)"}}},
    {.name = "leaf", .source = "LEAF (Caldas et al. 2018): -s niid", .help = "users in random order until a fraction of all samples is reached, the last one cut; a client is a user, the others are lost",
     .keys = {{.name = "fraction", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.1", .help = "of the samples"},
              {.name = "minimum", .type = FORM_WHOLE, .minimum = 0, .maximum = MOST, .preset = "0", .help = "samples of a user who is taken"}}},
    {.name = "leaf-iid", .source = "LEAF (Caldas et al. 2018): -s iid", .help = "a fraction of all samples, drawn at random whoever owns them, dealt evenly; the others are lost",
     .keys = {{.name = "fraction", .type = FORM_REAL, .minimum = 0, .maximum = 1, .preset = "0.1", .help = "of the samples"}}},
};
// clang-format on

const Partitioner partitioners[] = {
    {.build = build_contiguous},
    {.build = build_iid},
    {.by_class = true, .build = build_dirichlet},
    {.by_class = true, .build = build_shards},
    {.by_class = true, .assign = partition_inner_dirichlet},
    {.by_class = true, .assign = partition_pathological},
    {.by_class = true, .assign = partition_shard},
    {.assign = partition_linear},
    {.assign = partition_square},
    {.assign = partition_exponential},
    {.assign = partition_size},
    {.by_class = true, .assign = partition_distribution},
    {.by_class = true, .build = build_noniid_labeldir},
    {.by_class = true, .assign = partition_noniid_label},
    {.by_user = true, .assign = partition_natural_id},
    {.build = build_file},
    {.by_user = true, .assign = partition_grouped_natural_id},
    {.assign = partition_continuous},
    {.assign = partition_quantity},
    {.build = build_iid},
    {.by_class = true, .assign = partition_similarity},
    {.by_user = true, .assign = partition_leaf},
    {.assign = partition_leaf_iid},
};

static_assert(sizeof rows / sizeof *rows == sizeof partitioners / sizeof *partitioners, "a partitioner for each form");

const FormTable partition_table = {
    .rows = rows, .count = sizeof rows / sizeof *rows, .what = "partition", .topic = "partitions"};

Status partition_parse(Form *form, const char *text, Error *err) {
    return form_parse(form, text, &partition_table, err);
}
