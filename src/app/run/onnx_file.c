#include "onnx_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/module.h"

bool onnx_is_file(const char *value) {
    const size_t length = strlen(value);
    return length > 5 && strcmp(value + length - 5, ".onnx") == 0;
}

static Status load_module(const OnnxModule **module, const char *path, Error *err) {
    *module = module_symbol("sounder_onnx.so", "sounder_onnx", false);
    if (*module) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "%s: the module for ONNX's files cannot be loaded (%s); build with libprotobuf-c-dev and "
                "protobuf-c-compiler installed",
                path, dlerror());
}

Status onnx_pack(void **bytes, size_t *count, const Spec *spec, const float *parameters, const char *path, Error *err) {
    const OnnxModule *module;
    TRY(load_module(&module, path, err));
    return module->write(bytes, count, spec, parameters, path, err);
}

Status onnx_read(OnnxNet *net, const char *path, Shape sample, Error *err) {
    const OnnxModule *module;
    TRY(load_module(&module, path, err));
    TRY(module->read(net, path, sample, err));
    const bool one = net->folded == 1;
    if (net->folded > 0)
        log_warning(
            "%s: %d batchnorm%s became part of the weights before %s and %s trained as such: %s epsilon or momentum "
            "is not the 1e-5 and 0.9 (PyTorch's 0.1) of a batchnorm here; export with these to keep %s",
            path, net->folded, one ? "" : "s", one ? "it" : "them", one ? "is" : "are", one ? "its" : "their",
            one ? "it" : "them");
    return STATUS_OK;
}

// Both nets' tensors have the same shapes in the same order.
static Status check_tensors(const Spec *theirs, const Spec *ours, const char *path, Error *err) {
    for (int t = 0; t < ours->tensor_count; t++) {
        const ParameterTensor *there = &theirs->tensors[t], *here = &ours->tensors[t];
        if (t == theirs->tensor_count || there->rank != here->rank ||
            memcmp(there->shape, here->shape, (size_t)here->rank * sizeof *here->shape) != 0)
            return fail(err, STATUS_DATA, "%s does not fit the net: it has no weights of the shape of %s in that place",
                        path, here->name);
    }
    if (theirs->tensor_count == ours->tensor_count) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s does not fit the net: it has %d tensors, the net %d", path, theirs->tensor_count,
                ours->tensor_count);
}

Status onnx_read_spec(OnnxNet *net, Spec *spec, const char *path, Shape sample, int classes, Error *err) {
    Error why = {.message = "its weights are not those of its layers"};
    TRY(onnx_read(net, path, sample, err));
    Status status = spec_parse(spec, net->text, sample, classes, &why);
    if (status == STATUS_OK && spec->parameter_count == net->parameter_count) return STATUS_OK;
    fail(err, STATUS_DATA, "%s, read as \"%.400s\": %s", path, net->text, why.message);
    free(net->parameters);
    return STATUS_DATA;
}

Status onnx_begin_from(float *parameters, const Spec *spec, const char *path, Error *err) {
    OnnxNet net;
    Spec *theirs = malloc(sizeof *theirs);
    if (!theirs) return fail(err, STATUS_OS, "no memory for the net of %s", path);
    Status status = onnx_read_spec(&net, theirs, path, spec->input, spec->classes, err);
    if (status == STATUS_OK) {
        status = check_tensors(theirs, spec, path, err);
        if (status == STATUS_OK) memcpy(parameters, net.parameters, spec->parameter_count * sizeof *parameters);
        free(net.parameters);
    }
    free(theirs);
    return status;
}

void onnx_recognise(Options *options, const Options *saved) {
    char path[PATH_MAX];
    if (!onnx_is_file(options->model) || realpath(options->model, path) != path || strcmp(path, saved->init) != 0)
        return;
    memcpy(options->model, saved->model, sizeof options->model);
    memcpy(options->init, saved->init, sizeof options->init);
}
