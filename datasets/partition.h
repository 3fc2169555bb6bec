// A partition says which samples belong to which client. Names and semantics follow Flower Datasets' partitioners.
//
//   PartitionSpec spec = {.clients = 100, .seed = 1};
//   TRY(partition_parse(&spec.form, "dirichlet alpha=0.1", err));       // `sounder help partitions` lists the forms
//   void *block = ...partition_block_bytes(&spec, samples) of the caller's...
//   TRY(partition_build(block, &spec, labels, samples, classes, err));
//   TRY(partition_view(&partition, block, bytes, err));
//   const uint32_t *indices = partition_client(&partition, client, &count);
//
// A partition is one relocatable block: header, offsets (clients + 1), sample indices; a client's samples are
// indices[offsets[c]] to indices[offsets[c + 1] - 1]. The view borrows the block. With spec.client_test (--client-test
// 0.1) they are shuffled, and the last of them are held out: partition_client gives those to train on, int(0.9 n) but
// at least one, and partition_client_test the others, for tests of a model on the client's own samples.
// If the partition deals users (natural-id, grouped-natural-id, leaf) and the test set names the owners of its samples,
// a client is tested on the test samples of its users instead; --client-test overrules that.
//
// A partitioner is a row of partition_table.c and a function (partitioner.h).
#ifndef SOUNDER_DATASETS_PARTITION_H
#define SOUNDER_DATASETS_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"

// The forms of --partition.
extern const FormTable partition_table;

// form_parse with that table.
Status partition_parse(Form *form, const char *text, Error *err);

// "dirichlet" is Flower's balanced one: class after class, the samples of a class are split among the clients by
// proportions from Dirichlet(alpha); a client that has more than samples / clients already gets no more
// (self-balancing), and a client's samples are shuffled in the end. The whole is redrawn, up to 10 times, until every
// client has the minimum of min(10, samples / clients / 2), but at least 1, samples.
// Flower gives up after the last draw, and so do the forms plain and balanced. With many clients and a small alpha,
// however, no draw ever meets any minimum: of 1,000 clients on 60,000 samples at alpha 0.1, each draw leaves 4 to 14
// with nothing and over 100 below 10. So where no other form is asked for, the tenth draw is kept, and each client that
// is short takes what it lacks from the largest client, of the class that has most samples there. Everything else is as
// it was drawn.
typedef struct PartitionSpec {
    Form form;  // by partition_parse
    bool whole; // every client has all samples (Hogwild on the full data); the form is not looked at
    uint32_t clients;
    uint64_t seed;
    double client_test;     // share of a client's samples that are held out to test on, below 1; not with `whole`
    const uint32_t *owners; // (samples) for natural-id, each below users; NULL: they have no owners. Borrowed
    uint32_t users;
    const uint32_t
        *test_owners;           // (test_samples) of the test set's samples; a number that is no user's: no owner. NULL:
    uint32_t test_samples;      // the test set has no owners. Borrowed
    const struct Dataset *data; // for continuous, which looks at the samples themselves; borrowed, NULL: not at hand
} PartitionSpec;

typedef struct Partition {
    uint32_t clients;
    const uint32_t *indices;     // (samples)
    const uint32_t *offsets;     // (clients + 1); whole: NULL
    const uint32_t *tests;       // (clients) how many of a client's samples, its last, are held out; NULL: none
    uint32_t samples;            // length of indices: the samples that have a client
    const uint32_t *own_offsets; // (clients + 1) of own_tests; NULL: clients are not tested on samples of the test set
    const uint32_t *own_tests;   // (own_offsets[clients]) samples of the test set, client by client
} Partition;

// The samples that a client's model is tested on.
typedef enum TestedOn { TESTS_ON_TRAINING, TESTS_ON_HELD_OUT, TESTS_ON_OWN } TestedOn;

static inline TestedOn partition_tests_on(const Partition *partition) {
    if (partition->own_offsets) return TESTS_ON_OWN;
    return partition->tests ? TESTS_ON_HELD_OUT : TESTS_ON_TRAINING;
}

// How many clients a form that deals users makes of them: of spec->users, and for leaf, which looks at owners
// (samples), of their sizes. *clients 0: the form deals no users, or they make no such groups. OS.
Status partition_count_clients(uint32_t *clients, const PartitionSpec *spec, uint32_t samples, Error *err);

// Bytes that partition_build needs at most.
size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples);

// Fills block (partition_block_bytes, 8-byte aligned, of the caller's). labels (samples), each below classes;
// NULL where the data have targets instead, which some partitioners can deal. Every
// sample goes to at most one client, except for whole; which partitioners lose samples stands in the table. USAGE when
// the partition is impossible (more clients than samples, for example), with the numbers.
Status partition_build(void *block, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes,
                       Error *err);

// Checks the block against `bytes` and gives pointers into it.
Status partition_view(Partition *partition, const void *block, size_t bytes, Error *err);

// The samples that one client is tested on: returns a pointer to *count indices, into the test set where clients have
// test samples of their own, else into the training set. None where clients are tested on what they train on.
const uint32_t *partition_client_test(const Partition *partition, uint32_t client, uint32_t *count);

// Returns how many clients have no such sample.
uint32_t partition_untested(const Partition *partition);

// The samples that one client trains on: returns a pointer to *count indices.
const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count);

// A partition as a text file, for --partition file:FILE and for other programs:
//
//   sounder partition 1                       the format's version
//   samples 60000 clients 10                  of the data set, and lines to come
//   3 17 25 ...                               a client a line: its samples, counted from 0, in this order
//
// A client may have none; a sample belongs to at most one client.

// samples: of the data set. CANTCREATE, IO; nothing half written is left behind.
Status partition_file_write(const char *path, const Partition *partition, uint32_t samples, Error *err);

// Reads the number of clients from the file's head. NOINPUT, DATA.
Status partition_file_clients(uint32_t *clients, const char *path, Error *err);

// Fills offsets (clients + 1) and indices (at most samples). NOINPUT; DATA with the line for anything but such a file;
// USAGE when it is of another number of samples or clients.
Status partition_file_read(uint32_t *offsets, uint32_t *indices, const char *path, uint32_t samples, uint32_t clients,
                           Error *err);

#endif
