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
// 0.1) each client's samples are shuffled and the last ones are held out: partition_client returns the samples to train
// on, int(0.9 n) but at least one, and partition_client_test the held-out ones, on which the client's model is tested.
// If the partition assigns users to clients (natural-id, grouped-natural-id, leaf) and the test set names the owners of
// its samples, a client is tested on the test samples of its users instead, unless --client-test is given.
//
// With spec.validation (--validation 0.1) that share of each class belongs to no client: models of a run are tested on
// these samples, and the partition is one of the others.
//
// A partitioner is a file with its functions and its row (partitioner.h).
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

// "dirichlet" is Flower's balanced partitioner: the samples of each class in turn are split among the clients by
// proportions from Dirichlet(alpha); a client that already has more than samples / clients gets no more
// (self-balancing), and each client's samples are shuffled at the end. All is redrawn, up to 10 times, until every
// client has the minimum of min(10, samples / clients / 2), but at least 1, samples.
//
// Flower fails after the last draw, as do the forms plain and balanced. With many clients and a small alpha, however,
// no draw ever meets any minimum: with 1,000 clients, 60,000 samples and alpha 0.1, each draw leaves 4 to 14 clients
// without samples and over 100 below 10. So if no other form is requested, the tenth draw is kept, and each client
// below the minimum takes the missing samples from the largest client, of that client's largest class. All other
// samples stay as drawn.
typedef struct PartitionSpec {
    Form form;  // set by partition_parse
    bool whole; // every client has all samples (Hogwild on the full data); the form is ignored
    uint32_t clients;
    uint64_t seed;
    double client_test;       // share of a client's samples that are held out for tests, below 1; not with `whole`
    double validation;        // share of the training samples that is the validation set and belongs to no client
    uint32_t validation_last; // count of the last training samples that are the validation set, without a share
    const uint32_t *owners;   // (samples) for natural-id etc., each below users; NULL: no owners. Borrowed
    uint32_t users;
    const uint32_t
        *test_owners;           // (test_samples) of the test set's samples; not below `users`: no owner. NULL: the test
    uint32_t test_samples;      // set has no owners. Borrowed
    const struct Dataset *data; // for continuous, which reads the samples themselves; NULL: not available. Borrowed
    const uint32_t *numbers; // (samples) numbers of the samples in `data`; NULL: 0, 1, 2, ... partition_build sets it
} PartitionSpec;

typedef struct Partition {
    uint32_t clients;
    const uint32_t *indices;     // (samples)
    const uint32_t *offsets;     // (clients + 1); NULL if `whole`
    const uint32_t *tests;       // (clients) number of a client's last samples that are held out; NULL: none are
    uint32_t samples;            // length of indices: the samples that belong to a client
    const uint32_t *own_offsets; // (clients + 1) of own_tests; NULL: clients are not tested on the test set
    const uint32_t *own_tests;   // (own_offsets[clients]) samples of the test set, client by client
    const uint32_t *validation;  // (validation_count) training samples of the validation set; NULL: there is none
    uint32_t validation_count;
} Partition;

// Samples that a client's model is tested on.
typedef enum TestedOn { TESTS_ON_TRAINING, TESTS_ON_HELD_OUT, TESTS_ON_OWN } TestedOn;

static inline TestedOn partition_tests_on(const Partition *partition) {
    if (partition->own_offsets) return TESTS_ON_OWN;
    return partition->tests ? TESTS_ON_HELD_OUT : TESTS_ON_TRAINING;
}

// Computes the number of clients of a form that assigns whole users to clients: from spec->users, and for leaf from the
// numbers of samples that users own, without the validation set: labels, samples and classes are as in partition_build,
// and only used for leaf. *clients is 0 for other forms and if the users cannot be grouped so. Fails with OS, and with
// USAGE if no sample remains.
Status partition_count_clients(uint32_t *clients, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples,
                               int classes, Error *err);

// Whether each client of the form is one user of the data set.
bool partition_is_of_users(const Form *form);

// Upper bound of the bytes that partition_build needs.
size_t partition_block_bytes(const PartitionSpec *spec, uint32_t samples);

// Fills the caller's block (partition_block_bytes, 8-byte aligned). labels (samples), each below classes; NULL if the
// data have targets, which only some partitioners accept. Every sample belongs to at most one client, except with
// `whole`; the table says which partitioners leave samples out. Fails with USAGE and the numbers if the partition is
// impossible (more clients than samples, for example).
Status partition_build(void *block, const PartitionSpec *spec, const uint16_t *labels, uint32_t samples, int classes,
                       Error *err);

// Checks the block against `bytes` and sets pointers into it.
Status partition_view(Partition *partition, const void *block, size_t bytes, Error *err);

// The samples on which one client's model is tested: returns a pointer to *count indices, into the test set if clients
// have test samples of their own, otherwise into the training set. *count is 0 if clients are tested on their training
// samples.
const uint32_t *partition_client_test(const Partition *partition, uint32_t client, uint32_t *count);

// Returns the number of clients without such samples.
uint32_t partition_untested(const Partition *partition);

// The samples on which one client trains: returns a pointer to *count indices.
const uint32_t *partition_client(const Partition *partition, uint32_t client, uint32_t *count);

// A partition as a text file, for --partition file:FILE and for other programs:
//
//   sounder partition 1                       the format's version
//   samples 60000 clients 10                  size of the data set, number of the following lines
//   3 17 25 ...                               one line per client: its samples, counted from 0, in this order
//
// A client may have no samples; a sample belongs to at most one client.

// samples: size of the data set. Fails with CANTCREATE or IO; removes a file that is not complete.
Status partition_file_write(const char *path, const Partition *partition, uint32_t samples, Error *err);

// Reads the number of clients from the file's head. Fails with NOINPUT or DATA.
Status partition_file_clients(uint32_t *clients, const char *path, Error *err);

// Fills offsets (clients + 1) and indices (at most samples). Fails with NOINPUT; with DATA and the line for any other
// file; with USAGE for another number of samples or clients.
Status partition_file_read(uint32_t *offsets, uint32_t *indices, const char *path, uint32_t samples, uint32_t clients,
                           Error *err);

#endif
