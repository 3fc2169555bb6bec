#include "sweep_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/text_stream.h"
#include "io/durable.h"

// The values of each option, by table index: those of an axis, or the one that the experiment has.
typedef struct Asked {
    OptionValues all[OPTION_MAX_COUNT];
    char *of_file[OPTION_MAX_COUNT]; // owned; NULL: the experiment has none
} Asked;

static void free_asked(Asked *asked) {
    for (int i = 0; i < option_count; i++)
        free(asked->of_file[i]);
}

static Status read_scalars(Asked *asked, const char *experiment, Error *err) {
    char value[OPTION_VALUE_BYTES];
    Options *options = malloc(sizeof *options);
    if (!options) return fail(err, STATUS_OS, "no memory for the options");
    options_defaults(options);
    Status status = options_read_experiment(options, NULL, NULL, experiment, err);
    for (int i = 0; i < option_count && status == STATUS_OK; i++) {
        if (!options->given[i] || option_table[i].unsaved) continue;
        option_format(value, options, &option_table[i]);
        asked->of_file[i] = strdup(value);
        asked->all[i] = (OptionValues){.values = &asked->of_file[i], .count = 1};
        if (!asked->of_file[i]) status = fail(err, STATUS_OS, "no memory for the options of %s", experiment);
    }
    free(options);
    return status;
}

// The command that reads the file, with the options that are the sweep's own.
static void write_heading(FILE *file, const LookOptions *options) {
    static const char *const searches[] = {"grid", "list", "random", "halving"};
    char word[SHELL_WORD_BYTES];
    fputs("# What the sweep was asked for last; do the same again: sounder sweep THIS_FILE", file);
    if (options->search != SWEEP_GRID) fprintf(file, " --search %s", searches[options->search]);
    if (options->number > 0) fprintf(file, " --number %d", options->number);
    if (options->over[0]) fprintf(file, " --over %s", shell_word(word, options->over));
    if (options->against[0]) fprintf(file, " --against %s", shell_word(word, options->against));
    if (options->show[0]) fprintf(file, " --show %s", shell_word(word, options->show));
    fputs(" --out ANOTHER_FOLDER\n", file);
}

static Status write_text(TextStream *text, const Asked *asked, const LookOptions *options, Error *err) {
    TextStream heading;
    FILE *file = text_open(&heading);
    if (file) write_heading(file, options);
    if (!text_close(&heading)) return fail(err, STATUS_OS, "no memory for the options of the sweep");
    file = text_open(text);
    Status status = file ? options_write_experiment(file, heading.text, asked->all, err) : STATUS_OK;
    free(heading.text);
    if (text_close(text) || status != STATUS_OK) return status;
    return fail(err, STATUS_OS, "no memory for the options of the sweep");
}

// Processes that share a sweep (--part) may write it at one time, with equal texts.
static Status replace(const Folder *folder, const TextStream *text, Error *err) {
    char hex[65];
    const FilePart part = {.bytes = text->text, .count = strlen(text->text)};
    sha256_hex(hex, &part, 1);
    if (file_has_sha256(folder, "sweep.yaml", hex)) return STATUS_OK;
    const Status status = durable_write(folder, "sweep.yaml", &part, 1, err);
    return file_has_sha256(folder, "sweep.yaml", hex) ? STATUS_OK : status;
}

Status sweep_file_write(const SweepPlan *plan, const LookOptions *options, Error *err) {
    Asked *asked = calloc(1, sizeof *asked);
    TextStream text = {0};
    if (!asked) return fail(err, STATUS_OS, "no memory for the options of the sweep");
    Status status = plan->experiment ? read_scalars(asked, plan->experiment, err) : STATUS_OK;
    for (size_t i = 0; i < plan->axis_count; i++)
        asked->all[option_index(plan->axes[i].option)] =
            (OptionValues){.values = plan->axes[i].values, .count = plan->axes[i].count};
    if (status == STATUS_OK) status = write_text(&text, asked, options, err);
    const int fd = status == STATUS_OK ? open(options->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (status == STATUS_OK && fd < 0) status = fail_errno(err, STATUS_IO, "%.200s", options->out);
    if (status == STATUS_OK) status = replace(&(Folder){.fd = fd, .path = options->out}, &text, err);
    if (fd >= 0) close(fd);
    free(text.text);
    free_asked(asked);
    free(asked);
    return status;
}
