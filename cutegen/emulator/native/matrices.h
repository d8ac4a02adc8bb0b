// Products of the tensor cores of whole warps, as `warps.tensor_cores` has them: mma.sync of m16n8k with sums in float32.
// And ldmatrix, once the rows are loaded. Threads that the last warp of a block lacks hold zeros.

enum { TABLE_A, TABLE_B, PRODUCTS, FRAGMENTS };  // values of 256 patterns of 8 bits; what comes out; registers of A, B, C
enum { BF16, F16, TF32, F8 };                    // the types of A and B

// Its numbers. Where sums are `cut`, that is done behind so many products, and `dropped` are the bits that go; else
// `terms` is k.
typedef struct {
    s64 threads, blocks, k, kind, b_kind, terms, cut, dropped;
} Mma;

typedef double Four __attribute__((vector_size(32)));

static inline double element_of(u32 word, int element, s64 kind, const double *table) {
    switch (kind) {
        case BF16: return f32_of((word >> 16 * element & 0xffff) << 16);
        case F16: return f32_of(from_f16((u16)(word >> 16 * element)));
        case TF32: return f32_of(word & 0xffffe000);
        default: return table[word >> 8 * element & 255];
    }
}

static inline u32 register_of(const Each *each, s64 thread, s64 threads, s64 block) {
    return thread < threads ? *(const u32 *)at(each, thread, block) : 0;
}

// A float64 cut toward zero to float32, without the bits that are dropped.
static inline double cut_off(double total, u32 dropped) {
    float single = (float)total;
    u32 bits = raw_bits_of(single);
    if (fabs((double)single) > fabs(total)) bits--;  // rounded away from zero
    return f32_of(bits & ~dropped);
}

// Sums of products of 16 rows by 8 columns, each from the first of its terms on.
static void multiply_terms(double (*a)[32], Four (*b)[2], s64 from, s64 to, Four (*sums)[2]) {
    for (int row = 0; row < 16; row += 4) {
        Four found[4][2] = {{{0}}};
        for (s64 i = from; i < to; i++)
            for (int r = 0; r < 4; r++) {
                found[r][0] += a[row + r][i] * b[i][0];
                found[r][1] += a[row + r][i] * b[i][1];
            }
        memcpy(sums[row], found, sizeof found);
    }
}

int multiply_warps(const char *tuple, const Mma *given) {
    const double *table = (void *)array_in(tuple, TABLE_A)->data, *b_table = (void *)array_in(tuple, TABLE_B)->data;
    u32 *out = (void *)array_in(tuple, PRODUCTS)->data;
    s64 threads = given->threads, blocks = given->blocks, k = given->k, size = threads * blocks;
    int per = given->kind == TF32 ? 1 : given->kind == F8 ? 4 : 2, count = (int)k / per / 2;
    Each a_each[8], b_each[4], c_each[4];
    for (int i = 0; i < count; i++) a_each[i] = each_of(tuple, FRAGMENTS + i);
    for (int i = 0; i < count / 2; i++) b_each[i] = each_of(tuple, FRAGMENTS + count + i);
    for (int i = 0; i < 4; i++) c_each[i] = each_of(tuple, FRAGMENTS + count + count / 2 + i);
    for (s64 first = 0; first < threads; first += 32)
        for (s64 block = 0; block < blocks; block++) {
            double a[16][32], c[16][8];
            Four b[32][2], sums[16][2];
            for (int lane = 0; lane < 32; lane++) {
                int group = lane / 4, thread = lane % 4;
                for (int i = 0; i < count; i++) {
                    u32 word = register_of(&a_each[i], first + lane, threads, block);
                    for (int e = 0; e < per; e++)
                        a[group + 8 * (i % 2)][4 * per * (i / 2) + per * thread + e] =
                            element_of(word, e, given->kind, table);
                }
                for (int i = 0; i < count / 2; i++) {
                    u32 word = register_of(&b_each[i], first + lane, threads, block);
                    for (int e = 0; e < per; e++)
                        b[4 * per * i + per * thread + e][group / 4][group % 4] =
                            element_of(word, e, given->b_kind, b_table);
                }
                for (int i = 0; i < 4; i++)
                    c[group + i / 2 * 8][2 * thread + i % 2] =
                        f32_of(register_of(&c_each[i], first + lane, threads, block));
            }
            for (s64 from = 0; from < k; from += given->terms) {
                multiply_terms(a, b, from, from + given->terms, sums);
                for (int row = 0; row < 16; row++)
                    for (int column = 0; column < 8; column++) {
                        double total = sums[row][column / 4][column % 4] + c[row][column];
                        c[row][column] = given->cut ? cut_off(total, (u32)given->dropped) : total;
                    }
            }
            s64 there = threads - first < 32 ? threads - first : 32;
            for (int lane = 0; lane < there; lane++)
                for (int i = 0; i < 4; i++)
                    out[i * size + (first + lane) * blocks + block] =
                        bits_of((float)c[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2]);
        }
    return FINE;
}

typedef struct {
    s64 threads, blocks, count, transposed;
} Matrices;

// The registers of `count` matrices, whose rows of eight elements are what the lanes loaded: the first arrays.
int spread_matrices(const char *tuple, const Matrices *given) {
    u16 *out = (void *)array_in(tuple, 8)->data;
    s64 threads = given->threads, blocks = given->blocks, size = threads * blocks;
    Each values[8];
    for (int i = 0; i < 8; i++) values[i] = each_of(tuple, i);
    for (s64 first = 0; first < threads; first += 32)
        for (s64 block = 0; block < blocks; block++)
            for (s64 matrix = 0; matrix < given->count; matrix++)
                for (int lane = 0; lane < 32 && first + lane < threads; lane++)
                    for (int half = 0; half < 2; half++) {
                        int row = lane / 4, column = lane % 4 * 2 + half;
                        if (given->transposed) row = column, column = lane / 4;
                        s64 from = first + 8 * matrix + row, to = matrix * size + (first + lane) * blocks + block;
                        out[2 * to + half] = from < threads ? *(const u16 *)at(&values[column], from, block) : 0;
                    }
    return FINE;
}
