// Part of partition.h: the table of partitioners.
#include "datasets/partition/partitioner.h"

#define PARTITIONER(name) &name##_partitioner,
const Partitioner *const partitioners[] = {PARTITIONERS(PARTITIONER)};

#define PARTITIONER_TEXT(name) &name##_partitioner.text,
static const FormRow *const texts[] = {PARTITIONERS(PARTITIONER_TEXT)};

const FormTable partition_table = {
    .list = texts, .count = sizeof texts / sizeof *texts, .what = "partition", .topic = "partitions"};

Status partition_parse(Form *form, const char *text, Error *err) {
    return form_parse(form, text, &partition_table, err);
}
