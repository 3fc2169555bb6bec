// Softmax regression in C by SGD without momentum: sounder train --trainer ./trainer --data fashion-mnist
#include <math.h>
#include <sounder/io/trainer.h> // cc trainer.c -o trainer $(pkg-config --cflags sounder) -lm

static TrainerRun run;
static float *gradient; // of weight (classes, inputs), then of bias (classes)

// Adds the gradient of sample s of the turn to that of its batch. Returns its loss; *hits: 1 more if it is right.
static double learn(uint32_t s, unsigned *hits) {
    float x[run.inputs];
    double out[run.classes], sum = 0;
    size_t label = (size_t)trainer_sample(x, &run, s), best = 0;
    for (size_t c = 0; c < run.classes; c++) {
        out[c] = (double)run.weights[run.classes * run.inputs + c];
        for (size_t i = 0; i < run.inputs; i++)
            out[c] += (double)(run.weights[c * run.inputs + i] * x[i]);
        best = out[c] > out[best] ? c : best;
        if (run.answers) run.answers[s * run.classes + c] = (float)out[c];
    }
    for (size_t c = 0; c < run.classes; c++)
        sum += exp(out[c] - out[best]);
    for (size_t c = 0; c < run.classes; c++) {
        const float error = (float)(exp(out[c] - out[best]) / sum) - (c == label ? 1 : 0);
        gradient[run.classes * run.inputs + c] += error;
        for (size_t i = 0; i < run.inputs; i++)
            gradient[c * run.inputs + i] += error * x[i];
    }
    *hits += best == label;
    return log(sum) + out[best] - out[label];
}

int main(void) {
    char *line = NULL, *number = getenv(TRAINER_SOCKET);
    size_t room = 0;
    FILE *in = number ? fdopen(atoi(number), "r") : NULL, *out = number ? fdopen(atoi(number), "w") : NULL;
    if (!in || !out || getline(&line, &room, in) < 0) return 64; // NULL: no run has started this program
    run = trainer_run(line);
    if (run.train.targets || !(run.train.pixels || run.train.numbers))
        return fputs("{\"error\":\"this trainer needs samples with classes\",\"fatal\":1}\n", out) < 0;
    const size_t k = run.classes, n = run.inputs, count = k * (n + 1);
    if (run.describe) // the initial weights are zeros
        return ftruncate(run.desk_fd, (off_t)(count * sizeof *gradient)) != 0 ||
               fprintf(out, "{\"tensors\":[[\"weight\",[%zu,%zu]],[\"bias\",[%zu]]],\"views\":1}\n", k, n, k) < 0;
    gradient = calloc(count, sizeof *gradient);
    if (fputs("{\"ready\":1}\n", out) < 0 || fflush(out) != 0) return 74;
    while (getline(&line, &room, in) > 0) {
        double loss = 0, lr = trainer_number(line, "lr", 0), pull = trainer_number(line, "pull", 0);
        unsigned hits = 0, steps = 0, s = 0;
        for (trainer_begin(&run, line); steps < trainer_number(line, "batches", 0); steps++) {
            const float mean = 1 / (float)(run.ends[steps] - s);
            for (; s < run.ends[steps]; s++)
                loss += learn(s, &hits);
            for (size_t w = 0; w < count; gradient[w++] = 0) // a test has a learning rate of 0
                run.weights[w] -= (float)lr * (gradient[w] * mean + (float)pull * run.weights[w] + run.added[w]);
        }
        TrainerResult result = {.loss_sum = loss, .samples = s, .steps = steps, .hits = (int)hits, .answers = s};
        result.travel = lr * steps;
        trainer_answer(out, line, &result);
    }
}
