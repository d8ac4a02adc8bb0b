// The operations of the core, as a table: each line is name, type of the result, types of the operands, expression.
//
// U1, U2, U3 and U4 have one to four operands, named a, b, c and d; V1 and V2 are U1 and U2 for what kernels do most. A
// predicate is a byte, 0 or 1, and a float its raw bits. Every expression must give, bit for bit, what the numpy form of
// the instruction gives.

#define ON_WHOLE(W, H)                                                          \
    U2(add##W, u##W, u##W, u##W, (u##W)(a + b))                                 \
    U2(sub##W, u##W, u##W, u##W, (u##W)(a - b))                                 \
    U2(mul##W, u##W, u##W, u##W, (u##W)((H)a * (H)b))                           \
    U2(and##W, u##W, u##W, u##W, (u##W)(a & b))                                 \
    U2(or##W, u##W, u##W, u##W, (u##W)(a | b))                                  \
    U2(xor##W, u##W, u##W, u##W, (u##W)(a ^ b))                                 \
    U1(not##W, u##W, u##W, (u##W)~a)                                            \
    U1(neg##W, u##W, u##W, (u##W)(0 - a))                                       \
    U1(abs##W, u##W, u##W, (u##W)((s##W)a < 0 ? 0 - a : a))                     \
    U2(mins##W, u##W, u##W, u##W, (s##W)a < (s##W)b ? a : b)                    \
    U2(maxs##W, u##W, u##W, u##W, (s##W)a > (s##W)b ? a : b)                    \
    U2(minu##W, u##W, u##W, u##W, a < b ? a : b)                                \
    U2(maxu##W, u##W, u##W, u##W, a > b ? a : b)                                \
    U2(eq##W, u8, u##W, u##W, a == b)                                           \
    U2(ne##W, u8, u##W, u##W, a != b)                                           \
    U2(lts##W, u8, u##W, u##W, (s##W)a < (s##W)b)                               \
    U2(les##W, u8, u##W, u##W, (s##W)a <= (s##W)b)                              \
    U2(ltu##W, u8, u##W, u##W, a < b)                                           \
    U2(leu##W, u8, u##W, u##W, a <= b)                                          \
    U3(sel##W, u##W, u##W, u##W, u8, c ? a : b)                                 \
    U2(shl##W, u##W, u##W, u32, b > W - 1 ? 0 : (u##W)((H)a << (b & (W - 1))))  \
    U2(shr##W, u##W, u##W, u32, b > W - 1 ? 0 : (u##W)(a >> (b & (W - 1))))     \
    U2(sar##W, u##W, u##W, u32, (u##W)((s##W)a >> (b > W - 1 ? W - 1 : b)))

#define WIDENED(N, W)                            \
    U1(zx##N##_##W, u##W, u##N, (u##W)a)         \
    U1(sx##N##_##W, u##W, u##N, (u##W)(s##W)(s##N)a) \
    V1(tr##W##_##N, u##N, u##W, (u##N)a)

#define ORDERED(NAME, TEST)                                        \
    U2(NAME##f32, u8, u32, u32, (f32_of(a) TEST f32_of(b)))        \
    U2(NAME##f64, u8, u64, u64, (f64_of(a) TEST f64_of(b)))

#define UNORDERED(NAME, OPPOSITE)                                  \
    U2(NAME##f32, u8, u32, u32, !(f32_of(a) OPPOSITE f32_of(b)))   \
    U2(NAME##f64, u8, u64, u64, !(f64_of(a) OPPOSITE f64_of(b)))

#define OPERATIONS                                                                       \
    ON_WHOLE(16, u32)                                                                    \
    ON_WHOLE(32, u32)                                                                    \
    ON_WHOLE(64, u64)                                                                    \
    WIDENED(8, 16)                                                                       \
    WIDENED(8, 32)                                                                       \
    WIDENED(8, 64)                                                                       \
    WIDENED(16, 32)                                                                      \
    WIDENED(16, 64)                                                                      \
    WIDENED(32, 64)                                                                      \
    U2(and1, u8, u8, u8, a & b)                                                          \
    U2(or1, u8, u8, u8, a | b)                                                           \
    U2(xor1, u8, u8, u8, a ^ b)                                                          \
    U1(not1, u8, u8, a ^ 1)                                                              \
    U3(sel8, u8, u8, u8, u8, c ? a : b)                                                  \
    U2(wides16, u32, u16, u16, (u32)((s32)(s16)a * (s32)(s16)b))                         \
    U2(wideu16, u32, u16, u16, (u32)a * (u32)b)                                          \
    U2(wides32, u64, u32, u32, (u64)((s64)(s32)a * (s64)(s32)b))                         \
    U2(wideu32, u64, u32, u32, (u64)a * (u64)b)                                          \
    U2(his64, u64, u64, u64, (u64)(((__int128)(s64)a * (__int128)(s64)b) >> 64))         \
    U2(hiu64, u64, u64, u64, (u64)(((unsigned __int128)a * (unsigned __int128)b) >> 64)) \
    U4(lop32, u32, u32, u32, u32, u32, lop(a, b, c, d))                                  \
    U3(prmt32, u32, u32, u32, u32, permuted(a, b, c))                                    \
    U3(shfl32, u32, u32, u32, u32, (u32)((((u64)b << 32 | a) << c) >> 32))               \
    U3(shfr32, u32, u32, u32, u32, (u32)(((u64)b << 32 | a) >> c))                       \
    U3(bfeu32, u32, u32, u32, u32, field32(a, b & 255, c & 255, 0))                      \
    U3(bfes32, u32, u32, u32, u32, field32(a, b & 255, c & 255, 1))                      \
    U4(bfi32, u32, u32, u32, u32, u32, inserted32(a, b, c & 255, d & 255))               \
    U1(popc32, u32, u32, (u32)__builtin_popcount(a))                                     \
    U1(popc64, u32, u64, (u32)__builtin_popcountll(a))                                   \
    U1(clz32, u32, u32, a ? (u32)__builtin_clz(a) : 32)                                  \
    U1(clz64, u32, u64, a ? (u32)__builtin_clzll(a) : 64)                                \
    V2(addf32, u32, u32, u32, bits_of(f32_of(a) + f32_of(b)))                            \
    V2(subf32, u32, u32, u32, bits_of(f32_of(a) - f32_of(b)))                            \
    V2(mulf32, u32, u32, u32, bits_of(f32_of(a) * f32_of(b)))                            \
    U2(divf32, u32, u32, u32, bits_of(f32_of(a) / f32_of(b)))                            \
    U1(rcpf32, u32, u32, bits_of(1.0f / f32_of(a)))                                      \
    U1(sqrtf32, u32, u32, bits_of(sqrtf(f32_of(a))))                                     \
    U3(fmaf32, u32, u32, u32, u32, bits_of(fmaf(f32_of(a), f32_of(b), f32_of(c))))       \
    U3(fmarzf32, u32, u32, u32, u32, directed_fma(f32_of(a), f32_of(b), f32_of(c), 0))   \
    U3(fmarmf32, u32, u32, u32, u32, directed_fma(f32_of(a), f32_of(b), f32_of(c), -1))  \
    U3(fmarpf32, u32, u32, u32, u32, directed_fma(f32_of(a), f32_of(b), f32_of(c), 1))   \
    V1(rcpapproxf32, u32, u32, bits_of((float)(1.0 / (double)f32_of(a))))                \
    V1(ex2approxf32, u32, u32, power_of_2(a))                                            \
    U1(sqrtapproxf32, u32, u32, bits_of((float)sqrt((double)f32_of(a))))                 \
    V1(rsqrtapproxf32, u32, u32, bits_of((float)(1.0 / sqrt((double)f32_of(a)))))        \
    U2(divfullf32, u32, u32, u32, bits_of((float)((double)f32_of(a) / (double)f32_of(b)))) \
    U2(divapproxf32, u32, u32, u32, approximate_quotient(a, b))                          \
    V2(minf32, u32, u32, u32, extreme(a, b, 0))                                          \
    V2(maxf32, u32, u32, u32, extreme(a, b, 1))                                          \
    V2(minnanf32, u32, u32, u32, is_nan(a) || is_nan(b) ? NAN32 : extreme(a, b, 0))      \
    V2(maxnanf32, u32, u32, u32, is_nan(a) || is_nan(b) ? NAN32 : extreme(a, b, 1))      \
    V1(ftzf32, u32, u32, a & 0x7f800000u ? a : a & 0x80000000u)                          \
    V1(satf32, u32, u32, saturated(a))                                                   \
    ORDERED(eq, ==)                                                                      \
    ORDERED(lt, <)                                                                       \
    ORDERED(le, <=)                                                                      \
    UNORDERED(neu, ==)                                                                   \
    UNORDERED(ltu, >=)                                                                   \
    UNORDERED(leu, >)                                                                    \
    U1(nanf32, u8, u32, is_nan(a))                                                       \
    U1(nanf64, u8, u64, (a & ~SIGN64) > 0x7ff0000000000000u)                             \
    V1(canonf32, u32, u32, canonical(a))                                                 \
    U1(rnif32, u32, u32, bits_of(rintf(f32_of(a))))                                      \
    U1(rzif32, u32, u32, bits_of(truncf(f32_of(a))))                                     \
    U1(rmif32, u32, u32, bits_of(floorf(f32_of(a))))                                     \
    U1(rpif32, u32, u32, bits_of(ceilf(f32_of(a))))                                      \
    U1(f32_s32, u32, u32, whole_s32(f32_of(a)))                                          \
    U1(f32_u32, u32, u32, whole_u32(f32_of(a)))                                          \
    U1(f32_s64, u64, u32, whole_s64(f32_of(a)))                                          \
    U1(f32_u64, u64, u32, whole_u64(f32_of(a)))                                          \
    U1(s32_f32, u32, u32, bits_of((float)(s32)a))                                        \
    U1(u32_f32, u32, u32, bits_of((float)a))                                             \
    U1(s64_f32, u32, u64, bits_of((float)(s64)a))                                        \
    U1(u64_f32, u32, u64, bits_of((float)a))                                             \
    U1(s32_f64, u64, u32, wide_bits_of((double)(s32)a))                                  \
    U1(u32_f64, u64, u32, wide_bits_of((double)a))                                       \
    V1(f32_bf16, u16, u32, (u16)to_bf16(a))                                              \
    V1(bf16_f32, u32, u16, (u32)a << 16)                                                 \
    V2(f32_bf16x2, u32, u32, u32, to_bf16(a) << 16 | to_bf16(b))                         \
    U1(f32_f16, u16, u32, (u16)to_f16(a))                                                \
    U1(f16_f32, u32, u16, from_f16(a))                                                   \
    V2(f32_f16x2, u32, u32, u32, to_f16(a) << 16 | to_f16(b))                            \
    U1(rnatf32, u32, u32, is_nan(a) ? NAN32 : (a + 0x1000) & ~0x1fffu)                   \
    U1(rntf32, u32, u32, is_nan(a) ? NAN32 : (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu)
