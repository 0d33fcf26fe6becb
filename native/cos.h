// The links: cos, interleaved cos and sin, 2^-t.
#pragma once
#include "math.h"

namespace MERCER_ISA {
namespace {

// A matrix without gaps is one long row: no edge per row.
template <class T> INLINE View<T> flat(View<T> A) {
    if (A.stride == A.columns) return {A.data, A.rows > 0 && A.columns > 0, A.rows * A.columns, A.stride};
    return A;
}

template <class T> void cos(View<T> A, double scale, const T *phases) {
    const Sine<T> sine(scale);
    if (!phases) A = flat(A);
    for (int64_t i = 0; i < A.rows; ++i) {
        T *a = row(A, i);
        int64_t j = 0;
        if (phases) {
            for (; j + lanes<T> <= A.columns; j += lanes<T>)
                store(a + j, cos_turns<T>(shifted<T>(load(a + j), load(phases + j)), sine));
            if (int64_t rest = A.columns - j)
                store_n(a + j, cos_turns<T>(shifted<T>(load_n(a + j, rest), load_n(phases + j, rest)), sine), rest);
        } else {
            for (; j + lanes<T> <= A.columns; j += lanes<T>) store(a + j, cos_turns<T>(fraction<T>(load(a + j)), sine));
            if (int64_t rest = A.columns - j) store_n(a + j, cos_turns<T>(fraction<T>(load_n(a + j, rest)), sine), rest);
        }
    }
}

// cos and sin of one vector of turns, interleaved, to out[0 .. 2 n).
template <class T> INLINE void store_cossin(T *out, V<T> t, const Sine<T> &sine, int64_t n) {
    V<T> r = fraction<T>(t), c = cos_turns<T>(r, sine), s = sin_turns<T>(r, sine);
    V<T> low = zip_low<T>(c, s, Lanes<T>{}), high = zip_high<T>(c, s, Lanes<T>{});
    if (n == lanes<T>) {
        store(out, low);
        store(out + lanes<T>, high);
    } else {
        int64_t first = 2 * n < lanes<T> ? 2 * n : lanes<T>;
        store_n(out, low, first);
        store_n(out + first, high, 2 * n - first);
    }
}

template <class T> void cossin(View<const T> A, double scale, View<T> out) {
    const Sine<T> sine(scale);
    if (A.stride == A.columns && out.stride == out.columns) A = flat(A), out = flat(out);
    for (int64_t i = 0; i < A.rows; ++i) {
        const T *a = row(A, i);
        T *o = row(out, i);
        int64_t j = 0;
        for (; j + lanes<T> <= A.columns; j += lanes<T>) store_cossin<T>(o + 2 * j, load(a + j), sine, lanes<T>);
        if (int64_t rest = A.columns - j) store_cossin<T>(o + 2 * j, load_n(a + j, rest), sine, rest);
    }
}

// What a fused op does with a vector of turns, of which the first n lanes are columns j .. j + n.
template <class T> struct Plain {
    INLINE void operator()(T *out, int64_t j, V<T> t, int64_t n) const { n == lanes<T> ? store(out + j, t) : store_n(out + j, t, n); }
};
template <class T> struct WithCos {
    Sine<T> sine;
    const T *phases;
    INLINE void operator()(T *out, int64_t j, V<T> t, int64_t n) const {
        V<T> r = phases ? shifted<T>(t, n == lanes<T> ? load(phases + j) : load_n(phases + j, n)) : fraction<T>(t);
        Plain<T>{}(out, j, cos_turns<T>(r, sine), n);
    }
};
template <class T> struct WithCosSin {
    Sine<T> sine;
    INLINE void operator()(T *out, int64_t j, V<T> t, int64_t n) const { store_cossin<T>(out + 2 * j, t, sine, n); }
};

template <class T> struct WithExp2Neg {
    V<T> amplitude;
    const T *offsets;
    INLINE void operator()(T *out, int64_t j, V<T> t, int64_t n) const {
        if (offsets) t += n == lanes<T> ? load(offsets + j) : load_n(offsets + j, n);
        Plain<T>{}(out, j, exp2<T>(-t) * amplitude, n);
    }
};

// 2^-max(0, r + c - scale t): the distance of two rows from their norms and their product, which rounding may make negative.
template <class T> void exp2neg_expanded(View<T> A, const T *rows, const T *columns, double scale) {
    const V<T> factor = splat(static_cast<T>(-scale));
    const auto link = [&](V<T> t, V<T> r, V<T> c) __attribute__((always_inline)) {
        return exp2<T>(-max(V<T>{}, muladd(t, factor, r + c)));  // the second operand keeps NaN
    };
    for (int64_t i = 0; i < A.rows; ++i) {
        T *a = row(A, i);
        const V<T> r = splat(rows[i]);
        int64_t j = 0;
        for (; j + lanes<T> <= A.columns; j += lanes<T>) store(a + j, link(load(a + j), r, load(columns + j)));
        if (int64_t rest = A.columns - j) store_n(a + j, link(load_n(a + j, rest), r, load_n(columns + j, rest)), rest);
    }
}

template <class T> void exp2neg(View<T> A, double scale) {
    const V<T> amplitude = splat(static_cast<T>(scale));
    A = flat(A);
    for (int64_t i = 0; i < A.rows; ++i) {
        T *a = row(A, i);
        int64_t j = 0;
        for (; j + lanes<T> <= A.columns; j += lanes<T>) store(a + j, exp2<T>(-load(a + j)) * amplitude);
        if (int64_t rest = A.columns - j) store_n(a + j, exp2<T>(-load_n(a + j, rest)) * amplitude, rest);
    }
}

// x / |x|, in double where a sum of squares may be beyond float; rows of zeros stay. Sums are those of 4 vectors, added in pairs.
template <class T, class C> INLINE double sum_of_squares(const T *x, int64_t d, C scale) {
    constexpr int N = 32;
    C sums[N] = {};
    int64_t j = 0;
    for (; j + N <= d; j += N)
        for (int k = 0; k < N; ++k) {
            const C y = static_cast<C>(x[j + k]) * scale;
            sums[k] = muladd(y, y, sums[k]);
        }
    for (int k = 0; j < d; ++j, ++k) {
        const C y = static_cast<C>(x[j]) * scale;
        sums[k] = muladd(y, y, sums[k]);
    }
    for (int width = N / 2; width; width /= 2)
        for (int k = 0; k < width; ++k) sums[k] += sums[k + width];
    return static_cast<double>(sums[0]);
}
template <class T> void row_norm(View<const T> X, View<T> out) {
    constexpr double low = sizeof(T) == 4 ? 0x1p-80 : 0x1p-800, high = sizeof(T) == 4 ? 0x1p120 : 0x1p1000;
    for (int64_t i = 0; i < X.rows; ++i) {
        const T *x = row(X, i);
        T *o = row(out, i);
        double square = sum_of_squares<T, T>(x, X.columns, T(1)), scale = 1;
        if (!(square > low && square < high)) {  // squares that over- or underflow: by the largest entry first
            T largest = 0;
            for (int64_t j = 0; j < X.columns; ++j) {
                const T size = x[j] < 0 ? -x[j] : x[j];
                largest = size > largest ? size : largest;
            }
            if (largest > 0) {
                scale = 1;
                int exponent = 0;
                (void)__builtin_frexp(static_cast<double>(largest), &exponent);
                scale = __builtin_ldexp(1.0, exponent > 1000 ? -1000 : exponent < -1000 ? 1000 : -exponent);
                square = sum_of_squares<T, double>(x, X.columns, scale);
            }
        }
        const double norm = __builtin_sqrt(square);
        const T divisor = static_cast<T>(norm > 0 || norm != norm ? norm : 1.0);
        if (scale == 1) {
            for (int64_t j = 0; j < X.columns; ++j) o[j] = x[j] / divisor;
        } else {
            for (int64_t j = 0; j < X.columns; ++j) o[j] = static_cast<T>(static_cast<double>(x[j]) * scale / norm);
        }
    }
}

}  // namespace
}  // namespace MERCER_ISA
