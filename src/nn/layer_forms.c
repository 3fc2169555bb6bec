#include "layer_forms.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"

// Bounds that keep every product of sizes in an int.
enum { MAX_CHANNELS = 1 << 20, MAX_KERNEL = 255 };

typedef Status LayerReader(Layer *layer, LayerText *of, Error *err);

bool layer_is_too_large(Shape shape, Sides border) {
    double rows = shape.rows + 2.0 * border.rows, columns = shape.columns + 2.0 * border.columns;
    return shape.channels * rows * columns > LAYER_MOST_VALUES;
}

// Windows -------------------------------------------------------------------------------------------------------------

// A number, or a pair of them, that may follow a layer's first ones behind a word.
typedef struct LayerKey {
    const char *name;
    Sides *sides; // or
    int *whole;
    int low, high;
    bool seen;
} LayerKey;

// Those that are there, in any order.
static Status read_keys(LayerKey *keys, size_t count, LayerText *of, Error *err) {
    while (layer_text_has_more(of)) {
        size_t k = 0;
        while (k < count && (keys[k].seen || !layer_text_key(of, keys[k].name)))
            k++;
        if (k == count) return layer_text_end(of, err);
        keys[k].seen = true;
        const LayerKey *key = &keys[k];
        TRY(key->sides ? layer_text_sides(key->sides, of, key->name, key->low, key->high, err)
                       : layer_text_whole(key->whole, of, key->name, key->low, key->high, err));
    }
    return STATUS_OK;
}

static bool is_square(Sides sides) {
    return sides.rows == sides.columns;
}

// The shape that the windows leave; what: "kernel" or "window"; most: the padding with which each meets the image.
static Status slide(Layer *layer, const Window *window, Sides most, const LayerText *of, const char *what, Error *err) {
    const Shape in = layer->in;
    const Sides size = window->size, pad = window->pad;
    if (pad.rows > most.rows || pad.columns > most.columns)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "a padding of %dx%d is too much for a %s of %dx%d; give at most %dx%d", LAYER_ARGS(of),
                    pad.rows, pad.columns, what, size.rows, size.columns, most.rows, most.columns);
    layer->out.rows = windows_along(in.rows, size.rows, window->stride.rows, pad.rows);
    layer->out.columns = windows_along(in.columns, size.columns, window->stride.columns, pad.columns);
    if (layer->out.rows >= 1 && layer->out.columns >= 1) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT "the input of %d rows and %d columns is smaller than the %s of %dx%d; use a smaller %s or "
                             "more padding",
                LAYER_ARGS(of), in.rows, in.columns, what, size.rows, size.columns, what);
}

static Status check_groups(const Layer *layer, const LayerText *of, Error *err) {
    if (layer->in.channels % layer->groups == 0 && layer->out.channels % layer->groups == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT
                "%d groups do not divide the input's %d channels and the layer's %d; give a number that does",
                LAYER_ARGS(of), layer->groups, layer->in.channels, layer->out.channels);
}

static bool are(Sides sides, int rows, int columns) {
    return sides.rows == rows && sides.columns == columns;
}

static Status read_conv(Layer *layer, LayerText *of, Error *err) {
    Window window = {.stride = {1, 1}};
    TRY(layer_text_whole(&layer->out.channels, of, "CHANNELS", 1, MAX_CHANNELS, err));
    TRY(layer_text_sides(&window.size, of, "S", 1, MAX_KERNEL, err));
    layer->dilation = (Sides){1, 1};
    layer->groups = 1;
    LayerKey keys[] = {{"stride", &window.stride, NULL, 1, MAX_KERNEL, false},
                       {"pad", &window.pad, NULL, 0, MAX_KERNEL, false},
                       {"dilation", &layer->dilation, NULL, 1, MAX_KERNEL, false},
                       {"groups", NULL, &layer->groups, 1, MAX_CHANNELS, false}};
    TRY(read_keys(keys, sizeof keys / sizeof *keys, of, err));
    TRY(check_groups(layer, of, err));
    const Sides size = window.size, dilation = layer->dilation;
    const Sides reach = {(size.rows - 1) * dilation.rows + 1, (size.columns - 1) * dilation.columns + 1};
    const Window reaching = {.size = reach, .stride = window.stride, .pad = window.pad};
    const bool undilated = are(dilation, 1, 1) && layer->groups == 1;
    if (undilated && is_square(size) && is_square(window.pad) && are(window.stride, 1, 1)) {
        layer->kernel = size.rows;
        layer->pad = window.pad.rows;
        layer->groups = 0;
        layer->dilation = (Sides){0, 0};
    } else {
        layer->window = window;
    }
    return slide(layer, &reaching, (Sides){reach.rows - 1, reach.columns - 1}, of, "kernel", err);
}

static Status read_pool_window(Window *window, Layer *layer, LayerText *of, Error *err) {
    *window = (Window){0};
    TRY(layer_text_sides(&window->size, of, "S", 1, MAX_KERNEL, err));
    window->stride = window->size;
    LayerKey keys[] = {{"stride", &window->stride, NULL, 1, MAX_KERNEL, false},
                       {"pad", &window->pad, NULL, 0, MAX_KERNEL, false}};
    TRY(read_keys(keys, 2, of, err));
    return slide(layer, window, (Sides){window->size.rows / 2, window->size.columns / 2}, of, "window", err);
}

static Status read_pool(Layer *layer, LayerText *of, Error *err) {
    Window window;
    TRY(read_pool_window(&window, layer, of, err));
    const bool side_by_side = window.stride.rows == window.size.rows && window.stride.columns == window.size.columns;
    if (is_square(window.size) && side_by_side && window.pad.rows == 0 && window.pad.columns == 0)
        layer->kernel = window.size.rows;
    else
        layer->window = window;
    return STATUS_OK;
}

static Status read_average(Layer *layer, LayerText *of, Error *err) {
    layer->kind = LAYER_AVERAGE;
    return read_pool_window(&layer->window, layer, of, err);
}

static Status read_global(Layer *layer, LayerText *of, Error *err) {
    (void)of, (void)err;
    const Sides all = {layer->in.rows, layer->in.columns};
    layer->window = (Window){.size = all, .stride = all};
    layer->out = (Shape){layer->in.channels, 1, 1};
    return STATUS_OK;
}

// Values one by one ---------------------------------------------------------------------------------------------------

static Status read_rate(Layer *layer, LayerText *of, Error *err) {
    return layer_text_number(&layer->rate, of, "RATE", 0, 1, err);
}

static Status read_leaky(Layer *layer, LayerText *of, Error *err) {
    layer->rate = 0.01f;
    return layer_text_has_more(of) ? layer_text_number(&layer->rate, of, "SLOPE", 0, 1, err) : STATUS_OK;
}

static Status read_group_norm(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->groups, of, "GROUPS", 1, MAX_CHANNELS, err));
    if (layer->in.channels % layer->groups == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%d groups do not divide the %d channels; give a number that does",
                LAYER_ARGS(of), layer->groups, layer->in.channels);
}

static Status read_layer_norm(Layer *layer, LayerText *of, Error *err) {
    layer->each = layer_text_key(of, "each");
    layer->groups = layer->each ? layer->in.channels * layer->in.rows : 1;
    if (!layer->each || layer->in.columns > 1) return STATUS_OK;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "of %d x %d x 1 values each would become its shift; leave out \"each\"",
                LAYER_ARGS(of), layer->in.channels, layer->in.rows);
}

static Status read_embedding(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->vocabulary, of, "VOCABULARY", 1, MAX_CHANNELS, err));
    TRY(layer_text_whole(&layer->out.columns, of, "WIDTH", 1, MAX_CHANNELS, err));
    layer->out.channels = 1;
    layer->out.rows = (int)shape_size(layer->in);
    const bool is_row = layer->in.channels == 1 || layer->in.rows * layer->in.columns == 1;
    if (layer->source == SPEC_INPUT && is_row) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT "it reads the whole numbers of samples of one channel, or of one value a channel; make "
                             "it the first layer of such",
                LAYER_ARGS(of));
}

static Status check_sequence(const Layer *layer, const LayerText *of, Error *err) {
    if (layer->in.channels == 1) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT
                "it takes a sequence, 1 x steps x values, not %d x %d x %d; put it behind an embedding, an lstm, an "
                "attention, or images of one channel",
                LAYER_ARGS(of), layer->in.channels, layer->in.rows, layer->in.columns);
}

static Status read_positions(Layer *layer, LayerText *of, Error *err) {
    return check_sequence(layer, of, err);
}

static Status read_lstm(Layer *layer, LayerText *of, Error *err) {
    int units;
    TRY(layer_text_whole(&units, of, "UNITS", 1, MAX_CHANNELS, err));
    layer->last = layer_text_key(of, "last");
    layer->out = layer->last ? (Shape){units, 1, 1} : (Shape){1, layer->in.rows, units};
    return check_sequence(layer, of, err);
}

static Status read_attention(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_whole(&layer->groups, of, "HEADS", 1, MAX_CHANNELS, err));
    layer->causal = layer_text_key(of, "causal");
    TRY(check_sequence(layer, of, err));
    const double shares = (double)layer->groups * layer->in.rows * layer->in.rows;
    if (layer->in.columns % layer->groups != 0)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "%d heads do not divide the %d values of a step; give a number that does",
                    LAYER_ARGS(of), layer->groups, layer->in.columns);
    if (shares > LAYER_MOST_VALUES || 3.0 * (double)shape_size(layer->in) > LAYER_MOST_VALUES)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "%d heads over %d steps of %d values would keep more than %d values; use shorter "
                                 "sequences, fewer heads or fewer values",
                    LAYER_ARGS(of), layer->groups, layer->in.rows, layer->in.columns, LAYER_MOST_VALUES);
    return STATUS_OK;
}

static Status read_linear(Layer *layer, LayerText *of, Error *err) {
    int features;
    TRY(layer_text_whole(&features, of, "FEATURES", 1, MAX_CHANNELS, err));
    if (layer_text_key(of, "each")) {
        layer->kind = LAYER_LINEAR_EACH;
        layer->out.columns = features;
    } else {
        layer->out = (Shape){features, 1, 1};
    }
    return STATUS_OK;
}

// Two inputs ----------------------------------------------------------------------------------------------------------

static Status do_not_match(const Layer *layer, const LayerText *of, const char *what, Error *err) {
    const Shape in = layer->in, other = of->spec->layers[layer->other].out;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "%d x %d x %d values and the %d x %d x %d of \"%s\" cannot be %s",
                LAYER_ARGS(of), in.channels, in.rows, in.columns, other.channels, other.rows, other.columns,
                of->words[1], what);
}

static Status read_add(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_layer(&layer->other, of, err));
    const Shape other = of->spec->layers[layer->other].out;
    if (other.channels != layer->in.channels || other.rows != layer->in.rows || other.columns != layer->in.columns)
        return do_not_match(layer, of, "added", err);
    return STATUS_OK;
}

static Status read_concat(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_layer(&layer->other, of, err));
    const Shape other = of->spec->layers[layer->other].out;
    if (other.rows != layer->in.rows || other.columns != layer->in.columns)
        return do_not_match(layer, of, "joined", err);
    layer->out.channels += other.channels;
    return STATUS_OK;
}

// The tables ----------------------------------------------------------------------------------------------------------

const LayerForm layer_forms[] = {
    {"conv", "conv CHANNELS S [stride S] [pad S] [dilation S] [groups G]",
     "convolution with bias; S is a side or ROWSxCOLUMNS"},
    {"pool", "pool S [stride S] [pad S]",
     "max pooling; S is a side or ROWSxCOLUMNS, the stride the window's size if not given"},
    {"avgpool", "avgpool S [stride S] [pad S]", "averages instead, in which the zeros of the padding count"},
    {"globalpool", "globalpool", "the average of each channel"},
    {"relu", "relu", "what is negative becomes 0"},
    {"relu6", "relu6", "and what is above 6 becomes 6"},
    {"leakyrelu", "leakyrelu [SLOPE]", "what is negative is multiplied by SLOPE, 0.01 if not given"},
    {"tanh", "tanh", "hyperbolic tangent"},
    {"sigmoid", "sigmoid", "1 / (1 + e^-x)"},
    {"gelu", "gelu", "x times the share of the normal distribution below x"},
    {"dropout", "dropout RATE", "elements dropped in training"},
    {"dropout2d", "dropout2d RATE", "whole channels dropped in training"},
    {"linear", "linear FEATURES [each]",
     "fully connected, with bias; with each, of every row by itself, as of a sequence's steps"},
    {"groupnorm", "groupnorm GROUPS",
     "each sample's values of a group of channels get mean 0 and variance 1, then a "
     "factor and a shift of their channel"},
    {"layernorm", "layernorm [each]",
     "the same for all values together, with a factor and a shift for each; with each, of every row by itself, with "
     "the same factors and shifts"},
    {"batchnorm", "batchnorm",
     "each channel's values in the whole batch (at most 256 samples) get mean 0 and variance 1, then a factor and a "
     "shift; tests take running means and variances. Not with ssgd or hogwild"},
    {"embedding", "embedding VOCABULARY WIDTH", "a learnt row of WIDTH values for each whole number of the input"},
    {"positions", "positions",
     "a learnt vector for each of a sequence's steps is added; attention knows no order without"},
    {"lstm", "lstm UNITS [last]", "long short-term memory over rows: the outputs of all steps, or of the last"},
    {"attention", "attention HEADS [causal]",
     "softmax attention of each of a sequence's steps to all, or only to itself and those before; its width in HEADS "
     "parts, no dropout; where a step stands it knows by positions before it alone"},
    {"add", "add NAME", "its input plus what the layer of that name gives"},
    {"concat", "concat NAME", "the channels of its input, then those of that layer"},
};
const size_t layer_form_count = sizeof layer_forms / sizeof *layer_forms;

// In the order of layer_forms. read: NULL if nothing follows the word and the shape stays.
static const struct LayerRow {
    LayerKind kind;
    LayerReader *read;
    Activation activation;
} rows[sizeof layer_forms / sizeof *layer_forms] = {
    {LAYER_CONV, read_conv, 0},
    {LAYER_POOL, read_pool, 0},
    {LAYER_AVERAGE, read_average, 0},
    {LAYER_AVERAGE, read_global, 0},
    {LAYER_RELU, NULL, 0},
    {LAYER_ACTIVATION, NULL, ACTIVATION_RELU6},
    {LAYER_ACTIVATION, read_leaky, ACTIVATION_LEAKY_RELU},
    {LAYER_ACTIVATION, NULL, ACTIVATION_TANH},
    {LAYER_ACTIVATION, NULL, ACTIVATION_SIGMOID},
    {LAYER_ACTIVATION, NULL, ACTIVATION_GELU},
    {LAYER_DROPOUT, read_rate, 0},
    {LAYER_DROPOUT2D, read_rate, 0},
    {LAYER_LINEAR, read_linear, 0},
    {LAYER_NORM, read_group_norm, 0},
    {LAYER_NORM, read_layer_norm, 0},
    {LAYER_BATCH_NORM, NULL, 0},
    {LAYER_EMBEDDING, read_embedding, 0},
    {LAYER_POSITIONS, read_positions, 0},
    {LAYER_LSTM, read_lstm, 0},
    {LAYER_ATTENTION, read_attention, 0},
    {LAYER_ADD, read_add, 0},
    {LAYER_CONCAT, read_concat, 0},
};

// What other programs call a layer; what they need and nets here do not has an explanation instead.
static const struct LayerSynonym {
    const char *word, *stands_for, *needless;
} synonyms[] = {
    {"conv2d", "conv", NULL},
    {"convolution", "conv", NULL},
    {"maxpool", "pool", NULL},
    {"max_pool", "pool", NULL},
    {"maxpool2d", "pool", NULL},
    {"avgpool2d", "avgpool", NULL},
    {"averagepool", "avgpool", NULL},
    {"adaptiveavgpool2d", "globalpool", NULL},
    {"leaky_relu", "leakyrelu", NULL},
    {"lrelu", "leakyrelu", NULL},
    {"logistic", "sigmoid", NULL},
    {"group_norm", "groupnorm", NULL},
    {"layer_norm", "layernorm", NULL},
    {"batch_norm", "batchnorm", NULL},
    {"batchnorm2d", "batchnorm", NULL},
    {"embed", "embedding", NULL},
    {"positional_embedding", "positions", NULL},
    {"position_embedding", "positions", NULL},
    {"self_attention", "attention", NULL},
    {"multiheadattention", "attention", NULL},
    {"residual", "add", NULL},
    {"cat", "concat", NULL},
    {"dense", "linear", NULL},
    {"fc", "linear", NULL},
    {"flatten", NULL, "linear takes the values of any shape"},
    {"reshape", NULL, "linear takes the values of any shape"},
    {"softmax", NULL, "softmax and cross-entropy follow the last layer by themselves"},
    {"log_softmax", NULL, "softmax and cross-entropy follow the last layer by themselves"},
};

// "conv, pool, ... or linear".
static void list_words(char *list, size_t bytes) {
    size_t used = 0;
    for (size_t i = 0; i < layer_form_count && used < bytes; i++) {
        const char *before = i == 0 ? "" : i + 1 < layer_form_count ? ", " : " or ";
        used += (size_t)snprintf(list + used, bytes - used, "%s%s", before, layer_forms[i].word);
    }
}

static Status no_form(const LayerText *of, Error *err) {
    const char *word = of->words[0];
    Suggestion suggestion = {.typed = word};
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        const struct LayerSynonym *synonym = &synonyms[i];
        if (synonym->stands_for)
            suggestion_consider_as(&suggestion, synonym->word, synonym->stands_for);
        else if (strcasecmp(word, synonym->word) == 0)
            return fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is not needed: %s; leave it out", LAYER_ARGS(of), word,
                        synonym->needless);
    }
    for (size_t i = 0; i < layer_form_count; i++)
        suggestion_consider(&suggestion, layer_forms[i].word);
    const char *best = suggestion.best;
    char list[512];
    list_words(list, sizeof list);
    fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is no kind of layer%s%s%s; use %s", LAYER_ARGS(of), word,
         best ? " (did you mean " : "", best ? best : "", best ? "?)" : "", list);
    layer_text_sketch(of, word, err);
    return STATUS_USAGE;
}

Status layer_read(Layer *layer, LayerText *of, Error *err) {
    size_t row = 0;
    while (row < layer_form_count && strcmp(layer_forms[row].word, of->words[0]) != 0)
        row++;
    if (row == layer_form_count) return no_form(of, err);
    of->form = &layer_forms[row];
    layer->kind = rows[row].kind;
    layer->activation = rows[row].activation;
    layer->out = layer->in;
    if (rows[row].read) TRY(rows[row].read(layer, of, err));
    TRY(layer_text_end(of, err));
    const bool plain = layer->kind == LAYER_CONV && layer_is_plain(layer);
    const Sides border = plain ? (Sides){layer->kernel, layer->kernel} : layer->window.pad;
    if (layer_is_too_large(layer->in, border) || layer_is_too_large(layer->out, border))
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "a sample would have more than %d values here; make the layer smaller", LAYER_ARGS(of),
                    LAYER_MOST_VALUES);
    return STATUS_OK;
}
