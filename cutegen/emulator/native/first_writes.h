// Writes of units of a tensor that nobody has touched, as `checks.global_races` notes them; all others are for numpy.

enum { CELLS, WHOM, EPOCHS, WRITER, EPOCH, READER };
enum { ACCESSES, EACH, HAS_READER };

// Notes writes by lanes of so many units each, from `cells` times that on. Returns WRONG for a unit that was touched
// before, of which nothing is noted then, or that two of them write.
int note_first_writes(const char *tuple, const s64 *given) {
    const s64 *cells = (void *)array_in(tuple, CELLS)->data, *whom = (void *)array_in(tuple, WHOM)->data;
    const s32 *epochs = (void *)array_in(tuple, EPOCHS)->data;
    s64 *writer = (void *)array_in(tuple, WRITER)->data;
    s32 *epoch = (void *)array_in(tuple, EPOCH)->data;
    const s64 *reader = (void *)array_in(tuple, READER)->data;
    s64 each = given[EACH];
    for (s64 i = 0; i < given[ACCESSES]; i++)
        for (s64 unit = cells[i] * each, end = unit + each; unit < end; unit++)
            if (writer[unit] != -1 || (given[HAS_READER] && reader[unit] != -1)) return WRONG;
    int result = FINE;
    for (s64 i = 0; i < given[ACCESSES]; i++)
        for (s64 unit = cells[i] * each, end = unit + each; unit < end; unit++) {
            if (writer[unit] != -1 && writer[unit] != whom[i]) result = WRONG;
            writer[unit] = whom[i];
            epoch[unit] = epochs[i];
        }
    return result;
}
