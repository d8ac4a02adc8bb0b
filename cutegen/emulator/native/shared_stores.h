// Stores to shared memory whose places were looked at: units, and what is known of them, as `memory.shared_memory` has it.

enum { NEVER_WRITTEN = 1 };  // a flag of a unit
enum { TO_ROWS, TO_COLUMNS, TO_MASK, TO_DATA, TO_FLAGS, TO_DIRTY, STORED };  // then the values, and the poison of each

// The numbers of a store: `count` units of `unit` bytes by each lane, if they are `valued`; and the flag of all of them.
// `masked` and `placed` say that there is a mask, and that it is given whose memory it is; `lost` has a bit for each
// unit that has poison.
typedef struct {
    s64 threads, blocks, count, unit, masked, placed, valued, flag, lost;
} Store;

static inline void copy_unit(char *to, const char *from, s64 unit) {
    switch (unit) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8);
    }
}

int store_shared(const char *tuple, const Store *given) {
    const Each rows = each_of(tuple, TO_ROWS), columns = each_of(tuple, TO_COLUMNS), mask = each_of(tuple, TO_MASK);
    char *data = array_in(tuple, TO_DATA)->data, *flags = array_in(tuple, TO_FLAGS)->data;
    u8 *dirty = (void *)array_in(tuple, TO_DIRTY)->data;
    s64 threads = given->threads, blocks = given->blocks, count = given->count, unit = given->unit;
    int alike = !rows.right && !given->placed && (!given->masked || !mask.right);  // every block does the same
    for (s64 i = 0; i < count; i++) {
        int lost = (int)(given->lost >> i & 1);
        const Each value = each_of(tuple, given->valued ? STORED + i : TO_MASK);
        const Each poison = each_of(tuple, lost ? STORED + (given->valued ? count : 0) + i : TO_MASK);
        for (s64 thread = 0; thread < threads; thread++) {
            if (alike && given->masked && !*at(&mask, thread, 0)) continue;
            if (alike && !lost) {
                s64 row = *(const s64 *)at(&rows, thread, 0) + i;
                memset(flags + row * blocks, (int)given->flag, (size_t)blocks);
                dirty[row] = (u8)given->flag;
                char *to = data + row * blocks * unit;
                if (given->valued && value.right == unit) memcpy(to, at(&value, thread, 0), (size_t)(blocks * unit));
                for (s64 block = 0; given->valued && value.right != unit && block < blocks; block++)
                    copy_unit(to + block * unit, at(&value, thread, block), unit);
                continue;
            }
            for (s64 block = 0; block < blocks; block++) {
                if (given->masked && !*at(&mask, thread, block)) continue;
                s64 column = given->placed ? *(const s64 *)at(&columns, thread, block) : block;
                s64 cell = (*(const s64 *)at(&rows, thread, block) + i) * blocks + column;
                if (given->valued) copy_unit(data + cell * unit, at(&value, thread, block), unit);
                flags[cell] = (char)given->flag;
                if (lost && *at(&poison, thread, block)) flags[cell] |= NEVER_WRITTEN;
            }
        }
    }
    if (alike && !given->lost) return FINE;
    for (s64 thread = 0; thread < threads; thread++)
        for (s64 block = 0; block < (rows.right ? blocks : 1); block++) {
            int there = !given->masked || *at(&mask, thread, block);
            for (s64 other = 0; !there && !rows.right && mask.right && other < blocks; other++)
                there = *at(&mask, thread, other);
            if (!there) continue;
            s64 row = *(const s64 *)at(&rows, thread, block);
            for (s64 i = 0; i < count; i++) {
                const u8 *flag = (u8 *)flags + (row + i) * blocks;
                u8 most = 0;
                for (s64 other = 0; other < blocks; other++) most = flag[other] > most ? flag[other] : most;
                dirty[row + i] = most;
            }
        }
    return FINE;
}

// stmatrix: the registers of `count` matrices of 8 rows of 16 bytes, from lane 8 * i on of each warp a row of matrix i.
enum { MATRIX_REGISTERS = STORED };  // and then their poison, if they are `lost`

typedef struct {
    s64 threads, blocks, count, unit, masked, transposed, lost;
} MatrixStore;

// The element of 16 bits in some column of a row of a matrix, from a register of 32 bits of the lanes from one on.
static inline u16 matrix_element(const Each *each, s64 first, s64 block, s64 row, s64 column, s64 transposed) {
    s64 major = transposed ? column : row, minor = transposed ? row : column;
    return (u16)(*(const u32 *)at(each, first + 4 * major + minor / 2, block) >> 16 * (minor % 2));
}

// Where the warps of a mask store, all of their lanes are in it that have a row. Units have 1 or 2 bytes.
int store_matrices(const char *tuple, const MatrixStore *given) {
    const Each rows = each_of(tuple, TO_ROWS), mask = each_of(tuple, TO_MASK);
    char *data = array_in(tuple, TO_DATA)->data, *flags = array_in(tuple, TO_FLAGS)->data;
    u8 *dirty = (void *)array_in(tuple, TO_DIRTY)->data;
    s64 threads = given->threads, blocks = given->blocks, unit = given->unit, units = 16 / unit;
    Each registers[4], poison[4];
    for (s64 i = 0; i < given->count; i++) {
        registers[i] = each_of(tuple, MATRIX_REGISTERS + i);
        poison[i] = each_of(tuple, given->lost ? MATRIX_REGISTERS + given->count + i : TO_MASK);
    }
    for (s64 first = 0; first < threads; first += 32)
        for (s64 block = 0; block < blocks; block++) {
            if (given->masked && !*at(&mask, first, block)) continue;
            for (s64 lane = 0; lane < 8 * given->count; lane++) {
                s64 row = *(const s64 *)at(&rows, first + lane, block), cell = row * blocks + block;
                u16 line[8], bad[8] = {0};
                for (s64 i = 0; i < 8; i++) {
                    line[i] = matrix_element(&registers[lane / 8], first, block, lane % 8, i, given->transposed);
                    if (given->lost)
                        bad[i] = matrix_element(&poison[lane / 8], first, block, lane % 8, i, given->transposed);
                }
                for (s64 i = 0; i < units; i++, cell += blocks) {
                    copy_unit(data + cell * unit, (const char *)line + i * unit, unit);
                    if (!given->lost && !dirty[row + i]) continue;  // it is written already, in all blocks
                    flags[cell] = bad[i * unit / 2] ? NEVER_WRITTEN : 0;
                    const u8 *all = (u8 *)flags + (row + i) * blocks;
                    u8 most = 0;
                    for (s64 other = 0; other < blocks; other++) most = all[other] > most ? all[other] : most;
                    dirty[row + i] = most;
                }
            }
        }
    return FINE;
}
