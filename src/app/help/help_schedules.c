// Part of help.h: `sounder help dial`: from synchronous SGD to Hogwild on one job, which
// tools/bench/dial runs.
#include <stdio.h>

#include "app/help/help.h"
#include "app/options/option_table.h"

static const struct {
    const char *options, *text;
} steps[] = {
    {"--algorithm ssgd --rounds 3", "all meet at every step: the gradients of all clients are averaged. Staleness 0."},
    {"--algorithm \"local-sgd steps=8\" --rounds 176 --eval-every 44",
     "they meet at every 8th step, and average weights instead of gradients. Staleness 0. `post-local-sgd` begins as "
     "ssgd."},
    {"--algorithm fedavg --rounds 3", "they meet when all have trained their samples once. Staleness 0."},
    {"--algorithm \"diloco H=44; optimizer sgd\" --rounds 32 --eval-every 8",
     "they meet at every 44th step, and the server's momentum steps along the mean of what they changed. With AdamW "
     "for SGD, and a rate for it, this is DiLoCo. Staleness 0."},
    {"--algorithm \"streaming-diloco H=44 fragments=4; optimizer sgd\" --rounds 128 --eval-every 32",
     "at every 11th step a quarter of the model travels while they train; two steps later each mixes the server's "
     "values with its own. Staleness 0: no update is older than its fragment."},
    {"--algorithm \"semi-sync lag=1\" --rounds 6 --client-time lognormal",
     "a step takes the first half of the clients (1 / (1 + lag) of them), the others join the next one. In the long "
     "run an update is `lag` versions old on average."},
    {"--algorithm \"fedbuff K=2\" --rounds 6 --client-time lognormal",
     "a client that is ready begins again at once; every K updates make a version. Staleness (M - 1) / K in the long "
     "run: 1.5."},
    {"--algorithm fedasync --rounds 12 --client-time lognormal",
     "every update is a version. Staleness M - 1: 3. `asgd` adds updates unchanged, `staleness-aware` and \"stale "
     "poly\" weigh them by their age."},
    {"--algorithm \"hogwild steps=8 data=shard\" --rounds 3",
     "no versions any more: after every 8 steps a worker adds its update to the one memory that all read and write. "
     "Staleness is measured, in updates."},
    {"--algorithm \"hogwild bound=2 data=shard\" --rounds 3",
     "every step is added to the one memory at once; no worker gets more than 2 updates ahead of the slowest."},
    {"--algorithm \"hogwild data=shard\" --rounds 3",
     "no worker waits for another. update=atomic loses no update of a weight."},
};

void dial_print(FILE *file) {
    print_paragraph(
        file, 0,
        "The dial from synchronous to wild (asynchronous, lock-free): how long clients wait for each other, on one job "
        "of four clients. All commands train equally many samples, except for unfinished work at the end. Staleness is "
        "the number of updates, or versions, between reading the weights and adding the update computed from them. Its "
        "mean is in the line of a round; metrics.jsonl (staleness, staleness_mean), the report and TensorBoard have "
        "its histogram. Set the job in the shell first:");
    fputs("\n  JOB=\"--clients 4 --partition iid --batch-size 32 --lr 0.05\"\n", file);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        fprintf(file, "\n  sounder train %s $JOB\n", steps[i].options);
        print_paragraph(file, 6, steps[i].text);
    }
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "Up to fedasync the bits are fixed, because updates are late by a simulated clock. Hogwild's bits depend on "
        "the order in which workers finish. Springs instead of averages: `easgd`, `eamsgd`; DiLoCo without rounds: "
        "`async-diloco`; clients that fail: --failures. Asynchronous workers act "
        "like additional momentum of 1 - 1/workers (Mitliagkas et al. 2016): lower --momentum as you turn the dial.");
}
