// Lesson 27. All of it: a trainer that survives kill -9, with the same bits.
//
// Federated averaging (lesson 25) of eight clients by any number of workers. Memory without a name (2), a queue of
// clients from which workers take (6, 22), a barrier with a slot for each worker (16), and a parent that starts
// workers, learns of their deaths, gives their clients back, and adds up.
//
//   parent   fills the queue │ waits for the slots                      │ adds the clients' models in their order │ ...
//   workers  wait for a round│ take a client, train, store its model ...│ wait
//
//   memory   [ round | reached 0 1 2 3 | clients 0 ... 7 | global | trained 0 ... 7 ]      mapped by all
//   writes     parent  worker each       worker and        parent   the worker that
//                                        parent                     has the client
//
// Why the same bits?
//   1. Chance decides which worker trains a client, how often, and when.
//   2. But a client's model depends on the global model and on its own data alone, and it has a place of its own, where
//      a second result overwrites the first with the same bits.
//   3. The parent adds up in the order of clients, when all are there.
//
// Question: which of these are no longer true if workers add their models to one sum, under a lock? And if a client's
// training depends on the worker that trains it? (The Change.)
// Build: cc -O2 -o lesson 27_tiny.c
// Run: ./lesson
// Prints:
//   1 worker:             w 2.000, b 1.000, bits <number> <number>
//   4 workers:            the same bits
//   4 workers, 40 killed: the same bits
// Change: "train(shared->global, client)" -> "train(shared->global, client + rank)":
//   prints 4 workers:            other bits
// Read: fedavg/parent/rounds.c, fedavg/worker/client.c and fedavg/rules/sum/aggregate.h, in this order. The last one
// sums whole numbers: what does that save, compared with a place for each client's model?
// PyTorch: torch.distributed.run starts all ranks again when one is killed, from the last checkpoint.
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "ranks.h"

enum { CLIENTS = 8, SAMPLES = 50, STEPS = 20, ROUNDS = 200, MOST_WORKERS = 4, FREE = 0, DONE = -1 };

typedef struct Line {
    float w, b;
} Line;

typedef struct Shared {
    _Atomic int round;                 // that has begun; 0: none, -1: the end. Written by the parent
    _Atomic int reached[MOST_WORKERS]; // the round of which each worker has seen the queue empty
    _Atomic int clients[CLIENTS];      // FREE, DONE, or the number of a worker + 1
    Line global, trained[CLIENTS];     // global: written by the parent between rounds
} Shared;

typedef struct Run {
    Shared *shared;
    int workers, kills_left, killed;
    pid_t pids[MOST_WORKERS];
} Run;

// Client k knows y = 2 x + 1 for x between k / 8 and (k + 1) / 8.
static Line train(Line line, int client) {
    for (int step = 0; step < STEPS; step++) {
        Line gradient = {0, 0};
        for (int i = 0; i < SAMPLES; i++) {
            const float x = ((float)client + (float)i / SAMPLES) / CLIENTS, error = line.w * x + line.b - (2 * x + 1);
            gradient.w += error * x / SAMPLES;
            gradient.b += error / SAMPLES;
        }
        line.w -= 0.5f * gradient.w;
        line.b -= 0.5f * gradient.b;
    }
    return line;
}

static int take_client(Shared *shared, int rank) {
    for (int client = 0; client < CLIENTS; client++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&shared->clients[client], &state, rank + 1)) return client;
    }
    return -1;
}

static void work(Shared *shared, int rank) {
    for (int done = atomic_load(&shared->reached[rank]), round;; done = round) {
        while ((round = atomic_load(&shared->round)) == done)
            usleep(10);
        if (round < 0) return;
        for (int client; (client = take_client(shared, rank)) >= 0;) {
            shared->trained[client] = train(shared->global, client);
            atomic_store(&shared->clients[client], DONE);
        }
        atomic_store(&shared->reached[rank], round);
    }
}

static void start(Run *run, int rank) {
    run->pids[rank] = fork_rank();
    if (run->pids[rank] != 0) return;
    work(run->shared, rank);
    _exit(0);
}

// The clients of a dead worker are free again, and another worker has its number.
static void replace_the_dead(Run *run) {
    for (int rank = 0, status; rank < run->workers; rank++) {
        if (waitpid(run->pids[rank], &status, WNOHANG) != run->pids[rank]) continue;
        run->killed++;
        for (int client = 0; client < CLIENTS; client++) {
            int state = rank + 1;
            atomic_compare_exchange_strong(&run->shared->clients[client], &state, FREE);
        }
        start(run, rank);
    }
}

static int is_over(Run *run, int round) {
    int over = 1;
    for (int rank = 0; rank < run->workers; rank++)
        over &= atomic_load(&run->shared->reached[rank]) == round;
    for (int client = 0; client < CLIENTS; client++)
        over &= atomic_load(&run->shared->clients[client]) == DONE;
    return over;
}

static void average(Shared *shared) {
    Line sum = {0, 0};
    for (int client = 0; client < CLIENTS; client++) {
        sum.w += shared->trained[client].w;
        sum.b += shared->trained[client].b;
    }
    shared->global = (Line){sum.w / CLIENTS, sum.b / CLIENTS};
}

static void do_round(Run *run, int round) {
    Shared *shared = run->shared;
    for (int client = 0; client < CLIENTS; client++)
        atomic_store(&shared->clients[client], FREE);
    atomic_store(&shared->round, round); // the workers go
    if (run->kills_left > 0) {
        run->kills_left--;
        kill(run->pids[round % run->workers], SIGKILL); // wherever it is
    }
    while (!is_over(run, round)) {
        replace_the_dead(run);
        usleep(10);
    }
    average(shared); // all workers wait for the next round
}

static Line train_with(int workers, int kills, int *killed) {
    Run run = {.shared = share(sizeof(Shared)), .workers = workers, .kills_left = kills};
    for (int rank = 0; rank < workers; rank++)
        start(&run, rank);
    for (int round = 1; round <= ROUNDS; round++)
        do_round(&run, round);
    replace_the_dead(&run); // of the last round
    atomic_store(&run.shared->round, -1);
    for (int rank = 0; rank < workers; rank++)
        waitpid(run.pids[rank], NULL, 0);
    const Line line = run.shared->global;
    munmap(run.shared, sizeof(Shared));
    *killed = run.killed;
    return line;
}

int main(void) {
    static const struct {
        const char *name;
        int workers, kills;
    } runs[] = {{"1 worker:", 1, 0}, {"4 workers:", 4, 0}, {"4 workers, 40 killed:", 4, 40}};
    Line first = {0, 0};
    for (int i = 0; i < 3; i++) {
        int killed;
        const Line line = train_with(runs[i].workers, runs[i].kills, &killed);
        uint32_t bits[2];
        memcpy(bits, &line, sizeof bits);
        if (i == 0) first = line;
        printf("%-21s ", runs[i].name);
        if (i == 0) printf("w %.3f, b %.3f, bits %u %u\n", line.w, line.b, bits[0], bits[1]);
        if (i > 0) printf("%s\n", memcmp(&line, &first, sizeof line) == 0 ? "the same bits" : "other bits");
        if (killed != runs[i].kills) printf("killed: %d\n", killed);
        fflush(stdout);
    }
    return 0;
}
