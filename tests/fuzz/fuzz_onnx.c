// Any file: it is a net whose text is read and has as many weights as came with it, or refused with a sentence.
#include "fuzz.h"

#include "nn/onnx/onnx_net.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static Spec spec;
    const Shape sample = {1, 8, 8};
    Error err = {.message = ""};
    OnnxNet net;
    write_file("net.onnx", input, bytes);
    if (refused_with_a_sentence(sounder_onnx.read(&net, "net.onnx", sample, &err), &err) != STATUS_OK) return 0;
    float sum = 0;
    for (size_t i = 0; i < net.parameter_count; i++)
        sum += net.parameters[i];
    must(sum == sum || sum != sum);
    must(strlen(net.text) > 0);
    if (refused_with_a_sentence(spec_parse(&spec, net.text, sample, 3, &err), &err) == STATUS_OK)
        must(spec.parameter_count == net.parameter_count);
    free(net.parameters);
    return 0;
}
