// Better or luck: compares groups of finished runs with one of them. Cohorts, faults and noise depend on the seed
// alone, so two runs of one seed form a pair, and the difference of their results is one sample (paired_test.h).
#ifndef SOUNDER_APP_LOOK_AGAINST_H
#define SOUNDER_APP_LOOK_AGAINST_H

#include "app/look/against_question.h"
#include "app/look/past_run.h"
#include "app/look/table.h"

// Fills an empty table with a line per group other than those of the value: each is compared with the group of the
// value whose other options are equal. people: groups with too few seeds are not in the table, but named in the
// notes. *notes: NULL before; sentences that say how to read the table, one per line; the caller frees them. Reorders
// the runs. USAGE if no run has the value, if several options have it, if a group has two runs of one seed, or if the
// runs are about different figures; NOINPUT if no run is finished.
Status against_fill(Table *table, char **notes, PastRuns *runs, const Against *asked, bool people, Error *err);

// Prints the table, and in the text format the notes.
Status against_print(PastRuns *runs, const Against *asked, TableFormat format, Error *err);

#endif
