// The user's cache folder: $XDG_CACHE_HOME/sounder, or ~/.cache/sounder (XDG Base Directory Specification).
#ifndef SOUNDER_DATASETS_USER_CACHE_H
#define SOUNDER_DATASETS_USER_CACHE_H

#include <stdbool.h>
#include <stddef.h>

// Writes the path (it need not exist) to folder (bytes). False when there is no home or the path does not fit.
bool user_cache_folder(char *folder, size_t bytes);

#endif
