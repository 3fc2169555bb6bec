// --target NAME=VALUE: which figure it names, which way that goes, and what is refused.
#include "app/options/run_target.h"

#include <math.h>
#include <string.h>

#include "app/options/option_table.h"
#include "tests/check.h"

static Status read(Target *target, const char *text, const char *algorithm, bool has_trainer, Error *err) {
    static Options options;
    options_defaults(&options);
    assert_int_equal(recipe_parse(&options.recipe, algorithm, err), STATUS_OK);
    snprintf(options.algorithm, sizeof options.algorithm, "%s", algorithm);
    snprintf(options.target, sizeof options.target, "%s", text);
    strcpy(options.trainer, has_trainer ? "python3 trainer.py" : "");
    return target_read(target, &options, err);
}

static void a_target_names_a_figure_and_a_value(void **state) {
    (void)state;
    static const struct {
        const char *text, *algorithm;
        const char *key;
        double value;
    } cases[] = {{"accuracy=0.8", "fedavg", "test_accuracy", 0.8},
                 {"accuracy=80%", "fedavg", "test_accuracy", 0.8},
                 {"accuracy>0.8", "fedavg", "test_accuracy", 0.8},
                 {"accuracy=0.8", "ditto", "personal_accuracy", 0.8},
                 {"test_accuracy=0.8", "ditto", "test_accuracy", 0.8},
                 {"loss=0.5", "fedavg", "test_loss", 0.5},
                 {"loss<=0.5", "fedavg", "test_loss", 0.5},
                 {"loss=0.5", "ditto", "personal_loss", 0.5},
                 {"client-accuracy=0.7", "fedavg", "client_accuracy", 0.7},
                 {"client-loss=-2", "fedavg", "client_loss", -2},
                 {"personal-loss=1e-3", "ditto", "personal_loss", 1e-3}};
    Target target;
    Error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_ok(read(&target, cases[i].text, cases[i].algorithm, false, &err));
        char key[FIGURE_KEY_BYTES];
        run_figure_key(key, &target.figure);
        assert_true(target.given && target.value == cases[i].value);
        assert_string_equal(key, cases[i].key);
    }
    check_ok(read(&target, "", "fedavg", false, &err));
    assert_false(target.given);
}

static void a_value_is_read_from_the_text_alone(void **state) {
    (void)state;
    assert_true(target_value("personal-accuracy=80%") == 0.8 && target_value("perplexity<=20") == 20);
    assert_true(isnan(target_value("")) && isnan(target_value("0.8")) && isnan(target_value("loss=low")));
}

// A metric of such a name could not be named by --target.
static void no_metric_has_the_name_of_a_figure(void **state) {
    (void)state;
    Error err;
    char name[32];
    assert_string_equal(target_name(0), "loss=");
    for (size_t i = 0; target_name(i); i++) {
        char text[40];
        Target target;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(target_name(i), "="), target_name(i));
        snprintf(text, sizeof text, "%s>0.5", name);
        if (metric_name_check(name, &err) == STATUS_DATA) continue;
        // The engine's own figures of classes: a trainer's metric of that name is what --target means with a trainer.
        check_ok(read(&target, text, "fedavg", true, &err));
        assert_true(run_figure_is_metric(&target.figure) && strcmp(target.figure.metric, name) == 0);
        check_ok(read(&target, text, "fedavg", false, &err));
        assert_true(run_figure_has(&target.figure, FIGURE_OF_CLASSES));
    }
}

static void the_sign_of_a_metric_says_which_way_it_goes(void **state) {
    (void)state;
    Target target;
    Error err;
    check_ok(read(&target, "perplexity<20", "fedavg", true, &err));
    assert_true(run_figure_is_metric(&target.figure) && target.figure.falls && target.value == 20);
    assert_string_equal(target.figure.metric, "perplexity");
    assert_true(target_is_reached(&target, 19) && target_is_reached(&target, 20) && !target_is_reached(&target, 21));
    check_ok(read(&target, "recall >= 0.8", "fedavg", true, &err));
    assert_true(!target.figure.falls && target.value == 0.8);
    assert_string_equal(target.figure.metric, "recall");
    assert_true(target_is_reached(&target, 0.9) && !target_is_reached(&target, 0.7) &&
                !target_is_reached(&target, NAN));
}

static void what_is_no_target_is_refused_with_what_to_write(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool has_trainer;
        const char *sentence;
    } cases[] = {
        {"0.8", false,
         "--target 0.8: write NAME=VALUE, such as accuracy=0.8 or loss=0.5, and in quotes \"recall>0.8\" of a "
         "--trainer: a shell takes < and > for its own"},
        {"accuracy=80", false,
         "--target accuracy=80: an accuracy is above 0 and at most 1, or 100%; write accuracy=0.8 or accuracy=80%"},
        {"accuracy<0.8", false, "--target accuracy<0.8: a higher accuracy is better; write accuracy=0.8"},
        {"loss>0.8", false, "--target loss>0.8: a smaller loss is better; write loss=0.8"},
        {"loss=low", false, "--target loss=low: needs a number, such as loss=0.5"},
        {"loss=50%", false, "--target loss=50%: needs a number, such as loss=0.5"},
        {"acuracy=0.8", false,
         "--target acuracy=0.8: only the tests of a --trainer have figures of their own; did you mean accuracy?"},
        {"perplexity=20", true,
         "--target perplexity=20: whether more or less perplexity is better is not known; write \"perplexity>20\" "
         "(this or "
         "more) or \"perplexity<20\" (this or less)"},
        {"f1 score>2", true,
         "--target f1 score>2: a metric cannot be named \"f1 score\": a name is a letter, then letters, digits and _ - "
         ". "
         "/ @, at most 64 bytes"},
        {"personal-loss=2", false,
         "--target personal-loss=2: --algorithm fedavg trains no models of the clients' own; take accuracy, or "
         "client-accuracy for the global model on the clients' samples"}};
    Target target;
    Error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read(&target, cases[i].text, "fedavg", cases[i].has_trainer, &err), STATUS_USAGE);
        assert_string_equal(err.message, cases[i].sentence);
    }
    assert_int_equal(read(&target, "client-loss=2", "hogwild", false, &err), STATUS_USAGE);
    assert_string_equal(err.message,
                        "--target client-loss=2: --algorithm hogwild tests no clients; take accuracy or loss");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_names_a_figure_and_a_value),
        cmocka_unit_test(a_value_is_read_from_the_text_alone),
        cmocka_unit_test(no_metric_has_the_name_of_a_figure),
        cmocka_unit_test(the_sign_of_a_metric_says_which_way_it_goes),
        cmocka_unit_test(what_is_no_target_is_refused_with_what_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
