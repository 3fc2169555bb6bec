// Part of progress.h: the lines of a round and of the end of a run.
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/options/run_target.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

enum { TEST_BYTES = 1024 }; // a loss may have forty digits and more

// For runs that are not about personal models: results of the global model on the clients' samples.
static void describe_clients(char text[TEST_BYTES], const RoundTest *test) {
    const bool by_loss = isnan(test->clients.accuracy.mean);
    const Fairness *of = by_loss ? &test->clients.loss : &test->clients.accuracy;
    text[0] = '\0';
    if (test->clients.clients == 0 || test->personal.clients > 0) return;
    if (by_loss)
        snprintf(text, TEST_BYTES, "  clients %.4f (worst tenth %.4f)", log_real(of->mean), log_real(of->best_tenth));
    else
        snprintf(text, TEST_BYTES, "  clients %.2f%% (worst tenth %.2f%%)", 100 * of->mean, 100 * of->worst_tenth);
}

// Writes "  new clients 71.20%, 75.30% fine-tuned", or losses, to text (NEW_BYTES); empty without new clients.
enum { NEW_BYTES = 384 };
static const char *describe_new(char text[NEW_BYTES], const RoundTest *test) {
    char tuned[RUN_FIGURE_TEXT_BYTES] = "";
    const ClientTests *of = &test->new_clients, *after = &test->new_tuned;
    const bool by_loss = isnan(of->accuracy.mean);
    text[0] = '\0';
    if (of->clients == 0) return text;
    if (after->clients > 0 && by_loss)
        snprintf(tuned, sizeof tuned, ", %.4f fine-tuned", log_real(after->loss.mean));
    else if (after->clients > 0)
        snprintf(tuned, sizeof tuned, ", %.2f%% fine-tuned", 100 * after->accuracy.mean);
    if (by_loss)
        snprintf(text, NEW_BYTES, "  new clients %.4f%s", log_real(of->loss.mean), tuned);
    else
        snprintf(text, NEW_BYTES, "  new clients %.2f%%%s", 100 * of->accuracy.mean, tuned);
    return text;
}

// Adds the first metrics and that of the run's figure: "  perplexity 18.2000  recall 0.8120".
static void describe_metrics(char text[TEST_BYTES], const MetricSums *metrics, const RunFigure *figure) {
    enum { MOST_SHOWN = 4 };
    uint32_t shown = 0;
    char number[RUN_FIGURE_TEXT_BYTES];
    for (uint32_t i = 0; i < metrics->count; i++) {
        const MetricSum *metric = &metrics->all[i];
        const bool is_figure = strcmp(metric->name, figure->metric) == 0;
        if (shown >= MOST_SHOWN && !is_figure) continue;
        text_add(text, TEST_BYTES, "  %s %s", metric->name, metric_text(number, metric_value(metric)));
        shown++;
    }
    if (shown < metrics->count) text_add(text, TEST_BYTES, "  and %u more", metrics->count - shown);
}

// Appends " (clusters of 6, 4)" to the text.
static void describe_clusters(char *text, size_t bytes, const ClientTests *tests) {
    for (uint32_t c = 0; c < tests->clusters && tests->clusters > 1; c++)
        text_add(text, bytes, "%s%lld%s", c == 0 ? " (clusters of " : ", ", (long long)tests->clients_of[c],
                 c + 1 < tests->clusters ? "" : ")");
}

// Adds "  test 0.4567   40.80%  attack   1.00%": the loss, the figures that each line shows, and that of the run. The
// line says which set of samples they are of.
static void describe_model(char text[TEST_BYTES], const RoundTest *test, const Figure *about) {
    char value[RUN_FIGURE_TEXT_BYTES];
    const RoundFacts facts = {.test = test, .about = about};
    if (test->tested)
        text_add(text, TEST_BYTES, "  %s %.4f", test->validates ? "validation" : "test", log_real(test->loss));
    for (size_t i = 0; i < figure_count; i++) {
        const Figure *figure = &figure_table[i];
        const RunFigure shown = {.row = figure};
        const bool in_line = figure->traits & FIGURE_IN_LINE;
        if (!in_line && !(figure == about && figure->traits & FIGURE_OF_CLASSES && test->tested)) continue;
        const double number = figure->value(&facts);
        if (in_line && isnan(number)) continue;
        text_add(text, TEST_BYTES, "  %s%s%*s", figure->word ? figure->word : figure->title, figure->word ? "" : " ",
                 figure->width, run_figure_number(value, &shown, number));
    }
}

// Writes the results of all tests to text (TEST_BYTES); empty without a test.
static void describe_test(char text[TEST_BYTES], const RoundTest *test, const RunFigure *of, bool shows_cohorts) {
    char notes[128] = "", clients[TEST_BYTES], fresh[NEW_BYTES], value[RUN_FIGURE_TEXT_BYTES];
    const ClientTests *personal = &test->personal;
    const RunFigure figure = run_figure_of_key(isnan(personal->accuracy.mean) ? "personal_loss" : "personal_accuracy");
    text[0] = '\0';
    describe_model(text, test, run_figure_row(of));
    describe_clients(clients, test);
    if (personal->never_trained > 0 && shows_cohorts)
        snprintf(notes, sizeof notes, " (%u of %u clients never trained)", personal->never_trained, personal->clients);
    describe_clusters(notes, sizeof notes, personal);
    if (personal->clients > 0)
        text_add(text, TEST_BYTES, "  %s%s", run_figure_text(value, &figure, round_test_value(test, &figure)), notes);
    else
        text_add(text, TEST_BYTES, "%s", clients);
    text_add(text, TEST_BYTES, "%s", describe_new(fresh, test));
    describe_metrics(text, &test->metrics, of);
}

void progress_conclude(Progress *progress, const RunFigure *figure, const RoundTest *test, const RoundTest *final,
                       uint32_t rounds, double seconds) {
    char value[RUN_FIGURE_TEXT_BYTES], regression[RUN_FIGURE_TEXT_BYTES], fresh[NEW_BYTES],
        more[RUN_FIGURE_TEXT_BYTES + 4] = "", last[RUN_FIGURE_TEXT_BYTES + 4] = "";
    // The clients' own models, or samples, have no other test.
    const bool on_test = test->validates && !run_figure_tests_clients(figure);
    const RunFigure shown = on_test ? run_figure_on_test(figure) : *figure;
    if (!test->tested) return;
    const RunFigure loss = run_figure_of_key("test_loss");
    if (run_figure_same(&shown, &loss) && final->has_targets)
        snprintf(more, sizeof more, " (%s)", regression_text(regression, final->rmse, final->r2));
    if (on_test) snprintf(last, sizeof last, " (%s)", run_figure_text(value, figure, round_test_value(test, figure)));
    progress_say(progress, "%s%s%s after %u round%s%s, %.2f s%s\n",
                 run_figure_text(value, &shown, round_test_value(on_test ? final : test, &shown)), more,
                 on_test ? " on the test set" : "", rounds, plural(rounds), last, seconds, describe_new(fresh, test));
}

// Writes "  loss 1.9438" and "  91,726/s", texts of this size.
static void describe_training(char *trained, char *rate, size_t bytes, const RoundReport *report) {
    char number[PROGRESS_NUMBER_BYTES];
    snprintf(rate, bytes, "  %s/s", with_commas(number, (uint64_t)((double)report->samples / report->seconds)));
    if (report->samples > 0)
        snprintf(trained, bytes, "  loss %.4f", log_real(report->train_loss));
    else if (report->cohort->jobs > 0) // of private steps, whose updates are noise then
        snprintf(trained, bytes, "  no sample was drawn");
    else
        snprintf(trained, bytes, "  nobody arrived");
}

void progress_end(Progress *progress, const RoundReport *report, const RoundTest *test, const RunFigure *figure) {
    const bool is_secret = progress->hides_cohorts || progress->hides_batches;
    char tested[TEST_BYTES], rest[256] = "", rate[64] = "", trained[64] = "";
    if (!is_secret) describe_training(trained, rate, sizeof trained, report);
    describe_test(tested, test, figure, !progress->hides_cohorts);
    if (report->synchronising_seconds > 0)
        text_add(rest, sizeof rest, "  sync %.2f s (%.2f hidden)", report->synchronising_seconds,
                 report->hidden_seconds);
    if (report->staleness_mean > 0) text_add(rest, sizeof rest, "  staleness %.2f", report->staleness_mean);
    if (report->workers_lost > 0)
        text_add(rest, sizeof rest, "  %u worker%s lost", report->workers_lost, plural(report->workers_lost));
    if (isfinite(report->epsilon)) text_add(rest, sizeof rest, "  epsilon %.3g", report->epsilon);
    if (isfinite(report->sample_epsilon))
        text_add(rest, sizeof rest, "  epsilon of samples %.3g", report->sample_epsilon);
    if (report->cohort->abandoned && !progress->hides_cohorts)
        text_add(rest, sizeof rest, "  too few arrived: the model stays");
    if (report->refused > 0 && !progress->hides_cohorts)
        text_add(rest, sizeof rest, "  %u update%s refused", report->refused, plural(report->refused));
    if (report->refused_steps > 0)
        text_add(rest, sizeof rest, "  %llu step%s refused", (unsigned long long)report->refused_steps,
                 plural(report->refused_steps));
    progress_say(progress, "round %u/%u%s%s  %.2f s%s%s\n", report->round, progress->round_count, trained, tested,
                 report->seconds, rate, rest);
    const double seconds = clock_seconds_since(progress->start_nanoseconds), usual = progress->usual_seconds;
    progress->usual_seconds = usual > 0 ? (usual + seconds) / 2 : seconds;
    progress->round = 0;
}
