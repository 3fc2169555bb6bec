#include "metric_sums.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

// '_' and '-' are equal, as in options. `name` may end a longer text.
static bool is_taken(const char *name) {
    static const char *const taken[] = {"accuracy",
                                        "loss",
                                        "test-accuracy",
                                        "test-loss",
                                        "personal-accuracy",
                                        "personal-loss",
                                        "client-accuracy",
                                        "client-loss",
                                        "validation-accuracy",
                                        "validation-loss",
                                        "train-loss"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        size_t c = 0;
        while (name[c] && (name[c] == '_' ? '-' : name[c]) == taken[i][c])
            c++;
        if (!name[c] && !taken[i][c]) return true;
    }
    return false;
}

// Figures of clients are rows of fedavg/figures, above this room: all names of their form are kept free for them.
static bool is_of_clients(const char *name) {
    static const char *const forms[] = {"client", "personal"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const size_t length = strlen(forms[i]);
        if (strncmp(name, forms[i], length) == 0 && (name[length] == '-' || name[length] == '_')) return true;
    }
    return false;
}

// A name becomes a column of tables, a tag of TensorBoard and a word on the command line: it must need no quotes in any
// place, and must not be taken for a figure of the run's own.
Status metric_name_check(const char *name, Error *err) {
    const size_t length = strlen(name);
    bool is_good = length > 0 && length < METRIC_NAME_BYTES && isalpha((unsigned char)name[0]);
    for (const char *c = name; *c; c++)
        is_good &= (unsigned char)*c < 0x80 && (isalnum((unsigned char)*c) || strchr("_-./@", *c));
    if (!is_good)
        return fail(err, STATUS_DATA,
                    "a metric cannot be named \"%.80s\": a name is a letter, then letters, digits and _ - . / @, at "
                    "most %d bytes",
                    name, METRIC_NAME_BYTES - 1);
    if (!is_taken(name) && is_of_clients(name))
        return fail(err, STATUS_DATA,
                    "a metric cannot be named %s: names that begin with client or personal are of the clients' tests; "
                    "name it otherwise, such as own_%s",
                    name, name);
    if (!is_taken(name)) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "a metric cannot be named %s, a figure that runs have already: losses and hits are given to turn.add; "
                "name the metric otherwise",
                name);
}

// Metrics are few, and a list in order needs no second one to sort by.
static int place_of(bool *is_there, const MetricSums *sums, const char *name) {
    int place = 0, order = -1;
    while (place < (int)sums->count && (order = strcmp(sums->all[place].name, name)) < 0)
        place++;
    *is_there = place < (int)sums->count && order == 0;
    return place;
}

// All questions are asked before anything is written, so that a refused metric leaves the sums as they were.
Status metric_sums_add(MetricSums *sums, const char *name, double sum, double weight, Error *err) {
    bool is_there;
    TRY(metric_name_check(name, err));
    if (!(isfinite(weight) && weight >= 0))
        return fail(err, STATUS_DATA, "the metric %s has the weight %g; it is a number of samples", name, weight);
    const int place = place_of(&is_there, sums, name);
    if (!is_there && sums->count == METRICS_MOST)
        return fail(err, STATUS_DATA, "%s is a metric too many; there may be %d", name, METRICS_MOST);
    MetricSum *metric = &sums->all[place];
    if (!is_there) {
        memmove(metric + 1, metric, (sums->count++ - (uint32_t)place) * sizeof *metric);
        *metric = (MetricSum){0};
        strcpy(metric->name, name);
    }
    metric->sum += sum;
    metric->weight += weight;
    return STATUS_OK;
}

Status metric_sums_join(MetricSums *sums, const MetricSums *more, Error *err) {
    for (uint32_t i = 0; i < more->count; i++)
        TRY(metric_sums_add(sums, more->all[i].name, more->all[i].sum, more->all[i].weight, err));
    return STATUS_OK;
}

// A metric that no turn has weighed has no value; a 0 would look like one.
double metric_value(const MetricSum *metric) {
    return metric->weight > 0 ? metric->sum / metric->weight : NAN;
}

const MetricSum *metric_sums_find(const MetricSums *sums, const char *name) {
    bool is_there;
    const int place = place_of(&is_there, sums, name);
    return is_there ? &sums->all[place] : NULL;
}

double metric_sums_value(const MetricSums *sums, const char *name) {
    const MetricSum *metric = metric_sums_find(sums, name);
    return metric ? metric_value(metric) : NAN;
}
