// Checks the order of accesses to shared memory by more than whole blocks, unit by unit, as `checks.shared_history` does
// in numpy. Faults are only found here; numpy words them.

// An array that broadcasts to the lanes.
typedef struct {
    char *data;
    s64 down, right;  // steps from one thread, and from one block, to the next
} Each;

enum {
    MASK, ROWS, COLUMNS, HELD, KNOWN, WRITERS, WRITTEN, READ_LINES, WRITE_LINES, WHO, WHEN, ROW_OF, AWAY, WARPS,
    BUSY, GATHERED, AGENTS, MORE
};
enum {
    THREADS, BLOCKS, CLUSTER, PADDED, MEMBERS, SKIPPED, UNITS, MASKED, COUNT, WIDTH, NOW, LINE, READERS,
    HAS_BUSY, GATHERERS, EXTRAS
};

// An access: the lanes of a mask, each of which touches some units in a row of the shared memory of one block.
typedef struct {
    const s64 *given;
    Each mask, rows, columns;
    const s32 *held, *known;  // of each member the number of its row, and these rows
    s32 *writers, *written, *read_lines, *write_lines, *when;
    u32 *who;
    const s64 *row_of, *away, *warps;
    const s32 *busy;  // how many asynchronous operations read each unit, if any do
    s32 *gathered;    // when each of some agents has read it last, 0 for never
    const s64 *agents;
} Access;

// One lane of it.
typedef struct {
    s64 member, column, unit;  // of the unit, its number over all blocks
    s64 owner, distance;       // the rank of the block that has the memory, and how far its own is from that
    const s32 *known;          // what it knows of members and agents
} Lane;

static const s32 always = 0x7fffffff;

static inline Each each_of(const char *tuple, s64 index) {
    const Array *array = array_in(tuple, index);
    int axes = array->count;
    Each found = {array->data, 0, 0};
    if (axes > 0 && array->lengths[axes - 1] > 1) found.right = array->steps[axes - 1];
    if (axes > 1 && array->lengths[axes - 2] > 1) found.down = array->steps[axes - 2];
    return found;
}

static inline char *at(const Each *each, s64 thread, s64 block) {
    return each->data + thread * each->down + block * each->right;
}

static Access access_of(const char *tuple, const s64 *given) {
#define DATA(INDEX) (void *)array_in(tuple, INDEX)->data
    Access found = {
        given, each_of(tuple, MASK), each_of(tuple, ROWS), each_of(tuple, COLUMNS), DATA(HELD), DATA(KNOWN),
        DATA(WRITERS), DATA(WRITTEN), DATA(READ_LINES), DATA(WRITE_LINES), DATA(WHEN), DATA(WHO),
        DATA(ROW_OF), DATA(AWAY), DATA(WARPS), DATA(BUSY), DATA(GATHERED), DATA(AGENTS)};
#undef DATA
    return found;
}

// What a lane of a block, of that rank in that cluster, does that touches some units of a block, from one of its rows on.
static inline void set_lane(
    const Access *access, s64 thread, s64 block, s64 rank, s64 cluster, s64 row, s64 column, Lane *lane) {
    const s64 *given = access->given;
    lane->column = column;
    lane->member = rank * given[PADDED] + thread;
    lane->unit = row * given[BLOCKS] + column;
    lane->owner = column == block ? rank : column % given[CLUSTER];
    lane->distance = rank - lane->owner + (rank < lane->owner ? given[CLUSTER] : 0);
    lane->known = access->known + access->held[cluster * given[MEMBERS] + lane->member] * given[WIDTH] + given[SKIPPED];
}

// Whether a thread of a block, of that rank in that cluster, takes part in an access; then `lane` is what it does.
static inline int takes_part(const Access *access, s64 thread, s64 block, s64 rank, s64 cluster, Lane *lane) {
    if (access->given[MASKED] && !*at(&access->mask, thread, block)) return 0;
    s64 row = *(const s64 *)at(&access->rows, thread, block), column = *(const s64 *)at(&access->columns, thread, block);
    set_lane(access, thread, block, rank, cluster, row, column, lane);
    return 1;
}

#define EACH_LANE                                                                                      \
    for (s64 thread = 0; thread < given[THREADS]; thread++)                                            \
        for (s64 block = 0, rank = 0, cluster = 0; block < given[BLOCKS];                              \
             block++, rank = rank + 1 == given[CLUSTER] ? 0 : rank + 1, cluster += !rank)              \
            if (takes_part(&access, thread, block, rank, cluster, &lane))
#define EACH_UNIT                                                      \
    for (s64 unit = lane.unit, last = unit + given[COUNT] * given[BLOCKS]; unit < last; unit += given[BLOCKS])

// Whether what a member did is before what a lane does now.
static inline int is_before(const Lane *lane, s64 member, s32 time) {
    return lane->known[member] > time || (member == lane->member && time != always);
}

// Whether what some of the 32 members from one on did at a time is.
static inline int are_before(const Lane *lane, s64 first, u32 members, s32 time) {
    for (; members; members &= members - 1)
        if (!is_before(lane, first + __builtin_ctz(members), time)) return 0;
    return 1;
}

static inline s64 reader_of(const Access *access, const Lane *lane, s64 thread) {
    return access->row_of[lane->distance * (access->given[PADDED] / 32) + thread / 32];
}

enum { FINE, WRONG, NEW, TWICE };

// Notes reads, if the last write of each unit is before them. Returns NEW if a warp has not read before.
static int noted_reads(const Access access) {
    const s64 *given = access.given;
    Lane lane;
    int unknown = 0;
    EACH_LANE {
        unknown |= reader_of(&access, &lane, thread) < 0;
        EACH_UNIT {
            s32 writer = access.writers[unit];
            if (writer >= 0 && !is_before(&lane, writer, access.written[unit])) return WRONG;
        }
    }
    if (unknown) return NEW;
    s32 now = (s32)given[NOW];
    EACH_LANE {  // whoever is ordered after this reader is ordered after those that are ordered before it
        s64 row = reader_of(&access, &lane, thread) * given[UNITS], first = lane.member / 32 * 32;
        EACH_UNIT {
            u32 *who = access.who + row + unit;
            if (!*who) continue;  // then the time means nothing, and nothing may have been written there
            s32 time = access.when[row + unit];
            if (time < now && are_before(&lane, first, *who, time)) *who = 0;
        }
    }
    EACH_LANE {
        s64 row = reader_of(&access, &lane, thread) * given[UNITS];
        u32 bit = (u32)1 << lane.member % 32;
        EACH_UNIT {
            access.who[row + unit] |= bit;
            access.when[row + unit] = now;
            access.read_lines[unit] = (s32)given[LINE];
        }
    }
    return FINE;
}

int note_reads(const char *tuple, const s64 *given) { return noted_reads(access_of(tuple, given)); }

// Whether all that was done before to the units of a lane is before a write of it, and no operation reads them still.
static inline int may_write(const Access *pointer, const s64 *given, Lane lane) {
    const Access access = *pointer;
    EACH_UNIT {
        s32 writer = access.writers[unit];
        if (writer >= 0 && !is_before(&lane, writer, access.written[unit])) return 0;
        if (given[HAS_BUSY] && access.busy[unit] > 0) return 0;
    }
    for (s64 reader = 0; reader < given[READERS]; reader++) {
        s64 row = reader * given[UNITS], its = lane.owner + access.away[reader];
        s64 first = (its < given[CLUSTER] ? its : its - given[CLUSTER]) * given[PADDED] + access.warps[reader] * 32;
        EACH_UNIT {
            u32 who = access.who[row + unit];
            if (who && !are_before(&lane, first, who, access.when[row + unit])) return 0;
        }
    }
    for (s64 reader = 0; reader < given[GATHERERS]; reader++) {
        const s32 *when = access.gathered + reader * given[UNITS];
        s64 agent = access.agents[reader];
        EACH_UNIT if (when[unit] > 0 && !is_before(&lane, agent, when[unit])) return 0;
    }
    return 1;
}

static int all_before(const Access access, const s64 *given) {
    Lane lane;
    EACH_LANE if (!may_write(&access, given, lane)) return 0;
    return 1;
}

// Whether the last write of each unit, and all reads since, are before writes of it, and no operation reads it still.
int are_writable(const char *tuple, const s64 *given) {
    return all_before(access_of(tuple, given), given) ? FINE : WRONG;
}

// Notes that a lane has written its units, or started to, which nobody has read since.
static inline void note_write(const Access *pointer, const s64 *given, Lane lane, s32 writer, s32 time) {
    const Access access = *pointer;
    EACH_UNIT {
        access.writers[unit] = writer;
        access.written[unit] = time;
        access.write_lines[unit] = (s32)given[LINE];
    }
    for (s64 reader = 0; reader < given[READERS]; reader++) {
        u32 *who = access.who + reader * given[UNITS];
        EACH_UNIT who[unit] = 0;
    }
    for (s64 reader = 0; reader < given[GATHERERS]; reader++) {
        s32 *when = access.gathered + reader * given[UNITS];
        EACH_UNIT when[unit] = 0;
    }
}

// Notes writes if they are in order. Returns WRONG, with nothing changed, if not, and TWICE for two of one unit.
int note_writes(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    Lane lane;
    if (!all_before(access, given)) return WRONG;
    EACH_LANE note_write(&access, given, lane, (s32)lane.member, (s32)given[NOW]);
    EACH_LANE EACH_UNIT if (access.writers[unit] != lane.member) return TWICE;
    return FINE;
}
