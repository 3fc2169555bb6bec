// Part of help.h: writes the scripts with which shells complete the commands, options and values of sounder:
// completion.bash and its like, with the table in them, so that completing starts no program: one line per option,
// "train,eval --algorithm fedavg hogwild ssgd".
#include <string.h>

#include "app/command.h"
#include "app/help/help.h"
#include "base/embed.h"
#include "base/text.h"

static bool takes(const Command *command, const Option *option) {
    switch (command->takes) {
    case TAKES_ALL:
        return !option->not_train;
    case TAKES_SAVED:
        return !option->not_train && !option->unsaved;
    case TAKES_EVAL:
        return option->eval || option->not_train;
    case TAKES_NONE:
        break;
    }
    return false;
}

static void print_table(FILE *file) {
    for (int i = 0; i < option_count; i++) {
        char names[256] = "";
        for (const Command *command = commands; command < commands + command_count; command++)
            if (takes(command, &option_table[i]))
                text_add(names, sizeof names, "%s%s", *names ? "," : "", command->name);
        option_print_words(file, &option_table[i], names);
    }
    for (const Command *command = commands; command < commands + command_count; command++)
        for (int i = 0; command->options && i < command->options->count; i++)
            option_print_words(file, &command->options->rows[i], command->name);
}

static void print_commands(FILE *file) {
    for (const Command *command = commands; command < commands + command_count; command++)
        if (command->run && !command->hidden) fprintf(file, "%s%s", command > commands ? " " : "", command->name);
}

EMBED(completion_bash, HELP_TEXTS "/completion.bash");
EMBED(completion_zsh, HELP_TEXTS "/completion.zsh");
EMBED(completion_fish, HELP_TEXTS "/completion.fish");

static const struct {
    const char *name, *script;
} shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

// Each script has these places, in this order.
static const struct {
    const char *place;
    void (*print)(FILE *file);
} places[] = {{"@words@", print_table}, {"@commands@", print_commands}, {"@topics@", help_print_topics}};

bool completion_print(FILE *file, const char *shell) {
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shells[i].name, shell) != 0) continue;
        const char *script = shells[i].script;
        for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
            const char *at = strstr(script, places[n].place);
            fprintf(file, "%.*s", (int)(at - script), script);
            places[n].print(file);
            script = at + strlen(places[n].place);
        }
        fputs(script, file);
        return true;
    }
    return false;
}

void completion_print_bash(FILE *file) {
    completion_print(file, "bash");
}
