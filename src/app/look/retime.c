// Part of command.h: `sounder retime` tells how long a run would have taken with other links and clients, from its
// record. The simulated clock of a synchronous run changes no bit of its models, so that nothing is trained again.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/look/look_options.h"
#include "app/look/past_run.h"
#include "app/look/table.h"
#include "fedavg/memory/world_files.h"
#include "fedavg/rules/world/walk.h"
#include "io/metrics.h"

// A client's training in a round, as it was planned.
typedef struct Turn {
    uint32_t client, epochs, samples; // samples: of an epoch
} Turn;

typedef struct Round {
    size_t first, count;           // turns of the clients whose updates arrived
    uint64_t down_bytes, up_bytes; // of each
    double seconds;                // on the run's own clock
    uint32_t number;
} Round;

typedef struct Record {
    Turn *turns;   // owned (turn_count, with room for turn_room)
    Round *rounds; // owned (round_count, with room for round_room)
    size_t turn_count, turn_room, round_count, round_room;
    const char *path; // borrowed
    uint32_t clients;
} Record;

// Times of the run by one clock.
typedef struct Clock {
    uint64_t microseconds, to_target; // to_target: 0 if the target was never reached
    double useful, all;               // microseconds of training, and of all clients of the rounds
} Clock;

typedef struct Retime {
    LookOptions options;
    PastRun run;   // owned
    Record record; // owned
    Table table;   // owned
    size_t columns[3], seconds, utilisation, to_target;
} Retime;

static const char *const turned[] = {"up-bandwidth", "down-bandwidth", "client-time"}; // as LookOptions.clock has them

// The record ----------------------------------------------------------------------------------------------------------

static bool make_room(void **items, size_t *room, size_t count, size_t bytes) {
    if (count < *room) return true;
    const size_t wanted = 2 * *room + 64;
    void *more = realloc(*items, wanted * bytes);
    if (!more) return false;
    *items = more;
    *room = wanted;
    return true;
}

static uint64_t whole_at(const json_t *line, const char *key) {
    const json_int_t value = json_integer_value(json_object_get(line, key));
    return value > 0 ? (uint64_t)value : 0;
}

static Status note_turn(Record *record, const json_t *line, Error *err) {
    const uint64_t epochs = whole_at(line, "epochs");
    const char *samples = json_object_get(line, "samples_planned") ? "samples_planned" : "samples";
    const uint64_t client = whole_at(line, "client");
    if (epochs == 0 || client >= record->clients)
        return fail(err, STATUS_DATA, "%.200s: its record has a client %llu with %llu epochs: the file was edited",
                    record->path, (unsigned long long)client, (unsigned long long)epochs);
    if (!make_room((void **)&record->turns, &record->turn_room, record->turn_count, sizeof *record->turns))
        return fail(err, STATUS_OS, "no memory for the clients of %.200s", record->path);
    record->turns[record->turn_count++] = (Turn){.client = (uint32_t)client,
                                                 .epochs = (uint32_t)epochs,
                                                 .samples = (uint32_t)(whole_at(line, samples) / epochs)};
    return STATUS_OK;
}

static Status note_round(Record *record, const json_t *line, Error *err) {
    const size_t first = record->round_count > 0 ? record->rounds[record->round_count - 1].first +
                                                       record->rounds[record->round_count - 1].count
                                                 : 0;
    const uint32_t number = (uint32_t)whole_at(line, "round");
    if (!json_object_get(line, "client_up_bytes"))
        return fail(err, STATUS_DATA,
                    "%.200s: its record does not tell what a client receives and sends (client_up_bytes): an earlier "
                    "version wrote it; train it again",
                    record->path);
    if (json_is_true(json_object_get(line, "abandoned")))
        return fail(err, STATUS_USAGE,
                    "%.200s: round %u was lost, and the record does not name its clients: such a run has to be "
                    "trained again",
                    record->path, number);
    if (!make_room((void **)&record->rounds, &record->round_room, record->round_count, sizeof *record->rounds))
        return fail(err, STATUS_OS, "no memory for the rounds of %.200s", record->path);
    record->rounds[record->round_count++] = (Round){.first = first,
                                                    .count = record->turn_count - first,
                                                    .down_bytes = whole_at(line, "client_down_bytes"),
                                                    .up_bytes = whole_at(line, "client_up_bytes"),
                                                    .seconds = past_run_number(line, "simulated_seconds"),
                                                    .number = number};
    return STATUS_OK;
}

static Status note(void *context, json_t *line, Error *err) {
    return metrics_is(line, "client") ? note_turn(context, line, err) : note_round(context, line, err);
}

// Runs in which the clock decides what is trained, by name: other times would have been another run.
static Status check(const Retime *retime, Error *err) {
    const Options *of = &retime->run.options;
    const char *path = retime->options.folders[0], *why = NULL;
    const EngineFacts *engine = options_algorithm(of).engine;
    if (engine->whole_cohort) why = "its --algorithm draws no clients, and has no simulated clock";
    if (engine->buffers)
        why = "with schedule buffered of its --algorithm the clock decides which updates make a step: it has to be "
              "trained again";
    if (of->world.deadline > 0) why = "its --deadline decides by the clock which clients are late: train it again";
    if (of->world.over_selection > 1)
        why = "its --over-selection keeps the first to arrive: another clock keeps others; train it again";
    if (of->world.failures.mtbf > 0) why = "its --failures decide by the clock which clients arrive: train it again";
    if (of->availability_file[0])
        why = "its --sampling available:FILE draws the clients that are there at that time: train it again";
    if (options_hide_cohorts(of)) why = "its --noise-key system keeps secret who was drawn";
    if (retime->run.rounds == 0) why = "it has no round yet";
    return why ? fail(err, STATUS_USAGE, "%.200s: %s", path, why) : STATUS_OK;
}

// Times ---------------------------------------------------------------------------------------------------------------

// A round ends with its last update. Training alone is a turn without bytes.
static uint64_t time_round(Clock *clock, const Record *record, const Round *round, const Options *options,
                           const WorldFiles *files) {
    uint64_t longest = 0;
    double useful = 0;
    for (size_t i = 0; i < round->count; i++) {
        const Turn *turn = &record->turns[round->first + i];
        Member member = {.client = turn->client,
                         .samples = turn->samples,
                         .epochs = turn->epochs,
                         .overlap = walk_overlap(&options->recipe.schedule, round->number)};
        if (files->paces) {
            member.seconds_per_sample = 1e-6 * files->paces[turn->client].microseconds_per_sample;
            member.bytes_per_second = files->paces[turn->client].bytes_per_second;
        }
        const uint32_t epochs = (uint32_t)options->training.local_epochs;
        const uint64_t end = world_duration(&member, &options->world, epochs, round->down_bytes, round->up_bytes,
                                            options->seed, round->number);
        useful += (double)world_duration(&member, &options->world, epochs, 0, 0, options->seed, round->number);
        if (end > longest) longest = end;
    }
    clock->useful += useful;
    clock->all += (double)longest * (double)round->count;
    clock->microseconds += longest;
    return longest;
}

// The record has ten digits.
static Status check_round(const Record *record, const Round *round, uint64_t microseconds, Error *err) {
    const double recorded = 1e6 * round->seconds;
    if (fabs(recorded - (double)microseconds) <= fmax(0.5, 1e-9 * recorded)) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%.200s: round %u took %.6f simulated seconds by its record and %.6f by its options: the record is "
                "not the whole run's, and other times would be wrong, too",
                record->path, round->number, round->seconds, 1e-6 * (double)microseconds);
}

// own: these are the run's own options, whose times the record has.
static Status tell_clock(Clock *clock, const Retime *retime, const Options *options, bool own, Error *err) {
    const Record *record = &retime->record;
    const double target = past_run_number(retime->run.summary, "rounds_to_target");
    WorldFiles files;
    *clock = (Clock){0};
    TRY(world_files_read(&files, options->client_file, "", NULL, (uint32_t)options->clients, err));
    Status status = STATUS_OK;
    for (size_t i = 0; i < record->round_count && status == STATUS_OK; i++) {
        const Round *round = &record->rounds[i];
        const uint64_t longest = time_round(clock, record, round, options, &files);
        if (round->number == target) clock->to_target = clock->microseconds;
        if (own) status = check_round(record, round, longest, err);
    }
    world_files_free(&files);
    return status;
}

static Status add_row(Retime *retime, const Options *given, bool own, Error *err) {
    Options options = *given;
    Clock clock;
    char text[OPTION_VALUE_BYTES];
    TRY(options_resolve(&options, err));
    TRY(tell_clock(&clock, retime, &options, own, err));
    table_add_row(&retime->table);
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        option_format(text, &options, option_find(turned[i]));
        table_put_text(&retime->table, retime->columns[i], text);
    }
    table_put_number(&retime->table, retime->seconds, 1e-6 * (double)clock.microseconds);
    table_put_number(&retime->table, retime->utilisation, clock.all > 0 ? 100 * clock.useful / clock.all : NAN);
    if (clock.to_target > 0) table_put_number(&retime->table, retime->to_target, 1e-6 * (double)clock.to_target);
    return STATUS_OK;
}

// Sets each value of list number `which` in turn, and those of the lists after it. Values that have commas themselves
// are separated by semicolons.
static Status add_rows(Retime *retime, const Options *given, size_t which, Error *err) {
    if (which == sizeof turned / sizeof *turned) return add_row(retime, given, false, err);
    const char *list = retime->options.clock[which], *separators = strchr(list, ';') ? ";" : ",";
    if (!*list) return add_rows(retime, given, which + 1, err);
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, separators);
        char value[OPTION_TEXT_BYTES];
        Options options = *given;
        snprintf(value, sizeof value, "%.*s", (int)length, at + strspn(at, " "));
        TRY(option_set(&options, option_find(turned[which]), value, "--", err));
        TRY(add_rows(retime, &options, which + 1, err));
        at += length;
        if (!*at) return STATUS_OK;
    }
}

static Status fill(Retime *retime, Error *err) {
    static const char *const types[] = {"client", "round", NULL};
    const char *path = retime->options.folders[0];
    bool turns = false;
    TRY(past_run_read(&retime->run, path, err));
    const Options given = retime->run.options; // what follows from others follows again for each row
    TRY(options_resolve(&retime->run.options, err));
    TRY(check(retime, err));
    retime->record.path = path;
    retime->record.clients = (uint32_t)retime->run.options.clients;
    TRY(metrics_visit_run(path, types, note, &retime->record, err));
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        retime->columns[i] = table_add_values(&retime->table, turned[i]);
        turns |= retime->options.clock[i][0] != '\0';
    }
    retime->seconds = table_add_column(&retime->table, "simulated s", "simulated_seconds", 6);
    retime->utilisation = table_add_column(&retime->table, "utilisation %", "utilisation_percent", 2);
    retime->to_target = table_add_column(&retime->table, "s to target", "simulated_seconds_to_target", 6);
    TRY(add_row(retime, &given, true, err));
    return turns ? add_rows(retime, &given, 0, err) : STATUS_OK;
}

Status command_retime(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    Retime *retime = calloc(1, sizeof *retime);
    if (!retime) return fail(err, STATUS_OS, "no memory for a table of times");
    Status status = look_options_parse(&retime->options, command_find("retime"), argc, argv, err);
    if (status == STATUS_OK) status = fill(retime, err);
    if (status == STATUS_OK) {
        table_drop_empty(&retime->table);
        status = table_print(stdout, &retime->table, (TableFormat)retime->options.format, err);
    }
    table_free(&retime->table);
    past_run_free(&retime->run);
    free(retime->record.turns);
    free(retime->record.rounds);
    free(retime);
    return status;
}
