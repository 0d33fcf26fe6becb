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

}  // namespace
}  // namespace MERCER_ISA
