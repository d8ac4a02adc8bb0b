// What the operations of the core are made of: raw bits as floats and back, and what takes more than an expression.

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define NAN32 0x7fffffffu  // the NaN that float32 operations write
#define NAN16 0x7fffu
#define SIGN32 0x80000000u
#define SIGN64 0x8000000000000000u

static inline float f32_of(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline double f64_of(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline u32 raw_bits_of(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline u64 wide_bits_of(double value) {
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}

static inline u8 is_nan(u32 a) { return (a & ~SIGN32) > 0x7f800000u; }

static inline u32 canonical(u32 a) { return is_nan(a) ? NAN32 : a; }

// The bits of a result, in which every NaN is the canonical one.
static inline u32 bits_of(float value) { return canonical(raw_bits_of(value)); }

static inline u32 lop(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (u32 row = 0; row < 8; row++) {
        u32 term = (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
        result |= term & (0 - (table >> row & 1));
    }
    return result;
}

// Four of the eight bytes of b:a. The top bit of a selector spreads the sign of its byte.
static inline u32 permuted(u32 a, u32 b, u32 selectors) {
    u64 both = (u64)b << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; i++) {
        u32 selector = selectors >> (4 * i) & 15;
        u32 byte = (u32)(both >> (8 * (selector & 7))) & 255;
        u32 sign = (0 - (byte >> 7)) & 255;
        result |= (selector & 8 ? sign : byte) << (8 * i);
    }
    return result;
}

// `length` bits from `position` on; what lies beyond the word is its sign, if it is signed, else zero.
static inline u32 field32(u32 a, u32 position, u32 length, int is_signed) {
    if (length == 0) return 0;
    u64 word = is_signed ? (u64)(s64)(s32)a : a;
    u32 end = position + length - 1;
    u64 moved = is_signed ? (u64)((s64)word >> (position > 63 ? 63 : position)) : position > 63 ? 0 : word >> position;
    u64 mask = length >= 32 ? 0xffffffffu : ((u64)1 << length) - 1;
    u32 field = (u32)(moved & mask);
    if (is_signed && (a >> (end > 31 ? 31 : end) & 1)) field |= ~(u32)mask;
    return field;
}

static inline u32 inserted32(u32 a, u32 b, u32 position, u32 length) {
    u32 mask = length >= 32 ? 0xffffffffu : ((u32)1 << length) - 1;
    u32 start = position > 31 ? 31 : position;
    mask = position > 31 ? 0 : mask << start;
    return (b & ~mask) | (a << start & mask);
}

// The smaller or, if `largest`, the larger number; -0 is less than +0, and a NaN is passed over.
static inline u32 extreme(u32 a, u32 b, int largest) {
    float x = f32_of(a), y = f32_of(b);
    u32 zeros = largest ? a & b : a | b;
    u32 chosen = (largest ? x > y : x < y) ? a : b;
    u32 result = x == 0 && y == 0 ? zeros : chosen;
    result = is_nan(b) ? a : result;
    return canonical(is_nan(a) ? b : result);
}

static inline u32 saturated(u32 a) {
    float x = f32_of(a);
    return x > 0 ? (x < 1 ? a : 0x3f800000u) : 0;
}

// a * b + c rounded to odd in float64: rounding that once more gives what rounding the exact value gives.
static inline double odd_fma(float a, float b, float c) {
    double x = (double)a * (double)b, y = c;
    double sum = x + y, t = sum - x;
    double error = (x - (sum - t)) + (y - t);
    u64 bits = wide_bits_of(sum);
    if (error != 0 && isfinite(sum) && isfinite(error) && !(bits & 1)) {
        bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
    }
    return f64_of(bits);
}

// fma towards zero (0), down (-1) or up (1).
static inline u32 directed_fma(float a, float b, float c, int direction) {
    double exact = odd_fma(a, b, c);
    if (direction < 0 && exact == 0 && (signbit((double)a * (double)b) || signbit(c))) exact = -0.0;
    u32 bits = raw_bits_of((float)exact);
    double back = (double)f32_of(bits);
    int wrong = direction ? (direction < 0 ? back > exact : back < exact) : fabs(back) > fabs(exact);
    if (wrong) {
        int inwards = direction == 0 || (direction < 0) == (back > 0);
        if (back == 0) bits = direction < 0 ? SIGN32 | 1 : 1;
        else bits += inwards ? -1u : 1u;
    }
    return canonical(bits);
}

// Runs something with a size that the compiler knows.
#define BY_SIZE(SIZE, DO)           \
    switch (SIZE) {                 \
        case 1: DO(1) break;        \
        case 2: DO(2) break;        \
        case 4: DO(4) break;        \
        case 8: DO(8) break;        \
        case 16: DO(16) break;      \
        default: DO(SIZE) break;    \
    }

// 2 to the power of a number, as arithmetic/exponentials.py computes it. Without a loop, so that lanes are a vector.
static inline u32 power_of_2(u32 a) {
    double x = f32_of(a);
    x = x < -1000 ? -1000 : x > 1000 ? 1000 : x;
    double moved = x + 0x1.8p52, f = x - (moved - 0x1.8p52), power = 0x1.c3bd650fc2983p-36;
    power = power * f + 0x1.e8cac7351bb22p-32;
    power = power * f + 0x1.e4cf5158b8ec7p-28;
    power = power * f + 0x1.b5253d395e7c1p-24;
    power = power * f + 0x1.62c0223a5c822p-20;
    power = power * f + 0x1.ffcbfc588b0c5p-17;
    power = power * f + 0x1.430912f86c786p-13;
    power = power * f + 0x1.5d87fe78a6730p-10;
    power = power * f + 0x1.3b2ab6fba4e77p-7;
    power = power * f + 0x1.c6b08d704a0bfp-5;
    power = power * f + 0x1.ebfbdff82c58ep-3;
    power = power * f + 0x1.62e42fefa39efp-1;
    power = power * f + 0x1.0000000000000p+0;
    double scale = f64_of((wide_bits_of(moved) + 1023) << 52);  // its last bits are those of the whole number
    return is_nan(a) ? NAN32 : bits_of((float)(power * scale));
}

// div.approx.f32: divisors beyond 2^126 give 0, or NaN for a dividend that is not finite.
static inline u32 approximate_quotient(u32 a, u32 b) {
    u32 size = b & ~SIGN32;
    if (size > 0x7e800000u && size < 0x7f800000u) return (a & 0x7f800000u) == 0x7f800000u ? NAN32 : (a ^ b) & SIGN32;
    return bits_of((float)((double)f32_of(a) / (double)f32_of(b)));
}

// Whole floats as integers: what is out of range becomes the nearest end of it, NaN 0 or, of 64 bits, the top bit.
static inline u32 whole_s32(float x) {
    if (x != x) return 0;
    return x >= 2147483648.0f ? 0x7fffffffu : x <= -2147483648.0f ? SIGN32 : (u32)(s32)x;
}

static inline u32 whole_u32(float x) { return x >= 4294967296.0f ? 0xffffffffu : x > 0 ? (u32)x : 0; }

static inline u64 whole_s64(float x) {
    if (x != x) return SIGN64;
    return x >= 0x1p63f ? ~SIGN64 : x <= -0x1p63f ? SIGN64 : (u64)(s64)x;
}

static inline u64 whole_u64(float x) {
    if (x != x) return SIGN64;
    return x >= 0x1p64f ? ~(u64)0 : x > 0 ? (u64)x : 0;
}

static inline u32 to_bf16(u32 a) { return is_nan(a) ? NAN16 : (a + 0x7fff + (a >> 16 & 1)) >> 16; }

static inline u32 to_f16(u32 a) {
    u32 sign = a >> 16 & 0x8000, size = a & ~SIGN32;
    u32 normal = (size - 0x38000000u + 0xfff + (size >> 13 & 1)) >> 13;
    u32 small = raw_bits_of(f32_of(size) + 0.5f) - 0x3f000000u;  // the last place of 0.5f is that of subnormals
    u32 rounded = size < 0x38800000u ? small : size >= 0x477ff000u ? 0x7c00 : normal;
    return is_nan(a) ? NAN16 : sign | rounded;
}

static inline u32 from_f16(u16 a) {
    u32 sign = (u32)(a & 0x8000) << 16, exponent = a >> 10 & 31, fraction = a & 0x3ff;
    u32 small = raw_bits_of((float)fraction * 0x1p-24f);
    u32 normal = (exponent + 112) << 23 | fraction << 13;
    u32 special = fraction ? NAN32 : sign | 0x7f800000u;
    return exponent == 31 ? special : sign | (exponent ? normal : small);
}
