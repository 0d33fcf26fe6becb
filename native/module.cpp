// The binding: every shape, dtype, order and index is checked here, the GIL is released, nothing is computed.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>
#include <stdexcept>

#include "cpu.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

const Table *table = nullptr;  // set once, when the module is imported

template <class T> const Ops<T> &ops();
template <> const Ops<float> &ops<float>() { return table->f32; }
template <> const Ops<double> &ops<double>() { return table->f64; }
template <class T, class I> const CsrOps<T, I> &csr_ops() {
    if constexpr (sizeof(I) == 4) return ops<T>().csr32;
    else return ops<T>().csr64;
}

template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
template <class T> using Cube = nb::ndarray<const T, nb::ndim<3>, nb::device::cpu, nb::c_contig>;

void require(bool good, const std::string &sentence) {
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

std::string shape(int64_t rows, int64_t columns) { return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")"; }

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

template <class F> void run(F &&op) {
    bool enough = true;
    {
        nb::gil_scoped_release release;
        enough = op();
    }
    if (!enough) throw std::bad_alloc();
}

template <class T> void cos_(Matrix<T> A, double scale, std::optional<Vector<T>> phases) {
    const auto a = view(A, "T");
    const T *shift = phases ? vector<T>(*phases, a.columns, "phases") : nullptr;
    run([&] { return ops<T>().cos(a, scale, shift), true; });
}

template <class T> void cossin(Matrix<const T> A, double scale, Matrix<T> out) {
    const auto a = view(A, "T");
    const auto o = view(out, "out");
    require_shape(o, a.rows, 2 * a.columns, "out");
    run([&] { return ops<T>().cossin(a, scale, o), true; });
}

template <class T> void exp2neg_(Matrix<T> A, double scale) {
    const auto a = view(A, "T");
    run([&] { return ops<T>().exp2neg(a, scale), true; });
}

// The arguments that the three Hadamard ops share.
template <class T> struct Transform {
    View<const T> x;
    Signs<T> signs;
    const T *lengths;
    View<T> out;

    Transform(const Matrix<const T> &X, const Cube<T> &S, const Vector<T> &L, const Matrix<T> &O, int64_t per_length)
        : x(view(X, "X")), signs{S.data(), static_cast<int64_t>(S.shape(0)), static_cast<int64_t>(S.shape(2))}, out(view(O, "out")) {
        const auto m = static_cast<int64_t>(L.shape(0));
        require(S.shape(1) == 3, "signs must have shape (blocks, 3, p)");
        require_aligned(S, "signs", sizeof(T));
        const int64_t p = signs.p;
        require(p > 0 && (p & (p - 1)) == 0, "p must be a power of two, got " + std::to_string(p));
        require(x.columns <= p, "X has " + std::to_string(x.columns) + " columns, more than p = " + std::to_string(p));
        require(m <= signs.blocks * p, "lengths has " + std::to_string(m) + " numbers, more than blocks * p");
        lengths = vector<T>(L, m, "lengths");
        require_shape(out, x.rows, per_length * m, "out");
    }
};

template <class T> void hadamard(Matrix<const T> X, Cube<T> signs, Vector<T> lengths, Matrix<T> out) {
    const Transform<T> t(X, signs, lengths, out, 1);
    run([&] { return ops<T>().hadamard(t.x, t.signs, t.lengths, t.out); });
}

template <class T>
void hadamard_cos(Matrix<const T> X, Cube<T> signs, Vector<T> lengths, double scale, std::optional<Vector<T>> phases, Matrix<T> out) {
    const Transform<T> t(X, signs, lengths, out, 1);
    const T *shift = phases ? vector<T>(*phases, t.out.columns, "phases") : nullptr;
    run([&] { return ops<T>().hadamard_cos(t.x, t.signs, t.lengths, scale, shift, t.out); });
}

template <class T> void hadamard_cossin(Matrix<const T> X, Cube<T> signs, Vector<T> lengths, double scale, Matrix<T> out) {
    const Transform<T> t(X, signs, lengths, out, 2);
    run([&] { return ops<T>().hadamard_cossin(t.x, t.signs, t.lengths, scale, t.out); });
}

template <class T> bool chi2_series(Matrix<const T> X, Vector<T> poles, Matrix<T> out) {
    const auto x = view(X, "X");
    const auto o = view(out, "out");
    const auto n = static_cast<int64_t>(poles.shape(0));
    const T *k = vector<T>(poles, n, "poles");
    require_shape(o, x.rows, n * x.columns, "out");
    bool bad = false;
    run([&] { return ops<T>().chi2_series(x, k, n, o, &bad); });
    return bad;
}

template <class T> bool chi2_chebyshev(Matrix<const T> X, int64_t n_terms, double center, Matrix<T> out) {
    const auto x = view(X, "X");
    const auto o = view(out, "out");
    require(n_terms >= 0, "n_terms is negative");
    require_shape(o, x.rows, n_terms * x.columns, "out");
    bool bad = false;
    run([&] { return bad = ops<T>().chi2_chebyshev(x, n_terms, center, o), true; });
    return bad;
}

template <class T>
bool homogeneous(Matrix<const T> X, Vector<T> amplitudes, Vector<int64_t> harmonics, double step, double degree, Matrix<T> out) {
    const auto x = view(X, "X");
    const auto o = view(out, "out");
    const auto n = static_cast<int64_t>(harmonics.shape(0));
    const T *a = vector<T>(amplitudes, n + 1, "amplitudes");
    const int64_t *h = vector<int64_t>(harmonics, n, "harmonics");
    for (int64_t j = 0; j < n; ++j) require(h[j] > (j ? h[j - 1] : 0), "harmonics must be at least 1 and rise");
    require_shape(o, x.rows, (2 * n + 1) * x.columns, "out");
    bool bad = false;
    run([&] { return ops<T>().homogeneous(x, a, h, n, step, degree, o, &bad); });
    return bad;
}

// T is the number of the size of the index I: a vector of either can be shuffled in the same way.
template <class T, class I> void spread(Vector<I> indices, Matrix<I> out) {
    static_assert(sizeof(T) == sizeof(I));
    const auto o = view(out, "out");
    const I *k = vector<I>(indices, o.rows, "indices");
    const View<const T> column{reinterpret_cast<const T *>(k), o.rows, 1, 1};
    const View<T> target{reinterpret_cast<T *>(o.data), o.rows, o.columns, o.stride};
    run([&] { return ops<T>().spread(column, target), true; });
}

template <class T, typename Ops<T>::Gram Ops<T>::*op> void gram(Matrix<const T> X, Matrix<const T> Z, Matrix<T> out) {
    const auto x = view(X, "X"), z = view(Z, "Z");
    const auto o = view(out, "out");
    require(x.columns == z.columns, "X has " + std::to_string(x.columns) + " columns, Z has " + std::to_string(z.columns));
    require_shape(o, x.rows, z.rows, "out");
    run([&] { return (ops<T>().*op)(x, z, o); });
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

template <class T, class I, typename CsrOps<T, I>::Gram CsrOps<T, I>::*op>
void csr_gram(Vector<I> Xp, Vector<I> Xi, Vector<T> Xd, Vector<I> Zp, Vector<I> Zi, Vector<T> Zd, int64_t columns, Matrix<T> out) {
    require(columns >= 0, "n_columns is negative");
    const auto x = csr<T, I>(Xp, Xi, Xd, columns, "X"), z = csr<T, I>(Zp, Zi, Zd, columns, "Z");
    const auto o = view(out, "out");
    require_shape(o, x.rows, z.rows, "out");
    run([&] { return (csr_ops<T, I>().*op)(x, z, o); });
}

template <class T, class I> void csr_product(Vector<I> indptr, Vector<I> indices, Vector<T> data, Matrix<const T> W, Matrix<T> out) {
    const auto w = view(W, "W");
    const auto x = csr<T, I>(indptr, indices, data, w.rows, "X");
    const auto o = view(out, "out");
    require_shape(o, x.rows, w.columns, "out");
    run([&] { return csr_ops<T, I>().product(x, w, o); });
}

template <class T, class I>
void csr_exp2neg(Vector<I> indptr, Vector<I> indices, Vector<T> data, Matrix<const T> W, std::optional<Vector<T>> offsets, double scale,
                 Matrix<T> out) {
    const auto w = view(W, "W");
    const auto x = csr<T, I>(indptr, indices, data, w.rows, "X");
    const auto o = view(out, "out");
    require_shape(o, x.rows, w.columns, "out");
    const T *shift = offsets ? vector<T>(*offsets, w.columns, "offsets") : nullptr;
    run([&] { return csr_ops<T, I>().exp2neg(x, w, shift, scale, o); });
}

template <class T, class I> void bind_csr(nb::module_ &m) {
    const auto bind = [&](const char *name, auto *function) {
        m.def(name, function, "X_indptr"_a.noconvert(), "X_indices"_a.noconvert(), "X_data"_a.noconvert(), "Z_indptr"_a.noconvert(),
              "Z_indices"_a.noconvert(), "Z_data"_a.noconvert(), "n_columns"_a, "out"_a.noconvert());
    };
    bind("gram_chi2_csr", csr_gram<T, I, &CsrOps<T, I>::chi2>);
    bind("gram_intersection_csr", csr_gram<T, I, &CsrOps<T, I>::intersection>);
    bind("gram_minmax_csr", csr_gram<T, I, &CsrOps<T, I>::minmax>);
    m.def("csr_product", csr_product<T, I>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "W"_a.noconvert(),
          "out"_a.noconvert());
    m.def("csr_exp2neg", csr_exp2neg<T, I>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "W"_a.noconvert(),
          "offsets"_a.noconvert().none(), "scale"_a, "out"_a.noconvert());
}

template <class T> void bind(nb::module_ &m) {
    m.def("cos_", cos_<T>, "T"_a.noconvert(), "scale"_a, "phases"_a.noconvert().none() = nb::none());
    m.def("cossin", cossin<T>, "T"_a.noconvert(), "scale"_a, "out"_a.noconvert());
    m.def("exp2neg_", exp2neg_<T>, "T"_a.noconvert(), "scale"_a);
    m.def("hadamard", hadamard<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "out"_a.noconvert());
    m.def("hadamard_cos", hadamard_cos<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "scale"_a,
          "phases"_a.noconvert().none(), "out"_a.noconvert());
    m.def("hadamard_cossin", hadamard_cossin<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "scale"_a,
          "out"_a.noconvert());
    m.def("chi2_series", chi2_series<T>, "X"_a.noconvert(), "poles"_a.noconvert(), "out"_a.noconvert());
    m.def("chi2_chebyshev", chi2_chebyshev<T>, "X"_a.noconvert(), "n_terms"_a, "center"_a, "out"_a.noconvert());
    m.def("homogeneous", homogeneous<T>, "X"_a.noconvert(), "amplitudes"_a.noconvert(), "harmonics"_a.noconvert(), "step"_a, "degree"_a,
          "out"_a.noconvert());
    const auto pairs = [&](const char *name, auto *function) {
        m.def(name, function, "X"_a.noconvert(), "Z"_a.noconvert(), "out"_a.noconvert());
    };
    pairs("gram_chi2", gram<T, &Ops<T>::chi2>);
    pairs("gram_chi2_distance", gram<T, &Ops<T>::chi2_distance>);
    pairs("gram_intersection", gram<T, &Ops<T>::intersection>);
    pairs("gram_minmax", gram<T, &Ops<T>::minmax>);
    pairs("gram_jensen_shannon", gram<T, &Ops<T>::jensen_shannon>);
    pairs("gram_l1", gram<T, &Ops<T>::l1>);
    bind_csr<T, int32_t>(m);
    bind_csr<T, int64_t>(m);
}

}  // namespace

NB_MODULE(_native, m) {
    table = supported().front();
    bind<float>(m);
    bind<double>(m);
    m.def("spread", spread<float, int32_t>, "indices"_a.noconvert(), "out"_a.noconvert());
    m.def("spread", spread<double, int64_t>, "indices"_a.noconvert(), "out"_a.noconvert());
    m.def("pick", [] { table = pick(); }, "Use the instruction set that MERCER_ISA names, else the best one.");
    m.def("isa", [] { return std::string(table->name); }, "The instruction set in use.");
    m.def("isas", [] {
        std::vector<std::string> names;
        for (const Table *each : supported()) names.emplace_back(each->name);
        return names;
    }, "The instruction sets that this CPU can run, best first.");
}
