#include "folders.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

int make_folders(const char *path) {
    char partial[FOLDER_PATH_BYTES];
    snprintf(partial, sizeof partial, "%s", path);
    for (char *end = partial + 1; *end; end++) {
        if (*end != '/') continue;
        *end = 0;
        if (mkdir(partial, 0777) < 0 && errno != EEXIST) return -1;
        *end = '/';
    }
    return mkdir(partial, 0777) < 0 && errno != EEXIST ? -1 : 0;
}
