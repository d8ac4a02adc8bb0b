// Copies of boxes of a tensor to shared memory and from it, as `operations.tensor_copies` and `tensor_stores` make them in
// numpy: those of the lanes of a mask, all by one tensor map, where all is in order. Of others nothing is done, and
// nothing is changed.

enum {
    BOX_LANES, BOX_TARGETS, BOX_COUNTERS, BOX_MAPS, BOX_RANKS, BOX_DATA, BOX_FLAGS, BOX_DIRTY, BOX_ARENAS, BOX_MBARRIERS,
    BOX_PLACES, BOX_USED, BOX_GONE, BOX_FOUND, BOX_COORDINATES  // of these as many as modes, innermost first
};
enum { MODES = 5, MOST_RANKS = 16, SHARED_TABOO = 14 };

// Its numbers: where addresses are from, as `place_of` says, and the bytes of each array of them, of which 0 stands for
// no array; the one address of the map; the shared memory of a block; the tensor. The last ones are given back.
typedef struct {
    s64 to_shift, to_bytes, counter_shift, counter_bytes, map, map_bytes, rank_bytes;
    s64 start, memory, unit, arenas, room, arrives;
    s64 address, itemsize, swizzle, modes, sizes[MODES], strides[MODES], box[MODES];
    s64 next, arena;  // the lane to begin with, and the one that is next; the arena that was read last, -1 for none
} Boxes;

// One copy to one block: the lane that makes it, where it comes, what counts it, and the number of the box.
typedef struct {
    s64 thread, block, column, row, mbarrier, box;
} Boxed;

// The rows of a box along the innermost mode, one after the other.
typedef struct {
    const s64 *from;         // the coordinates of the box
    s64 count, extent;       // how many rows there are, and the bytes of each
    s64 low, high;           // the first byte and that after the last one that the tensor has of a row, if it has any
    s64 index[MODES];        // of the next row in the box
    s64 place;               // the address of the first byte of the row
} Rows;

static Rows rows_of(const Boxes *given, const s64 *from) {
    Rows rows = {from, 1, given->box[0] * given->itemsize, 0, 0, {0}, 0};
    s64 last = given->sizes[0] - from[0];
    rows.low = (from[0] < 0 ? -from[0] : 0) * given->itemsize;
    rows.high = (last < given->box[0] ? last : given->box[0]) * given->itemsize;
    for (s64 mode = 1; mode < given->modes; mode++) rows.count *= given->box[mode];
    return rows;
}

// Goes on to the next row. Returns whether the tensor has any of it.
static int next_row(const Boxes *given, Rows *rows) {
    int inside = rows->low < rows->high;
    rows->place = given->address + rows->from[0] * given->itemsize;
    for (s64 mode = 1; mode < given->modes; mode++) {
        s64 at = rows->from[mode] + rows->index[mode];
        inside &= at >= 0 && at < given->sizes[mode];
        rows->place += at * given->strides[mode];
    }
    for (s64 mode = 1; mode < given->modes; mode++) {
        if (++rows->index[mode] < given->box[mode]) break;
        rows->index[mode] = 0;
    }
    return inside;
}

// The arena that has what the tensor has of a row, whose number is noted; NULL for none.
static const s64 *arena_of(Boxes *given, const s64 *arenas, const Rows *rows) {
    s64 low = rows->place + rows->low, high = rows->place + rows->high;
    if (given->arena >= 0) {
        const s64 *arena = (const s64 *)arenas[given->arena];
        if (low >= arena[LOW] && high <= arena[HIGH]) return arena;
    }
    for (given->arena = 0; given->arena < given->arenas; given->arena++) {
        const s64 *arena = (const s64 *)arenas[given->arena];
        if (low >= arena[LOW] && high <= arena[HIGH]) return arena;
    }
    return NULL;
}

// Reads the box at some coordinates, packed; what the tensor does not have is zeros. Returns 0 where not all that it has
// is in one tensor that is only read, and was written.
static int gather_box(Boxes *given, const s64 *arenas, const s64 *from, char *to) {
    Rows rows = rows_of(given, from);
    s64 low = rows.low, high = rows.high, extent = rows.extent;
    for (s64 row = 0; row < rows.count; row++, to += extent) {
        if (!next_row(given, &rows)) {
            memset(to, 0, (size_t)extent);
            continue;
        }
        const s64 *arena = arena_of(given, arenas, &rows);
        if (!arena || arena[TOUCHED]) return 0;
        s64 first = rows.place - arena[START];
        const u8 *flags = (const u8 *)arena[FLAGS];
        u8 flagged = 0;
        for (s64 i = flags ? low : high; i < high; i++) flagged |= flags[first + i];
        if (flagged) return 0;
        memset(to, 0, (size_t)low);
        memcpy(to + low, (const char *)arena[BYTES] + first + low, (size_t)(high - low));
        memset(to + high, 0, (size_t)(extent - high));
    }
    return 1;
}

// Whether a lane may have a copy to some units that is counted at an mbarrier, of that row in their table.
static int may_copy(
    const char *tuple, const Access *access, const Fences *fences, Lane lane, s64 cluster, s64 mbarrier) {
    const u8 *flags = (void *)array_in(tuple, BOX_FLAGS)->data, *dirty = (void *)array_in(tuple, BOX_DIRTY)->data;
    const s64 *of = (s64 *)array_in(tuple, BOX_MBARRIERS)->data + mbarrier * MBARRIER_FIELDS;
    const s64 *about = access->given;
    s64 blocks = about[BLOCKS], row = lane.unit / blocks, maker = of[MAKER];
    const s32 *warps = lane.known - about[SKIPPED];  // up to when each is known to have run
    if (maker != lane.member && lane.known[maker] <= of[MADE] &&
        !(of[PUBLISHED] > 0 && (maker / 32 == lane.member / 32 || warps[maker / 32] >= of[PUBLISHED])))
        return 0;
    if (of[PUBLISHED] <= 0 && !is_covered(access, fences, &lane, cluster, maker, (s32)of[MADE])) return 0;
    for (s64 i = 0; i < about[COUNT]; i++)
        if (dirty[row + i] && flags[lane.unit + i * blocks] & SHARED_TABOO) return 0;
    return may_write(access, about, lane) && is_fenced(access, fences, lane, cluster);
}

// Puts a packed box where it comes, with its runs of 16 bytes exchanged as the map says.
static void put_box(const char *tuple, const Boxes *given, const Access *access, const Boxed *one, const char *box) {
    char *data = array_in(tuple, BOX_DATA)->data;
    u8 *flags = (void *)array_in(tuple, BOX_FLAGS)->data, *dirty = (void *)array_in(tuple, BOX_DIRTY)->data;
    s64 blocks = access->given[BLOCKS], units = access->given[COUNT], unit = given->unit, each = 16 / unit;
    s64 start = one->row * unit + given->start, mask = ((s64)1 << given->swizzle) - 1;
    for (s64 piece = 0; piece < units / each; piece++, box += 16) {
        s64 place = start + 16 * piece;
        s64 row = ((place ^ (place >> 7 & mask) << 4) - given->start) / unit;
        char *to = data + (row * blocks + one->column) * unit;
#define PUT_UNITS(SIZE) for (s64 i = 0; i < each; i++) memcpy(to + i * blocks * (SIZE), box + i * (SIZE), SIZE);
        if (blocks == 1) memcpy(to, box, 16);
        else BY_SIZE(unit, PUT_UNITS)
    }
    for (s64 row = one->row; row < one->row + units; row++) {
        if (!dirty[row]) continue;
        flags[row * blocks + one->column] = 0;
        u8 most = 0;
        for (const u8 *flag = flags + row * blocks, *end = flag + blocks; flag < end; flag++)
            most = *flag > most ? *flag : most;
        dirty[row] = most;
    }
}

// Finds the copies of a lane, behind those of others. Returns how many there are then, or -1 where something is not in
// order, or one has an mbarrier or units that another one has.
static s64 find_copies(
    const char *tuple, const Boxes *given, const Access *access, const Fences *fences, s64 thread, s64 block, s64 count,
    s64 box) {
    const s64 *about = access->given;
    const s32 *places = (void *)array_in(tuple, BOX_PLACES)->data;
    const char *gone = array_in(tuple, BOX_GONE)->data;
    const Each targets = each_of(tuple, BOX_TARGETS), counters = each_of(tuple, BOX_COUNTERS);
    const Each maps = each_of(tuple, BOX_MAPS), ranks = each_of(tuple, BOX_RANKS);
    Boxed *found = (void *)array_in(tuple, BOX_FOUND)->data;
    s64 blocks = about[BLOCKS], size = about[CLUSTER], rank = block % size, cluster = block / size;
    s64 unit = given->unit, bytes = about[COUNT] * unit, warps = about[PADDED] / 32;
    s64 to = number_at(&targets, thread, block, given->to_bytes) + given->to_shift - given->start;
    s64 counter = number_at(&counters, thread, block, given->counter_bytes) + given->counter_shift - given->start;
    s64 those = given->rank_bytes ? *(const u16 *)at(&ranks, thread, block) : (s64)1 << rank;
    if (number_at(&maps, thread, block, given->map_bytes) != given->map) return -1;
    if (to < 0 || to > given->memory - bytes || (to + given->start) % 128 || to % unit) return -1;
    if (counter < 0 || counter > given->memory - 8 || counter % 8 || counter / 8 >= array_in(tuple, BOX_PLACES)->lengths[0]) return -1;
    if (!those || those >> size) return -1;
    for (s64 other = 0; other < size; other++) {
        if (!(those >> other & 1)) continue;
        Boxed one = {thread, block, cluster * size + other, to / unit, places[counter / 8 * blocks + cluster * size + other], box};
        Lane lane;
        set_lane(access, thread, block, rank, cluster, one.row, one.column, &lane);
        if (other != rank) {
            const s32 *run = lane.known - about[SKIPPED] + other * warps;
            int has_run = 0;
            for (s64 warp = 0; warp < warps && !has_run; warp++) has_run = run[warp] > 0;
            if (!has_run || gone[one.column]) return -1;
        }
        if (one.mbarrier < 0 || count == given->room) return -1;
        for (s64 i = 0; i < count; i++) {
            if (found[i].mbarrier == one.mbarrier) return -1;
            s64 apart = found[i].row - one.row;
            if (found[i].column == one.column && apart < about[COUNT] && -apart < about[COUNT]) return -1;
        }
        if (!may_copy(tuple, access, fences, lane, cluster, one.mbarrier)) return -1;
        found[count++] = one;
    }
    return count;
}

// Loads boxes of the lanes of the mask from the number `next` on, all at the time that it is, and fills the array of what
// was found of each. It goes as far as all is in order, and as each copy has an mbarrier and units of its own; `next` is
// the number of the lane that is the next one then, -1 for none. `noting` and `noted` are as for an access of one box.
// Returns how many copies there are.
int load_boxes(const char *tuple, Boxes *given, const char *noting, const s64 *noted) {
    const Access access = access_of(noting, noted);
    const Fences fences = fences_in(noting, noted);
    const Each mask = each_of(tuple, BOX_LANES);
    const s64 *arenas = (void *)array_in(tuple, BOX_ARENAS)->data, *table = (void *)array_in(tuple, BOX_MBARRIERS)->data;
    const Boxed *found = (void *)array_in(tuple, BOX_FOUND)->data;
    s32 *used = (void *)array_in(tuple, BOX_USED)->data;
    s64 bytes = noted[COUNT] * given->unit, blocks = noted[BLOCKS], lanes = noted[THREADS] * blocks, count = 0;
    s64 lane = given->next, boxes = 0;
    for (s64 i = lane; i < lanes; i++) boxes += *at(&mask, i / blocks, i % blocks) != 0;
    given->next = lane;
    given->arena = -1;
    if (!reserve((boxes < given->room ? boxes : given->room) * bytes)) return 0;
    for (boxes = 0; lane < lanes; lane++) {
        s64 thread = lane / blocks, block = lane % blocks, from[MODES], before = given->arena;
        if (!*at(&mask, thread, block)) continue;
        given->next = lane;
        s64 more = find_copies(tuple, given, &access, &fences, thread, block, count, boxes);
        if (more < 0) break;
        for (s64 mode = 0; mode < given->modes; mode++) {
            const Each each = each_of(tuple, BOX_COORDINATES + mode);
            from[mode] = *(const s32 *)at(&each, thread, block);
        }
        if (!gather_box(given, arenas, from, arena + boxes * bytes)) {
            given->arena = before;
            break;
        }
        boxes++;
        count = more;
    }
    if (lane == lanes) given->next = -1;
    for (s64 i = 0; i < count; i++) {
        const Boxed *one = found + i;
        s64 size = noted[CLUSTER], rank = one->block % size;
        Lane at_it;
        set_lane(&access, one->thread, one->block, rank, one->block / size, one->row, one->column, &at_it);
        s32 agent = (s32)table[one->mbarrier * MBARRIER_FIELDS + AGENT];
        note_write(&access, noted, at_it, agent, given->arrives ? (s32)noted[NOW] : always);
        used[one->mbarrier * noted[MEMBERS] + at_it.member] = (s32)noted[NOW];
        put_box(tuple, given, &access, one, arena + one->box * bytes);
    }
    return (int)count;
}

enum {
    OUT_LANES, OUT_ORIGINS, OUT_MAPS, OUT_DATA, OUT_FLAGS, OUT_ARENAS, OUT_NUMBERS, OUT_READING, OUT_LINES, OUT_FOUND,
    OUT_COORDINATES
};

// A box that was stored: by which lane, from which unit on, to which coordinates, and whether the tensor has any of it.
typedef struct {
    s64 thread, block, row, some, from[MODES];
} Stored;

// Whether the units of a row may be written, by the first who touches them: 16 bytes at once, all of which the tensor has.
static int may_store(const Rows *rows, const s64 *arena) {
    if (rows->low % 16 || rows->high % 16 || !arena || !arena[TOUCHED] || arena[READING] || arena[CONSTANTS]) return 0;
    const s64 *touched = (const s64 *)arena[TOUCHED], *writer = (void *)touched[LAST_WRITER];
    const s64 *reader = (void *)touched[LAST_READER];
    const u8 *flags = (const u8 *)arena[FLAGS];
    s64 first = rows->place - arena[START] + rows->low, last = rows->place - arena[START] + rows->high, all = nobody;
    u8 flagged = 0;
    for (s64 i = flags ? first : last; i < last; i++) flagged |= flags[i];
    for (s64 unit = first / arena[UNIT]; unit < last / arena[UNIT]; unit++) all &= writer[unit];
    for (s64 unit = first / arena[UNIT]; reader && unit < last / arena[UNIT]; unit++) all &= reader[unit];
    return !(flagged & GAPS) && all == nobody;
}

// Writes what the tensor has of a row, which is in flight from now on.
static void store_row(const Rows *rows, const s64 *arena, s64 who, const char *from) {
    const s64 *touched = (const s64 *)arena[TOUCHED];
    s64 *writer = (void *)touched[LAST_WRITER], start = rows->place - arena[START];
    s32 *written = (void *)touched[WRITER_EPOCH];
    u8 *flags = (u8 *)arena[FLAGS];
    s64 first = start + rows->low, last = start + rows->high;
    memcpy((char *)arena[BYTES] + first, from + rows->low, (size_t)(last - first));
    for (s64 i = flags ? first : last; i < last; i++) flags[i] &= (u8)~NOT_WRITTEN;
    for (s64 unit = first / arena[UNIT]; unit < last / arena[UNIT]; unit++) writer[unit] = who, written[unit] = always;
}

// Whether a lane may read some units by the async proxy, all of which were written.
static int may_read(const char *tuple, const Access *access, const Fences *fences, Lane lane, s64 cluster) {
    const u8 *flags = (void *)array_in(tuple, OUT_FLAGS)->data;
    const s64 *given = access->given;
    EACH_UNIT {
        s32 writer = access->writers[unit];
        if (flags[unit] || (writer >= 0 && !is_before(&lane, writer, access->written[unit]))) return 0;
    }
    return is_fenced(access, fences, lane, cluster);
}

// Whether some warp of a block has several lanes of a mask.
static int has_several(const Each *mask, s64 threads, s64 blocks) {
    for (s64 block = 0; block < blocks; block++)
        for (s64 thread = 0, before = -1; thread < threads; thread++) {
            if (!*at(mask, thread, block)) continue;
            if (before == thread / 32) return 1;
            before = thread / 32;
        }
    return 0;
}

// Stores boxes of the lanes of the mask, one lane after the other, as far as all is in order, and fills the array of what
// was stored; `next` is given back as by `load_boxes`, and so is how many there are. No warp may have two of the lanes.
int store_boxes(const char *tuple, Boxes *given, const char *noting, const s64 *noted) {
    const Access access = access_of(noting, noted);
    const Fences fences = fences_in(noting, noted);
    const Each mask = each_of(tuple, OUT_LANES), origins = each_of(tuple, OUT_ORIGINS), maps = each_of(tuple, OUT_MAPS);
    const s64 *arenas = (void *)array_in(tuple, OUT_ARENAS)->data, *numbers = (void *)array_in(tuple, OUT_NUMBERS)->data;
    const char *data = array_in(tuple, OUT_DATA)->data;
    s32 *reading = (void *)array_in(tuple, OUT_READING)->data, *lines = (void *)array_in(tuple, OUT_LINES)->data;
    Stored *found = (void *)array_in(tuple, OUT_FOUND)->data;
    s64 threads = noted[THREADS], blocks = noted[BLOCKS], unit = given->unit, units = noted[COUNT], bytes = units * unit;
    s64 count = 0, size = noted[CLUSTER], each = 16 / unit, exchanged = ((s64)1 << given->swizzle) - 1;
    given->next = 0;
    given->arena = -1;
    if (has_several(&mask, threads, blocks) || !reserve(bytes)) return 0;
    for (s64 number = 0; number < threads * blocks; number++) {
        s64 thread = number / blocks, block = number % blocks;
        if (!*at(&mask, thread, block)) continue;
        given->next = number;
        s64 place = number_at(&origins, thread, block, given->to_bytes) + given->to_shift - given->start;
        if (count == given->room || number_at(&maps, thread, block, given->map_bytes) != given->map) return (int)count;
        if (place < 0 || place > given->memory - bytes || (place + given->start) % 128 || place % unit) return (int)count;
        Stored one = {thread, block, place / unit, 0, {0}};
        Lane lane;
        set_lane(&access, thread, block, block % size, block / size, one.row, block, &lane);
        if (!may_read(tuple, &access, &fences, lane, block / size)) return (int)count;
        for (s64 mode = 0; mode < given->modes; mode++) {
            const Each coordinates = each_of(tuple, OUT_COORDINATES + mode);
            one.from[mode] = *(const s32 *)at(&coordinates, thread, block);
        }
        Rows rows = rows_of(given, one.from);
        for (s64 row = 0; row < rows.count; row++)
            if (next_row(given, &rows) && !may_store(&rows, arena_of(given, arenas, &rows))) return (int)count;
        s64 start = place + given->start;
        for (s64 piece = 0; piece < bytes / 16; piece++) {
            s64 where = start + 16 * piece;
            s64 from = (where ^ (where >> 7 & exchanged) << 4) - given->start;
            for (s64 i = 0; i < each; i++)
                memcpy(arena + piece * 16 + i * unit, data + ((from / unit + i) * blocks + block) * unit, (size_t)unit);
        }
        rows = rows_of(given, one.from);
        for (s64 row = 0; row < rows.count; row++) {
            if (!next_row(given, &rows)) continue;
            store_row(&rows, arena_of(given, arenas, &rows), numbers[number], arena + row * rows.extent);
            one.some = 1;
        }
        for (s64 i = lane.unit; i < lane.unit + units * blocks; i += blocks) reading[i]++, lines[i] = (s32)noted[LINE];
        found[count++] = one;
    }
    given->next = -1;
    return (int)count;
}

enum { LANDED_ARENAS, LANDED_BOX };

// Notes that a box that was stored has arrived, in an epoch, which is the `map` of the numbers.
int land_box(const char *tuple, Boxes *given) {
    const s64 *arenas = (void *)array_in(tuple, LANDED_ARENAS)->data, *from = (void *)array_in(tuple, LANDED_BOX)->data;
    Rows rows = rows_of(given, from);
    given->arena = -1;
    for (s64 row = 0; row < rows.count; row++) {
        if (!next_row(given, &rows)) continue;
        const s64 *arena = arena_of(given, arenas, &rows);
        s32 *written = (void *)((const s64 *)arena[TOUCHED])[WRITER_EPOCH];
        s64 first = rows.place - arena[START] + rows.low, last = rows.place - arena[START] + rows.high;
        for (s64 unit = first / arena[UNIT]; unit < last / arena[UNIT]; unit++)
            if (written[unit] == always) written[unit] = (s32)given->map;
    }
    return FINE;
}
