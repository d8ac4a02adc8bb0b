// What the members of clusters know, rows of times that they share: lanes of a mask learn and tell, group by group, as
// `checks.known_rows` and `checks.clocks` have it in numpy.

enum { ROWS_MASK, ROWS_OF_ALL, ROWS_HOLDER, ROWS_GROUPS, ROWS_MORE, ROWS_TIMES };
enum {
    ROWS_THREADS, ROWS_BLOCKS, ROWS_CLUSTER, ROWS_PADDED, ROWS_MEMBERS, ROWS_WIDTH, ROWS_SKIPPED, ROWS_USED,
    ROWS_ROOM, ROWS_GROUP_COUNT, ROWS_GROUPED, ROWS_OWN, ROWS_NOW
};
enum { ONE_GROUP, BY_LANE, BY_BLOCK };
enum { NO_TIME, NOW_TIME, OWN_TIMES };

// Goes through the lanes of the mask, in its order: `place` is that of the lane among all members, `group` its group.
#define EACH_HOLDER                                                                                        \
    for (s64 thread = 0, entry = 0; thread < given[ROWS_THREADS]; thread++)                                \
        for (s64 block = 0, place = thread, group = 0; block < given[ROWS_BLOCKS];                         \
             block++, place += given[ROWS_PADDED])                                                         \
            if (*at(&mask, thread, block) && (group = group_of(groups, given, entry++, block), 1))

static inline s64 group_of(const s64 *groups, const s64 *given, s64 entry, s64 block) {
    return given[ROWS_GROUPED] == BY_LANE ? groups[entry] : given[ROWS_GROUPED] == BY_BLOCK ? groups[block] : 0;
}

// Adds the times of their group to the lanes' clocks: array ROWS_MORE + i is that of group i, and may lack the last columns.
// Returns how many rows there are then; or -1 - n, with nothing changed, where there is no room for n more.
int learn_rows(const char *tuple, const s64 *given) {
    const Each mask = each_of(tuple, ROWS_MASK);
    s32 *rows = (void *)array_in(tuple, ROWS_OF_ALL)->data, *holder = (void *)array_in(tuple, ROWS_HOLDER)->data;
    const s64 *groups = (void *)array_in(tuple, ROWS_GROUPS)->data;
    s64 used = given[ROWS_USED], width = given[ROWS_WIDTH], codes = used * given[ROWS_GROUP_COUNT], pairs = 0;
    if (!reserve((2 * codes + given[ROWS_GROUP_COUNT]) * (s64)sizeof(s32))) return -1;
    s32 *now = (s32 *)arena, *list = now + codes, *shared = list + codes;  // the new row of each group and row
    memset(now, 0xff, (size_t)codes * sizeof(s32));
    memset(shared, 0xff, (size_t)given[ROWS_GROUP_COUNT] * sizeof(s32));
    EACH_HOLDER {
        s64 code = group * used + holder[place];
        if (now[code] < 0) {
            now[code] = 0;
            list[pairs++] = (s32)code;
        }
    }
    if (used + pairs > given[ROWS_ROOM]) return (int)(-1 - pairs);
    s64 count = used;
    for (s64 i = 0; i < pairs; i++) {
        s64 group = list[i] / used, number = list[i] % used;
        const Array *told = array_in(tuple, ROWS_MORE + group);
        const s32 *more = (void *)told->data, *row = rows + number * width;
        s64 columns = told->lengths[1];
        int learns = 0, knows = 0;  // whether the given times are new to it, and its own are not given
        for (s64 c = 0; c < columns; c++) {
            learns |= more[c] > row[c];
            knows |= row[c] > more[c];
        }
        for (s64 c = columns; c < width; c++) knows |= row[c] > 0;
        s64 new = learns ? count : number;
        if (learns && !knows && shared[group] >= 0) new = shared[group];
        if (new == count) {
            s32 *to = rows + count++ * width;
            for (s64 c = 0; c < columns; c++) to[c] = more[c] > row[c] ? more[c] : row[c];
            memcpy(to + columns, row + columns, (size_t)(width - columns) * sizeof(s32));
            if (!knows) shared[group] = (s32)new;
        }
        now[list[i]] = (s32)new;
    }
    EACH_HOLDER holder[place] = now[group * used + holder[place]];
    return (int)count;
}

// Writes what the lanes of each group know together, one row each, and what they do themselves: until now, or, as for
// proxy fences, until a time that each member has.
int tell_rows(const char *tuple, const s64 *given) {
    const Each mask = each_of(tuple, ROWS_MASK);
    const s32 *rows = (void *)array_in(tuple, ROWS_OF_ALL)->data, *holder = (void *)array_in(tuple, ROWS_HOLDER)->data;
    const s64 *groups = (void *)array_in(tuple, ROWS_GROUPS)->data;
    s32 *told = (void *)array_in(tuple, ROWS_MORE)->data;
    const s32 *times = (void *)array_in(tuple, ROWS_TIMES)->data;
    s64 used = given[ROWS_USED], width = given[ROWS_WIDTH], codes = used * given[ROWS_GROUP_COUNT];
    if (!reserve(codes)) return WRONG;
    char *seen = arena;
    memset(seen, 0, (size_t)codes);
    memset(told, 0, (size_t)(given[ROWS_GROUP_COUNT] * width) * sizeof(s32));
    EACH_HOLDER {
        s64 number = holder[place];
        if (seen[group * used + number]) continue;
        seen[group * used + number] = 1;
        const s32 *row = rows + number * width;
        s32 *to = told + group * width;
        for (s64 c = 0; c < width; c++) to[c] = row[c] > to[c] ? row[c] : to[c];
    }
    if (given[ROWS_OWN] == NO_TIME) return FINE;
    EACH_HOLDER {
        s64 member = place % given[ROWS_MEMBERS];
        s32 *to = told + group * width, *own = to + given[ROWS_SKIPPED] + member;
        if (given[ROWS_OWN] == NOW_TIME) {
            to[member / 32] = (s32)given[ROWS_NOW];
            *own = (s32)given[ROWS_NOW];  // which nobody knows of more than
        } else if (times[place] > *own) {
            *own = times[place];
        }
    }
    return FINE;
}
