// The launchers that start processes as ranks (sounder launch, torchrun, mpirun, srun), by the variables that they set.
//
//   const Launcher *launcher = launcher_find();   // of this process; NULL: none
//   getenv(launcher->rank)
#ifndef SOUNDER_BASE_LAUNCHER_H
#define SOUNDER_BASE_LAUNCHER_H

// Names of variables.
typedef struct Launcher {
    const char *rank, *size, *local_rank;
    const char *job, *step; // name the job on this machine; NULL: no variable does
    const char *nodes;      // number of machines of the job; NULL: not told
    const char *local_size; // number of its ranks on this machine; NULL: not told
    const char *in_step;    // set only in processes started as ranks; NULL: there are no others
} Launcher;

// Returns the first whose rank and size are set.
const Launcher *launcher_find(void);

// Returns the variable with this process's rank on its machine, which a user may also set alone; NULL: none is set.
const char *launcher_local_rank(void);

#endif
