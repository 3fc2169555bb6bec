#include "run_continue.h"

#include <stdio.h>

#include "app/options/option_table.h"
#include "app/train/run_goals.h"
#include "app/train/run_schedule.h"

// A recorded schedule has an end.
static Status check_recording(const Options *options, uint32_t rounds, Error *why) {
    const char *file = options_replay(options);
    Schedule schedule;
    if (!file || !options_algorithm(options).engine->buffers) return STATUS_OK;
    TRY(run_schedule_read(&schedule, file, (uint32_t)options->clients, options->training.local_epochs, rounds, why));
    schedule_free(&schedule);
    return STATUS_OK;
}

Status run_continue_command(char command[RUN_COMMAND_BYTES], const Options *options, const Goals *goals,
                            const char *folder, uint32_t rounds_done, bool spent, Error *why) {
    char word[SHELL_WORD_BYTES];
    const uint32_t most = (uint32_t)option_find("rounds")->maximum, wanted = (uint32_t)options->rounds;
    const bool has_all = rounds_done >= wanted;
    const uint32_t rounds = !has_all ? wanted : 2 * rounds_done < most ? 2 * rounds_done : most;
    if (rounds == rounds_done) return fail(why, STATUS_USAGE, "--rounds %u are the most that a run may have", most);
    TRY(options_check_resumed(options, (int)rounds, why));
    TRY(check_recording(options, rounds, why));
    snprintf(command, RUN_COMMAND_BYTES, "sounder train --resume %s", shell_path(word, folder));
    if (has_all) text_add(command, RUN_COMMAND_BYTES, " --rounds %u", rounds);
    if (goals_are_out_of_patience(goals, options))
        text_add(command, RUN_COMMAND_BYTES, " --patience %u", goals->tests_since_best + (uint32_t)options->patience);
    if (spent) text_add(command, RUN_COMMAND_BYTES, " --until none");
    if (goals_are_at_target(goals, options)) text_add(command, RUN_COMMAND_BYTES, " --stop-at-target=false");
    return STATUS_OK;
}
