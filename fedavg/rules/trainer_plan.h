// The plan of a run's trainers, or of another program of the user's that speaks as they do. Plain data, in RunConfig.
#ifndef SOUNDER_FEDAVG_RULES_TRAINER_PLAN_H
#define SOUNDER_FEDAVG_RULES_TRAINER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { TRAINER_TEXT_BYTES = 2048, TRAINER_FOLDER_BYTES = 2048, TRAINER_HASH_BYTES = 17, HASH_SEED_BYTES = 12 };
enum { TRAINER_VERSIONS_BYTES = 128 };

// A program as its first start has told it (trainer/program.h).
typedef struct TrainerProgram {
    uint64_t files;                       // XXH3 over the names and contents of its files
    uint32_t names_files;                 // 1: the program has told them; otherwise its command alone names them
    char stays[TRAINER_HASH_BYTES];       // hash of the tensors that do not travel; "": there are none, or it is untold
    uint64_t stays_tensors, stays_floats; // how many there are
    char versions[TRAINER_VERSIONS_BYTES]; // of its language and libraries, as it names them; "": it does not
} TrainerProgram;

// A turn that each start of a program makes before its others (trainer/witness.h).
typedef struct TrainerWitness {
    bool told;                // false: no such turn was made, and nothing is judged
    uint64_t first, weights;  // hashes: of the weights before and after it
    uint64_t files;           // hash of the program's files, with those that it has imported in it; 0: not told
    uint32_t client, batches; // that it trained; batches: at most
    double loss;              // mean
} TrainerWitness;

typedef struct TrainerPlan {
    char option[16];                   // that names the command, for messages: "--trainer"
    char command[TRAINER_TEXT_BYTES];  // words as a shell splits them; "": the engine trains
    char options[TRAINER_TEXT_BYTES];  // the trainer's own options, NAME=VALUE, separated by blanks
    char folder[TRAINER_FOLDER_BYTES]; // where its relative paths begin; "": in the starter's
    uint32_t threads;                  // that each trainer computes with
    uint32_t whole_test;               // 1: a test is one turn, which the trainer asks for
    uint64_t state_floats;             // that each client's turn leaves for its next one; 0: none
    uint32_t answers;                  // 1: tests give the net's answer for each sample (desk.answers)
    uint32_t forks;                    // 1: trainers may be forks of one program (trainer/nursery.h)
    uint64_t seed;                     // that its generators begin with
    char hash_seed[HASH_SEED_BYTES];   // PYTHONHASHSEED of the program
    TrainerProgram program;            // that later starts have to be
    TrainerWitness witness;            // of its first start in this process
    double hang_seconds;               // its silence after which it is killed; 0: never
    double start_seconds;              // of its later starts, after which they are given up; 0: never
} TrainerPlan;

#endif
