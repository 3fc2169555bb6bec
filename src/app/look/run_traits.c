// Part of past_run.h: the traits that tell runs apart, options and the contents that options name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/past_run.h"
#include "fedavg/memory/fingerprint.h"

int past_run_traits(void) {
    return option_count + RUN_INPUTS;
}

const Option *past_run_trait(int number) {
    return number < option_count ? &option_table[number] : &run_inputs[number - option_count].trait;
}

static void write_input(char *text, const PastRun *run, const RunInput *input) {
    char source[INPUT_SOURCE_BYTES];
    const char *first = run_input_told(run->start, input), *last = run_input_told(run->last, input);
    text[0] = '\0';
    if (!*run_input_source(source, input, &run->options)) return;
    const bool is_one = !*last || strcmp(first, last) == 0;
    snprintf(text, OPTION_VALUE_BYTES, "%.*s%s%.*s", INPUT_TOLD_BYTES, first,
             is_one              ? ""
             : input->is_version ? "; "
                                 : ", ",
             INPUT_TOLD_BYTES, is_one ? "" : last);
}

void past_run_option(char *text, const PastRun *run, const Option *trait) {
    const RunInput *input = run_input_of(trait);
    if (input) {
        write_input(text, run, input);
        return;
    }
    const bool empty = !trait->preset && option_is_zero(&run->options, trait);
    text[0] = '\0';
    if (!empty && option_applies(&run->options, trait))
        option_format(text, &run->options, trait);
    else if (trait->neutral && trait->preset) // where it has no effect, the default happens
        snprintf(text, OPTION_VALUE_BYTES, "%s", trait->preset);
}

// The name of an input's content, and its hash in the record, each as one number.
typedef struct Content {
    uint64_t source, told;
} Content;

static int compare_contents(const void *a, const void *b) {
    const Content *left = a, *right = b;
    if (left->source != right->source) return left->source < right->source ? -1 : 1;
    return (left->told > right->told) - (left->told < right->told);
}

// A run that does not tell its content may have that of any other. Without memory contents count as different, which
// shows a column too many.
static bool inputs_differ(const PastRun *runs, size_t count, const RunInput *input) {
    char source[INPUT_SOURCE_BYTES], told[OPTION_VALUE_BYTES];
    size_t known = 0;
    bool differ = false;
    Content *contents = malloc((count + 1) * sizeof *contents);
    for (size_t i = 0; i < count && contents; i++) {
        write_input(told, &runs[i], input);
        run_input_source(source, input, &runs[i].options);
        if (*told) contents[known++] = (Content){XXH3_64bits(source, strlen(source)), XXH3_64bits(told, strlen(told))};
    }
    if (!contents) return count > 1;
    qsort(contents, known, sizeof *contents, compare_contents);
    for (size_t i = 1; i < known; i++)
        differ |= contents[i].source == contents[i - 1].source && contents[i].told != contents[i - 1].told;
    free(contents);
    return differ;
}

bool past_run_changed(InputChange *change, const PastRun *run, InputsToday *today) {
    static const char *const folders[] = {"trainer_folder", "aggregator_folder"};
    Error ignored; // what it derives was derived by the run, too
    Options *options = malloc(sizeof *options);
    if (!options) return false;
    *options = run->options;
    for (int i = 0; i < 2; i++) {
        const char *folder = json_string_value(json_object_get(run->last, folders[i]));
        snprintf(i == 0 ? options->trainer_folder : options->aggregator_folder, OPTION_TEXT_BYTES, "%s",
                 folder ? folder : "");
    }
    (void)options_resolve(options, &ignored);
    const bool changed = run_inputs_changed(change, run->last, options, today);
    free(options);
    return changed;
}

static bool have_same(const PastRun *a, const PastRun *b, const Option *trait) {
    char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES];
    past_run_option(left, a, trait);
    past_run_option(right, b, trait);
    return strcmp(left, right) == 0;
}

// A run that --search halving ended early has a cosine to the last round of all: the whole run's follows from its own.
static bool have_same_plan(const PastRun *a, const PastRun *b, const Option *trait) {
    PastRun *const plans = calloc(2, sizeof *plans);
    if (!plans || a->options.rounds == b->options.rounds) {
        free(plans);
        return false;
    }
    plans[0].options = a->options;
    plans[1].options = b->options;
    for (int i = 0; i < 2; i++)
        options_pin_rounds(&plans[i].options, plans[i].options.rounds);
    const bool same = have_same(&plans[0], &plans[1], trait);
    free(plans);
    return same;
}

bool past_runs_differ(const PastRun *runs, size_t count, const Option *trait) {
    const RunInput *input = run_input_of(trait);
    if (input) return inputs_differ(runs, count, input);
    for (size_t i = 1; i < count; i++)
        if (!have_same(&runs[0], &runs[i], trait) && !have_same_plan(&runs[0], &runs[i], trait)) return true;
    return false;
}

static const char *model_of(const PastRun *run) {
    const char *model = json_string_value(json_object_get(run->summary, "model_sha256"));
    return model ? model : "";
}

static int compare_results(const void *a, const void *b) {
    const PastRun *left = a, *right = b;
    int order = strcmp(model_of(left), model_of(right));
    if (order == 0) order = (left->options.seed > right->options.seed) - (left->options.seed < right->options.seed);
    return order ? order : strverscmp(left->path, right->path);
}

// Workers, tests and the like may differ: they change no bit.
static bool is_copy(const PastRun *a, const PastRun *b) {
    if (!*model_of(a) || strcmp(model_of(a), model_of(b)) != 0 || a->rounds != b->rounds) return false;
    for (int i = 0; i < past_run_traits(); i++) {
        const Option *trait = past_run_trait(i);
        if (!trait->unsaved && !trait->may_change && !have_same(a, b, trait)) return false;
    }
    return true;
}

size_t past_runs_drop_copies(PastRuns *runs, size_t *finished) {
    size_t kept = 0, begin = 0;
    qsort(runs->all, *finished, sizeof *runs->all, compare_results);
    for (size_t i = 0; i < *finished; i++) {
        bool again = false;
        if (kept > begin && strcmp(model_of(&runs->all[begin]), model_of(&runs->all[i])) != 0) begin = kept;
        for (size_t k = begin; k < kept && !again; k++)
            again = is_copy(&runs->all[k], &runs->all[i]);
        if (again)
            past_run_free(&runs->all[i]);
        else
            runs->all[kept++] = runs->all[i];
    }
    const size_t copies = *finished - kept;
    memmove(runs->all + kept, runs->all + *finished, (runs->count - *finished) * sizeof *runs->all);
    runs->count -= copies;
    *finished = kept;
    return copies;
}
