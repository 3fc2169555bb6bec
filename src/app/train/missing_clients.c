#include "missing_clients.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/metrics.h"

enum { ROUNDS_SHOWN = 8 };

typedef enum Cause { DROPPED_OUT, LATE, REFUSED, STRAGGLED, WITHOUT_SAMPLES, WITH_THE_ROUND, CAUSES } Cause;

static const char *const cause_words[CAUSES] = {"dropped out", "late",           "refused",
                                                "straggled",   "had no samples", "lost as too few others arrived"};

typedef struct Missing {
    long long drawn, missing, causes[CAUSES];
    long long rounds[ROUNDS_SHOWN]; // the first ones in which clients are missing
    long long round_count;
} Missing;

static long long number_of(const json_t *line, const char *key) {
    return (long long)json_integer_value(json_object_get(line, key));
}

// A line without these fields is one of an engine that draws no clients: all of them are 0.
static Status note_round(void *context, json_t *line, Error *err) {
    (void)err;
    Missing *self = context;
    const long long drawn = number_of(line, "clients_drawn"), refused = number_of(line, "updates_refused"),
                    missing = drawn - number_of(line, "clients_trained") + refused,
                    dropped_out = number_of(line, "clients_dropped_out"), late = number_of(line, "clients_late"),
                    others = missing - refused - dropped_out - late;
    self->drawn += drawn;
    if (missing <= 0) return STATUS_OK;
    self->missing += missing;
    self->causes[DROPPED_OUT] += dropped_out;
    self->causes[LATE] += late;
    self->causes[REFUSED] += refused;
    if (json_is_true(json_object_get(line, "abandoned")) && number_of(line, "clients_trained") == 0) {
        self->causes[WITH_THE_ROUND] += others;
    } else { // a straggler whose part counts has arrived
        const long long straggling = number_of(line, "clients_straggling"),
                        straggled = straggling < others ? straggling : others;
        self->causes[STRAGGLED] += straggled;
        self->causes[WITHOUT_SAMPLES] += others - straggled;
    }
    if (self->round_count < ROUNDS_SHOWN) self->rounds[self->round_count] = number_of(line, "round");
    self->round_count++;
    return STATUS_OK;
}

Status missing_clients_text(char text[MISSING_TEXT_BYTES], const Folder *folder, Error *err) {
    static const char *const types[] = {"round", NULL};
    Missing self = {0};
    *text = '\0';
    TRY(metrics_visit(folder, types, note_round, &self, err));
    if (self.missing == 0) return STATUS_OK;
    text_add(text, MISSING_TEXT_BYTES, "%lld of %lld drawn clients never arrived", self.missing, self.drawn);
    for (int cause = 0, told = 0; cause < CAUSES; cause++)
        if (self.causes[cause] > 0)
            text_add(text, MISSING_TEXT_BYTES, "%s%lld %s", told++ ? ", " : " (", self.causes[cause],
                     cause_words[cause]);
    text_add(text, MISSING_TEXT_BYTES, "); round%s ", self.round_count == 1 ? "" : "s");
    for (int i = 0; i < ROUNDS_SHOWN && i < self.round_count; i++)
        text_add(text, MISSING_TEXT_BYTES, "%s%lld", i > 0 ? ", " : "", self.rounds[i]);
    if (self.round_count > ROUNDS_SHOWN)
        text_add(text, MISSING_TEXT_BYTES, " and %lld more", self.round_count - ROUNDS_SHOWN);
    return STATUS_OK;
}
