// Loads of boxes of a tensor to shared memory, as `operations.tensor_copies` makes them in numpy: those of the lanes of a
// mask, all by one tensor map, where all is in order. Of others nothing is done, and nothing is changed.

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

// Reads the box at some coordinates, packed; what the tensor does not have is zeros. Returns 0 where not all that it has
// is in one tensor that is only read, and was written.
static int gather_box(Boxes *given, const s64 *arenas, const s64 *from, char *to) {
    s64 rows = 1, item = given->itemsize, extent = given->box[0] * item, index[MODES] = {0};
    s64 low = from[0] < 0 ? -from[0] : 0, high = given->sizes[0] - from[0];
    high = high < given->box[0] ? high : given->box[0];
    low *= item, high *= item;
    for (s64 mode = 1; mode < given->modes; mode++) rows *= given->box[mode];
    const s64 *arena = given->arena < 0 ? NULL : (const s64 *)arenas[given->arena];
    for (s64 row = 0; row < rows; row++, to += extent) {
        s64 place = given->address + from[0] * item;
        int inside = low < high;
        for (s64 mode = 1; mode < given->modes; mode++) {
            s64 at = from[mode] + index[mode];
            inside &= at >= 0 && at < given->sizes[mode];
            place += at * given->strides[mode];
        }
        for (s64 mode = 1; mode < given->modes; mode++) {
            if (++index[mode] < given->box[mode]) break;
            index[mode] = 0;
        }
        if (!inside) {
            memset(to, 0, (size_t)extent);
            continue;
        }
        if (!arena || place + low < arena[LOW] || place + high > arena[HIGH]) {
            for (given->arena = 0; given->arena < given->arenas; given->arena++) {
                arena = (const s64 *)arenas[given->arena];
                if (place + low >= arena[LOW] && place + high <= arena[HIGH]) break;
            }
            if (given->arena == given->arenas || arena[TOUCHED]) return 0;
        }
        s64 first = place - arena[START];
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
