// Any file: it is a net whose text is read and has as many weights as came with it, or refused with a sentence. What is
// written of such a net is read again.
#include "fuzz.h"

#include "nn/onnx/onnx_net.h"

// What is written of it is read again.
static void write_again(const Spec *spec, const float *parameters) {
    Error err = {.message = ""};
    OnnxNet net;
    void *bytes;
    size_t count;
    if (refused_with_a_sentence(sounder_onnx.write(&bytes, &count, spec, parameters, "again.onnx", &err), &err) !=
        STATUS_OK)
        return;
    write_file("again.onnx", bytes, count);
    free(bytes);
    must(sounder_onnx.read(&net, "again.onnx", spec->input, &err) == STATUS_OK);
    must(net.parameter_count == spec->parameter_count);
    free(net.parameters);
}

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
    if (refused_with_a_sentence(spec_parse(&spec, net.text, sample, 3, &err), &err) == STATUS_OK) {
        must(spec.parameter_count == net.parameter_count);
        write_again(&spec, net.parameters);
    }
    free(net.parameters);
    return 0;
}
