#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Steps of a turn that is checked. State that is kept shows in the second step at the latest; whole clients may take
// minutes.
enum { MOST_BATCHES = 8 };

typedef struct Checker {
    const RunMemory *memory;
    Trainer trainer;
    uint32_t client;                // A
    float *first, *later;           // owned, one allocation: A's first result, that of a later turn
    char kept[TRAINER_KEPT_BYTES];  // what the trainer says that it has used again; "": it says nothing
    char figure[METRIC_NAME_BYTES]; // of a test that has another value after another test; "": none
} Checker;

// Trains a client from the run's first weights to *weights (parameters). added: is added to every gradient. Each turn
// with this client has one round and one key, and therefore one seed: a trainer that heeds it has no reason to train to
// other bits.
static Status train(float *weights, Checker *checker, uint32_t client, float added, Error *err) {
    Trainer *trainer = &checker->trainer;
    const size_t parameters = checker->memory->config->parameters;
    TrainerTurn turn = trainer_trial(trainer, checker->memory->weights, client, MOST_BATCHES);
    TrainerAnswer answer;
    turn.checks = true;
    for (size_t i = 0; trainer->desk.shift && i < parameters; i++)
        trainer->desk.shift[i] = added;
    TRY(trainer_ask(&answer, trainer, &turn, err));
    if (answer.kept[0]) memcpy(checker->kept, answer.kept, sizeof checker->kept);
    memcpy(weights, trainer->desk.weights, parameters * sizeof *weights);
    return STATUS_OK;
}

// A few samples are enough: what matters is that the program has been through its test.
static Status test(TrainerAnswer *answer, Checker *checker, uint32_t first, Error *err) {
    Trainer *trainer = &checker->trainer;
    const TrainerTurn turn = {.tests = "test", .of_test_set = true, .round = 1, .key = 1, .client = UINT32_MAX};
    const uint32_t count = checker->memory->data.test.count, rest = count - first;
    memcpy(trainer->desk.weights, checker->memory->weights,
           checker->memory->config->parameters * sizeof *trainer->desk.weights);
    trainer_add_test(trainer, NULL, first, rest < MOST_BATCHES ? rest : MOST_BATCHES);
    return trainer_ask(answer, trainer, &turn, err);
}

static bool is_same(double one, double other) {
    return one == other || (isnan(one) && isnan(other));
}

// The first figure in which two tests differ, or NULL.
static const char *find_figure(const TrainerAnswer *one, const TrainerAnswer *other) {
    if (!is_same(one->loss_sum, other->loss_sum)) return "loss";
    if (one->hits != other->hits) return "hits";
    for (uint32_t m = 0; m < one->metrics.count; m++) {
        const MetricSum *metric = &one->metrics.all[m];
        if (!is_same(metric_value(metric), metric_sums_value(&other->metrics, metric->name))) return metric->name;
    }
    return NULL;
}

// A test, another one, and the first one again: a metric that is never reset has another value of more samples.
static Status repeat_test(Checker *checker, Error *err) {
    TrainerAnswer first, other, again;
    const uint32_t count = checker->memory->data.test.count;
    TRY(test(&first, checker, 0, err));
    TRY(test(&other, checker, count > MOST_BATCHES ? MOST_BATCHES : 0, err));
    TRY(test(&again, checker, 0, err));
    const char *figure = find_figure(&first, &again);
    snprintf(checker->figure, sizeof checker->figure, "%s", figure ? figure : "");
    return STATUS_OK;
}

// Trains A again. *tensor: the first one with other weights than at first; NULL if there is none.
static Status repeat(const char **tensor, Checker *checker, float added, Error *err) {
    const TensorList *list = &checker->memory->tensors;
    *tensor = NULL;
    TRY(train(checker->later, checker, checker->client, added, err));
    for (int t = 0; t < list->count && !*tensor; t++) {
        const ParameterTensor *one = &list->tensors[t];
        if (memcmp(checker->first + one->first, checker->later + one->first, one->count * sizeof(float)) != 0)
            *tensor = one->name;
    }
    return STATUS_OK;
}

// The first tensor that differs in each kind of turn; NULL: none.
typedef struct Findings {
    const char *again, *tested, *fresh;
    bool ignores; // what is to be added to the gradients
} Findings;

// A, B, A: what another client leaves in the process, as an optimizer that is built once. Tests, A: what a test
// changes, as statistics of a net that tests in training mode. A with 1 added to each gradient: a trainer that ignores
// it makes FedProx or SCAFFOLD plain FedAvg without a word.
static Status find_in_one_process(Findings *found, Checker *checker, Error *err) {
    const char *moved;
    TRY(train(checker->first, checker, checker->client, 0, err));
    TRY(train(checker->later, checker, trainer_client_from(checker->memory, checker->client + 1), 0, err));
    TRY(repeat(&found->again, checker, 0, err));
    TRY(repeat_test(checker, err));
    TRY(repeat(&found->tested, checker, 0, err));
    if (!checker->trainer.desk.shift) return STATUS_OK;
    TRY(repeat(&moved, checker, 1, err));
    found->ignores = moved == NULL;
    return STATUS_OK;
}

static void conclude(TrainerCheck *check, const Findings *found, const Checker *checker) {
    // The fresh process first: if even that differs, random numbers or kernels are the cause, and the other two
    // differences follow from it.
    const char *tensor = found->fresh ? found->fresh : found->again ? found->again : found->tested;
    const char *when = found->fresh ? "in a fresh process" : found->again ? "the second time" : "after a test";
    char cause[TRAINER_KEPT_BYTES + 160];
    check->repeats = !tensor && !found->ignores && !checker->figure[0];
    if (checker->kept[0])
        snprintf(cause, sizeof cause,
                 "it uses %s of before the turn; make an optimizer in every turn, and draw from turn.generator or "
                 "turn.random",
                 checker->kept);
    else
        snprintf(cause, sizeof cause, "%s",
                 found->fresh   ? "its random numbers do not come from the turn's seed, or its kernels are not "
                                  "deterministic"
                 : found->again ? "an optimizer, a generator or a tensor that does not travel is kept from turn to turn"
                                : "a test changes what a training uses");
    if (tensor)
        snprintf(check->finding, sizeof check->finding, "client %u trains to another %s %s: %s", checker->client,
                 tensor, when, cause);
    else if (found->ignores)
        snprintf(check->finding, sizeof check->finding,
                 "client %u trains to the same weights whatever the algorithm adds to its gradients: call "
                 "turn.correct() before each step",
                 checker->client);
    else if (checker->figure[0])
        snprintf(check->finding, sizeof check->finding,
                 "the same weights have another %s when they are tested after another test: begin each test with "
                 "nothing, as by a metric's reset()",
                 checker->figure);
}

// Uses trainers of the check's own, which end with it, and leaves the run's weights as they are: the run begins as if
// it had not been checked.
Status trainer_check(TrainerCheck *check, const RunMemory *memory, Error *err) {
    const size_t parameters = memory->config->parameters;
    Checker checker = {.memory = memory, .client = trainer_client_from(memory, 0)};
    Findings found = {0};
    *check = (TrainerCheck){0};
    checker.first = malloc(2 * parameters * sizeof *checker.first);
    if (!checker.first) return fail(err, STATUS_OS, "no memory for two vectors of %zu parameters", parameters);
    checker.later = checker.first + parameters;
    Status status = trainer_open(&checker.trainer, memory, 0, err);
    if (status == STATUS_OK) {
        status = find_in_one_process(&found, &checker, err);
        trainer_close(&checker.trainer);
    }
    // A process of its own: bits must not depend on which clients a trainer has had before, since kills and the number
    // of workers decide that.
    if (status == STATUS_OK) status = trainer_open(&checker.trainer, memory, 0, err);
    if (status == STATUS_OK) {
        status = repeat(&found.fresh, &checker, 0, err);
        trainer_close(&checker.trainer);
    }
    if (status == STATUS_OK) conclude(check, &found, &checker);
    free(checker.first);
    return status;
}
