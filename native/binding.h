// What every binding needs: NumPy arrays as views, each checked for shape, dtype, order and alignment, and a call without the GIL.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "table.h"

namespace nb = nanobind;
using namespace nb::literals;

extern const Table *table;  // set once, when the module is imported
void bind_codes(nb::module_ &m);
void bind_csv(nb::module_ &m);
void bind_svmlight(nb::module_ &m);

namespace {

template <class T> const Ops<T> &ops() {
    if constexpr (sizeof(T) == 4) return table->f32;
    else return table->f64;
}

template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
template <class T> using Cube = nb::ndarray<const T, nb::ndim<3>, nb::device::cpu, nb::c_contig>;

inline void require(bool good, const std::string &sentence) {
    if (!good) throw std::invalid_argument(sentence);
}

template <class Array> void require_aligned(const Array &array, const char *name, size_t size) {
    require(reinterpret_cast<uintptr_t>(array.data()) % size == 0, std::string(name) + " is not aligned in memory");
}

template <class T> View<T> view(const Matrix<T> &array, const char *name) {
    const auto rows = static_cast<int64_t>(array.shape(0)), columns = static_cast<int64_t>(array.shape(1));
    require(columns < 2 || rows == 0 || array.stride(1) == 1, std::string(name) + " must have the numbers of a row side by side");
    require_aligned(array, name, sizeof(T));
    const int64_t stride = rows < 2 ? columns : array.stride(0);
    if constexpr (!std::is_const_v<T>)
        require((stride < 0 ? -stride : stride) >= columns, std::string(name) + " is written to, but its rows overlap");
    return {array.data(), rows, columns, stride};
}

inline std::string shape(int64_t rows, int64_t columns) { return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")"; }

template <class T> void require_shape(const View<T> &A, int64_t rows, int64_t columns, const char *name) {
    require(A.rows == rows && A.columns == columns,
            std::string(name) + " must have shape " + shape(rows, columns) + ", got " + shape(A.rows, A.columns));
}

template <class T> const T *vector(const Vector<T> &array, int64_t size, const char *name) {
    require(static_cast<int64_t>(array.shape(0)) == size,
            std::string(name) + " must have " + std::to_string(size) + " numbers, got " + std::to_string(array.shape(0)));
    require_aligned(array, name, sizeof(T));
    return array.data();
}

template <class T, class I>
Csr<T, I> csr(const Vector<I> &indptr, const Vector<I> &indices, const Vector<T> &data, int64_t columns, const std::string &name) {
    require(indptr.shape(0) > 0, name + " indptr is empty");
    require(indices.shape(0) == data.shape(0), name + " indices and data differ in length");
    require_aligned(indptr, "indptr", sizeof(I));
    require_aligned(indices, "indices", sizeof(I));
    require_aligned(data, "data", sizeof(T));
    const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1, nonzeros = static_cast<int64_t>(data.shape(0));
    const I *p = indptr.data(), *k = indices.data();
    bool sorted = p[0] == 0 && p[rows] == nonzeros, inside = true;
    for (int64_t i = 0; i < rows; ++i) sorted &= p[i] <= p[i + 1];
    for (int64_t e = 0; e < nonzeros; ++e) inside &= k[e] >= 0 && k[e] < columns;
    require(sorted, name + " indptr must rise from 0 to the number of entries");
    require(inside, name + " indices must be in 0 .. " + std::to_string(columns - 1));
    return {p, k, data.data(), rows, columns, nonzeros};
}

template <class F> void run(F &&op) {
    bool enough = true;
    {
        nb::gil_scoped_release release;
        enough = op();
    }
    if (!enough) throw std::bad_alloc();
}

}  // namespace
