#include "attack_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/client_list.h"

// Two kinds of attacks differ in what they need. Most need the attacker's own samples or update alone and run in the
// worker that trains it (attack_labels, attack_update). Crafted ones need the updates of others, which only the parent
// has, when the round is over (crafted.h).

// The updates that attackers know: those of all honest clients, or those that they have trained themselves.
#define CRAFTED_KNOWLEDGE                                                                                              \
    {                                                                                                                  \
        .name = "knowledge", .words = { "all", "own" }                                                                 \
    }

const RuleText attack_rules[ATTACK_RULE_COUNT] = {
    [ATTACK_NONE] = {"none", "nobody attacks", "", {{0}}},
    [ATTACK_LABEL_FLIP] =
        {"label-flip",
         "attackers train on label TO instead of FROM, or instead of all but EXCEPT",
         "Fang, Cao, Jia, Gong, USENIX Security 2020",
         {{.name = "from", .preset = NAN, .minimum = 0, .maximum = UINT16_MAX, .derived = "all", .whole = true},
          {.name = "to",
           .preset = NAN,
           .minimum = 0,
           .maximum = UINT16_MAX,
           .derived = "classes-1-label",
           .whole = true},
          {.name = "except", .preset = NAN, .minimum = 0, .maximum = UINT16_MAX, .derived = "none", .whole = true}}},
    [ATTACK_SIGN_FLIP] = {"sign-flip",
                          "attackers hand in -SCALE times their update",
                          "Li, Xu, Chen, Giannakis, Ling, AAAI 2019",
                          {{.name = "scale", .preset = 1, .minimum = 0, .maximum = 1e6}}},
    [ATTACK_SCALED] = {"scaled",
                       "attackers hand in FACTOR times their update; 1/share: the mean has all of it",
                       "Bagdasaryan, Veit, Hua, Estrin, Shmatikov, AISTATS 2020",
                       {{.name = "factor", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "1/share"}}},
    [ATTACK_GAUSSIAN] = {"gaussian",
                         "attackers hand in normal numbers as their update",
                         "Blanchard, El Mhamdi, Guerraoui, Stainer, NIPS 2017",
                         {{.name = "mean", .preset = 0.1, .minimum = -1000, .maximum = 1000},
                          {.name = "deviation", .preset = 0.1, .minimum = 0, .maximum = 1000}}},
    [ATTACK_ZERO] = {"zero", "attackers hand in a model whose weights are all 0", "FedML's Byzantine mode zero", {{0}}},
    [ATTACK_FREE_RIDER] = {"free-rider",
                           "attackers return the global model, with normal numbers of deviation NOISE round^-DECAY "
                           "on it",
                           "Fraboni, Vidal, Lorenzi, AISTATS 2021",
                           {{.name = "noise", .preset = 0, .minimum = 0, .maximum = 1000},
                            {.name = "decay", .preset = 1, .minimum = 0, .maximum = 100}}},
    [ATTACK_ALIE] =
        {"alie",
         "a little is enough: attackers hand in the mean of the updates minus Z standard deviations, so few "
         "that some honest ones are further off",
         "Baruch, Baruch, Goldberg, NeurIPS 2019",
         {{.name = "z", .preset = NAN, .minimum = -100, .maximum = 100, .derived = "the cohort"}, CRAFTED_KNOWLEDGE}},
    [ATTACK_IPM] = {"ipm",
                    "attackers hand in -EPSILON times the mean of the honest updates, which turns their inner product "
                    "with the true mean",
                    "Xie, Koyejo, Gupta, UAI 2019",
                    {{.name = "epsilon", .preset = 0.5, .minimum = 0, .maximum = 1e6}}},
    [ATTACK_MIN_MAX] =
        {"min-max",
         "attackers hand in the mean minus as many standard deviations as keep it as near to all updates "
         "as two of them are to each other",
         "Shejwalkar, Houmansadr, NDSS 2021",
         {CRAFTED_KNOWLEDGE}},
    [ATTACK_MIN_SUM] = {"min-sum",
                        "as min-max, by sums of squared distances",
                        "Shejwalkar, Houmansadr, NDSS 2021",
                        {CRAFTED_KNOWLEDGE}},
    [ATTACK_MIMIC] =
        {"mimic",
         "attackers copy the update of one honest client in all rounds: CLIENT, or the one furthest out in the "
         "first round along the direction in which the honest updates differ most; in rounds without that client, the "
         "furthest of the round",
         "Karimireddy, He, Jaggi, ICLR 2022",
         {{.name = "client",
           .preset = NAN,
           .minimum = 0,
           .maximum = UINT32_MAX,
           .derived = "furthest",
           .whole = true}}},
    [ATTACK_BACKDOOR] =
        {"backdoor",
         "attackers mark FRACTION of each batch with a white square in the upper left corner and label it TARGET; how "
         "many "
         "marked test images of other classes the model takes for that is the attack's success",
         "Gu, Dolan-Gavitt, Garg 2017; Bagdasaryan et al., AISTATS 2020",
         {[BACKDOOR_TARGET] = {.name = "target", .preset = 0, .minimum = 0, .maximum = UINT16_MAX, .whole = true},
          [BACKDOOR_FRACTION] = {.name = "fraction", .preset = 0.5, .minimum = 0, .maximum = 1},
          [BACKDOOR_SIZE] = {.name = "size", .preset = 5, .minimum = 1, .maximum = 1000, .whole = true},
          [BACKDOOR_FACTOR] = {.name = "factor", .preset = 1, .minimum = 0, .maximum = 1e6}}},
};

Status attack_parse(Chosen *attack, const char *text, Error *err) {
    TRY(rule_parse(attack, &attack_rules[ATTACK_LABEL_FLIP], ATTACK_RULE_COUNT - ATTACK_LABEL_FLIP, "attack", text,
                   err));
    attack->row += ATTACK_LABEL_FLIP;
    return STATUS_OK;
}

// Choosing who attacks ------------------------------------------------------------------------------------------------

Status attack_choose(uint8_t *attackers, const char *text, uint32_t clients, uint64_t seed, Error *err) {
    return client_choose(attackers, text, clients, rng_key(seed, RNG_ATTACK, 0, 0, 0), err); // no training has round 0
}

// Attacking -----------------------------------------------------------------------------------------------------------

// Pairs of label-flip: from -> to, or every label but `except`. Without `to`, a label becomes its mirror image, classes
// - 1 - label, as in the paper.
void attack_labels(uint16_t *label_of, int classes, const Chosen *attack) {
    const double from = attack->number[ATTACK_LABEL_FROM], to = attack->number[ATTACK_LABEL_TO];
    for (int label = 0; label < classes; label++) {
        const bool stays = (!isnan(from) && label != (int)from) || label == attack->number[ATTACK_LABEL_EXCEPT];
        label_of[label] = (uint16_t)(stays ? label : isnan(to) ? classes - 1 - label : (int)to);
    }
}

// Rounded to the nearest number, half upwards, for each batch by itself.
uint32_t attack_marked(const Chosen *attack, uint32_t count) {
    return attack->row == ATTACK_BACKDOOR ? (uint32_t)floor(attack->number[BACKDOOR_FRACTION] * count + 0.5) : 0;
}

uint32_t attack_others(uint32_t *others, const uint16_t *labels, uint32_t first, uint32_t count, const Chosen *attack) {
    uint32_t found = 0;
    for (uint32_t sample = first; sample < first + count; sample++)
        if (labels[sample] != attack->number[BACKDOOR_TARGET]) others[found++] = sample;
    return found;
}

// The update times a factor, exactly as trained if the factor is 1.
static void scale(float *weights, const float *global, size_t count, double factor) {
    for (size_t i = 0; i < count && factor != 1; i++)
        weights[i] = (float)((double)global[i] + factor * ((double)weights[i] - (double)global[i]));
}

// A normal number in place of the update of each weight, from a stream of the attacker's own.
static void draw(float *weights, const float *global, size_t count, double mean, double deviation,
                 const AttackTurn *turn) {
    const RngKey key = rng_key(turn->seed, RNG_ATTACK, turn->key, turn->client, 1);
    for (size_t i = 0; i < count; i++)
        weights[i] = (float)((double)global[i] + mean + deviation * rng_normal(key, (uint32_t)i));
}

// Attackers change weights and not updates: all code after them takes the result for that of an honest client. Random
// numbers are keyed by client and round, so that an attack repeats in a replay.
void attack_update(float *weights, const float *global, size_t count, const Chosen *attack, const AttackTurn *turn) {
    const double *number = attack->number;
    switch (attack->row) {
    case ATTACK_SIGN_FLIP:
        scale(weights, global, count, -number[0]);
        break;
    case ATTACK_SCALED:
        scale(weights, global, count, isnan(number[0]) ? 1 / turn->share : number[0]);
        break;
    case ATTACK_GAUSSIAN:
        draw(weights, global, count, number[0], number[1], turn);
        break;
    case ATTACK_ZERO:
        memset(weights, 0, count * sizeof *weights);
        break;
    case ATTACK_FREE_RIDER:
        memcpy(weights, global, count * sizeof *weights);
        if (number[0] > 0) draw(weights, global, count, 0, number[0] * pow(turn->round, -number[1]), turn);
        break;
    case ATTACK_BACKDOOR:
        scale(weights, global, count, number[BACKDOOR_FACTOR]);
        break;
    default: // label-flip, none and crafted attacks leave this update as it is
        break;
    }
}
