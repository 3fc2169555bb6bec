// The tiles that winograd.c cuts planes into, on their way to the points and back.
#ifndef SOUNDER_NN_KERNELS_TILES_H
#define SOUNDER_NN_KERNELS_TILES_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/kernels/points.h"
#include "nn/spec.h"

enum { LINE_FLOATS = 16 }; // of a cache

// Floats of one point: (channels, block), and a vector more, so that the values that a transform reads or writes
// together, one in each point, do not compete for the same set of a cache.
static inline size_t point_floats(int channels, size_t block) {
    return (size_t)channels * block + SOUNDER_LANES;
}

// Planes --------------------------------------------------------------------------------------------------------------
// One channel's plane of a tensor (C,H,W,N), for one vector of samples: (rows, columns), `step` = N floats apart.
typedef struct Plane {
    float *at;
    int rows, columns;
    size_t step;
} Plane;

static inline Plane plane_of(float *tensor, Shape shape, int channel, size_t step) {
    size_t size = (size_t)shape.rows * (size_t)shape.columns * step;
    return (Plane){tensor + (size_t)channel * size, shape.rows, shape.columns, step};
}

static inline float *plane_at(const Plane *plane, int y, int x) {
    return plane->at + ((size_t)y * (size_t)plane->columns + (size_t)x) * plane->step;
}

// The part of a tile of `side` places from y on that lies within 0 .. size.
typedef struct Range {
    int from, to;
} Range;

static inline Range inside(int y, int side, int size) {
    return (Range){y < 0 ? -y : 0, size - y < side ? size - y : side};
}

// Tiles ---------------------------------------------------------------------------------------------------------------

// Tiles of few samples share vectors: a group of them, one after the other without gaps, in which each element of a
// tile has GROUP_ROW vectors, one more than it needs.
enum { GROUP_VECTORS = 5, GROUP_ROW = GROUP_VECTORS + 1 };

static inline int tiles_together(int samples) {
    return 3 * samples <= 2 * SOUNDER_LANES ? GROUP_VECTORS * SOUNDER_LANES / samples : 1;
}

// The elements of the tile (side,side) from (y,x) on, `step` floats apart, with zeros outside the plane. What it writes
// too much behind few samples is overwritten by the group's next tile.
static inline void copy_tile(float *to, size_t step, const Plane *plane, int y, int x, int side) {
    Range rows = inside(y, side, plane->rows), columns = inside(x, side, plane->columns);
    for (int i = 0; i < side; i++) {
        const bool any = i >= rows.from && i < rows.to;
        const float *from = any ? plane_at(plane, y + i, x + columns.from) : NULL;
        for (int j = 0; j < side; j++, to += step) {
            const bool real = any && j >= columns.from && j < columns.to;
            *(LooseLanes *)to = real ? lanes_of_samples(from, plane->step) : lanes_of(0);
            if (real) from += plane->step;
        }
    }
}

// Where the tile lies, if all of it lies inside the plane. N is that of whole vectors.
static inline bool tile_in_place(Square *tile, const Plane *plane, int y, int x, int side) {
    if (y < 0 || x < 0 || y + side > plane->rows || x + side > plane->columns) return false;
    const ptrdiff_t step = (ptrdiff_t)plane->step / SOUNDER_LANES;
    *tile = (Square){(LooseLanes *)plane_at(plane, y, x), plane->columns * step, step};
    return true;
}

// The tile in place, or else as a copy.
static inline Square load_tile(Lanes copy[MOST_POINTS_2D], const Plane *plane, int y, int x, int side) {
    Square tile;
    if (tile_in_place(&tile, plane, y, x, side)) return tile;
    copy_tile((float *)copy, SOUNDER_LANES, plane, y, x, side);
    return (Square){copy, side, 1};
}

// Tiles first .. first + count of a plane, `step` apart.
//
// At the points, tiles follow each other without gaps, `samples` floats each: the products' vectors are full even if
// the samples do not fill one. A tile is read and written as a whole vector all the same. What it writes too much is
// overwritten by the next tile and, behind the last one, with zeros; what it reads too much is cleared.
typedef struct Block {
    int first, count, columns, step;
    int samples;   // in this vector: SOUNDER_LANES or fewer
    int together;  // tiles of a group
    size_t floats; // room for a channel's tiles at one point
    IntLanes real; // true for these
} Block;

// How tiles and points are related, all of it constants where this is inlined. Tile (ty,tx) starts at
// (ty * step - offset, tx * step - offset) of a plane.
typedef struct TileWay {
    Transform *transform;
    int side, offset;
    bool turns; // the transform takes or gives a tile with the last element first
} TileWay;

// The part of the tile (side,side) that lies inside the plane.
ALWAYS_INLINE void store_tile(const Plane *plane, const float *tile, int row_floats, const Block *block,
                              const Ending *ending, int y, int x, int side) {
    const Range rows = inside(y, side, plane->rows), columns = inside(x, side, plane->columns);
    for (int i = rows.from; i < rows.to; i++) {
        float *place = plane_at(plane, y + i, x + columns.from);
        const float *from = tile + (i * side + columns.from) * row_floats;
        for (int j = columns.from; j < columns.to; j++, place += plane->step, from += row_floats) {
            Lanes value = *(const LooseLanes *)from;
            if (block->samples < SOUNDER_LANES) value = lanes_select(block->real, value, lanes_of(0));
            if (ending->bias) value += lanes_of(*ending->bias);
            if (ending->adds) value += lanes_of_samples(place, plane->step);
            if (ending->rectifies) value = lanes_rectified(value);
            if (ending->stops) value = let_through(value, lanes_of_samples(out_beside(place, ending), plane->step));
            lanes_store_samples(place, value, plane->step);
        }
    }
}

static inline int tile_y(const Block *block, int t, int offset) {
    return (block->first + t) / block->columns * block->step - offset;
}

static inline int tile_x(const Block *block, int t, int offset) {
    return (block->first + t) % block->columns * block->step - offset;
}

// Tile t of channel c at the points: one value a point.
ALWAYS_INLINE Square values_at(float *values, const PointSet *set, Shape shape, const Block *block, int c, int t) {
    const ptrdiff_t step = (ptrdiff_t)point_floats(shape.channels, block->floats) / SOUNDER_LANES;
    return (Square){(LooseLanes *)(values + ((size_t)c * block->floats + (size_t)(t * block->samples))),
                    points_of(set) * step, step};
}

// Of the group's tiles, which lie in several vectors.
ALWAYS_INLINE Square vector_of(Square values, int vector) {
    values.at = (LooseLanes *)((float *)values.at + vector * SOUNDER_LANES);
    return values;
}

// Tiles of the group that begins with tile t.
static inline int tiles_at(const Block *block, int t) {
    return block->count - t < block->together ? block->count - t : block->together;
}

ALWAYS_INLINE Square seen(Square tile, TileWay way) {
    return way.turns ? turned(tile, way.side) : tile;
}

// The tile at that place of the next channel sets out: a core looks ahead along a row, but not from plane to plane.
// Tiles of few samples that share vectors, which lie near, do not gain.
ALWAYS_INLINE void fetch_tile(const Plane *plane, TileWay way, const Block *block, int t) {
    if (block->together > 1) return;
    const int y = tile_y(block, t, way.offset), x = tile_x(block, t, way.offset);
    const size_t row = (size_t)plane->columns * plane->step, floats = (size_t)block->step * plane->step;
    const float *from = plane_at(plane, plane->rows + (y < 0 ? 0 : y), x < 0 ? 0 : x);
#pragma GCC unroll 8
    for (int i = 0; i < way.side; i++, from += row)
        for (size_t f = 0; f < floats; f += LINE_FLOATS)
            __builtin_prefetch(from + f);
}

// values (Q * Q, channels, block->floats) = the transforms of the block's tiles in all channels.
ALWAYS_INLINE void to_points(TileWay way, const PointSet *set, float *values, float *tensor, Shape shape, size_t step,
                             const Block *block) {
    const int points = points_of(set), side = way.side;
    for (int c = 0; c < shape.channels; c++) {
        Plane plane = plane_of(tensor, shape, c, step);
        for (int t = 0; t < block->count; t += block->together) {
            const Square to = values_at(values, set, shape, block, c, t);
            Lanes group[MOST_POINTS_2D * GROUP_ROW];
            fetch_tile(&plane, way, block, t);
            if (block->together == 1) {
                Square tile =
                    load_tile(group, &plane, tile_y(block, t, way.offset), tile_x(block, t, way.offset), side);
                transform_2d(way.transform, to, points, seen(tile, way), side, set, side);
                continue;
            }
            const int tiles = tiles_at(block, t);
            for (int i = 0; i < tiles; i++)
                copy_tile((float *)group + i * block->samples, GROUP_ROW * SOUNDER_LANES, &plane,
                          tile_y(block, t + i, way.offset), tile_x(block, t + i, way.offset), side);
            for (int v = 0; v * SOUNDER_LANES < tiles * block->samples; v++) {
                const Square tile = {group + v, side * GROUP_ROW, GROUP_ROW};
                transform_2d(way.transform, vector_of(to, v), points, seen(tile, way), side, set, side);
            }
        }
        if (block->count * block->samples % SOUNDER_LANES == 0) continue;
        Square behind = values_at(values, set, shape, block, c, block->count);
        for (int q = 0; q < points * points; q++)
            behind.at[q * behind.column_step] = lanes_of(0);
    }
}

// A tile of whole vectors that lies inside the plane gets what the transform gives for the values, at once.
ALWAYS_INLINE void put_tile(TileWay way, const PointSet *set, Square place, Square values, const Ending *ending) {
    const int side = way.side, points = points_of(set);
    const Square to = seen(place, way);
    if (ending->adds && ending->stops)
        transform_2d_onto(put_added_stopped, ending, way.transform, to, side, values, points, set, side);
    else if (ending->adds)
        transform_2d_onto(put_added, ending, way.transform, to, side, values, points, set, side);
    else if (ending->stops)
        transform_2d_onto(put_stopped, ending, way.transform, to, side, values, points, set, side);
    else if (ending->rectifies)
        transform_2d_onto(put_rectified, ending, way.transform, to, side, values, points, set, side);
    else
        transform_2d_onto(put, ending, way.transform, to, side, values, points, set, side);
}

// The block's tiles get what the transform gives for the values. ending: its bias is the first channel's.
ALWAYS_INLINE void from_points(TileWay way, const PointSet *set, float *tensor, float *values, Ending ending,
                               Shape shape, size_t step, const Block *block) {
    const int side = way.side;
    for (int c = 0; c < shape.channels; c++, ending.bias += ending.bias ? 1 : 0) {
        const Plane plane = plane_of(tensor, shape, c, step);
        const Plane outs = {(float *)out_beside(plane.at, &ending), plane.rows, plane.columns, plane.step};
        for (int t = 0; t < block->count; t += block->together) {
            const Square from = values_at(values, set, shape, block, c, t);
            Square place;
            fetch_tile(&plane, way, block, t);
            if (ending.stops) fetch_tile(&outs, way, block, t);
            if (block->samples == SOUNDER_LANES &&
                tile_in_place(&place, &plane, tile_y(block, t, way.offset), tile_x(block, t, way.offset), side)) {
                put_tile(way, set, place, from, &ending);
                continue;
            }
            Lanes group[MOST_POINTS_2D * GROUP_ROW + 1]; // one more, which the last lanes' vector reaches into
            const int tiles = tiles_at(block, t), row = tiles > 1 ? GROUP_ROW : 1;
            for (int v = 0; v * SOUNDER_LANES < tiles * block->samples; v++) {
                const Square tile = {group + v, side * row, row};
                transform_2d(way.transform, seen(tile, way), side, vector_of(from, v), points_of(set), set, side);
            }
            for (int i = 0; i < tiles; i++)
                store_tile(&plane, (const float *)group + i * block->samples, row * SOUNDER_LANES, block, &ending,
                           tile_y(block, t + i, way.offset), tile_x(block, t + i, way.offset), side);
        }
    }
}

#endif
