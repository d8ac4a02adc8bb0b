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

// Whether a proxy fence covers the last write of each unit; what agents wrote needs none. If there was a fence, each
// member of each cluster has the number of a row of times, and the time of its own last fence.
int are_fenced(const char *tuple, const s64 *given) {
    const Access access = access_of(tuple, given);
    int any = given[EXTRAS] > 0;
    const s32 *covered = any ? (void *)array_in(tuple, MORE)->data : 0;
    const s32 *own = any ? (void *)array_in(tuple, MORE + 1)->data : 0;
    Lane lane;
    EACH_LANE {
        s64 place = block / given[CLUSTER] * given[MEMBERS] + lane.member;
        const s32 *row = any ? access.known + covered[place] * given[WIDTH] + given[SKIPPED] : 0;
        EACH_UNIT {
            s32 writer = access.writers[unit];
            if (writer < 0 || writer >= given[MEMBERS]) continue;
            if (!any) return WRONG;
            s32 time = access.written[unit];
            if (row[writer] <= time && !(writer == lane.member && own[place] > time)) return WRONG;
        }
    }
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
