// The lifts: each number x >= 0 becomes N numbers, side by side. 0 gives 0, NaN stays NaN.
#pragma once
#include "cos.h"

namespace MERCER_ISA {
namespace {

// Vector v of the N vectors that hold y[0], ..., y[N - 1] lane by lane, side by side: number K is lane (v L + K) / N of y[(v L + K) % N].
template <class T, int N, int v, int q, int... K> INLINE V<T> mixed(V<T> so_far, const V<T> *y, std::integer_sequence<int, K...> all) {
    if constexpr (q == N) {
        return so_far;
    } else {
        constexpr int L = lanes<T>;
        return mixed<T, N, v, q + 1>(__builtin_shufflevector(so_far, y[q], ((v * L + K) % N == q ? L + (v * L + K) / N : K)...), y, all);
    }
}
template <class T, int N, int v, int... K> INLINE V<T> mixed(const V<T> *y, std::integer_sequence<int, K...> all) {
    constexpr int L = lanes<T>;
    if constexpr (N == 1) return y[0];
    else return mixed<T, N, v, 2>(__builtin_shufflevector(y[0], y[1], ((v * L + K) / N + ((v * L + K) % N == 1 ? L : 0))...), y, all);
}
template <class T, int N, int... v> INLINE void store_mixed(T *out, const V<T> *y, std::integer_sequence<int, v...>) {
    (store(out + v * lanes<T>, mixed<T, N, v>(y, Lanes<T>{})), ...);
}

// Where a lift puts its values: N of them known to the compiler in registers, any other number straight into memory.
template <class T, int N> struct Put {
    V<T> y[N];
    T *out;
    int64_t n;
    static constexpr int64_t count(int64_t) { return N; }
    INLINE Put(T *o, int64_t, int64_t used) : out(o), n(used) {}
    INLINE void operator()(int64_t q, V<T> value) { y[q] = value; }
    INLINE void done() {
        if (n == lanes<T>) return store_mixed<T, N>(out, y, std::make_integer_sequence<int, N>{});
        T all[N * lanes<T>];
        store_mixed<T, N>(all, y, std::make_integer_sequence<int, N>{});
        for (int64_t i = 0; i < n * N; ++i) out[i] = all[i];
    }
};
template <class T> struct Put<T, 0> {
    T *out;
    int64_t width, n;
    static constexpr int64_t count(int64_t n) { return n; }
    INLINE Put(T *o, int64_t w, int64_t used) : out(o), width(w), n(used) {}
    INLINE void operator()(int64_t q, V<T> value) {
        for (int64_t i = 0; i < n; ++i) out[i * width + q] = value[i];
    }
    INLINE void done() {}
};

// Whether a number is not in [0, inf). Most often one comparison of bits says that none is: those of -0, of negative numbers, of NaN and of
// inf, as whole numbers without a sign, are above all others.
template <class T> INLINE bool outside(V<T> seen) {
    const V<T> infinity = splat(static_cast<T>(__builtin_inf()));
    return any<T>(reinterpret_cast<I<T>>(unsigned_bits<T>(seen) >= unsigned_bits<T>(infinity)));
}
template <class T> bool has_outside(View<const T> X) {
    for (int64_t i = 0; i < X.rows; ++i)
        for (int64_t j = 0; j < X.columns; ++j)
            if (const T x = row(X, i)[j]; !(x >= 0 && x - x == 0)) return true;
    return false;
}

template <int N, class T, class Lift> bool lift_as(View<const T> X, const Lift &lift, int64_t width, View<T> out) {
    V<T> seen{};
    const auto see = [&](V<T> x) __attribute__((always_inline)) {
        seen = unsigned_bits<T>(x) > unsigned_bits<T>(seen) ? x : seen;
        return x;
    };
    for (int64_t i = 0; i < X.rows; ++i) {
        const T *x = row(X, i);
        T *o = row(out, i);
        int64_t j = 0;
        for (; j + lanes<T> <= X.columns; j += lanes<T>) {
            Put<T, N> put(o + j * width, width, lanes<T>);
            lift(see(load(x + j)), put);
            put.done();
        }
        if (int64_t rest = X.columns - j) {
            Put<T, N> put(o + j * width, width, rest);
            lift(see(load_n(x + j, rest)), put);
            put.done();
        }
    }
    return outside<T>(seen);
}
template <class T, class Lift> bool lift_suspects(View<const T> X, const Lift &lift, int64_t width, View<T> out) {
    if (X.stride == X.columns && out.stride == out.columns) X = flat(X), out = flat(out);
    switch (width) {
    case 0: return true;
    case 1: return lift_as<1>(X, lift, width, out);
    case 2: return lift_as<Lift::odd ? 0 : 2>(X, lift, width, out);
    case 3: return lift_as<3>(X, lift, width, out);
    case 4: return lift_as<Lift::odd ? 0 : 4>(X, lift, width, out);
    case 5: return lift_as<5>(X, lift, width, out);
    case 6: return lift_as<Lift::odd ? 0 : 6>(X, lift, width, out);
    case 7: return lift_as<7>(X, lift, width, out);
    case 8: return lift_as<Lift::odd ? 0 : 8>(X, lift, width, out);
    default: return lift_as<0>(X, lift, width, out);
    }
}
// Returns whether a number of X is not in [0, inf).
template <class T, class Lift> bool lift_all(View<const T> X, const Lift &lift, int64_t width, View<T> out) {
    return lift_suspects(X, lift, width, out) && has_outside(X);
}

// Where x + k could overflow, both are made smaller first: x / (x + k) stays, and numbers so small that they lose digits give 0.
template <class T> T shrink(T largest_pole) {
    constexpr T large = sizeof(T) == 4 ? T(0x1p100) : T(0x1p960);
    return largest_pole > large ? T(0x1p-1) : T(1);
}

// (x - k)/(x + k) is 2 x/(x + k) - 1: one division for each pole. What this loses near x = k is small against the value at k itself.
template <class T> struct Pole {
    T at, amplitude;
};
template <class T> struct Chi2Series {
    static constexpr bool odd = false;
    const Pole<T> *poles;
    int64_t n_poles;
    T scale;

    template <class Put> INLINE void operator()(V<T> x, Put &put) const {
        x *= scale;
        V<T> product = splat(T(1));
#pragma GCC unroll 8
        for (int64_t q = 0; q < Put::count(n_poles); ++q) {
            const V<T> part = product * (x / (x + poles[q].at));
            put(q, part * poles[q].amplitude);
            product = muladd(part, splat(T(2)), -product);
        }
    }
};
template <class T> bool chi2_series(View<const T> X, const T *poles, int64_t n_poles, View<T> out, bool *bad) {
    Scratch<Pole<T>> prepared(n_poles);
    if (!prepared.data) return false;
    T largest = 0;
    for (int64_t q = 0; q < n_poles; ++q) largest = poles[q] > largest ? poles[q] : largest;
    const T scale = shrink(largest);
    for (int64_t q = 0; q < n_poles; ++q)
        prepared.data[q] = {poles[q] * scale, static_cast<T>(2 * __builtin_sqrt(static_cast<double>(poles[q])))};
    *bad = lift_all(X, Chi2Series<T>{prepared.data, n_poles, scale}, n_poles, out);
    return true;
}

// log2(x / c) from whole numbers and rests apart: nothing cancels where x is near c.
template <class T> struct Chi2Chebyshev {
    static constexpr bool odd = false;
    int64_t n_terms;
    T scale, center, amplitude, whole, rest;

    template <class Put> INLINE void operator()(V<T> x, Put &put) const {
        const Log2<T> l = Log2<T>::of_any(x);
        const V<T> logs = ((l.whole - whole) + (l.rest - rest)) * T(0.44127120030530319);  // 2 ln(x / c) / pi
        x *= scale;
        V<T> before{}, last = splat(amplitude) * (x / (x + center));
        if (Put::count(n_terms) > 0) put(0, last);
        if (Put::count(n_terms) > 1) {
            before = last;
            last *= logs * T(-0.70710678118654752);
            put(1, last);
        }
#pragma GCC unroll 8
        for (int64_t q = 2; q < Put::count(n_terms); ++q) {
            const T inverse = T(1) / static_cast<T>(q);
            const V<T> next = muladd((q % 2 ? -logs : logs) * inverse, last, (static_cast<T>(q - 2) * inverse) * before);
            before = last;
            last = next;
            put(q, last);
        }
    }
};
template <class T> bool chi2_chebyshev(View<const T> X, int64_t n_terms, double center, View<T> out) {
    const T c = static_cast<T>(center), scale = shrink(c);
    const Log2<double> l = Log2<double>::of_any(splat(static_cast<double>(c)));
    const T amplitude = static_cast<T>(2 * __builtin_sqrt(static_cast<double>(c)));
    const Chi2Chebyshev<T> lift{n_terms, scale, c * scale, amplitude, static_cast<T>(l.whole[0]), static_cast<T>(l.rest[0])};
    return lift_all(X, lift, n_terms, out);
}

// c log2 x, as a whole number and a rest: c = high + low, where high times the whole part of the logarithm is exact.
template <class T> struct Multiple {
    T high, low, both;

    static Multiple of(double c) {
        constexpr int spare = sizeof(T) == 4 ? 8 : 11;  // bits of the largest whole logarithm
        const T both = static_cast<T>(c);
        const T high = number<T>((bits<T>(splat(both)) >> spare) << spare)[0];
        return {high, static_cast<T>(c - static_cast<double>(high)), both};
    }
    INLINE void operator()(const Log2<T> &l, V<T> &whole, V<T> &rest) const {
        const V<T> exact = l.whole * high;
        whole = round(exact);
        rest = (exact - whole) + muladd(l.whole, splat(low), l.rest * both);
        const V<T> more = round(rest);
        whole += more;
        rest -= more;
    }
};

// x^p. The whole part of p log2 x is cut to where the result is 0 or inf anyway.
template <class T> INLINE V<T> power(V<T> x, const Log2<T> &l, const Multiple<T> &p) {
    using C = Coefficients<T>;
    V<T> whole, rest;
    p(l, whole, rest);
    whole = min(splat(C::exp2_high), max(splat(C::exp2_low), whole));
    const V<T> magic = splat(C::magic);
    const I<T> k = bits<T>(whole + magic) - bits<T>(magic), half = bits<T>(whole * T(0.5) + magic) - bits<T>(magic);
    return (x > T(0)) & (x - x == T(0)) ? exp2<T>(k, half, rest) : x;  // 0, inf and NaN stay
}

template <class T> struct Harmonic {
    enum How : int32_t { first, next, fresh };
    T amplitude;
    Multiple<T> turns;
    How how;
};
// Every second of neighbouring harmonics comes from the one before by angle addition. A longer chain would be a little faster, but the errors
// of the cosine and sine add up along it: beyond 4 eps after two steps.
template <class T> struct Homogeneous {
    static constexpr bool odd = true;  // the number of values
    const Harmonic<T> *harmonics;
    int64_t n_harmonics;
    T amplitude;
    Multiple<T> first_turns, exponent;
    bool square_root;

    template <class Put> INLINE void operator()(V<T> x, Put &put) const {
        Log2<T> l = Log2<T>::of_any(x);
        const V<T> root = square_root ? sqrt(x) : power<T>(x, l, exponent);
        put(0, root * amplitude);
        const int64_t n = Put::count(2 * n_harmonics + 1) / 2;
        if (!n) return;
        l.rest += x - x;  // inf has no angle
        const Sine<T> sine(1.0);
        V<T> whole, rest, c, s;
        const auto circle = [&](const Multiple<T> &turns) __attribute__((always_inline)) {
            turns(l, whole, rest);
            c = cos_turns<T>(rest, sine);
            s = sin_turns<T>(rest, sine);
        };
        circle(first_turns);
        const V<T> c1 = c, s1 = s;
#pragma GCC unroll 4
        for (int64_t j = 0; j < n; ++j) {
            const Harmonic<T> &h = harmonics[j];
            if (h.how == Harmonic<T>::next) {
                const V<T> turned = muladd(c, c1, -(s * s1));
                s = muladd(s, c1, c * s1);
                c = turned;
            } else if (h.how == Harmonic<T>::fresh) {
                circle(h.turns);
            }
            const V<T> size = root * h.amplitude;
            put(2 * j + 1, size * c);
            put(2 * j + 2, size * s);
        }
    }
};
template <class T>
bool homogeneous(View<const T> X, const T *amplitudes, const int64_t *harmonics, int64_t n_harmonics, double step, double degree, View<T> out,
                 bool *bad) {
    Scratch<Harmonic<T>> prepared(n_harmonics);
    if (!prepared.data) return false;
    const double turns = step * 0.11031780007632580;  // ln 2 / (2 pi): of log2 x, in turns
    bool next = false;
    for (int64_t j = 0; j < n_harmonics; ++j) {
        next = !next && j && harmonics[j] == harmonics[j - 1] + 1;
        prepared.data[j] = {amplitudes[j + 1], Multiple<T>::of(static_cast<double>(harmonics[j]) * turns),
                            next ? Harmonic<T>::next : harmonics[j] == 1 ? Harmonic<T>::first : Harmonic<T>::fresh};
    }
    const Homogeneous<T> lift{prepared.data, n_harmonics, amplitudes[0], Multiple<T>::of(turns), Multiple<T>::of(degree / 2), degree == 1};
    *bad = lift_all(X, lift, 2 * n_harmonics + 1, out);
    return true;
}

// A cubic polynomial for each of 2^s pieces of an octave, from 2^first on: piece and place come from the bits of x, without a logarithm.
// table[c] has 4 rows of `width` coefficients, those of t^0 first; c = 0 is for x = 0. All values of a number are one or a few packs, of which
// the last may reach beyond them: the next number is written over it.
template <class T, int N> struct Several {
    typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <class U, class T> INLINE U several(const T *p) {
    U u;
    __builtin_memcpy(&u, p, sizeof u);
    return u;
}
template <class U, class T> INLINE U cubic(const T *p, int64_t width, T t) {
    const U at = t - U{}, quadratic = muladd(several<U>(p + 3 * width), at, several<U>(p + 2 * width));
    return muladd(muladd(quadratic, at, several<U>(p + width)), at, several<U>(p));
}
template <class T, int N, bool one_pack> bool piecewise_as(View<const T> X, const Pieces<T> &pieces, View<T> out, bool *bad) {
    using C = Coefficients<T>;
    using Integer = typename Types<T>::Integer;
    constexpr int L = lanes<T>;
    const int s = pieces.per_octave, shift = C::mantissa - s;
    const Integer before = static_cast<Integer>((pieces.first + C::bias) * (int64_t(1) << s)) - 1, mask = (Integer(1) << C::mantissa) - 1;
    using U = typename Several<T, N>::Type;
    const T *table = pieces.table;
    const int64_t values = pieces.values, size = 4 * (one_pack ? N : pieces.width);
    const I<T> one = bits<T>(splat(T(1)));
    I<T> outside{};
    const Scratch<T> last(pieces.width);
    if (!last.data) return false;
    for (int64_t i = 0; i < X.rows; ++i) {
        const T *x = row(X, i);
        T *o = row(out, i), *end = o + (out.columns - size / 4);
        for (int64_t j = 0; j < X.columns; j += L) {
            const int64_t n = X.columns - j < L ? X.columns - j : L;
            const V<T> v = n == L ? load(x + j) : load_n(x + j, n);
            I<T> c = (bits<T>(v) >> shift) - before;
            V<T> t = number<T>(((bits<T>(v) << s) & mask) | one) - T(1.5);
            const I<T> inside = (c > 0) & (c < static_cast<Integer>(pieces.count)), zero = v == T(0);
            outside |= ~(inside | zero);
            c = inside ? c : I<T>{};
            t = inside ? t : zero ? V<T>{} : splat(static_cast<T>(__builtin_nan("")));
            Integer at[L];
            T place[L];
            __builtin_memcpy(at, &c, sizeof at);
            store(place, t);
            const auto put = [&](int64_t e, T *to) __attribute__((always_inline)) {
                const T *p = table + static_cast<int64_t>(at[e]) * size;
                for (int64_t q = 0; q < size / 4; q += N) {
                    const auto y = cubic<U>(p + q, size / 4, place[e]);
                    __builtin_memcpy(to + q, &y, sizeof y);
                }
            };
            int64_t e = 0;
            for (; e < n && o <= end; ++e, o += values) put(e, o);
            for (; e < n; ++e, o += values) {  // the last numbers of a row
                put(e, last.data);
                for (int64_t q = 0; q < values; ++q) o[q] = last.data[q];
            }
        }
    }
    *bad = any<T>(outside);
    return true;
}
template <class T> bool piecewise_cubic(View<const T> X, Pieces<T> pieces, View<T> out, bool *bad) {
    if (X.stride == X.columns && out.stride == out.columns) X = flat(X), out = flat(out);
    if (pieces.width == 4) return piecewise_as<T, 4, true>(X, pieces, out, bad);
    if (pieces.width == 8) return piecewise_as<T, 8, true>(X, pieces, out, bad);
    return piecewise_as<T, 8, false>(X, pieces, out, bad);
}

// Indices of a CSR matrix, by their bits in a number of the same size: k -> N k, N k + 1, ..., N k + N - 1.
template <class T> struct Spread {
    static constexpr bool odd = false;
    int64_t values;

    template <class Put> INLINE void operator()(V<T> x, Put &put) const {
        using Integer = typename Types<T>::Integer;
        const I<T> first = bits<T>(x) * static_cast<Integer>(values);
#pragma GCC unroll 8
        for (int64_t q = 0; q < Put::count(values); ++q) put(q, number<T>(first + static_cast<Integer>(q)));
    }
};
template <class T> void spread(View<const T> indices, View<T> out) { lift_suspects(indices, Spread<T>{out.columns}, out.columns, out); }

}  // namespace
}  // namespace MERCER_ISA
