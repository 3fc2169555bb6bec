// Net texts that are refused: the sentence, the place in the text, and the limits.
#include "nn/spec.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static const Shape grey = {1, 28, 28};

#define CONV      "conv CHANNELS S [stride S] [pad S] [dilation S] [groups G] [nobias]"
#define ALL_WORDS "; use ALL" // ALL: the words of the grammar, see expected_sentence

static const struct {
    const char *text, *sentence;
} mistakes[] = {
    {"", "layer 1 is empty; write a layer between two ';' and none after the last"},
    {"relu;; linear 10", "layer 2 is empty; write a layer between two ';' and none after the last"},
    {"linear 10;", "layer 2 is empty; write a layer between two ';' and none after the last"},
    {"relu; konv 3 3", "layer 2 (\"konv 3 3\"): \"konv\" is no kind of layer (did you mean conv?)" ALL_WORDS},
    {"xyzzy", "layer 1 (\"xyzzy\"): \"xyzzy\" is no kind of layer" ALL_WORDS},
    {"leaky_relu", "layer 1 (\"leaky_relu\"): \"leaky_relu\" is no kind of layer (did you mean leakyrelu?)" ALL_WORDS},
    {"dense 10", "layer 1 (\"dense 10\"): \"dense\" is no kind of layer (did you mean linear?)" ALL_WORDS},
    {"conv 3 3; flatten; linear 10",
     "layer 2 (\"flatten\"): \"flatten\" is not needed: linear takes the values of any shape; leave it out"},
    {"conv 3", "layer 1 (\"conv 3\"): write it as \"" CONV "\""},
    {"conv 3 3 pad", "layer 1 (\"conv 3 3 pad\"): write it as \"" CONV "\""},
    {"conv 3 3 bad 1", "layer 1 (\"conv 3 3 bad 1\"): write it as \"" CONV "\""},
    {"relu 3", "layer 1 (\"relu 3\"): write it as \"relu\""},
    {"linear 10 10", "layer 1 (\"linear 10 10\"): write it as \"linear FEATURES [each] [nobias]\""},
    {"mean",
     "layer 1 (\"mean\"): the last layer gives 28 x 1 x 1 values, but there are 10 classes; end with \"linear 10\", "
     "or say that there are 28 by classes=28 in --data (help data)"},
    {"conv 4 3; last", "layer 2 (\"last\"): it takes a sequence, 1 x steps x values, not 4 x 26 x 26; put it behind an "
                       "embedding, an lstm, an attention, or images of one channel"},
    {"conv 4 3; chunk 1 3", "layer 2 (\"chunk 1 3\"): 3 parts do not divide the 4 channels; give a number that does"},
    {"conv 4 3; chunk 3 2", "layer 2 (\"chunk 3 2\"): COUNT is \"2\"; give a whole number from 3 to 1048576"},
    {"conv 4 3; shuffle 3", "layer 2 (\"shuffle 3\"): 3 groups do not divide the 4 channels; give a number that does"},
    {"conv 4 3; conv1d 4 3", "layer 2 (\"conv1d 4 3\"): it takes channels of one row, C x 1 x L, or rows that are "
                             "channels, 1 x C x L, not 4 x 26 x 26; use conv for images"},
    {"conv1d 4 29",
     "layer 1 (\"conv1d 4 29\"): the input of 1 row and 28 columns is smaller than the kernel of 1x29; use a "
     "smaller kernel or more padding; images that are stored in one row get their rows and columns by "
     "shape=1x28x28 in --data (help data)"},
    {"layernorm channels", "layer 1 (\"layernorm channels\"): of 1 x 28 x 28 values each would become its shift; leave "
                           "out \"channels\""},
    {"linear 10 relu linear 10 relu linear 10",
     "layer 1 (\"linear 10 relu linear 10 relu linear 10\"): too many words; layers are separated by ';'"},
    {"conv 0 3", "layer 1 (\"conv 0 3\"): CHANNELS is \"0\"; give a whole number from 1 to 1048576"},
    {"conv 3x 3", "layer 1 (\"conv 3x 3\"): CHANNELS is \"3x\"; give a whole number from 1 to 1048576"},
    {"conv 3 9; attention 2 causal; linear 10",
     "layer 2 (\"attention 2 causal\"): it takes a sequence, 1 x steps x values, not 3 x 20 x 20; put it behind an "
     "embedding, an lstm, an attention, or images of one channel"},
    {"conv 3 9; positions; linear 10", "layer 2 (\"positions\"): it takes a sequence, 1 x steps x values, not 3 x 20 x "
                                       "20; put it behind an embedding, an "
                                       "lstm, an attention, or images of one channel"},
    {"position_embedding 3", "layer 1 (\"position_embedding 3\"): \"position_embedding\" is no kind of layer (did you "
                             "mean positions?)" ALL_WORDS},
    {"linear 99999999999999999999",
     "layer 1 (\"linear 99999999999999999999\"): FEATURES is \"99999999999999999999\"; give a whole number from 1 "
     "to 1048576"},
    {"conv 3 3 pad 3",
     "layer 1 (\"conv 3 3 pad 3\"): a padding of 3x3 is too much for a kernel of 3x3; give at most 2x2"},
    {"conv 4 3; conv 6 3 groups 4", "layer 2 (\"conv 6 3 groups 4\"): 4 groups do not divide the input's 4 channels "
                                    "and the layer's 6; give a number that does"},
    {"conv 4 3 dilation 0", "layer 1 (\"conv 4 3 dilation 0\"): dilation is \"0\"; give a whole number from 1 to 255"},
    {"conv 4 3 groups 1 groups 1", "layer 1 (\"conv 4 3 groups 1 groups 1\"): write it as \"conv CHANNELS S [stride "
                                   "S] [pad S] [dilation S] [groups G] [nobias]\""},
    {"conv 4 3 dilation 14",
     "layer 1 (\"conv 4 3 dilation 14\"): the input of 28 rows and 28 columns is smaller than the kernel of 29x29; "
     "use a smaller kernel or more padding"},
    {"conv 4 3; groupnorm 3",
     "layer 2 (\"groupnorm 3\"): 3 groups do not divide the 4 channels; give a number that does"},
    {"conv 4 3; relu; add", "layer 3 (\"add\"): write it as \"add NAME\""},
    {"conv 4 3 as first; relu; add frist",
     "layer 3 (\"add frist\"): no layer before has the name \"frist\" (did you mean "
     "first?); write \"as frist\" behind the one that is meant"},
    {"conv 4 3 from a",
     "layer 1 (\"conv 4 3 from a\"): no layer before has the name \"a\"; write \"as a\" behind the one "
     "that is meant"},
    {"conv 4 3 as a; relu as a", "layer 2 (\"relu as a\"): layer 1 has the name \"a\" already; give another"},
    {"conv 4 3 as 1", "layer 1 (\"conv 4 3 as 1\"): \"1\" is no name; give a letter and up to 30 letters and digits"},
    {"conv 4 3 as a as b", "layer 1 (\"conv 4 3 as a as b\"): write it as \"" CONV "\""},
    {"conv 4 3 as a; conv 8 3; add a",
     "layer 3 (\"add a\"): 8 x 24 x 24 values and the 4 x 26 x 26 of \"a\" cannot be added"},
    {"conv 4 3 as a; conv 8 3; concat a",
     "layer 3 (\"concat a\"): 8 x 24 x 24 values and the 4 x 26 x 26 of \"a\" cannot be joined"},
    {"conv 4 3 as a; conv 4 3; mul a",
     "layer 3 (\"mul a\"): 4 x 24 x 24 values and the 4 x 26 x 26 of \"a\" cannot be multiplied"},
    {"avgpool 3 stride 2 ceil", "layer 1 (\"avgpool 3 stride 2 ceil\"): with ceil the last window reaches beyond the "
                                "28 x 28 values, and an average of "
                                "a part of a window is no layer here; give a stride that fits, or leave out \"ceil\""},
    {"groupnorm 1 eps 0", "layer 1 (\"groupnorm 1 eps 0\"): E is \"0\"; give a number from 1e-12 to below 1"},
    {"batchnorm momentum 1", "layer 1 (\"batchnorm momentum 1\"): M is \"1\"; give a number from 1e-09 to below 1"},
    {"conv 4 3 as a; relu; linear 10 from a", "no layer takes what layer 2 gives; give it a name (\"as NAME\") and "
                                              "take that by \"add NAME\", \"concat NAME\" or "
                                              "\"from NAME\", or leave it out"},
    {"dropout 1", "layer 1 (\"dropout 1\"): RATE is \"1\"; give a number from 0 to below 1"},
    {"dropout nan", "layer 1 (\"dropout nan\"): RATE is \"nan\"; give a number from 0 to below 1"},
    {"dropout2d -0.1", "layer 1 (\"dropout2d -0.1\"): RATE is \"-0.1\"; give a number from 0 to below 1"},
    {"pool 29", "layer 1 (\"pool 29\"): the input of 28 rows and 28 columns is smaller than the window of 29x29; use a "
                "smaller window or more padding"},
    {"pool 3 stride", "layer 1 (\"pool 3 stride\"): write it as \"pool S [stride S] [pad S] [ceil]\""},
    {"pool 3 pad 1 pad 1", "layer 1 (\"pool 3 pad 1 pad 1\"): write it as \"pool S [stride S] [pad S] [ceil]\""},
    {"pool 3 pad 2", "layer 1 (\"pool 3 pad 2\"): a padding of 2x2 is too much for a window of 3x3; give at most 1x1"},
    {"avgpool 3 stride 0", "layer 1 (\"avgpool 3 stride 0\"): stride is \"0\"; give a whole number from 1 to 255"},
    {"pool 3y4", "layer 1 (\"pool 3y4\"): S is \"3y4\"; give a whole number from 1 to 255"},
    {"pool 3x", "layer 1 (\"pool 3x\"): S is \"3x\"; give a whole number from 1 to 255"},
    {"globalpool 2 2", "layer 1 (\"globalpool 2 2\"): write it as \"globalpool [S]\""},
    {"leakyrelu -1", "layer 1 (\"leakyrelu -1\"): SLOPE is \"-1\"; give a number from 0 to below 1"},
    {"pool 14; conv 3 5",
     "layer 2 (\"conv 3 5\"): the input of 2 rows and 2 columns is smaller than the kernel of 5x5; "
     "use a smaller kernel or more padding"},
    {"pool 28x1; conv 3 5",
     "layer 2 (\"conv 3 5\"): the input of 1 row and 28 columns is smaller than the kernel of 5x5; use a smaller "
     "kernel or more padding; images that are stored in one row get their rows and columns by shape=1x28x28 in "
     "--data (help data)"},
    {"linear 10; relu; linear 11", "layer 3 (\"linear 11\"): the last layer gives 11 x 1 x 1 values, but there are 10 "
                                   "classes; end with \"linear 10\", or say that there are 11 by classes=11 in "
                                   "--data (help data)"},
    {"conv 10 5", "layer 1 (\"conv 10 5\"): the last layer gives 10 x 24 x 24 values, but there are 10 classes; end "
                  "with \"linear 10\""},
    {"conv 1000000 3", "layer 1 (\"conv 1000000 3\"): a sample would have more than 268435456 values here; make the "
                       "layer smaller"},
    {"linear 1000000; linear 1000000; linear 10",
     "layer 2 (\"linear 1000000\"): the net would have more than 2147483647 parameters; make it smaller"},
};

// Writes the sentence; where it ends with ALL, with all words of the grammar instead.
static void expected_sentence(char *text, size_t bytes, const char *sentence) {
    const size_t length = strlen(sentence), all = length - strlen("ALL");
    snprintf(text, bytes, "%s", sentence);
    if (length < strlen("ALL") || strcmp(sentence + all, "ALL") != 0) return;
    text[all] = '\0';
    for (size_t i = 0; layer_form(i); i++) {
        const char *before = i == 0 ? "" : layer_form(i + 1) ? ", " : " or ";
        snprintf(text + strlen(text), bytes - strlen(text), "%s%s", before, layer_form(i)->word);
    }
}

static void each_mistake_is_answered_with_one_sentence_that_names_it(void **state) {
    (void)state;
    char expected[ERROR_MESSAGE_BYTES];
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        Error err = {.message = ""};
        Spec spec;
        assert_int_equal(spec_parse(&spec, mistakes[i].text, grey, 10, &err), STATUS_USAGE);
        expected_sentence(expected, sizeof expected, mistakes[i].sentence);
        assert_string_equal(err.message, expected);
    }
}

static void a_mistake_is_shown_where_it_stands(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"conv 10 5; foo 3; relu", "conv 10 5; foo 3; relu\n           ^^^"},
        {"conv 10 5;  pool x", "conv 10 5;  pool x\n                 ^"},
        {"relu as a; conv 8 5x0; add b", "relu as a; conv 8 5x0; add b\n                  ^^^"},
        {"relu as a; relu; add b", "relu as a; relu; add b\n                     ^"},
        {"relu; dropout 2", "relu; dropout 2\n              ^"},
        {"relu; conv 8; relu", "relu; conv 8; relu\n      ^^^^^^"}, // something of the layer is missing
        {"relu; linear 9", "relu; linear 9\n      ^^^^^^^^"},
        {"relu;", "relu;\n     ^"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        Spec spec;
        assert_int_equal(spec_parse(&spec, cases[i][0], grey, 10, &err), STATUS_USAGE);
        assert_string_equal(err.sketch, cases[i][1]);
    }
}

static void texts_and_inputs_beyond_the_limits_are_refused(void **state) {
    (void)state;
    Error err;
    Spec spec;
    char text[3 * SPEC_TEXT_BYTES] = "";
    for (int l = 0; l < SPEC_MAX_LAYERS - 1; l++)
        strcat(text, "relu;");
    size_t end = strlen(text);
    strcpy(text + end, "linear 10");
    check_ok(spec_parse(&spec, text, grey, 10, &err));
    strcpy(text + end, "relu;linear 10");
    assert_int_equal(spec_parse(&spec, text, grey, 10, &err), STATUS_USAGE);
    assert_string_equal(err.message, "the net has more than 512 layers; leave some out");

    memset(text, ' ', SPEC_TEXT_BYTES);
    strcpy(text + SPEC_TEXT_BYTES - 10, "linear 10");
    check_ok(spec_parse(&spec, text, grey, 10, &err));
    strcpy(text + SPEC_TEXT_BYTES - 9, "linear 10");
    assert_int_equal(spec_parse(&spec, text, grey, 10, &err), STATUS_USAGE);
    assert_string_equal(err.message, "the net's text has 16384 characters; at most 16383 are read");

    assert_int_equal(spec_parse(&spec, "linear 10", (Shape){0, 28, 28}, 10, &err), STATUS_USAGE);
    // Too small one way is too small.
    for (int i = 0; i < 2; i++) {
        const Shape narrow = i == 0 ? (Shape){1, 2, 28} : (Shape){1, 28, 2};
        assert_int_equal(spec_parse(&spec, "pool 3; linear 10", narrow, 10, &err), STATUS_USAGE);
        assert_int_equal(spec_parse(&spec, "conv 2 3; linear 10", narrow, 10, &err), STATUS_USAGE);
        check_ok(spec_parse(&spec, "pool 2; linear 10", narrow, 10, &err));
    }
    assert_int_equal(spec_parse(&spec, "linear 10", (Shape){60000, 60000, 60000}, 10, &err), STATUS_USAGE);
    check_ok(spec_parse(&spec, "linear 65535", grey, 65535, &err));
    assert_int_equal(spec_parse(&spec, "linear 65536", grey, 65536, &err), STATUS_USAGE);
    assert_int_equal(spec_parse(&spec, "linear 10", grey, 0, &err), STATUS_USAGE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_answered_with_one_sentence_that_names_it),
        cmocka_unit_test(a_mistake_is_shown_where_it_stands),
        cmocka_unit_test(texts_and_inputs_beyond_the_limits_are_refused),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
