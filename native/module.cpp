// The binding: every shape, dtype, order and index is checked, the GIL is released, nothing is computed. codes.cpp has the ops on codes.
#include "binding.h"
#include "cpu.h"

const Table *table = nullptr;

namespace {

template <class T, class I> const CsrOps<T, I> &csr_ops() {
    if constexpr (sizeof(I) == 4) return ops<T>().csr32;
    else return ops<T>().csr64;
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

template <class T> void exp2neg_expanded_(Matrix<T> A, Vector<T> rows, Vector<T> columns, double scale) {
    const auto a = view(A, "T");
    const T *r = vector<T>(rows, a.rows, "rows"), *c = vector<T>(columns, a.columns, "columns");
    run([&] { return ops<T>().exp2neg_expanded(a, r, c, scale), true; });
}

template <class T> void row_norm(Matrix<const T> X, Matrix<T> out) {
    const auto x = view(X, "X");
    const auto o = view(out, "out");
    require_shape(o, x.rows, x.columns, "out");
    run([&] { return ops<T>().row_norm(x, o), true; });
}

// The arguments that the three products share.
template <class T> struct Factors {
    View<const T> x, w;
    View<T> out;

    Factors(const Matrix<const T> &X, const Matrix<const T> &W, const Matrix<T> &O, int64_t per_column)
        : x(view(X, "X")), w(view(W, "W")), out(view(O, "out")) {
        require(x.columns == w.rows, "X has " + std::to_string(x.columns) + " columns, W has " + std::to_string(w.rows) + " rows");
        require_shape(out, x.rows, per_column * w.columns, "out");
    }
};

template <class T> void product(Matrix<const T> X, Matrix<const T> W, Matrix<T> out) {
    const Factors<T> f(X, W, out, 1);
    run([&] { return ops<T>().product(f.x, f.w, f.out); });
}

template <class T>
void product_cos(Matrix<const T> X, Matrix<const T> W, double scale, std::optional<Vector<T>> phases, Matrix<T> out) {
    const Factors<T> f(X, W, out, 1);
    const T *shift = phases ? vector<T>(*phases, f.w.columns, "phases") : nullptr;
    run([&] { return ops<T>().product_cos(f.x, f.w, scale, shift, f.out); });
}

template <class T> void product_cossin(Matrix<const T> X, Matrix<const T> W, double scale, Matrix<T> out) {
    const Factors<T> f(X, W, out, 2);
    run([&] { return ops<T>().product_cossin(f.x, f.w, scale, f.out); });
}

template <class T> void inner_products(Matrix<const T> X, Matrix<const T> W, Matrix<T> out) {
    const auto x = view(X, "X"), w = view(W, "W");
    const auto o = view(out, "out");
    require(x.columns == w.columns, "X has " + std::to_string(x.columns) + " columns, W has " + std::to_string(w.columns));
    require_shape(o, x.rows, w.rows, "out");
    run([&] { return ops<T>().inner_products(x, w, o), true; });
}

template <class T> void weighted_sums(Matrix<const T> R, Matrix<const T> X, Matrix<T> out) {
    const auto r = view(R, "R"), x = view(X, "X");
    const auto o = view(out, "out");
    require(r.rows == x.rows, "R has " + std::to_string(r.rows) + " rows, X has " + std::to_string(x.rows));
    require_shape(o, r.columns, x.columns, "out");
    run([&] { return ops<T>().weighted_sums(r, x, o), true; });
}

// The arguments that the three Hadamard ops share.
template <class T> struct Transform {
    View<const T> x;
    Signs<T> signs;
    const T *lengths;
    View<T> out;

    Transform(const Matrix<const T> &X, const Cube<T> &S, const Vector<T> &L, const Matrix<T> &O, int64_t per_length)
        : x(view(X, "X")), signs{S.data(), static_cast<int64_t>(S.shape(0)), static_cast<int64_t>(S.shape(1)), static_cast<int64_t>(S.shape(2))},
          out(view(O, "out")) {
        const auto m = static_cast<int64_t>(L.shape(0));
        require(S.shape(1) > 0, "signs must have shape (blocks, rounds, p), rounds at least 1");
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

template <class T>
bool piecewise_cubic(Matrix<const T> X, Cube<T> table, int64_t values, int per_octave, int64_t first, Matrix<T> out) {
    const auto x = view(X, "X");
    const auto o = view(out, "out");
    const auto count = static_cast<int64_t>(table.shape(0)), width = static_cast<int64_t>(table.shape(2));
    require_aligned(table, "table", sizeof(T));
    require(count > 0 && table.shape(1) == 4, "table must have shape (count, 4, width), count at least 1");
    require(width == 4 || (width > 0 && width % 8 == 0), "the width of table must be 4 or a multiple of 8, got " + std::to_string(width));
    require(values > 0 && values <= width && values > width - 8, "values must be at most the width of table, and more than that less 8");
    require(per_octave >= 0 && per_octave <= 16, "per_octave must be in 0 .. 16, got " + std::to_string(per_octave));
    constexpr int64_t least = sizeof(T) == 4 ? -126 : -1022, most = sizeof(T) == 4 ? 128 : 1024;
    require(first >= least && (first - least) + ((count - 1) >> per_octave) <= most - least, "the pieces must be of normal numbers");
    require_shape(o, x.rows, values * x.columns, "out");
    bool bad = false;
    run([&] { return ops<T>().piecewise_cubic(x, {table.data(), count, width, values, per_octave, first}, o, &bad); });
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
    m.def("exp2neg_expanded_", exp2neg_expanded_<T>, "T"_a.noconvert(), "rows"_a.noconvert(), "columns"_a.noconvert(), "scale"_a);
    m.def("row_norm", row_norm<T>, "X"_a.noconvert(), "out"_a.noconvert());
    m.def("product", product<T>, "X"_a.noconvert(), "W"_a.noconvert(), "out"_a.noconvert());
    m.def("product_cos", product_cos<T>, "X"_a.noconvert(), "W"_a.noconvert(), "scale"_a, "phases"_a.noconvert().none(),
          "out"_a.noconvert());
    m.def("inner_products", inner_products<T>, "X"_a.noconvert(), "W"_a.noconvert(), "out"_a.noconvert());
    m.def("weighted_sums", weighted_sums<T>, "R"_a.noconvert(), "X"_a.noconvert(), "out"_a.noconvert());
    m.def("product_cossin", product_cossin<T>, "X"_a.noconvert(), "W"_a.noconvert(), "scale"_a, "out"_a.noconvert());
    m.def("hadamard", hadamard<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "out"_a.noconvert());
    m.def("hadamard_cos", hadamard_cos<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "scale"_a,
          "phases"_a.noconvert().none(), "out"_a.noconvert());
    m.def("hadamard_cossin", hadamard_cossin<T>, "X"_a.noconvert(), "signs"_a.noconvert(), "lengths"_a.noconvert(), "scale"_a,
          "out"_a.noconvert());
    m.def("chi2_series", chi2_series<T>, "X"_a.noconvert(), "poles"_a.noconvert(), "out"_a.noconvert());
    m.def("chi2_chebyshev", chi2_chebyshev<T>, "X"_a.noconvert(), "n_terms"_a, "center"_a, "out"_a.noconvert());
    m.def("homogeneous", homogeneous<T>, "X"_a.noconvert(), "amplitudes"_a.noconvert(), "harmonics"_a.noconvert(), "step"_a, "degree"_a,
          "out"_a.noconvert());
    m.def("piecewise_cubic", piecewise_cubic<T>, "X"_a.noconvert(), "table"_a.noconvert(), "values"_a, "per_octave"_a, "first"_a,
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
    pairs("gram_l2", gram<T, &Ops<T>::l2>);
    bind_csr<T, int32_t>(m);
    bind_csr<T, int64_t>(m);
}

}  // namespace

NB_MODULE(_native, m) {
    table = supported().front();
    bind<float>(m);
    bind<double>(m);
    bind_codes(m);
    bind_csv(m);
    bind_svmlight(m);
    m.def("spread", spread<float, int32_t>, "indices"_a.noconvert(), "out"_a.noconvert());
    m.def("spread", spread<double, int64_t>, "indices"_a.noconvert(), "out"_a.noconvert());
    m.def("pick", [] { table = pick(); }, "Use the instruction set that MERCER_ISA names, else the best one.");
    m.def("isa", [] { return std::string(table->name); }, "The instruction set in use.");
    m.def("amd", amd, "Whether the CPU is one of AMD.");
    m.def("isas", [] {
        std::vector<std::string> names;
        for (const Table *each : supported()) names.emplace_back(each->name);
        return names;
    }, "The instruction sets that this CPU can run, best first.");
}
