#include "client_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "datasets/partition/partitioner.h"

Status client_names_find(ClientNames *names, const RunMemory *memory, const Options *options, Error *err) {
    const Dataset *data = &memory->data;
    const Partition *partition = &memory->partition;
    char text[OPTION_TEXT_BYTES];
    Form form;
    *names = (ClientNames){0};
    if (!data->user_names || !partition->offsets) return STATUS_OK;
    TRY(partition_parse(&form, options_partition(text, options), err));
    if (!partition_is_of_users(&form)) return STATUS_OK;
    const char **users = dataset_list_users(data);
    names->all = calloc(partition->clients, sizeof *names->all);
    names->count = partition->clients;
    for (uint32_t client = 0; client < partition->clients && users && names->all; client++) {
        const uint32_t first = partition->offsets[client]; // all samples of a client have one owner
        if (first == partition->offsets[client + 1]) continue;
        names->all[client] = users[data->train.owners[partition->indices[first]]];
    }
    const bool has_memory = users && names->all;
    free(users);
    if (has_memory) return STATUS_OK;
    client_names_free(names);
    return fail(err, STATUS_OS, "no memory for the names of %u clients", partition->clients);
}

void client_names_free(ClientNames *names) {
    free(names->all);
    *names = (ClientNames){0};
}

const char *client_name(char number[CLIENT_NUMBER_BYTES], const ClientNames *names, uint32_t client) {
    if (client < names->count && names->all[client]) return names->all[client];
    snprintf(number, CLIENT_NUMBER_BYTES, "%u", client);
    return number;
}

Status client_names_number(uint32_t *client, const ClientNames *names, uint32_t clients, const char *typed,
                           const char *folder, Error *err) {
    Suggestion suggestion = {.typed = typed};
    char *end;
    for (uint32_t i = 0; i < names->count; i++) {
        if (!names->all[i]) continue;
        *client = i;
        if (strcmp(names->all[i], typed) == 0) return STATUS_OK;
        suggestion_consider(&suggestion, names->all[i]);
    }
    const unsigned long number = strtoul(typed, &end, 10);
    *client = (uint32_t)number;
    if (isdigit((unsigned char)*typed) && !*end && number < clients) return STATUS_OK;
    if (!suggestion.best)
        return fail(err, STATUS_USAGE, "--client %.60s: %.200s has clients from 0 to %u%s", typed, folder, clients - 1,
                    names->count > 0 ? "; sounder runs RUN --clients lists their names" : "");
    return fail(err, STATUS_USAGE, "--client %.60s: %.200s has no such client; did you mean %.60s?", typed, folder,
                suggestion.best);
}

void put_client_names(JsonObject *object, const ClientNames *names, uint32_t every) {
    JsonObject list;
    bool any = false;
    json_begin_array(&list);
    for (uint32_t client = 0; client < names->count; client += every) {
        any |= names->all[client] != NULL;
        if (names->all[client])
            put_readable(&list, NULL, names->all[client]);
        else
            put_null(&list, NULL);
    }
    if (any)
        put_object(object, "client_names", &list);
    else
        json_drop(&list);
}
