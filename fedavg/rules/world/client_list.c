#include "client_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// Reads one number, without the signs and blanks that strtoul would accept.
static bool read_client(uint32_t *client, const char **at, uint32_t clients) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    const unsigned long number = strtoul(*at, &end, 10);
    if (errno != 0 || number >= clients) return false;
    *client = (uint32_t)number;
    *at = end;
    return true;
}

bool client_list(uint8_t *listed, const char *text, uint32_t clients) {
    for (const char *at = text;; at++) {
        uint32_t first, last;
        if (!read_client(&first, &at, clients)) return false;
        last = first;
        if (*at == '-') {
            at++;
            if (!read_client(&last, &at, clients) || last < first) return false;
        }
        for (uint32_t client = first; listed && client <= last; client++)
            listed[client] = 1;
        if (!*at) return true;
        if (*at != ',') return false;
    }
}

bool client_list_write(char *text, size_t bytes, const uint8_t *listed, uint32_t clients) {
    size_t length = 0;
    for (uint32_t first = 0, end; first < clients && length < bytes; first = end + 1) {
        for (end = first; end < clients && listed[end];)
            end++;
        if (end == first) continue;
        length += (size_t)snprintf(text + length, bytes - length, "%s%" PRIu32, length ? "," : "", first);
        if (end - first > 1 && length < bytes)
            length +=
                (size_t)snprintf(text + length, bytes - length, "%c%" PRIu32, end - first > 2 ? '-' : ',', end - 1);
    }
    return length > 0 && length < bytes;
}
