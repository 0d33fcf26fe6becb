// The vector type of the instruction set that this file is compiled for, by GCC and Clang vector extensions.
// All functions are in an unnamed namespace: nothing here may become a symbol that two objects share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

#include "table.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MERCER_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define MERCER_BYTES 32
#else
#define MERCER_BYTES 16
#endif

#define INLINE inline __attribute__((always_inline))

namespace MERCER_ISA {
namespace {

template <class T> struct Types;
template <> struct Types<float> {
    typedef float V __attribute__((vector_size(MERCER_BYTES)));
    typedef int32_t Integer;
    typedef Integer I __attribute__((vector_size(MERCER_BYTES)));
    typedef uint32_t U __attribute__((vector_size(MERCER_BYTES)));
};
template <> struct Types<double> {
    typedef double V __attribute__((vector_size(MERCER_BYTES)));
    typedef int64_t Integer;
    typedef Integer I __attribute__((vector_size(MERCER_BYTES)));
    typedef uint64_t U __attribute__((vector_size(MERCER_BYTES)));
};
template <class T> using V = typename Types<T>::V;
template <class T> using I = typename Types<T>::I;  // integers of the same width; also what a comparison gives

template <class T> constexpr int lanes = MERCER_BYTES / static_cast<int>(sizeof(T));
constexpr int rows_in_registers = MERCER_BYTES == 64 ? 8 : 4;  // 32 registers with AVX-512, 16 otherwise

template <class T> INLINE V<T> load(const T *p) {
    V<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <class T> INLINE void store(T *p, V<T> v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n lanes; the others are zero, or left alone in memory.
template <class T> INLINE V<T> load_n(const T *p, int64_t n) {
    V<T> v{};
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
}
template <class T> INLINE void store_n(T *p, V<T> v, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}

// x - 0 is x for every x, while 0 + x is not (-0), so GCC would emit the addition.
template <class T> INLINE V<T> splat(T x) { return x - V<T>{}; }

template <class T> INLINE I<T> bits(V<T> x) { return reinterpret_cast<I<T>>(x); }
template <class T> INLINE typename Types<T>::U unsigned_bits(V<T> x) { return reinterpret_cast<typename Types<T>::U>(x); }
template <class T> INLINE V<T> number(I<T> x) { return reinterpret_cast<V<T>>(x); }
template <class T> INLINE I<T> sign_bit() { return bits<T>(splat<T>(T(-0.0))); }
template <class T> INLINE V<T> abs(V<T> x) { return number<T>(bits<T>(x) & ~sign_bit<T>()); }
template <class T> INLINE V<T> copysign(V<T> size, V<T> sign) {
    return number<T>((bits<T>(size) & ~sign_bit<T>()) | (bits<T>(sign) & sign_bit<T>()));
}
template <class T> INLINE bool any(I<T> mask) {
    bool found = false;
    for (int i = 0; i < lanes<T>; ++i) found |= mask[i] != 0;
    return found;
}

// round to the nearest integer; floor; sqrt, rounded once; min and max return the SECOND operand where either is NaN, as x86 does.
// permuted, where the instruction set permutes<T>: lane i % L of a vector of L lanes, lane i % 2L of two.
#if MERCER_BYTES == 64
INLINE V<float> round(V<float> x) { return _mm512_roundscale_ps(x, 8); }
INLINE V<double> round(V<double> x) { return _mm512_roundscale_pd(x, 8); }
INLINE V<float> floor(V<float> x) { return _mm512_roundscale_ps(x, 9); }
INLINE V<float> sqrt(V<float> x) { return _mm512_sqrt_ps(x); }
INLINE V<double> sqrt(V<double> x) { return _mm512_sqrt_pd(x); }
INLINE V<float> min(V<float> a, V<float> b) { return _mm512_min_ps(a, b); }
INLINE V<double> min(V<double> a, V<double> b) { return _mm512_min_pd(a, b); }
INLINE V<float> max(V<float> a, V<float> b) { return _mm512_max_ps(a, b); }
INLINE V<double> max(V<double> a, V<double> b) { return _mm512_max_pd(a, b); }
#define MERCER_RCP 1
#define MERCER_RCP_DOUBLE 1
INLINE V<float> rcp(V<float> x) { return _mm512_rcp14_ps(x); }
INLINE V<float> permuted(V<float> a, I<float> i) { return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(i), a); }
INLINE V<double> permuted(V<double> a, I<double> i) { return _mm512_permutexvar_pd(reinterpret_cast<__m512i>(i), a); }
INLINE V<float> permuted(V<float> a, V<float> b, I<float> i) { return _mm512_permutex2var_ps(a, reinterpret_cast<__m512i>(i), b); }
INLINE V<double> permuted(V<double> a, V<double> b, I<double> i) { return _mm512_permutex2var_pd(a, reinterpret_cast<__m512i>(i), b); }
template <class T> constexpr bool permutes = true;
INLINE V<double> rcp(V<double> x) { return _mm512_rcp14_pd(x); }
#elif MERCER_BYTES == 32
INLINE V<float> round(V<float> x) { return _mm256_round_ps(x, 8); }
INLINE V<double> round(V<double> x) { return _mm256_round_pd(x, 8); }
INLINE V<float> floor(V<float> x) { return _mm256_round_ps(x, 9); }
INLINE V<float> sqrt(V<float> x) { return _mm256_sqrt_ps(x); }
INLINE V<double> sqrt(V<double> x) { return _mm256_sqrt_pd(x); }
INLINE V<float> min(V<float> a, V<float> b) { return _mm256_min_ps(a, b); }
INLINE V<double> min(V<double> a, V<double> b) { return _mm256_min_pd(a, b); }
INLINE V<float> max(V<float> a, V<float> b) { return _mm256_max_ps(a, b); }
INLINE V<double> max(V<double> a, V<double> b) { return _mm256_max_pd(a, b); }
#define MERCER_RCP 1
INLINE V<float> rcp(V<float> x) { return _mm256_rcp_ps(x); }
INLINE V<float> permuted(V<float> a, I<float> i) { return _mm256_permutevar8x32_ps(a, reinterpret_cast<__m256i>(i)); }
INLINE V<float> permuted(V<float> a, V<float> b, I<float> i) { return (i & 8) != 0 ? permuted(b, i) : permuted(a, i); }
template <class T> constexpr bool permutes = sizeof(T) == 4;
#elif defined(__SSE4_1__)
INLINE V<float> round(V<float> x) { return _mm_round_ps(x, 8); }
INLINE V<double> round(V<double> x) { return _mm_round_pd(x, 8); }
INLINE V<float> floor(V<float> x) { return _mm_round_ps(x, 9); }
INLINE V<float> sqrt(V<float> x) { return _mm_sqrt_ps(x); }
INLINE V<double> sqrt(V<double> x) { return _mm_sqrt_pd(x); }
INLINE V<float> min(V<float> a, V<float> b) { return _mm_min_ps(a, b); }
INLINE V<double> min(V<double> a, V<double> b) { return _mm_min_pd(a, b); }
INLINE V<float> max(V<float> a, V<float> b) { return _mm_max_ps(a, b); }
INLINE V<double> max(V<double> a, V<double> b) { return _mm_max_pd(a, b); }
#define MERCER_RCP 0  // without FMA the division is faster than rcpps and a Newton step
template <class T> constexpr bool permutes = false;
#else
INLINE V<float> round(V<float> x) {
    for (int i = 0; i < lanes<float>; ++i) x[i] = __builtin_rintf(x[i]);
    return x;
}
INLINE V<double> round(V<double> x) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = __builtin_rint(x[i]);
    return x;
}
INLINE V<float> floor(V<float> x) {
    for (int i = 0; i < lanes<float>; ++i) x[i] = __builtin_floorf(x[i]);
    return x;
}
INLINE V<float> sqrt(V<float> x) {
    for (int i = 0; i < lanes<float>; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
INLINE V<double> sqrt(V<double> x) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = __builtin_sqrt(x[i]);
    return x;
}
template <class U> INLINE U min(U a, U b) { return a < b ? a : b; }
template <class U> INLINE U max(U a, U b) { return a > b ? a : b; }
#define MERCER_RCP 0
template <class T> constexpr bool permutes = false;
#endif

// muladd(a, b, c) = a b + c, of numbers or vectors of any size: rounded once where the instruction set fuses, twice elsewhere.
// The compiler itself fuses nothing (-ffp-contract=off): it would do so in one copy of an expression and not in another, in the body of a
// loop and not at its edge, and the value of an element would depend on where it lies.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
INLINE float muladd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
INLINE double muladd(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <class U> INLINE U muladd(U a, U b, U c) {
    using T = std::decay_t<decltype(a[0])>;
    if constexpr (sizeof(T) == 4) {
#if defined(__AVX512F__)
        if constexpr (sizeof(U) == 64) return _mm512_fmadd_ps(a, b, c);
#endif
#if defined(__FMA__)
        if constexpr (sizeof(U) == 32) return _mm256_fmadd_ps(a, b, c);
        if constexpr (sizeof(U) == 16) return _mm_fmadd_ps(a, b, c);
#endif
    } else {
#if defined(__AVX512F__)
        if constexpr (sizeof(U) == 64) return _mm512_fmadd_pd(a, b, c);
#endif
#if defined(__FMA__)
        if constexpr (sizeof(U) == 32) return _mm256_fmadd_pd(a, b, c);
        if constexpr (sizeof(U) == 16) return _mm_fmadd_pd(a, b, c);
#endif
    }
    for (int i = 0; i < static_cast<int>(sizeof(U) / sizeof(T)); ++i) c[i] = muladd(a[i], b[i], c[i]);
    return c;
}
#else
template <class U> INLINE U muladd(U a, U b, U c) { return a * b + c; }
#endif

template <class T, int H, int... K> INLINE V<T> swap_lanes(V<T> x, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(x, x, (K ^ H)...);
}
template <class T, int... K> INLINE V<T> zip_low(V<T> a, V<T> b, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(a, b, (K / 2 + (K % 2) * lanes<T>)...);
}
template <class T, int... K> INLINE V<T> zip_high(V<T> a, V<T> b, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(a, b, (lanes<T> / 2 + K / 2 + (K % 2) * lanes<T>)...);
}

// x[i][j] <- x[j][i] for as many vectors as each has lanes: blocks of H x H change places, for H = 1, 2, 4, ...
template <class T, int H, int... K> INLINE void transpose_blocks(V<T> *x, std::integer_sequence<int, K...> all) {
    constexpr int L = lanes<T>;
    if constexpr (H < L) {
#pragma GCC unroll 16
        for (int r = 0; r < L; ++r)
            if (!(r & H)) {
                const V<T> above = x[r], below = x[r + H];
                x[r] = __builtin_shufflevector(above, below, (K & H ? L + K - H : K)...);
                x[r + H] = __builtin_shufflevector(above, below, (K & H ? L + K : K + H)...);
            }
        transpose_blocks<T, 2 * H>(x, all);
    }
}
template <class T> using Lanes = std::make_integer_sequence<int, lanes<T>>;
template <class T> INLINE void transpose(V<T> *x) { transpose_blocks<T, 1>(x, Lanes<T>{}); }

template <class T> INLINE T *row(View<T> A, int64_t i) { return A.data + i * A.stride; }

// Memory on a 64-byte boundary: packed panels that straddle cache lines cost 1.6 times.
template <class T> struct Scratch {
    void *whole;
    T *data;
    explicit Scratch(int64_t size) : whole(std::malloc(static_cast<size_t>(size) * sizeof(T) + 64)), data(nullptr) {
        if (whole) data = reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(whole) + 63) & ~uintptr_t(63));
    }
    ~Scratch() { std::free(whole); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
};

}  // namespace
}  // namespace MERCER_ISA
