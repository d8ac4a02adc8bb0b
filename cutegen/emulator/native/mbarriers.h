// The mbarriers that lanes of a mask use, and tests of their phases: what `synchronisation.mbarriers` does in numpy.
// What is wrong is only found here; numpy says it.

enum {
    USING, USE_ADDRESSES, AMOUNTS, MBARRIERS, MBARRIER_PLACES, USE_HELD, USE_KNOWN, LAST_USES, USE_GROUPS, USES_FOUND,
    PHASES_ENDED, LEARNING, VISITS, BLOCKS_GONE
};
enum {
    USE_THREADS, USE_BLOCKS, USE_CLUSTER, USE_PADDED, USE_MEMBERS, USE_WARPS, USE_WIDTH, USE_NOW, SHARED_SIZE,
    PLACE_ROWS, VISITED_NOW, USE_SHIFT, USE_BASE, PEER_SHIFT, ADDRESS_BYTES, AMOUNT_BYTES, USE_LINE, TESTS, MOST_AT_ONCE
};
enum { AGENT, MAKER, MADE, PUBLISHED, PHASE, ENDED, ENDED_BEFORE, MBARRIER_FIELDS };
enum { FOUND_NUMBER, FOUND_LANES, FOUND_FIRST, FOUND_AMOUNT, FOUND_FIELDS };  // where TESTS, of the lanes that learn

static inline s64 number_at(const Each *each, s64 thread, s64 block, s64 bytes) {
    const char *data = at(each, thread, block);
    return bytes == 8 ? *(const s64 *)data : bytes == 4 ? (s64)*(const u32 *)data : 0;
}

// Whether a member knows that an mbarrier has been made: by its maker, or by a fence of it after which it has run.
static inline int knows_mbarrier(const s32 *row, const s64 *given, s64 member, const s64 *mbarrier) {
    s64 maker = mbarrier[MAKER], published = mbarrier[PUBLISHED];
    if (maker == member || row[given[USE_WARPS] + maker] > mbarrier[MADE]) return 1;
    return published > 0 && (maker / 32 == member / 32 || row[maker / 32] >= published);
}

// Whether the phase with a parity has ended as a member knows it, 2 for one that this cannot tell.
static inline int phase_ended(const s32 *row, const s64 *given, const s64 *mbarrier, s64 parity) {
    if (parity >> 1) return 2;
    s64 phase = mbarrier[PHASE], known = row[given[USE_WARPS] + mbarrier[AGENT]], last = phase;
    if (phase > 0 && mbarrier[ENDED] > known) {
        last = phase - 1;
        if (last > 0 && mbarrier[ENDED_BEFORE] > known) return 2;
    }
    s64 number = (last & 1) == (parity & 1) ? last : last - 1;
    return phase >= number + 2 ? 2 : phase > number;
}

typedef struct {
    Each mask, addresses, amounts;
    const s64 *mbarriers;
    const s32 *places, *held, *known;
    s32 *used, *visits;
    s64 *groups, *found;
    char *ended, *learning;
    const char *gone;
    s32 *group_of_number;
} Using;

// One lane's use: its member number, the mbarrier's number, and the rank plus one that its address names, or 0.
typedef struct {
    s64 member, number, peer;
    const s32 *row;  // what the lane knows
} Use;

static inline s64 address_of(const Using *u, const s64 *given, s64 thread, s64 block) {
    return number_at(&u->addresses, thread, block, given[ADDRESS_BYTES]) + given[USE_SHIFT];
}

// Finds the mbarrier that a lane uses. Returns 0 where that is not in order.
static int found_use(const Using *u, const s64 *given, s64 thread, s64 block, Use *use) {
    s64 size = given[USE_CLUSTER], cluster = block / size, rank = block % size, warps = given[USE_PADDED] / 32;
    s64 place = address_of(u, given, thread, block), owner = block;
    use->member = rank * given[USE_PADDED] + thread;
    use->row = u->known + u->held[cluster * given[USE_MEMBERS] + use->member] * given[USE_WIDTH];
    use->peer = place >> given[PEER_SHIFT];
    if (use->peer < 0 || use->peer > (given[VISITED_NOW] ? size : 0)) return 0;
    if (use->peer) {
        place -= use->peer << given[PEER_SHIFT];
        owner = cluster * size + use->peer - 1;
        int has_run = owner == block;
        for (s64 w = 0; w < warps && !has_run; w++) has_run = use->row[(use->peer - 1) * warps + w] > 0;
        if (!has_run || (owner != block && u->gone[owner])) return 0;
    }
    place -= given[USE_BASE];
    if (place < 0 || place > given[SHARED_SIZE] - 8 || place % 8 || place / 8 >= given[PLACE_ROWS]) return 0;
    use->number = u->places[place / 8 * given[USE_BLOCKS] + owner];
    return use->number >= 0 &&
           knows_mbarrier(use->row, given, use->member, u->mbarriers + use->number * MBARRIER_FIELDS);
}

// What is found of the mbarrier with a number, and its group.
static s64 *found_group(const Using *u, s64 number, s64 lane, s64 *count, s64 *group) {
    *group = u->group_of_number[number];
    if (*group < 0) {
        *group = u->group_of_number[number] = (s32)(*count)++;
        s64 *new = u->found + *group * FOUND_FIELDS;
        new[FOUND_NUMBER] = number;
        new[FOUND_FIRST] = lane;
        new[FOUND_LANES] = new[FOUND_AMOUNT] = 0;
    }
    return u->found + *group * FOUND_FIELDS;
}

// Leaves out the mbarriers of which no lane learns anything; returns how many are left.
static s64 with_learners(const Using *u, s64 count, s64 learners) {
    s64 kept = 0;
    for (s64 group = 0; group < count; group++) {
        s64 *own = u->found + group * FOUND_FIELDS;
        if (!own[FOUND_LANES]) continue;
        memmove(u->found + kept * FOUND_FIELDS, own, FOUND_FIELDS * sizeof(s64));
        u->group_of_number[group] = (s32)kept++;
    }
    for (s64 i = 0; i < learners; i++) u->groups[i] = u->group_of_number[u->groups[i]];
    return kept;
}

#define EACH_USER                                                  \
    for (s64 thread = 0; thread < given[USE_THREADS]; thread++)    \
        for (s64 block = 0; block < given[USE_BLOCKS]; block++)    \
            if (*at(&u.mask, thread, block))

// Finds which mbarriers lanes use, in the order of their first uses, and notes that. Each has the number of lanes that
// use it, the first of these, and the sum of their amounts; or, where they test phases by the amounts as parities, those
// that learn that it has ended. Groups are those of the lanes, or of the ones that learn. Returns -1, with nothing
// changed, where something is not in order, else how many mbarriers there are.
int find_mbarriers(const char *tuple, const s64 *given) {
    const Array *table = array_in(tuple, MBARRIERS);
#define DATA(INDEX) (void *)array_in(tuple, INDEX)->data
    Using u = {
        each_of(tuple, USING), each_of(tuple, USE_ADDRESSES), each_of(tuple, AMOUNTS), (void *)table->data,
        DATA(MBARRIER_PLACES), DATA(USE_HELD), DATA(USE_KNOWN), DATA(LAST_USES), DATA(VISITS), DATA(USE_GROUPS),
        DATA(USES_FOUND), DATA(PHASES_ENDED), DATA(LEARNING), DATA(BLOCKS_GONE), NULL};
#undef DATA
    s64 blocks = given[USE_BLOCKS], size = given[USE_CLUSTER], count = 0, entry = 0, learners = 0;
    if (!reserve(table->lengths[0] * (s64)sizeof(s32))) return -1;
    u.group_of_number = (s32 *)arena;
    memset(u.group_of_number, 0xff, (size_t)table->lengths[0] * sizeof(s32));
    if (given[TESTS]) memset(u.ended, 0, (size_t)(given[USE_THREADS] * blocks));
    if (given[TESTS]) memset(u.learning, 0, (size_t)(given[USE_THREADS] * blocks));
    Use use;
    EACH_USER {
        if (!found_use(&u, given, thread, block, &use)) return -1;
        s64 amount = number_at(&u.amounts, thread, block, given[AMOUNT_BYTES]), lane = thread * blocks + block;
        s64 *own = found_group(&u, use.number, lane, &count, u.groups + entry++);
        if (given[MOST_AT_ONCE] && (amount < 1 || amount > given[MOST_AT_ONCE])) return -1;
        int learns = 1;
        if (given[TESTS]) {
            const s64 *mbarrier = u.mbarriers + use.number * MBARRIER_FIELDS;
            int done = phase_ended(use.row, given, mbarrier, amount);
            if (done > 1) return -1;
            u.ended[lane] = (char)done;
            learns = u.learning[lane] = done && mbarrier[PHASE] > 0;
            if (learns && !own[FOUND_LANES]) own[FOUND_FIRST] = lane;
        }
        own[FOUND_LANES] += learns;
        own[FOUND_AMOUNT] += amount;
    }
    entry = 0;
    EACH_USER {
        s64 member = block % size * given[USE_PADDED] + thread, group = u.groups[entry++];
        u.used[u.found[group * FOUND_FIELDS + FOUND_NUMBER] * given[USE_MEMBERS] + member] = (s32)given[USE_NOW];
        if (given[TESTS] && u.learning[thread * blocks + block]) u.groups[learners++] = group;
        s64 peer = address_of(&u, given, thread, block) >> given[PEER_SHIFT];
        if (!peer || peer - 1 == block % size) continue;
        s64 visit = (block / size * given[USE_MEMBERS] + member) * size + peer - 1;
        u.visits[visit] = (s32)given[VISITED_NOW];
        u.visits[blocks / size * given[USE_MEMBERS] * size + visit] = (s32)given[USE_LINE];
    }
    return (int)(given[TESTS] ? with_learners(&u, count, learners) : count);
}
