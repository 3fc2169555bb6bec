#include "sweep_plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/look/replicates.h"
#include "base/rng.h"

static Status add_value(SweepAxis *axis, const char *value, size_t length, Error *err) {
    char **values = realloc(axis->values, (axis->count + 1) * sizeof *values);
    if (!values) return fail(err, STATUS_OS, "no memory for the values of --%s", axis->option->name);
    axis->values = values;
    values[axis->count] = strndup(value, length);
    if (!values[axis->count]) return fail(err, STATUS_OS, "no memory for the values of --%s", axis->option->name);
    axis->count++;
    if (axis->count <= SWEEP_MOST_RUNS) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--%s: more than %d values; a sweep has at most so many runs", axis->option->name,
                SWEEP_MOST_RUNS);
}

// Adds one value, or all of "1..5" of whole numbers.
static Status add_item(SweepAxis *axis, const char *text, size_t length, Error *err) {
    char copy[64] = "";
    unsigned long long first, last;
    int end = 0;
    const bool is_whole = axis->option->type == OPTION_WHOLE || axis->option->type == OPTION_SEED;
    if (length < sizeof copy) memcpy(copy, text, length);
    if (!is_whole || copy[strspn(copy, "0123456789.")] || sscanf(copy, "%llu..%llu%n", &first, &last, &end) != 2 ||
        copy[end])
        return add_value(axis, text, length, err);
    if (last < first || last - first >= SWEEP_MOST_RUNS)
        return fail(err, STATUS_USAGE, "--%s %s: needs a range that rises, of at most %d numbers, such as 1..5",
                    axis->option->name, copy, SWEEP_MOST_RUNS);
    for (unsigned long long i = 0; i <= last - first; i++) {
        snprintf(copy, sizeof copy, "%llu", first + i);
        TRY(add_value(axis, copy, strlen(copy), err));
    }
    return STATUS_OK;
}

// Adds what is between the separators. The last semicolon may be at the end: "1,2,3;" is one list.
static Status add_list(SweepAxis *axis, const char *text, const char *separator, Error *err) {
    const bool are_lists = *separator == ';';
    do {
        text += strspn(text, " ");
        const size_t length = strcspn(text, separator);
        if (length == 0)
            return fail(err, STATUS_USAGE, "--%s: a value is missing %s", axis->option->name,
                        are_lists ? "before a semicolon" : "between the commas");
        TRY(add_item(axis, text, length, err));
        text += length;
    } while (*text && (*++text || !are_lists));
    return STATUS_OK;
}

static bool are_shares(const char *text) {
    for (; *text; text += strcspn(text, ",") + (text[strcspn(text, ",")] == ','))
        if (!memchr(text, '.', strcspn(text, ","))) return false;
    return true;
}

static Status refuse_commas(const SweepAxis *axis, const char *text, Error *err) {
    char several[OPTION_SHOWN_BYTES];
    option_printable(several, text);
    for (char *comma = several; (comma = strchr(comma, ','));)
        *comma = ';';
    return fail(err, STATUS_USAGE,
                "--%s %.100s: one list, or several values; a sweep has semicolons between them: \"%.100s;\" is one, "
                "\"%.100s\" several",
                axis->option->name, text, text, several);
}

// Replaces the first pair of braces by each of its values, and then the next pair of each text.
static Status add_text(SweepAxis *axis, const char *text, Error *err) {
    const size_t before = strcspn(text, "{}"), inside = strcspn(text + before + (text[before] != '\0'), "{}");
    const char *begin = text + before + 1, *end = begin + inside;
    if (!text[before]) return add_value(axis, text, before, err);
    if (text[before] != '{' || *end != '}' || inside == 0)
        return fail(err, STATUS_USAGE, "--%s %.200s: braces are for values, such as mu={0.01,0.1}", axis->option->name,
                    text);
    for (const char *value = begin; value <= end;) {
        const size_t length = strcspn(value, ",}");
        char one[OPTION_TEXT_BYTES];
        if (snprintf(one, sizeof one, "%.*s%.*s%s", (int)before, text, (int)length, value, end + 1) >=
            OPTION_TEXT_BYTES)
            return fail(err, STATUS_USAGE, "--%s: the text is too long: %.200s...", axis->option->name, text);
        TRY(add_text(axis, one, err));
        value += length + 1;
    }
    return STATUS_OK;
}

// Whether each piece between commas begins with a name of the option's table: "fedavg,fedprox mu=0.1".
static bool are_named(const Option *option, const char *text) {
    for (const char *piece = text; *piece; piece += strcspn(piece, ","), piece += *piece == ',') {
        const size_t blank = strspn(piece, " "), length = strcspn(piece + blank, " ,;");
        const char *name;
        bool known = false;
        for (size_t i = 0; !known && (name = option_name_in_table(option, i)); i++)
            known = strlen(name) == length && memcmp(name, piece + blank, length) == 0;
        if (!known) return false;
    }
    return true;
}

// A value of some options is itself a list: commas belong to it where its parts are no values, as one weight alone is
// none; otherwise they could mean both, but for the shares of --attackers.
static Status add_values(SweepAxis *axis, const char *text, Error *err) {
    const Option *option = axis->option;
    const bool is_text = option->type == OPTION_TEXT || option->type == OPTION_FORM;
    if (option->lists && !strpbrk(text, "{}")) {
        const bool are_values = strcmp(option->name, "attackers") == 0 && are_shares(text);
        if (strchr(text, ';') || (option->lists == OPTION_LISTS_WHOLE && strchr(text, ',')))
            return add_list(axis, text, ";", err);
        if (strchr(text, ',') && !are_values) return refuse_commas(axis, text, err);
    }
    const bool are_several = strchr(text, ',') && !strpbrk(text, "{}") && are_named(option, text);
    if (is_text && strpbrk(text, " {}") && !are_several) return add_text(axis, text, err);
    return add_list(axis, text, ",", err);
}

// In a list each value has its place, and may have several.
static Status check_values(const SweepAxis *axis, bool is_list, Error *err) {
    const bool is_real = axis->option->type == OPTION_REAL || axis->option->type == OPTION_FLOAT;
    for (size_t i = 0; i < axis->count; i++) {
        Options scratch;
        options_defaults(&scratch);
        TRY(option_set(&scratch, axis->option, axis->values[i], "--", err));
        for (size_t k = 0; k < i && !is_list; k++)
            if (strcmp(axis->values[i], axis->values[k]) == 0 ||
                (is_real && strtod(axis->values[i], NULL) == strtod(axis->values[k], NULL)))
                return fail(err, STATUS_USAGE, "--%s: has the value %.200s twice; leave one of the two out",
                            axis->option->name, axis->values[i]);
    }
    return STATUS_OK;
}

static SweepAxis *axis_of(SweepPlan *plan, const Option *option) {
    for (size_t i = 0; i < plan->axis_count; i++)
        if (plan->axes[i].option == option) return &plan->axes[i];
    plan->axes[plan->axis_count] = (SweepAxis){.option = option, .repeats = strcmp(option->name, "seed") == 0};
    return &plan->axes[plan->axis_count++];
}

Status sweep_plan_add(SweepPlan *plan, const Option *option, const char *value, Error *err) {
    return add_value(axis_of(plan, option), value, strlen(value), err);
}

// Lists the sweep's own options, followed by those of train that describe the experiment. Returns how many there are.
static int join_tables(Option *rows, const Option *const own, int own_count) {
    int count = own_count;
    memcpy(rows, own, (size_t)own_count * sizeof *rows);
    for (int i = 0; i < option_count; i++)
        if (!option_table[i].unsaved) rows[count++] = option_table[i];
    return count;
}

// The plan, and how many of its axes are those of the command line, which wins over the file.
typedef struct Listed {
    SweepPlan *plan;
    size_t typed;
} Listed;

static Status add_listed(void *to, const Option *option, const char *value, const char *where, Error *err) {
    const Listed *listed = to;
    SweepAxis *axis = axis_of(listed->plan, option_find(option->name));
    if (axis < listed->plan->axes + listed->typed) return STATUS_OK;
    if (option->unsaved)
        return fail(err, STATUS_USAGE, "%s%s: is about one process; give it one value", where, option->name);
    const bool is_text = option->type == OPTION_TEXT || option->type == OPTION_FORM;
    return is_text && strpbrk(value, "{}") ? add_text(axis, value, err) : add_item(axis, value, strlen(value), err);
}

// The lists of the experiment are axes, after those of the command line.
static Status read_experiment(SweepPlan *plan, Error *err) {
    Options *options = malloc(sizeof *options);
    if (!options) return fail(err, STATUS_OS, "no memory for the options");
    options_defaults(options);
    Listed listed = {.plan = plan, .typed = plan->axis_count};
    const Status status = options_read_experiment(options, add_listed, &listed, plan->experiment, err);
    free(options);
    return status;
}

static Status read_words(SweepPlan *plan, LookOptions *options, const OptionTable *table, int own_count, int argc,
                         char **argv, Error *err) {
    // of the sweep's own options: those of train may be repeated with other values
    const char *seen[OPTION_MAX_COUNT] = {NULL};
    for (int next = 0; next < argc;) {
        const Option *option;
        const char *value;
        if (argv[next][0] != '-' || !argv[next][1]) {
            TRY(option_take_file(&plan->experiment, next++, argv, err));
            continue;
        }
        TRY(option_take(&option, &value, &next, argc, argv, table, err));
        if (option - table->rows >= own_count) {
            TRY(add_values(axis_of(plan, option_find(option->name)), value, err));
            continue;
        }
        TRY(option_once(&seen[option - table->rows], option, value, err));
        TRY(option_read(options, option, value, "--", err));
    }
    if (plan->experiment && strcmp(plan->experiment, "-") == 0)
        return fail(err, STATUS_USAGE,
                    "-: every run reads the experiment anew, which standard input cannot be; name a file");
    if (plan->experiment) TRY(read_experiment(plan, err));
    for (size_t i = 0; i < plan->axis_count; i++)
        TRY(check_values(&plan->axes[i], options->search == SWEEP_LIST, err));
    return STATUS_OK;
}

// The axes over which means are: the seed, those of --over, and data whose values are folds of one set.
static Status mark_repeats(SweepPlan *plan, const char *names, Error *err) {
    ByOptions over;
    TRY(replicates_read(&over, names, NULL, err));
    for (size_t i = 0; i < plan->axis_count; i++) {
        SweepAxis *axis = &plan->axes[i];
        bool are_folds = axis->count > 1 && strcmp(axis->option->name, "data") == 0;
        for (size_t k = 1; k < axis->count && are_folds; k++)
            are_folds = replicates_are_folds(axis->values[0], axis->values[k]);
        axis->repeats = are_folds || by_options_have(&over, axis->option);
    }
    for (int i = 0; i < over.count; i++) {
        size_t at = 0;
        while (at < plan->axis_count && (plan->axes[at].option != over.all[i] || plan->axes[at].count == 1))
            at++;
        if (at == plan->axis_count && over.all[i] != option_find("seed"))
            return fail(err, STATUS_USAGE,
                        "--over %s: has one value in this sweep; give it several, or leave --over out",
                        over.all[i]->name);
    }
    return STATUS_OK;
}

// Points --------------------------------------------------------------------------------------------------------------

static Status count_grid(SweepPlan *plan, Error *err) {
    plan->count = 1;
    for (size_t i = 0; i < plan->axis_count; i++) {
        plan->count *= plan->axes[i].count;
        if (plan->count > SWEEP_MOST_RUNS)
            return fail(err, STATUS_USAGE, "the grid has more than %d runs; give fewer values", SWEEP_MOST_RUNS);
    }
    return STATUS_OK;
}

static Status count_list(SweepPlan *plan, Error *err) {
    const SweepAxis *first = NULL;
    for (size_t i = 0; i < plan->axis_count; i++) {
        const SweepAxis *axis = &plan->axes[i];
        if (axis->count == 1) continue;
        if (first && axis->count != first->count)
            return fail(err, STATUS_USAGE,
                        "--search list: --%s has %zu values and --%s has %zu; a list needs as many of each, or one",
                        first->option->name, first->count, axis->option->name, axis->count);
        first = axis;
    }
    plan->count = first ? first->count : 1;
    return STATUS_OK;
}

Status sweep_plan_finish(SweepPlan *plan, Error *err) {
    TRY((plan->search == SWEEP_LIST ? count_list : count_grid)(plan, err));
    plan->points = malloc(plan->count * sizeof *plan->points);
    if (!plan->points) return fail(err, STATUS_OS, "no memory for %zu runs", plan->count);
    for (size_t i = 0; i < plan->count; i++)
        plan->points[i] = (uint32_t)i;
    return STATUS_OK;
}

static Status choose_points(SweepPlan *plan, const LookOptions *options, Error *err) {
    enum { SWEEP_SEED = 1 };
    if (options->number > 0 && plan->search != SWEEP_RANDOM)
        return fail(err, STATUS_USAGE, "--number: only used with --search random");
    TRY(sweep_plan_finish(plan, err));
    if (plan->search != SWEEP_RANDOM) return STATUS_OK;
    if (options->number == 0 || (size_t)options->number > plan->count)
        return fail(err, STATUS_USAGE, "--search random: needs --number, from 1 to the grid's %zu runs", plan->count);
    rng_shuffle(plan->points, plan->count, rng_key(SWEEP_SEED, RNG_SHUFFLE, 0, 0, 0));
    plan->count = (size_t)options->number;
    return STATUS_OK;
}

// Keeps every N-th run, from run I on.
static Status take_part(SweepPlan *plan, const char *part, Error *err) {
    unsigned which, of;
    int end = 0;
    size_t count = 0;
    if (!part[0]) return STATUS_OK;
    if (sscanf(part, "%u/%u%n", &which, &of, &end) != 2 || part[end] || which < 1 || which > of)
        return fail(err, STATUS_USAGE,
                    "--part %.60s: needs a number and how many there are, from 1/N to N/N, such as 2/4", part);
    if (plan->search == SWEEP_HALVING)
        return fail(err, STATUS_USAGE,
                    "--part: does not go with --search halving, which has to know all runs; leave one of the two out");
    for (size_t i = which - 1; i < plan->count; i += of)
        plan->points[count++] = plan->points[i];
    plan->count = count;
    return count > 0 ? STATUS_OK
                     : fail(err, STATUS_USAGE, "--part %s: the sweep has fewer runs; give fewer parts", part);
}

Status sweep_plan_read(SweepPlan *plan, LookOptions *options, int argc, char **argv, Error *err) {
    const OptionTable own = sweep_options;
    Option *rows = malloc((size_t)(own.count + option_count) * sizeof *rows);
    if (!rows) return fail(err, STATUS_OS, "no memory for the options");
    const OptionTable table = {.rows = rows, .count = join_tables(rows, own.rows, own.count), .command = "sweep"};
    *plan = (SweepPlan){0};
    *options = (LookOptions){0};
    Status status = read_words(plan, options, &table, own.count, argc, argv, err);
    free(rows);
    plan->search = (SweepSearch)options->search;
    if (status == STATUS_OK) status = mark_repeats(plan, options->over, err);
    if (status == STATUS_OK) status = choose_points(plan, options, err);
    if (status == STATUS_OK) status = take_part(plan, options->part, err);
    if (status != STATUS_OK) sweep_plan_free(plan);
    return status;
}

void sweep_plan_free(SweepPlan *plan) {
    for (size_t i = 0; i < plan->axis_count; i++) {
        for (size_t k = 0; k < plan->axes[i].count; k++)
            free(plan->axes[i].values[k]);
        free(plan->axes[i].values);
    }
    free(plan->points);
    *plan = (SweepPlan){0};
}

// The last axis changes fastest.
const char *sweep_plan_value(const SweepPlan *plan, size_t i, size_t axis) {
    size_t point = plan->points[i];
    const SweepAxis *of = &plan->axes[axis];
    if (plan->search == SWEEP_LIST) return of->values[of->count == 1 ? 0 : point];
    for (size_t k = plan->axis_count - 1; k > axis; k--)
        point /= plan->axes[k].count;
    return of->values[point % of->count];
}

// Length of the words, a place and its settings, with which all values of --data begin.
static size_t shared_bytes(const SweepAxis *axis) {
    size_t shared = strcmp(axis->option->name, "data") == 0 ? strlen(axis->values[0]) : 0;
    for (size_t k = 1; k < axis->count && shared > 0; k++) {
        while (shared > 0 && strncmp(axis->values[0], axis->values[k], shared) != 0)
            shared--;
        while (shared > 0 && axis->values[0][shared - 1] != ' ')
            shared--;
    }
    return shared;
}

void sweep_plan_name(char *text, const SweepPlan *plan, size_t i) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t axis = 0; axis < plan->axis_count && length < SWEEP_NAME_BYTES; axis++) {
        if (plan->axes[axis].count == 1) continue;
        const size_t shared = shared_bytes(&plan->axes[axis]); // what follows names a setting itself
        length += (size_t)snprintf(text + length, SWEEP_NAME_BYTES - length, "%s%s%s%s", length ? "," : "",
                                   shared ? "" : plan->axes[axis].option->name, shared ? "" : "=",
                                   sweep_plan_value(plan, i, axis) + shared);
    }
    if (!*text) snprintf(text, SWEEP_NAME_BYTES, "run");
    for (char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._=,+-", *c)) *c = '-';
    if (*text == '.') *text = '-';
}
