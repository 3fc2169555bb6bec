// Recipes: what the text of an algorithm means, and which texts are refused.
#include "fedavg/algorithm/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "tests/check.h"

static Recipe parsed(const char *text) {
    Recipe recipe;
    Error err;
    check_ok(recipe_parse(&recipe, text, &err));
    return recipe;
}

static void a_text_names_an_algorithm_or_parts_or_both(void **state) {
    (void)state;
    Recipe recipe = parsed("fedavg");
    assert_string_equal(recipe_rule(&recipe, PART_LOCAL), "sgd");
    assert_string_equal(recipe_rule(&recipe, PART_SERVER), "average");
    assert_true(recipe.server.number[0] == 1);
    recipe = parsed("fedadam lr=0.03 tau=1e-2; combine mean weights=uniform");
    assert_string_equal(recipe_rule(&recipe, PART_SERVER), "adam");
    const double numbers[] = {0.03, 0.9, 0.99, 1e-2, 0};
    assert_memory_equal(recipe.server.number, numbers, sizeof numbers);
    assert_true(recipe.combine.number[0] == 1);
    recipe = parsed("  combine nova ;server momentum 0.5 nesterov=yes ");
    assert_string_equal(recipe_rule(&recipe, PART_COMBINE), "nova");
    assert_true(recipe.server.number[0] == 0.5 && recipe.server.number[2] == 1);
    recipe = parsed("fedadam; server average"); // a part behind a name replaces its own
    assert_string_equal(recipe_rule(&recipe, PART_SERVER), "average");
    recipe = parsed("fedavgm weights=uniform"); // of a part that the name leaves as it is
    assert_true(recipe.combine.number[0] == 1);
    assert_int_equal(recipe_engine(&recipe), ENGINE_ROUNDS);
    recipe = parsed("send qsgd levels=15; send clip 2"); // several parts of one name, in any order
    assert_string_equal(recipe_rule(&recipe, PART_CLIP), "clip");
    assert_string_equal(recipe_rule(&recipe, PART_CODE), "qsgd");
    assert_true(recipe.clip.number[0] == 2 && recipe.code.number[0] == 15);
    recipe = parsed("top-k share=0.5; send whole"); // one of them behind a name replaces that one
    assert_string_equal(recipe_rule(&recipe, PART_CODE), "whole");
    recipe = parsed("hogwild");
    assert_int_equal(recipe_engine(&recipe), ENGINE_WILD);
    recipe = parsed("ssgd");
    assert_int_equal(recipe_engine(&recipe), ENGINE_LOCKSTEP);
}

static void a_mistake_is_shown_where_it_stands(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"fedprox mu=x", "fedprox mu=x\n           ^"},
        {"fedprox  nu=1", "fedprox  nu=1\n         ^^^^"},
        {"fedavg; servr adam", "fedavg; servr adam\n        ^^^^^"},
        {"fedavg;server adm", "fedavg;server adm\n              ^^^"},
        {"fedavg; server adam 2 nu=3", "fedavg; server adam 2 nu=3\n                      ^^^^"},
        {" fedavg; server", " fedavg; server\n         ^^^^^^"},
        {"fedavg; ;", "fedavg; ;\n        ^"},
        {"fedavg;", "fedavg;\n       ^"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        Recipe recipe;
        assert_int_equal(recipe_parse(&recipe, cases[i][0], &err), STATUS_USAGE);
        assert_string_equal(err.sketch, cases[i][1]);
    }
}

// Each text with its sentence, of which "..." leaves out the end.
static void refuse_all(const char *const cases[][2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        Recipe recipe;
        Error err;
        assert_int_equal(recipe_parse(&recipe, cases[i][0], &err), STATUS_USAGE);
        const char *more = strstr(cases[i][1], "..."); // the other rules of the table
        if (more)
            assert_memory_equal(err.message, cases[i][1], (size_t)(more - cases[i][1]));
        else
            assert_string_equal(err.message, cases[i][1]);
    }
}

static void a_text_that_is_none_is_refused_with_the_nearest_word(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"fedavgg",
         "fedavgg: no such algorithm, did you mean fedavg?; `sounder help algorithms` lists names and parts"},
        {"servr adam",
         "servr: no such algorithm, did you mean server?; `sounder help algorithms` lists names and parts"},
        {"fedavg; servr adam", "servr: no such part, did you mean server?; the parts are local, optimizer, personal, "
                               "send, mix, combine, release, server, schedule and stale"},
        {"fedavg; fedadam",
         "fedadam: no such part; the parts are local, optimizer, personal, send, mix, combine, release, server, "
         "schedule and stale"},
        {"server momentun",
         "part 1 (\"server momentun\"): no server rule momentun, did you mean momentum?; there are average, ..."},
        {"nesterov", "nesterov: no such algorithm: write \"optimizer sgd nesterov=yes\" or \"server momentum "
                     "nesterov=yes\" or \"server nesterov\""},
        {"server adamw", "part 1 (\"server adamw\"): no server rule adamw: write \"optimizer adamw\"; the server rules "
                         "are average, ..."},
        {"server", "part 1 (\"server\"): which server rule? There are average, ..."},
        {"send qsgd 2.5", "part 1 (\"send qsgd 2.5\"): levels=2.5: needs a whole number from 1 to 65535"},
        {"send top_k", "part 1 (\"send top_k\"): no send rule top_k, did you mean top-k?; there are unclipped, clip, "
                       "..."},
        {"ditto epochs=0.5", "part 1 (\"ditto epochs=0.5\"): epochs=0.5: needs a whole number from 1 to 100000"},
        {"fedrep head-epochs=0.5",
         "part 1 (\"fedrep head-epochs=0.5\"): head-epochs=0.5: needs a whole number from 0 to 100000"},
        {"fedper layers=1.5", "part 1 (\"fedper layers=1.5\"): layers=1.5: needs a whole number from 1 to 64"},
        {"server momentum bta=1", "part 1 (\"server momentum bta=1\"): momentum has no number \"bta\", did you mean "
                                  "beta?; write it as \"momentum [beta=0.9] [lr=1] [nesterov=no|yes]\""},
        {"server momentum 1 2", "part 1 (\"server momentum 1 2\"): momentum has no number \"2\"; write it as "
                                "\"momentum [beta=0.9] [lr=1] [nesterov=no|yes]\""},
        {"server momentum 2", "part 1 (\"server momentum 2\"): beta=2: needs a number from 0 to 1"},
        {"server momentum inf", "part 1 (\"server momentum inf\"): beta=inf: needs a number from 0 to 1"},
        {"server momentum nesterov=2", "part 1 (\"server momentum nesterov=2\"): nesterov=2: needs no or yes"},
        {"combine mean all",
         "part 1 (\"combine mean all\"): weights=all: needs samples, uniform, sqrt, log, told or tokens"},
        {"fedadam mu=1",
         "part 1 (\"fedadam mu=1\"): fedadam has no number \"mu\"; it has lr, beta1, beta2, tau, bias-correction, "
         "start"},
        {"fedavg 3", "part 1 (\"fedavg 3\"): fedavg has no number \"3\"; it has none of its own"},
        {"fedavg;", "part 2 is empty; write a part between two ';' and none after the last"},
        {";fedavg", "part 1 is empty; write a part between two ';' and none after the last"},
        {" ", "empty; write a name or parts, such as fedavg"},
        {"hogwild steps=1.5", "part 1 (\"hogwild steps=1.5\"): steps=1.5: needs a whole number from 1 to 1e+06"},
        {"easgd; send clip 1", "send clip does not go with local elastic: what a replica gives is exact"},
        {"easgd; server average",
         "local elastic does not go with server average: it needs the server rule of its name"},
        {"ssgd; optimizer adam",
         "schedule lockstep does not go with optimizer adam: its workers share one velocity, SGD's; for Adam on the "
         "mean gradient take schedule rounds steps=1 with server adam and --lr 1 (tools/from.md)"},
        {"hogwild; optimizer adamw",
         "schedule wild does not go with optimizer adamw: its workers write SGD's steps into one model"},
        {"hogwild; server adam", "schedule wild does not go with server adam: no clients come together there"},
    };
    refuse_all(cases, sizeof cases / sizeof *cases);
}

static void numbers_that_contradict_each_other_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"send qsgd decay=0.5", "send qsgd decay=0.5: needs feedback=yes, of whose leftover it is a part"},
        {"fedavg warmup=3", "schedule rounds warmup=3: needs steps=, the steps of the rounds after it"},
        {"schedule rounds fragments=2", "schedule rounds fragments=2: needs steps=, at least 2: each fragment travels "
                                        "once in as many steps"},
        {"diloco mix=0.5", "schedule rounds mix=0.5: needs fragments=, the parts of the model that travel"},
        {"streaming-diloco H=5", "schedule rounds delay=2: a turn of steps=5 and fragments=3 has 1 steps; lower it"},
        {"streaming-diloco warmup=3", "schedule rounds warmup=3: does not go with fragments; leave one of the two out"},
        {"streaming-diloco; send top-k",
         "schedule rounds does not go with send top-k: what is fed back is of another fragment; take feedback=no"},
    };
    refuse_all(cases, sizeof cases / sizeof *cases);
}

static void a_buffered_schedule_is_refused_where_updates_cannot_come_late(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"fedbuff; combine krum",
         "schedule buffered does not go with combine krum: its clients have to begin from one model"},
        {"scaffold; schedule buffered",
         "schedule buffered does not go with local scaffold: what its clients keep belongs to rounds of one model"},
        {"fedbuff; send clip; combine mean uniform; release gaussian",
         "schedule buffered does not go with release gaussian: its epsilon is that of rounds that are drawn"},
        {"fedbuff; send top-k",
         "schedule buffered does not go with send top-k: what is fed back belongs to a round; take feedback=no"},
        {"fedbuff; stale compensate",
         "stale compensate does not go with schedule buffered: it turns one step at a time; add K=1, without mixes"},
        {"dc-asgd steps=2",
         "stale compensate does not go with schedule buffered: what it turns is one gradient; add steps=1"},
        {"fedasync; stale compensate", "stale compensate does not go with schedule buffered: ..."},
        {"dc-asgd; optimizer adam", "stale compensate does not go with optimizer adam: only SGD's steps are gradients"},
        {"async-easgd K=2",
         "local elastic does not go with schedule buffered: a replica gives as it arrives, and goes on at once; write "
         "K=1 and steps= alone"},
        {"async-easgd dispatch=publish", "local elastic does not go with schedule buffered: ..."},
        {"async-easgd; stale poly", "stale poly does not go with local elastic: what a replica gives is never stale"},
        {"fedbuff; personal ditto", "schedule buffered does not go with personal ditto: ..."},
        {"fedbuff; send masked", "schedule buffered does not go with send masked: ..."},
        {"fedavg; stale poly",
         "stale poly does not go with schedule rounds: nothing is stale there; add schedule buffered"},
        {"fedbuff K=5 M=4",
         "schedule buffered: K=5 updates make a step, but only M=4 clients train at a time; lower K or raise M"},
        {"fedbuff K=5 lag=2", "schedule buffered: K follows from lag; leave one of the two out"},
        {"fedasync K=2", "schedule buffered: mixes=models takes one client's model at a time; add K=1"},
        {"fedbuff K=1.5", "part 1 (\"fedbuff K=1.5\"): K=1.5: needs a whole number from 1 to 1000"},
    };
    refuse_all(cases, sizeof cases / sizeof *cases);
}

static void every_entry_of_the_zoo_and_every_rule_can_be_read(void **state) {
    (void)state;
    for (size_t i = 0; i < zoo_algorithm_count; i++) {
        parsed(zoo_algorithms[i].name);
        if (*zoo_algorithms[i].text) parsed(zoo_algorithms[i].text);
    }
    for (int part = 0; part < PART_COUNT; part++)
        for (uint32_t row = 0; part_rule((Part)part, row); row++) {
            const RuleText *rule = part_rule((Part)part, row);
            char form[512];
            rule_form(form, sizeof form, rule);
            assert_non_null(strstr(form, rule->name));
            assert_true(*rule->help && *rule->source);
            for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++) {
                const RuleNumber *number = &rule->numbers[n];
                if (number->words[0] || isnan(number->preset)) continue;
                assert_true(number->minimum <= number->preset && number->preset <= number->maximum);
            }
        }
}

static void the_name_of_an_algorithm_is_its_first_word_or_its_first_rule(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"fedprox mu=1; server adam", "fedprox"},
                                           {" server  adam lr=1; combine nova", "server  adam"},
                                           {"fedavg;server adam", "fedavg"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[RECIPE_TEXT_BYTES];
        assert_string_equal(recipe_name(name, cases[i][0]) + strspn(name, " "), cases[i][1]);
    }
}

static void check_refused(const char *const cases[][2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        Recipe recipe;
        Error err;
        assert_int_equal(recipe_parse(&recipe, cases[i][0], &err), STATUS_USAGE);
        assert_string_equal(err.message, cases[i][1]);
    }
}

// Both sides are named.
static void parts_that_do_not_go_together_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"server scaffold", "server scaffold does not go with local sgd: it is the half of the local rule of its name"},
        {"local dyn", "local dyn does not go with server average: it needs the server rule of its name"},
        {"scaffold; server adam", "local scaffold does not go with server adam: it needs the server rule of its name"},
        {"secagg; combine bound 1", "send masked does not go with combine bound: the server may see the sum alone"},
        {"scaffold; combine median",
         "local scaffold does not go with combine median: its clients are averaged as they are"},
        {"feddyn; combine nova", "local dyn does not go with combine nova: its clients are averaged as they are"},
        {"scaffold; send top-k",
         "send top-k does not go with local scaffold: a client keeps one of the two; take feedback=no"},
        {"feddyn; send qsgd", "send qsgd does not go with local dyn: the server has to know the updates exactly"},
        {"fedper; send scaled-sign",
         "send scaled-sign does not go with personal head: a client keeps one of the two; take feedback=no"},
        {"send noise",
         "send noise does not go with send unclipped: its noise is a multiple of what updates are clipped to; add send "
         "clip"},
        {"send noise; send clip; send top-k",
         "send top-k does not go with send noise: what feeds back is not clipped, and "
         "nothing is private; take feedback=no"},
        {"local-dp; local scaffold; server scaffold",
         "send noise does not go with local scaffold: what its clients keep would be handed in without noise"},
        {"local-dp; local dyn; server dyn",
         "send noise does not go with local dyn: what its clients keep would be handed in without noise"},
        {"local-dp; send adaptive-clip", "send noise does not go with send adaptive-clip: whether an update was longer "
                                         "than the norm would be told without noise; take send clip"},
        {"local-dp; combine dga", "send noise does not go with combine dga: losses of clients would be told without "
                                  "noise; add combine mean uniform"},
        {"local-dp; personal clusters", "send noise does not go with personal clusters: which model fits a client best "
                                        "would be told without noise; take fedavg"},
        {"server vote", "server vote does not go with send whole: it counts signs; add send sign"},
        {"server vote; send sign",
         "server vote does not go with combine mean: votes count alike; add combine mean uniform"},
        {"release gaussian; combine mean uniform", "release gaussian does not go with send unclipped: its noise is a "
                                                   "multiple of what updates are clipped to; add send clip"},
        {"release gaussian; send clip",
         "release gaussian does not go with combine mean: a client that counts more than "
         "others would show; add combine mean uniform"},
        {"scaffold; send clip; release gaussian",
         "release gaussian does not go with local scaffold: what its clients keep would be released, too"},
        {"dp-ftrl; send adaptive-clip",
         "release tree does not go with send adaptive-clip: its noise belongs to one norm for all rounds"},
        {"dp-fedavg; send qsgd",
         "release gaussian does not go with send qsgd: what is decoded may be longer than what was clipped"},
        {"median; send masked", "send masked does not go with combine median: the server may see the sum alone"},
        {"qfedavg; send masked", "send masked does not go with combine qffl: the server may see the sum alone"},
        {"signsgd; send clip",
         "server vote does not go with send clip: signs have no length; leave send clip out, or add send noise"},
        {"ssgd; combine mean uniform",
         "schedule lockstep does not go with combine mean: its steps count by their samples; add combine mean samples"},
        {"ssgd; send clip", "schedule lockstep does not go with send clip: no clients come together there"},
    };
    check_refused(cases, sizeof cases / sizeof *cases);
}

static void updates_are_mixed_only_where_they_count_alike_and_lie_side_by_side(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"fedavg; mix buckets",
         "mix buckets does not go with combine mean: mixed updates count alike; add weights=uniform to it"},
        {"rfa; mix buckets",
         "mix buckets does not go with combine geometric: mixed updates count alike; add weights=uniform to it"},
        {"fednova; mix nearest",
         "mix nearest does not go with combine nova: that does not look at updates side by side"},
        {"dga; mix nearest", "mix nearest does not go with combine dga: mixed updates have no loss of their own"},
        {"fedavg weights=uniform; mix nearest; local scaffold; server scaffold",
         "mix nearest does not go with local scaffold: its clients are averaged as they are"},
        {"dp-fedavg; mix nearest",
         "mix nearest does not go with release gaussian: a client would be part of several updates"},
        {"secagg; mix buckets; combine mean uniform",
         "mix buckets does not go with send masked: the server may see the sum alone"},
        {"signsgd; mix buckets", "mix buckets does not go with server vote: it counts the signs of clients"},
        {"fedbuff; mix nearest; combine mean uniform",
         "mix nearest does not go with schedule buffered: its clients have to begin from one model"},
    };
    check_refused(cases, sizeof cases / sizeof *cases);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_names_an_algorithm_or_parts_or_both),
        cmocka_unit_test(a_mistake_is_shown_where_it_stands),
        cmocka_unit_test(a_text_that_is_none_is_refused_with_the_nearest_word),
        cmocka_unit_test(numbers_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_buffered_schedule_is_refused_where_updates_cannot_come_late),
        cmocka_unit_test(every_entry_of_the_zoo_and_every_rule_can_be_read),
        cmocka_unit_test(the_name_of_an_algorithm_is_its_first_word_or_its_first_rule),
        cmocka_unit_test(parts_that_do_not_go_together_are_refused),
        cmocka_unit_test(updates_are_mixed_only_where_they_count_alike_and_lie_side_by_side),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
