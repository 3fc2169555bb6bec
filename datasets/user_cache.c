#include "datasets/user_cache.h"

#include <stdio.h>
#include <stdlib.h>

bool user_cache_folder(char *folder, size_t bytes) {
    // The specification has relative paths ignored.
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && cache[0] == '/')
        length = snprintf(folder, bytes, "%s/sounder", cache);
    else if (home && home[0] == '/')
        length = snprintf(folder, bytes, "%s/.cache/sounder", home);
    return length >= 0 && (size_t)length < bytes;
}
