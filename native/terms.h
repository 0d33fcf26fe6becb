// The term of each Gram matrix: one step of acc += term(x, z), in a fast form and in one that is right over the whole range of floating point.
//
// fast: every value is 0 or in [low, high], so no quotient x / (x + z) underflows, and the reciprocal may be approximate.
// safe: orders that cannot overflow; float data is widened to double, where x + z and x z are always in range.
#pragma once
#include "math.h"

namespace MERCER_ISA {
namespace {

template <class T> struct Range;
template <> struct Range<float> {
    static constexpr float low = 0x1p-60f, high = 0x1p60f, tiny = 0x1p-90f, normal = 0x1p-126f;
};
template <> struct Range<double> {
    static constexpr double low = 0x1p-120, high = 0x1p120, tiny = 0x1p-600, normal = 0x1p-1022;
};

// acc + a b / s, where a, b <= s. rcp14 or rcpps and one Newton step: 2^-28 with AVX-512, 2^-23 with AVX2; a true division elsewhere.
#if MERCER_RCP
INLINE V<float> add_quotient(V<float> acc, V<float> a, V<float> b, V<float> s) {
    V<float> r = rcp(s);
    return muladd(a * r, b * muladd(-s, r, splat(2.0f)), acc);
}
#else
INLINE V<float> add_quotient(V<float> acc, V<float> a, V<float> b, V<float> s) { return muladd(a / s, b, acc); }
#endif
#if defined(MERCER_RCP_DOUBLE)  // rcp14 and two steps: 2^-52
INLINE V<double> add_quotient(V<double> acc, V<double> a, V<double> b, V<double> s) {
    V<double> r = rcp(s);
    r = r * muladd(-s, r, splat(2.0));
    return muladd(a * r, b * muladd(-s, r, splat(2.0)), acc);
}
#else
INLINE V<double> add_quotient(V<double> acc, V<double> a, V<double> b, V<double> s) { return muladd(a / s, b, acc); }
#endif

template <class T> struct Unchanged {
    static constexpr int together = 1;  // terms
    static INLINE T pack(T z) { return z; }
    static INLINE T finish(T sum) { return sum; }
};

// xz / (x + z), doubled at the end. Packed z = 0 is tiny instead, which saves the test for 0 / 0: a column then adds at most tiny,
// while a true term is at least low / 2, so a sum below low / 4 is 0.
template <class T> struct Chi2 {
    static constexpr int together = 1;
    static INLINE T pack(T z) { return z + Range<T>::tiny; }
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) { return add_quotient(acc, x, z, x + z); }
    static INLINE T finish(T sum) { return sum < Range<T>::low / 4 ? T(0) : 2 * sum; }
};
// xz / (x + z) = 1 / (1/x + 1/z) in double, of packed reciprocals on both sides: four terms are one fraction, which takes one division for
// four. 2^245 stands for 1/0: the product of four sums is in range, and what a column of zeros adds is far below low / 4.
template <> struct Chi2<double> {
    static constexpr int together = 4;
    static INLINE double pack(double z) { return z == 0 ? 0x1p245 : 1 / z; }
    static INLINE V<double> add(V<double> acc, const V<double> *u) {
        const V<double> above = u[0] + u[1], below = u[0] * u[1], other_above = u[2] + u[3], other_below = u[2] * u[3];
        const V<double> numerator = muladd(above, other_below, other_above * below), s = below * other_below;
#if defined(MERCER_RCP_DOUBLE)  // rcp14 and (1 + e)(1 + e^2): 2^-56
        const V<double> r = rcp(s), e = muladd(-s, r, splat(1.0));
        return muladd(numerator * muladd(e, r, r), muladd(e, e, splat(1.0)), acc);
#else
        return acc + numerator / s;
#endif
    }
    static INLINE double finish(double sum) { return sum < Range<double>::low / 4 ? 0.0 : 2 * sum; }
};
// The safe forms have a = min, b = max, u = a / b <= 1.
struct SafeChi2 : Unchanged<double> {
    static INLINE V<double> add(V<double> acc, V<double> x, V<double> z) {
        V<double> a = min(x, z), b = max(x, z), u = b == 0.0 ? b : a / b;
        return muladd(a, 2.0 / (1.0 + u), acc);
    }
};

template <class T> struct Chi2Distance : Unchanged<T> {
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) {
        V<T> difference = x - z;
        return add_quotient(acc, difference, difference, max(splat(Range<T>::tiny), x + z));
    }
};
struct SafeChi2Distance : Unchanged<double> {
    static INLINE V<double> add(V<double> acc, V<double> x, V<double> z) {
        V<double> a = min(x, z), b = max(x, z), difference = b - a, divisor = b == 0.0 ? splat(1.0) : b;
        return muladd(difference, (difference / divisor) / (1.0 + a / divisor), acc);
    }
};

template <class T> struct Intersection : Unchanged<T> {
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) { return acc + min(x, z); }
};

template <class T> struct L1 : Unchanged<T> {
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) { return acc + abs<T>(x - z); }
};

template <class T> struct L2 : Unchanged<T> {
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) {
        V<T> difference = x - z;
        return muladd(difference, difference, acc);
    }
};

// With a = min, b = max, u = a / b the term is (a / 2) ((1 + u) log2(1 + u) / u - log2 u): no part is negative, so nothing cancels.
template <class T> INLINE V<T> add_shannon(V<T> acc, V<T> a, V<T> u, V<T> log_u) {
    return muladd(a, T(0.5) * muladd(u + T(1), horner(Coefficients<T>::log1p, u), -log_u), acc);
}
template <class T> struct JensenShannon : Unchanged<T> {
    static INLINE V<T> add(V<T> acc, V<T> x, V<T> z) {
        V<T> a = min(x, z), u = a / max(splat(Range<T>::tiny), max(x, z));
        return add_shannon<T>(acc, a, u, log2<T>(max(u, splat(Range<T>::normal))));  // a = 0 gives 0 times a finite number
    }
};
struct SafeJensenShannon : Unchanged<double> {
    static INLINE V<double> normal_log2(V<double> x) {  // of a denormal too
        I<double> small = x < 0x1p-1000;
        return log2<double>(small ? x * 0x1p60 : x) - (small ? splat(60.0) : splat(0.0));
    }
    static INLINE V<double> add(V<double> acc, V<double> x, V<double> z) {
        V<double> a = min(x, z), b = max(x, z), u = b == 0.0 ? b : a / b;
        V<double> log_u = u < 0x1p-1000 ? normal_log2(a) - normal_log2(b) : log2<double>(u);
        return a == 0.0 ? acc : add_shannon<double>(acc, a, u, log_u);
    }
};

}  // namespace
}  // namespace MERCER_ISA
