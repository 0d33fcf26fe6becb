// Codes into tables: sums of the rows that the codes of a row name, their transpose, and the rows themselves side by side.
//
// A place has a panel of its own, or all share one. Places are taken in groups whose panels stay in the cache while all rows pass by.
#pragma once
#include <type_traits>

#include "math.h"
#include "simd.h"

namespace MERCER_ISA {
namespace {

template <class T, int N> struct Packs {
    typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <class T> struct Packs<T, 1> {
    using Type = T;
};
template <class T, int N> using Pack = typename Packs<T, N>::Type;  // N numbers: a vector, or one number
constexpr int64_t near_bytes = 1 << 18;  // what is summed over stays in the second cache, with room for codes
template <class T> constexpr int four = lanes<T> < 4 ? lanes<T> : 4;

template <class U, class T> INLINE U load_as(const T *p) {
    U u;
    __builtin_memcpy(&u, p, sizeof u);
    return u;
}
template <class U, class T> INLINE U all_lanes(T x) { return x - U{}; }
template <class M> INLINE bool any_of(M mask) {  // of the lanes of a comparison
    if constexpr (std::is_same_v<M, bool>) return mask;
    else {
        bool found = false;
        for (size_t i = 0; i < sizeof(M) / sizeof(mask[0]); ++i) found |= mask[i] != 0;
        return found;
    }
}

template <class Code> uint32_t largest(View<const Code> codes) {  // a negative code counts as larger than any other
    using Unsigned = std::make_unsigned_t<Code>;
    Unsigned found = 0;
    for (int64_t i = 0; i < codes.rows; ++i) {
        const Code *c = row(codes, i);
        for (int64_t j = 0; j < codes.columns; ++j) found = Unsigned(c[j]) > found ? Unsigned(c[j]) : found;
    }
    return found;
}

// body(panel, step, begin, end) for groups of places, whose panels start at panel + (c - begin) * step. `width` numbers are used of each row
// of a panel, and the groups are so large that these fill `near` bytes. With room, so many numbers may be read from the start of any row, and
// behind it: the last panels are a copy.
template <class T, class Body> bool by_groups(Panels<const T> panels, int64_t places, int64_t width, int64_t room, int64_t near, const Body &body) {
    const int64_t size = panels.codes * panels.m, enough = (room + size - 1) / size, tail = enough < panels.count ? enough : panels.count;
    const T *end = panels.data + (panels.count - tail) * size;
    Scratch<T> copy(room ? tail * size + room : 0);
    if (!copy.data) return false;
    if (room) {
        for (int64_t i = 0; i < tail * size; ++i) copy.data[i] = end[i];
        for (int64_t i = tail * size; i < tail * size + room; ++i) copy.data[i] = 0;
        end = copy.data;
    }
    if (panels.count == 1) return body(room ? end : panels.data, int64_t(0), int64_t(0), places), true;
    const int64_t fit = near / (panels.codes * width * static_cast<int64_t>(sizeof(T))), group = fit < 1 ? 1 : fit;
    const int64_t stop = places - tail;
    for (int64_t c = 0; c < stop; c += group) body(panels.data + c * size, size, c, c + group < stop ? c + group : stop);
    if (tail) body(end, size, stop, places);
    return true;
}

// sum_c (1 - f) panel[code] + f panel[code + 1] for R rows from row i on (the last one again where there are fewer), G packs of columns;
// from what the groups before left in out on, so that the order of the sum does not depend on the groups.
template <class U, int G, int R, bool blended, class T, class Code>
INLINE void gather(const Coded<T, Code> &x, int64_t i, const T *panel, int64_t step, int64_t m, int64_t begin, int64_t end, View<T> out,
                   int64_t first, int64_t used) {
    constexpr int W = sizeof(U) / sizeof(T);
    const Code *code[R];
    const T *fraction[R];
    U sum[R][G] = {};
    for (int r = 0; r < R; ++r) {
        const int64_t at = i + r < out.rows ? i + r : out.rows - 1;
        if (begin) {
            T all[G * W] = {};
            for (int64_t q = 0; q < used; ++q) all[q] = row(out, at)[first + q];
            __builtin_memcpy(sum[r], all, sizeof all);
        }
        code[r] = row(x.codes, at);
        fraction[r] = blended ? row(x.fractions, at) : nullptr;
    }
    for (int64_t c = begin; c < end; ++c, panel += step)
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const T *p = panel + static_cast<int64_t>(code[r][c]) * m;
            if constexpr (blended) {
                const T f = fraction[r][c];
                const U above = all_lanes<U>(f), below = all_lanes<U>(T(1) - f);
#pragma GCC unroll 4
                for (int g = 0; g < G; ++g) {
                    sum[r][g] = muladd(below, load_as<U>(p + g * W), sum[r][g]);
                    sum[r][g] = muladd(above, load_as<U>(p + m + g * W), sum[r][g]);
                }
            } else {
#pragma GCC unroll 4
                for (int g = 0; g < G; ++g) sum[r][g] += load_as<U>(p + g * W);
            }
        }
    for (int r = 0; r < R && i + r < out.rows; ++r) {
        T *o = row(out, i + r) + first;
        T all[G * W];
        __builtin_memcpy(all, sum[r], sizeof all);
        for (int64_t q = 0; q < used; ++q) o[q] = all[q];
    }
}

// Columns first .. first + used of all rows. Without fractions the loads are all there is: four rows at a time hide the additions.
template <class U, int G, class T, class Code>
bool product_columns(const Coded<T, Code> &x, Panels<const T> panels, View<T> out, int64_t first, int64_t used) {
    constexpr int W = sizeof(U) / sizeof(T), R = G > 2 && MERCER_BYTES < 64 ? 2 : 4;
    const int64_t room = first + G * W > panels.m ? G * W : 0;
    const auto pass = [&](auto blended, const T *panel, int64_t step, int64_t begin, int64_t end) {
        for (int64_t i = 0; i < out.rows; i += R)
            gather<U, G, R, decltype(blended)::value>(x, i, panel + first, step, panels.m, begin, end, out, first, used);
    };
    return by_groups(panels, x.codes.columns, used, room, near_bytes, [&](const T *panel, int64_t step, int64_t begin, int64_t end) {
        if (x.fractions.data) pass(std::true_type{}, panel, step, begin, end);
        else pass(std::false_type{}, panel, step, begin, end);
    });
}

template <class T, class Code> bool coded_product(Coded<T, Code> x, Panels<const T> panels, View<T> out) {
    constexpr int L = lanes<T>, F = four<T>;
    const int64_t m = panels.m;
    if (!x.codes.columns || !panels.codes) {
        for (int64_t i = 0; i < out.rows; ++i)
            for (int64_t q = 0; q < m; ++q) row(out, i)[q] = 0;
        return true;
    }
    if (!out.rows || !m) return true;
    if (m <= F) return product_columns<Pack<T, F>, 1>(x, panels, out, 0, m);
    if (m <= L) return product_columns<V<T>, 1>(x, panels, out, 0, m);
    if (m <= 2 * L) return product_columns<V<T>, 2>(x, panels, out, 0, m);
    if (m < 4 * L) return product_columns<V<T>, 4>(x, panels, out, 0, m);
    for (int64_t first = 0; first < m; first += 4 * L)  // the last columns overlap those before
        if (!product_columns<V<T>, 4>(x, panels, out, first + 4 * L <= m ? first : m - 4 * L, 4 * L)) return false;
    return true;
}

// out[c, code] += (1 - f) R[i], out[c, code + 1] += f R[i], row after row; sums lie padded to whole packs while a group is at work.
template <class U, int G, class T, class Code>
bool sum_columns(const Coded<T, Code> &x, View<const T> R, Panels<T> out, int64_t first, int64_t used) {
    constexpr int W = sizeof(U) / sizeof(T), width = G * W;
    const int64_t places = x.codes.columns, size = out.codes * width;
    const int64_t fit = near_bytes / (size * static_cast<int64_t>(sizeof(T))), group = fit < 1 ? 1 : fit < places ? fit : places;
    Scratch<T> sums(group * size);
    if (!sums.data) return false;
    for (int64_t begin = 0; begin < places; begin += group) {
        const int64_t here = places - begin < group ? places - begin : group;
        for (int64_t q = 0; q < here * size; ++q) sums.data[q] = 0;
        for (int64_t i = 0; i < R.rows; ++i) {
            T padded[width] = {};
            const T *r = row(R, i) + first;
            for (int64_t q = 0; q < used; ++q) padded[q] = r[q];
            U value[G];
            __builtin_memcpy(value, padded, sizeof value);
            const Code *code = row(x.codes, i) + begin;
            const T *fraction = x.fractions.data ? row(x.fractions, i) + begin : nullptr;
            for (int64_t c = 0; c < here; ++c) {
                T *s = sums.data + c * size + static_cast<int64_t>(code[c]) * width;
                const auto add = [&](T *target, T weight, bool weighted) __attribute__((always_inline)) {
#pragma GCC unroll 4
                    for (int g = 0; g < G; ++g) {
                        const U old = load_as<U>(target + g * W);
                        const U now = weighted ? muladd(all_lanes<U>(weight), value[g], old) : old + value[g];
                        __builtin_memcpy(target + g * W, &now, sizeof now);
                    }
                };
                if (fraction) {
                    add(s, T(1) - fraction[c], true);
                    add(s + width, fraction[c], true);
                } else {
                    add(s, T(1), false);
                }
            }
        }
        for (int64_t a = 0; a < here * out.codes; ++a) {
            T *o = out.data + (begin * out.codes + a) * out.m + first;
            for (int64_t q = 0; q < used; ++q) o[q] = sums.data[a * width + q];
        }
    }
    return true;
}

template <class T, class Code> bool coded_sums(Coded<T, Code> x, View<const T> R, Panels<T> out) {
    constexpr int L = lanes<T>, F = four<T>;
    const int64_t m = out.m;
    if (!out.codes || !m) return true;
    if (m == 1) return sum_columns<T, 1>(x, R, out, 0, 1);
    if (m <= F) return sum_columns<Pack<T, F>, 1>(x, R, out, 0, m);
    for (int64_t first = 0; first < m; first += 4 * L) {
        const int64_t left = m - first;
        const bool done = left <= L       ? sum_columns<V<T>, 1>(x, R, out, first, left)
                          : left <= 2 * L ? sum_columns<V<T>, 2>(x, R, out, first, left)
                                          : sum_columns<V<T>, 4>(x, R, out, first, left < 4 * L ? left : 4 * L);
        if (!done) return false;
    }
    return true;
}

// 1/(1 + e^m) of a pack, vector by vector; a single number is a lane of one.
template <class U, class T> INLINE U falling_sigmoid(U m) {
    constexpr T log2e = T(1.4426950408889634);
    constexpr int64_t whole = sizeof(U) < MERCER_BYTES ? 1 : sizeof(U) / MERCER_BYTES;
    V<T> part[whole] = {};
    __builtin_memcpy(part, &m, sizeof m);
    for (int64_t k = 0; k < whole; ++k) part[k] = T(1) / (T(1) + exp2<T>(part[k] * log2e));
    __builtin_memcpy(&m, part, sizeof m);
    return m;
}

// The weight y u of a row with the score f, q of its own for each unit of weight: u = c loss'(y f + q (u - y a)). See coded_descent in
// ops/reference_codes.py.
template <Loss loss, class U, class T> INLINE U new_weight(U y, U f, U old, T c, T q) {
    if constexpr (loss == Loss::squared) return c * (y - f + q * old) / (T(1) + c * q);
    const U rest = y * (f - q * old), zero = {};  // the margin that the other rows leave
    if constexpr (loss == Loss::squared_hinge) {
        const U u = c * (T(1) - rest) / (T(1) + c * q);
        return y * (u > zero ? u : zero);
    }
    // m = rest + c q/(1 + e^m): the difference is concave above 0 and convex below, so that Newton's steps from the side of 0 stay there.
    const T k = c * q;
    const auto above = rest + k / 2 >= zero;
    const U low = above ? (rest > zero ? rest : zero) : rest, end = rest + k, high = above ? end : (end < zero ? end : zero);
    U m = y * f;
    m = m > low ? m : low;
    m = m < high ? m : high;
    auto busy = m == m;
    for (int step = 0; step < 50; ++step) {
        const U s = falling_sigmoid<U, T>(m);
        U next = m - (m - rest - k * s) / (T(1) + k * s * (T(1) - s));
        next = next > low ? next : low;
        next = next < high ? next : high;
        const U change = next > m ? next - m : m - next;
        m = busy ? next : m;
        busy = busy & (change > (sizeof(T) == 4 ? T(1e-4) : T(1e-9)));  // the next one would be of its square
        if (!any_of(busy)) break;
    }
    return y * (c * falling_sigmoid<U, T>(m));
}

// One sweep of coordinate descent over the rows of order, for the columns of a pack from `first` on. The changes of the intercept are summed
// apart from it, where small ones would be lost.
template <Loss loss, class U, class T, class Code>
void descend_columns(View<const Code> codes, const Sweep<T> &sweep, View<const T> Y, View<T> F, View<T> a, T *b, Panels<T> W, int64_t first) {
    const int64_t panel_size = W.codes * W.m;
    const T scale = sweep.scale, slope = sweep.slope;
    const U start = load_as<U>(b + first);
    U total = {};
    for (int64_t k = 0; k < sweep.count; ++k) {
        const int64_t i = sweep.order[k], places = sweep.empty && sweep.empty[i] ? 0 : codes.columns;
        const Code *code = row(codes, i), *ahead = row(codes, sweep.order[k + 1 < sweep.count ? k + 1 : k]);
        U sum[4] = {};
        T *panel = W.data + first;
        for (int64_t p = 0; p < places; ++p, panel += panel_size) sum[p & 3] += load_as<U>(panel + static_cast<int64_t>(code[p]) * W.m);
        const U f = start + slope * total + scale * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
        const U y = load_as<U>(row(Y, i) + first), old = load_as<U>(row(a, i) + first);
        const U now = new_weight<loss, U, T>(y, f, old, sweep.c[i], scale * scale * T(places) + slope), change = now - old, step = scale * change;
        total += change;
        __builtin_memcpy(row(F, i) + first, &f, sizeof f);
        __builtin_memcpy(row(a, i) + first, &now, sizeof now);
        panel = W.data + first;
        for (int64_t p = 0; p < places; ++p, panel += panel_size) {
            T *w = panel + static_cast<int64_t>(code[p]) * W.m;
            __builtin_prefetch(panel + static_cast<int64_t>(ahead[p]) * W.m);
            const U moved = load_as<U>(w) + step;
            __builtin_memcpy(w, &moved, sizeof moved);
        }
    }
    const U end = start + slope * total;
    __builtin_memcpy(b + first, &end, sizeof end);
}

// Columns go by cache lines, and one by one at the end.
template <Loss loss, class T, class Code>
void descend(View<const Code> codes, const Sweep<T> &sweep, View<const T> Y, View<T> F, View<T> a, T *b, Panels<T> W) {
    constexpr int64_t line = 64 / sizeof(T);
    int64_t first = 0;
    for (; first + line <= W.m; first += line) descend_columns<loss, Pack<T, line>>(codes, sweep, Y, F, a, b, W, first);
    for (; first < W.m; ++first) descend_columns<loss, T>(codes, sweep, Y, F, a, b, W, first);
}
template <class T, class Code>
void coded_descent(View<const Code> codes, Sweep<T> sweep, Loss loss, View<const T> Y, View<T> F, View<T> a, T *b, Panels<T> W) {
    if (loss == Loss::squared) descend<Loss::squared>(codes, sweep, Y, F, a, b, W);
    if (loss == Loss::squared_hinge) descend<Loss::squared_hinge>(codes, sweep, Y, F, a, b, W);
    if (loss == Loss::logistic) descend<Loss::logistic>(codes, sweep, Y, F, a, b, W);
}

// The rows of r <= W numbers as packs of W: what is too much is written over by the next place, and the last places are written exactly.
template <int W, bool blended, class T, class Code>
void expand(const Coded<T, Code> &x, const T *table, int64_t step, int64_t r, int64_t begin, int64_t end, View<T> out) {
    using U = Pack<T, W>;
    const int64_t safe = (out.columns - W) / r;  // places whose pack stays inside its row are 0 .. safe
    for (int64_t i = 0; i < out.rows; ++i) {
        const Code *code = row(x.codes, i);
        const T *fraction = blended ? row(x.fractions, i) : nullptr, *t = table;
        T *o = row(out, i) + begin * r;
        for (int64_t c = begin; c < end; ++c, t += step, o += r) {
            const T *p = t + static_cast<int64_t>(code[c]) * r;
            U value = load_as<U>(p);
            if constexpr (blended) {
                value *= all_lanes<U>(T(1) - fraction[c]);
                value = muladd(all_lanes<U>(fraction[c]), load_as<U>(p + r), value);
            }
            if (W == 1 || (c <= safe && out.columns >= W)) {
                __builtin_memcpy(o, &value, sizeof value);
            } else {
                T all[W];
                __builtin_memcpy(all, &value, sizeof all);
                for (int64_t q = 0; q < r; ++q) o[q] = all[q];
            }
        }
    }
}

template <class T, class Code> bool coded_rows(Coded<T, Code> x, Panels<const T> tables, View<T> out) {
    const int64_t r = tables.m, places = x.codes.columns;
    if (!out.rows || !places || !r || !tables.codes) return true;
    const auto with = [&](auto width) {
        constexpr int W = decltype(width)::value;
        return by_groups(tables, places, r, r < W ? W : 0, 4 * near_bytes, [&](const T *table, int64_t step, int64_t begin, int64_t end) {
            if (x.fractions.data) expand<W, true>(x, table, step, r, begin, end, out);
            else expand<W, false>(x, table, step, r, begin, end, out);
        });
    };
    if (r == 1) return with(std::integral_constant<int, 1>{});
    if (r == 2) return with(std::integral_constant<int, 2>{});
    if (r <= 4) return with(std::integral_constant<int, 4>{});
    if (r <= 8) return with(std::integral_constant<int, 8>{});
    for (int64_t i = 0; i < out.rows; ++i)
        for (int64_t c = 0; c < places; ++c) {
            const T *p = tables.data + ((tables.count == 1 ? 0 : c) * tables.codes + static_cast<int64_t>(row(x.codes, i)[c])) * r;
            T *o = row(out, i) + c * r;
            if (x.fractions.data) {
                const T f = row(x.fractions, i)[c], rest = T(1) - f;
                for (int64_t q = 0; q < r; ++q) o[q] = muladd(f, p[r + q], rest * p[q]);
            } else {
                for (int64_t q = 0; q < r; ++q) o[q] = p[q];
            }
        }
    return true;
}

}  // namespace
}  // namespace MERCER_ISA
