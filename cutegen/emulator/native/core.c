// Runs the operations of a segment over all lanes: a plain loop for each of them, over so many lanes at a time that
// what one of them writes is still in the first-level cache when the next one reads it.
//
// The arrays are read where CPython and numpy keep them. `probe` says what is found there, so that whoever loads this
// can see that these structures are as they are taken to be here.

#include <stdlib.h>

#include "functions.h"
#include "operations.h"

typedef void (*Loop)(char *, char *const *, s64);

// Vectorising all loops would more than double the time of the compiler: it pays for those of U3, V1 and V2.
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("tree-vectorize", "vect-cost-model=dynamic")))
#else
#define VECTORISED
#endif

#define LOOP(NAME, R, BODY)                                              \
    static void loop_##NAME(char *to, char *const *from, s64 count) {    \
        R *restrict out = (R *)to;                                       \
        BODY                                                             \
    }
#define U1(NAME, R, A, EXPRESSION)                                       \
    LOOP(NAME, R, const A *x = (const A *)from[0];                       \
         for (s64 i = 0; i < count; i++) { const A a = x[i]; out[i] = (R)(EXPRESSION); })
#define U2(NAME, R, A, B, EXPRESSION)                                    \
    LOOP(NAME, R, const A *x = (const A *)from[0]; const B *y = (const B *)from[1]; \
         for (s64 i = 0; i < count; i++) { const A a = x[i]; const B b = y[i]; out[i] = (R)(EXPRESSION); })
#define U3(NAME, R, A, B, C, EXPRESSION)                                 \
    VECTORISED                                                           \
    LOOP(NAME, R, const A *x = (const A *)from[0]; const B *y = (const B *)from[1]; const C *z = (const C *)from[2]; \
         for (s64 i = 0; i < count; i++) {                               \
             const A a = x[i]; const B b = y[i]; const C c = z[i]; out[i] = (R)(EXPRESSION); })
#define U4(NAME, R, A, B, C, D, EXPRESSION)                              \
    LOOP(NAME, R, const A *x = (const A *)from[0]; const B *y = (const B *)from[1]; const C *z = (const C *)from[2]; \
         const D *w = (const D *)from[3];                                \
         for (s64 i = 0; i < count; i++) {                               \
             const A a = x[i]; const B b = y[i]; const C c = z[i]; const D d = w[i]; out[i] = (R)(EXPRESSION); })
#define V1(...) VECTORISED U1(__VA_ARGS__)
#define V2(...) VECTORISED U2(__VA_ARGS__)
OPERATIONS
#undef U1
#undef U2
#undef U3
#undef U4
#undef V1
#undef V2

typedef struct {
    const char *name;
    Loop loop;
    int sizes[5];  // bytes of the result and of each operand, 0 for none
} Entry;

#define U1(NAME, R, A, EXPRESSION) {#NAME, loop_##NAME, {sizeof(R), sizeof(A), 0, 0, 0}},
#define U2(NAME, R, A, B, EXPRESSION) {#NAME, loop_##NAME, {sizeof(R), sizeof(A), sizeof(B), 0, 0}},
#define U3(NAME, R, A, B, C, EXPRESSION) {#NAME, loop_##NAME, {sizeof(R), sizeof(A), sizeof(B), sizeof(C), 0}},
#define U4(NAME, R, A, B, C, D, EXPRESSION) {#NAME, loop_##NAME, {sizeof(R), sizeof(A), sizeof(B), sizeof(C), sizeof(D)}},
#define V1 U1
#define V2 U2
static const Entry table[] = {OPERATIONS};

int count_operations(void) { return (int)(sizeof table / sizeof table[0]); }

const char *name_of(int number) { return table[number].name; }

// The bytes of the result (part 0) and of each operand of an operation; 0 for none.
int size_of(int number, int part) { return table[number].sizes[part]; }

// An array of numpy, from its first field after the head of any object on.
typedef struct {
    char *data;
    int count;
    intptr_t *lengths, *steps;
} Array;

static s64 head, items;  // bytes of the head of an object, and of a tuple before its items

void set_layout(s64 object, s64 tuple) {
    head = object;
    items = tuple;
}

static inline const Array *array_in(const char *tuple, s64 index) {
    return (const Array *)(((char *const *)(tuple + items))[index] + head);
}

// Writes what is found of the array with that index in a tuple: its data, and for each axis its length and step.
void probe(const char *tuple, s64 index, s64 *found) {
    const Array *array = array_in(tuple, index);
    found[0] = (s64)(intptr_t)array->data;
    found[1] = array->count;
    for (int axis = 0; axis < array->count; axis++) {
        found[2 + 2 * axis] = array->lengths[axis];
        found[3 + 2 * axis] = array->steps[axis];
    }
}

static char *arena;
static s64 arena_size;

// Whether there are so many bytes in the arena.
static int reserve(s64 size) {
    if (size <= arena_size) return 1;
    free(arena);
    arena = aligned_alloc(64, (size_t)((size + 63) / 64 * 64));
    arena_size = arena ? size : 0;
    return arena != NULL;
}

// Whether the elements of an array lie one after the other, each where its type may lie.
static int is_plain(const Array *array, s64 size) {
    s64 expected = size;
    if ((uintptr_t)array->data % (uintptr_t)size) return 0;
    for (int axis = array->count - 1; axis >= 0; axis--) {
        if (array->lengths[axis] != 1 && array->steps[axis] != expected) return 0;
        expected *= array->lengths[axis];
    }
    return 1;
}

// Copies the elements of an array of at most two axes, of any steps, one after the other.
static void copy_plain(char *to, const Array *array, s64 size) {
    s64 rows = array->count > 1 ? array->lengths[0] : 1, columns = array->count ? array->lengths[array->count - 1] : 1;
    s64 down = array->count > 1 ? array->steps[0] : 0, right = array->count ? array->steps[array->count - 1] : 0;
    for (s64 i = 0; i < rows; i++)
        for (s64 j = 0; j < columns; j++, to += size) memcpy(to, array->data + i * down + j * right, (size_t)size);
}

enum { INPUT, OUTPUT, PART, WHOLE, CONSTANT };  // where a value is kept
enum { FILL = -1, REPEAT = -2, TILE = -3 };     // operations that spread values over more lanes
enum { KIND, ARGUMENT, SIZE, SORT, VALUE };     // fields of a value, and how many there are
enum { NUMBER, OVER, ONCE, TARGET, SOURCES, STEP = SOURCES + 4 };

#define SPREAD(T, INDEX) for (s64 i = 0; i < count; i++) ((T *)to)[i] = ((const T *)from)[INDEX]
#define SPREAD_ALL(INDEX)                    \
    switch (size) {                          \
        case 1: SPREAD(u8, INDEX); break;    \
        case 2: SPREAD(u16, INDEX); break;   \
        case 4: SPREAD(u32, INDEX); break;   \
        default: SPREAD(u64, INDEX); break;  \
    }

// Spreads a value over the lanes from `first` on: one for all of them, one for each row, or one for each column.
static void spread(s64 how, char *to, const char *from, s64 size, s64 first, s64 count, s64 columns) {
    if (how == FILL) {
        SPREAD_ALL(0)
    } else if (how == REPEAT) {
        s64 row = first / columns, left = columns - first % columns;
        for (s64 done = 0; done < count;) {
            s64 some = left < count - done ? left : count - done;
            spread(FILL, to + done * size, from + row * size, size, 0, some, columns);
            done += some;
            row++;
            left = columns;
        }
    } else {
        s64 column = first % columns;
        for (s64 done = 0; done < count; column = 0) {
            s64 some = columns - column < count - done ? columns - column : count - done;
            memcpy(to + done * size, from + column * size, (size_t)(some * size));
            done += some;
        }
    }
}

// Runs a plan. `plan` has the numbers of values and of steps, the bytes of values of which only a part is kept, and the
// number of lanes in such a part; then the fields of each value, and those of each step, by the sort of lanes that it
// runs over. A sort says what a value has entries for: 1 for all threads, 2 for all blocks, 3 for both, 0 for neither.
// Returns 0, or -1 if there is no memory.
int run(const s64 *plan, const char *inputs, const char *outputs, s64 threads, s64 blocks) {
    const s64 extents[4] = {1, threads, blocks, threads * blocks};
    s64 values = plan[0], steps = plan[1], size = plan[2], lanes = plan[3];
    const s64 *value = plan + 4, *step = value + values * VALUE;
    char *base[values ? values : 1];
    s64 each[values ? values : 1];
    for (s64 v = 0; v < values; v++) {
        const s64 *field = value + v * VALUE;
        if (field[KIND] == WHOLE || (field[KIND] == INPUT && !is_plain(array_in(inputs, field[ARGUMENT]), field[SIZE])))
            size += (extents[field[SORT]] * field[SIZE] + 63) / 64 * 64;
    }
    if (!reserve(size)) return -1;
    char *next = arena + plan[2];
    for (s64 v = 0; v < values; v++) {
        const s64 *field = value + v * VALUE;
        each[v] = field[SIZE];
        base[v] = next;
        s64 taken = (extents[field[SORT]] * field[SIZE] + 63) / 64 * 64;
        switch (field[KIND]) {
            case INPUT: {
                const Array *array = array_in(inputs, field[ARGUMENT]);
                if (is_plain(array, field[SIZE])) {
                    base[v] = array->data;
                } else {
                    copy_plain(next, array, field[SIZE]);
                    next += taken;
                }
                break;
            }
            case OUTPUT: base[v] = array_in(outputs, field[ARGUMENT])->data; break;
            case PART: base[v] = arena + field[ARGUMENT]; each[v] = 0; break;
            case WHOLE: next += taken; break;
            default: base[v] = (char *)(field + ARGUMENT); each[v] = 0;  // little-endian
        }
    }
    for (s64 s = 0, end; s < steps; s = end) {
        s64 over = step[s * STEP + OVER];
        for (end = s; end < steps && step[end * STEP + OVER] == over; end++) {}
        for (s64 first = 0; first < extents[over]; first += lanes) {
            s64 count = extents[over] - first < lanes ? extents[over] - first : lanes;
            for (s64 t = s; t < end; t++) {
                const s64 *field = step + t * STEP;
                s64 target = field[TARGET];
                char *to = base[target] + each[target] * first;
                if (field[NUMBER] >= 0) {
                    char *from[4];
                    for (int i = 0; i < 4; i++) {
                        s64 source = field[SOURCES + i];
                        from[i] = source < 0 ? NULL : base[source] + each[source] * first;
                    }
                    table[field[NUMBER]].loop(to, from, count);
                } else if (!field[ONCE] || !first) {
                    s64 source = field[SOURCES];
                    spread(field[NUMBER], to, base[source], value[source * VALUE + SIZE], first, count, blocks);
                }
            }
        }
    }
    return 0;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // for loops over lanes and units, of which there are few
#endif

#include "accesses.h"
#include "agents.h"
#include "products.h"
#include "matrices.h"
#include "block_barriers.h"
#include "first_writes.h"
#include "global_accesses.h"
#include "known_rows.h"
#include "mbarriers.h"
#include "boxes.h"
#include "shared_loads.h"
#include "shared_races.h"
#include "shared_stores.h"
#include "shuffles.h"
#include "warpgroups.h"
