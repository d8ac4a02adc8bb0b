// Accesses to shared memory that asynchronous operations make for lanes: what `checks.shared_history` notes of these.

// Whether the last write of each unit is before who reads it now.
int are_readable(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    Lane lane;
    EACH_LANE EACH_UNIT {
        s32 writer = access.writers[unit];
        if (writer >= 0 && !is_before(&lane, writer, access.written[unit])) return WRONG;
    }
    return FINE;
}

// What proxy fences cover: each member of each cluster has the number of a row of times, and the time of its own last
// fence. Without any fence both are 0.
typedef struct {
    const s32 *rows, *own;
} Fences;

static Fences fences_in(const char *tuple, const s64 *given) {
    Fences none = {0, 0};
    if (!given[EXTRAS]) return none;
    Fences found = {(void *)array_in(tuple, MORE)->data, (void *)array_in(tuple, MORE + 1)->data};
    return found;
}

// Whether fences cover what a member did at a time, for a lane of a cluster.
static inline int is_covered(
    const Access *access, const Fences *fences, const Lane *lane, s64 cluster, s64 member, s32 time) {
    const s64 *given = access->given;
    if (!fences->rows) return 0;
    s64 place = cluster * given[MEMBERS] + lane->member;
    if (access->known[fences->rows[place] * given[WIDTH] + given[SKIPPED] + member] > time) return 1;
    return member == lane->member && fences->own[place] > time;
}

// Whether fences cover the last write of each unit of a lane; what agents wrote needs none.
static inline int is_fenced(const Access *pointer, const Fences *fences, Lane lane, s64 cluster) {
    const Access access = *pointer;
    const s64 *given = access.given;
    EACH_UNIT {
        s32 writer = access.writers[unit];
        if (writer < 0 || writer >= given[MEMBERS]) continue;
        if (!is_covered(&access, fences, &lane, cluster, writer, access.written[unit])) return 0;
    }
    return 1;
}

// The same of all lanes of an access.
int are_fenced(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    const Fences fences = fences_in(tuple, given);
    Lane lane;
    EACH_LANE if (!is_fenced(&access, &fences, lane, cluster)) return WRONG;
    return FINE;
}

// Notes that agents, one for each block, write from now on until what they write has arrived.
int note_agents(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    const s64 *agents = (void *)array_in(tuple, MORE)->data;
    Lane lane;
    EACH_LANE note_write(&access, given, lane, (s32)agents[lane.column], always);
    return FINE;
}

// Notes that what agents were to write has arrived.
int note_arrivals(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    Lane lane;
    EACH_LANE EACH_UNIT access.written[unit] = (s32)given[NOW];
    return FINE;
}
