#include "hidden_figures.h"

#include <string.h>

enum { OF_COHORTS = 1, OF_BATCHES = 2 };

// The tests of models are no part of this: the model is what is published.
static const struct {
    const char *type, *key; // key NULL: the line
    int of;
} hidden[] = {
    {"client", NULL, OF_COHORTS},
    {"client", "loss", OF_BATCHES},
    {"client", "own_samples", OF_BATCHES},
    {"client", "samples", OF_BATCHES},
    {"client", "samples_planned", OF_BATCHES},
    {"client", "tokens", OF_BATCHES},
    {"trainer_fault", "client", OF_COHORTS},
    {"client_evaluation", "never_trained", OF_COHORTS},
    {"clients_evaluation", "clients_never_trained", OF_COHORTS},
    {"round", "train_loss", OF_COHORTS | OF_BATCHES},
    {"round", "train_metrics", OF_COHORTS | OF_BATCHES},
    {"round", "samples", OF_COHORTS | OF_BATCHES},
    {"round", "samples_per_second", OF_COHORTS | OF_BATCHES},
    {"round", "tokens", OF_COHORTS | OF_BATCHES},
    {"round", "tokens_per_second", OF_COHORTS | OF_BATCHES},
    {"round", "tokens_total", OF_COHORTS | OF_BATCHES},
    {"round", "barrier_wait_seconds", OF_COHORTS},
    {"round", "trainer_restarts", OF_COHORTS},
    {"round", "updates_refused", OF_COHORTS},
    {"round", "updates_clipped", OF_COHORTS},
    {"round", "clients_drawn", OF_COHORTS},
    {"round", "clients_trained", OF_COHORTS},
    {"round", "clients_dropped_out", OF_COHORTS},
    {"round", "clients_straggling", OF_COHORTS},
    {"round", "clients_late", OF_COHORTS},
    {"round", "clients_failed", OF_COHORTS},
    {"round", "clients_down", OF_COHORTS},
    {"round", "useful_seconds", OF_COHORTS},
    {"round", "replica_seconds", OF_COHORTS},
    {"round", "goodput", OF_COHORTS},
    {"round", "useful_seconds_total", OF_COHORTS},
    {"round", "replica_seconds_total", OF_COHORTS},
    {"round", "abandoned", OF_COHORTS},
    {"round", "update_length_mean", OF_COHORTS},
    {"round", "update_length_most", OF_COHORTS},
    {"round", "update_dispersion", OF_COHORTS},
    {"round", "gradient_diversity", OF_COHORTS},
    {"round", "simulated_seconds", OF_COHORTS},
    {"round", "simulated_seconds_total", OF_COHORTS},
    {"round", "down_bytes", OF_COHORTS},
    {"round", "down_bytes_total", OF_COHORTS},
    {"round", "up_bytes", OF_COHORTS},
    {"round", "up_bytes_total", OF_COHORTS},
    {"round", "training_joules", OF_COHORTS},
    {"round", "training_joules_total", OF_COHORTS},
    {"round", "link_joules", OF_COHORTS},
    {"round", "link_joules_total", OF_COHORTS},
    {"round", "attackers", OF_COHORTS},
    {"round", "attackers_chosen", OF_COHORTS},
    {"round", "clients_chosen", OF_COHORTS},
    {"round", "clients_by_cluster", OF_COHORTS},
    {"summary", "simulated_seconds_to_target", OF_COHORTS},
    {"summary", "down_bytes_to_target", OF_COHORTS},
    {"summary", "up_bytes_to_target", OF_COHORTS},
    {"summary", "tokens_to_target", OF_COHORTS | OF_BATCHES},
    {"summary", "joules_to_target", OF_COHORTS},
};

Status hidden_append(Metrics *metrics, JsonObject *line, const RunConfig *config, Error *err) {
    const int hides = (config->hides_cohorts ? OF_COHORTS : 0) | (config->hides_batches ? OF_BATCHES : 0);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden && hides; i++) {
        if (!(hidden[i].of & hides) || !metrics_is(line->root, hidden[i].type)) continue;
        if (hidden[i].key) json_object_del(line->root, hidden[i].key);
        if (hidden[i].key) continue;
        json_drop(line);
        return STATUS_OK;
    }
    return metrics_append(metrics, line, err);
}
