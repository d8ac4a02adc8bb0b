// Shuffles of 32-bit values within warps by threads that are all there, as `warps.exchanges` and `warps.by_warp` have
// them. Where one is missing, numpy says so.

enum { SHUFFLED, AMOUNT, CLAMP, NAMED, ACTIVE, ALIVE, LEFT, POISON, MOVED, INSIDE, LOST };  // the arrays of a shuffle
enum { UP, DOWNWARD, BUTTERFLY, INDEXED };

// Its numbers: which arrays there are, the bytes of an element of the poison, 0 for none, and whether values are wanted.
typedef struct {
    s64 threads, blocks, mode, masked, has_alive, has_left, poison, moves;
    s64 any_lost;  // which is given back
} Shuffle;

// The lane that one takes its value from, and whether that is in range; if not, it is the lane itself.
static inline s64 source_of(s64 mode, s64 lane, u32 amount, u32 clamp, int *inside) {
    s64 b = amount & 31, last = clamp & 31, segment = clamp >> 8 & 31, limit = (lane & segment) | (last & ~segment);
    s64 source = mode == UP          ? lane - b
                 : mode == DOWNWARD  ? lane + b
                 : mode == BUTTERFLY ? lane ^ b
                                     : (lane & segment) | (b & ~segment);
    *inside = mode == UP ? source >= limit : source <= limit;
    return *inside ? source : lane;
}

// Whether any byte of an element is not zero.
static inline int is_set(const char *element, s64 size) {
    for (s64 i = 0; i < size; i++)
        if (element[i]) return 1;
    return 0;
}

// The threads of a warp, the first of which is given, that are set in an array; all that there are without one.
static inline u32 those_in(const Each *array, s64 size, s64 first, s64 threads, s64 block) {
    u32 found = 0;
    for (s64 lane = 0; lane < 32 && first + lane < threads; lane++)
        if (!size || is_set(at(array, first + lane, block), size)) found |= (u32)1 << lane;
    return found;
}

// Whether all threads of a warp that those which are here name are here, or have exited, and each names itself.
static int are_converged(const Each *named, u32 here, u32 alive, s64 first, s64 block) {
    u32 all = 0;
    for (u32 left = here; left; left &= left - 1) {
        s64 lane = __builtin_ctz(left);
        u32 members = *(const u32 *)at(named, first + lane, block);
        if (!(members >> lane & 1)) return 0;
        all |= members;
    }
    return !(all & alive & ~here);
}

int shuffle(const char *tuple, Shuffle *given) {
    const Each value = each_of(tuple, SHUFFLED), amount = each_of(tuple, AMOUNT), clamp = each_of(tuple, CLAMP);
    const Each named = each_of(tuple, NAMED), active = each_of(tuple, ACTIVE), alive = each_of(tuple, ALIVE);
    const Each left = each_of(tuple, LEFT), poison = each_of(tuple, POISON);
    u32 *moved = (void *)array_in(tuple, MOVED)->data;
    char *inside = array_in(tuple, INSIDE)->data, *lost = array_in(tuple, LOST)->data;
    s64 threads = given->threads, blocks = given->blocks;
    int everyone = !given->masked && !named.down && !named.right && *(const u32 *)named.data == 0xffffffff;
    int alike = !amount.down && !amount.right && !clamp.down && !clamp.right, in_range[32];
    s64 sources[32];
    given->any_lost = 0;
    for (s64 first = 0; first < threads; first += 32)
        for (s64 block = 0; block < blocks; block++) {
            u32 here = those_in(&active, given->masked, first, threads, block);
            u32 living = those_in(&alive, given->has_alive, first, threads, block);
            if (given->has_left) living |= those_in(&left, 1, first, threads, block);
            if (!everyone && !are_converged(&named, here, living, first, block)) return WRONG;
            if (given->poison) here &= ~those_in(&poison, given->poison, first, threads, block);
            s64 count = threads - first < 32 ? threads - first : 32;
            for (s64 lane = 0; lane < count && !(alike && first + block > 0); lane++)
                sources[lane] = source_of(given->mode, lane, *(const u32 *)at(&amount, first + lane, block),
                                          *(const u32 *)at(&clamp, first + lane, block), &in_range[lane]);
            for (s64 lane = 0; lane < count; lane++) {
                s64 to = (first + lane) * blocks + block, source = sources[lane];
                inside[to] = (char)in_range[lane];
                lost[to] = !(here >> source & 1);
                given->any_lost |= lost[to];
                if (given->moves) moved[to] = source < count ? *(const u32 *)at(&value, first + source, block) : 0;
            }
        }
    return FINE;
}
