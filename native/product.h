// Products of dense rows with a panel of weights, and a link of every entry.
// Sums are those of parts of 512 terms, each in the order of k by fused steps, added in their order: an entry has the same bits in every
// block of rows and of columns.
#pragma once
#include "cos.h"

namespace MERCER_ISA {
namespace {

// 24 sums, 4 weights and a number of X in 32 registers; 12, 2 and 1 in 16.
constexpr int product_rows = 6, product_vectors = MERCER_BYTES == 64 ? 4 : 2;
constexpr int64_t product_part = 512;  // rows of W, 128 kB of a packed panel

// sums (R, G vectors) = x W, or they + x W, of R rows of x and a packed panel of G vectors.
template <class T, int R, int G> void product_block(const T *x, int64_t stride, const T *panel, int64_t depth, T *sums, bool more) {
    constexpr int L = lanes<T>, width = G * L;
    V<T> sum[R][G];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) sum[r][g] = V<T>{};
    for (int64_t k = 0; k < depth; ++k) {
        V<T> w[G];
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) w[g] = load(panel + k * width + g * L);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const V<T> value = splat(x[r * stride + k]);
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) sum[r][g] = muladd(value, w[g], sum[r][g]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
            T *s = sums + r * width + g * L;
            store(s, more ? load(s) + sum[r][g] : sum[r][g]);
        }
}

// The same of the rows that are left, fewer than R.
template <class T, int R, int G>
void product_rest(int64_t rows, const T *x, int64_t stride, const T *panel, int64_t depth, T *sums, bool more) {
    if constexpr (R > 1) {
        if (rows == R - 1)
            product_block<T, R - 1, G>(x, stride, panel, depth, sums, more);
        else
            product_rest<T, R - 1, G>(rows, x, stride, panel, depth, sums, more);
    }
}

// The link of the sums of one row, whose first column is j.
template <class T, class Link> INLINE void link_sums(const T *sums, T *out, int64_t j, int64_t used, const Link &link) {
    constexpr int L = lanes<T>;
    int64_t c = 0;
    for (; c + L <= used; c += L) link(out, j + c, load(sums + c), L);
    if (c < used) link(out, j + c, load(sums + c), used - c);
}

// G vectors of columns from column j on, of W packed part by part.
template <class T, int G, class Link>
void product_panel(View<const T> X, View<const T> W, int64_t j, T *panel, T *sums, View<T> out, const Link &link) {
    constexpr int R = product_rows, width = G * lanes<T>;
    const int64_t used = W.columns - j < width ? W.columns - j : width;
    int64_t first = 0;
    do {
        const int64_t depth = W.rows - first < product_part ? W.rows - first : product_part;
        const bool last = first + depth == W.rows, whole = last && !first;
        for (int64_t k = 0; k < depth; ++k) {
            const T *source = row(W, first + k) + j;
            T *target = panel + k * width;
            if (used == width) {
                for (int g = 0; g < G; ++g) store(target + g * lanes<T>, load(source + g * lanes<T>));
            } else {
                for (int64_t c = 0; c < width; ++c) target[c] = c < used ? source[c] : T(0);
            }
        }
        int64_t i = 0;
        for (; i + R <= X.rows; i += R) {
            T *s = whole ? sums : sums + i * width;  // those of all rows are kept where W has several parts
            product_block<T, R, G>(row(X, i) + first, X.stride, panel, depth, s, first > 0);
            for (int r = 0; last && r < R; ++r) link_sums(s + r * width, row(out, i + r), j, used, link);
        }
        if (i < X.rows) {
            T *s = whole ? sums : sums + i * width;
            product_rest<T, R, G>(X.rows - i, row(X, i) + first, X.stride, panel, depth, s, first > 0);
            for (int64_t r = 0; last && i + r < X.rows; ++r) link_sums(s + r * width, row(out, i + r), j, used, link);
        }
        first += depth;
    } while (first < W.rows);
}

// A few rows: W is read once, as it lies.
template <class T, class Link> bool product_few(View<const T> X, View<const T> W, View<T> out, const Link &link) {
    constexpr int L = lanes<T>;
    const int64_t m = W.columns, width = (m + L - 1) / L * L;
    Scratch<T> sums(X.rows * width), part(X.rows * width);
    if (!sums.data || !part.data) return false;
    for (int64_t c = 0; c < X.rows * width; ++c) sums.data[c] = part.data[c] = 0;
    for (int64_t k = 0; k < W.rows; ++k) {
        const T *w = row(W, k);
        T *to = k < product_part ? sums.data : part.data;
        for (int64_t i = 0; i < X.rows; ++i) {
            const V<T> value = splat(row(X, i)[k]);
            T *s = to + i * width;
            int64_t c = 0;
            for (; c + L <= m; c += L) store(s + c, muladd(value, load(w + c), load(s + c)));
            if (c < m) store(s + c, muladd(value, load_n(w + c, m - c), load(s + c)));
        }
        if (to == part.data && ((k + 1) % product_part == 0 || k + 1 == W.rows))
            for (int64_t c = 0; c < X.rows * width; ++c) {
                sums.data[c] += part.data[c];
                part.data[c] = 0;
            }
    }
    for (int64_t i = 0; i < X.rows; ++i) link_sums(sums.data + i * width, row(out, i), 0, m, link);
    return true;
}

template <class T, class Link> bool product_linked(View<const T> X, View<const T> W, View<T> out, const Link &link) {
    constexpr int G = product_vectors, width = G * lanes<T>;
    if (!X.rows || !W.columns) return true;
    if (X.rows < product_rows) return product_few(X, W, out, link);
    const int64_t depth = W.rows < product_part ? W.rows : product_part, kept = W.rows > product_part ? X.rows : product_rows;
    Scratch<T> panel(depth * width), sums(kept * width);
    if (!panel.data || !sums.data) return false;
    int64_t j = 0;
    for (; j + width <= W.columns; j += width) product_panel<T, G>(X, W, j, panel.data, sums.data, out, link);
    for (; j < W.columns; j += lanes<T>) product_panel<T, 1>(X, W, j, panel.data, sums.data, out, link);
    return true;
}
template <class T> bool product(View<const T> X, View<const T> W, View<T> out) { return product_linked(X, W, out, Plain<T>{}); }
template <class T> bool product_cos(View<const T> X, View<const T> W, double scale, const T *phases, View<T> out) {
    return product_linked(X, W, out, WithCos<T>{Sine<T>(scale), phases});
}
template <class T> bool product_cossin(View<const T> X, View<const T> W, double scale, View<T> out) {
    return product_linked(X, W, out, WithCosSin<T>{Sine<T>(scale)});
}

}  // namespace
}  // namespace MERCER_ISA
