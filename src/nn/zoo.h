// Nets by name: lenet, softmax, 2nn, cnn, cifar-cnn. Each is only a text for spec_parse.
#ifndef SOUNDER_NN_ZOO_H
#define SOUNDER_NN_ZOO_H

#include <stddef.h>

typedef struct ZooEntry {
    const char *name;
    const char *text;        // layers, as spec.h describes; the last layer's outputs are written "classes"
    const char *description; // one line, with its source
} ZooEntry;

extern const ZooEntry zoo_entries[];
extern const size_t zoo_entry_count;

// The layer list behind a --model value: a zoo entry's text, or the value itself when it is no zoo name. In either, a
// last word "classes" becomes the number of classes. Writes at most `bytes` characters, always terminated.
void zoo_expand(char *text, size_t bytes, const char *model, int classes);

#endif
