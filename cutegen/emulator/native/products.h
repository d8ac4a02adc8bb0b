// Products of warpgroups: the order of their reads of shared memory.

// Reads begin: which units all warps together read, matrix after matrix, and which two matrices each warp reads.
enum {
    READ_CELLS, STARTS, MATRICES, MEMBERS_AT, TIMES, ROWS_HELD, ROWS_KNOWN, LAST_WRITERS, LAST_WRITTEN,
    UNIT_FLAGS, UNIT_DATA, UNITS_FOUND, READING_NOW, READING_LINES, UNITS_LOST
};
enum { CELL_COUNT, WARP_COUNT, ROW_WIDTH, FIRST_MEMBER, THREAD_MEMBERS, UNIT_BYTES, READ_LINE };

// The different numbers of the rows that the 32 threads of a warp have.
static int different_rows(const s32 *held, s32 *rows) {
    int count = 0;
    for (int lane = 0; lane < 32; lane++) {
        int known = 0;
        for (int i = 0; i < count && !known; i++) known = rows[i] == held[lane];
        if (!known) rows[count++] = held[lane];
    }
    return count;
}

// The last writes of units of a matrix: who made them and when, as few different ones.
enum { MOST_WRITES = 64 };
typedef struct {
    int count;
    s32 writer[MOST_WRITES], time[MOST_WRITES];
} Writes;

// Finds the writes of the units with some numbers, but for those that are `lost`, if any are. Returns 0 where one is a
// thread's, or for too many.
static int found_writes(
    Writes *found, const s64 *cells, const char *lost, s64 count, const s32 *writers, const s32 *written, s64 threads) {
    found->count = 0;
    s32 writer = -1, time = 0;
    for (s64 i = 0; i < count; i++) {
        s64 cell = cells[i];
        if (lost && lost[i]) continue;
        if (writers[cell] == writer && written[cell] == time) continue;
        writer = writers[cell];
        time = written[cell];
        if (writer < threads) return 0;
        int known = 0;
        for (int w = 0; w < found->count && !known; w++) known = found->writer[w] == writer && found->time[w] == time;
        if (known) continue;
        if (found->count == MOST_WRITES) return 0;
        found->writer[found->count] = writer;
        found->time[found->count++] = time;
    }
    return 1;
}

// Copies what products read, and notes that they do from now on. Units that are `lost`, uninitialised ones, are zeros,
// without a note. Returns WRONG, with nothing changed, where a unit was written by a thread, or not
// before what all threads know that read it: numpy looks at these; and NEW where other units have no data.
static int begin_reads(const char *tuple, const s64 *given, const char *lost) {
    const s64 *cells = (void *)array_in(tuple, READ_CELLS)->data, *starts = (void *)array_in(tuple, STARTS)->data;
    const s64 *matrices = (void *)array_in(tuple, MATRICES)->data, *at = (void *)array_in(tuple, MEMBERS_AT)->data;
    const s32 *times = (void *)array_in(tuple, TIMES)->data, *held = (void *)array_in(tuple, ROWS_HELD)->data;
    const s32 *known = (void *)array_in(tuple, ROWS_KNOWN)->data;
    const s32 *writers = (void *)array_in(tuple, LAST_WRITERS)->data;
    const s32 *written = (void *)array_in(tuple, LAST_WRITTEN)->data;
    const char *flags = array_in(tuple, UNIT_FLAGS)->data, *data = array_in(tuple, UNIT_DATA)->data;
    char *found = array_in(tuple, UNITS_FOUND)->data;
    s32 *reading = (void *)array_in(tuple, READING_NOW)->data, *lines = (void *)array_in(tuple, READING_LINES)->data;
    s64 count = given[CELL_COUNT], warps = given[WARP_COUNT];
    Writes writes;
    if (lost) {
        for (s64 i = 0; i < count; i++)
            if (flags[cells[i]] != lost[i]) return NEW;
    } else {
        for (s64 i = 0; i < count; i++)
            if (flags[cells[i]]) return NEW;
    }
    for (s64 matrix = 0, first = 0; first < count; first = starts[++matrix]) {
        if (!found_writes(&writes, cells + first, lost ? lost + first : NULL, starts[matrix + 1] - first, writers, written,
                          given[THREAD_MEMBERS]))
            return WRONG;
        for (s64 warp = 0; warp < warps; warp++) {
            if (matrices[2 * warp] != matrix && matrices[2 * warp + 1] != matrix) continue;
            s32 rows[32];
            int different = different_rows(held + at[warp], rows);
            for (int r = 0; r < different; r++) {
                const s32 *row = known + rows[r] * given[ROW_WIDTH] + given[FIRST_MEMBER];
                for (int w = 0; w < writes.count; w++)
                    if (row[writes.writer[w]] <= writes.time[w]) return WRONG;
            }
        }
    }
#define COPY_UNITS(SIZE) \
    for (s64 i = 0; i < count; i++) memcpy(found + i * (SIZE), data + cells[i] * (SIZE), (size_t)(SIZE));
    BY_SIZE(given[UNIT_BYTES], COPY_UNITS)
    for (s64 i = 0; lost && i < count; i++)
        if (lost[i]) memset(found + i * given[UNIT_BYTES], 0, (size_t)given[UNIT_BYTES]);
    for (s64 i = 0; i < count; i++) {
        if (lost && lost[i]) continue;
        reading[cells[i]] += times[i];
        lines[cells[i]] = (s32)given[READ_LINE];
    }
    return FINE;
}

int begin_product(const char *tuple, const s64 *given) { return begin_reads(tuple, given, NULL) ? WRONG : FINE; }

enum { WHICH = 3, AGENT_ROWS, STILL_READING, AGENT_TIMES, LAST_READ_LINES, NEVER_READ };
enum { HOW_MANY, UNIT_COUNT, ENDS_NOW, END_LINE, HAS_LOST };

// Notes that some of the warps have read their units until now, but for those that are lost, by the agents with these
// rows of times.
int end_product(const char *tuple, const s64 *given) {
    const s64 *cells = (void *)array_in(tuple, READ_CELLS)->data, *starts = (void *)array_in(tuple, STARTS)->data;
    const s64 *matrices = (void *)array_in(tuple, MATRICES)->data, *which = (void *)array_in(tuple, WHICH)->data;
    const s64 *agents = (void *)array_in(tuple, AGENT_ROWS)->data;
    s32 *reading = (void *)array_in(tuple, STILL_READING)->data, *times = (void *)array_in(tuple, AGENT_TIMES)->data;
    s32 *lines = (void *)array_in(tuple, LAST_READ_LINES)->data;
    const char *lost = given[HAS_LOST] ? array_in(tuple, NEVER_READ)->data : NULL;
    s64 count = given[HOW_MANY];
    for (s64 w = 0; w < count; w++)
        for (int side = 0; side < 2; side++) {
            s64 matrix = matrices[2 * which[w] + side], before = 0;
            s32 alike = 1;  // warps with that agent that read that matrix
            while (before < w && (matrices[2 * which[before] + side] != matrix || agents[before] != agents[w])) before++;
            if (before < w) continue;
            for (s64 v = w + 1; v < count; v++)
                alike += matrices[2 * which[v] + side] == matrix && agents[v] == agents[w];
            s32 *row = times + agents[w] * given[UNIT_COUNT];
            for (s64 i = starts[matrix]; i < starts[matrix + 1]; i++) {
                if (lost && lost[i]) continue;
                reading[cells[i]] -= alike;
                row[cells[i]] = (s32)given[ENDS_NOW];
                lines[cells[i]] = (s32)given[END_LINE];
            }
        }
    return FINE;
}
