// Any attack and attackers, with a '|' between them: accepted ones change no label to one that is not there, and no
// more clients attack than there are. The first two bytes are classes and clients.
#include "fuzz.h"

#include <math.h>

#include "fedavg/rules/attack/attack_rules.h"

static void attack_labels_of(const Chosen *attack, int classes) {
    enum { MOST_CLASSES = 256 };
    const double *number = attack->number;
    uint16_t label_of[MOST_CLASSES];
    for (int n = ATTACK_LABEL_FROM; n <= ATTACK_LABEL_TO; n++)
        if (number[n] >= classes) return; // which the program refuses
    attack_labels(label_of, classes, attack);
    for (int label = 0; label < classes; label++)
        must(label_of[label] < classes);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    if (bytes < 2) return 0;
    Chosen attack;
    Error err = {.message = ""};
    uint8_t attackers[256] = {0};
    const uint32_t clients = input[1] + 1u;
    char *text = text_of(input + 2, bytes - 2), *who = strchr(text, '|');
    if (who) *who++ = '\0';
    if (refused_with_a_sentence(attack_parse(&attack, text, &err), &err) == STATUS_OK) {
        must(attack.row > ATTACK_NONE && attack.row < ATTACK_RULE_COUNT);
        if (attack_is_on_labels(&attack)) attack_labels_of(&attack, input[0] + 1);
        float weights[2] = {1, -2}, global[2] = {0.5f, 0};
        const AttackTurn turn = {.seed = 1, .round = 1, .client = 0, .share = 0.5};
        attack_update(weights, global, 2, &attack, &turn);
    }
    if (who && refused_with_a_sentence(attack_choose(NULL, who, clients, 1, &err), &err) == STATUS_OK) {
        must(attack_choose(attackers, who, clients, 1, &err) == STATUS_OK);
        for (uint32_t i = 0; i < sizeof attackers; i++)
            must(attackers[i] <= (i < clients));
    }
    free(text);
    return 0;
}
