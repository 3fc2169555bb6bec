#include "rule.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

void rule_form(char *text, size_t bytes, const RuleText *rule) {
    *text = '\0';
    text_add(text, bytes, "%s", rule->name);
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++) {
        const RuleNumber *number = &rule->numbers[n];
        text_add(text, bytes, " [%s=", number->name);
        for (int w = 0; w < RULE_WORDS && number->words[w]; w++)
            text_add(text, bytes, "%s%s", w ? "|" : "", number->words[w]);
        if (!number->words[0] && number->derived) text_add(text, bytes, "%s", number->derived);
        if (!number->words[0] && !number->derived) text_add(text, bytes, "%g", number->preset);
        text_add(text, bytes, "]");
    }
}

int rule_number_named(const RuleText *rule, const char *name, size_t bytes) {
    for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++) {
        const char *const names[] = {rule->numbers[n].name, rule->numbers[n].also};
        for (int i = 0; i < 2 && names[i]; i++)
            if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0) return n;
    }
    return -1;
}

double rule_number(const Chosen *chosen, const RuleText *rule, const char *name) {
    const int n = rule_number_named(rule, name, strlen(name));
    return n < 0 ? NAN : chosen->number[n];
}
