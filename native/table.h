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

template <class T> struct Signs {  // (blocks, 3, p), contiguous
    const T *data;
    int64_t blocks, p;
};

// Every function that needs memory of its own returns false when there is none.
template <class T, class I> struct CsrOps {
    using Gram = bool (*)(Csr<T, I> X, Csr<T, I> Z, View<T> out);
    Gram chi2, intersection, minmax;
    bool (*product)(Csr<T, I> X, View<const T> W, View<T> out);
    bool (*exp2neg)(Csr<T, I> X, View<const T> W, const T *offsets, double scale, View<T> out);
};

template <class T> struct Ops {
    void (*cos)(View<T> A, double scale, const T *phases);
    void (*cossin)(View<const T> A, double scale, View<T> out);
    void (*exp2neg)(View<T> A, double scale);
    bool (*hadamard)(View<const T> X, Signs<T> signs, const T *lengths, View<T> out);
    bool (*hadamard_cos)(View<const T> X, Signs<T> signs, const T *lengths, double scale, const T *phases, View<T> out);
    bool (*hadamard_cossin)(View<const T> X, Signs<T> signs, const T *lengths, double scale, View<T> out);
    // Lifts say whether a number of X is not in [0, inf): in *bad, or as their value where they need no memory.
    bool (*chi2_series)(View<const T> X, const T *poles, int64_t n_poles, View<T> out, bool *bad);
    bool (*chi2_chebyshev)(View<const T> X, int64_t n_terms, double center, View<T> out);
    bool (*homogeneous)(View<const T> X, const T *amplitudes, const int64_t *harmonics, int64_t n_harmonics, double step, double degree,
                        View<T> out, bool *bad);
    void (*spread)(View<const T> indices, View<T> out);  // integers of the size of T, by their bits
    using Gram = bool (*)(View<const T> X, View<const T> Z, View<T> out);
    Gram chi2, chi2_distance, intersection, minmax, jensen_shannon, l1;
    CsrOps<T, int32_t> csr32;
    CsrOps<T, int64_t> csr64;
};

struct Table {
    const char *name;
    Ops<float> f32;
    Ops<double> f64;
};

// ops.cpp is compiled once per instruction set; each copy defines the table of its own namespace.
namespace isa_base { extern const Table table; }
#ifdef MERCER_X86
namespace isa_avx2 { extern const Table table; }
namespace isa_avx512 { extern const Table table; }
#endif
