// Cuts planes into the tiles of winograd.c, and transforms tiles to values at the points and back.
#ifndef SOUNDER_NN_KERNELS_TILES_H
#define SOUNDER_NN_KERNELS_TILES_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/kernels/points.h"
#include "nn/spec.h"

enum { LINE_FLOATS = 16 }; // of a cache line

// Floats of all channels' values at one point: (channels, block), plus one vector, so that the values that a transform
// accesses together, one per point, do not compete for one set of a cache.
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

// The part of a tile of `side` places from y on that is within 0 .. size.
typedef struct Range {
    int from, to;
} Range;

static inline Range inside(int y, int side, int size) {
    return (Range){y < 0 ? -y : 0, size - y < side ? size - y : side};
}

// Tiles ---------------------------------------------------------------------------------------------------------------

// Tiles of few samples share vectors: a group of tiles is stored without gaps, element by element. An element of the
// group has GROUP_ROW vectors, one more than it needs.
enum { GROUP_VECTORS = 5, GROUP_ROW = GROUP_VECTORS + 1 };

static inline int tiles_together(int samples) {
    return 3 * samples <= 2 * SOUNDER_LANES ? GROUP_VECTORS * SOUNDER_LANES / samples : 1;
}

// Copies the tile (side,side) at (y,x), its elements `step` floats apart, with zeros outside the plane. With few
// samples it writes a whole vector for each element; the group's next tile overwrites what was too much.
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

// Finds the tile in the plane if all of it is inside the plane. N must be a multiple of the vector.
static inline bool tile_in_place(Square *tile, const Plane *plane, int y, int x, int side) {
    if (y < 0 || x < 0 || y + side > plane->rows || x + side > plane->columns) return false;
    const ptrdiff_t step = (ptrdiff_t)plane->step / SOUNDER_LANES;
    *tile = (Square){(LooseLanes *)plane_at(plane, y, x), plane->columns * step, step};
    return true;
}

// The tile in place, or else as a copy. Reading in place saves a copy of most tiles; those at the edge need zeros
// around them.
static inline Square load_tile(Lanes copy[MOST_POINTS_2D], const Plane *plane, int y, int x, int side) {
    Square tile;
    if (tile_in_place(&tile, plane, y, x, side)) return tile;
    copy_tile((float *)copy, SOUNDER_LANES, plane, y, x, side);
    return (Square){copy, side, 1};
}

// Tiles first .. first + count of a plane, `step` apart.
//
// At the points, tiles are stored without gaps, `samples` floats each: so the products' vectors are full even if the
// samples do not fill one. Tiles are nevertheless read and written as whole vectors. The next tile overwrites what a
// write was too long, and zeros do after the last tile; the surplus of a read is cleared.
typedef struct Block {
    int first, count, columns, step;
    int samples;   // of this vector of samples: SOUNDER_LANES or fewer
    int together;  // tiles per group
    size_t floats; // room for a channel's tiles at one point
    IntLanes real; // true for the lanes of these samples
} Block;

// The relation between tiles and points; all of it is constant wherever this is inlined. Tile (ty,tx) begins at (ty *
// step - offset, tx * step - offset) of a plane.
typedef struct TileWay {
    Transform *transform;
    int side, offset;
    bool turns; // the transform reads or writes a tile in reverse order
} TileWay;

// Stores the part of the tile (side,side) that is inside the plane. It applies the Ending itself, element by element,
// as the tile is a copy.
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

// Tile t of channel c at the points: one value per point.
ALWAYS_INLINE Square values_at(float *values, const PointSet *set, Shape shape, const Block *block, int c, int t) {
    const ptrdiff_t step = (ptrdiff_t)point_floats(shape.channels, block->floats) / SOUNDER_LANES;
    return (Square){(LooseLanes *)(values + ((size_t)c * block->floats + (size_t)(t * block->samples))),
                    points_of(set) * step, step};
}

// The vector with this number of the group's tiles, which span several vectors.
ALWAYS_INLINE Square vector_of(Square values, int vector) {
    values.at = (LooseLanes *)((float *)values.at + vector * SOUNDER_LANES);
    return values;
}

// Number of tiles in the group that begins with tile t.
static inline int tiles_at(const Block *block, int t) {
    return block->count - t < block->together ? block->count - t : block->together;
}

ALWAYS_INLINE Square seen(Square tile, TileWay way) {
    return way.turns ? turned(tile, way.side) : tile;
}

// Prefetches the same tile of the next channel: a core prefetches along a row by itself, but not from plane to plane.
// Tiles of few samples, which share vectors and are close together, do not gain.
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

// values (Q * Q, channels, block->floats) = the transforms of the block's tiles in all channels. For few samples
// several tiles share the vectors: they are copied side by side to a group first. With whole vectors a tile inside the
// plane is read in place. Vectors after the last tile become zeros, as the products read whole register tiles.
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

// Transforms the values directly into a tile of whole vectors inside the plane, without a copy. Each combination of
// flags calls a put of its own, chosen once per tile.
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

// Transforms the values into the block's tiles. ending: its bias points to the first channel's. The mirror image of
// to_points: a tile of whole vectors inside the plane is written in place; others are transformed into a copy, of which
// the part inside the plane is stored.
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
            Lanes group[MOST_POINTS_2D * GROUP_ROW + 1]; // one more, as the last lanes' vector reaches into it
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
