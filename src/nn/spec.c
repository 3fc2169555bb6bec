#include "spec.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/rng.h"
#include "base/suggest.h"

// Bounds that keep every product of sizes in an int and every arena within what a machine could have.
enum { MAX_CHANNELS = 1 << 20, MAX_KERNEL = 255, MAX_ELEMENTS = 1 << 28 };
static const size_t max_parameters = INT_MAX;

// What a layer's text must look like; the word is the form's first.
static const struct LayerForm {
    const char *word;
    LayerKind kind;
    const char *form;
} layer_forms[] = {
    {"conv", LAYER_CONV, "conv CHANNELS KERNEL [pad P]"},
    {"pool", LAYER_POOL, "pool SIZE"},
    {"relu", LAYER_RELU, "relu"},
    {"dropout", LAYER_DROPOUT, "dropout RATE"},
    {"dropout2d", LAYER_DROPOUT2D, "dropout2d RATE"},
    {"linear", LAYER_LINEAR, "linear FEATURES"},
};

enum { MAX_WORDS = 6 };

// One layer's text while it is read.
typedef struct LayerText {
    int number; // from 1
    char text[SPEC_TEXT_BYTES];
    char split[SPEC_TEXT_BYTES]; // the text again, cut into words
    char *words[MAX_WORDS];
    int word_count;
    const struct LayerForm *form;
} LayerText;

// The start of each sentence about a layer: its number and text.
#define LAYER_FORMAT   "layer %d (\"%s\"): "
#define LAYER_ARGS(of) (of)->number, (of)->text

static Status split_words(LayerText *of, Error *err) {
    memcpy(of->split, of->text, sizeof of->split);
    of->word_count = 0;
    char *rest;
    for (char *word = strtok_r(of->split, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
        if (of->word_count == MAX_WORDS)
            return fail(err, STATUS_USAGE, LAYER_FORMAT "too many words; layers are separated by ';'", LAYER_ARGS(of));
        of->words[of->word_count++] = word;
    }
    if (of->word_count == 0)
        return fail(err, STATUS_USAGE, "layer %d is empty; write a layer between two ';' and none after the last",
                    of->number);
    return STATUS_OK;
}

// What other programs call a layer; what they need and nets here do not has an explanation instead.
static const struct LayerSynonym {
    const char *word, *stands_for, *needless;
} layer_synonyms[] = {
    {"conv2d", "conv", NULL},
    {"convolution", "conv", NULL},
    {"maxpool", "pool", NULL},
    {"max_pool", "pool", NULL},
    {"maxpool2d", "pool", NULL},
    {"dense", "linear", NULL},
    {"fc", "linear", NULL},
    {"flatten", NULL, "linear takes the values of any shape"},
    {"reshape", NULL, "linear takes the values of any shape"},
    {"softmax", NULL, "softmax and cross-entropy follow the last layer by themselves"},
    {"log_softmax", NULL, "softmax and cross-entropy follow the last layer by themselves"},
};

static Status no_form(const LayerText *of, Error *err) {
    const char *word = of->words[0];
    Suggestion suggestion = {.typed = word};
    for (size_t i = 0; i < sizeof layer_synonyms / sizeof *layer_synonyms; i++) {
        const struct LayerSynonym *synonym = &layer_synonyms[i];
        if (synonym->stands_for)
            suggestion_consider_as(&suggestion, synonym->word, synonym->stands_for);
        else if (strcasecmp(word, synonym->word) == 0)
            return fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is not needed: %s; leave it out", LAYER_ARGS(of), word,
                        synonym->needless);
    }
    for (size_t i = 0; i < sizeof layer_forms / sizeof *layer_forms; i++)
        suggestion_consider(&suggestion, layer_forms[i].word);
    const char *best = suggestion.best;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT "\"%s\" is no kind of layer%s%s%s; use conv, pool, relu, dropout, dropout2d or linear",
                LAYER_ARGS(of), word, best ? " (did you mean " : "", best ? best : "", best ? "?)" : "");
}

static Status find_form(LayerText *of, Error *err) {
    for (size_t i = 0; i < sizeof layer_forms / sizeof *layer_forms; i++)
        if (strcmp(layer_forms[i].word, of->words[0]) == 0) {
            of->form = &layer_forms[i];
            return STATUS_OK;
        }
    return no_form(of, err);
}

static Status wrong_form(const LayerText *of, Error *err) {
    return fail(err, STATUS_USAGE, LAYER_FORMAT "write it as \"%s\"", LAYER_ARGS(of), of->form->form);
}

// Word `index` as a whole number called `name` (as in the form) between low and high.
static Status read_whole(int *value, const LayerText *of, int index, const char *name, int low, int high, Error *err) {
    if (index >= of->word_count) return wrong_form(of, err);
    char *end;
    long number = strtol(of->words[index], &end, 10);
    if (*end != '\0' || number < low || number > high)
        return fail(err, STATUS_USAGE, LAYER_FORMAT "%s is \"%s\"; give a whole number from %d to %d", LAYER_ARGS(of),
                    name, of->words[index], low, high);
    *value = (int)number;
    return STATUS_OK;
}

static Status read_rate(float *rate, const LayerText *of, Error *err) {
    if (of->word_count < 2) return wrong_form(of, err);
    char *end;
    float number = strtof(of->words[1], &end);
    if (*end != '\0' || !(number >= 0.0f && number < 1.0f))
        return fail(err, STATUS_USAGE, LAYER_FORMAT "RATE is \"%s\"; give a number from 0 to below 1", LAYER_ARGS(of),
                    of->words[1]);
    *rate = number;
    return STATUS_OK;
}

// The size of a sample's tensor with `border` rows and columns on each side must stay countable.
static bool too_large(Shape shape, int border) {
    double rows = shape.rows + 2.0 * border, columns = shape.columns + 2.0 * border;
    return shape.channels * rows * columns > MAX_ELEMENTS;
}

static Status read_conv(Layer *layer, const LayerText *of, Error *err) {
    TRY(read_whole(&layer->out.channels, of, 1, "CHANNELS", 1, MAX_CHANNELS, err));
    TRY(read_whole(&layer->kernel, of, 2, "KERNEL", 1, MAX_KERNEL, err));
    if (of->word_count > 3) {
        if (of->word_count != 5 || strcmp(of->words[3], "pad") != 0) return wrong_form(of, err);
        TRY(read_whole(&layer->pad, of, 4, "P", 0, layer->kernel - 1, err));
    }
    layer->out.rows = layer->in.rows + 2 * layer->pad - layer->kernel + 1;
    layer->out.columns = layer->in.columns + 2 * layer->pad - layer->kernel + 1;
    if (layer->out.rows < 1 || layer->out.columns < 1)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "the input of %d rows and %d columns is smaller than the kernel of %d; use a smaller "
                                 "kernel or more padding",
                    LAYER_ARGS(of), layer->in.rows, layer->in.columns, layer->kernel);
    return STATUS_OK;
}

static Status read_pool(Layer *layer, const LayerText *of, Error *err) {
    TRY(read_whole(&layer->kernel, of, 1, "SIZE", 1, MAX_KERNEL, err));
    layer->out.rows = layer->in.rows / layer->kernel;
    layer->out.columns = layer->in.columns / layer->kernel;
    if (layer->out.rows < 1 || layer->out.columns < 1)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "the input of %d rows and %d columns is smaller than the window; use a smaller window",
                    LAYER_ARGS(of), layer->in.rows, layer->in.columns);
    return STATUS_OK;
}

// Reads the numbers behind the layer's word and derives its output shape.
static Status read_layer(Layer *layer, const LayerText *of, Error *err) {
    static const int words_at_most[] = {
        [LAYER_CONV] = 5,    [LAYER_POOL] = 2,      [LAYER_RELU] = 1,
        [LAYER_DROPOUT] = 2, [LAYER_DROPOUT2D] = 2, [LAYER_LINEAR] = 2,
    };
    if (of->word_count > words_at_most[layer->kind]) return wrong_form(of, err);
    layer->out = layer->in;
    switch (layer->kind) {
    case LAYER_CONV:
        TRY(read_conv(layer, of, err));
        break;
    case LAYER_POOL:
        TRY(read_pool(layer, of, err));
        break;
    case LAYER_RELU:
        break;
    case LAYER_DROPOUT:
    case LAYER_DROPOUT2D:
        TRY(read_rate(&layer->rate, of, err));
        break;
    case LAYER_LINEAR:
        layer->out = (Shape){0, 1, 1};
        TRY(read_whole(&layer->out.channels, of, 1, "FEATURES", 1, MAX_CHANNELS, err));
        break;
    }
    int border = layer->kind == LAYER_CONV ? layer->kernel : 0;
    if (too_large(layer->in, border) || too_large(layer->out, border))
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "a sample would have more than %d values here; make the layer smaller", LAYER_ARGS(of),
                    MAX_ELEMENTS);
    return STATUS_OK;
}

static void add_tensor(Spec *spec, const char *layer_word, int ordinal, const char *what, int rank,
                       const int64_t shape[4], int64_t fan_in) {
    ParameterTensor *tensor = &spec->tensors[spec->tensor_count++];
    *tensor = (ParameterTensor){.rank = rank, .first = spec->parameter_count, .count = 1, .fan_in = fan_in};
    snprintf(tensor->name, sizeof tensor->name, "%s%d.%s", layer_word, ordinal, what);
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->count *= (size_t)shape[i];
    }
    spec->parameter_count += tensor->count;
}

// Places the layer's weight and bias, named as PyTorch modules usually are: conv1, conv2, ..., fc1, fc2, ...
static Status add_parameters(Spec *spec, Layer *layer, int *convs, int *linears, const LayerText *of, Error *err) {
    bool conv = layer->kind == LAYER_CONV;
    if (!conv && layer->kind != LAYER_LINEAR) return STATUS_OK;
    int64_t outs = layer->out.channels;
    int64_t ins = conv ? layer->in.channels : (int64_t)shape_size(layer->in), side = layer->kernel;
    int64_t fan_in = conv ? ins * side * side : ins;
    if ((double)fan_in * (double)outs + (double)outs > (double)(max_parameters - spec->parameter_count))
        return fail(err, STATUS_USAGE, LAYER_FORMAT "the net would have more than %zu parameters; make it smaller",
                    LAYER_ARGS(of), max_parameters);
    const char *word = conv ? "conv" : "fc";
    int ordinal = conv ? ++*convs : ++*linears;
    layer->weight = spec->parameter_count;
    add_tensor(spec, word, ordinal, "weight", conv ? 4 : 2, (int64_t[4]){outs, ins, side, side}, fan_in);
    layer->bias = spec->parameter_count;
    add_tensor(spec, word, ordinal, "bias", 1, (int64_t[4]){outs}, fan_in);
    return STATUS_OK;
}

static Status check_input(Shape input, int classes, Error *err) {
    if (input.channels < 1 || input.rows < 1 || input.columns < 1 || too_large(input, 0))
        return fail(err, STATUS_USAGE,
                    "a net cannot read samples of %d channels, %d rows and %d columns; use a data set "
                    "whose samples have 1 to %d values",
                    input.channels, input.rows, input.columns, MAX_ELEMENTS);
    if (classes < 1 || classes > 256)
        return fail(err, STATUS_USAGE, "%d classes; labels are bytes, so give 1 to 256", classes);
    return STATUS_OK;
}

// The text of the next layer, trimmed; *rest moves behind its ';' or becomes NULL after the last.
static void next_layer(LayerText *of, const char **rest) {
    const char *start = *rest + strspn(*rest, " \t\n"), *end = strchr(start, ';');
    *rest = end ? end + 1 : NULL;
    size_t length = end ? (size_t)(end - start) : strlen(start);
    while (length > 0 && strchr(" \t\n", start[length - 1]))
        length--;
    memcpy(of->text, start, length);
    memset(of->text + length, 0, sizeof of->text - length);
    of->number++;
}

Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err) {
    TRY(check_input(input, classes, err));
    if (strlen(text) >= SPEC_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the net's text has %zu characters; at most %d are read", strlen(text),
                    SPEC_TEXT_BYTES - 1);
    *spec = (Spec){.input = input, .classes = classes};
    LayerText of = {.number = 0};
    int convs = 0, linears = 0;
    Shape shape = input;
    for (const char *rest = text; rest;) {
        if (spec->layer_count == SPEC_MAX_LAYERS)
            return fail(err, STATUS_USAGE, "the net has more than %d layers; leave some out", SPEC_MAX_LAYERS);
        next_layer(&of, &rest);
        TRY(split_words(&of, err));
        TRY(find_form(&of, err));
        Layer *layer = &spec->layers[spec->layer_count++];
        *layer = (Layer){.kind = of.form->kind, .in = shape};
        TRY(read_layer(layer, &of, err));
        TRY(add_parameters(spec, layer, &convs, &linears, &of, err));
        shape = layer->out;
    }
    if (shape.channels != classes || shape.rows != 1 || shape.columns != 1)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "the last layer gives %d x %d x %d values, but there are %d classes; end with "
                                 "\"linear %d\"",
                    LAYER_ARGS(&of), shape.channels, shape.rows, shape.columns, classes, classes);
    return STATUS_OK;
}

void spec_initialise(float *parameters, const Spec *spec, uint64_t seed) {
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        float *values = parameters + tensor->first;
        float bound = (float)(1.0 / sqrt((double)tensor->fan_in));
        RngKey key = rng_key(seed, RNG_INIT, (uint32_t)t, 0, 0);
        RngBlock block = {{0}};
        for (size_t i = 0; i < tensor->count; i++) {
            if (i % 4 == 0) block = rng_block(key, (uint32_t)(i / 4), 0, 0, 0);
            values[i] = (2.0f * rng_float(block.word[i % 4]) - 1.0f) * bound;
        }
    }
}

double spec_training_flop(const Spec *spec) {
    double flop = 0;
    bool first = true;
    for (int l = 0; l < spec->layer_count; l++) {
        const Layer *layer = &spec->layers[l];
        if (layer->kind != LAYER_CONV && layer->kind != LAYER_LINEAR) continue;
        double outputs = (double)shape_size(layer->out);
        double inputs = layer->kind == LAYER_LINEAR ? (double)shape_size(layer->in)
                                                    : (double)layer->in.channels * layer->kernel * layer->kernel;
        flop += 2.0 * outputs * inputs * (first ? 2 : 3); // forward, weight gradient and input gradient
        first = false;
    }
    return flop;
}

const char *spec_tensor_name(const Spec *spec, size_t parameter) {
    int tensor = 0;
    while (parameter >= spec->tensors[tensor].first + spec->tensors[tensor].count)
        tensor++;
    return spec->tensors[tensor].name;
}

// Zoo -----------------------------------------------------------------------------------------------------------------

const ZooEntry zoo_entries[] = {
    {"lenet",
     "conv 10 5; pool 2; relu; conv 20 5; dropout2d 0.5; pool 2; relu; linear 50; relu; dropout 0.5; linear classes",
     "small LeNet of the PyTorch MNIST examples (21,840 parameters on 28x28 grey images)"},
    {"softmax", "linear classes", "multinomial logistic regression"},
    {"2nn", "linear 200; relu; linear 200; relu; linear classes",
     "two hidden layers of 200 (McMahan et al., AISTATS 2017)"},
    {"cnn", "conv 32 5 pad 2; relu; pool 2; conv 64 5 pad 2; relu; pool 2; linear 512; relu; linear classes",
     "two padded convolutions and a hidden layer of 512 (McMahan et al., AISTATS 2017)"},
    {"cifar-cnn",
     "conv 32 3; relu; conv 64 3; relu; pool 2; dropout 0.25; linear 128; relu; dropout 0.5; linear classes",
     "CIFAR-10 net of the pfl-research benchmark (Granqvist et al., 2024)"},
};
const size_t zoo_entry_count = sizeof zoo_entries / sizeof *zoo_entries;

void zoo_expand(char *text, size_t bytes, const char *model, int classes) {
    static const char placeholder[] = "classes";
    const char *layers = model;
    for (size_t i = 0; i < zoo_entry_count; i++)
        if (strcmp(zoo_entries[i].name, model) == 0) layers = zoo_entries[i].text;
    size_t length = strlen(layers), tail = strlen(placeholder);
    if (length >= tail && strcmp(layers + length - tail, placeholder) == 0)
        snprintf(text, bytes, "%.*s%d", (int)(length - tail), layers, classes);
    else
        snprintf(text, bytes, "%s", layers);
}
