// The screen of `sounder top SWEEP`: a line for each run of a folder.
#ifndef SOUNDER_APP_LOOK_TOP_SWEEP_H
#define SOUNDER_APP_LOOK_TOP_SWEEP_H

#include "app/look/top_page.h"

// Shows the runs below the folder until a key ends it; once: prints them. page: to work in. NOINPUT if there is no run.
Status top_sweep_show(const char *folder, bool once, Page *page, Error *err);

#endif
