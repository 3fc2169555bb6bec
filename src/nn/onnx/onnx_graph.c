#include "onnx_graph.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Types of a tensor's numbers and places of them, as ONNX numbers them.
enum { TYPE_FLOAT = 1, TYPE_INT32 = 6, TYPE_INT64 = 7, TYPE_DOUBLE = 11, ELSEWHERE = 1 };

const char *onnx_node_name(const Onnx__NodeProto *node) {
    if (node->name && *node->name) return node->name;
    return node->n_output > 0 ? node->output[0] : "";
}

// Attributes ----------------------------------------------------------------------------------------------------------

const Onnx__AttributeProto *onnx_attribute(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->name && strcmp(node->attribute[i]->name, name) == 0) return node->attribute[i];
    return NULL;
}

int64_t onnx_attribute_whole(const Onnx__NodeProto *node, const char *name, int64_t preset) {
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute ? attribute->i : preset;
}

float onnx_attribute_real(const Onnx__NodeProto *node, const char *name, float preset) {
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute ? attribute->f : preset;
}

// Constants -----------------------------------------------------------------------------------------------------------

static const char *entry_of(const Onnx__TensorProto *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
        if (entry->key && entry->value && strcmp(entry->key, key) == 0) return entry->value;
    }
    return NULL;
}

// Where numbers lie that are in a file beside the model's.
typedef struct Elsewhere {
    int fd; // owned
    uint64_t offset, bytes;
    char path[PATH_MAX];
} Elsewhere;

static bool read_extent(uint64_t *extent, const char *text, uint64_t preset) {
    char *end = "";
    *extent = text ? strtoull(text, &end, 10) : preset;
    return (!text || (*text >= '0' && *text <= '9')) && !*end && *extent <= INT64_MAX;
}

// The file is only looked for beside the model's: its name comes from others. So does what it is said to hold.
static Status open_elsewhere(Elsewhere *there, const OnnxImport *import, const Onnx__TensorProto *tensor, Error *err) {
    const char *place = entry_of(tensor, "location"), *end = strrchr(import->path, '/');
    const char *name = tensor->name ? tensor->name : "";
    if (!place || strchr(place, '/') || strcmp(place, "..") == 0)
        return fail(err, STATUS_DATA, "%s: the numbers of %.100s lie in %.100s; only files in the same folder are read",
                    import->path, name, place ? place : "a file without name");
    snprintf(there->path, sizeof there->path, "%.*s%s", end ? (int)(end - import->path) + 1 : 0, import->path, place);
    there->fd = open(there->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (there->fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s, which has the numbers of %.100s", there->path, name);
    struct stat stat;
    const uint64_t size = fstat(there->fd, &stat) == 0 && S_ISREG(stat.st_mode) ? (uint64_t)stat.st_size : 0;
    const char *offset = entry_of(tensor, "offset"), *length = entry_of(tensor, "length");
    if (read_extent(&there->offset, offset, 0) && there->offset <= size &&
        read_extent(&there->bytes, length, size - there->offset) && there->bytes <= size - there->offset)
        return STATUS_OK;
    close(there->fd);
    return fail(err, STATUS_DATA,
                "%s: has %" PRIu64
                " bytes, where those of %.100s begin at byte %.30s and are %.30s; export the net again",
                there->path, size, name, offset ? offset : "0", length ? length : "the rest");
}

static Status read_elsewhere(void *bytes, size_t count, const OnnxImport *import, const Onnx__TensorProto *tensor,
                             Error *err) {
    Elsewhere there;
    TRY(open_elsewhere(&there, import, tensor, err));
    size_t done = 0;
    for (ssize_t got = 1; done < count && count <= there.bytes && got > 0; done += got > 0 ? (size_t)got : 0)
        got = pread(there.fd, (char *)bytes + done, count - done, (off_t)(there.offset + done));
    close(there.fd);
    if (done == count) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: has not the %zu bytes of %.100s at byte %" PRIu64, there.path, count,
                tensor->name ? tensor->name : "", there.offset);
}

// The raw bytes of a tensor, of items of this size, into `bytes`.
static Status read_raw(void *bytes, size_t count, size_t item, const OnnxImport *import,
                       const Onnx__TensorProto *tensor, Error *err) {
    if (tensor->data_location == ELSEWHERE) return read_elsewhere(bytes, count * item, import, tensor, err);
    if (tensor->raw_data.len == count * item) {
        if (count > 0) memcpy(bytes, tensor->raw_data.data, count * item);
        return STATUS_OK;
    }
    return fail(err, STATUS_DATA, "%s: %.100s has %zu bytes instead of %zu", import->path,
                tensor->name ? tensor->name : "a constant", tensor->raw_data.len, count * item);
}

static Status read_reals(float *reals, size_t count, const OnnxImport *import, const Onnx__TensorProto *tensor,
                         Error *err) {
    if (tensor->data_type == TYPE_FLOAT && count > 0 && tensor->n_float_data == count) {
        memcpy(reals, tensor->float_data, count * sizeof *reals);
        return STATUS_OK;
    }
    if (tensor->data_type == TYPE_FLOAT) return read_raw(reals, count, sizeof *reals, import, tensor, err);
    const double *from = tensor->n_double_data == count ? tensor->double_data : NULL;
    double *raw = from ? NULL : malloc((count + 1) * sizeof *raw);
    Status status = STATUS_OK;
    if (!from && !raw)
        status = fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, count);
    else if (!from)
        status = read_raw(raw, count, sizeof *raw, import, tensor, err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        reals[i] = (float)(from ? from : raw)[i];
    free(raw);
    return status;
}

static Status read_wholes(int64_t *wholes, size_t count, const OnnxImport *import, const Onnx__TensorProto *tensor,
                          Error *err) {
    if (tensor->data_type == TYPE_INT64) {
        if (count == 0 || tensor->n_int64_data != count)
            return read_raw(wholes, count, sizeof *wholes, import, tensor, err);
        memcpy(wholes, tensor->int64_data, count * sizeof *wholes);
        return STATUS_OK;
    }
    int32_t *narrow = (int32_t *)wholes; // the first half
    if (count > 0 && tensor->n_int32_data == count)
        memcpy(narrow, tensor->int32_data, count * sizeof *narrow);
    else
        TRY(read_raw(narrow, count, sizeof *narrow, import, tensor, err));
    for (size_t i = count; i-- > 0;) {
        int32_t value;
        memcpy(&value, (const char *)wholes + i * sizeof value, sizeof value);
        wholes[i] = value;
    }
    return STATUS_OK;
}

// How many numbers the tensor can have at most.
static Status count_there(uint64_t *most, const OnnxImport *import, const Onnx__TensorProto *tensor, Error *err) {
    const bool narrow = tensor->data_type == TYPE_FLOAT || tensor->data_type == TYPE_INT32;
    Elsewhere there;
    *most = tensor->raw_data.len + tensor->n_float_data + tensor->n_int32_data + tensor->n_int64_data +
            tensor->n_double_data;
    if (tensor->data_location != ELSEWHERE) return STATUS_OK;
    TRY(open_elsewhere(&there, import, tensor, err));
    close(there.fd);
    *most = there.bytes / (narrow ? 4 : 8);
    return STATUS_OK;
}

// Numbers it announces are in the file, or in one beside it: nothing is reserved on the word of a file alone.
static Status count_numbers(OnnxValue *value, const OnnxImport *import, const Onnx__TensorProto *tensor, Error *err) {
    const char *name = tensor->name ? tensor->name : "a constant";
    uint64_t most;
    TRY(count_there(&most, import, tensor, err));
    if (tensor->n_dims > ONNX_MAX_RANK)
        return fail(err, STATUS_DATA, "%s: %.100s has %zu dimensions; at most %d are read", import->path, name,
                    tensor->n_dims, ONNX_MAX_RANK);
    value->rank = (int)tensor->n_dims;
    value->count = 1;
    for (int d = 0; d < value->rank; d++) {
        const int64_t extent = value->extent[d] = tensor->dims[d];
        if (extent < 0 || (extent > 0 && value->count > INT_MAX / (uint64_t)extent))
            return fail(err, STATUS_DATA, "%s: %.100s has a dimension of %" PRId64, import->path, name, extent);
        value->count *= (size_t)extent;
    }
    if (value->count <= most || value->count == 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: %.100s announces %zu numbers, which are not there", import->path, name,
                value->count);
}

Status onnx_constant(OnnxValue *value, const OnnxImport *import, const Onnx__TensorProto *tensor, Error *err) {
    const int32_t type = tensor->data_type;
    *value = (OnnxValue){.kind = VALUE_UNKNOWN, .name = tensor->name};
    const bool real = type == TYPE_FLOAT || type == TYPE_DOUBLE;
    if (!real && type != TYPE_INT64 && type != TYPE_INT32) return STATUS_OK;
    TRY(count_numbers(value, import, tensor, err));
    value->kind = VALUE_CONSTANT;
    if (real)
        value->reals = malloc((value->count + 1) * sizeof *value->reals);
    else
        value->wholes = malloc((value->count + 1) * sizeof *value->wholes);
    if (!value->reals && !value->wholes)
        return fail(err, STATUS_OS, "%s: no memory for %zu numbers", import->path, value->count);
    const Status status = real ? read_reals(value->reals, value->count, import, tensor, err)
                               : read_wholes(value->wholes, value->count, import, tensor, err);
    if (status == STATUS_OK) return status;
    free(value->reals);
    free(value->wholes);
    value->reals = NULL;
    value->wholes = NULL;
    return status;
}

// Values by name ------------------------------------------------------------------------------------------------------

static OnnxValue *find(OnnxImport *import, const char *name) {
    ENTRY wanted = {.key = (char *)name}, *found; // hsearch_r takes no const, and writes nothing there
    if (!hsearch_r(wanted, FIND, &found, &import->names)) return NULL;
    return found->data;
}

// Adds a value; its numbers are the table's whatever happens.
static Status add_value(OnnxImport *import, const OnnxValue *value, Error *err) {
    ENTRY entry = {.key = (char *)value->name, .data = &import->values[import->value_count]}, *found;
    const char *why = NULL;
    if (import->value_count == import->value_room)
        why = "more values than its nodes give";
    else if (find(import, value->name))
        why = "given twice";
    else if (!hsearch_r(entry, ENTER, &found, &import->names))
        why = "one value too many";
    if (!why) {
        import->values[import->value_count++] = *value;
        return STATUS_OK;
    }
    free(value->reals);
    free(value->wholes);
    return fail(err, STATUS_DATA, "%s: corrupt: %.100s is %s", import->path, value->name, why);
}

OnnxValue *onnx_input(OnnxImport *import, const Onnx__NodeProto *node, size_t which, Status *status, Error *err) {
    *status = STATUS_OK;
    if (which >= node->n_input || !*node->input[which]) return NULL;
    OnnxValue *value = find(import, node->input[which]);
    if (!value)
        *status = fail(err, STATUS_DATA, NODE_FORMAT "takes %.100s, which no node before it gives",
                       NODE_ARGS(import, node), node->input[which]);
    return value;
}

Status onnx_take(OnnxValue **value, OnnxImport *import, const Onnx__NodeProto *node, size_t which, ValueKind kind,
                 const char *what, Error *err) {
    Status status;
    *value = onnx_input(import, node, which, &status, err);
    TRY(status);
    if (*value && (*value)->kind == kind) return STATUS_OK;
    return fail(err, STATUS_DATA, NODE_FORMAT "its input %zu is %s", NODE_ARGS(import, node), which + 1, what);
}

// How many nodes take a value but for its shape; the graph's result counts as one.
static int count_uses(const OnnxImport *import, const char *name) {
    int uses = 0;
    for (size_t n = 0; n < import->graph->n_node; n++)
        for (size_t i = 0; i < import->graph->node[n]->n_input; i++)
            uses += strcmp(import->graph->node[n]->input[i], name) == 0 &&
                    strcmp(import->graph->node[n]->op_type, "Shape") != 0;
    for (size_t o = 0; o < import->graph->n_output; o++)
        uses += import->graph->output[o]->name && strcmp(import->graph->output[o]->name, name) == 0;
    return uses;
}

int onnx_uses(const OnnxImport *import, const Onnx__NodeProto *node, size_t which) {
    return which < node->n_output && *node->output[which] ? count_uses(import, node->output[which]) : 0;
}

Status onnx_give_output(OnnxImport *import, const Onnx__NodeProto *node, size_t which, OnnxValue value, Error *err) {
    const int uses = onnx_uses(import, node, which);
    if (uses > value.uses) value.uses = uses; // by another name, what several take stays theirs
    if (which < node->n_output && *node->output[which]) {
        value.name = node->output[which];
        return add_value(import, &value, err);
    }
    free(value.reals);
    free(value.wholes);
    return STATUS_OK;
}

Status onnx_give(OnnxImport *import, const Onnx__NodeProto *node, OnnxValue value, Error *err) {
    return onnx_give_output(import, node, 0, value, err);
}

// The file ------------------------------------------------------------------------------------------------------------

static Status unpack(OnnxImport *import, Error *err) {
    struct stat about;
    const int fd = open(import->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s", import->path);
    void *bytes = MAP_FAILED;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED) return fail(err, STATUS_DATA, "%s: no ONNX file: empty, or no regular file", import->path);
    import->model = onnx__model_proto__unpack(NULL, (size_t)about.st_size, bytes);
    munmap(bytes, (size_t)about.st_size);
    if (!import->model || !import->model->graph)
        return fail(err, STATUS_DATA, "%s: no ONNX file, or a damaged one: its %lld bytes are no model with a graph",
                    import->path, (long long)about.st_size);
    import->graph = import->model->graph;
    return STATUS_OK;
}

static Status check_graph(const OnnxImport *import, Error *err) {
    const Onnx__GraphProto *graph = import->graph;
    if (graph->n_node > ONNX_MAX_NODES)
        return fail(err, STATUS_DATA, "%s: the graph has %zu nodes; at most %d are read", import->path, graph->n_node,
                    ONNX_MAX_NODES);
    if (graph->n_output != 1)
        return fail(err, STATUS_DATA, "%s: the graph gives %zu values; a net here gives one", import->path,
                    graph->n_output);
    for (size_t n = 0; n < graph->n_node; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        const bool gives = node->n_output > 1 || (node->n_output == 1 && *node->output[0]);
        if (!node->op_type || !gives || (!*node->output[0] && strcmp(node->op_type, "LSTM") != 0))
            return fail(err, STATUS_DATA, "%s: corrupt: node %zu of the graph has no op, or gives nothing",
                        import->path, n + 1);
    }
    return STATUS_OK;
}

static Status add_constants(OnnxImport *import, Error *err) {
    for (size_t i = 0; i < import->graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = import->graph->initializer[i];
        OnnxValue value;
        if (!tensor->name) return fail(err, STATUS_DATA, "%s: corrupt: a constant without name", import->path);
        TRY(onnx_constant(&value, import, tensor, err));
        import->number_count += value.count;
        TRY(add_value(import, &value, err));
    }
    return STATUS_OK;
}

// The graph's inputs but for constants, which old files list, too.
static Status find_input(const Onnx__ValueInfoProto **input, OnnxImport *import, Error *err) {
    *input = NULL;
    for (size_t i = 0; i < import->graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = import->graph->input[i];
        if (!info->name || find(import, info->name)) continue;
        if (*input)
            return fail(err, STATUS_DATA, "%s: the graph takes %.100s and %.100s; a net here takes one input",
                        import->path, (*input)->name, info->name);
        *input = info;
    }
    if (*input && (*input)->type && (*input)->type->tensor_type && (*input)->type->tensor_type->shape) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: the graph has no input with a shape", import->path);
}

// Extents that are not numbers are whatever the samples have.
static Status take_input(OnnxImport *import, const Onnx__ValueInfoProto *info, Shape sample, Error *err) {
    const Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
    const int64_t image[] = {sample.channels, sample.rows, sample.columns}, vector = (int64_t)shape_size(sample);
    const bool flat = shape->n_dim == 2, rows = shape->n_dim == 3 && sample.channels == 1;
    bool fits = flat || rows || shape->n_dim == 4;
    char said[96] = "";
    for (size_t d = 1; d < shape->n_dim; d++) {
        const int64_t here = flat ? vector : image[(rows ? d : d - 1) % 3], there = shape->dim[d]->dim_value;
        fits = fits && (!shape->dim[d]->has_dim_value || there == here);
        const size_t used = strlen(said);
        snprintf(said + used, sizeof said - used, "%s%" PRId64, d > 1 ? "x" : "", there);
    }
    if (!fits)
        return fail(err, STATUS_DATA, "%s: the net takes samples of %s, those of the data are %dx%dx%d", import->path,
                    *said ? said : "no dimension", sample.channels, sample.rows, sample.columns);
    import->batch = shape->dim[0]->has_dim_value ? shape->dim[0]->dim_value : 0;
    const int32_t type = info->type->tensor_type->elem_type;
    OnnxValue value = {.name = info->name,
                       .kind = type == TYPE_INT32 || type == TYPE_INT64 ? VALUE_NUMBERS : VALUE_SAMPLES,
                       .uses = count_uses(import, info->name),
                       .layer = SPEC_INPUT,
                       .shape = sample};
    snprintf(value.view, sizeof value.view, "%s", flat ? "nf" : rows ? "nhw" : "nchw");
    return add_value(import, &value, err);
}

Status onnx_open(OnnxImport *import, const char *path, Shape sample, Error *err) {
    const Onnx__ValueInfoProto *input;
    *import = (OnnxImport){.path = path};
    Status status;
    TRY_GOTO(fail, unpack(import, err));
    TRY_GOTO(fail, check_graph(import, err));
    import->value_room = import->graph->n_initializer + 1;
    for (size_t n = 0; n < import->graph->n_node; n++)
        import->value_room += import->graph->node[n]->n_output;
    import->values = calloc(import->value_room, sizeof *import->values);
    if (!import->values || !hcreate_r(2 * import->value_room, &import->names)) {
        status = fail(err, STATUS_OS, "%s: no memory for %zu values", path, import->value_room);
        goto fail;
    }
    TRY_GOTO(fail, add_constants(import, err));
    TRY_GOTO(fail, find_input(&input, import, err));
    TRY_GOTO(fail, take_input(import, input, sample, err));
    return STATUS_OK;
fail:
    onnx_close(import);
    return status;
}

void onnx_close(OnnxImport *import) {
    for (size_t i = 0; i < import->value_count; i++) {
        free(import->values[i].reals);
        free(import->values[i].wholes);
    }
    free(import->values);
    if (import->names.table) hdestroy_r(&import->names);
    onnx_layers_free(&import->layers);
    onnx__model_proto__free_unpacked(import->model, NULL);
}
