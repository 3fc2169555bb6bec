#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/trainer/files.h"

static Status read_stays(TrainerProgram *program, const json_t *told, Error *err) {
    const json_t *stays = json_object_get(told, "stays");
    const char *hash = json_string_value(json_object_get(stays, "hash"));
    const json_int_t tensors = json_integer_value(json_object_get(stays, "tensors"));
    const json_int_t floats = json_integer_value(json_object_get(stays, "floats"));
    if (!stays || json_is_null(stays)) return STATUS_OK;
    if (!hash || strlen(hash) >= sizeof program->stays || tensors < 0 || floats < 0)
        return fail(
            err, STATUS_DATA,
            "it answered \"stays\" as something that is no {\"hash\":\"16 digits\",\"tensors\":N,\"floats\":N}");
    memcpy(program->stays, hash, strlen(hash) + 1);
    program->stays_tensors = (uint64_t)tensors;
    program->stays_floats = (uint64_t)floats;
    return STATUS_OK;
}

// For people: printable ASCII, of which a longer text is cut.
static void read_versions(TrainerProgram *program, const json_t *told) {
    const char *versions = json_string_value(json_object_get(told, "versions"));
    snprintf(program->versions, sizeof program->versions, "%s", versions ? versions : "");
    for (char *at = program->versions; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
}

Status trainer_program_read(TrainerProgram *program, const TrainerPlan *plan, const json_t *told, Error *err) {
    const json_t *files = json_object_get(told, "files");
    *program = (TrainerProgram){.names_files = json_is_array(files)};
    TRY(read_stays(program, told, err));
    read_versions(program, told);
    return trainer_hash_files(&program->files, plan, files, err);
}

Status trainer_program_check(const TrainerPlan *plan, const json_t *ready, Error *err) {
    const TrainerProgram *first = &plan->program;
    TrainerProgram now;
    TRY(trainer_program_read(&now, plan, ready, err));
    if (now.names_files == first->names_files && now.files != first->files)
        return fail(err, STATUS_DATA,
                    "its files are not what the run began with (XXH3 %016" PRIx64 " then, %016" PRIx64
                    " now): they were edited while it ran; give them back and resume the run, or begin another",
                    first->files, now.files);
    if (first->stays[0] && now.stays[0] && strcmp(first->stays, now.stays) != 0)
        return fail(err, STATUS_DATA,
                    "its tensors that do not travel are not those of its first start (hash %s then, %s now): another "
                    "base, buffers from unseeded numbers, or numbers of words by the order of a set; let each start "
                    "make the same ones",
                    first->stays, now.stays);
    return STATUS_OK;
}
