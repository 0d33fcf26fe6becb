// What the binding calls: plain structs and one table of function pointers per instruction set.
// No member functions here: an inline one compiled with AVX-512 could be the copy that the linker keeps.
#pragma once
#include <cstdint>

template <class T> struct View {  // a matrix with unit column stride; row i starts at data + i * stride
    T *data;
    int64_t rows, columns, stride;
};

template <class T, class I> struct Csr {
    const I *indptr, *indices;
    const T *data;
    int64_t rows, columns, nonzeros;
};

template <class T> struct Signs {  // (blocks, rounds, p), contiguous
    const T *data;
    int64_t blocks, rounds, p;
};

template <class T, class Code> struct Coded {  // fractions.data is null where there are none
    View<const Code> codes;
    View<const T> fractions;
};

template <class T> struct Panels {  // (count, codes, m), contiguous
    T *data;
    int64_t count, codes, m;
};

template <class T> struct Pieces {  // (count, 4, width), contiguous: 2^per_octave pieces of each octave from 2^first on, the first one for 0
    const T *table;
    int64_t count, width, values;
    int per_octave;
    int64_t first;
};

struct NewCodes {  // codes to be written, of 1, 2 or 4 bytes
    void *data;
    int bytes;
    int64_t stride;  // in codes
};

struct Sampling {  // what the ops of consistent weighted sampling share
    const float *parameters;  // (blocks, columns, 4, 64), contiguous
    const uint64_t *ids;      // of the columns
    int64_t blocks, columns;
    uint64_t seed, first;  // the first hash
    int bits;
    bool keep_t;
};

template <class T> struct Sweep {  // rows in the order of a sweep of coordinate descent, and what their steps need
    const int64_t *order;
    int64_t count;
    const bool *empty;  // rows without codes; null where there are none
    const T *c;         // of the rows
    T scale, slope;
};

enum class Loss : int { squared, squared_hinge, logistic };

// Every function that needs memory of its own returns false when there is none.
template <class T, class I> struct CsrOps {
    using Gram = bool (*)(Csr<T, I> X, Csr<T, I> Z, View<T> out);
    Gram chi2, intersection, minmax;
    bool (*product)(Csr<T, I> X, View<const T> W, View<T> out);
    bool (*exp2neg)(Csr<T, I> X, View<const T> W, const T *offsets, double scale, View<T> out);
};

template <class T, class Code> struct CodedOps {
    uint32_t (*largest)(View<const Code> codes);
    bool (*product)(Coded<T, Code> x, Panels<const T> panels, View<T> out);
    bool (*sums)(Coded<T, Code> x, View<const T> R, Panels<T> out);
    bool (*rows)(Coded<T, Code> x, Panels<const T> tables, View<T> out);
    void (*descent)(View<const Code> codes, Sweep<T> sweep, Loss loss, View<const T> Y, View<T> F, View<T> a, T *b, Panels<T> W);
};

template <class T> struct Ops {
    void (*cos)(View<T> A, double scale, const T *phases);
    void (*cossin)(View<const T> A, double scale, View<T> out);
    void (*exp2neg)(View<T> A, double scale);
    void (*exp2neg_expanded)(View<T> A, const T *rows, const T *columns, double scale);
    void (*row_norm)(View<const T> X, View<T> out);
    bool (*product)(View<const T> X, View<const T> W, View<T> out);
    bool (*product_cos)(View<const T> X, View<const T> W, double scale, const T *phases, View<T> out);
    bool (*product_cossin)(View<const T> X, View<const T> W, double scale, View<T> out);
    void (*inner_products)(View<const T> X, View<const T> W, View<T> out);
    void (*weighted_sums)(View<const T> R, View<const T> X, View<T> out);
    bool (*hadamard)(View<const T> X, Signs<T> signs, const T *lengths, View<T> out);
    bool (*hadamard_cos)(View<const T> X, Signs<T> signs, const T *lengths, double scale, const T *phases, View<T> out);
    bool (*hadamard_cossin)(View<const T> X, Signs<T> signs, const T *lengths, double scale, View<T> out);
    // Lifts say whether a number of X is not in [0, inf): in *bad, or as their value where they need no memory.
    bool (*chi2_series)(View<const T> X, const T *poles, int64_t n_poles, View<T> out, bool *bad);
    bool (*chi2_chebyshev)(View<const T> X, int64_t n_terms, double center, View<T> out);
    bool (*homogeneous)(View<const T> X, const T *amplitudes, const int64_t *harmonics, int64_t n_harmonics, double step, double degree,
                        View<T> out, bool *bad);
    bool (*piecewise_cubic)(View<const T> X, Pieces<T> pieces, View<T> out, bool *bad);  // *bad: a number of X is neither 0 nor in a piece
    void (*spread)(View<const T> indices, View<T> out);  // integers of the size of T, by their bits
    using Gram = bool (*)(View<const T> X, View<const T> Z, View<T> out);
    Gram chi2, chi2_distance, intersection, minmax, jensen_shannon, l1, l2;
    CsrOps<T, int32_t> csr32;
    CsrOps<T, int64_t> csr64;
    bool (*levels)(View<const T> X, View<const T> edges, bool inclusive, NewCodes out, T *largest);
    bool (*brackets)(View<const T> X, View<const T> anchors, NewCodes codes, View<T> fractions, T *largest);
    CodedOps<T, uint8_t> coded8;
    CodedOps<T, uint16_t> coded16;
    CodedOps<T, int32_t> coded32;
};

template <class Code> struct GcwsOps {
    bool (*dense)(View<const float> logs, Sampling sampling, View<Code> out);
    bool (*csr32)(Csr<float, int32_t> logs, Sampling sampling, View<Code> out);
    bool (*csr64)(Csr<float, int64_t> logs, Sampling sampling, View<Code> out);
};

struct Table {
    const char *name;
    void (*gcws_parameters)(uint64_t seed, const uint64_t *ids, int64_t columns, uint64_t first, int64_t blocks, float *out);
    GcwsOps<uint8_t> gcws8;
    GcwsOps<uint16_t> gcws16;
    Ops<float> f32;
    Ops<double> f64;
};

// ops.cpp is compiled once per instruction set; each copy defines the table of its own namespace.
namespace isa_base { extern const Table table; }
#ifdef MERCER_X86
namespace isa_avx2 { extern const Table table; }
namespace isa_avx512 { extern const Table table; }
#endif
