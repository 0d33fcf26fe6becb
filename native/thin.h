// Products with few columns, for which BLAS copies the rows at a cost that nothing pays for.
// An entry has the same bits whatever block of rows and columns it is computed in.
#pragma once
#include "simd.h"

namespace MERCER_ISA {
namespace {

// Rows and columns whose sums, or whose factors, are in registers.
constexpr int inner_rows = MERCER_BYTES == 64 ? 4 : 3, inner_columns = MERCER_BYTES == 64 ? 6 : 4;
constexpr int sums_rows = MERCER_BYTES == 64 ? 6 : 3, sums_columns = 3;
constexpr int64_t thin_bytes = 1 << 17;  // of rows that stay in the cache while the columns pass

template <class T, int H> INLINE T lane_sum(V<T> x) {
    if constexpr (H == 0)
        return x[0];
    else
        return lane_sum<T, H / 2>(x + swap_lanes<T, H>(x, Lanes<T>{}));
}

// out = <x_i, w_j> of R rows and G vectors: the sums of each lane in the order of k, then those of the lanes, by halves.
template <class T, int R, int G> void inner_block(const T *x, int64_t stride, View<const T> W, int64_t j, T *out, int64_t out_stride) {
    constexpr int L = lanes<T>;
    V<T> sum[R][G];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) sum[r][g] = V<T>{};
    const int64_t d = W.columns;
    const T *w = row(W, j);
    auto step = [&](auto read, int64_t k) {
        V<T> value[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) value[r] = read(x + r * stride + k);
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
            const V<T> weight = read(w + g * W.stride + k);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) sum[r][g] = muladd(value[r], weight, sum[r][g]);
        }
    };
    int64_t k = 0;
    for (; k + L <= d; k += L) step([](const T *p) __attribute__((always_inline)) { return load(p); }, k);
    if (k < d) step([&](const T *p) __attribute__((always_inline)) { return load_n(p, d - k); }, k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) out[r * out_stride + g] = lane_sum<T, L / 2>(sum[r][g]);
}

// Calls work(j, std::integral_constant<int, g>) for groups of at most G of n columns, all of nearly the same size.
template <int G, class Work> void each_group(int64_t n, const Work &work) {
    const int64_t groups = (n + G - 1) / G;
    for (int64_t i = 0; i < groups; ++i) {
        const int64_t first = i * n / groups, size = (i + 1) * n / groups - first;
        auto find = [&](auto self, auto g) {
            if (size == g.value)
                work(first, g);
            else if constexpr (g.value > 1)
                self(self, std::integral_constant<int, g.value - 1>{});
        };
        find(find, std::integral_constant<int, G>{});
    }
}

template <class T> int64_t thin_tile(int64_t columns, int least) {
    const int64_t rows = thin_bytes / (static_cast<int64_t>(sizeof(T)) * (columns > 0 ? columns : 1));
    return rows > least ? rows / least * least : least;
}

// out = X W'
template <class T> void inner_products(View<const T> X, View<const T> W, View<T> out) {
    constexpr int R = inner_rows;
    const int64_t tile = thin_tile<T>(X.columns, R);
    for (int64_t first = 0; first < X.rows; first += tile) {
        const int64_t end = X.rows - first < tile ? X.rows : first + tile;
        each_group<inner_columns>(W.rows, [&](int64_t j, auto g) {
            int64_t i = first;
            for (; i + R <= end; i += R) inner_block<T, R, g.value>(row(X, i), X.stride, W, j, row(out, i) + j, out.stride);
            for (; i < end; ++i) inner_block<T, 1, g.value>(row(X, i), X.stride, W, j, row(out, i) + j, out.stride);
        });
    }
}

// out += sum of r_ij x_i over R rows i, for G rows j of out.
template <class T, int R, int G> void sums_block(const T *x, int64_t stride, const T *r, int64_t r_stride, View<T> out, int64_t j) {
    constexpr int L = lanes<T>;
    V<T> factor[R][G];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) factor[i][g] = splat(r[i * r_stride + j + g]);
    const int64_t d = out.columns;
    T *to = row(out, j);
    auto step = [&](auto read, auto write, int64_t k) {
        V<T> value[R];
#pragma GCC unroll 8
        for (int i = 0; i < R; ++i) value[i] = read(x + i * stride + k);
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
            V<T> sum = read(to + g * out.stride + k);
#pragma GCC unroll 8
            for (int i = 0; i < R; ++i) sum = muladd(value[i], factor[i][g], sum);
            write(to + g * out.stride + k, sum);
        }
    };
    int64_t k = 0;
    for (; k + L <= d; k += L) step([](const T *p) __attribute__((always_inline)) { return load(p); }, [](T *p, V<T> v) __attribute__((always_inline)) { store(p, v); }, k);
    if (k < d)
        step([&](const T *p) __attribute__((always_inline)) { return load_n(p, d - k); }, [&](T *p, V<T> v) __attribute__((always_inline)) { store_n(p, v, d - k); }, k);
}

// out = R'X, each entry summed in the order of the rows.
template <class T> void weighted_sums(View<const T> R, View<const T> X, View<T> out) {
    constexpr int B = sums_rows;
    for (int64_t j = 0; j < out.rows; ++j)
        for (int64_t k = 0; k < out.columns; ++k) row(out, j)[k] = T(0);
    const int64_t tile = thin_tile<T>(X.columns, B);
    for (int64_t first = 0; first < X.rows; first += tile) {
        const int64_t end = X.rows - first < tile ? X.rows : first + tile;
        each_group<sums_columns>(out.rows, [&](int64_t j, auto g) {
            int64_t i = first;
            for (; i + B <= end; i += B) sums_block<T, B, g.value>(row(X, i), X.stride, row(R, i), R.stride, out, j);
            for (; i < end; ++i) sums_block<T, 1, g.value>(row(X, i), X.stride, row(R, i), R.stride, out, j);
        });
    }
}

}  // namespace
}  // namespace MERCER_ISA
