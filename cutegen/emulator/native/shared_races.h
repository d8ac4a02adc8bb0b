// Races for shared memory between two barriers, as `checks.shared_races` looks for them: whether there are any.

enum { STRETCH = 5 };  // numbers before those of each access

// Each access is two arrays, the first unit of each lane and the mask, and two numbers: the units of a lane, and whether
// there is a mask. What is written comes first. Returns WRONG where two threads touch a unit that one of them writes.
int find_races(const char *tuple, const s64 *given) {
    s64 threads = given[0], columns = given[1], units = given[2], writes = given[3], reads = given[4];
    size_t size = (size_t)(units * columns) * sizeof(s32);
    if (!reserve((s64)size)) return WRONG;
    s32 *owner = (s32 *)arena, differ = 0;
    memset(owner, 0xff, size);
    for (int pass = 0; pass < 2; pass++)  // all writes are there before any is looked at
        for (s64 which = 0; which < (pass ? writes + reads : writes); which++) {
            const Each rows = each_of(tuple, 2 * which), mask = each_of(tuple, 2 * which + 1);
            s64 count = given[STRETCH + 2 * which], masked = given[STRETCH + 2 * which + 1];
            for (s64 thread = 0; thread < threads; thread++)
                for (s64 block = 0; block < columns; block++) {
                    if (masked && !*at(&mask, thread, block)) continue;
                    s32 *first = owner + *(const s64 *)at(&rows, thread, block) * columns + block, me = (s32)thread;
                    if (!pass)
                        for (s64 i = 0; i < count; i++) first[i * columns] = me;
                    else
                        for (s64 i = 0; i < count; i++) {
                            s32 found = first[i * columns];
                            differ |= found != me && (which < writes || found >= 0);
                        }
                }
        }
    return differ ? WRONG : FINE;
}
