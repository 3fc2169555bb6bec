#include "spec.h"

#include <assert.h>
#include <math.h>

#include "base/rng.h"

// A layer reads one or two earlier values. One that is read by several layers cannot be overwritten, and its gradient
// is a sum.
SpecReaders spec_readers(const Spec *spec) {
    SpecReaders readers = {{0}, {0}};
    for (int l = 0; l < spec->layer_count; l++) {
        const int read[] = {spec->layers[l].source, spec->layers[l].other};
        assert(read[0] < l && read[1] < l);
        for (int i = 0; i < 2; i++)
            if (read[i] != SPEC_INPUT && readers.count[read[i]]++ == 0) readers.first[read[i]] = l;
    }
    return readers;
}

// PyTorch's uniform initialisation. Every value has a word of its own in the random stream of its tensor. A block of
// Philox gives four words, so every fourth value draws a new block.
static void draw_uniform(float *values, const ParameterTensor *tensor, RngKey key) {
    const float bound = (float)(tensor->stretch / sqrt((double)tensor->fan_in));
    RngBlock block = {{0}};
    for (size_t i = 0; i < tensor->count; i++) {
        if (i % 4 == 0) block = rng_block(key, (uint32_t)(i / 4), 0, 0, 0);
        values[i] = (2.0f * rng_float(block.word[i % 4]) - 1.0f) * bound;
    }
}

// The key of a tensor's values is its number in the net: values do not depend on how many values other tensors have. So
// a change of one layer's width leaves the values of all others as they were.
void spec_initialise(float *parameters, const Spec *spec, uint64_t seed) {
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        float *values = parameters + tensor->first;
        assert(tensor->first + tensor->count <= spec->parameter_count);
        assert(t == 0 ||
               tensor->first == tensor[-1].first + tensor[-1].count); // tensors follow each other without a gap
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

// Forward pass, weight's gradient and input's gradient take the same number of products each.
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

// Running statistics follow the data instead of the learning rate: for a layer that reads the net's input only other
// data help.
const char *spec_tensor_remedy(const Spec *spec, size_t parameter) {
    const TensorList list = spec_tensors(spec);
    const ParameterTensor *tensor = tensors_at(&list, parameter);
    if (!tensor->follows) return "; lower --lr";
    if (spec_layer_of(spec, tensor)->source != SPEC_INPUT)
        return "; running statistics move by less than 2^20 in a round: lower --lr, or bring the data near 1, by a "
               "mean and a deviation";
    return "; running statistics move by less than 2^20 in a round: bring the data near 1, by a mean and a deviation";
}
