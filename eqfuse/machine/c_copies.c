/* Copies of arrays into C order, where the last axis of the copy is not the one along which the array lies: by blocks
   that caches hold, within which squares of four by four elements are turned in registers. */

#include <stdint.h>

enum { BLOCK = 64, OUTER = 64 };

struct axis {
    int64_t extent, to, from; /* indices; bytes from one to the next */
};

struct copy {
    char *to;
    const char *from;
    int64_t size, chunk, units, outer; /* bytes of an element; blocks of a chunk, and of all; axes in `outers` */
    struct axis across, along, outers[OUTER];
};

typedef void run_fn(void (*chunk)(void *, long long), void *args, long long chunks, long long threads);

#ifdef __clang__
#define TURNED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define TURNED(x, y, ...) __builtin_shuffle(x, y, (four){__VA_ARGS__})
#endif

#define COPY_OF(type, name)                                                                                           \
    static void name(const struct copy *c, char *to, const char *from, int64_t across, int64_t along) {               \
        typedef type four __attribute__((vector_size(4 * sizeof(type)), aligned(sizeof(type))));                      \
        const int64_t whole = across & -4, turned = c->along.from == sizeof(type) ? along & -4 : 0;                   \
        const int64_t row = c->across.from, line = c->along.to;                                                       \
        for (int64_t j = 0; j < turned; j += 4)                                                                       \
            for (int64_t i = 0; i < whole; i += 4) {                                                                  \
                const char *f = from + i * row + j * sizeof(type);                                                    \
                const four r0 = *(four *)f, r1 = *(four *)(f + row), r2 = *(four *)(f + 2 * row);                     \
                const four r3 = *(four *)(f + 3 * row);                                                               \
                const four a = TURNED(r0, r1, 0, 4, 1, 5), b = TURNED(r2, r3, 0, 4, 1, 5);                            \
                const four e = TURNED(r0, r1, 2, 6, 3, 7), g = TURNED(r2, r3, 2, 6, 3, 7);                            \
                char *t = to + j * line + i * sizeof(type);                                                           \
                *(four *)t = TURNED(a, b, 0, 1, 4, 5);                                                                \
                *(four *)(t + line) = TURNED(a, b, 2, 3, 6, 7);                                                       \
                *(four *)(t + 2 * line) = TURNED(e, g, 0, 1, 4, 5);                                                   \
                *(four *)(t + 3 * line) = TURNED(e, g, 2, 3, 6, 7);                                                   \
            }                                                                                                         \
        for (int64_t j = 0; j < along; j++)                                                                           \
            for (int64_t i = j < turned ? whole : 0; i < across; i++)                                                 \
                *(type *)(to + j * line + i * sizeof(type)) = *(type *)(from + i * row + j * c->along.from);          \
    }

COPY_OF(uint8_t, copy_1)
COPY_OF(uint16_t, copy_2)
COPY_OF(uint32_t, copy_4)
COPY_OF(uint64_t, copy_8)

/* The offsets of block `number` of an axis; how many indices it has. */
static int64_t block(const struct axis *axis, int64_t number, int64_t *to, int64_t *from) {
    const int64_t first = number * BLOCK, left = axis->extent - first;
    *to += first * axis->to;
    *from += first * axis->from;
    return left < BLOCK ? left : BLOCK;
}

static int64_t blocks(const struct axis *axis) { return (axis->extent + BLOCK - 1) / BLOCK; }

static void copy_unit(const struct copy *c, int64_t unit) {
    int64_t to = 0, from = 0;
    const int64_t across = block(&c->across, unit % blocks(&c->across), &to, &from);
    unit /= blocks(&c->across);
    const int64_t along = block(&c->along, unit % blocks(&c->along), &to, &from);
    unit /= blocks(&c->along);
    for (int64_t a = c->outer - 1; a >= 0; a--) {
        const int64_t index = unit % c->outers[a].extent;
        unit /= c->outers[a].extent;
        to += index * c->outers[a].to;
        from += index * c->outers[a].from;
    }
    (c->size == 1   ? copy_1
     : c->size == 2 ? copy_2
     : c->size == 4 ? copy_4
                    : copy_8)(c, c->to + to, c->from + from, across, along);
}

static void copy_chunk(void *args, long long number) {
    const struct copy *c = args;
    const int64_t first = number * c->chunk, end = first + c->chunk;
    for (int64_t unit = first; unit < end && unit < c->units; unit++)
        copy_unit(c, unit);
}

void eqfuse_copy(struct copy *c, run_fn *run, long long threads) {
    run(copy_chunk, c, (c->units + c->chunk - 1) / c->chunk, threads);
}
