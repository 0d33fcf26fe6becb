// Numbers to codes: how many edges are below, or between which two anchors a number lies.
//
// The edges of a column are the nodes of a balanced tree, written level by level from place 1 on: from node i the way leads to 2 i, or to
// 2 i + 1 where the edge is at most x. Up to 63 edges, or the first levels of more, lie in registers as a tree of four ways at each node,
// whose edges are found by permutation: three comparisons that do not wait for each other in place of two that do.
#pragma once
#include <type_traits>

#include "cos.h"

namespace MERCER_ISA {
namespace {

template <class T> T next_above(T x) {  // e < x is next_above(e) <= x; NaN, which is at most nothing, for inf
    if (x - x != T(0)) return x < T(0) ? number<T>(bits<T>(splat(x)) - 1)[0] : static_cast<T>(__builtin_nan(""));
    if (x == T(0)) return number<T>(I<T>{} + 1)[0];
    return number<T>(bits<T>(splat(x)) + (x > T(0) ? 1 : -1))[0];
}

// For every row of edges a tree; what is missing to a full one is NaN, above all numbers. anchors, where they are used: (rows, size) in order.
template <class T> struct Trees {
    int depth = 0;
    int64_t size = 1;
    bool shared;
    Scratch<T> nodes, anchors, quarters;

    static int depth_for(int64_t edges) {  // 4, 6 or more where trees are in registers
        int depth = permutes<T> ? 4 : 0;
        while ((int64_t(1) << depth) - 1 < edges) ++depth;
        return permutes<T> && depth == 5 ? 6 : depth;
    }
    // Edges 0 .. count of a row start at data + offset; with as many anchors beside them as that needs.
    Trees(View<const T> rows, int64_t offset, int64_t count, bool inclusive, bool with_anchors)
        : depth(depth_for(with_anchors ? rows.columns - 1 : count)), size(int64_t(1) << depth), shared(rows.rows == 1),
          nodes(rows.rows * size), anchors(with_anchors ? rows.rows * size : 0), quarters(permutes<T> ? rows.rows * quarters_size() : 0) {
        if (!ok()) return;
        for (int64_t r = 0; r < rows.rows; ++r) {
            const T *edges = row(rows, r) + offset;
            T *tree = nodes.data + r * size;
            tree[0] = static_cast<T>(__builtin_nan(""));
            for (int level = 0; level < depth; ++level)
                for (int64_t q = 0; q < int64_t(1) << level; ++q) {
                    const int64_t at = ((2 * q + 1) << (depth - 1 - level)) - 1;
                    tree[(int64_t(1) << level) + q] = at >= count ? tree[0] : inclusive ? edges[at] : next_above(edges[at]);
                }
            if (with_anchors)
                for (int64_t a = 0; a < size; ++a) anchors.data[r * size + a] = a < rows.columns ? row(rows, r)[a] : tree[0];
            if constexpr (permutes<T>) fill_quarters(tree, quarters.data + r * quarters_size());
        }
    }
    bool ok() const { return nodes.data && anchors.data && quarters.data; }

    // Levels 2 s and 2 s + 1 of the first 4 or 6 as one of four ways: for node q of 4^s, its edge between the halves and those in them.
    static constexpr int64_t node_count(int s) { return (1 << 2 * s) < lanes<T> ? lanes<T> : 1 << 2 * s; }
    int64_t quarters_size() const { return 3 * (node_count(0) + node_count(1) + (depth > 4 ? node_count(2) : 0)); }
    void fill_quarters(const T *tree, T *out) const {
        for (int s = 0; s < (depth > 4 ? 3 : 2); ++s)
            for (int e = 0; e < 3; ++e)
                for (int64_t q = 0; q < node_count(s); ++q) {  // repeated up to a vector
                    const int64_t i = (int64_t(1) << 2 * s) + q % (1 << 2 * s);
                    *out++ = tree[e == 1 ? i : e ? 2 * i + 1 : 2 * i];
                }
    }
};

template <class T, int N> INLINE V<T> looked_up(const T *table, I<T> i) {  // table[i % N]
    constexpr int L = lanes<T>;
    if constexpr (N <= L) return permuted(load(table), i);
    else if constexpr (N == 2 * L) return permuted(load(table), load(table + L), i);
    else return (i & (N / 2)) != 0 ? looked_up<T, N / 2>(table + N / 2, i) : looked_up<T, N / 2>(table, i);
}

// The trees of a vector of numbers: one for all lanes, its first levels in registers, more of them (deep) by place ...
template <class T, int levels, bool deep> struct Near {
    static constexpr int last = levels / 2 - 1, vectors = static_cast<int>(Trees<T>::node_count(last)) / lanes<T>;
    const T *nodes, *anchors;
    int depth;
    V<T> quarters[last][3], last_quarters[3][vectors];  // copies: codes that are written might be those in memory

    INLINE Near(const T *n, const T *a, const T *q, int d) : nodes(n), anchors(a), depth(d) {
        for (int s = 0; s < last; ++s)
            for (int e = 0; e < 3; ++e, q += lanes<T>) quarters[s][e] = load(q);
        for (int e = 0; e < 3; ++e)
            for (int v = 0; v < vectors; ++v, q += lanes<T>) last_quarters[e][v] = load(q);
    }
    INLINE I<T> find(V<T> x) const {
        I<T> i = {};
#pragma GCC unroll 4
        for (int s = 0; s < last; ++s)  // all edges of the first node are in every lane
            step(i, x, s ? permuted(quarters[s][0], i) : quarters[s][0], s ? permuted(quarters[s][1], i) : quarters[s][1],
                 s ? permuted(quarters[s][2], i) : quarters[s][2]);
        step(i, x, from_last(0, i), from_last(1, i), from_last(2, i));
        if constexpr (!deep) return i;
        i += 1 << levels;
        for (int s = levels; s < depth; ++s) i = i + i - (picked(nodes, i) <= x);
        return i - (1 << depth);
    }
    static INLINE void step(I<T> &i, V<T> x, V<T> low, V<T> middle, V<T> high) {
        i = i << 2;
        i = low <= x ? i + 1 : i;  // masked additions
        i = middle <= x ? i + 1 : i;
        i = high <= x ? i + 1 : i;
    }
    INLINE V<T> from_last(int e, I<T> i) const {
        if constexpr (vectors == 1) return permuted(last_quarters[e][0], i);
        else return permuted(last_quarters[e][0], last_quarters[e][1], i);
    }
    INLINE V<T> anchor(I<T> c) const {
        if constexpr (deep) return picked(anchors, c);
        else return looked_up<T, 1 << levels>(anchors, c);
    }
    static INLINE V<T> picked(const T *table, I<T> i) {
        V<T> found;
        for (int k = 0; k < lanes<T>; ++k) found[k] = table[i[k]];
        return found;
    }
};
// ... or one for each, `apart` numbers from lane to lane, of any depth. Only the first n lanes are looked at.
template <class T> struct Far {
    const T *nodes, *anchors;
    int64_t apart;
    int depth;
    int64_t n;

    INLINE I<T> find(V<T> x) const {
        I<T> i = I<T>{} + 1;
        for (int s = 0; s < depth; ++s) i = i + i - (picked(nodes, i) <= x);
        return i - (1 << depth);
    }
    INLINE V<T> anchor(I<T> c) const { return picked(anchors, c); }
    INLINE V<T> picked(const T *table, I<T> i) const {
        V<T> found{};
        for (int64_t k = 0; k < n; ++k) found[k] = table[k * apart + i[k]];
        return found;
    }
};

template <class Code, class T> INLINE void store_codes(Code *p, I<T> codes, int64_t n) {
#if MERCER_BYTES == 32
    if constexpr (sizeof(Code) == 1 && sizeof(T) == 4) {  // the lowest bytes of the two halves, then both halves together
        if (n == lanes<T>) {
            const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1,
                                                 -1, -1, -1, -1, -1, -1, -1);
            const __m256i halves = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(codes), low);
            const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
            __builtin_memcpy(p, &both, lanes<T>);
            return;
        }
    }
#endif
    decltype(codes[0] + 0) wide[lanes<T>];
    Code narrow[lanes<T>];
    __builtin_memcpy(wide, &codes, sizeof wide);
    for (int k = 0; k < lanes<T>; ++k) narrow[k] = static_cast<Code>(wide[k]);  // one instruction, unlike __builtin_convertvector with GCC 12
    if (n == lanes<T>) __builtin_memcpy(p, narrow, sizeof narrow);
    else
        for (int64_t k = 0; k < n; ++k) p[k] = narrow[k];
}
template <class T> INLINE void store_codes(const NewCodes &codes, int64_t i, int64_t j, I<T> code, int64_t n) {
    const int64_t at = i * codes.stride + j;
    if (codes.bytes == 1) store_codes<uint8_t, T>(static_cast<uint8_t *>(codes.data) + at, code, n);
    else if (codes.bytes == 2) store_codes<uint16_t, T>(static_cast<uint16_t *>(codes.data) + at, code, n);
    else store_codes<int32_t, T>(static_cast<int32_t *>(codes.data) + at, code, n);
}

// What is done with the trees: codes alone, or codes and fractions.
template <class T> struct Levels {
    static constexpr bool fractions = false;
    NewCodes codes;
    template <class Tree> static INLINE void find(const Tree &tree, V<T> x, I<T> &code, V<T> &) { code = tree.find(x); }
    INLINE void put(int64_t i, int64_t j, I<T> code, V<T>, int64_t n) const { store_codes<T>(codes, i, j, code, n); }
    bool whole(int64_t columns) const { return codes.stride == columns; }
};
template <class T> struct Brackets {
    static constexpr bool fractions = true;
    NewCodes codes;
    View<T> parts;
    template <class Tree> static INLINE void find(const Tree &tree, V<T> x, I<T> &code, V<T> &part) {
        code = tree.find(x);
        const V<T> low = tree.anchor(code), gap = tree.anchor(code + 1) - low;
        part = gap > T(0) ? min(splat(T(1)), max(splat(T(0)), (x - low) / gap)) : V<T>{};
    }
    INLINE void put(int64_t i, int64_t j, I<T> code, V<T> part, int64_t n) const {
        store_codes<T>(codes, i, j, code, n);
        n == lanes<T> ? store(row(parts, i) + j, part) : store_n(row(parts, i) + j, part, n);
    }
    bool whole(int64_t columns) const { return codes.stride == columns && parts.stride == columns; }
};

// The number with the largest bits, as whole numbers without a sign: that of all numbers in [0, inf).
template <class T> struct Seen {
    V<T> most = {};
    INLINE V<T> operator()(V<T> x) {
        most = unsigned_bits<T>(x) > unsigned_bits<T>(most) ? x : most;
        return x;
    }
};

// Lanes are columns; tree(j, n) has the trees of n of them from column j on.
template <class T, class Sink, class TreeAt> void along_rows(View<const T> X, const Sink &sink, const TreeAt &tree, Seen<T> &seen) {
    for (int64_t i = 0; i < X.rows; ++i) {
        const T *x = row(X, i);
        I<T> code;
        V<T> part{};
        int64_t j = 0;
        for (; j + lanes<T> <= X.columns; j += lanes<T>) {
            sink.find(tree(j, lanes<T>), seen(load(x + j)), code, part);
            sink.put(i, j, code, part, lanes<T>);
        }
        if (const int64_t n = X.columns - j) {
            sink.find(tree(j, n), seen(load_n(x + j, n)), code, part);
            sink.put(i, j, code, part, n);
        }
    }
}

// Lanes are rows of one column, whose tree serves them all: squares of numbers are transposed, and their codes back.
template <class Tree, class T, class Sink> void by_squares(View<const T> X, const Sink &sink, const Trees<T> &trees, Seen<T> &seen) {
    constexpr int L = lanes<T>;
    for (int64_t i = 0; i < X.rows; i += L)
        for (int64_t j = 0; j < X.columns; j += L) {
            const int64_t n = X.columns - j < L ? X.columns - j : L, rows = X.rows - i < L ? X.rows - i : L;
            V<T> x[L], part[L];
            for (int64_t r = 0; r < L; ++r) {
                const T *from = row(X, r < rows ? i + r : i) + j;
                x[r] = seen(n == L ? load(from) : load_n(from, n));
            }
            transpose<T>(x);
            for (int64_t c = 0; c < n; ++c) {
                I<T> code;
                const int64_t at = (j + c) * trees.size, quarters = (j + c) * trees.quarters_size();
                const Tree tree(trees.nodes.data + at, trees.anchors.data + at, trees.quarters.data + quarters, trees.depth);
                sink.find(tree, x[c], code, part[c]);
                x[c] = number<T>(code);
            }
            transpose<T>(x);
            if constexpr (Sink::fractions) transpose<T>(part);
            for (int64_t r = 0; r < rows; ++r) sink.put(i + r, j, bits<T>(x[r]), part[r], n);
        }
}

// The largest number; NaN where one is negative or not finite.
template <class T> T largest_of(View<const T> X, const Seen<T> &seen) {
    const auto whole = unsigned_bits<T>(seen.most);
    auto most = whole[0];
    for (int i = 1; i < lanes<T>; ++i) most = whole[i] > most ? whole[i] : most;
    T largest = 0;
    __builtin_memcpy(&largest, &most, sizeof largest);
    if (largest >= 0 && largest - largest == 0 && !__builtin_signbit(largest)) return largest;
    largest = 0;  // perhaps because of -0
    for (int64_t i = 0; i < X.rows; ++i)
        for (int64_t j = 0; j < X.columns; ++j) {
            const T x = row(X, i)[j];
            if (!(x >= 0 && x - x == 0)) return static_cast<T>(__builtin_nan(""));
            largest = x > largest ? x : largest;
        }
    return largest;
}

template <class T, class Sink> bool coded_by(View<const T> X, const Trees<T> &trees, const Sink &sink, T *largest) {
    if (!trees.ok()) return false;
    if (trees.shared && sink.whole(X.columns)) X = flat(X);  // one long row
    const T *nodes = trees.nodes.data, *anchors = trees.anchors.data;
    Seen<T> seen;
    if constexpr (permutes<T>) {
        const auto near = [&](auto tree) {
            if (trees.shared) along_rows(X, sink, [=](int64_t, int64_t) { return tree; }, seen);
            else by_squares<decltype(tree)>(X, sink, trees, seen);
        };
        const T *quarters = trees.quarters.data;
        if (trees.depth == 4) near(Near<T, 4, false>(nodes, anchors, quarters, 4));
        else if (trees.depth == 6) near(Near<T, 6, false>(nodes, anchors, quarters, 6));
        else near(Near<T, 6, true>(nodes, anchors, quarters, trees.depth));
    } else {
        const int64_t apart = trees.shared ? 0 : trees.size;
        const auto far = [&](int64_t j, int64_t n) { return Far<T>{nodes + j * apart, anchors + j * apart, apart, trees.depth, n}; };
        along_rows(X, sink, far, seen);
    }
    *largest = largest_of(X, seen);
    return true;
}

// *largest: the largest number of X, 0 where there are none; NaN where one is negative or not finite.
template <class T> bool levels(View<const T> X, View<const T> edges, bool inclusive, NewCodes out, T *largest) {
    *largest = 0;
    if (!X.rows || !X.columns) return true;
    return coded_by(X, Trees<T>(edges, 0, edges.columns, inclusive, false), Levels<T>{out}, largest);
}

// At or above anchor c, but for c + 1 to exist: the edges are all anchors but the first and the last.
template <class T> bool brackets(View<const T> X, View<const T> anchors, NewCodes codes, View<T> fractions, T *largest) {
    *largest = 0;
    if (!X.rows || !X.columns) return true;
    return coded_by(X, Trees<T>(anchors, 1, anchors.columns - 2, true, true), Brackets<T>{codes, fractions}, largest);
}

}  // namespace
}  // namespace MERCER_ISA
