#include "base/launcher.h"

#include <stddef.h>
#include <stdlib.h>

// Inner launchers first: mpirun may run in a job of srun's.
static const Launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", NULL, NULL, NULL, "LOCAL_WORLD_SIZE", NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE", NULL,
     "OMPI_MCA_orte_num_nodes", NULL, NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, NULL, NULL, NULL, NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES", NULL,
     "SLURM_STEP_NUM_TASKS"},
};

enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

const Launcher *launcher_find(void) {
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (getenv(launchers[i].rank) && getenv(launchers[i].size)) return &launchers[i];
    return NULL;
}

const char *launcher_local_rank(void) {
    for (size_t i = 0; i < LAUNCHERS; i++) {
        const char *rank = getenv(launchers[i].local_rank);
        if (rank && *rank) return launchers[i].local_rank;
    }
    return NULL;
}
