// H S .. H S x, some rounds of signs and fast Walsh-Hadamard transforms, alone or with a link fused behind them.
#pragma once
#include "cos.h"

namespace MERCER_ISA {
namespace {

// One stage inside a vector: lane i becomes x[i] + x[i ^ H], or x[i ^ H] - x[i] where bit H of i is set.
template <class T, int H> INLINE V<T> lane_stage(V<T> x) {
    V<T> sign;
    for (int i = 0; i < lanes<T>; ++i) sign[i] = i & H ? T(-1) : T(1);
    return muladd(x, sign, swap_lanes<T, H>(x, Lanes<T>{}));
}
template <class T> INLINE V<T> lane_stages(V<T> x) {
    x = lane_stage<T, 1>(x);
    if constexpr (lanes<T> > 2) x = lane_stage<T, 2>(x);
    if constexpr (lanes<T> > 4) x = lane_stage<T, 4>(x);
    if constexpr (lanes<T> > 8) x = lane_stage<T, 8>(x);
    return x;
}

template <class T, int G> INLINE void butterflies(V<T> (&x)[G]) {
#pragma GCC unroll 8
    for (int half = 1; half < G; half *= 2)
#pragma GCC unroll 8
        for (int i = 0; i < G; ++i)
            if (!(i & half)) {
                V<T> a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
}

// The lane stages and the stages among G neighbouring vectors, in one pass over memory.
template <class T, int G> INLINE void near_pass(T *w, int64_t p, const T *signs) {
    for (int64_t k = 0; k < p; k += G * lanes<T>) {
        V<T> x[G];
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
            x[g] = load(w + k + g * lanes<T>);
            if (signs) x[g] *= load(signs + k + g * lanes<T>);
            x[g] = lane_stages<T>(x[g]);
        }
        butterflies<T, G>(x);
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) store(w + k + g * lanes<T>, x[g]);
    }
}

// The stages of distance step, 2 step, .. G / 2 step, in one pass.
template <class T, int G> INLINE void far_pass(T *w, int64_t p, int64_t step) {
    for (int64_t base = 0; base < p; base += G * step)
        for (int64_t k = base; k < base + step; k += lanes<T>) {
            V<T> x[G];
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) x[g] = load(w + k + g * step);
            butterflies<T, G>(x);
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) store(w + k + g * step, x[g]);
        }
}

// w <- H (signs w); signs may be null. p is a power of two.
template <class T> void walsh(T *w, int64_t p, const T *signs) {
    if (p < lanes<T>) {
        for (int64_t k = 0; signs && k < p; ++k) w[k] *= signs[k];
        for (int64_t half = 1; half < p; half *= 2)
            for (int64_t k = 0; k < p; ++k)
                if (!(k & half)) {
                    T a = w[k], b = w[k + half];
                    w[k] = a + b;
                    w[k + half] = a - b;
                }
        return;
    }
    int64_t vectors = p / lanes<T>, step = lanes<T>;
    if (vectors >= 8) near_pass<T, 8>(w, p, signs), step *= 8;
    else if (vectors == 4) near_pass<T, 4>(w, p, signs), step *= 4;
    else if (vectors == 2) near_pass<T, 2>(w, p, signs), step *= 2;
    else near_pass<T, 1>(w, p, signs);
    for (; step * 8 <= p; step *= 8) far_pass<T, 8>(w, p, step);
    if (step * 4 <= p) far_pass<T, 4>(w, p, step), step *= 4;
    if (step * 2 <= p) far_pass<T, 2>(w, p, step);
}

// m columns of the product, of length-scaled blocks; the last block may be cut short.
template <class T, class Link> bool transform(View<const T> X, Signs<T> signs, const T *lengths, View<T> out, int64_t m, const Link &link) {
    const int64_t p = signs.p, width = p < lanes<T> ? lanes<T> : p;
    Scratch<T> scratch(width);
    T *w = scratch.data;
    if (!w) return false;
    for (int64_t k = 0; k < width; ++k) w[k] = 0;
    const int64_t d = X.columns;
    for (int64_t i = 0; i < X.rows; ++i) {
        const T *x = row(X, i);
        T *o = row(out, i);
        for (int64_t first = 0; first < m; first += p) {
            const T *s = signs.data + signs.rounds * first;
            int64_t k = 0;
            for (; k + lanes<T> <= d; k += lanes<T>) store(w + k, load(x + k) * load(s + k));
            for (; k < d; ++k) w[k] = x[k] * s[k];
            for (; k < p; ++k) w[k] = 0;
            walsh<T>(w, p, nullptr);
            for (int64_t round = 1; round < signs.rounds; ++round) walsh<T>(w, p, s + round * p);
            const int64_t columns = m - first < p ? m - first : p;
            int64_t j = 0;
            for (; j + lanes<T> <= columns; j += lanes<T>) link(o, first + j, load(w + j) * load(lengths + first + j), lanes<T>);
            if (int64_t rest = columns - j) link(o, first + j, load_n(w + j, rest) * load_n(lengths + first + j, rest), rest);
        }
    }
    return true;
}

template <class T> bool hadamard(View<const T> X, Signs<T> signs, const T *lengths, View<T> out) {
    return transform<T>(X, signs, lengths, out, out.columns, Plain<T>{});
}
template <class T>
bool hadamard_cos(View<const T> X, Signs<T> signs, const T *lengths, double scale, const T *phases, View<T> out) {
    return transform<T>(X, signs, lengths, out, out.columns, WithCos<T>{Sine<T>(scale), phases});
}
template <class T> bool hadamard_cossin(View<const T> X, Signs<T> signs, const T *lengths, double scale, View<T> out) {
    return transform<T>(X, signs, lengths, out, out.columns / 2, WithCosSin<T>{Sine<T>(scale)});
}

}  // namespace
}  // namespace MERCER_ISA
