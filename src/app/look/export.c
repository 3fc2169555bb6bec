// `sounder export`: a model as a file of ONNX's.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/look/look_options.h"
#include "app/run/model_file.h"
#include "app/run/onnx_file.h"
#include "io/durable.h"

// The notes of a model's file say which net it is.
static Status read_spec(Spec *spec, const Safetensors *file, const char *path, Error *err) {
    const char *text = safetensors_note(file, "sounder.model"), *input = safetensors_note(file, "sounder.input");
    const char *classes = safetensors_note(file, "sounder.classes");
    Shape shape;
    if (!text || !input || !classes || sscanf(input, "%dx%dx%d", &shape.channels, &shape.rows, &shape.columns) != 3)
        return fail(
            err, STATUS_DATA,
            "%s does not say which net it is, for samples of which shape: its notes sounder.model, sounder.input and "
            "sounder.classes, which Sounder writes, are missing",
            path);
    return spec_parse(spec, text, shape, atoi(classes), err);
}

static Status write_file(const char *path, const void *bytes, size_t count, Error *err) {
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) < sizeof folder - 1)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash > path ? slash - path : 1), path);
    const Folder at = {open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder};
    if (at.fd < 0) return fail_errno(err, STATUS_CANTCREATE, "--onnx %.200s", path);
    const FilePart part = {bytes, count};
    const Status status = durable_write(&at, slash ? slash + 1 : path, &part, 1, err);
    close(at.fd);
    return status;
}

static Status export_file(const Safetensors *file, const char *path, const char *to, Error *err) {
    Spec *spec = malloc(sizeof *spec);
    float *parameters = NULL;
    void *bytes = NULL;
    size_t count = 0;
    Status status = spec ? read_spec(spec, file, path, err) : fail(err, STATUS_OS, "no memory for the net of %s", path);
    if (status == STATUS_OK) {
        parameters = malloc(spec->parameter_count * sizeof *parameters);
        status = parameters ? model_load_alone(parameters, spec, file, path, err)
                            : fail(err, STATUS_OS, "no memory for %zu parameters", spec->parameter_count);
    }
    if (status == STATUS_OK) status = onnx_pack(&bytes, &count, spec, parameters, to, err);
    if (status == STATUS_OK) status = write_file(to, bytes, count, err);
    free(bytes);
    free(parameters);
    free(spec);
    return status;
}

Status command_export(int argc, char **argv, Error *err) {
    LookOptions options;
    Safetensors file;
    struct stat about;
    char path[PATH_MAX];
    TRY(look_options_parse(&options, look_command_find("export"), argc, argv, err));
    if (!options.out[0])
        return fail(err, STATUS_USAGE,
                    "sounder export: needs a file to write; write sounder export RUN --onnx FILE.onnx");
    if (!onnx_is_file(options.out))
        return fail(err, STATUS_USAGE, "--onnx %.200s: needs a name that ends in .onnx", options.out);
    const char *from = options.folders[0];
    const bool is_run = stat(from, &about) == 0 && S_ISDIR(about.st_mode);
    if (snprintf(path, sizeof path, "%s%s", from, is_run ? "/model.safetensors" : "") >= PATH_MAX)
        return fail(err, STATUS_USAGE, "the path of the model is too long: %.200s...", from);
    TRY(safetensors_open(&file, path, err));
    const Status status = export_file(&file, path, options.out, err);
    safetensors_close(&file);
    return status;
}
