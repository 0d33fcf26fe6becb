// Decimal numbers of text as doubles, rounded to nearest as Python's float() does: [+-] digits [. digits] [e [+-] digits], inf, infinity and
// nan in any case. No hexadecimal numbers, no underscores, no locale.
#pragma once
#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// The slow way, for numbers beyond the range of from_chars and for standard libraries without from_chars of doubles (libc++ before 20):
// strtod in the C locale, which rounds correctly in glibc, musl, macOS and Windows since 2015.
inline double by_strtod(const char *first, const char *last) {
    const std::string text(first, last);
#if defined(_WIN32)
    static const _locale_t c = _create_locale(LC_ALL, "C");
    return _strtod_l(text.c_str(), nullptr, c);
#else
    static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
    return strtod_l(text.c_str(), nullptr, c);
#endif
}

// The characters are a number without a plus sign.
inline double by_library(const char *first, const char *last) {
#if defined(__cpp_lib_to_chars) && !defined(MERCER_STRTOD)
    double value = 0;
    if (std::from_chars(first, last, value).ec == std::errc()) return value;
#endif
    return by_strtod(first, last);
}

inline bool has_word(const char *p, const char *end, const char *word) {
    for (; *word; ++p, ++word)
        if (p == end || (*p | 32) != *word) return false;
    return true;
}

// The number of eight digits, each a byte of 0 to 9, the first in the lowest byte.
inline uint64_t number_of(uint64_t digits) {
    digits = digits * 10 + (digits >> 8);
    return (((digits & 0x000000FF000000FF) * 0x000F424000000064) + (((digits >> 16) & 0x000000FF000000FF) * 0x0000271000000001)) >> 32;
}

// Append digits to the mantissa, which wraps from 20 digits on.
inline const char *read_digits(const char *p, const char *end, uint64_t *mantissa) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    for (uint64_t eight; end - p >= 8; p += 8) {
        std::memcpy(&eight, p, 8);
        eight ^= 0x3030303030303030;
        // the high bit of the first byte that is above 9; a carry changes only bytes after it
        const uint64_t others = ((eight + 0x7676767676767676) | eight) & 0x8080808080808080;
        if (others) {
            const int count = __builtin_ctzll(others) / 8;
            if (count) *mantissa = *mantissa * powers[count] + number_of(eight << (64 - 8 * count));
            return p + count;
        }
        *mantissa = *mantissa * 100000000 + number_of(eight);
    }
#endif
    for (; p < end && is_digit(*p); ++p) *mantissa = *mantissa * 10 + static_cast<uint64_t>(*p - '0');
    return p;
}

// Read the longest number at p; its end is returned, or nullptr where there is none.
inline const char *read_number(const char *p, const char *end, double *value) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) ++p;
    const char *const first = p;
    uint64_t mantissa = 0;
    if (p < end && is_digit(*p) && (p + 1 == end || !is_digit(p[1]))) mantissa = static_cast<uint64_t>(*p++ - '0');
    else p = read_digits(p, end, &mantissa);
    int64_t digits = p - first, exponent = 0;
    if (p < end && *p == '.') {
        const char *const fraction = ++p;
        p = read_digits(p, end, &mantissa);
        exponent = fraction - p;
        digits += p - fraction;
    }
    if (digits == 0) {
        const double sign = negative ? -1.0 : 1.0;
        if (p != first) return nullptr;  // a lone point
        if (has_word(p, end, "inf")) {
            *value = sign * std::numeric_limits<double>::infinity();
            return p + (has_word(p, end, "infinity") ? 8 : 3);
        }
        if (!has_word(p, end, "nan")) return nullptr;
        *value = std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
        return p + 3;
    }
    if (p < end && (*p | 32) == 'e') {
        const char *q = p + 1;
        const bool down = q < end && *q == '-';
        if (q < end && (*q == '-' || *q == '+')) ++q;
        if (q < end && is_digit(*q)) {
            int64_t power = 0;
            for (; q < end && is_digit(*q); ++q)
                if (power < 1000000) power = power * 10 + (*q - '0');
            exponent += down ? -power : power;
            p = q;
        }
    }
#if FLT_EVAL_METHOD == 0
    // Both factors are exact, so that one operation rounds once (Clinger 1990).
    if (digits <= 19 && mantissa <= uint64_t(1) << 53 && exponent >= -22 && exponent <= 22) {
        const double exact = static_cast<double>(mantissa);
        const double size = exponent < 0 ? exact / powers[-exponent] : exact * powers[exponent];
        *value = negative ? -size : size;
        return p;
    }
#endif
    const double size = by_library(first, p);
    *value = negative ? -size : size;
    return p;
}

}  // namespace
