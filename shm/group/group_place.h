// Where and as whom a rank joins its group: the configuration and the environment of whoever started it.
#ifndef SOUNDER_SHM_GROUP_GROUP_PLACE_H
#define SOUNDER_SHM_GROUP_GROUP_PLACE_H

#include "shm/group/group_transport.h"

// env:// reads, the first that is there, as one set: RANK, WORLD_SIZE (LOCAL_RANK) of sounder launch and torchrun;
// those of Open MPI, MPICH and Slurm. The meeting place is MASTER_ADDR and MASTER_PORT, else the job that mpirun or
// srun started. Ranks on one machine meet by the port alone: a socket in the abstract namespace is named after it, so
// that nothing is in the way of whoever listens on the TCP port itself (torchrun does), nor stays behind. USAGE as
// group_init says.
Status group_place_find(GroupPlace *place, const GroupConfig *config, Error *err);

#endif
