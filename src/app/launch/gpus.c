#include "gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int count_device_files(const char *folder) {
    static const char stem[] = "nvidia";
    DIR *directory = opendir(folder);
    if (!directory) return 0;
    int cards = 0;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        const char *number = entry->d_name + strlen(stem);
        if (strncmp(entry->d_name, stem, strlen(stem)) == 0 && *number && !number[strspn(number, "0123456789")])
            cards++;
    }
    closedir(directory);
    return cards;
}

int gpus_visible(const char *visible_devices, const char *folder) {
    const int cards = count_device_files(folder);
    if (!visible_devices || cards == 0) return cards;
    int visible = 0;
    for (const char *item = visible_devices; *item; item += *item == ',') {
        bool is_number = !isalpha((unsigned char)*item);
        if (is_number && (!isdigit((unsigned char)*item) || atoi(item) >= cards)) break;
        visible++;
        item += strcspn(item, ",");
    }
    return visible;
}
