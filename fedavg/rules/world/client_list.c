#include "client_list.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Both forms share one message, since either may have been meant.
static Status refuse(const char *text, uint32_t clients, Error *err) {
    return fail(err, STATUS_USAGE,
                "%.60s: needs a part of the clients, with a point: 0.2, or clients from 0 to %u: 3,7", text,
                clients - 1);
}

// Chooses a fixed number of clients, from a shuffled list. Every node does, with one result.
static Status choose_part(uint8_t *chosen, const char *text, uint32_t clients, RngKey key, Error *err) {
    char *end;
    const double part = strtod(text, &end);
    if (*end || end == text || text[strspn(text, "0123456789.")] || part > 1) return refuse(text, clients, err);
    const uint32_t count = (uint32_t)floor(part * clients + 1e-9); // 0.29 * 100 is a little less than 29
    if (count == 0 && part > 0)
        return fail(err, STATUS_USAGE, "%.60s: of %u clients that is none; raise it, or write 0.0 for none", text,
                    clients);
    if (!chosen) return STATUS_OK;
    uint32_t *order = malloc(clients * sizeof *order);
    if (!order) return fail(err, STATUS_OS, "no memory for a list of %u clients", clients);
    for (uint32_t client = 0; client < clients; client++)
        order[client] = client;
    rng_shuffle(order, clients, key);
    for (uint32_t i = 0; i < count; i++)
        chosen[order[i]] = 1;
    free(order);
    return STATUS_OK;
}

// The point decides: "1.0" is all clients and "1" is client 1.
Status client_choose(uint8_t *chosen, const char *text, uint32_t clients, RngKey key, Error *err) {
    if (strchr(text, '.')) return choose_part(chosen, text, clients, key, err);
    return client_list(chosen, text, clients) ? STATUS_OK : refuse(text, clients, err);
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
