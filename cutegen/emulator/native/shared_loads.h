// Loads from shared memory where all is in order: each lane reads what was written, in bounds and aligned. All else is
// for numpy (`memory.shared_memory`), and nothing is noted of it here.

enum { FROM_MASK, FROM_ROWS, FROM_COLUMNS, FROM_ADDRESS, FROM_DATA, FROM_FLAGS, TO_VALUES };

// The numbers of a load: `count` values of `bytes` each, made of units. `masked` and `placed` say that there is a mask,
// and that it is given whose memory it is; `wide`, that addresses have 64 bits. The memory of a block has the address
// `start` and so many bytes.
typedef struct {
    s64 threads, blocks, masked, placed, wide, offset, bytes, count, unit, start, memory;
    s64 low, high;  // which are given back: the lowest and the highest place
} Load;

// Where an address lies in the shared memory of a block.
static inline s64 place_of(const Each *address, const Load *load, s64 thread, s64 block) {
    const char *found = at(address, thread, block);
    return (load->wide ? *(const s64 *)found : (s64)*(const u32 *)found) + load->offset - load->start;
}

// Which blocks of a thread take part: 0 for none, 1 for all of them, 2 for some.
static inline int blocks_of(const Each *mask, const Load *load, s64 thread) {
    if (!load->masked) return 1;
    const char *from = at(mask, thread, 0);
    if (!mask->right) return *from != 0;
    s64 count = 0;
    for (s64 block = 0; block < load->blocks; block++) count += from[block * mask->right] != 0;
    return count == load->blocks ? 1 : count ? 2 : 0;
}

// Looks at a load for which all blocks have the address of a thread, each in its own memory, and each value is a unit.
static int look_alike(const Each *mask, const Each *rows, const Each *address, const char *flags, Load *load) {
    s64 blocks = load->blocks, unit = load->unit, size = load->count * unit;
    for (s64 thread = 0; thread < load->threads; thread++) {
        s64 place = place_of(address, load, thread, 0), row = place / unit;
        if (place < 0) row = place >> __builtin_ctzll(unit);
        for (s64 block = 0; block < (rows->right ? blocks : 1); block++) *(s64 *)at(rows, thread, block) = row;
        int part = blocks_of(mask, load, thread);
        if (!part) continue;
        if (place < 0 || place > load->memory - size || (place + load->start) & (size - 1)) return WRONG;
        const char *flag = flags + row * blocks, *in = part == 2 ? at(mask, thread, 0) : NULL;
        char bad = 0;
        if (!in)
            for (s64 i = 0; i < load->count * blocks; i++) bad |= flag[i];
        for (s64 i = 0; in && i < load->count; i++, flag += blocks)
            for (s64 block = 0; block < blocks; block++)
                if (in[block * mask->right]) bad |= flag[block];
        if (bad) return WRONG;
        load->low = place < load->low ? place : load->low;
        load->high = place > load->high ? place : load->high;
    }
    return FINE;
}

// The values of such a load, each a line of all blocks.
static void load_alike(const Each *mask, const Each *address, const char *data, const Array *values, const Load *load) {
    s64 threads = values->lengths[1], blocks = load->blocks, unit = load->unit, line = blocks * unit;
    for (s64 thread = 0; thread < threads; thread++) {
        int part = blocks_of(mask, load, thread);
        const char *from = part ? data + place_of(address, load, thread, 0) / unit * line : NULL;
        char *to = values->data + thread * line;
        if (!part) {
            for (s64 i = 0; i < load->count; i++) memset(to + i * threads * line, 0, (size_t)line);
            continue;
        }
#define LINES(SIZE) for (s64 i = 0; i < load->count; i++) memcpy(to + i * threads * line, from + i * line, (size_t)(SIZE));
        BY_SIZE(line, LINES)
        const char *in = part == 2 ? at(mask, thread, 0) : NULL;
        for (s64 i = 0; in && i < load->count; i++)
            for (s64 block = 0; block < blocks; block++)
                if (!in[block * mask->right]) memset(to + i * threads * line + block * unit, 0, (size_t)unit);
    }
}

// The arrays of a load.
typedef struct {
    Each mask, rows, columns, address;
    const char *data, *flags;
    const Array *values;
} Loading;

// Loads by the lanes of a mask; other lanes get zeros. Fills the array of rows, which has the first unit of each lane.
// `access` is the same access for `noted_reads`, where that is to be noted: FINE and NEW mean the same here.
static int load_one(const Loading *from, Load *load, const Access *access) {
    const Each mask = from->mask, rows = from->rows, columns = from->columns, address = from->address;
    const char *data = from->data, *flags = from->flags;
    const Array *values = from->values;
    s64 threads = load->threads, blocks = load->blocks, unit = load->unit, shift = __builtin_ctzll(unit);
    s64 each = load->bytes / unit, count = load->count * each, size = count * unit;
    s64 low = INT64_MAX, high = INT64_MIN;
    int alike = !address.right && !load->placed && each == 1;
    if (alike) {
        load->low = low, load->high = high;
        if (look_alike(&mask, &rows, &address, flags, load) != FINE) return WRONG;
        low = load->low, high = load->high;
    }
    for (s64 thread = 0; thread < threads && !alike; thread++)
        for (s64 block = 0; block < blocks; block++) {
            s64 place = place_of(&address, load, thread, block), row = place >> shift;
            *(s64 *)at(&rows, thread, block) = row;
            if (load->masked && !*at(&mask, thread, block)) continue;
            if (place < 0 || place > load->memory - size || (place + load->start) & (size - 1)) return WRONG;
            s64 column = load->placed ? *(const s64 *)at(&columns, thread, block) : block;
            for (s64 i = 0; i < count; i++)
                if (flags[(row + i) * blocks + column]) return WRONG;
            low = place < low ? place : low;
            high = place > high ? place : high;
        }
    if (low > high) return WRONG;
    if (access) {
        int result = noted_reads(*access);
        if (result != FINE) return result;
    }
    load->low = low;
    load->high = high;
    if (alike) {
        load_alike(&mask, &address, data, values, load);
        return FINE;
    }
    s64 down = values->lengths[1] * blocks * load->bytes;  // from one value of all lanes to the next
    for (s64 thread = 0; thread < values->lengths[1]; thread++)
        for (s64 block = 0; block < blocks; block++) {
            char *to = values->data + (thread * blocks + block) * load->bytes;
            int used = !load->masked || *at(&mask, thread, block);
            s64 column = load->placed ? *(const s64 *)at(&columns, thread, block) : block;
            const char *from = data + ((place_of(&address, load, thread, block) >> shift) * blocks + column) * unit;
            for (s64 i = 0; i < load->count; i++)
                for (s64 part = 0; part < each; part++) {
                    char *here = to + i * down + part * unit;
                    const char *source = from + (i * each + part) * blocks * unit;
                    if (!used) memset(here, 0, (size_t)unit);
                    else if (unit == 4) memcpy(here, source, 4);
                    else memcpy(here, source, (size_t)unit);
                }
        }
    return FINE;
}

// A load. The arrays in `noting`, with their numbers, are those of the same reads for `note_reads`, if they are noted.
int load_shared(const char *tuple, Load *load, const char *noting, const s64 *noted) {
    const Loading from = {
        each_of(tuple, FROM_MASK), each_of(tuple, FROM_ROWS), each_of(tuple, FROM_COLUMNS), each_of(tuple, FROM_ADDRESS),
        array_in(tuple, FROM_DATA)->data, array_in(tuple, FROM_FLAGS)->data, array_in(tuple, TO_VALUES)};
    if (!noted) return load_one(&from, load, NULL);
    const Access access = access_of(noting, noted);
    return load_one(&from, load, &access);
}

enum { ALL_MASK, ALL_DATA, ALL_FLAGS, ALL_NUMBERS, ALL_LINES, ALL_WHICH, ALL_ROWS, ALL_VALUES, ALL_ADDRESSES };
enum { ALL_COUNT, ALL_FIRST, ROWS_OF_EACH };

// Several loads of as many values by the same lanes, in their own memory, from the number ALL_FIRST on, each from one of
// the addresses; `noting` and `noted` are as for one load, but for the rows, the units and the line of each. Returns the
// number of the first that is not in order, or how many there are.
int load_several(const char *tuple, const s64 *given, const char *noting, const s64 *noted) {
    Load *loads = (void *)array_in(tuple, ALL_NUMBERS)->data;
    const s64 *lines = (void *)array_in(tuple, ALL_LINES)->data, *which = (void *)array_in(tuple, ALL_WHICH)->data;
    const Array *rows = array_in(tuple, ALL_ROWS), *all = array_in(tuple, ALL_VALUES);
    intptr_t lengths[3] = {loads->count, all->lengths[1], all->lengths[2]};
    Array values = {NULL, 3, lengths, all->steps};
    Loading from = {
        each_of(tuple, ALL_MASK), each_of(tuple, ALL_ROWS), {0, 0, 0}, {0, 0, 0}, array_in(tuple, ALL_DATA)->data,
        array_in(tuple, ALL_FLAGS)->data, &values};
    s64 own[EXTRAS + 1];
    Access access;
    if (noted) {
        memcpy(own, noted, sizeof own);
        access = access_of(noting, own);
        access.rows = from.rows;
        own[COUNT] = loads->count * loads->bytes / loads->unit;
    }
    for (s64 i = given[ALL_FIRST]; i < given[ALL_COUNT]; i++) {
        if (given[ROWS_OF_EACH]) from.rows.data = rows->data + i * rows->steps[0];
        from.address = from.columns = each_of(tuple, ALL_ADDRESSES + which[i]);
        values.data = all->data + i * loads->count * all->steps[0];
        own[LINE] = lines[i];
        if (load_one(&from, loads + i, noted ? &access : NULL) != FINE) return (int)i;
    }
    return (int)given[ALL_COUNT];
}
