// wgmma: products of the matrices that warps have read, added to their accumulators, as `warps.product_sums` has them.

// The elements that were read, as bits; where those of each matrix A and B lie among them; the matrices of each warp;
// values of 256 patterns of 8 bits. Then the accumulators, and which of them these products have.
enum {
    ELEMENTS, A_PLACES, B_PLACES, A_MATRIX, B_MATRIX, A_TABLE, B_TABLE,
    ACCUMULATORS, SLOT_ROWS, WARP_NUMBERS, KEEPS, RESTING, REGISTERS, IN_FLIGHT, SEEN_LAST, UNKNOWN, NEWLY_UNKNOWN
};

// Its numbers. `all_warps` are those of all blocks. Sums that are `cut` lose the bits that are `dropped`. The last ones
// are for products that start: whether there are registers, and marks of what is unknown, and new ones of these.
typedef struct {
    s64 slots, warps, columns, depth, all_warps, sign, kind, b_kind, cut, dropped, has_registers, has_marks, has_new;
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

// The bytes that sums take beside what they are made of.
static s64 room_for_sums(s64 depth, s64 columns) {
    return (2 * columns * depth + TILE_ROWS * (depth + columns)) * (s64)sizeof(double);
}

// Returns WRONG, with nothing changed, where there is no memory.
int multiply_warpgroups(const char *tuple, const Warpgroup *given) {
    const void *raw = array_in(tuple, ELEMENTS)->data;
    const s64 *a_places = (void *)array_in(tuple, A_PLACES)->data, *b_places = (void *)array_in(tuple, B_PLACES)->data;
    const s64 *a_matrix = (void *)array_in(tuple, A_MATRIX)->data, *b_matrix = (void *)array_in(tuple, B_MATRIX)->data;
    s64 depth = given->depth, columns = given->columns, matrices = array_in(tuple, B_PLACES)->lengths[0];
    s64 plain = columns * depth, across = depth * columns, tile = TILE_ROWS * depth;
    if (!reserve(room_for_sums(depth, columns))) return WRONG;
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

// Finds which accumulators rest: no product in flight writes them. Returns how many do.
static s64 found_resting(const char *tuple, const Warpgroup *given) {
    const s32 *flying = (void *)array_in(tuple, IN_FLIGHT)->data;
    const s64 *rows = (void *)array_in(tuple, SLOT_ROWS)->data, *warps = (void *)array_in(tuple, WARP_NUMBERS)->data;
    char *resting = array_in(tuple, RESTING)->data;
    s64 count = 0;
    for (s64 i = 0; i < given->slots; i++)
        for (s64 warp = 0; warp < given->warps; warp++)
            count += *resting++ = !flying[rows[i] * given->all_warps + warps[warp]];
    return count;
}

// Whether a register of a resting accumulator is another one than the last fence has seen, and is not all zeros.
static int has_changed(const char *tuple, const Warpgroup *given) {
    const u32 *now = (void *)array_in(tuple, REGISTERS)->data, *seen = (void *)array_in(tuple, SEEN_LAST)->data;
    const s64 *rows = (void *)array_in(tuple, SLOT_ROWS)->data, *warps = (void *)array_in(tuple, WARP_NUMBERS)->data;
    const char *resting = array_in(tuple, RESTING)->data;
    for (s64 i = 0; i < given->slots; i++)
        for (s64 warp = 0; warp < given->warps; warp++, now += 32) {
            if (!*resting++ || !memcmp(now, seen + (rows[i] * given->all_warps + warps[warp]) * 32, 128)) continue;
            u32 any = 0;
            for (int lane = 0; lane < 32; lane++) any |= now[lane];
            if (any) return 1;
        }
    return 0;
}

// Starts products of warps, whose reads are the first ones of these arrays and numbers, as `begin_reads` has them with
// what is lost, and whose sums are the others. Returns, with nothing changed, WRONG where something is not in order or
// must be looked at, NEW where other units than those told are lost, and TWICE where registers are needed and not there.
int start_products(const char *reads, const s64 *of_reads, const char *tuple, const Warpgroup *given) {
    s64 depth = given->depth, columns = given->columns;
    s64 resting = found_resting(tuple, given);
    if (resting && !given->has_registers) return TWICE;
    if (resting && has_changed(tuple, given)) return WRONG;
    if (!reserve(room_for_sums(depth, columns))) return WRONG;
    int result = begin_reads(reads, of_reads, array_in(reads, UNITS_LOST)->data);
    if (result != FINE) return result;
    multiply_warpgroups(tuple, given);
    const s64 *rows = (void *)array_in(tuple, SLOT_ROWS)->data, *warps = (void *)array_in(tuple, WARP_NUMBERS)->data;
    const char *keeps = array_in(tuple, KEEPS)->data, *rests = array_in(tuple, RESTING)->data;
    const char *new = array_in(tuple, NEWLY_UNKNOWN)->data;
    s32 *flying = (void *)array_in(tuple, IN_FLIGHT)->data;
    char *unknown = array_in(tuple, UNKNOWN)->data;
    for (s64 i = 0, place = 0; i < given->slots; i++)
        for (s64 warp = 0; warp < given->warps; warp++, place++) {
            s64 number = rows[i] * given->all_warps + warps[warp];
            flying[number]++;
            if (!given->has_marks) continue;
            int kept = keeps[warp] && !rests[place];
            for (s64 lane = 0; lane < 32; lane++) {
                char *mark = unknown + number * 32 + lane;
                *mark = (char)((kept && *mark) || (given->has_new && new[place * 32 + lane]));
            }
        }
    return FINE;
}

enum { OPERAND_A, OPERAND_B, OPERAND_KEEPS, OPERAND_WARPS, DESCRIPTORS, KEEPS_FOUND };
enum { OPERAND_BLOCKS, OPERAND_COUNT };

// What the two descriptors are in each of some warps, all of those of A first, and whether sums are kept. Returns WRONG
// where the lanes of a warp have different ones.
int find_operands(const char *tuple, const s64 *given) {
    const Each a = each_of(tuple, OPERAND_A), b = each_of(tuple, OPERAND_B), keeps = each_of(tuple, OPERAND_KEEPS);
    const s64 *warps = (void *)array_in(tuple, OPERAND_WARPS)->data;
    s64 *found = (void *)array_in(tuple, DESCRIPTORS)->data, count = given[OPERAND_COUNT], blocks = given[OPERAND_BLOCKS];
    char *kept = array_in(tuple, KEEPS_FOUND)->data;
    for (s64 i = 0; i < count; i++) {
        s64 first = warps[i] / blocks * 32, block = warps[i] % blocks;
        s64 one = *(const s64 *)at(&a, first, block), other = *(const s64 *)at(&b, first, block);
        char keep = *at(&keeps, first, block) != 0;
        for (s64 thread = first + 1; thread < first + 32; thread++)
            if (*(const s64 *)at(&a, thread, block) != one || *(const s64 *)at(&b, thread, block) != other ||
                (*at(&keeps, thread, block) != 0) != keep)
                return WRONG;
        found[i] = one, found[count + i] = other, kept[i] = keep;
    }
    return FINE;
}

enum { LANDING, LANDING_ROWS, LANDING_LANES, LANDED, LANDED_ON };
enum { LAND_THREADS, LAND_BLOCKS, LAND_SLOTS, LAND_ALL };

// Makes what registers hold once accumulators are in those of the lanes of a mask.
int land_accumulators(const char *tuple, const s64 *given) {
    const u32 *held = (void *)array_in(tuple, LANDING)->data;
    const s64 *rows = (void *)array_in(tuple, LANDING_ROWS)->data;
    const char *mask = array_in(tuple, LANDING_LANES)->data;
    u32 *to = (void *)array_in(tuple, LANDED)->data;
    s64 threads = given[LAND_THREADS], blocks = given[LAND_BLOCKS];
    for (s64 i = 0; i < given[LAND_SLOTS]; i++) {
        const Each old = each_of(tuple, LANDED_ON + i);
        const u32 *from = held + rows[i] * given[LAND_ALL] * 32;
        for (s64 thread = 0; thread < threads; thread++)
            for (s64 block = 0; block < blocks; block++)
                *to++ = mask[thread * blocks + block] ? from[(thread / 32 * blocks + block) * 32 + thread % 32]
                                                      : *(const u32 *)at(&old, thread, block);
    }
    return FINE;
}

enum { GATHERED_NOW, GATHERED_WARPS, GATHERED_FROM };
enum { GATHER_THREADS, GATHER_BLOCKS, GATHER_SLOTS, GATHER_COUNT, GATHER_ALL, GATHER_APART };

// Copies what registers hold in some warps: 32 words for each register and warp, either one warp after the other, or
// where each has its place among all of them. Threads that the last warp lacks hold zeros.
int gather_registers(const char *tuple, const s64 *given) {
    u32 *to = (void *)array_in(tuple, GATHERED_NOW)->data;
    const s64 *warps = (void *)array_in(tuple, GATHERED_WARPS)->data;
    s64 threads = given[GATHER_THREADS], blocks = given[GATHER_BLOCKS], count = given[GATHER_COUNT];
    for (s64 i = 0; i < given[GATHER_SLOTS]; i++) {
        const Each from = each_of(tuple, GATHERED_FROM + i);
        for (s64 warp = 0; warp < count; warp++) {
            s64 first = warps[warp] / blocks * 32, block = warps[warp] % blocks;
            u32 *out = to + (given[GATHER_APART] ? i * given[GATHER_ALL] + warps[warp] : i * count + warp) * 32;
            for (s64 lane = 0; lane < 32; lane++) out[lane] = register_of(&from, first + lane, threads, block);
        }
    }
    return FINE;
}
