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
