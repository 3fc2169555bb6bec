// The pixels are copied one by one, as a flip reverses them: an image's copy costs far less than its way through a net.
#include "augment.h"

#include <string.h>

// An image is drawn by its number in the larger batch that this one is a part of: the parts of a batch, on whatever
// workers, get the crops of the whole.
void augment_images(uint8_t *images, const uint8_t *pixels, const uint32_t *indices, uint32_t first,
                    const Augment *augment, Shape shape, const Noise *noise, uint32_t place, int count) {
    const bool moves = noise && augment_is_on(augment);
    const RngKey key = moves ? augment_key(noise->seed, noise->round, noise->client) : (RngKey){0};
    const size_t plane = (size_t)shape.rows * (size_t)shape.columns, size = shape_size(shape);
    for (int s = 0; s < count; s++, images += size) {
        const uint8_t *image = pixels + (size_t)(indices ? indices[s] : first + (uint32_t)s) * size;
        AugmentDraw draw = {0}; // moves nothing
        if (moves) draw = augment_draw(augment, key, noise->step, noise->first_sample + place + (uint32_t)s);
        for (size_t pixel = 0; pixel < plane; pixel++) {
            const int source = augment_source(draw, shape, (int)pixel);
            for (size_t start = 0; start < size; start += plane) // of a channel
                images[start + pixel] = source < 0 ? 0 : image[start + (size_t)source];
        }
    }
}

// The square is white and in the upper left corner of each channel: a pattern that images have by chance only rarely.
void augment_mark(uint8_t *images, uint32_t square, Shape shape, int count) {
    const size_t rows = (size_t)shape.rows, columns = (size_t)shape.columns,
                 planes = (size_t)count * (size_t)shape.channels;
    for (size_t plane = 0; plane < planes; plane++)
        for (size_t row = 0; row < square && row < rows; row++)
            memset(images + (plane * rows + row) * columns, UINT8_MAX, square < columns ? square : columns);
}
