// Flower's InnerDirichletPartitioner (Hsu, Qi, Brown 2019): every client has its own mixture of the classes, drawn from
// Dirichlet(alpha), and as many samples as it is said to have. The other Dirichlet partitions are dirichlet.c's.
#include <stdlib.h>

#include "base/form.h"
#include "datasets/deal.h"

typedef struct Inner {
    double *priors; // (clients, classes), each row with a sum of 1
    uint32_t *left; // (clients) samples a client still wants
    uint32_t *open; // (clients) those who want any
    uint32_t left_of[DATASET_MAX_CLASSES];
    uint32_t open_count;
} Inner;

static void normalise(double *prior, const uint32_t *left_of, uint32_t classes) {
    double sum = 0;
    for (uint32_t label = 0; label < classes; label++)
        sum += prior[label];
    // Where all that a client likes is used up, what is left is as good as anything.
    for (uint32_t label = 0; label < classes; label++)
        prior[label] = sum > 0 ? prior[label] / sum : left_of[label] > 0 ? 1 : 0;
    if (!(sum > 0) && classes > 0) {
        double rest = 0;
        for (uint32_t label = 0; label < classes; label++)
            rest += prior[label];
        for (uint32_t label = 0; label < classes && rest > 0; label++)
            prior[label] /= rest;
    }
}

static Status draw_priors(Inner *inner, const Deal *deal, Error *err) {
    double *alpha;
    TRY(deal_reals(&alpha, deal, 0, "alpha", err));
    for (uint32_t client = 0; client < deal->clients; client++) {
        RngKey key = rng_key(deal->spec->seed, RNG_PARTITION, STREAM_PRIORS, client, 0);
        double *prior = inner->priors + (size_t)client * deal->classes;
        for (uint32_t label = 0; label < deal->classes; label++)
            prior[label] = rng_gamma(key, label, alpha[client]);
        normalise(prior, inner->left_of, deal->classes);
    }
    free(alpha);
    return STATUS_OK;
}

static Status read_sizes(Inner *inner, const Deal *deal, Error *err) {
    double *sizes = NULL, sum = 0;
    bool given = *form_text(&deal->spec->form, 1) != '\0';
    if (given) TRY(deal_reals(&sizes, deal, 1, "sizes", err));
    for (uint32_t client = 0; client < deal->clients; client++) {
        inner->left[client] = given ? (uint32_t)sizes[client] : deal->samples / deal->clients;
        sum += inner->left[client];
        if (inner->left[client] > 0) inner->open[inner->open_count++] = client;
    }
    free(sizes);
    if (sum <= deal->samples) return STATUS_OK;
    return fail(err, STATUS_USAGE, "inner-dirichlet: the sizes make %.0f samples, and there are %u; give smaller ones",
                sum, deal->samples);
}

static uint32_t pick_class(const double *prior, double u, uint32_t classes) {
    double running = 0;
    uint32_t last = 0;
    for (uint32_t label = 0; label < classes; label++) {
        running += prior[label];
        if (prior[label] > 0) last = label;
        if (prior[label] > 0 && u < running) return label;
    }
    return last;
}

static void exhaust(Inner *inner, const Deal *deal, uint32_t label) {
    for (uint32_t client = 0; client < deal->clients; client++) {
        double *prior = inner->priors + (size_t)client * deal->classes;
        prior[label] = 0;
        normalise(prior, inner->left_of, deal->classes);
    }
}

// One sample after the other: a client that is not full, a class by its prior, that class's last unused sample.
static void pick_all(Inner *inner, Deal *deal, const ByClass *classes) {
    RngKey key = rng_key(deal->spec->seed, RNG_PARTITION, STREAM_PICKS, 0, 0);
    for (uint32_t pick = 0; inner->open_count > 0; pick++) {
        uint32_t place = rng_below(rng_block(key, pick, 0, 1, 0).word[0], inner->open_count);
        uint32_t client = inner->open[place];
        uint32_t label =
            pick_class(inner->priors + (size_t)client * deal->classes, deal_uniform(key, pick), deal->classes);
        deal->owner[classes->sorted[classes->first[label] + --inner->left_of[label]]] = client;
        if (inner->left_of[label] == 0) exhaust(inner, deal, label);
        if (--inner->left[client] == 0) inner->open[place] = inner->open[--inner->open_count];
    }
}

Status deal_inner_dirichlet(Deal *deal, Error *err) {
    ByClass classes;
    TRY(by_class_init(&classes, deal, err));
    Inner inner = {.priors = malloc((size_t)deal->clients * deal->classes * sizeof(double)),
                   .left = malloc(deal->clients * sizeof(uint32_t)),
                   .open = malloc(deal->clients * sizeof(uint32_t))};
    for (uint32_t label = 0; label < deal->classes; label++)
        inner.left_of[label] = class_size(&classes, label);
    Status status = STATUS_OK;
    if (!inner.priors || !inner.left || !inner.open)
        status = fail(err, STATUS_OS, "no memory for the proportions of %u clients", deal->clients);
    if (status == STATUS_OK) status = read_sizes(&inner, deal, err);
    if (status == STATUS_OK) status = draw_priors(&inner, deal, err);
    for (uint32_t label = 0; label < deal->classes && status == STATUS_OK; label++)
        if (inner.left_of[label] == 0) exhaust(&inner, deal, label);
    if (status == STATUS_OK) pick_all(&inner, deal, &classes);
    free(inner.open);
    free(inner.left);
    free(inner.priors);
    by_class_free(&classes);
    return status;
}
