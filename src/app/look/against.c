#include "against.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/paired_test.h"
#include "app/look/replicates.h"
#include "base/text_stream.h"

// Pairs -------------------------------------------------------------------------------------------------------------

static int compare_runs(const void *a, const void *b, void *of) {
    const Question *question = of;
    const int order = by_options_compare(a, b, &question->by);
    return order ? order : by_options_compare(a, b, &question->over);
}

// Puts the runs of a group side by side, ordered by what pairs them.
static Status sort_runs(const PastRuns *runs, Question *question, Error *err) {
    char name[OPTION_TEXT_BYTES];
    qsort_r(runs->all, runs->count, sizeof *runs->all, compare_runs, question);
    for (size_t i = 1; i < runs->count; i++)
        if (compare_runs(&runs->all[i - 1], &runs->all[i], question) == 0)
            return fail(
                err, STATUS_USAGE,
                "--against: %.300s and %.300s have one %.100s, %llu, and would both pair with one run; give one "
                "of them, or name the options in which they differ in --by, or in --over if these make pairs, too",
                runs->all[i - 1].path, runs->all[i].path, replicates_name(name, &question->over),
                (unsigned long long)runs->all[i].options.seed);
    return STATUS_OK;
}

typedef struct Group {
    const PastRun *runs; // side by side
    size_t count;
} Group;

// Returns the group that begins at `from`: runs with equal values of the options.
static Group group_of(const Group *runs, size_t from, const ByOptions *by) {
    Group group = {.runs = runs->runs + from, .count = 1};
    while (from + group.count < runs->count && by_options_compare(group.runs, group.runs + group.count, by) == 0)
        group.count++;
    return group;
}

static bool is_base(const Group *group, const Question *question) {
    char value[OPTION_VALUE_BYTES];
    past_run_option(value, group->runs, question->option);
    return strcmp(value, question->value) == 0;
}

// Returns the group with the value among runs whose other options are equal; an empty one if there is none.
static Group base_in(const Group *block, const Question *question) {
    for (size_t first = 0; first < block->count;) {
        const Group group = group_of(block, first, &question->by);
        if (is_base(&group, question)) return group;
        first += group.count;
    }
    return (Group){0};
}

// Computes one difference per seed that both groups have and returns how many there are. differences:
// (PAIRED_TEST_MOST). *unknown: pairs in which a run has no number, such as a loss that overflowed. *uneven: pairs of
// other --rounds, as halving leaves them, which are compared only if the rounds are what is asked about.
static size_t subtract(double *differences, size_t *unknown, size_t *uneven, const Group *group, const Group *base,
                       const Question *question) {
    const bool is_about_rounds = strcmp(question->option->name, "rounds") == 0;
    size_t count = 0;
    for (size_t a = 0, b = 0; a < group->count && b < base->count && count < PAIRED_TEST_MOST;) {
        const PastRun *run = &group->runs[a], *other = &base->runs[b];
        const double difference = against_question_value(run, question) - against_question_value(other, question);
        const int order = by_options_compare(run, other, &question->over);
        a += order <= 0;
        b += order >= 0;
        if (order != 0) continue;
        if (run->options.rounds != other->options.rounds && !is_about_rounds)
            ++*uneven;
        else if (isfinite(difference))
            differences[count++] = difference;
        else
            ++*unknown;
    }
    return count;
}

// The table ---------------------------------------------------------------------------------------------------------

typedef struct Columns {
    size_t pairs, difference, low, high, sign, more, verdict;
} Columns;

static void add_columns(Columns *columns, Table *table, Question *question) {
    const int decimals = question->decimals;
    by_options_add_columns(&question->by, table);
    columns->pairs = table_add_column(table, "n", "pairs", 0);
    columns->difference = table_add_column(table, "difference", "difference", decimals);
    columns->low = table_add_column(table, "95% from", "difference_low", decimals);
    columns->high = table_add_column(table, "to", "difference_high", decimals);
    columns->sign = table_add_column(table, "sign test p", "sign_test_p", 3);
    columns->more = table_add_column(table, question->over.count > 1 ? "more pairs" : "more seeds", "more_seeds", 0);
    columns->verdict = table_add_column(table, "verdict", "verdict", -1);
    table_set_room(table, columns->sign, ROOM_SPARE);
    table_set_room(table, columns->more, ROOM_SPARE);
    table_set_room(table, columns->verdict, ROOM_WHOLE);
}

// Where the groups of a table are put.
typedef struct Comparison {
    Table *table;
    Columns columns;
    bool people; // groups with too few seeds are not in the table
    FILE *few;   // names them
    bool has_few, has_more;
    size_t unknown, uneven; // pairs
    double *differences;    // (PAIRED_TEST_MOST)
} Comparison;

// Nothing tells whether more of a named figure is better.
static const char *verdict_on(const PairedTest *test, const Question *question) {
    if (test->deviation == 0 && test->mean == 0) return "equal";
    if (test->low <= 0 && test->high >= 0) return "not distinguishable";
    if (question->is_named) return test->mean > 0 ? "higher" : "lower";
    return run_figure_is_better(&question->figure, test->mean, 0) ? "better" : "worse";
}

static void put_test(Comparison *to, size_t count, const Question *question) {
    Table *table = to->table;
    const Columns *columns = &to->columns;
    PairedTest test;
    paired_test(&test, to->differences, count);
    table_put_number(table, columns->difference, test.mean);
    table_put_number(table, columns->low, test.low);
    table_put_number(table, columns->high, test.high);
    table_put_number(table, columns->sign, test.sign);
    if (test.more > 0 && test.more != SIZE_MAX) {
        table_put_number(table, columns->more, (double)test.more);
        to->has_more = true;
    }
    table_put_text(table, columns->verdict, verdict_on(&test, question));
}

// Names a group in a sentence: "scaffold, 0.1 (2)".
static void print_group(FILE *file, const Group *group, size_t pairs, const Question *question) {
    char value[OPTION_VALUE_BYTES], shown[OPTION_SHOWN_BYTES];
    for (int i = 0; i < question->by.count; i++) {
        by_options_text(value, group->runs, question->by.all[i]);
        option_printable(shown, *value ? value : "-");
        fprintf(file, "%s%s", i ? ", " : "", shown);
    }
    fprintf(file, " (%zu)", pairs);
}

static void put_group(Comparison *to, const Group *group, const Group *base, const Question *question) {
    const size_t pairs = subtract(to->differences, &to->unknown, &to->uneven, group, base, question);
    const bool enough = pairs >= PAIRED_TEST_LEAST;
    if (!enough) {
        if (to->has_few) fputs("; ", to->few);
        print_group(to->few, group, pairs, question);
        to->has_few = true;
        if (to->people) return;
    }
    table_add_row(to->table);
    by_options_put(to->table, &question->by, group->runs);
    table_put_number(to->table, to->columns.pairs, (double)pairs);
    if (enough)
        put_test(to, pairs, question);
    else
        table_put_text(to->table, to->columns.verdict, question->over.count > 1 ? "too few pairs" : "too few seeds");
}

static void put_groups(Comparison *to, const PastRuns *runs, Question *question) {
    const Group all = {.runs = runs->all, .count = runs->count};
    add_columns(&to->columns, to->table, question);
    for (size_t begin = 0; begin < all.count;) {
        const Group block = group_of(&all, begin, &question->others), base = base_in(&block, question);
        for (size_t first = 0; first < block.count;) {
            const Group group = group_of(&block, first, &question->by);
            if (!is_base(&group, question)) put_group(to, &group, &base, question);
            first += group.count;
        }
        begin += block.count;
    }
}

// Runs that are in no group.
typedef struct LeftOut {
    size_t unfinished, copies;
} LeftOut;

// Whether a run has a partner: with the value that the others are compared with, the seed, and equal options.
static bool has_partner(const PastRun *run, const PastRuns *runs, const ByOptions *equal, const Question *question) {
    for (size_t i = 0; i < runs->count; i++) {
        const Group other = {.runs = &runs->all[i], .count = 1};
        if (by_options_compare(run, other.runs, &question->over) == 0 &&
            by_options_compare(run, other.runs, equal) == 0 && is_base(&other, question))
            return true;
    }
    return false;
}

// The pairs that only their inputs keep apart.
static size_t count_of_other_inputs(const PastRuns *runs, const Question *question) {
    ByOptions options = {0};
    size_t pairs = 0;
    for (int i = 0; i < question->others.count; i++)
        if (!run_input_of(question->others.all[i])) by_options_add(&options, question->others.all[i]);
    for (size_t i = 0; i < runs->count && options.count < question->others.count; i++) {
        const Group one = {.runs = &runs->all[i], .count = 1};
        pairs += !is_base(&one, question) && has_partner(one.runs, runs, &options, question) &&
                 !has_partner(one.runs, runs, &question->others, question);
    }
    return pairs;
}

static void print_left_out(FILE *notes, const LeftOut *left, const PastRuns *runs, const Question *question) {
    const size_t pairs = count_of_other_inputs(runs, question);
    for (int i = 0; i < RUN_INPUTS; i++)
        if (by_options_have(&question->others, &run_inputs[i].trait))
            fprintf(notes, "%s: the %s %s not the same in all runs; runs that differ in it are no pairs\n",
                    run_inputs[i].trait.name, run_inputs[i].words, run_inputs[i].is_plural ? "are" : "is");
    if (pairs > 0) fprintf(notes, "left out: %zu pair%s of runs with other inputs\n", pairs, pairs == 1 ? "" : "s");
    if (left->copies > 0)
        fprintf(notes, "left out: %zu run%s another one again\n", left->copies,
                left->copies == 1 ? ", which is" : "s, each of which is");
    if (left->unfinished > 0)
        fprintf(notes, "left out: %zu run%s not finished\n", left->unfinished,
                left->unfinished == 1 ? ", which is" : "s, which are");
}

static void print_notes(FILE *notes, const Comparison *of, const Question *question, const char *few) {
    const char *name = question->option->name;
    char value[OPTION_SHOWN_BYTES], over[OPTION_TEXT_BYTES];
    const char *pairs = question->over.count > 1 ? "pairs" : "seeds";
    option_printable(value, question->value);
    replicates_name(over, &question->over);
    if (of->table->row_count > 0)
        fprintf(notes,
                "difference: %s in the end, minus that of %s %s with the same %.200s; 95%%: Student's interval of its "
                "mean, for each line alone\n",
                question->title, name, value, over);
    if (by_options_have(&question->over, option_find("data")) && of->table->row_count > 0)
        fputs("folds and other splits of one data set share training samples: the interval does not tell of new data\n",
              notes);
    if (of->has_more) fprintf(notes, "more %s: until a difference of this size is found in 80%% of cases\n", pairs);
    if (of->has_few)
        fprintf(notes, "too few %s in common with %s %s for an interval, which needs %d (such as --seed 1..%d): %s\n",
                pairs, name, value, PAIRED_TEST_LEAST, PAIRED_TEST_LEAST, few);
    if (of->uneven > 0)
        fprintf(notes, "left out: %zu pair%s of runs of different --rounds\n", of->uneven, of->uneven == 1 ? "" : "s");
    else if (of->has_few && by_options_have(&question->others, option_find("rounds")))
        fputs("runs of different --rounds are no pairs; --search halving ends most runs early, so compare runs of "
              "--search grid\n",
              notes);
    if (of->unknown > 0)
        fprintf(notes, "left out: %zu pair%s in which a run has no number for %s\n", of->unknown,
                of->unknown == 1 ? "" : "s", question->title);
}

static Status compare(Table *table, char **notes, const PastRuns *runs, const LeftOut *left, Question *question,
                      bool people, Error *err) {
    TextStream few, said;
    Comparison to = {.table = table,
                     .people = people,
                     .few = text_open(&few),
                     .differences = malloc(PAIRED_TEST_MOST * sizeof *to.differences)};
    if (to.differences && to.few) put_groups(&to, runs, question);
    bool whole = text_close(&few) && to.differences;
    FILE *file = text_open(&said);
    if (whole && file) {
        print_notes(file, &to, question, few.text);
        print_left_out(file, left, runs, question);
    }
    whole &= text_close(&said);
    free(few.text);
    free(to.differences);
    *notes = said.text;
    if (whole) table_drop_empty(table);
    return whole ? STATUS_OK : fail(err, STATUS_OS, "no memory for the comparison");
}

Status against_fill(Table *table, char **notes, PastRuns *runs, const Against *asked, bool people, Error *err) {
    Question question;
    size_t count = past_runs_finished_first(runs);
    if (count == 0)
        return fail(err, STATUS_NOINPUT, "none of the %zu runs is finished; sounder runs without --against lists them",
                    runs->count);
    const size_t copies = past_runs_drop_copies(runs, &count);
    PastRuns finished = {.all = runs->all, .count = count};
    TRY(against_question_read(&question, &finished, asked, err));
    TRY(sort_runs(&finished, &question, err));
    const LeftOut left = {.unfinished = runs->count - finished.count, .copies = copies};
    return compare(table, notes, &finished, &left, &question, people, err);
}

Status against_print(PastRuns *runs, const Against *asked, TableFormat format, Error *err) {
    Table table = {0};
    char *notes = NULL;
    const bool people = format == TABLE_TEXT;
    Status status = against_fill(&table, &notes, runs, asked, people, err);
    if (status == STATUS_OK && (table.row_count > 0 || !people)) status = table_print(stdout, &table, format, err);
    if (status == STATUS_OK && people) fputs(notes, stdout);
    table_free(&table);
    free(notes);
    return status;
}
