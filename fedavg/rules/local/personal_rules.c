#include "personal_rules.h"

#include <math.h>
#include <string.h>

#include "nn/layers/layer.h"

#define LAYERS_NUMBER                                                                                                  \
    { .name = "layers", .preset = 1, .minimum = 1, .maximum = 64, .whole = true }

const RuleText personal_rules[PERSONAL_COUNT] = {
    [PERSONAL_NONE] = {"none", "all clients share one model", "McMahan et al., AISTATS 2017", {{0}}},
    [PERSONAL_DITTO] = {"ditto",
                        "each client trains a second model, pulled to the global one",
                        "Li, Hu, Beirami, Smith, ICML 2021, Algorithm 1",
                        {{.name = "lambda", .preset = 1, .minimum = 0, .maximum = 1000},
                         {.name = "epochs",
                          .preset = NAN,
                          .minimum = 1,
                          .maximum = 100000,
                          .derived = "--local-epochs",
                          .whole = true}}},
    [PERSONAL_MOREAU] = {"moreau",
                         "for each batch a second model, which begins each round as the global one, makes STEPS "
                         "steps, pulled to the client's copy of the global one, which then follows it",
                         "Dinh, Tran, Nguyen, NeurIPS 2020, Algorithm 1 (pFedMe)",
                         {{.name = "lambda", .preset = 15, .minimum = 0, .maximum = 100000},
                          {.name = "steps", .preset = 5, .minimum = 1, .maximum = 100000, .whole = true},
                          {.name = "lr", .preset = 0.09, .minimum = 0, .maximum = 1000}}},
    [PERSONAL_HEAD] = {"head",
                       "the last layers with parameters stay with the client",
                       "Arivazhagan et al. 2019 (FedPer)",
                       {LAYERS_NUMBER}},
    [PERSONAL_BODY] = {"body",
                       "all but the last layers with parameters stay with the client",
                       "Liang et al. 2020 (LG-FedAvg)",
                       {LAYERS_NUMBER}},
    [PERSONAL_ALTERNATE] = {"alternate",
                            "the head stays with the client and is trained alone first, then the body alone",
                            "Collins, Hassani, Mokhtari, Shakkottai, ICML 2021 (FedRep)",
                            {{.name = "head-epochs", .preset = 10, .minimum = 0, .maximum = 100000, .whole = true},
                             LAYERS_NUMBER}},
    [PERSONAL_NORMS] = {"norms", "normalisation layers stay with the client", "Li et al., ICLR 2021 (FedBN)", {{0}}},
    [PERSONAL_ALL] = {"all", "nothing is sent: every client trains for itself", "the baseline of all of these", {{0}}},
    [PERSONAL_TENSORS] = {"tensors",
                          "some tensors stay with the client, by name or pattern: names=head.*,norm?.weight",
                          "Arivazhagan et al. 2019 (FedPer), for any part of a net",
                          {{.name = "names", .derived = "PATTERN,...", .names = true}}},
    [PERSONAL_FIXED_HEAD] = {"fixed-head",
                             "the head stays as it was initialised, and only the body is trained and sent; for its "
                             "test a client fine-tunes a copy of the model",
                             "Oh, Kim, Yun, ICLR 2022 (FedBABU)",
                             {{.name = "epochs", .preset = 10, .minimum = 1, .maximum = 100000, .whole = true},
                              {.name = "tunes", .words = {"all", "head"}},
                              LAYERS_NUMBER}},
    [PERSONAL_MIXED] = {"mixed",
                        "a client's model is alpha times one of its own and 1 - alpha times the shared one; on every "
                        "batch the shared one steps as in FedAvg, its own one by plain SGD, and alpha by its gradient",
                        "Deng, Kamani, Mahdavi 2020, Algorithm 1 (APFL)",
                        {{.name = "alpha", .preset = 0.5, .minimum = 0, .maximum = 1},
                         {.name = "adapts", .words = {"yes", "no"}},
                         {.name = "decay", .preset = 0.02, .minimum = 0, .maximum = 1000}}},
    [PERSONAL_CLUSTERS] =
        {"clusters",
         "the server has CLUSTERS models; each client trains, and is tested with, the one that has "
         "the least loss on its training samples, and every model moves by the mean of its clients; "
         "the one of most clients is tested as the global model",
         "Ghosh, Chung, Yin, Ramchandran, NeurIPS 2020, Algorithm 1 (IFCA)",
         {{.name = "clusters", .preset = 2, .minimum = 1, .maximum = PERSONAL_MOST_CLUSTERS, .whole = true}}},
    [PERSONAL_FIXED] = {"fixed",
                        "some tensors stay as they were initialised, by name or pattern, as with --freeze",
                        "Sun, Li, Li, Ding, ICLR 2024 (FFA-LoRA), for any part of a net",
                        {{.name = "names", .derived = "PATTERN,...", .names = true}}},
};

// A second model is as large as the net; a mixed one has its alpha besides. Parameters that stay are stored run after
// run, without gaps. All clients share a fixed head.
uint64_t personal_floats(const PersonalPlan *plan, uint64_t parameters) {
    uint64_t floats = 0;
    if (plan->tune_epochs > 0) return 0;
    for (uint32_t r = 0; r < plan->run_count; r++)
        floats += plan->runs[r].end - plan->runs[r].first;
    return plan->second ? parameters + plan->mixes : floats;
}

// The first parameter of the last `count` layers with parameters.
static Status find_head(uint64_t *first, const Spec *spec, double count, const char *rule, Error *err) {
    int with_parameters = 0;
    for (int l = spec->layer_count - 1; l >= 0; l--) {
        if (!layer_has_parameters(&spec->layers[l])) continue;
        *first = spec->layers[l].weight;
        if (++with_parameters == (int)count) return STATUS_OK;
    }
    return fail(err, STATUS_USAGE, "personal %s layers=%g: the net has only %d layers with parameters", rule, count,
                with_parameters);
}

// The module of a tensor is its name up to the last dot. Returns that length.
static int module_length(const ParameterTensor *tensor) {
    const char *dot = strrchr(tensor->name, '.');
    return dot ? (int)(dot - tensor->name) : 0;
}

// The first parameter of the last `count` modules of a net without layers.
static Status find_last_modules(uint64_t *first, const TensorList *list, double count, const char *rule, Error *err) {
    int modules = 0;
    for (int t = list->count - 1; t >= 0; t--) {
        const ParameterTensor *tensor = &list->tensors[t], *next = tensor + 1;
        const int length = module_length(tensor);
        if (t == list->count - 1 || length != module_length(next) || strncmp(tensor->name, next->name, (size_t)length))
            modules++;
        if (modules > (int)count) return STATUS_OK;
        *first = tensor->first;
    }
    if (modules == (int)count) return STATUS_OK;
    return fail(err, STATUS_USAGE, "personal %s layers=%g: the net has only %d modules with tensors", rule, count,
                modules);
}

static void stay(PersonalPlan *plan, uint64_t first, uint64_t end) {
    PersonalRun *last = &plan->runs[plan->run_count];
    if (plan->run_count > 0 && last[-1].end == first)
        last[-1].end = end;
    else if (end > first)
        plan->runs[plan->run_count++] = (PersonalRun){first, end};
}

// FedBN keeps all that normalisation layers learn, scale, shift and running statistics alike, wherever they are in the
// net.
static Status find_norms(PersonalPlan *plan, const Spec *spec, Error *err) {
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (layer_has(layer, NORMALISES)) stay(plan, layer->weight, layer->weight + layer_parameters(layer));
    }
    if (plan->run_count > 0) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "personal norms: the net has no normalisation layers that could stay with a client; take one that has some "
        "(groupnorm, layernorm, batchnorm), such as resnet8");
}

// A trainer's net has no layers that the engine knows, only tensors with names: so its personal part is given by these.
static Status find_tensors(PersonalPlan *plan, const Chosen *chosen, const TensorList *list, Error *err) {
    bool fits[TENSORS_MOST] = {false};
    Error why;
    if (!chosen->names[0])
        return fail(err, STATUS_USAGE, "personal tensors: which ones? Write names or patterns, such as names=head.*");
    const Status status = tensors_fitting(fits, list, chosen->names, &why);
    if (status != STATUS_OK) return fail(err, status, "personal tensors names=%s: %s", chosen->names, why.message);
    for (int t = 0; t < list->count; t++)
        if (fits[t]) stay(plan, list->tensors[t].first, list->tensors[t].first + list->tensors[t].count);
    return STATUS_OK;
}

// Above these limits the inner steps, or the outer one, would diverge: |1 - lambda lr| must be below 1 for the inner
// model, and the outer step must not pass its target.
static Status check_moreau(const PersonalPlan *plan, const Training *training, Error *err) {
    if (plan->lambda * plan->inner_lr < 2 && plan->lambda * (double)training->sgd.lr < 1) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "personal moreau lambda=%g does not go with lr=%g and --lr %g: its steps would go ever further; the products "
        "must be below 2 and 1",
        plan->lambda, plan->inner_lr, (double)training->sgd.lr);
}

// The first parameter of the last `count` layers. The layers before them have the other part in the rule: nothing is
// sent, stays or is trained if there are none. Old runs of small nets of the engine are still resumed like this.
static Status find_last(uint64_t *first, const Spec *spec, const TensorList *tensors, double count, uint32_t row,
                        Error *err) {
    static const char *const lost[] = {[PERSONAL_HEAD] = "to be sent",
                                       [PERSONAL_BODY] = "to stay with the client",
                                       [PERSONAL_ALTERNATE] = "to be trained after the head",
                                       [PERSONAL_FIXED_HEAD] = "to be trained"};
    const char *rule = personal_rules[row].name;
    TRY(spec->layer_count > 0 ? find_head(first, spec, count, rule, err)
                              : find_last_modules(first, tensors, count, rule, err));
    const bool may_lack = spec->layer_count > 0 && row != PERSONAL_FIXED_HEAD;
    if (*first > 0 || may_lack) return STATUS_OK;
    return fail(err, STATUS_USAGE, "personal %s layers=%g: no module is left %s; lower it, or take a net of more", rule,
                count, lost[row]);
}

// A head that is fixed, on a body that is frozen, would be a run in which nothing is trained.
static Status check_body(uint64_t end, const TensorList *tensors, Error *err) {
    for (int t = 0; t < tensors->count; t++)
        if (tensors->tensors[t].first < end && !tensors->tensors[t].frozen && !tensors->tensors[t].follows)
            return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "personal fixed-head: --freeze names every tensor of the body, and the head stays as "
                "it was initialised: nothing would be trained; leave one, or take fedper");
}

// A rule is of one of two kinds: it plans a second model, or it names the parameters that stay. FedPer and FedRep keep
// the last layers, LG-FedAvg all others.
static Status find_runs(PersonalPlan *plan, const Chosen *chosen, const Spec *spec, const TensorList *tensors,
                        const Training *training, Error *err) {
    *plan = (PersonalPlan){0};
    switch (chosen->row) {
    case PERSONAL_DITTO:
        plan->second = 1;
        plan->lambda = chosen->number[0];
        plan->epochs = isnan(chosen->number[1]) ? training->local_epochs : (uint32_t)chosen->number[1];
        if (plan->lambda * (double)training->sgd.lr >= 1)
            return fail(
                err, STATUS_USAGE,
                "personal ditto lambda=%g does not go with --lr %g: a step would go beyond the global model; their "
                "product must be below 1",
                plan->lambda, (double)training->sgd.lr);
        return STATUS_OK;
    case PERSONAL_MOREAU:
        plan->second = 1;
        plan->lambda = chosen->number[0];
        plan->inner = (uint32_t)chosen->number[1];
        plan->inner_lr = chosen->number[2];
        return check_moreau(plan, training, err);
    case PERSONAL_MIXED:
        plan->second = plan->mixes = 1;
        plan->alpha = (float)chosen->number[0];
        plan->adapts = chosen->number[1] == 0;
        plan->alpha_decay = chosen->number[2];
        return STATUS_OK;
    case PERSONAL_CLUSTERS: // shares within a cluster, and clusters without clients that stay, are FedJAX's (HypCluster)
        plan->clusters = (uint32_t)chosen->number[0];
        return STATUS_OK;
    case PERSONAL_HEAD:
        plan->end = spec->parameter_count;
        return find_last(&plan->first, spec, tensors, chosen->number[0], chosen->row, err);
    case PERSONAL_BODY:
        return find_last(&plan->end, spec, tensors, chosen->number[0], chosen->row, err);
    case PERSONAL_ALTERNATE:
        plan->alternates = 1;
        plan->epochs = (uint32_t)chosen->number[0];
        plan->end = spec->parameter_count;
        return find_last(&plan->first, spec, tensors, chosen->number[1], chosen->row, err);
    case PERSONAL_FIXED_HEAD: // as FedRep without a turn of the head; defaults and what is tuned are PFLlib's
        plan->alternates = 1;
        plan->tune_epochs = (uint32_t)chosen->number[0];
        plan->tunes_head = chosen->number[1] != 0;
        plan->end = spec->parameter_count;
        TRY(find_last(&plan->first, spec, tensors, chosen->number[2], chosen->row, err));
        return check_body(plan->first, tensors, err);
    case PERSONAL_TENSORS:
        return find_tensors(plan, chosen, tensors, err);
    case PERSONAL_NORMS:
        return find_norms(plan, spec, err);
    case PERSONAL_ALL:
        plan->end = spec->parameter_count;
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

Status personal_plan(PersonalPlan *plan, const Chosen *chosen, const Spec *spec, const TensorList *tensors,
                     const Training *training, Error *err) {
    TRY(find_runs(plan, chosen, spec, tensors, training, err));
    stay(plan, plan->first, plan->end);
    return STATUS_OK;
}

void personal_travelling(bool *travels, const PersonalPlan *plan, const TensorList *list) {
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        travels[t] = !tensor->frozen;
        for (uint32_t r = 0; r < plan->run_count; r++)
            if (tensor->first >= plan->runs[r].first && tensor->first < plan->runs[r].end) travels[t] = false;
    }
}
