// Samples of a trainer's turn as the client sees them, where its view differs from the data set.
#ifndef SOUNDER_FEDAVG_WORKER_TRAINER_VIEW_H
#define SOUNDER_FEDAVG_WORKER_TRAINER_VIEW_H

#include "fedavg/worker/local_model.h"

// Where a client's view differs from the data set, the last `count` numbers on the desk get rows of samples and labels
// as the client sees them: the first `marked` ones with the mark of a backdoor.
bool trainer_view_differs(const LocalModel *model);
void trainer_view_add(LocalModel *model, const DatasetSplit *split, uint32_t count, uint32_t marked);

#endif
