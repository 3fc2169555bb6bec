// Any text and shape: the tensors of a net that is accepted cover its parameters once. The first four bytes are the
// images' channels, rows, columns and the classes.
#include "fuzz.h"

#include "nn/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    if (bytes < 4) return 0;
    Spec spec;
    Error err = {.message = ""};
    char expanded[SPEC_TEXT_BYTES], *text = text_of(input + 4, bytes - 4);
    Shape shape = {.channels = (int8_t)input[0], .rows = input[1], .columns = input[2]};
    zoo_expand(expanded, sizeof expanded, text, input[3]);
    free(text);
    if (refused_with_a_sentence(spec_parse(&spec, expanded, shape, input[3], &err), &err) != STATUS_OK) return 0;
    size_t sum = 0;
    for (int i = 0; i < spec.tensor_count; i++) {
        const ParameterTensor *tensor = &spec.tensors[i];
        size_t count = 1;
        for (int d = 0; d < tensor->rank; d++)
            count *= (size_t)tensor->shape[d];
        must(tensor->first == sum && tensor->count == count && count > 0);
        sum += count;
    }
    must(sum == spec.parameter_count);
    return 0;
}
