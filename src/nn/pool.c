// Max pooling over square windows that do not overlap; rows and columns that do not fill a window are dropped.
#include "ops.h"

// The running maximum as PyTorch takes it: a NaN wins over numbers and is never replaced by one.
ALWAYS_INLINE Lanes larger(Lanes maximum, Lanes value) {
    return lanes_select((value > maximum) | (value != value), value, maximum);
}

ALWAYS_INLINE Lanes window_maximum(const Lanes *window, size_t row, size_t step, int size) {
    Lanes maximum = *window;
#pragma GCC unroll 2
    for (int y = 0; y < size; y++)
#pragma GCC unroll 2
        for (int x = 0; x < size; x++)
            maximum = larger(maximum, window[(size_t)y * row + (size_t)x * step]);
    return maximum;
}

// Gives the slope to the window's first maximum. gradient may be the window itself: the maximum is found before
// anything is written, and each place is read before it is written.
ALWAYS_INLINE void window_backward(Lanes *gradient, const Lanes *window, Lanes slope, size_t row, size_t step,
                                   int size) {
    Lanes maximum = window_maximum(window, row, step, size);
#pragma GCC unroll 2
    for (int y = 0; y < size; y++)
#pragma GCC unroll 2
        for (int x = 0; x < size; x++) {
            size_t place = (size_t)y * row + (size_t)x * step;
            IntLanes first = window[place] == maximum;
            gradient[place] = lanes_select(first, slope, lanes_of(0));
            slope = lanes_select(first, lanes_of(0), slope);
        }
}

// Zeros the rows and columns of one channel that no window covers.
static void zero_rest(Lanes *plane, const Layer *layer, size_t row, size_t step) {
    size_t rows = (size_t)(layer->out.rows * layer->kernel), columns = (size_t)(layer->out.columns * layer->kernel);
    for (size_t y = 0; y < (size_t)layer->in.rows; y++)
        for (size_t i = y < rows ? columns * step : 0; i < row; i++)
            plane[y * row + i] = lanes_of(0);
}

void ISA_NAME(pool_forward)(float *out, const float *in, const Layer *layer, int samples) {
    size_t step = (size_t)samples / SOUNDER_LANES, row = (size_t)layer->in.columns * step;
    size_t size = (size_t)layer->kernel;
    Lanes *to = (Lanes *)out;
    for (size_t c = 0; c < (size_t)layer->out.channels; c++)
        for (size_t y = 0; y < (size_t)layer->out.rows; y++) {
            const Lanes *from = (const Lanes *)in + (c * (size_t)layer->in.rows + y * size) * row;
            for (size_t x = 0; x < (size_t)layer->out.columns; x++, from += size * step)
                for (size_t v = 0; v < step; v++)
                    *to++ = size == 2 ? window_maximum(from + v, row, step, 2)
                                      : window_maximum(from + v, row, step, layer->kernel);
        }
}

void ISA_NAME(pool_backward)(float *in_gradient, const float *in, const float *out_gradient, const Layer *layer,
                             int samples) {
    size_t step = (size_t)samples / SOUNDER_LANES, row = (size_t)layer->in.columns * step;
    size_t plane = (size_t)layer->in.rows * row, size = (size_t)layer->kernel;
    const Lanes *slope = (const Lanes *)out_gradient;
    for (size_t c = 0; c < (size_t)layer->out.channels; c++) {
        for (size_t y = 0; y < (size_t)layer->out.rows; y++)
            for (size_t x = 0; x < (size_t)layer->out.columns; x++)
                for (size_t v = 0; v < step; v++, slope++) {
                    size_t corner = c * plane + y * size * row + x * size * step + v;
                    const Lanes *window = (const Lanes *)in + corner;
                    if (size == 2)
                        window_backward((Lanes *)in_gradient + corner, window, *slope, row, step, 2);
                    else
                        window_backward((Lanes *)in_gradient + corner, window, *slope, row, step, layer->kernel);
                }
        zero_rest((Lanes *)in_gradient + c * plane, layer, row, step);
    }
}
