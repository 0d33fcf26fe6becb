// Exact Gram blocks of two dense matrices: out[i, j] = sum_k term(X[i, k], Z[j, k]).
//
// Z is packed in panels of two vectors of its rows, X is broadcast number by number, and R x 2 sums stay in registers.
// 64 terms are summed plainly, the partial sums with their rounding errors kept, so that d = 50000 is as accurate as d = 64.
#pragma once
#include "terms.h"

namespace MERCER_ISA {
namespace {

constexpr int64_t plain_terms = 64;

// Which rows hold NaN (then the whole row or column of the result is NaN, whatever min and max do with it), and which are in range: order has
// these first, so that each pair of rows is summed by its own values, whatever rows are beside it.
template <class T> struct Looked {
    Scratch<uint8_t> nan;
    Scratch<int64_t> order;
    int64_t rows, narrow = 0;  // all zero or in [low, high]; NaN does not count
    bool ok;

    explicit Looked(View<const T> A) : nan(A.rows), order(A.rows), rows(A.rows), ok(nan.data && order.data) {
        if (!ok) return;
        int64_t wide_rows = 0;
        for (int64_t i = 0; i < A.rows; ++i) {
            const T *a = row(A, i);
            I<T> wide{}, no_number{};
            for (int64_t k = 0; k < A.columns; k += lanes<T>) {
                V<T> x = k + lanes<T> <= A.columns ? load(a + k) : load_n(a + k, A.columns - k);
                wide |= (x > Range<T>::high) | ((x < Range<T>::low) & (x != T(0)));
                no_number |= x != x;
            }
            nan.data[i] = any<T>(no_number);
            if (any<T>(wide)) order.data[A.rows - ++wide_rows] = i;
            else order.data[narrow++] = i;
        }
    }
};

// Some rows of a matrix, by their places.
template <class T> struct Some {
    View<T> matrix;
    const int64_t *places;
    int64_t count;
};

// R rows against one panel. C is the type of the sums: T, or double for float data out of range.
// Where several terms are taken together, x is packed as the panel is, and d a multiple of their number.
template <class Term, int R, class T, class C>
void panel_product(const T *const *x, const C *panel, int64_t d, C (*result)[2 * lanes<C>]) {
    V<C> total[R][2] = {}, error[R][2] = {};
    for (int64_t start = 0; start < d; start += plain_terms) {
        const int64_t stop = start + plain_terms < d ? start + plain_terms : d;
        V<C> sum[R][2] = {};
        if constexpr (Term::together > 1) {
            constexpr int N = Term::together;
            for (int64_t k = start; k < stop; k += N)
#pragma GCC unroll 2
                for (int h = 0; h < 2; ++h) {
                    const C *z = panel + k * 2 * lanes<C> + h * lanes<C>;
#pragma GCC unroll 8
                    for (int r = 0; r < R; ++r) {
                        V<C> u[N];
#pragma GCC unroll 4
                        for (int g = 0; g < N; ++g) u[g] = splat(x[r][k + g]) + load(z + g * 2 * lanes<C>);
                        sum[r][h] = Term::add(sum[r][h], u);
                    }
                }
        } else {
            for (int64_t k = start; k < stop; ++k) {
                const V<C> z0 = load(panel + k * 2 * lanes<C>), z1 = load(panel + k * 2 * lanes<C> + lanes<C>);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const V<C> value = splat(static_cast<C>(x[r][k]));
                    sum[r][0] = Term::add(sum[r][0], value, z0);
                    sum[r][1] = Term::add(sum[r][1], value, z1);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) {  // Knuth's exact addition
                V<C> a = total[r][h], b = sum[r][h], s = a + b, part = s - a;
                error[r][h] += (a - (s - part)) + (b - part);
                total[r][h] = s;
            }
    }
    for (int r = 0; r < R; ++r)
        for (int h = 0; h < 2; ++h) {
            V<C> whole = total[r][h] + error[r][h];
            store(&result[r][h * lanes<C>], total[r][h] - total[r][h] == C(0) ? whole : total[r][h]);  // inf has no error to add
        }
}

template <class Term, class T, class C> bool gram_as(Some<const T> X, Some<const T> Z, View<T> out) {
    constexpr int width = 2 * lanes<C>, R = rows_in_registers;
    constexpr int N = Term::together;
    const int64_t columns = X.matrix.columns, d = (columns + N - 1) / N * N;
    if (!X.count || !Z.count) return true;
    Scratch<C> panel(d * width), packed(N > 1 ? X.count * d : 0);
    if (!panel.data || !packed.data) return false;
    if constexpr (N > 1)
        for (int64_t i = 0; i < X.count; ++i) {
            const T *x = row(X.matrix, X.places[i]);
            for (int64_t k = 0; k < d; ++k) packed.data[i * d + k] = Term::pack(k < columns ? static_cast<C>(x[k]) : C(0));
        }
    for (int64_t j = 0; j < Z.count; j += width) {
        const int64_t used = Z.count - j < width ? Z.count - j : width;
        for (int64_t start = 0; start < d; start += 16)
            for (int64_t c = 0; c < width; ++c) {
                const T *z = row(Z.matrix, Z.places[j + (c < used ? c : 0)]);
                for (int64_t k = start; k < d && k < start + 16; ++k)
                    panel.data[k * width + c] = Term::pack(k < columns ? static_cast<C>(z[k]) : C(0));
            }
        C result[R][width];
        for (int64_t i = 0; i < X.count;) {
            const T *x[R];
            const int r = X.count - i >= R ? R : 1;
            for (int s = 0; s < r; ++s) {
                if constexpr (N > 1) x[s] = packed.data + (i + s) * d;
                else x[s] = row(X.matrix, X.places[i + s]);
            }
            if (r == R) panel_product<Term, R, T, C>(x, panel.data, d, result);
            else panel_product<Term, 1, T, C>(x, panel.data, d, result);
            for (int s = 0; s < r; ++s, ++i)
                for (int64_t c = 0; c < used; ++c) row(out, X.places[i])[Z.places[j + c]] = static_cast<T>(Term::finish(result[s][c]));
        }
    }
    return true;
}

template <class T> void put_nan(const Looked<T> &x, const Looked<T> &z, View<T> out) {
    const T nan = static_cast<T>(__builtin_nan(""));
    for (int64_t i = 0; i < out.rows; ++i)
        for (int64_t j = 0; j < out.columns; ++j)
            if (x.nan.data[i] | z.nan.data[j]) row(out, i)[j] = nan;
}

template <class Fast, class Safe, class T> bool gram(View<const T> X, View<const T> Z, View<T> out) {
    if (!out.rows || !out.columns) return true;
    const Looked<T> x(X), z(Z);
    if (!x.ok || !z.ok) return false;
    const Some<const T> x_all{X, x.order.data, x.rows}, z_all{Z, z.order.data, z.rows};
    if constexpr (std::is_base_of_v<Fast, Safe>) {  // one formula for all numbers
        if (!gram_as<Fast, T, T>(x_all, z_all, out)) return false;
        put_nan(x, z, out);
        return true;
    }
    const auto safe = [&](Some<const T> some, Some<const T> others) { return gram_as<Safe, T, typename Safe::Sum>(some, others, out); };
    const Some<const T> x_narrow{X, x.order.data, x.narrow}, x_wide{X, x.order.data + x.narrow, x.rows - x.narrow};
    const Some<const T> z_narrow{Z, z.order.data, z.narrow}, z_wide{Z, z.order.data + z.narrow, z.rows - z.narrow};
    if (!gram_as<Fast, T, T>(x_narrow, z_narrow, out) || !safe(x_narrow, z_wide) || !safe(x_wide, z_all)) return false;
    put_nan(x, z, out);
    return true;
}

template <class Term, class C> struct As : Term {
    using Sum = C;
};

template <class T> bool gram_chi2(View<const T> X, View<const T> Z, View<T> out) {
    return gram<Chi2<T>, As<SafeChi2, double>, T>(X, Z, out);
}
template <class T> bool gram_chi2_distance(View<const T> X, View<const T> Z, View<T> out) {
    return gram<Chi2Distance<T>, As<SafeChi2Distance, double>, T>(X, Z, out);
}
template <class T> bool gram_jensen_shannon(View<const T> X, View<const T> Z, View<T> out) {
    return gram<JensenShannon<T>, As<SafeJensenShannon, double>, T>(X, Z, out);
}
template <class T> bool gram_intersection(View<const T> X, View<const T> Z, View<T> out) {
    return gram<Intersection<T>, As<Intersection<T>, T>, T>(X, Z, out);
}
template <class T> bool gram_l1(View<const T> X, View<const T> Z, View<T> out) { return gram<L1<T>, As<L1<T>, T>, T>(X, Z, out); }
template <class T> bool gram_l2(View<const T> X, View<const T> Z, View<T> out) { return gram<L2<T>, As<L2<T>, T>, T>(X, Z, out); }

// A plain sum with its rounding error kept.
template <class T> T row_sum(const T *a, int64_t d) {
    T total = 0, error = 0;
    for (int64_t k = 0; k < d; ++k) {
        T s = total + a[k], part = s - total;
        error += (total - (s - part)) + (a[k] - part);
        total = s;
    }
    return total - total == 0 ? total + error : total;
}

// sum min / sum max of one pair whose sums overflow.
template <class T> T minmax_scaled(const T *x, const T *z, int64_t d) {
    double low = 0, high = 0;
    for (int64_t k = 0; k < d; ++k) {
        const double a = static_cast<double>(x[k]) * 0x1p-64, b = static_cast<double>(z[k]) * 0x1p-64;
        low += a < b ? a : b;
        high += a < b ? b : a;
    }
    return static_cast<T>(low / high);
}

// sum max = sum x + sum z - sum min, which is at least half of sum x + sum z: nothing is lost. Rounding never makes the ratio exceed 1.
template <class T> T minmax_ratio(T low, T x_sum, T z_sum) {
    const T high = x_sum + (z_sum - low);
    return high == 0 ? T(0) : low > high ? T(1) : low / high;
}

template <class T> bool gram_minmax(View<const T> X, View<const T> Z, View<T> out) {
    if (!out.rows || !out.columns) return true;
    Scratch<T> z_sum(Z.rows);
    if (!z_sum.data || !gram_intersection<T>(X, Z, out)) return false;
    for (int64_t j = 0; j < Z.rows; ++j) z_sum.data[j] = row_sum(row(Z, j), Z.columns);
    for (int64_t i = 0; i < X.rows; ++i) {
        const T x_sum = row_sum(row(X, i), X.columns);
        T *o = row(out, i);
        for (int64_t j = 0; j < Z.rows; ++j) {
            const T total = x_sum + z_sum.data[j];
            if (total - total == 0 || o[j] != o[j]) o[j] = minmax_ratio(o[j], x_sum, z_sum.data[j]);
            else o[j] = minmax_scaled(row(X, i), row(Z, j), X.columns);
        }
    }
    return true;
}

}  // namespace
}  // namespace MERCER_ISA
