// One line before a sweep: what its runs will take together, by a turn of the first one (train/forecast.h).
#ifndef SOUNDER_APP_LOOK_SWEEP_FORECAST_H
#define SOUNDER_APP_LOOK_SWEEP_FORECAST_H

#include "app/look/sweep_process.h"

// Prints it for the jobs (count) that wait. first: the first one. share: of their rounds that are trained
// (halving_share); room: cores that runs side by side may use together; most: most runs at once, 0: as many as there is
// room for. Prints nothing if the first of them cannot be planned, because it is resumed, for example: that run itself
// says what is wrong with it.
void sweep_forecast_say(const Job *first, const Job *jobs, size_t count, double share, int room, int most,
                        const SweepStart *start);

#endif
