// Warps that come to a barrier of their block, and barriers that open: what `synchronisation.block_barriers` does in
// numpy. What is wrong is only found here; numpy says it.

enum {
    COMING, STILL_ALIVE, EXPECTED, ARRIVED, WAITING, LINES_COME, CAME, LAST_CAME, LAST_LINES, LAST_TWICE, MEETING_HELD,
    MEETING_KNOWN, GOING_ON, BLOCKS_MEETING
};
enum {
    MEETING_THREADS, MEETING_BLOCKS, MEETING_CLUSTER, MEETING_PADDED, MEETING_MEMBERS, MEETING_WIDTH, MEETING_NOW,
    MEETING_LINE, WANTED, WAITS, TOGETHER
};

typedef struct {
    Each coming, alive;
    s64 *expected;
    s32 *arrived, *lines, *came, *last, *last_lines;
    char *waiting, *last_twice, *going_on, *some, *opened;
    const s32 *held, *known;
} Meeting;

// What comes to the barrier in one warp of a block.
typedef struct {
    int comes, present, early, missing, living, apart;  // lanes: now, at all, before, alive and absent; lines differ
    s32 least, most;                                    // how often lanes that are alive, and any, have come
} WarpMeeting;

static WarpMeeting warp_meeting(const Meeting *m, const s64 *given, s64 warp, s64 block) {
    WarpMeeting found = {0, 0, 0, 0, 0, 0, always, 0};
    s64 first = warp * 32, end = first + 32 < given[MEETING_THREADS] ? first + 32 : given[MEETING_THREADS];
    s32 line = -1;
    for (s64 thread = first; thread < end; thread++) {
        s64 at_lane = thread * given[MEETING_BLOCKS] + block;
        int comes = *at(&m->coming, thread, block) != 0, alive = *at(&m->alive, thread, block) != 0;
        s32 before = m->arrived[at_lane], times = before + comes;
        found.comes |= comes;
        found.early |= comes && before > 0;
        found.present |= times > 0;
        found.missing |= alive && !times;
        found.living |= alive;
        if (alive && times < found.least) found.least = times;
        if (times > found.most) found.most = times;
        if (times > 0) {
            s32 own = comes ? (s32)given[MEETING_LINE] : m->lines[at_lane];
            found.apart |= line >= 0 && own != line;
            line = own;
        }
    }
    return found;
}

// Whether a warp that has come whole knows that all those have come with which the barrier opened last.
static int comes_after_last(const Meeting *m, const s64 *given, s64 warp, s64 block) {
    s64 warps = given[MEETING_PADDED] / 32, rank = block % given[MEETING_CLUSTER];
    s64 place = block / given[MEETING_CLUSTER] * given[MEETING_MEMBERS] + rank * given[MEETING_PADDED] + warp * 32;
    s32 rows[32];
    int different = different_rows(m->held + place, rows);
    for (s64 other = 0; other < warps; other++) {
        s32 last = m->last[other * given[MEETING_BLOCKS] + block];
        int after = other == warp || last <= 0;
        for (int r = 0; r < different && !after; r++)
            after = m->known[rows[r] * given[MEETING_WIDTH] + rank * warps + other] >= last;
        if (!after) return 0;
    }
    return 1;
}

// Whether all is in order in a block; `opened` says then whether the barrier opens there.
static int meets(const Meeting *m, const s64 *given, s64 block) {
    s64 warps = given[MEETING_PADDED] / 32, count = 0;
    int comes = 0, some = 0, everyone = 1, aligned = 1, turns = 0;
    for (s64 warp = 0; warp < warps; warp++) turns |= m->last[warp * given[MEETING_BLOCKS] + block] > 0;
    for (s64 warp = 0; warp < warps; warp++) {
        const WarpMeeting found = warp_meeting(m, given, warp, block);
        if (found.early && !given[WAITS]) return 0;
        comes |= found.comes;
        some |= found.present;
        everyone &= !found.missing;
        aligned &= !found.apart && !(found.present && found.missing);
        count += found.living ? found.least : found.most;
        if (turns && found.comes && !found.missing && !comes_after_last(m, given, warp, block)) return 0;
    }
    if (comes && m->expected[block] >= 0 && m->expected[block] != given[WANTED]) return 0;
    s64 expected = comes ? given[WANTED] : m->expected[block];
    if (some && expected > 0 && count * 32 > expected) return 0;
    m->some[block] = (char)comes;
    m->opened[block] = (char)(some && (expected > 0 ? count * 32 == expected : everyone));
    return !m->opened[block] || !given[TOGETHER] || aligned;
}

// Lets the lanes of a block come, and opens the barrier if it opens there.
static void meet(const Meeting *m, const s64 *given, s64 block) {
    s64 blocks = given[MEETING_BLOCKS], warps = given[MEETING_PADDED] / 32;
    if (m->some[block]) m->expected[block] = given[WANTED];
    for (s64 thread = 0; thread < given[MEETING_THREADS]; thread++) {
        s64 lane = thread * blocks + block;
        if (*at(&m->coming, thread, block)) {
            m->arrived[lane]++;
            m->lines[lane] = (s32)given[MEETING_LINE];
            m->waiting[lane] |= (char)(given[WAITS] != 0);
            m->came[thread / 32 * blocks + block] = (s32)given[MEETING_NOW];
        }
        m->going_on[lane] = m->opened[block] ? m->waiting[lane] : 0;
    }
    if (!m->opened[block]) return;
    m->expected[block] = -1;
    for (s64 warp = 0; warp < warps; warp++) {
        s64 own = warp * blocks + block;
        m->last[own] = m->came[own];
        m->came[own] = m->last_lines[own] = m->last_twice[own] = 0;
    }
    for (s64 thread = 0; thread < given[MEETING_THREADS]; thread++) {
        s64 lane = thread * blocks + block, own = thread / 32 * blocks + block;
        if (m->lines[lane] > m->last_lines[own]) m->last_lines[own] = m->lines[lane];
        if (m->arrived[lane] > 1) m->last_twice[own] = 1;
        m->arrived[lane] = 0;
        m->waiting[lane] = 0;
    }
}

// Lets lanes come to a barrier, and opens it where all have come. Returns WRONG, with nothing changed, if the order is
// wrong, else NEW if it opens in some block: the lanes that learn of it then continue.
int meet_at_barrier(const char *tuple, const s64 *given) {
#define DATA(INDEX) (void *)array_in(tuple, INDEX)->data
    const Meeting m = {
        each_of(tuple, COMING), each_of(tuple, STILL_ALIVE), DATA(EXPECTED), DATA(ARRIVED), DATA(LINES_COME), DATA(CAME),
        DATA(LAST_CAME), DATA(LAST_LINES), DATA(WAITING), DATA(LAST_TWICE), DATA(GOING_ON), DATA(BLOCKS_MEETING),
        (char *)DATA(BLOCKS_MEETING) + given[MEETING_BLOCKS], DATA(MEETING_HELD), DATA(MEETING_KNOWN)};
#undef DATA
    int opens = 0;
    for (s64 block = 0; block < given[MEETING_BLOCKS]; block++)
        if (!meets(&m, given, block)) return WRONG;
    for (s64 block = 0; block < given[MEETING_BLOCKS]; block++) {
        meet(&m, given, block);
        opens |= m.opened[block];
    }
    return opens ? NEW : FINE;
}
