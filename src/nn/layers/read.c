// Part of layer.h: reads one layer of a net's text by the rows of layers.
//
// Each layer's first word finds its row in the table, whose reader takes the words that follow. The checks here are
// those that many layers share. Sentences name the layer by its number and text.
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "layer.h"

// In double precision, as the product may overflow an int.
bool layer_is_too_large(Shape shape, Sides border) {
    double rows = shape.rows + 2.0 * border.rows, columns = shape.columns + 2.0 * border.columns;
    return shape.channels * rows * columns > LAYER_MOST_VALUES;
}

Status layer_check_sequence(Layer *layer, LayerText *of, Error *err) {
    if (layer->in.channels == 1) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                LAYER_FORMAT
                "it takes a sequence, 1 x steps x values, not %d x %d x %d; put it behind an embedding, an lstm, an "
                "attention, or images of one channel",
                LAYER_ARGS(of), layer->in.channels, layer->in.rows, layer->in.columns);
}

// Layer names of other programs whose function nets here have without a layer.
static const struct NeedlessWord {
    const char *word, *why;
} needless[] = {
    {"flatten", "linear takes the values of any shape"},
    {"reshape", "linear takes the values of any shape"},
    {"softmax", "softmax and cross-entropy follow the last layer by themselves"},
    {"log_softmax", "softmax and cross-entropy follow the last layer by themselves"},
};

// Writes "conv, pool, ... or linear". The list is made from the rows, so that a new layer is in the sentence, too.
static void list_words(char *list, size_t bytes) {
    size_t used = 0;
    for (size_t i = 0; layer_form(i) && used < bytes; i++) {
        const char *before = i == 0 ? "" : layer_form(i + 1) ? ", " : " or ";
        used += (size_t)snprintf(list + used, bytes - used, "%s%s", before, layer_form(i)->word);
    }
}

// Synonyms come before words, so that "did you mean" prefers an exact synonym to a word that is merely close.
static const char *closest_word(const char *typed) {
    Suggestion suggestion = {.typed = typed};
    LayerKind kind;
    const LayerWord *word;
    for (size_t i = 0; (word = layer_word(&kind, i)); i++)
        for (int s = 0; s < LAYER_MOST_SYNONYMS && word->also[s]; s++)
            suggestion_consider_as(&suggestion, word->also[s], word->form.word);
    for (size_t i = 0; layer_form(i); i++)
        suggestion_consider(&suggestion, layer_form(i)->word);
    return suggestion.best;
}

// An unknown word: says what to do instead if nets here need no such layer, and else which word is meant.
static Status no_form(const LayerText *of, Error *err) {
    const char *word = of->words[0], *best = closest_word(word);
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (strcasecmp(word, needless[i].word) == 0)
            return fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is not needed: %s; leave it out", LAYER_ARGS(of), word,
                        needless[i].why);
    char list[512];
    list_words(list, sizeof list);
    fail(err, STATUS_USAGE, LAYER_FORMAT "\"%s\" is no kind of layer%s%s%s; use %s", LAYER_ARGS(of), word,
         best ? " (did you mean " : "", best ? best : "", best ? "?)" : "", list);
    return layer_text_sketch(of, word, err);
}

// Sizes are checked with the border that ops may add to the input: a plain convolution's kernel, or the padding.
static Status check_size(const Layer *layer, const LayerText *of, Error *err) {
    const Sides pad = layer->window.pad, border = {pad.rows + layer->kernel, pad.columns + layer->kernel};
    if (!layer_is_too_large(layer->in, border) && !layer_is_too_large(layer->out, border)) return STATUS_OK;
    return fail(err, STATUS_USAGE, LAYER_FORMAT "a sample would have more than %d values here; make the layer smaller",
                LAYER_ARGS(of), LAYER_MOST_VALUES);
}

// The first word chooses the row; its reader takes numbers and options; words that are left over are an error.
Status layer_read(Layer *layer, LayerText *of, Error *err) {
    const LayerWord *word;
    size_t i = 0;
    while ((word = layer_word(&layer->kind, i)) && strcmp(word->form.word, of->words[0]) != 0)
        i++;
    if (!word) return no_form(of, err);
    of->form = &word->form;
    layer->activation = word->activation;
    layer->out = layer->in;
    if (word->read) TRY(word->read(layer, of, err));
    assert(layer->source >= SPEC_INPUT && layer->other >= SPEC_INPUT);
    TRY(layer_text_end(of, err));
    return check_size(layer, of, err);
}
