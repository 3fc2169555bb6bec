// How each kind of layer is written, and what its text says of its shape.
#ifndef SOUNDER_NN_LAYER_FORMS_H
#define SOUNDER_NN_LAYER_FORMS_H

#include "nn/layer_text.h"

// A sample's tensor may have so many values at most: every product of sizes fits an int, and every arena a machine.
enum { LAYER_MOST_VALUES = 1 << 28 };

// Whether a tensor with `border` rows and columns more on each side has too many.
bool layer_is_too_large(Shape shape, Sides border);

// The layer that the text describes, for the input layer->in: everything but the places of its parameters. USAGE with a
// sentence about the text.
Status layer_read(Layer *layer, LayerText *of, Error *err);

#endif
