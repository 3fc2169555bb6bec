// Part of recipe.h: reads the text of an algorithm, and refuses pairs and numbers that do not go together.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "fedavg/algorithm/clashes.h"
#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/rule_text.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"

// Three parts are called send; the first of them is found, and read_part goes through the others.
static int part_named(const char *word) {
    for (int part = 0; part < PART_COUNT; part++)
        if (strcmp(part_names[part], word) == 0) return part;
    return -1;
}

static bool share_name(Part a, Part b) {
    return strcmp(part_names[a], part_names[b]) == 0;
}

// Lists where a word that is misplaced has a meaning: "nesterov" is a server rule, and a choice of optimizer sgd.
static bool find_places(char places[256], const char *word) {
    *places = '\0';
    for (int part = 0; part < PART_COUNT; part++)
        for (uint32_t row = 0; part_rule((Part)part, row); row++) {
            const RuleText *rule = part_rule((Part)part, row);
            const int n = rule_number_named(rule, word, strlen(word));
            const char *const *words = n < 0 ? NULL : rule->numbers[n].words;
            const bool is_switch = words && words[0] && strcmp(words[0], "no") == 0;
            if (strcmp(rule->name, word) == 0)
                text_add(places, 256, "%s\"%s %s\"", *places ? " or " : "", part_names[part], word);
            else if (is_switch)
                text_add(places, 256, "%s\"%s %s %s=%s\"", *places ? " or " : "", part_names[part], rule->name, word,
                         words[1]);
        }
    return *places != '\0';
}

// An unknown or missing rule: lists all rules of the parts that have this name.
static Status refuse_rule(const RuleWords *of, Part part, Error *err) {
    char names[512] = "", places[256];
    Suggestion suggestion = {.typed = of->count > 1 ? of->words[1] : ""};
    for (int named = (int)part; named < PART_COUNT && share_name(part, (Part)named); named++)
        for (uint32_t row = 0; part_rule((Part)named, row); row++) {
            text_add(names, sizeof names, "%s%s", *names ? ", " : "", part_rule((Part)named, row)->name);
            suggestion_consider(&suggestion, part_rule((Part)named, row)->name);
        }
    if (of->count == 1) {
        fail(err, STATUS_USAGE, PART_FORMAT "which %s rule? There are %s", PART_ARGS(of), part_names[part], names);
        return rule_text_sketch(of, of->words[0], err);
    }
    if (find_places(places, of->words[1])) {
        fail(err, STATUS_USAGE, PART_FORMAT "no %s rule %.40s: write %s; the %s rules are %s", PART_ARGS(of),
             part_names[part], of->words[1], places, part_names[part], names);
        return rule_text_sketch(of, of->words[1], err);
    }
    fail(err, STATUS_USAGE, PART_FORMAT "no %s rule %.40s%s%s%s; there are %s", PART_ARGS(of), part_names[part],
         of->words[1], suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "",
         suggestion.best ? "?" : "", names);
    return rule_text_sketch(of, of->words[1], err);
}

// Names of algorithms are possible in the first part alone, so that only there they are suggested.
static Status refuse_name(const RuleWords *of, Error *err) {
    Suggestion suggestion = {.typed = of->words[0]};
    char places[256];
    if (find_places(places, of->words[0])) {
        fail(err, STATUS_USAGE, "%.60s: no such %s: write %s", of->words[0], of->number == 1 ? "algorithm" : "part",
             places);
        return rule_text_sketch(of, of->words[0], err);
    }
    for (size_t i = 0; i < zoo_algorithm_count && of->number == 1; i++)
        suggestion_consider(&suggestion, zoo_algorithms[i].name);
    for (int part = 0; part < PART_COUNT; part++)
        suggestion_consider(&suggestion, part_names[part]);
    const char *known =
        "the parts are local, optimizer, personal, send, mix, combine, release, server, schedule and stale";
    if (of->number == 1) known = "`sounder help algorithms` lists names and parts";
    fail(err, STATUS_USAGE, "%.60s: no such %s%s%s%s; %s", of->words[0], of->number == 1 ? "algorithm" : "part",
         suggestion.best ? ", did you mean " : "", suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "",
         known);
    return rule_text_sketch(of, of->words[0], err);
}

typedef struct Reader {
    Recipe *recipe;
    bool named[PART_COUNT];
} Reader;

// The rules of parts with one name have different names, so that the first row that fits is the right one. A part that
// is named again replaces the earlier choice with all its numbers: "fedadam; server momentum" is fedavgm.
static Status read_part(Reader *reader, const RuleWords *of, Part first, Error *err) {
    for (int part = (int)first; part < PART_COUNT && share_name(first, (Part)part); part++)
        for (uint32_t row = 0; of->count > 1 && part_rule((Part)part, row); row++) {
            const RuleText *rule = part_rule((Part)part, row);
            if (strcmp(rule->name, of->words[1]) != 0) continue;
            reader->named[part] = true;
            rule_choose(&reader->recipe->parts[part], rule, row);
            return rule_text_numbers(&reader->recipe->parts[part], rule, of, 2, err);
        }
    return refuse_rule(of, first, err);
}

// The part whose rule has the number that a word after an entry's name means. Parts that the entry names come first,
// then all others. -1 if no part has it. A number without a name is the first number of the entry's first part. The
// parts of the entry are preferred, because several rules have a number lr: "fedadam lr=0.03" means the server's.
static int part_with_number(const Reader *reader, const char *word) {
    const char *equals = strchr(word, '=');
    for (int others = 0; others <= (equals ? 1 : 0); others++)
        for (int part = 0; part < PART_COUNT; part++) {
            const RuleText *rule = part_rule((Part)part, reader->recipe->parts[part].row);
            if (reader->named[part] == (others != 0)) continue;
            if (equals ? rule_number_named(rule, word, (size_t)(equals - word)) >= 0 : rule->numbers[0].name != NULL)
                return part;
        }
    return -1;
}

static Status read_parts(Reader *reader, const char *text, Error *err);

static void numbers_of(char *text, size_t bytes, const Reader *reader) {
    *text = '\0';
    for (int part = 0; part < PART_COUNT; part++) {
        const RuleText *rule = part_rule((Part)part, reader->recipe->parts[part].row);
        for (int n = 0; reader->named[part] && n < RULE_NUMBERS && rule->numbers[n].name; n++)
            text_add(text, bytes, "%s%s", *text ? ", " : "", rule->numbers[n].name);
    }
    if (!*text) text_add(text, bytes, "none of its own");
}

// The text of the name is read as if it had been written there, then the words after the name change its numbers:
// "fedadam lr=0.03". Only the first word may leave out the number's name, since a second one would not say where it
// belongs.
static Status read_zoo(Reader *reader, const ZooAlgorithm *zoo, const RuleWords *of, Error *err) {
    if (*zoo->text) TRY(read_parts(reader, zoo->text, err));
    for (int w = 1; w < of->count; w++) {
        int part = w == 1 || strchr(of->words[w], '=') ? part_with_number(reader, of->words[w]) : -1;
        if (part < 0) {
            char has[256];
            numbers_of(has, sizeof has, reader);
            fail(err, STATUS_USAGE, PART_FORMAT "%s has no number \"%.*s\"; it has %s", PART_ARGS(of), zoo->name,
                 (int)strcspn(of->words[w], "="), of->words[w], has);
            return rule_text_sketch(of, of->words[w], err);
        }
        RuleWords single = *of;
        single.words[0] = single.split + (of->words[w] - of->split);
        single.count = 1;
        Chosen *chosen = &reader->recipe->parts[part];
        TRY(rule_text_numbers(chosen, part_rule((Part)part, chosen->row), &single, 0, err));
    }
    return STATUS_OK;
}

static Status read_name(Reader *reader, const RuleWords *of, Error *err) {
    for (size_t i = 0; i < zoo_algorithm_count && of->number == 1; i++)
        if (strcmp(of->words[0], zoo_algorithms[i].name) == 0) return read_zoo(reader, &zoo_algorithms[i], of, err);
    return refuse_name(of, err);
}

// A ';' separates parts and ends none: after the last one a part is expected.
static Status read_parts(Reader *reader, const char *text, Error *err) {
    for (RuleWords of = {.whole = text, .number = 1};; text++, of.number++) {
        size_t length = strcspn(text, ";");
        TRY(rule_text_split(&of, text, length, err));
        int part = part_named(of.words[0]);
        TRY(part >= 0 ? read_part(reader, &of, (Part)part, err) : read_name(reader, &of, err));
        text += length;
        if (!*text) return STATUS_OK;
    }
}

static Status check_pairs(const Recipe *recipe, Error *err) {
    Traits traits = {0};
    Clash clash;
    char one[TRAIT_RULE_BYTES], other[TRAIT_RULE_BYTES];
    recipe_traits(&traits, recipe);
    if (!clash_among(&clash, &traits, TRAIT_NONE)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s does not go with %s: %s", trait_rule(one, clash.sides[0], recipe),
                trait_rule(other, clash.sides[1], recipe), clash.why);
}

// A turn has steps / fragments steps, at least one; a delay ends before the turn does.
static Status check_fragments(const double *number, Error *err) {
    const double steps = number[ROUNDS_STEPS], fragments = number[ROUNDS_FRAGMENTS], delay = number[ROUNDS_DELAY];
    if (isnan(fragments) && (delay > 0 || !isnan(number[ROUNDS_MIX])))
        return fail(err, STATUS_USAGE, "schedule rounds %s=%g: needs fragments=, the parts of the model that travel",
                    delay > 0 ? "delay" : "mix", delay > 0 ? delay : number[ROUNDS_MIX]);
    if (isnan(fragments)) return STATUS_OK;
    if (isnan(steps) || steps < fragments)
        return fail(err, STATUS_USAGE,
                    "schedule rounds fragments=%g: needs steps=, at least %g: each fragment travels "
                    "once in as many steps",
                    fragments, fragments);
    if (delay > floor(steps / fragments))
        return fail(err, STATUS_USAGE,
                    "schedule rounds delay=%g: a turn of steps=%g and fragments=%g has %g steps; "
                    "lower it",
                    delay, steps, fragments, floor(steps / fragments));
    if (number[ROUNDS_WARMUP] > 0)
        return fail(err, STATUS_USAGE,
                    "schedule rounds warmup=%g: does not go with fragments; leave one of the two out",
                    number[ROUNDS_WARMUP]);
    return STATUS_OK;
}

// Refuses numbers of a part that contradict each other; a table of pairs cannot express these.
static Status check_numbers(const Recipe *recipe, Error *err) {
    const RuleText *code = part_rule(PART_CODE, recipe->code.row);
    const int decay = rule_number_named(code, "decay", strlen("decay"));
    if (decay >= 0 && recipe->code.number[decay] != code->numbers[decay].preset && !send_feeds_back(&recipe->code))
        return fail(err, STATUS_USAGE, "send %s decay=%g: needs feedback=yes, of whose leftover it is a part",
                    code->name, recipe->code.number[decay]);
    const Chosen *schedule = &recipe->schedule;
    const double k = schedule->number[BUFFERED_K], m = schedule->number[BUFFERED_M];
    if (recipe_engine(recipe) == ENGINE_ROUNDS && schedule->number[ROUNDS_WARMUP] > 0 && !walk_by_steps(schedule))
        return fail(err, STATUS_USAGE, "schedule rounds warmup=%g: needs steps=, the steps of the rounds after it",
                    schedule->number[ROUNDS_WARMUP]);
    if (recipe_engine(recipe) == ENGINE_ROUNDS) TRY(check_fragments(schedule->number, err));
    if (!engine_facts[recipe_engine(recipe)].buffers) return STATUS_OK;
    if (k > m)
        return fail(err, STATUS_USAGE,
                    "schedule buffered: K=%g updates make a step, but only M=%g clients train at a "
                    "time; lower K or raise M",
                    k, m);
    if (!isnan(schedule->number[BUFFERED_LAG]) && !isnan(k))
        return fail(err, STATUS_USAGE, "schedule buffered: K follows from lag; leave one of the two out");
    if (schedule->number[BUFFERED_MIXES] == MIXES_MODELS && k != 1)
        return fail(err, STATUS_USAGE, "schedule buffered: mixes=models takes one client's model at a time; add K=1");
    return STATUS_OK;
}

// Every part has a rule from the start, the first of its table, so that a text names only what differs from FedAvg.
// Pairs are checked when all parts are read: their order in the text does not matter.
Status recipe_parse(Recipe *recipe, const char *text, Error *err) {
    Reader reader = {.recipe = recipe};
    if (strlen(text) >= RECIPE_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "an algorithm's text has at most %d bytes", RECIPE_TEXT_BYTES - 1);
    for (int part = 0; part < PART_COUNT; part++)
        rule_choose(&recipe->parts[part], part_rule((Part)part, 0), 0);
    if (!text[strspn(text, " \t\n")]) return fail(err, STATUS_USAGE, "empty; write a name or parts, such as fedavg");
    TRY(read_parts(&reader, text, err));
    TRY(check_pairs(recipe, err));
    return check_numbers(recipe, err);
}

static bool names_part(const char *text, Part part) {
    const size_t length = strlen(part_names[part]);
    for (const char *at = text; at; at = strchr(at, ';')) {
        at += strspn(at, "; \t\n");
        if (strncmp(at, part_names[part], length) == 0 && strchr(" \t\n", at[length])) return true;
    }
    return false;
}

// With other numbers than its row's the optimizer was meant, and the clash with a trainer says so.
void recipe_leave_optimizer(Recipe *recipe, const char *text) {
    Chosen presets;
    const uint32_t row = recipe->optimizer.row;
    rule_choose(&presets, part_rule(PART_OPTIMIZER, row), row);
    if (!names_part(text, PART_OPTIMIZER) && memcmp(&presets, &recipe->optimizer, sizeof presets) == 0)
        rule_choose(&recipe->optimizer, part_rule(PART_OPTIMIZER, 0), 0);
}

// The first word of a text, for messages. A part's word alone says too little, so that its rule is added ("server
// momentum").
const char *recipe_name(char name[RECIPE_TEXT_BYTES], const char *text) {
    text += strspn(text, " \t\n");
    size_t bytes = strcspn(text, " \t\n;"), more = 0;
    snprintf(name, RECIPE_TEXT_BYTES, "%.*s", (int)bytes, text);
    if (part_named(name) < 0) return name;
    more = bytes + strspn(text + bytes, " \t\n");
    more += strcspn(text + more, " \t\n;");
    snprintf(name, RECIPE_TEXT_BYTES, "%.*s", (int)more, text);
    return name;
}
