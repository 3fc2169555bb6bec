// The words of layers with windows, and the shape that a window leaves. PyTorch's rules for padding and for windows
// that do not fit are kept, so that a net's shapes are the same in both.
#include "windows.h"

#include <assert.h>

// An option that occurs twice is left over, and layer_text_end refuses it.
Status layer_read_keys(LayerKey *keys, size_t count, LayerText *of, Error *err) {
    while (layer_text_has_more(of)) {
        size_t k = 0;
        while (k < count && (keys[k].seen || !layer_text_key(of, keys[k].name)))
            k++;
        if (k == count) return layer_text_end(of, err);
        keys[k].seen = true;
        const LayerKey *key = &keys[k];
        if (key->flag)
            *key->flag = true;
        else
            TRY(key->sides ? layer_text_sides(key->sides, of, key->name, key->low, key->high, err)
                           : layer_text_whole(key->whole, of, key->name, key->low, key->high, err));
    }
    return STATUS_OK;
}

// Two sentences: too much padding, and windows larger than the padded image.
Status layer_slide(Layer *layer, const Window *window, Sides most, const LayerText *of, const char *what, Error *err) {
    const Shape in = layer->in;
    const Sides size = window->size, pad = window->pad;
    assert(size.rows > 0 && size.columns > 0 && window->stride.rows > 0 && window->stride.columns > 0);
    if (pad.rows > most.rows || pad.columns > most.columns)
        return fail(err, STATUS_USAGE,
                    LAYER_FORMAT "a padding of %dx%d is too much for a %s of %dx%d; give at most %dx%d", LAYER_ARGS(of),
                    pad.rows, pad.columns, what, size.rows, size.columns, most.rows, most.columns);
    layer->out.rows = windows_along(in.rows, size.rows, window->stride.rows, pad.rows);
    layer->out.columns = windows_along(in.columns, size.columns, window->stride.columns, pad.columns);
    if (layer->out.rows >= 1 && layer->out.columns >= 1) return STATUS_OK;
    const char *remedy = in.rows == 1 && in.columns > 1 ? "; images that are stored in one row get their rows "
                                                          "and columns by shape=1x28x28 in --data (help data)"
                                                        : "";
    return fail(
        err, STATUS_USAGE,
        LAYER_FORMAT "the input of %d row%s and %d columns is smaller than the %s of %dx%d; use a smaller %s or "
                     "more padding%s",
        LAYER_ARGS(of), in.rows, in.rows == 1 ? "" : "s", in.columns, what, size.rows, size.columns, what, remedy);
}
