// Generalized consistent weighted sampling. In a cell every operation is rounded by itself, nothing is fused: all instruction sets give
// the same codes as the definition in NumPy.
#pragma once
#include "math.h"

namespace MERCER_ISA {
namespace {

constexpr int hashes_together = 64, column_size = 4 * hashes_together;
constexpr uint64_t golden = 0x9E3779B97F4A7C15u;
typedef uint64_t Words __attribute__((vector_size(MERCER_BYTES)));
typedef float Half __attribute__((vector_size(MERCER_BYTES / 2)));
constexpr int words = MERCER_BYTES / 8;

// The finaliser of SplitMix64, of one word or a vector of them.
template <class W> INLINE W mix(W z) {
    z = (z ^ (z >> 30)) * uint64_t(0xBF58476D1CE4E5B9u);
    z = (z ^ (z >> 27)) * uint64_t(0x94D049BB133111EBu);
    return z ^ (z >> 31);
}

// word + 1/2 for words below 2^52, exact.
INLINE V<double> middle(Words word) { return reinterpret_cast<V<double>>(word | uint64_t(0x4330000000000000u)) - (0x1p52 - 0.5); }

INLINE V<double> ln(V<double> u) { return log2<double>(u) * 0.69314718055994531; }

// -ln(u u') for the halves u and u' of a word. Relative error a few eps, near u u' = 1 too: there the whole part of the logarithm is 0.
INLINE V<double> gamma2(Words word) {
    return -ln((middle(word >> 32) * 0x1p-32) * (middle(word & uint64_t(0xFFFFFFFFu)) * 0x1p-32));
}

INLINE void store_narrow(float *p, V<double> x) {
    const Half narrow = __builtin_convertvector(x, Half);
    __builtin_memcpy(p, &narrow, sizeof narrow);
}

void gcws_parameters(uint64_t seed, const uint64_t *ids, int64_t columns, uint64_t first, int64_t blocks, float *out) {
    Words lane;
    for (int i = 0; i < words; ++i) lane[i] = static_cast<uint64_t>(i);
    for (int64_t b = 0; b < blocks; ++b)
        for (int64_t i = 0; i < columns; ++i) {
            const uint64_t start = mix(seed + mix(ids[i])) + 4 * (first + static_cast<uint64_t>(b * hashes_together)) * golden;
            float *o = out + (b * columns + i) * column_size;
            for (int j = 0; j < hashes_together; j += words) {
                const Words at = start + (lane + static_cast<uint64_t>(j)) * (4 * golden);
                const V<double> r = gamma2(mix(at + golden)), c = gamma2(mix(at + 2 * golden));
                const V<double> beta = middle(mix(at + 3 * golden) >> 12) * 0x1p-52;
                store_narrow(o + j, 1.0 / r);
                store_narrow(o + hashes_together + j, beta);
                store_narrow(o + 2 * hashes_together + j, r);
                store_narrow(o + 3 * hashes_together + j, ln(c) - r * (1.0 - beta));
            }
        }
}

// t = floor(ln u / r + beta) and a = (ln c - r (1 - beta)) - r t for a vector of hashes, whose parameters start at p.
INLINE V<float> steps(V<float> log, V<float> inverse, V<float> beta) { return floor(log * inverse + beta); }

struct Hashes {
    V<float> inverse, beta, r, base;
    explicit INLINE Hashes(const float *p)
        : inverse(load(p)), beta(load(p + hashes_together)), r(load(p + 2 * hashes_together)), base(load(p + 3 * hashes_together)) {}
    INLINE V<float> operator()(V<float> log) const { return base - r * steps(log, inverse, beta); }
};

// The smallest a so far, and where it was found: the first of equals stays.
struct Smallest {
    V<float> a = splat(__builtin_inff());
    I<float> at = {};
    INLINE void see(V<float> value, int32_t where) {
        const I<float> less = value < a;
        at = less ? where - I<float>{} : at;
        a = less ? value : a;
    }
};

// t of the winners of N hashes. p: the parameters of column 0 and the first hash.
template <int N, class Column, class Log>
INLINE void winners_steps(const float *p, const int32_t *at, const Column &column, const Log &log, float *t) {
    float logs[N], inverse[N], beta[N];
    for (int j = 0; j < N; ++j) {
        const float *q = p + static_cast<int64_t>(column(at[j])) * column_size + j;
        logs[j] = log(at[j]);
        inverse[j] = q[0];
        beta[j] = q[hashes_together];
    }
    for (int j = 0; j < N; j += lanes<float>) store(t + j, steps(load(logs + j), load(inverse + j), load(beta + j)));
}

// The codes of N hashes of one row from their winners; the first `used` are written. fill_steps(at, t) fills in t of the winners.
template <int N, class Code, class Column, class Steps>
INLINE void write_codes(const Sampling &s, const Words *streams, const Smallest *found, int64_t used, const Column &column,
                        const Steps &fill_steps, Code *out) {
    float a[N], bits_of_t[N];
    int32_t at[N];
    uint64_t star[N];
    for (int g = 0; g < N / lanes<float>; ++g) {
        store(a + g * lanes<float>, found[g].a);
        __builtin_memcpy(at + g * lanes<float>, &found[g].at, sizeof found[g].at);
    }
    for (int j = 0; j < N; ++j) star[j] = s.ids[column(at[j])];
    if (s.keep_t) fill_steps(at, bits_of_t);
    Code code[N];
    for (int j = 0; j < N; j += words) {
        Words w, t;
        __builtin_memcpy(&w, star + j, sizeof w);
        w = mix(w ^ streams[j / words]);
        if (s.keep_t) {
            uint32_t narrow[words];
            __builtin_memcpy(narrow, bits_of_t + j, sizeof narrow);
            for (int i = 0; i < words; ++i) t[i] = narrow[i];
            w = mix(w + t * golden);
        }
        w >>= 64 - s.bits;
        for (int i = 0; i < words; ++i) code[j + i] = static_cast<Code>(w[i]);
    }
    for (int64_t j = 0; j < used; ++j) out[j] = a[j] < __builtin_inff() ? code[j] : Code(0);
}

// mix(seed + (j + 1) golden) for N hashes from hash j on.
template <int N> INLINE void fill_streams(const Sampling &s, int64_t j, Words *streams) {
    for (int i = 0; i < N; ++i)
        streams[i / words][i % words] = mix(s.seed + (s.first + static_cast<uint64_t>(j + i) + 1) * golden);
}

// R rows at a time, of the columns that any of them has: logs[R e + r] is that of row r and column columns[e].
template <int R> struct Group {
    int32_t *columns;
    float *logs;
    int64_t used;

    void pack(View<const float> A, int64_t first) {
        const float *x[R];
        used = 0;
        for (int r = 0; r < R; ++r) x[r] = first + r < A.rows ? row(A, first + r) : nullptr;
        for (int64_t c = 0; c < A.columns; ++c) {
            bool any = false;
            for (int r = 0; r < R; ++r) {
                const float value = x[r] ? x[r][c] : -__builtin_inff();
                logs[R * used + r] = value;
                any |= value != -__builtin_inff();
            }
            columns[used] = static_cast<int32_t>(c);
            used += any;
        }
    }

    template <class Code> void hash(const Sampling &s, const float *p, const Words *streams, int64_t first, View<Code> out, int64_t j) const {
        constexpr int L = lanes<float>;
        Smallest found[R];
        for (int64_t e = 0; e < used; ++e) {
            const Hashes hashes(p + static_cast<int64_t>(columns[e]) * column_size);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) found[r].see(hashes(splat(logs[R * e + r])), static_cast<int32_t>(e));
        }
        const int64_t left = out.columns - j;
        const auto column = [&](int32_t e) { return columns[e]; };
        for (int r = 0; r < R && first + r < out.rows; ++r) {
            const auto log = [&](int32_t e) { return logs[R * static_cast<int64_t>(e) + r]; };
            write_codes<L>(s, streams, &found[r], left < L ? left : L, column,
                           [&](const int32_t *at, float *t) { winners_steps<L>(p, at, column, log, t); }, row(out, first + r) + j);
        }
    }
};

template <class Code> void no_codes(View<Code> out) {
    for (int64_t i = 0; i < out.rows; ++i)
        for (int64_t j = 0; j < out.columns; ++j) row(out, i)[j] = 0;
}

// Rows [begin, end) in groups of R that are packed once for all hashes; a vector of hashes stays near while the groups pass by.
template <int R, class Code> bool gcws_rows(View<const float> logs, const Sampling &s, View<Code> out, int64_t begin, int64_t end) {
    constexpr int L = lanes<float>;
    constexpr int64_t near = 1 << 17;  // numbers
    const int64_t d = logs.columns, fit = near / (R * d), most = fit < 1 ? 1 : fit > 32 ? 32 : fit;
    Scratch<int32_t> columns(most * d);
    Scratch<float> packed(most * d * R);
    if (!columns.data || !packed.data) return false;
    for (int64_t start = begin; start < end; start += most * R) {
        Group<R> groups[32];
        int64_t count = 0;
        for (; count < most && start + count * R < end; ++count) {
            groups[count].columns = columns.data + count * d;
            groups[count].logs = packed.data + count * d * R;
            groups[count].pack(logs, start + count * R);
            if (!groups[count].used) groups[count].columns[0] = 0;
        }
        for (int64_t j = 0; j < out.columns; j += L) {
            Words streams[L / words];
            fill_streams<L>(s, j, streams);
            const float *p = s.parameters + j / hashes_together * d * column_size + j % hashes_together;
            for (int64_t g = 0; g < count; ++g) groups[g].hash(s, p, streams, start + g * R, out, j);
        }
    }
    return true;
}

template <class Code> bool gcws(View<const float> logs, Sampling s, View<Code> out) {
    constexpr int R = rows_in_registers;
    if (!logs.columns) return no_codes(out), true;
    const int64_t whole = logs.rows % R == 1 ? logs.rows - 1 : logs.rows;  // a last row alone goes alone
    return gcws_rows<R>(logs, s, out, 0, whole) && gcws_rows<1>(logs, s, out, whole, logs.rows);
}

// One row at a time, G vectors of hashes in registers; the parameters of the entries to come are called for early.
template <class Code, class Index> void gcws_csr_by_rows(Csr<float, Index> logs, Sampling s, View<Code> out) {
    constexpr int G = 4, N = G * lanes<float>, ahead = 3;
    for (int64_t j = 0; j < out.columns; j += N) {
        Words streams[N / words];
        fill_streams<N>(s, j, streams);
        const float *p = s.parameters + j / hashes_together * s.columns * column_size + j % hashes_together;
        const int64_t left = out.columns - j, used = left < N ? left : N;
        for (int64_t i = 0; i < logs.rows; ++i) {
            const int64_t begin = logs.indptr[i], entries = logs.indptr[i + 1] - begin;
            const Index *places = logs.indices + begin;
            const float *values = logs.data + begin;
            Code *o = row(out, i) + j;
            Smallest found[G];
            for (int64_t e = 0; e < entries; ++e) {
                const float *q = p + static_cast<int64_t>(places[e]) * column_size;
                if (begin + e + ahead < logs.nonzeros) {
                    const float *next = p + static_cast<int64_t>(places[e + ahead]) * column_size;
                    for (int k = 0; k < 4; ++k)
                        for (int g = 0; g < N; g += 16) __builtin_prefetch(next + k * hashes_together + g);
                }
                const V<float> log = splat(values[e]);
#pragma GCC unroll 4
                for (int g = 0; g < G; ++g) found[g].see(Hashes(q + g * lanes<float>)(log), static_cast<int32_t>(e));
            }
            const auto column = [&](int32_t e) { return places[e]; };
            const auto log = [&](int32_t e) { return values[e]; };
            if (entries)
                write_codes<N>(s, streams, found, used, column,
                               [&](const int32_t *at, float *t) { winners_steps<N>(p, at, column, log, t); }, o);
            else
                for (int64_t k = 0; k < used; ++k) o[k] = 0;
        }
    }
}

// Column by column, a vector of hashes at a time: the parameters, which are too many for the caches, are read once for all rows, and what
// the rows have found so far lies in memory. Entries of a column are in the order of the rows, those of a row in the order of the columns.
template <class Index> struct ByColumns {
    struct Entry {
        int32_t row, at;
        float log;
    };
    Scratch<int64_t> start;
    Scratch<Entry> entries;
    bool ok;

    ByColumns(Csr<float, Index> logs, int64_t columns)
        : start(columns + 2), entries(logs.nonzeros), ok(start.data && entries.data) {
        if (!ok) return;
        for (int64_t c = 0; c < columns + 2; ++c) start.data[c] = 0;
        for (int64_t e = 0; e < logs.nonzeros; ++e) ++start.data[logs.indices[e] + 2];
        for (int64_t c = 2; c < columns + 2; ++c) start.data[c] += start.data[c - 1];
        for (int64_t i = 0; i < logs.rows; ++i)
            for (int64_t e = logs.indptr[i]; e < static_cast<int64_t>(logs.indptr[i + 1]); ++e)
                entries.data[start.data[logs.indices[e] + 1]++] = {static_cast<int32_t>(i), static_cast<int32_t>(e), logs.data[e]};
    }
};
template <class Code, class Index> bool gcws_csr_by_columns(Csr<float, Index> logs, Sampling s, View<Code> out) {
    constexpr int L = lanes<float>, ahead = 4;
    const ByColumns<Index> by(logs, s.columns);
    Scratch<float> least(logs.rows * L), t(logs.rows * L);
    Scratch<int32_t> winners(logs.rows * L);
    if (!by.ok || !least.data || !t.data || !winners.data) return false;
    for (int64_t j = 0; j < out.columns; j += L) {
        Words streams[L / words];
        fill_streams<L>(s, j, streams);
        const float *p = s.parameters + j / hashes_together * s.columns * column_size + j % hashes_together;
        for (int64_t i = 0; i < logs.rows * L; ++i) {
            least.data[i] = __builtin_inff();
            winners.data[i] = 0;
        }
        for (int64_t c = 0; c < s.columns; ++c) {
            const Hashes hashes(p + c * column_size);
            if (c + ahead < s.columns)
                for (int k = 0; k < 4; ++k) __builtin_prefetch(p + (c + ahead) * column_size + k * hashes_together);
            for (int64_t e = by.start.data[c]; e < by.start.data[c + 1]; ++e) {
                const auto entry = by.entries.data[e];
                const int64_t at = static_cast<int64_t>(entry.row) * L;
                const V<float> turns = steps(splat(entry.log), hashes.inverse, hashes.beta), value = hashes.base - hashes.r * turns;
                const V<float> before = load(least.data + at);
                const I<float> less = value < before;
                I<float> winner;
                __builtin_memcpy(&winner, winners.data + at, sizeof winner);
                winner = less ? entry.at - I<float>{} : winner;
                store(least.data + at, less ? value : before);
                __builtin_memcpy(winners.data + at, &winner, sizeof winner);
                store(t.data + at, less ? turns : load(t.data + at));
            }
        }
        const int64_t left = out.columns - j;
        for (int64_t i = 0; i < logs.rows; ++i) {
            Smallest found;
            found.a = load(least.data + i * L);
            __builtin_memcpy(&found.at, winners.data + i * L, sizeof found.at);
            write_codes<L>(s, streams, &found, left < L ? left : L, [&](int32_t e) { return logs.indices[e]; },
                           [&](const int32_t *, float *to) { store(to, load(t.data + i * L)); }, row(out, i) + j);
        }
    }
    return true;
}

// Whether the columns of each row rise: of equal a the first entry wins, which by columns is that of the first column.
template <class Index> bool columns_rise(Csr<float, Index> x) {
    for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t e = static_cast<int64_t>(x.indptr[i]) + 1; e < static_cast<int64_t>(x.indptr[i + 1]); ++e)
            if (x.indices[e] <= x.indices[e - 1]) return false;
    return true;
}

// By columns where each is used by a few rows; by rows where the parameters of one would be read for a row or two.
template <class Code, class Index> bool gcws_csr(Csr<float, Index> logs, Sampling s, View<Code> out) {
    constexpr int64_t most = int64_t(1) << 31;
    if (logs.nonzeros && logs.nonzeros >= 4 * s.columns && logs.nonzeros < most && logs.rows < most && columns_rise(logs))
        return gcws_csr_by_columns(logs, s, out);
    return gcws_csr_by_rows(logs, s, out), true;
}

}  // namespace
}  // namespace MERCER_ISA
