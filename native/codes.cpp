// The binding of the ops on codes.
#include <limits>

#include "binding.h"

namespace {

using Parameters = nb::ndarray<const float, nb::ndim<4>, nb::device::cpu, nb::c_contig>;
using NewParameters = nb::ndarray<float, nb::ndim<4>, nb::device::cpu, nb::c_contig>;

template <class Code> const GcwsOps<Code> &gcws_ops() {
    if constexpr (sizeof(Code) == 1) return table->gcws8;
    else return table->gcws16;
}

template <class Array> void require_parameters(const Array &parameters, size_t columns) {
    require(parameters.shape(1) == columns && parameters.shape(2) == 4 && parameters.shape(3) == 64,
            "parameters must have shape (blocks, " + std::to_string(columns) + ", 4, 64)");
    require_aligned(parameters, "parameters", sizeof(float));
}

void gcws_parameters(uint64_t seed, Vector<uint64_t> ids, uint64_t first, NewParameters out) {
    const auto columns = static_cast<int64_t>(ids.shape(0)), blocks = static_cast<int64_t>(out.shape(0));
    const uint64_t *which = vector<uint64_t>(ids, columns, "ids");
    require_parameters(out, ids.shape(0));
    run([&] { return table->gcws_parameters(seed, which, columns, first, blocks, out.data()), true; });
}

template <class Code>
Sampling sampling(const Parameters &parameters, const Vector<uint64_t> &ids, uint64_t seed, uint64_t first, int bits, bool keep_t,
                  const View<Code> &out) {
    const auto columns = static_cast<int64_t>(ids.shape(0)), blocks = static_cast<int64_t>(parameters.shape(0));
    require_parameters(parameters, ids.shape(0));
    require(columns < int64_t(1) << 31, "more than 2^31 columns");
    require(out.columns <= 64 * blocks, "out has " + std::to_string(out.columns) + " columns, more than there are hashes in parameters");
    require(bits >= 1 && bits <= static_cast<int>(8 * sizeof(Code)),
            "bits must be in 1 .. " + std::to_string(8 * sizeof(Code)) + ", got " + std::to_string(bits));
    return {parameters.data(), vector<uint64_t>(ids, columns, "ids"), blocks, columns, seed, first, bits, keep_t};
}

template <class Code>
void gcws(Matrix<const float> logs, Parameters parameters, Vector<uint64_t> ids, uint64_t seed, uint64_t first, int bits, bool keep_t,
          Matrix<Code> out) {
    const auto x = view(logs, "logs");
    const auto o = view(out, "out");
    const Sampling s = sampling(parameters, ids, seed, first, bits, keep_t, o);
    require(x.columns == s.columns, "logs has " + std::to_string(x.columns) + " columns, ids " + std::to_string(s.columns));
    require_shape(o, x.rows, o.columns, "out");
    run([&] { return gcws_ops<Code>().dense(x, s, o); });
}

template <class Code, class I>
void gcws_csr(Vector<I> indptr, Vector<I> places, Vector<float> logs, Parameters parameters, Vector<uint64_t> ids, uint64_t seed,
              uint64_t first, int bits, bool keep_t, Matrix<Code> out) {
    const auto o = view(out, "out");
    const Sampling s = sampling(parameters, ids, seed, first, bits, keep_t, o);
    const auto x = csr<float, I>(indptr, places, logs, s.columns, "logs");
    for (int64_t i = 0; i < x.rows; ++i)
        require(static_cast<int64_t>(x.indptr[i + 1] - x.indptr[i]) < int64_t(1) << 31, "more than 2^31 entries in a row");
    require_shape(o, x.rows, o.columns, "out");
    run([&] {
        if constexpr (sizeof(I) == 4) return gcws_ops<Code>().csr32(x, s, o);
        else return gcws_ops<Code>().csr64(x, s, o);
    });
}

template <class Code, class I> void bind_gcws_csr(nb::module_ &m) {
    m.def("gcws_csr", gcws_csr<Code, I>, "indptr"_a.noconvert(), "places"_a.noconvert(), "logs"_a.noconvert(), "parameters"_a.noconvert(),
          "ids"_a.noconvert(), "seed"_a, "first"_a, "bits"_a, "keep_t"_a, "out"_a.noconvert());
}

template <class Code> void bind_gcws(nb::module_ &m) {
    m.def("gcws", gcws<Code>, "logs"_a.noconvert(), "parameters"_a.noconvert(), "ids"_a.noconvert(), "seed"_a, "first"_a, "bits"_a,
          "keep_t"_a, "out"_a.noconvert());
    bind_gcws_csr<Code, int32_t>(m);
    bind_gcws_csr<Code, int64_t>(m);
}

template <class T> using NewCube = nb::ndarray<T, nb::ndim<3>, nb::device::cpu, nb::c_contig>;
template <class T> using NewVector = nb::ndarray<T, nb::ndim<1>, nb::device::cpu, nb::c_contig>;

template <class T, class Code> const CodedOps<T, Code> &coded_ops() {
    if constexpr (sizeof(Code) == 1) return ops<T>().coded8;
    else if constexpr (sizeof(Code) == 2) return ops<T>().coded16;
    else return ops<T>().coded32;
}

// Codes and fractions, which must name rows of panels with so many of them.
template <class T, class Code>
Coded<T, Code> coded(const Matrix<const Code> &codes, const std::optional<Matrix<const T>> &fractions, int64_t n_codes) {
    Coded<T, Code> x = {view(codes, "codes"), {nullptr, 0, 0, 0}};
    if (fractions) {
        x.fractions = view(*fractions, "fractions");
        require_shape(x.fractions, x.codes.rows, x.codes.columns, "fractions");
    }
    if (!x.codes.rows || !x.codes.columns) return x;
    int64_t most = 0;
    run([&] { return most = coded_ops<T, Code>().largest(x.codes), true; });
    require(most + (fractions ? 1 : 0) < n_codes, fractions ? "codes must be in 0 .. " + std::to_string(n_codes - 2) + ", so that code + 1 exists"
                                                           : "codes must be in 0 .. " + std::to_string(n_codes - 1));
    return x;
}

template <class T, class Array> Panels<T> panels(const Array &array, int64_t places, bool may_share, const char *name) {
    const auto count = static_cast<int64_t>(array.shape(0));
    require(count == places || (may_share && count == 1),
            std::string(name) + " must have " + std::to_string(places) + (may_share ? " panels or one" : " panels") + ", got " + std::to_string(count));
    require_aligned(array, name, sizeof(T));
    return {array.data(), count, static_cast<int64_t>(array.shape(1)), static_cast<int64_t>(array.shape(2))};
}

template <class T, class Code>
void coded_product(Matrix<const Code> codes, Cube<T> tables, std::optional<Matrix<const T>> fractions, Matrix<T> out) {
    const auto p = panels<const T>(tables, static_cast<int64_t>(codes.shape(1)), true, "panels");
    const auto x = coded<T, Code>(codes, fractions, p.codes);
    const auto o = view(out, "out");
    require_shape(o, x.codes.rows, p.m, "out");
    run([&] { return coded_ops<T, Code>().product(x, p, o); });
}

template <class T, class Code>
void coded_sums(Matrix<const Code> codes, Matrix<const T> R, std::optional<Matrix<const T>> fractions, NewCube<T> out) {
    const auto p = panels<T>(out, static_cast<int64_t>(codes.shape(1)), false, "out");
    const auto x = coded<T, Code>(codes, fractions, p.codes);
    const auto r = view(R, "R");
    require_shape(r, x.codes.rows, p.m, "R");
    run([&] { return coded_ops<T, Code>().sums(x, r, p); });
}

template <class T, class Code>
void coded_rows(Matrix<const Code> codes, Cube<T> tables, std::optional<Matrix<const T>> fractions, Matrix<T> out) {
    const auto p = panels<const T>(tables, static_cast<int64_t>(codes.shape(1)), true, "tables");
    const auto x = coded<T, Code>(codes, fractions, p.codes);
    const auto o = view(out, "out");
    require_shape(o, x.codes.rows, x.codes.columns * p.m, "out");
    run([&] { return coded_ops<T, Code>().rows(x, p, o); });
}

template <class T, class Code>
void coded_descent(Matrix<const Code> codes, std::optional<Vector<bool>> empty, Vector<int64_t> order, Matrix<const T> Y, Vector<T> c,
                   double scale, double slope, int loss, Matrix<T> F, Matrix<T> a, NewVector<T> b, NewCube<T> W) {
    const auto p = panels<T>(W, static_cast<int64_t>(codes.shape(1)), false, "W");
    const auto x = coded<T, Code>(codes, std::nullopt, p.codes);
    const auto y = view(Y, "Y");
    const auto scores = view(F, "F"), weights = view(a, "a");
    const int64_t n = x.codes.rows, count = static_cast<int64_t>(order.shape(0));
    require_shape(y, n, p.m, "Y");
    require_shape(scores, n, p.m, "F");
    require_shape(weights, n, p.m, "a");
    require(static_cast<int64_t>(b.shape(0)) == p.m, "b must have " + std::to_string(p.m) + " numbers, got " + std::to_string(b.shape(0)));
    require_aligned(b, "b", sizeof(T));
    const bool *mask = empty ? vector<bool>(*empty, n, "empty") : nullptr;
    require(loss >= 0 && loss <= static_cast<int>(Loss::logistic), "loss must be in 0 .. 2");
    const Sweep<T> sweep = {vector<int64_t>(order, count, "order"), count, mask, vector<T>(c, n, "c"), T(scale), T(slope)};
    for (int64_t k = 0; k < count; ++k)
        require(sweep.order[k] >= 0 && sweep.order[k] < n, "order must be in 0 .. " + std::to_string(n - 1));
    run([&] { return coded_ops<T, Code>().descent(x.codes, sweep, static_cast<Loss>(loss), y, scores, weights, b.data(), p), true; });
}

// The edges or anchors of each column of x, or those of all; the largest code must fit.
template <class T, class Code> View<const T> tables(const Matrix<const T> &array, const View<const T> &x, int64_t spare, const char *name) {
    const auto found = view(array, name);
    require(found.rows == x.columns || found.rows == 1,
            std::string(name) + " must have " + std::to_string(x.columns) + " rows or one, got " + std::to_string(found.rows));
    require(found.columns >= spare, std::string(name) + " must have at least " + std::to_string(spare) + " columns");
    require(found.columns - spare <= static_cast<int64_t>(std::numeric_limits<Code>::max()),
            std::to_string(found.columns) + " " + name + " need codes of more than " + std::to_string(8 * sizeof(Code)) + " bits");
    return found;
}

template <class T, class Code> T levels(Matrix<const T> X, Matrix<const T> edges, bool inclusive, Matrix<Code> out) {
    const auto x = view(X, "X");
    const auto e = tables<T, Code>(edges, x, 0, "edges");
    const auto o = view(out, "out");
    require_shape(o, x.rows, x.columns, "out");
    T largest = 0;
    run([&] { return ops<T>().levels(x, e, inclusive, {o.data, sizeof(Code), o.stride}, &largest); });
    return largest;
}

template <class T, class Code> T brackets(Matrix<const T> X, Matrix<const T> anchors, Matrix<Code> codes, Matrix<T> fractions) {
    const auto x = view(X, "X");
    const auto a = tables<T, Code>(anchors, x, 2, "anchors");
    const auto c = view(codes, "codes");
    const auto f = view(fractions, "fractions");
    require_shape(c, x.rows, x.columns, "codes");
    require_shape(f, x.rows, x.columns, "fractions");
    T largest = 0;
    run([&] { return ops<T>().brackets(x, a, {c.data, sizeof(Code), c.stride}, f, &largest); });
    return largest;
}

template <class T, class Code> void bind_coded(nb::module_ &m) {
    const auto bind = [&](const char *name, auto *function, const char *second) {
        m.def(name, function, "codes"_a.noconvert(), nb::arg(second).noconvert(), "fractions"_a.noconvert().none(), "out"_a.noconvert());
    };
    bind("coded_product", coded_product<T, Code>, "panels");
    bind("coded_sums", coded_sums<T, Code>, "R");
    bind("coded_rows", coded_rows<T, Code>, "tables");
    m.def("coded_descent", coded_descent<T, Code>, "codes"_a.noconvert(), "empty"_a.noconvert().none(), "order"_a.noconvert(),
          "Y"_a.noconvert(), "c"_a.noconvert(), "scale"_a, "slope"_a, "loss"_a, "F"_a.noconvert(), "a"_a.noconvert(), "b"_a.noconvert(),
          "W"_a.noconvert());
    m.def("levels", levels<T, Code>, "X"_a.noconvert(), "edges"_a.noconvert(), "inclusive"_a, "out"_a.noconvert());
    m.def("brackets", brackets<T, Code>, "X"_a.noconvert(), "anchors"_a.noconvert(), "codes"_a.noconvert(), "fractions"_a.noconvert());
}
template <class T> void bind_every_code(nb::module_ &m) {
    bind_coded<T, uint8_t>(m);
    bind_coded<T, uint16_t>(m);
    bind_coded<T, int32_t>(m);
}

}  // namespace

void bind_codes(nb::module_ &m) {
    m.def("gcws_parameters", gcws_parameters, "seed"_a, "ids"_a.noconvert(), "first"_a, "out"_a.noconvert());
    bind_gcws<uint8_t>(m);
    bind_gcws<uint16_t>(m);
    bind_every_code<float>(m);
    bind_every_code<double>(m);
}
