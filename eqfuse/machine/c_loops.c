/* The iterations of a loop whose steps are kernels alone, one after another. The text of `c_calls.py` stands before
   this. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char head[HEAD]; char *data; } Array; /* of which kernels read where its memory is */
typedef void *kernel_fn(void *self, const Array *const *arguments, __PTRDIFF_TYPE__ count);

#define NO_MEMORY ((void *)1) /* what `eqfuse_put` returns for want of it */

enum { ARGUMENTS = 4 }; /* of a kernel that is called with others, at most */

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
    int64_t no_memory;       /* did a kernel end for want of it? */
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
        if (c->written >= 0) c->next = given[l->starts_spare ? c->spare : c->place]->data;
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

/* The iterations up to `until`, of the loop in the first array; the others are what it reads and writes. True where a
   kernel was asked for a place that an array does not have, or `no_memory`. */
void *eqfuse_iterate(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    struct loop *const l = (struct loop *)given++[0]->data;
    if (l->iteration == 0) begin(l, given);
    while (l->iteration < l->until && !l->ended) {
        place(l, given);
        for (struct call *c = l->call; c < l->call + l->calls; c++) {
            const void *const done = c->kernel(0, l->read + c->first, c->count);
            l->no_memory = done == NO_MEMORY;
            if (done != eqf_python.none) return eqf_true(self);
        }
        advance(l, given);
    }
    if (l->iteration == l->total || l->ended) end(l, given);
    return eqf_none();
}

enum { AXES = 64 }; /* at most, as of an array of NumPy's */

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
    default: return ((const int64_t *)places)[i]; /* uint64 is left to NumPy */
    }
}

struct span { const char *first, *end; };

static void extend(struct span *s, int64_t extent, int64_t step) {
    const int64_t farthest = (extent - 1) * step;
    if (extent > 0 && farthest < 0) s->first += farthest;
    if (extent > 0 && farthest > 0) s->end += farthest;
}

/* Does what is read of values lie within what may be written? */
static int overlap(const struct put *p, const char *to, const char *from, int64_t written, int64_t read) {
    struct span written_span = {to, to + p->size}, read_span = {from, from + p->size};
    extend(&written_span, written, p->place_to);
    extend(&read_span, read, p->place_from);
    for (const struct axis *a = p->axis; a < p->axis + p->axes; a++) {
        extend(&written_span, a->extent, a->to);
        extend(&read_span, a->extent, a->from);
    }
    return read_span.first < written_span.end && written_span.first < read_span.end;
}

/* The elements of the values one behind another; null where there is no memory. */
static char *packed(const struct put *p, const char *from, int64_t places, struct axis *axis, int64_t *place_from) {
    int64_t step = p->size;
    struct axis copied[AXES];
    for (int64_t i = p->axes - 1; i >= 0; i--) {
        copied[i] = (struct axis){p->axis[i].extent, step, p->axis[i].from};
        axis[i] = (struct axis){p->axis[i].extent, p->axis[i].to, step};
        step *= p->axis[i].extent;
    }
    char *const memory = malloc(places * step + 1);
    for (int64_t i = 0; memory && i < places; i++)
        copy_axes(memory + i * step, from + i * *place_from, copied, p->axes, p->size);
    *place_from = step;
    return memory;
}

/* Values written to a slice of an array, or to places along an axis: the values, the places, if there are any, the
   array, the struct put. True where the array has no such place, or NO_MEMORY; then nothing is written. */
void *eqfuse_put(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    const struct put *const p = (const struct put *)given[count - 1]->data;
    const char *from = given[0]->data + p->from, *const numbers = given[1]->data;
    char *const to = given[count - 2]->data + p->to;
    const int is_indexed = count == 4;
    const int64_t places = is_indexed ? p->places : 1;
    for (int64_t i = 0; is_indexed && i < places; i++) {
        const int64_t place = place_at(numbers, i, p);
        if (place < -p->extent || place >= p->extent) return eqf_true(self);
    }
    const struct axis *axis = p->axis;
    struct axis turned[AXES];
    int64_t place_from = p->place_from;
    char *memory = 0;
    if (overlap(p, to, from, is_indexed ? p->extent : 1, places)) { /* one might be read when it is written already */
        memory = packed(p, from, places, turned, &place_from);
        if (!memory) return NO_MEMORY;
        from = memory, axis = turned;
    }
    for (int64_t i = 0; i < places; i++) {
        const int64_t place = is_indexed ? place_at(numbers, i, p) : 0;
        char *const row = to + (place < 0 ? place + p->extent : place) * p->place_to;
        copy_axes(row, from + i * place_from, axis, p->axes, p->size);
    }
    free(memory);
    return eqf_none();
}

/* Updates of slices one after another: how many, of each the address of `eqfuse_put`, the number of its arguments, and
   which of the arrays behind the first these are. True where one has no memory. */
void *eqfuse_call_all(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    const int64_t *word = (const int64_t *)given[0]->data;
    const Array *arguments[ARGUMENTS];
    for (int64_t left = *word++; left > 0; left--) {
        kernel_fn *const kernel = (kernel_fn *)(intptr_t)*word++;
        const int64_t number = *word++;
        for (int64_t i = 0; i < number; i++) arguments[i] = given[*word++];
        if (kernel(0, arguments, number) != eqf_python.none) return eqf_true(self);
    }
    return eqf_none();
}
