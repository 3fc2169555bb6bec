#include "spec.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "layer_forms.h"

static const size_t max_parameters = INT_MAX;

static void add_tensor(Spec *spec, const char *layer_word, int ordinal, const char *what, int rank,
                       const int64_t shape[4], int64_t fan_in) {
    ParameterTensor *tensor = &spec->tensors[spec->tensor_count++];
    *tensor =
        (ParameterTensor){.rank = rank, .first = spec->parameter_count, .count = 1, .fan_in = fan_in, .stretch = 1};
    snprintf(tensor->name, sizeof tensor->name, "%s%d.%s", layer_word, ordinal, what);
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->count *= (size_t)shape[i];
    }
    spec->parameter_count += tensor->count;
}

// How many layers of each kind that has parameters there are so far.
typedef struct Ordinals {
    int convs, linears, norms, embeddings, positions, lstms, attentions;
} Ordinals;

static ParameterTensor *last_tensor(Spec *spec) {
    return &spec->tensors[spec->tensor_count - 1];
}

static void add_norm(Spec *spec, Layer *layer, int ordinal, bool singly) {
    const Shape in = layer->in;
    const int rank = singly && !layer->each && in.rows * in.columns > 1 ? 3 : 1;
    const int64_t shape[4] = {layer->each ? in.columns : in.channels, in.rows, in.columns};
    layer->weight = spec->parameter_count;
    add_tensor(spec, "norm", ordinal, "weight", rank, shape, 0);
    last_tensor(spec)->start = 1;
    layer->bias = spec->parameter_count;
    add_tensor(spec, "norm", ordinal, "bias", rank, shape, 0);
}

static void add_batch_norm(Spec *spec, Layer *layer, int ordinal) {
    static const char *const what[] = {"weight", "bias", "running_mean", "running_var"};
    layer->weight = spec->parameter_count;
    layer->bias = layer->weight + (size_t)layer->in.channels;
    for (int i = 0; i < 4; i++) {
        add_tensor(spec, "norm", ordinal, what[i], 1, (int64_t[4]){layer->in.channels}, 0);
        last_tensor(spec)->start = i == 0 || i == 3 ? 1 : 0;
        last_tensor(spec)->follows = i >= 2;
    }
}

bool spec_needs_whole_batches(const Spec *spec) {
    for (int l = 0; l < spec->layer_count; l++)
        if (spec->layers[l].kind == LAYER_BATCH_NORM) return true;
    return false;
}

void spec_floor_variances(float *parameters, const Spec *spec) {
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        for (size_t i = 0; i < tensor->count && tensor_is_variance(tensor); i++)
            if (parameters[tensor->first + i] < 0) parameters[tensor->first + i] = 0;
    }
}

static void add_embedding(Spec *spec, Layer *layer, int ordinal) {
    layer->weight = spec->parameter_count;
    add_tensor(spec, "embedding", ordinal, "weight", 2, (int64_t[4]){layer->vocabulary, layer->out.columns}, 1);
    last_tensor(spec)->normal = true;
    layer->bias = spec->parameter_count;
}

// Small values, as transformers begin with: they shall not drown what they are added to.
static void add_positions(Spec *spec, Layer *layer, int ordinal) {
    layer->weight = spec->parameter_count;
    add_tensor(spec, "positions", ordinal, "weight", 2, (int64_t[4]){layer->in.rows, layer->in.columns}, 1);
    last_tensor(spec)->normal = true;
    last_tensor(spec)->stretch = 0.02;
    layer->bias = spec->parameter_count;
}

static void add_lstm(Spec *spec, Layer *layer, int ordinal) {
    const int64_t units = lstm_units(layer), gates = 4 * units;
    layer->weight = spec->parameter_count;
    add_tensor(spec, "lstm", ordinal, "weight_ih_l0", 2, (int64_t[4]){gates, layer->in.columns}, units);
    add_tensor(spec, "lstm", ordinal, "weight_hh_l0", 2, (int64_t[4]){gates, units}, units);
    layer->bias = spec->parameter_count;
    add_tensor(spec, "lstm", ordinal, "bias_ih_l0", 1, (int64_t[4]){gates}, units);
    add_tensor(spec, "lstm", ordinal, "bias_hh_l0", 1, (int64_t[4]){gates}, units);
}

// The first weight is drawn as Glorot and Bengio (2010) do, from inputs and outputs; biases begin as zeros.
static void add_attention(Spec *spec, Layer *layer, int ordinal) {
    const int64_t width = layer->in.columns;
    layer->weight = spec->parameter_count;
    add_tensor(spec, "attention", ordinal, "in_proj_weight", 2, (int64_t[4]){3 * width, width}, width);
    last_tensor(spec)->stretch = sqrt(6.0 / 4.0);
    layer->bias = spec->parameter_count;
    add_tensor(spec, "attention", ordinal, "in_proj_bias", 1, (int64_t[4]){3 * width}, 0);
    add_tensor(spec, "attention", ordinal, "out_proj.weight", 2, (int64_t[4]){width, width}, width);
    add_tensor(spec, "attention", ordinal, "out_proj.bias", 1, (int64_t[4]){width}, 0);
}

static void add_weights(Spec *spec, Layer *layer, int ordinal) {
    const bool conv = layer->kind == LAYER_CONV;
    const Sides side = layer_is_plain(layer) ? (Sides){layer->kernel, layer->kernel} : layer->window.size;
    const int64_t outs = conv ? layer->out.channels : (int64_t)linear_outs(layer);
    const int64_t fan_in = (int64_t)(conv ? conv_inputs(layer) : linear_ins(layer));
    const int64_t ins = conv ? fan_in / side.rows / side.columns : fan_in;
    const char *word = conv ? "conv" : "fc";
    layer->weight = spec->parameter_count;
    add_tensor(spec, word, ordinal, "weight", conv ? 4 : 2, (int64_t[4]){outs, ins, side.rows, side.columns}, fan_in);
    layer->bias = spec->parameter_count;
    add_tensor(spec, word, ordinal, "bias", 1, (int64_t[4]){outs}, fan_in);
}

// At most as many floats as the layer's parameters are.
static double count_parameters(const Layer *layer) {
    const double in = (double)shape_size(layer->in), outs = layer->out.channels;
    switch (layer->kind) {
    case LAYER_CONV:
        return ((double)conv_inputs(layer) + 1) * outs;
    case LAYER_NORM:
        return 2 * in;
    case LAYER_BATCH_NORM:
        return 4.0 * layer->in.channels;
    case LAYER_EMBEDDING:
        return (double)layer->vocabulary * layer->out.columns;
    case LAYER_POSITIONS:
        return in;
    case LAYER_LSTM:
        return 4.0 * lstm_units(layer) * ((double)layer->in.columns + lstm_units(layer) + 2);
    case LAYER_LINEAR_EACH:
        return (layer->in.columns + 1.0) * layer->out.columns;
    case LAYER_ATTENTION:
        return 4.0 * layer->in.columns * (layer->in.columns + 1.0);
    default:
        return (in + 1) * outs;
    }
}

// Places the layer's parameters, named as PyTorch modules usually are: conv1, conv2, ..., fc1, fc2, ..., norm1, ...
static Status add_parameters(Spec *spec, Layer *layer, Ordinals *ordinals, const LayerText *of, Error *err) {
    if (!layer_has_parameters(layer)) return STATUS_OK;
    if (count_parameters(layer) > (double)(max_parameters - spec->parameter_count))
        return fail(err, STATUS_USAGE, LAYER_FORMAT "the net would have more than %zu parameters; make it smaller",
                    LAYER_ARGS(of), max_parameters);
    switch (layer->kind) {
    case LAYER_NORM:
        add_norm(spec, layer, ++ordinals->norms, strcmp(of->form->word, "layernorm") == 0);
        break;
    case LAYER_BATCH_NORM:
        add_batch_norm(spec, layer, ++ordinals->norms);
        break;
    case LAYER_EMBEDDING:
        add_embedding(spec, layer, ++ordinals->embeddings);
        break;
    case LAYER_POSITIONS:
        add_positions(spec, layer, ++ordinals->positions);
        break;
    case LAYER_LSTM:
        add_lstm(spec, layer, ++ordinals->lstms);
        break;
    case LAYER_ATTENTION:
        add_attention(spec, layer, ++ordinals->attentions);
        break;
    default:
        add_weights(spec, layer, layer->kind == LAYER_CONV ? ++ordinals->convs : ++ordinals->linears);
    }
    return STATUS_OK;
}

// What a layer gives must be of use to another, but for the last one's.
static Status check_readers(const Spec *spec, Error *err) {
    bool is_read[SPEC_MAX_LAYERS] = {false};
    for (int l = 0; l < spec->layer_count; l++) {
        const int read[] = {spec->layers[l].source, spec->layers[l].other};
        for (int i = 0; i < 2; i++)
            if (read[i] != SPEC_INPUT) is_read[read[i]] = true;
    }
    for (int l = 0; l + 1 < spec->layer_count; l++)
        if (!is_read[l])
            return fail(
                err, STATUS_USAGE,
                "no layer takes what layer %d gives; give it a name (\"as NAME\") and take that by \"add NAME\", "
                "\"concat NAME\" or \"from NAME\", or leave it out",
                l + 1);
    return STATUS_OK;
}

static Status read_one(Spec *spec, LayerText *of, Ordinals *ordinals, Error *err) {
    const int number = spec->layer_count++;
    Layer *layer = &spec->layers[number];
    *layer = (Layer){.other = SPEC_INPUT};
    TRY(layer_text_source(&layer->source, of, number, err));
    layer->in = layer->source == SPEC_INPUT ? spec->input : spec->layers[layer->source].out;
    TRY(layer_read(layer, of, err));
    TRY(layer_text_name(of, number, err));
    return add_parameters(spec, layer, ordinals, of, err);
}

enum { MAX_CLASSES = 65535 }; // what two bytes of a label tell apart

static Status check_input(Shape input, int classes, Error *err) {
    if (input.channels < 1 || input.rows < 1 || input.columns < 1 || layer_is_too_large(input, (Sides){0, 0}))
        return fail(err, STATUS_USAGE,
                    "a net cannot read samples of %d channels, %d rows and %d columns; use a data set "
                    "whose samples have 1 to %d values",
                    input.channels, input.rows, input.columns, LAYER_MOST_VALUES);
    if (classes < 1 || classes > MAX_CLASSES)
        return fail(err, STATUS_USAGE, "%d classes; give 1 to %d", classes, MAX_CLASSES);
    return STATUS_OK;
}

Status spec_parse(Spec *spec, const char *text, Shape input, int classes, Error *err) {
    TRY(check_input(input, classes, err));
    if (strlen(text) >= SPEC_TEXT_BYTES)
        return fail(err, STATUS_USAGE, "the net's text has %zu characters; at most %d are read", strlen(text),
                    SPEC_TEXT_BYTES - 1);
    *spec = (Spec){.input = input, .classes = classes, .whole_batch = SPEC_WHOLE_BATCH};
    LayerText of = {.whole = text, .spec = spec};
    Ordinals ordinals = {0};
    for (const char *rest = text; rest;) {
        if (spec->layer_count == SPEC_MAX_LAYERS)
            return fail(err, STATUS_USAGE, "the net has more than %d layers; leave some out", SPEC_MAX_LAYERS);
        Status status = layer_text_next(&of, &rest, err);
        if (status == STATUS_OK) status = read_one(spec, &of, &ordinals, err);
        if (status == STATUS_OK) continue;
        if (err && !err->sketch[0]) layer_text_sketch(&of, NULL, err);
        return status;
    }
    TRY(check_readers(spec, err));
    const Shape shape = spec->layers[spec->layer_count - 1].out;
    if (shape.channels == classes && shape.rows == 1 && shape.columns == 1) return STATUS_OK;
    fail(err, STATUS_USAGE,
         LAYER_FORMAT "the last layer gives %d x %d x %d values, but there %s %d class%s; end with \"linear %d\"",
         LAYER_ARGS(&of), shape.channels, shape.rows, shape.columns, classes == 1 ? "is" : "are", classes,
         classes == 1 ? "" : "es", classes);
    layer_text_sketch(&of, NULL, err);
    return STATUS_USAGE;
}

static void draw_uniform(float *values, const ParameterTensor *tensor, RngKey key) {
    const float bound = (float)(tensor->stretch / sqrt((double)tensor->fan_in));
    RngBlock block = {{0}};
    for (size_t i = 0; i < tensor->count; i++) {
        if (i % 4 == 0) block = rng_block(key, (uint32_t)(i / 4), 0, 0, 0);
        values[i] = (2.0f * rng_float(block.word[i % 4]) - 1.0f) * bound;
    }
}

void spec_initialise(float *parameters, const Spec *spec, uint64_t seed) {
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        float *values = parameters + tensor->first;
        if (tensor->fan_in == 0) {
            for (size_t i = 0; i < tensor->count; i++)
                values[i] = tensor->start;
            continue;
        }
        const RngKey key = rng_key(seed, RNG_INIT, (uint32_t)t, 0, 0);
        for (size_t i = 0; i < tensor->count && tensor->normal; i++)
            values[i] = (float)(tensor->stretch * rng_normal(key, (uint32_t)i));
        if (!tensor->normal) draw_uniform(values, tensor, key);
    }
}

// Multiply-adds of one sample on the way forward.
static double layer_products(const Layer *layer) {
    const double outputs = (double)shape_size(layer->out);
    switch (layer->kind) {
    case LAYER_CONV:
        return outputs * (double)conv_inputs(layer);
    case LAYER_LINEAR:
    case LAYER_LINEAR_EACH:
        return outputs * (double)linear_ins(layer);
    case LAYER_LSTM:
        return 4.0 * lstm_steps(layer) * lstm_units(layer) * (layer->in.columns + lstm_units(layer));
    case LAYER_ATTENTION: // four projections; scores and contexts
        return outputs * (4.0 * layer->in.columns + 2.0 * layer->in.rows);
    default:
        return 0;
    }
}

double spec_training_flop(const Spec *spec) {
    double flop = 0;
    bool first = true;
    for (int l = 0; l < spec->layer_count; l++) {
        const double products = layer_products(&spec->layers[l]);
        if (products == 0) continue;
        flop += 2.0 * products * (first ? 2 : 3); // forward, weight gradient and input gradient
        first = false;
    }
    return flop;
}

static const ParameterTensor *tensor_at(const Spec *spec, size_t parameter) {
    const ParameterTensor *tensor = spec->tensors;
    while (parameter >= tensor->first + tensor->count)
        tensor++;
    return tensor;
}

const char *spec_tensor_name(const Spec *spec, size_t parameter) {
    return tensor_at(spec, parameter)->name;
}

const char *spec_tensor_remedy(const Spec *spec, size_t parameter) {
    const ParameterTensor *tensor = tensor_at(spec, parameter);
    if (!tensor->follows) return "; lower --lr";
    if (spec_layer_of(spec, tensor)->source != SPEC_INPUT)
        return "; running statistics move by less than 2^20 in a round: lower --lr, or bring the data near 1, by a "
               "mean and a deviation";
    return "; running statistics move by less than 2^20 in a round: bring the data near 1, by a mean and a deviation";
}
