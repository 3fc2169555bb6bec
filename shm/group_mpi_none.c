// Stands in for group_mpi.c in a program built without MPI.
#include "shm/group_transport.h"

Status group_mpi_open(Group *group, const GroupPlace *place, Error *err) {
    (void)group, (void)place;
    return fail(err, STATUS_UNAVAILABLE,
                "mpi://: this program was built without MPI; install it (Debian: "
                "libopenmpi-dev) and configure with -D SOUNDER_MPI=ON");
}
