// Part of help.h: writes the scripts with which shells complete the commands, options and values of sounder. The script
// contains the table, so that completing starts no program: one line per option, "train,eval --algorithm fedavg hogwild
// ssgd".
#include <string.h>

#include "app/command.h"
#include "app/help/help.h"
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

static const char bash_script[] =
    "_sounder() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
    "    if [ \"$word\" = '=' ]; then word=; else [ \"$previous\" != '=' ] || previous=${COMP_WORDS[COMP_CWORD-2]}; "
    "fi\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$_sounder_commands\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    if [ \"$command\" = help ]; then\n"
    "        [ \"$previous\" = completion ] && mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$word\") && "
    "return\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$_sounder_topics\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    local commands name values names=--help\n"
    "    while read -r commands name values; do\n"
    "        case ,$commands, in *,\"$command\",*) names+=\" $name\" ;; *) continue ;; esac\n"
    "        if [ \"$name\" = \"$previous\" ] && [ -n \"$values\" ]; then\n"
    "            mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
    "        fi\n"
    "    done <<<\"$_sounder_words\"\n"
    "    case $word in\n"
    "        -*) mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$word\") ;;\n"
    "        *) [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -o filenames -F _sounder sounder\n";

static const char zsh_script[] =
    "_sounder() {\n"
    "    local line option=${words[CURRENT-1]} command=${words[2]}\n"
    "    local -a parts names values\n"
    "    if (( CURRENT == 2 )); then\n"
    "        compadd -- ${=_sounder_commands}\n"
    "        return\n"
    "    fi\n"
    "    if [[ $command == help ]]; then\n"
    "        if [[ $option == completion ]]; then compadd -- bash zsh fish; else compadd -- ${=_sounder_topics}; fi\n"
    "        return\n"
    "    fi\n"
    "    if [[ $PREFIX == --*=* ]]; then\n"
    "        option=${PREFIX%%=*}\n"
    "        compset -P '*='\n"
    "    fi\n"
    "    names=(--help)\n"
    "    for line in ${(f)_sounder_words}; do\n"
    "        parts=(${=line})\n"
    "        [[ ,$parts[1], == *,$command,* ]] || continue\n"
    "        names+=($parts[2])\n"
    "        [[ $parts[2] != $option ]] || values=(${parts[3,-1]})\n"
    "    done\n"
    "    if [[ $PREFIX == -* ]]; then compadd -- $names; elif (( $#values )); then compadd -- $values; else _files; "
    "fi\n"
    "}\n"
    "if [[ ${funcstack[1]} == _sounder ]]; then _sounder \"$@\"; else compdef _sounder sounder; fi\n";

static const char fish_script[] =
    "function __sounder_complete\n"
    "    set -l before (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    set -l command $before[2]\n"
    "    if not set -q before[2]\n"
    "        string split ' ' -- $__sounder_commands\n"
    "        return\n"
    "    end\n"
    "    if test $command = help\n"
    "        if test $before[-1] = completion\n"
    "            printf '%s\\n' bash zsh fish\n"
    "        else\n"
    "            string split ' ' -- $__sounder_topics\n"
    "        end\n"
    "        return\n"
    "    end\n"
    "    set -l option $before[-1]\n"
    "    set -l stem ''\n"
    "    if string match -q -- '--*=*' $word\n"
    "        set option (string split -m 1 = -- $word)[1]\n"
    "        set stem $option=\n"
    "    end\n"
    "    set -l names --help\n"
    "    for line in (string split \\n -- $__sounder_words)\n"
    "        set -l parts (string split ' ' -- $line)\n"
    "        contains -- $command (string split , -- $parts[1]); or continue\n"
    "        set -a names $parts[2]\n"
    "        if test $parts[2] = $option; and set -q parts[3]\n"
    "            printf '%s\\n' $stem$parts[3..-1]\n"
    "        end\n"
    "    end\n"
    "    if string match -q -- '-*' $word; and test -z $stem\n"
    "        printf '%s\\n' $names\n"
    "    end\n"
    "end\n"
    "complete -c sounder -n 'test (count (commandline -opc)) -lt 2; or contains -- help (commandline -opc)' -f\n"
    "complete -c sounder -a '(__sounder_complete)'\n";

static const struct {
    const char *name, *head;
    const char *before, *after; // code around a variable's name, where the script assigns a value
    const char *script;
} shells[] = {{"bash", "# bash completion for sounder\n", "_", "=", bash_script},
              {"zsh", "#compdef sounder\n", "typeset -g _", "=", zsh_script},
              {"fish", "# fish completion for sounder\n", "set -g __", " ", fish_script}};

bool completion_print(FILE *file, const char *shell) {
    void (*const printers[])(FILE *) = {print_table, print_commands, help_print_topics};
    static const char *const names[] = {"sounder_words", "sounder_commands", "sounder_topics"};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shells[i].name, shell) != 0) continue;
        fputs(shells[i].head, file);
        for (int n = 0; n < 3; n++) {
            fprintf(file, "%s%s%s'", shells[i].before, names[n], shells[i].after);
            printers[n](file);
            fputs("'\n", file);
        }
        fputs(shells[i].script, file);
        return true;
    }
    return false;
}

void completion_print_bash(FILE *file) {
    completion_print(file, "bash");
}
