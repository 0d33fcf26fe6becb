// The binding of the ops on codes.
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
        if constexpr (sizeof(I) == 4) gcws_ops<Code>().csr32(x, s, o);
        else gcws_ops<Code>().csr64(x, s, o);
        return true;
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

}  // namespace

void bind_codes(nb::module_ &m) {
    m.def("gcws_parameters", gcws_parameters, "seed"_a, "ids"_a.noconvert(), "first"_a, "out"_a.noconvert());
    bind_gcws<uint8_t>(m);
    bind_gcws<uint16_t>(m);
}
