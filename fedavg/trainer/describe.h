// The net of a run's trainer: names, shapes and initial values of its tensors.
//
//   TrainerNet net;
//   TRY(trainer_describe(&net, &plan, memory, seed, &host, err));
//   trainer_net_free(&net);
#ifndef SOUNDER_FEDAVG_TRAINER_DESCRIBE_H
#define SOUNDER_FEDAVG_TRAINER_DESCRIBE_H

#include "fedavg/trainer/host.h"
#include "fedavg/trainer/program.h"

typedef struct TrainerNet {
    ParameterTensor *tensors; // owned (count)
    int count;
    size_t parameters;
    float *values;         // owned (parameters)
    uint64_t state_floats; // that a client's turn wants to leave for its next one
    bool views;            // the trainer reads samples as clients see them, where these differ from the data set
    bool whole_test;       // it wants a test in one turn
    bool still;            // it leaves alone the tensors that rest in a turn
    double start_seconds;  // of the program, up to its answer
    TrainerProgram program;
    json_t *files; // owned: paths that the trainer told; NULL: none
} TrainerNet;

// Starts the plan's program in the parent and asks for its net. The program then ends, or becomes the nursery of the
// host. host: takes its output; NULL: stderr does. Returns USAGE or NOINPUT for a command that cannot be run,
// UNAVAILABLE with what the program said or did. Nothing to free on failure.
Status trainer_describe(TrainerNet *net, const TrainerPlan *plan, const RunMemory *memory, uint64_t seed,
                        TrainerHost *host, Error *err);
void trainer_net_free(TrainerNet *net);

// Freezes the tensors whose names fit the patterns. USAGE for a pattern that fits none, or if nothing would learn.
Status trainer_net_freeze(TrainerNet *net, const char *patterns, Error *err);
TensorList trainer_net_tensors(const TrainerNet *net); // borrows the array

// Part of trainer_describe: reads a trainer's answer, and the values that it wrote to the desk. Returns DATA for an
// answer that describes no net. Nothing to free on failure.
Status trainer_net_read(TrainerNet *net, const json_t *told, int desk_fd, Error *err);

#endif
