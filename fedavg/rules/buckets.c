#include "buckets.h"

static const size_t first_bucket_bytes = 1u << 20, bucket_bytes = 25u << 20;

// Where a layer's parameters begin; its weight comes first.
static bool has_parameters(const Layer *layer) {
    return layer->kind == LAYER_CONV || layer->kind == LAYER_LINEAR;
}

void buckets_cut(Buckets *buckets, const Spec *spec) {
    *buckets = (Buckets){.count = 0};
    size_t end = spec->parameter_count;
    for (int l = spec->layer_count - 1; l >= 0; l--) {
        const Layer *layer = &spec->layers[l];
        if (!has_parameters(layer)) continue;
        size_t limit = buckets->count == 0 ? first_bucket_bytes : bucket_bytes;
        bool is_full = (end - layer->weight) * sizeof(float) >= limit && buckets->count < MAX_BUCKETS - 1;
        if (!is_full && layer->weight > 0) continue;
        buckets->first[buckets->count] = layer->weight;
        buckets->end[buckets->count++] = end;
        end = layer->weight;
    }
}

Slice bucket_slice(const Buckets *buckets, uint32_t bucket, uint32_t position, uint32_t members) {
    enum { LINE = 16 }; // floats
    size_t first = buckets->first[bucket], end = buckets->end[bucket];
    size_t first_line = first / LINE, lines = (end + LINE - 1) / LINE - first_line;
    Slice slice = {(first_line + lines * position / members) * LINE,
                   (first_line + lines * (position + 1) / members) * LINE};
    if (slice.first < first) slice.first = first;
    if (slice.end > end) slice.end = end;
    return slice;
}
