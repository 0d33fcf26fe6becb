// Sparse rows (canonical CSR): Gram matrices that vanish where either side is 0, and the product with a dense panel.
#pragma once
#include "cos.h"
#include "gram.h"

namespace MERCER_ISA {
namespace {

// Terms in double: float data cannot leave its range, and 1e-300 makes 0 / 0 a 0 without a branch; double data takes the safe order.
template <class T> struct SparseChi2 {
    static INLINE double term(double x, double z) {
        if constexpr (sizeof(T) == sizeof(float)) return 2 * x * z / (x + z + 1e-300);
        const double a = x < z ? x : z, b = x < z ? z : x, s = x + z;  // b / s is in [1/2, 1]
        if (s == 0) return 0;
        return s - s == 0 ? a * (2 * (b / s)) : a * (b / (0.5 * x + 0.5 * z));
    }
};
struct SparseMin {
    static INLINE double term(double x, double z) { return x < z ? x : z; }
};

template <class T, class I> bool has_nan(Csr<T, I> A, int64_t i) {
    for (I k = A.indptr[i]; k < A.indptr[i + 1]; ++k)
        if (A.data[k] != A.data[k]) return true;
    return false;
}

// Z by columns: entries start[c] .. start[c + 1] are the rows of Z that hold column c.
template <class T, class I> struct Columns {
    Scratch<int64_t> start;
    Scratch<I> rows;
    Scratch<T> data;
    bool ok;

    explicit Columns(Csr<T, I> Z) : start(Z.columns + 2), rows(Z.nonzeros), data(Z.nonzeros), ok(start.data && rows.data && data.data) {
        if (!ok) return;
        for (int64_t c = 0; c < Z.columns + 2; ++c) start.data[c] = 0;
        for (int64_t k = 0; k < Z.nonzeros; ++k) ++start.data[Z.indices[k] + 2];
        for (int64_t c = 2; c < Z.columns + 2; ++c) start.data[c] += start.data[c - 1];
        for (int64_t j = 0; j < Z.rows; ++j)
            for (I k = Z.indptr[j]; k < Z.indptr[j + 1]; ++k) {
                const int64_t place = start.data[Z.indices[k] + 1]++;  // afterwards start[c + 1] is the end of column c
                rows.data[place] = static_cast<I>(j);
                data.data[place] = Z.data[k];
            }
    }
};

// Only pairs that share a column are visited. finish(i, j, sum) gives the entry.
template <class Term, class T, class I, class Finish> bool csr_gram(Csr<T, I> X, Csr<T, I> Z, View<T> out, const Finish &finish) {
    if (!out.rows || !out.columns) return true;
    const Columns<T, I> columns(Z);
    Scratch<double> sum(Z.rows);
    Scratch<uint8_t> z_nan(Z.rows);
    if (!columns.ok || !sum.data || !z_nan.data) return false;
    for (int64_t j = 0; j < Z.rows; ++j) z_nan.data[j] = has_nan(Z, j);
    for (int64_t i = 0; i < X.rows; ++i) {
        for (int64_t j = 0; j < Z.rows; ++j) sum.data[j] = 0;
        for (I k = X.indptr[i]; k < X.indptr[i + 1]; ++k) {
            const double x = static_cast<double>(X.data[k]);
            const int64_t stop = columns.start.data[X.indices[k] + 1];
            for (int64_t e = columns.start.data[X.indices[k]]; e < stop; ++e)
                sum.data[columns.rows.data[e]] += Term::term(x, static_cast<double>(columns.data.data[e]));
        }
        const bool x_nan = has_nan(X, i);
        T *o = row(out, i);
        for (int64_t j = 0; j < Z.rows; ++j)
            o[j] = x_nan || z_nan.data[j] ? static_cast<T>(__builtin_nan("")) : finish(i, j, sum.data[j]);
    }
    return true;
}

template <class T> struct Narrow {
    INLINE T operator()(int64_t, int64_t, double sum) const { return static_cast<T>(sum); }
};
template <class T, class I> bool gram_chi2_csr(Csr<T, I> X, Csr<T, I> Z, View<T> out) {
    return csr_gram<SparseChi2<T>, T, I>(X, Z, out, Narrow<T>{});
}
template <class T, class I> bool gram_intersection_csr(Csr<T, I> X, Csr<T, I> Z, View<T> out) {
    return csr_gram<SparseMin, T, I>(X, Z, out, Narrow<T>{});
}

template <class T, class I> double csr_row_sum(Csr<T, I> A, int64_t i) {
    double total = 0;
    for (I k = A.indptr[i]; k < A.indptr[i + 1]; ++k) total += static_cast<double>(A.data[k]);
    return total;
}

// sum min / sum max of two sparse rows whose sums overflow, by merging them.
template <class T, class I> T csr_minmax_scaled(Csr<T, I> X, Csr<T, I> Z, int64_t i, int64_t j) {
    double low = 0, high = 0;
    I a = X.indptr[i], b = Z.indptr[j];
    const I a_stop = X.indptr[i + 1], b_stop = Z.indptr[j + 1];
    while (a < a_stop || b < b_stop) {
        const bool left = b >= b_stop || (a < a_stop && X.indices[a] <= Z.indices[b]);
        const bool right = a >= a_stop || (b < b_stop && Z.indices[b] <= X.indices[a]);
        const double x = left ? static_cast<double>(X.data[a++]) * 0x1p-64 : 0, z = right ? static_cast<double>(Z.data[b++]) * 0x1p-64 : 0;
        low += x < z ? x : z;
        high += x < z ? z : x;
    }
    return static_cast<T>(low / high);
}

template <class T, class I> struct MinMax {
    Csr<T, I> X, Z;
    const double *x_sum, *z_sum;
    INLINE T operator()(int64_t i, int64_t j, double low) const {
        const double total = x_sum[i] + z_sum[j];
        if (total - total != 0) return csr_minmax_scaled(X, Z, i, j);
        return static_cast<T>(minmax_ratio(low, x_sum[i], z_sum[j]));
    }
};
template <class T, class I> bool gram_minmax_csr(Csr<T, I> X, Csr<T, I> Z, View<T> out) {
    Scratch<double> x_sum(X.rows), z_sum(Z.rows);
    if (!x_sum.data || !z_sum.data) return false;
    for (int64_t i = 0; i < X.rows; ++i) x_sum.data[i] = csr_row_sum(X, i);
    for (int64_t j = 0; j < Z.rows; ++j) z_sum.data[j] = csr_row_sum(Z, j);
    return csr_gram<SparseMin, T, I>(X, Z, out, MinMax<T, I>{X, Z, x_sum.data, z_sum.data});
}

// G vectors of columns of every row, from column first on: the sums stay in registers. With an edge, only the first `left` lanes of W
// may be read; without one W is readable to the end of the last vector, and only what is beyond out is not written.
template <class T, class I, int G, bool edge = false, class Link>
void csr_panel(Csr<T, I> X, const T *w, int64_t stride, View<T> out, int64_t first, const Link &link) {
    const int64_t left = out.columns - first;
    for (int64_t i = 0; i < X.rows; ++i) {
        V<T> sum[G] = {};
        for (I k = X.indptr[i]; k < X.indptr[i + 1]; ++k) {
            const T *source = w + static_cast<int64_t>(X.indices[k]) * stride;
            const V<T> x = splat(X.data[k]);
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) sum[g] = muladd(x, edge ? load_n(source, left) : load(source + g * lanes<T>), sum[g]);
        }
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
            const int64_t here = left - g * lanes<T>;
            if (here > 0) link(row(out, i), first + g * lanes<T>, sum[g], here < lanes<T> ? here : lanes<T>);
        }
    }
}

template <class T, class I, class Link> bool csr_linked(Csr<T, I> X, View<const T> W, View<T> out, const Link &link) {
    constexpr int G = 8;
    constexpr int64_t width = G * lanes<T>;
    const int64_t m = out.columns;
    if (!out.rows || !m) return true;
    int64_t first = 0;
    // A copied panel is aligned, close together and padded with zeros. It costs one pass over W, so it must be used often enough.
    if (X.nonzeros < 4 * W.rows) {
        for (; first + width <= m; first += width) csr_panel<T, I, G>(X, W.data + first, W.stride, out, first, link);
        for (; first + lanes<T> <= m; first += lanes<T>) csr_panel<T, I, 1>(X, W.data + first, W.stride, out, first, link);
        if (first < m) csr_panel<T, I, 1, true>(X, W.data + first, W.stride, out, first, link);
        return true;
    }
    Scratch<T> panel(W.rows * width);
    if (!panel.data) return false;
    for (; first < m; first += width) {
        const int64_t used = m - first < width ? m - first : width;
        for (int64_t c = 0; c < W.rows; ++c) {
            const T *source = row(W, c) + first;
            T *target = panel.data + c * width;
            for (int64_t j = 0; j < used; ++j) target[j] = source[j];
            for (int64_t j = used; j < width; ++j) target[j] = 0;
        }
        if (used > width / 4) csr_panel<T, I, G>(X, panel.data, width, out, first, link);
        else csr_panel<T, I, G / 4>(X, panel.data, width, out, first, link);
    }
    return true;
}
template <class T, class I> bool csr_product(Csr<T, I> X, View<const T> W, View<T> out) { return csr_linked(X, W, out, Plain<T>{}); }
template <class T, class I> bool csr_exp2neg(Csr<T, I> X, View<const T> W, const T *offsets, double scale, View<T> out) {
    return csr_linked(X, W, out, WithExp2Neg<T>{splat(static_cast<T>(scale)), offsets});
}

}  // namespace
}  // namespace MERCER_ISA
