// wgmma: products of the matrices that warps have read, added to their accumulators, as `warps.product_sums` has them.

// The elements that were read, as bits; where those of each matrix A and B lie among them; the matrices of each warp;
// values of 256 patterns of 8 bits. Then the accumulators, and which of them these products have.
enum {
    ELEMENTS, A_PLACES, B_PLACES, A_MATRIX, B_MATRIX, A_TABLE, B_TABLE,
    ACCUMULATORS, SLOT_ROWS, WARP_NUMBERS, KEEPS, RESTING, REGISTERS
};

// Its numbers. `all_warps` are those of all blocks. Sums that are `cut` lose the bits that are `dropped`.
typedef struct {
    s64 slots, warps, columns, depth, all_warps, sign, kind, b_kind, cut, dropped;
} Warpgroup;

// The values of the elements of a matrix of `rows` by `depth`, each row's after so many others.
static void widen_rows(const void *raw, const s64 *places, s64 rows, s64 depth, s64 kind, const double *table, double *to) {
#define WIDEN(VALUE) for (s64 i = 0; i < rows * depth; i++) to[i] = VALUE;
    switch (kind) {
        case BF16: WIDEN(f32_of((u32)((const u16 *)raw)[places[i]] << 16)) break;
        case F16: WIDEN(f32_of(from_f16(((const u16 *)raw)[places[i]]))) break;
        case TF32: WIDEN(f32_of(((const u32 *)raw)[places[i]] & 0xffffe000)) break;
        default: WIDEN(table[((const u8 *)raw)[places[i]]])
    }
#undef WIDEN
}

enum { TILE_ROWS = 16 };

typedef double Unaligned __attribute__((vector_size(32), aligned(8)));

// Products of 16 rows by so many columns, a multiple of 8; of B, each column's values are beside those of the others.
static void multiply_rows(const double *a, const double *b, s64 depth, s64 columns, double *sums) {
    for (s64 column = 0; column < columns; column += 8)
        for (int row = 0; row < TILE_ROWS; row += 4) {
            const double *from = a + row * depth, *side = b + column;
            Four s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0};
            for (s64 i = 0; i < depth; i++, side += columns) {
                Four low = *(const Unaligned *)side, high = *(const Unaligned *)(side + 4);
                s0 += from[i] * low, t0 += from[i] * high;
                s1 += from[depth + i] * low, t1 += from[depth + i] * high;
                s2 += from[2 * depth + i] * low, t2 += from[2 * depth + i] * high;
                s3 += from[3 * depth + i] * low, t3 += from[3 * depth + i] * high;
            }
            Unaligned *to = (Unaligned *)(sums + row * columns + column);
            to[0] = s0, to[1] = t0, to = (Unaligned *)((double *)to + columns);
            to[0] = s1, to[1] = t1, to = (Unaligned *)((double *)to + columns);
            to[0] = s2, to[1] = t2, to = (Unaligned *)((double *)to + columns);
            to[0] = s3, to[1] = t3;
        }
}

// Adds the products of one warp to its accumulators, or starts these where it does not keep them. Where they rest, they
// are in registers. Register i of lane l has row l / 4 + 8 * (i / 2 % 2) and column 8 * (i / 4) + 2 * (l % 4) + i % 2.
static void add_rows(const char *tuple, const Warpgroup *given, s64 warp, const double *sums) {
    u32 *held = (void *)array_in(tuple, ACCUMULATORS)->data;
    const u32 *registers = (void *)array_in(tuple, REGISTERS)->data;
    const s64 *rows = (void *)array_in(tuple, SLOT_ROWS)->data, *warps = (void *)array_in(tuple, WARP_NUMBERS)->data;
    const char *keeps = array_in(tuple, KEEPS)->data, *resting = array_in(tuple, RESTING)->data;
    s64 columns = given->columns;
    double sign = (double)given->sign;
    u32 dropped = (u32)given->dropped;
    for (s64 i = 0; i < given->slots; i++) {
        const double *from = sums + i / 2 % 2 * 8 * columns + i / 4 * 8 + i % 2;
        u32 *to = held + (rows[i] * given->all_warps + warps[warp]) * 32;
        s64 place = i * given->warps + warp;
        const u32 *before = resting[place] ? registers + place * 32 : to;
        for (s64 lane = 0; lane < 32; lane++) {
            float start = 0;
            if (keeps[warp]) memcpy(&start, before + lane, 4);
            double exact = (double)start + sign * from[lane / 4 * columns + lane % 4 * 2];
            float total = given->cut ? (float)cut_off(exact, dropped) : (float)exact;
            u32 bits;
            memcpy(&bits, &total, 4);
            to[lane] = total == total ? bits : 0x7fffffff;
        }
    }
}

// Returns WRONG, with nothing changed, where there is no memory.
int multiply_warpgroups(const char *tuple, const Warpgroup *given) {
    const void *raw = array_in(tuple, ELEMENTS)->data;
    const s64 *a_places = (void *)array_in(tuple, A_PLACES)->data, *b_places = (void *)array_in(tuple, B_PLACES)->data;
    const s64 *a_matrix = (void *)array_in(tuple, A_MATRIX)->data, *b_matrix = (void *)array_in(tuple, B_MATRIX)->data;
    s64 depth = given->depth, columns = given->columns, matrices = array_in(tuple, B_PLACES)->lengths[0];
    s64 plain = columns * depth, across = depth * columns, tile = TILE_ROWS * depth, sums = TILE_ROWS * columns;
    if (!reserve((plain + across + tile + sums) * (s64)sizeof(double))) return WRONG;
    double *rows = (double *)arena, *b = rows + plain, *a = b + across, *found = a + tile;
    for (s64 matrix = 0; matrix < matrices; matrix++) {
        widen_rows(raw, b_places + matrix * plain, columns, depth, given->b_kind, (void *)array_in(tuple, B_TABLE)->data,
                   rows);
        for (s64 column = 0; column < columns; column++)
            for (s64 i = 0; i < depth; i++) b[i * columns + column] = rows[column * depth + i];
        for (s64 warp = 0; warp < given->warps; warp++) {
            if (b_matrix[warp] != matrix) continue;
            widen_rows(raw, a_places + a_matrix[warp] * tile, TILE_ROWS, depth, given->kind,
                       (void *)array_in(tuple, A_TABLE)->data, a);
            multiply_rows(a, b, depth, columns, found);
            add_rows(tuple, given, warp, found);
        }
    }
    return FINE;
}
