// cos and sin of turns, 2^x and log2 for vectors. The coefficients come from fit.py.
#pragma once
#include "simd.h"

namespace MERCER_ISA {
namespace {

template <class T> struct Coefficients;
template <> struct Coefficients<float> {
    static constexpr float sine[] = {6.28318501f, -41.3416176f, 81.5986481f, -76.4960480f, 39.1341133f};
    static constexpr float exp2[] = {0.693147182f, 0.240226507f, 0.0555035695f, 0.00961803086f, 0.00133908668f, 0.000154697351f};
    static constexpr float log1p[] = {1.44269502f,   -0.721343577f, 0.480764955f,   -0.358916491f, 0.276688546f,  -0.193865448f,
                                      0.0914443061f, 0.00470351847f, -0.0454278328f, 0.0302574001f, -0.00700041233f};
    static constexpr float log[] = {2.88539004f, 0.961821795f, 0.574606538f, 0.479880780f};
    static constexpr float magic = 12582912.0f;                  // 1.5 * 2^23: adding it rounds to an integer
    static constexpr float exp2_low = -160.0f, exp2_high = 130.0f;  // 2^low is 0, 2^high is inf
    static constexpr int mantissa = 23, bias = 127;
    static constexpr int32_t sqrt_half = 0x3f3504f3;
};
template <> struct Coefficients<double> {
    static constexpr double sine[] = {6.2831853071795862,  -41.341702240399748, 81.605249276071717,   -76.705859752634623, 42.058693915280863,
                                      -15.094641369141220, 3.8199228053866734,  -0.71768544180969240, 0.10071494597434003};
    static constexpr double exp2[] = {0.69314718055994529,    0.24022650695910097,   0.055504108664821659,  0.0096181291076068882,
                                      0.0013333558146395991,  0.00015403530441738018, 1.5252733853296064e-5, 1.3215442586729588e-6,
                                      1.0178051720849785e-7,  7.0725861805645713e-9, 4.4566766585295480e-10};
    static constexpr double log1p[] = {1.4426950408889634,    -0.72134752044447992,  0.48089834696268263,   -0.36067376020197944,
                                       0.28853900746344818,   -0.24044915800528188,  0.20609906661694655,   -0.18033455571114887,
                                       0.16028166177962394,   -0.14416565170852616,  0.13068090620676887,   -0.11851224337660297,
                                       0.10598468261278136,   -0.091181817936985848, 0.072898262761133217,  -0.051991893817563382,
                                       0.031669889428842413,  -0.015732237528648246, 0.0060412179142837630, -0.0016674117298110006,
                                       0.00029258213355116839, -2.4414307997851202e-5};
    static constexpr double log[] = {2.8853900817779268,  0.96179669392597544, 0.57707801635569445, 0.41219858307323681, 0.32059890456864859,
                                     0.26230754565077957, 0.22198990453708486, 0.19113722118743856, 0.19134892934351663};
    static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double exp2_low = -1100.0, exp2_high = 1030.0;
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd;
};

template <class T, int N> INLINE V<T> horner(const T (&c)[N], V<T> x) {
    V<T> y = splat(c[N - 1]);
#pragma GCC unroll 32
    for (int k = N - 2; k >= 0; --k) y = muladd(y, x, splat(c[k]));
    return y;
}

// scale sin(2 pi u) for |u| <= 1/4: the amplitude is in the coefficients.
template <class T> struct Sine {
    static constexpr int terms = sizeof(Coefficients<T>::sine) / sizeof(T);
    V<T> c[terms];

    explicit INLINE Sine(double scale) {
        for (int k = 0; k < terms; ++k) c[k] = splat(static_cast<T>(scale * static_cast<double>(Coefficients<T>::sine[k])));
    }
    INLINE V<T> operator()(V<T> u) const {
        V<T> square = u * u, y = c[terms - 1];
#pragma GCC unroll 16
        for (int k = terms - 2; k >= 0; --k) y = muladd(y, square, c[k]);
        return y * u;
    }
};

template <class T> INLINE V<T> fraction(V<T> t) { return t - round(t); }  // exact; NaN for NaN and inf

// The fraction of t + phase. Both are reduced before they are added, so that the sum is at most 1 and its rounding 2^-25 turns in float.
template <class T> INLINE V<T> shifted(V<T> t, V<T> phase) { return fraction<T>(fraction<T>(t) + fraction<T>(phase)); }

// For r in [-1/2, 1/2]: cos(2 pi r) = sin(2 pi (1/4 - |r|)), and sin folds about +-1/4. Both folds are exact where it matters.
template <class T> INLINE V<T> cos_turns(V<T> r, const Sine<T> &sine) { return sine(splat(T(0.25)) - abs<T>(r)); }
template <class T> INLINE V<T> sin_turns(V<T> r, const Sine<T> &sine) {
    V<T> size = abs<T>(r);
    return sine(copysign<T>(min(splat(T(0.5)) - size, size), r));  // the second operand of min keeps NaN
}

template <class T> INLINE V<T> power_of_two(I<T> k) { return number<T>((k + Coefficients<T>::bias) << Coefficients<T>::mantissa); }

// 2^(k + f) for |f| <= 1/2 over the whole range: 2^k comes in two factors, so that denormal results are rounded once and overflow gives inf.
template <class T> INLINE V<T> exp2(I<T> k, I<T> half_k, V<T> f) {
    V<T> y = muladd(f, horner(Coefficients<T>::exp2, f), splat(T(1)));
    return y * power_of_two<T>(half_k) * power_of_two<T>(k - half_k);
}
template <class T> INLINE V<T> exp2(V<T> x) {
    using C = Coefficients<T>;
    const V<T> magic = splat(C::magic);
    x = min(splat(C::exp2_high), max(splat(C::exp2_low), x));
    V<T> shifted = x + magic, half = muladd(x, splat(T(0.5)), magic);
    return exp2<T>(bits<T>(shifted) - bits<T>(magic), bits<T>(half) - bits<T>(magic), x - (shifted - magic));
}

// log2 of a positive number as a whole number and a rest of at most 1/2 in size, which keeps all its digits.
template <class T> struct Log2 {
    V<T> whole, rest;

    explicit INLINE Log2(V<T> u) {  // of a normal number
        V<T> s, slope;
        split(u, whole, s, slope);
        rest = s * slope;
    }
    static INLINE void split(V<T> u, V<T> &whole, V<T> &s, V<T> &slope) {  // log2 u = whole + s slope
        using C = Coefficients<T>;
        I<T> one = bits<T>(splat(T(1)));
        // exponent field = bias + floor(log2(u / sqrt(1/2))), the sign bit is clear; unsigned, because sums overflow for NaN and -0
        using U = typename Types<T>::U;
        const U pattern = reinterpret_cast<U>(bits<T>(u));
        I<T> shifted = reinterpret_cast<I<T>>(pattern + reinterpret_cast<U>(one - C::sqrt_half));
        I<T> k = (shifted >> C::mantissa) - C::bias;
        V<T> m = number<T>(reinterpret_cast<I<T>>(pattern - (reinterpret_cast<U>(k) << C::mantissa)));
        s = (m - T(1)) / (m + T(1));
        whole = number<T>(bits<T>(splat(C::magic)) + k) - splat(C::magic);
        slope = horner(C::log, s * s);
    }
    static INLINE Log2 of_any(V<T> u) {  // of a denormal number too; finite and of no meaning for 0, NaN and inf
        constexpr T normal = sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022), up = sizeof(T) == 4 ? T(0x1p24) : T(0x1p54);
        constexpr T places = sizeof(T) == 4 ? T(24) : T(54);
        I<T> small = u < normal;
        Log2 found(small ? u * up : u);
        found.whole -= small ? splat(places) : splat(T(0));
        return found;
    }
};

// log2 of a normal positive number; absolute error about one eps of max(1, |log2 u|).
template <class T> INLINE V<T> log2(V<T> u) {
    V<T> whole, s, slope;
    Log2<T>::split(u, whole, s, slope);
    return muladd(s, slope, whole);
}

}  // namespace
}  // namespace MERCER_ISA
