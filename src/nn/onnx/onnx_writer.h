// A graph of ONNX's messages while a net becomes one: tensors, nodes and their attributes, and what the layers before
// gave.
//
//   char *turned = writer_node(writer, "Transpose", writer_text(writer, "turned", 3), in, NULL, NULL);
//   writer_set_wholes(writer, "perm", 3, (int64_t[]){1, 0, 2}); // of the node that was added last
//
// Everything lies in `room`, but for the net's parameters, which are the caller's, and what is owned beside it. Names
// that functions give belong to the writer.
#ifndef SOUNDER_NN_ONNX_ONNX_WRITER_H
#define SOUNDER_NN_ONNX_ONNX_WRITER_H

#include "nn/spec.h"
#include "onnx.pb-c.h"

enum {
    ONNX_FLOAT = 1,
    ONNX_INT64 = 7,
    MOST_NODES = 24 * SPEC_MAX_LAYERS,
    MOST_TENSORS = 16 * SPEC_MAX_LAYERS,
    ROOM_BYTES = SPEC_MAX_LAYERS << 15, // more than all messages but the weights take
};

typedef struct Writer {
    const Spec *spec;
    const float *parameters;
    uint8_t *room; // owned
    size_t used;
    float *ones, *zeros; // owned: as many as any layer has groups
    float *own;          // owned: weights that lie otherwise in ONNX
    size_t own_used;
    Onnx__NodeProto *nodes[MOST_NODES];
    Onnx__TensorProto *tensors[MOST_TENSORS];
    size_t node_count, tensor_count;
    int rank[SPEC_MAX_LAYERS]; // dimensions of what the layer gives: 2, vectors; 3, sequences; 4, images
} Writer;

// Bytes, a few hundred at most, for each of the few things that a layer is made of; and a name, with a number unless
// that is negative.
void *writer_take(Writer *writer, size_t bytes);
char *writer_text(Writer *writer, const char *prefix, int number);

// Room for so many of the floats that writer_own_floats counts.
float *writer_own(Writer *writer, size_t count);
size_t writer_own_floats(const Spec *spec);

// Constants: floats, which stay where they are, one float, or whole numbers, or one; returns their name.
char *writer_reals(Writer *writer, const char *name, int number, size_t rank, const int64_t *shape, const float *reals);
char *writer_scalar(Writer *writer, const char *name, int number, float value);
char *writer_wholes(Writer *writer, const char *name, int number, int64_t count, const int64_t *wholes);
char *writer_whole(Writer *writer, const char *name, int number, int64_t value);

// The parameters that begin there under PyTorch's name, perhaps of another rank.
char *writer_parameters(Writer *writer, size_t first, size_t rank, const int64_t *shape);

// Returns the name of what the node gives. Up to three inputs; NULL: no more.
char *writer_node(Writer *writer, const char *op, char *gives, char *first, char *second, char *third);

// Attributes of the node that was added last.
void writer_set_real(Writer *writer, const char *name, float value);
void writer_set_whole(Writer *writer, const char *name, int64_t value);
void writer_set_wholes(Writer *writer, const char *name, size_t count, const int64_t *values);

// The name of what a layer gives, or of the net's input, and how many dimensions that has.
char *writer_name(Writer *writer, int layer);
int writer_rank(const Writer *writer, int layer);

// What layer number `source` gives, with so many dimensions: a sequence of three and an image of one channel are the
// same values. NULL: it cannot be had.
char *writer_as(Writer *writer, int source, int rank);

// Of onnx_write_sequences.c: layers of sequences. False: ONNX has no op for it that takes what the layer takes.
bool write_embedding(Writer *writer, char *out, int l);
bool write_positions(Writer *writer, char *out, int l);
bool write_linear_each(Writer *writer, char *out, int l);
bool write_norm_each(Writer *writer, char *out, int l);
bool write_lstm(Writer *writer, char *out, int l);
bool write_attention(Writer *writer, char *out, int l);

#endif
