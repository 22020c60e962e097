/* The iterations of a loop whose steps are kernels alone, one after another. The text of `c_calls.py` stands before this. */

#include <stdint.h>
#include <string.h>

typedef struct { char head[HEAD]; char *data; } Array; /* of which kernels read where its memory is */
typedef void *kernel_fn(void *self, const Array *const *arguments, __PTRDIFF_TYPE__ count);

struct argument { int64_t slot, given; };
struct row { int64_t slot, given, step; };       /* step: bytes from one row to the next */
struct view { int64_t slot, of, offset; };       /* bytes */
struct copy { int64_t to, from, nbytes; };       /* after the kernels of a step, from slot to slot */
struct call { kernel_fn *kernel; int64_t first, count; };

struct carry {
    int64_t read, written;       /* slots; -1 where steps change it in its place, or in another one's: */
    int64_t from;                /* that of the carry with this number */
    int64_t begin, place, spare; /* what it begins as, and the arrays that it is written to in turn */
    int64_t nbytes;
    char *now, *next;
};

struct loop {
    int64_t iteration, until, total;
    int64_t first, by;       /* the row of the first iteration, and from one to the next */
    int64_t start, number;   /* of row 0; of this iteration's row, as the step reads it */
    int64_t goes_on, ended;  /* the slot of what says so, or -1 */
    int64_t starts_spare;    /* does the first iteration write to the spare arrays? */
    int64_t arguments, rows, carries, views, calls, copies;
    struct argument *argument;
    struct row *row;
    struct carry *carry;
    struct view *view;
    struct call *call;
    struct copy *copy;
    const Array *const *read; /* of all calls */
    Array *slot;
};

static void begin(struct loop *l, const Array *const *given) {
    for (struct argument *a = l->argument; a < l->argument + l->arguments; a++)
        l->slot[a->slot].data = given[a->given]->data;
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++) {
        c->now = given[c->begin]->data;
        c->next = given[l->starts_spare ? c->spare : c->place]->data;
    }
}

static void place(struct loop *l, const Array *const *given) {
    const int64_t i = l->first + l->by * l->iteration;
    l->number = l->start + i;
    for (struct row *r = l->row; r < l->row + l->rows; r++)
        l->slot[r->slot].data = given[r->given]->data + i * r->step;
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++) {
        l->slot[c->read].data = c->now;
        if (c->written >= 0) l->slot[c->written].data = c->next;
    }
    for (struct view *v = l->view; v < l->view + l->views; v++)
        l->slot[v->slot].data = l->slot[v->of].data + v->offset;
}

static void advance(struct loop *l, const Array *const *given) {
    for (struct copy *c = l->copy; c < l->copy + l->copies; c++)
        memcpy(l->slot[c->to].data, l->slot[c->from].data, c->nbytes);
    l->ended = l->goes_on >= 0 && !*l->slot[l->goes_on].data;
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++)
        if (c->written < 0) c->next = l->carry[c->from].now;
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++) {
        char *const place = given[c->place]->data;
        c->now = c->next;
        if (c->written >= 0) c->next = c->now == place ? given[c->spare]->data : place;
    }
    l->iteration++;
}

/* Carries that lie in one another's places go by way of the spare arrays. */

static void end(struct loop *l, const Array *const *given) {
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++) {
        if (c->now == given[c->place]->data) continue;
        if (c->written < 0) c->now = memcpy(given[c->spare]->data, c->now, c->nbytes);
    }
    for (struct carry *c = l->carry; c < l->carry + l->carries; c++)
        if (c->now != given[c->place]->data) memcpy(given[c->place]->data, c->now, c->nbytes);
}

/* The iterations up to `until`, of the loop in the first array; the others are what it reads and writes. True where a kernel
   was asked for a place that an array does not have. */
void *eqfuse_iterate(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    struct loop *const l = (struct loop *)given++[0]->data;
    if (l->iteration == 0) begin(l, given);
    while (l->iteration < l->until && !l->ended) {
        place(l, given);
        for (struct call *c = l->call; c < l->call + l->calls; c++)
            if (c->kernel(0, l->read + c->first, c->count) != eqf_python.none) return eqf_true(self);
        advance(l, given);
    }
    if (l->iteration == l->total || l->ended) end(l, given);
    return eqf_none();
}

struct axis { int64_t extent, to, from; }; /* bytes from one to the next */

struct put {
    int64_t size, from, to;                  /* bytes: of an element; to the first one of the values, and of the array */
    int64_t places, place_bytes, is_signed;  /* numbers of places along one axis of the array, if it has any */
    int64_t extent, place_to, place_from;    /* of that axis */
    int64_t axes;
    struct axis axis[];
};

static void copy_axes(char *to, const char *from, const struct axis *a, int64_t axes, int64_t size) {
    if (axes == 0 || (axes == 1 && a->to == size && a->from == size)) {
        memcpy(to, from, axes ? a->extent * size : size);
        return;
    }
    for (int64_t i = 0; i < a->extent; i++) copy_axes(to + i * a->to, from + i * a->from, a + 1, axes - 1, size);
}

static int64_t place_at(const char *places, int64_t i, const struct put *p) {
    switch (p->place_bytes * 2 + p->is_signed) {
    case 2: return ((const uint8_t *)places)[i];
    case 3: return ((const int8_t *)places)[i];
    case 4: return ((const uint16_t *)places)[i];
    case 5: return ((const int16_t *)places)[i];
    case 8: return ((const uint32_t *)places)[i];
    case 9: return ((const int32_t *)places)[i];
    default: return ((const int64_t *)places)[i]; /* an unsigned one beyond them is no place either */
    }
}

/* Values written to a slice of an array, or to places along an axis: the values, the places, if there are any, the
   array, the struct put. True where the array has no such place; then nothing is written. */
void *eqfuse_put(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    const struct put *const p = (const struct put *)given[count - 1]->data;
    const char *const from = given[0]->data + p->from, *const places = given[1]->data;
    char *const to = given[count - 2]->data + p->to;
    if (count == 3) {
        copy_axes(to, from, p->axis, p->axes, p->size);
        return eqf_none();
    }
    for (int64_t i = 0; i < p->places; i++) {
        const int64_t place = place_at(places, i, p);
        if (place < -p->extent || place >= p->extent) return eqf_true(self);
    }
    for (int64_t i = 0; i < p->places; i++) {
        const int64_t place = place_at(places, i, p), found = place < 0 ? place + p->extent : place;
        copy_axes(to + found * p->place_to, from + i * p->place_from, p->axis, p->axes, p->size);
    }
    return eqf_none();
}
