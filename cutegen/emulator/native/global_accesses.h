// Loads and stores of the lanes in global memory, as `memory.global_access` does them in numpy: only the regular
// ones. All others change nothing, and are left to numpy.

enum { LOW, HIGH, START, BYTES, FLAGS, UNIT, TOUCHED, CONSTANTS, READING };  // the fields of an arena
enum { LAST_WRITER, WRITER_EPOCH, LAST_READER, READER_EPOCH };              // the fields of its accesses
enum { ADDRESS, LANES_OF, PASSED, VALUES };                                 // the arrays of an access
enum { ARENAS, ARENA_COUNT, NUMBERS, DOWN, ACROSS, IN_BLOCK, BY_CLOCKS };   // the same for all accesses of a batch
enum { OFFSET = BY_CLOCKS + 1, TOTAL, ONE, MANY, IN_SOME, NO_CHANGE, FLIES };
enum { ODD = -1, NEEDS = -2 };
enum { GAPS = 1, NOT_WRITTEN = 2 };

static const s64 nobody = -1, several_blocks = -2, block_zero = -3;  // in place of a lane's number

// An array of at most two axes, as it broadcasts to lanes.
typedef struct {
    const char *data;
    s64 rows, columns, down, right;
} Broadcast;

// What is kept of a unit before an access, and who is kept of it then.
typedef struct {
    s64 who, after;
    s32 when;
} Kept;

// An access of some lanes to one arena.
typedef struct {
    const s64 *given, *arena;
    s64 number;       // of the arena
    s64 count;        // of the lanes
    s64 *place;       // of each lane, the index of its first byte in the arena
    s64 *who;         // and its number over the whole grid
    s32 *when;        // and how many barriers its block has passed
    s64 shift, each;  // the bytes of a unit, as a power of two, and the units that a lane touches
    Kept *kept;       // of each unit that is touched
} Global;

static inline Broadcast broadcast_in(const char *tuple, s64 index) {
    const Array *array = array_in(tuple, index);
    int last = array->count - 1;
    Broadcast found = {array->data, last > 0 ? array->lengths[0] : 1, last >= 0 ? array->lengths[last] : 1, 0, 0};
    if (found.rows > 1) found.down = array->steps[0];
    if (found.columns > 1) found.right = array->steps[last];
    return found;
}

static inline s64 larger(s64 one, s64 other) { return one > other ? one : other; }

// Finds the places of the lanes of the mask, and the one arena that has all of them. Where `every`, each lane has one,
// which outside of the mask is the first one of the arena; else only those of the mask have, with who they are. Returns
// 0 if there is no such arena, or a place is not aligned.
static int find_places(Global *access, const char *tuple, const s64 *given, s64 rows, s64 columns, int every) {
    Broadcast address = broadcast_in(tuple, ADDRESS), mask = broadcast_in(tuple, LANES_OF);
    const s64 *numbers = (const s64 *)given[NUMBERS];
    const s32 *passed = (const s32 *)array_in(tuple, PASSED)->data;
    s64 lanes = rows * columns, total = given[TOTAL], low = INT64_MAX, high = INT64_MIN, bits = 0, count = 0;
    if (!reserve(lanes * (s64)(2 * sizeof(s64) + sizeof(s32) + sizeof(Kept) * (size_t)(every ? 0 : total)))) return 0;
    access->given = given, access->kept = (Kept *)arena;
    s64 *place = access->place = (s64 *)(access->kept + (every ? 0 : lanes * total));
    s64 *who = access->who = place + lanes;
    s32 *when = access->when = (s32 *)(who + lanes);
    for (s64 row = 0; row < rows; row++) {
        const char *from = address.data + row * address.down, *in = mask.data + row * mask.down;
        for (s64 column = 0; column < columns; column++, from += address.right, in += mask.right) {
            s64 found;
            memcpy(&found, from, 8);
            found += given[OFFSET];
            if (given[IN_SOME] && !*in) {
                if (every) place[count++] = INT64_MIN;
                continue;
            }
            low = found < low ? found : low, high = found > high ? found : high, bits |= found;
            if (!every) who[count] = numbers[row * given[ACROSS] + column], when[count] = passed[column];
            place[count++] = found;
        }
    }
    access->count = count;
    if (low > high || bits & (total - 1)) return 0;
    s64 number = 0;
    for (;; number++) {
        if (number == given[ARENA_COUNT]) return 0;
        access->arena = (const s64 *)((const s64 *)given[ARENAS])[number];
        if (low >= access->arena[LOW] && high <= access->arena[HIGH] - total) break;
    }
    access->number = number;
    access->shift = __builtin_ctzll((u64)access->arena[UNIT]);
    access->each = total >> access->shift;
    if (total & (access->arena[UNIT] - 1)) return 0;
    s64 start = access->arena[START], first = (access->arena[LOW] - start) & -total;
    for (s64 k = 0; k < count; k++) place[k] = place[k] == INT64_MIN ? first : place[k] - start;
    return 1;
}

// Whether a byte of an access has one of some flags.
static int is_flagged(const Global *access, u8 flags) {
    const u8 *kept = (const u8 *)access->arena[FLAGS];
    u8 found = 0;
    if (!kept) return 0;
#define FLAGGED(SIZE)                              \
    for (s64 k = 0; k < access->count; k++)        \
        for (s64 i = 0; i < SIZE; i++) found |= kept[access->place[k] + i];
    BY_SIZE(access->given[TOTAL], FLAGGED)
    return (found & flags) != 0;
}

// Notes that all bytes of an access were written.
static void clear_flags(const Global *access) {
    u8 *kept = (u8 *)access->arena[FLAGS];
    if (!kept) return;
#define CLEAR(SIZE)                                \
    for (s64 k = 0; k < access->count; k++)        \
        for (s64 i = 0; i < SIZE; i++) kept[access->place[k] + i] &= (u8)~NOT_WRITTEN;
    BY_SIZE(access->given[TOTAL], CLEAR)
}

// The number of the block of who is kept; negative for nobody and for several blocks.
static inline s64 block_of(const Global *access, s64 who) {
    return who >= 0 ? who / access->given[IN_BLOCK] : block_zero - who;
}

// Whether what another one, or several, did at a time is before what a lane does, as far as is seen from barriers.
static inline int is_past(const Global *access, s64 lane, s64 other, s32 time) {
    s64 me = access->who[lane];
    if (other == me) return time != always;
    if (access->given[BY_CLOCKS] || other == nobody) return other == nobody;
    return time < access->when[lane] && block_of(access, other) == block_of(access, me);
}

#define EACH_UNIT_OF(SIZE)                                             \
    for (s64 k = 0; k < access->count; k++)                            \
        for (s64 unit = access->place[k] >> access->shift, i = 0; i < (SIZE); i++, unit++)

// Whether nobody is kept of any unit of an access.
static int is_first(const Global *access, const s64 *who) {
    s64 all = nobody;
    if (!who) return 1;
#define FIRST(SIZE) EACH_UNIT_OF(SIZE) all &= who[unit];
    BY_SIZE(access->each, FIRST)
    return all == nobody;
}

// Keeps the lanes of an access as those that touch their units, of which nobody was kept. Returns 0, with nobody kept,
// where two lanes touch one unit.
static int keep_first(const Global *access, s64 *who, s32 *when) {
    s64 differ = 0;
#define KEEP(SIZE) EACH_UNIT_OF(SIZE) who[unit] = access->who[k], when[unit] = access->when[k];
    BY_SIZE(access->each, KEEP)
#define DIFFER(SIZE) EACH_UNIT_OF(SIZE) differ |= who[unit] ^ access->who[k];
    BY_SIZE(access->each, DIFFER)
    if (!differ) return 1;
    EACH_UNIT_OF(access->each) who[unit] = nobody, when[unit] = 0;
    return 0;
}

// Keeps who touches the units, as `kept` says. Returns 0, with all as it was, where lanes differ about a unit.
static int keep_touches(const Global *access, s64 *who, s32 *when) {
    const Kept *kept = access->kept;
    s64 differ = 0;
    EACH_UNIT_OF(access->each) who[unit] = kept[k * access->each + i].after, when[unit] = access->when[k];
    EACH_UNIT_OF(access->each) differ |= who[unit] ^ kept[k * access->each + i].after;
    if (!differ) return 1;
    EACH_UNIT_OF(access->each) who[unit] = kept[k * access->each + i].who, when[unit] = kept[k * access->each + i].when;
    return 0;
}

// Who is kept of a unit that a lane reads, which another one, or several, read before it; `odd` where numpy says who.
static inline s64 reader_after(const Global *access, s64 lane, s64 other, s32 time, int *odd) {
    s64 me = access->who[lane];
    if (other == nobody || other == me || is_past(access, lane, other, time)) return me;
    if (access->given[BY_CLOCKS] || other < INT64_MIN / 4) *odd = 1;  // a cluster may be kept
    s64 block = block_of(access, me);
    return block_of(access, other) == block ? block_zero - block : several_blocks;
}

// Notes the reads of an access. Returns 0 where it is odd.
static int note_global_reads(const Global *access) {
    const s64 *touched = (const s64 *)access->arena[TOUCHED], *writer = (void *)touched[LAST_WRITER];
    const s32 *written = (void *)touched[WRITER_EPOCH];
    s64 *reader = (void *)touched[LAST_READER];
    s32 *when = (void *)touched[READER_EPOCH];
    u8 *constants = (void *)access->arena[CONSTANTS];
    int no_change = access->given[NO_CHANGE] != 0, odd = 0;
    if (!is_first(access, writer))
        EACH_UNIT_OF(access->each)
            odd |= writer[unit] != nobody && (no_change || !is_past(access, k, writer[unit], written[unit]));
    if (odd) return 0;
    if (is_first(access, reader)) {
        if (!keep_first(access, reader, when)) return 0;
    } else {
        EACH_UNIT_OF(access->each) {
            Kept one = {reader[unit], reader_after(access, k, reader[unit], when[unit], &odd), when[unit]};
            access->kept[k * access->each + i] = one;
        }
        if (odd || !keep_touches(access, reader, when)) return 0;
    }
    if (no_change) EACH_UNIT_OF(access->each) constants[unit] = 1;
    return 1;
}

// Notes the writes of an access. Returns 0 where it is odd.
static int note_global_writes(const Global *access) {
    const s64 *touched = (const s64 *)access->arena[TOUCHED], *reader = (void *)touched[LAST_READER];
    s64 *writer = (void *)touched[LAST_WRITER];
    s32 *written = (void *)touched[WRITER_EPOCH];
    const s32 *when = (void *)touched[READER_EPOCH], *reading = (void *)access->arena[READING];
    const u8 *constants = (void *)access->arena[CONSTANTS];
    int odd = 0;
    if (constants) EACH_UNIT_OF(access->each) odd |= constants[unit];
    if (reading) EACH_UNIT_OF(access->each) odd |= reading[unit] > 0;
    if (!is_first(access, reader))
        EACH_UNIT_OF(access->each) odd |= !is_past(access, k, reader[unit], when[unit]);
    if (odd) return 0;
    if (is_first(access, writer)) return keep_first(access, writer, written);
    EACH_UNIT_OF(access->each) {
        odd |= !is_past(access, k, writer[unit], written[unit]);
        Kept one = {writer[unit], access->who[k], written[unit]};
        access->kept[k * access->each + i] = one;
    }
    return !odd && keep_touches(access, writer, written);
}

// Whether it is kept who touches the arena in which the first lane of the mask has its place, if any does.
static int is_kept(const char *tuple, const s64 *given, s64 rows, s64 columns) {
    Broadcast address = broadcast_in(tuple, ADDRESS), mask = broadcast_in(tuple, LANES_OF);
    for (s64 row = 0; row < rows; row++)
        for (s64 column = 0; column < columns; column++) {
            if (given[IN_SOME] && !mask.data[row * mask.down + column * mask.right]) continue;
            s64 found;
            memcpy(&found, address.data + row * address.down + column * address.right, 8);
            found += given[OFFSET];
            for (s64 number = 0; number < given[ARENA_COUNT]; number++) {
                const s64 *arena = (const s64 *)((const s64 *)given[ARENAS])[number];
                if (found >= arena[LOW] && found < arena[HIGH]) return arena[TOUCHED] != 0;
            }
            return 0;
        }
    return 0;
}

// Loads values, each into an array for those lanes to which address and mask broadcast; lanes outside of the mask get
// what lies at the arena's beginning. Returns the number of the arena, ODD where all of it is for numpy, or NEEDS minus
// the number where nothing is kept yet of what must be noted.
int load_global(const char *tuple, const s64 *given) {
    Global found, *access = &found;
    Broadcast address = broadcast_in(tuple, ADDRESS), mask = broadcast_in(tuple, LANES_OF);
    s64 rows = larger(address.rows, mask.rows), columns = larger(address.columns, mask.columns);
    int kept = is_kept(tuple, given, rows, columns);
    if (kept && given[FLIES]) return ODD;
    if (kept) rows = given[DOWN], columns = given[ACROSS];
    if (!find_places(access, tuple, given, rows, columns, !kept)) return ODD;
    const s64 *touched = (const s64 *)access->arena[TOUCHED];
    if (touched) {
        int lacks = !touched[LAST_READER] || (given[NO_CHANGE] && !access->arena[CONSTANTS]);
        if (lacks) return NEEDS - (int)access->number;
    }
    if (is_flagged(access, GAPS | NOT_WRITTEN) || (touched && !note_global_reads(access))) return ODD;
    if (touched) {
        rows = larger(address.rows, mask.rows), columns = larger(address.columns, mask.columns);
        find_places(access, tuple, given, rows, columns, 1);
    }
    const char *bytes = (const char *)access->arena[BYTES];
    for (s64 i = 0; i < given[MANY]; i++) {
        char *to = array_in(tuple, VALUES + i)->data;
#define LOAD(SIZE) \
    for (s64 k = 0; k < access->count; k++) memcpy(to + k * (SIZE), bytes + access->place[k] + i * (SIZE), SIZE);
        BY_SIZE(given[ONE], LOAD)
    }
    return (int)access->number;
}

// Stores the lowest bytes of values. Returns the number of the arena, or ODD where all of it is for numpy.
int store_global(const char *tuple, const s64 *given) {
    Global found, *access = &found;
    if (!find_places(access, tuple, given, given[DOWN], given[ACROSS], 0)) return ODD;
    if (!access->arena[TOUCHED] || is_flagged(access, GAPS) || !note_global_writes(access)) return ODD;
    Broadcast mask = broadcast_in(tuple, LANES_OF);
    for (s64 i = 0; i < given[MANY]; i++) {
        Broadcast value = broadcast_in(tuple, VALUES + i);
        char *bytes = (char *)access->arena[BYTES] + i * given[ONE];
        const s64 *place = access->place;
        for (s64 row = 0; row < given[DOWN]; row++) {
            const char *from = value.data + row * value.down, *in = mask.data + row * mask.down;
#define STORE(SIZE)                                                                                           \
    for (s64 column = 0; column < given[ACROSS]; column++, from += value.right, in += mask.right)             \
        if (!given[IN_SOME] || *in) memcpy(bytes + *place++, from, SIZE);
            BY_SIZE(given[ONE], STORE)
        }
    }
    clear_flags(access);
    return (int)access->number;
}
