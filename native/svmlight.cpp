// Lines of an svmlight file (label index:value ... # comment) as CSR arrays. data/svmlight.py has the definition, and the errors: a line that
// is refused here is read again there.
#include <algorithm>
#include <memory>

#include "binding.h"
#include "decimal.h"

namespace {

// What Python's bytes.split() splits at, the end of a line left out.
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

inline bool ends_token(const char *p, const char *end) { return p == end || is_blank(*p) || *p == '\n' || *p == '#'; }

struct Lines {
    int64_t rows = 0, entries = 0, lowest = std::numeric_limits<int64_t>::max(), highest = -1;
    int64_t refused = -1;  // byte of the first token that is refused
    std::unique_ptr<double[]> labels, values;
    std::unique_ptr<int32_t[]> starts, columns;

    // Every row ends with a newline or the text, and every entry has a colon: no more are stored.
    bool allocate(const char *text, const char *end) {
        const auto n = static_cast<size_t>(std::count(text, end, '\n')) + 1, m = static_cast<size_t>(std::count(text, end, ':'));
        labels.reset(new (std::nothrow) double[n]);
        starts.reset(new (std::nothrow) int32_t[n + 1]);
        values.reset(new (std::nothrow) double[m]);
        columns.reset(new (std::nothrow) int32_t[m]);
        return labels && starts && values && columns;
    }
};

// Columns are stored as index - base. Indices below base and above most are refused.
template <bool store> void read_lines(const char *text, const char *end, int64_t base, int64_t most, Lines *lines) {
    const char *p = text;
    int64_t rows = 0, entries = 0, lowest = lines->lowest, highest = lines->highest;
    const char *refused = nullptr;
    while (p < end && !refused) {
        if (is_blank(*p) || *p == '\n') {
            ++p;
            continue;
        }
        if (*p != '#') {
            double number = 0;
            const char *after = read_number(p, end, &number);
            if (!after || !ends_token(after, end)) {
                refused = p;
                break;
            }
            if constexpr (store) {
                lines->labels[rows] = number;
                lines->starts[rows] = static_cast<int32_t>(entries);
            }
            ++rows;
            p = after;
            int64_t before = -1;
            for (;;) {
                while (p < end && is_blank(*p)) ++p;
                if (p == end || *p == '\n' || *p == '#') break;
                const char *const token = p;
                int64_t index = 0;
                for (; p < end && is_digit(*p) && index <= most; ++p) index = index * 10 + (*p - '0');
                if (p == token || p == end || *p != ':' || index > most || index < base || index <= before) {
                    refused = token;
                    break;
                }
                after = read_number(p + 1, end, &number);
                if (!after || !ends_token(after, end)) {
                    refused = token;
                    break;
                }
                if constexpr (store) {
                    lines->columns[entries] = static_cast<int32_t>(index - base);
                    lines->values[entries] = number;
                } else if (before < 0) {
                    lowest = std::min(lowest, index);
                }
                ++entries;
                before = index;
                p = after;
            }
            highest = std::max(highest, before);
        }
        if (!refused && p < end) {  // a comment, or the end of the line
            const void *newline = std::memchr(p, '\n', static_cast<size_t>(end - p));
            p = newline ? static_cast<const char *>(newline) + 1 : end;
        }
    }
    if constexpr (store) lines->starts[rows] = static_cast<int32_t>(entries);
    lines->rows = rows, lines->entries = entries, lines->lowest = lowest, lines->highest = highest;
    if (refused) lines->refused = refused - text;
}

template <class T> nb::object array(std::unique_ptr<T[]> values, int64_t size) {
    T *data = values.release();
    nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {static_cast<size_t>(size)}, owner));
}

void require_most(int64_t base, int64_t most) {
    require(base >= 0 && most < std::numeric_limits<int32_t>::max(), "columns must be in 0 .. 2^31 - 2");
}

nb::tuple svmlight_extent(nb::bytes text, int64_t most) {
    require_most(0, most);
    Lines lines;
    const char *first = text.c_str(), *last = first + text.size();
    run([&] { return read_lines<false>(first, last, 0, most, &lines), true; });
    return nb::make_tuple(lines.rows, lines.lowest, lines.highest, lines.refused);
}

nb::tuple svmlight_rows(nb::bytes text, int64_t base, int64_t most) {
    require_most(base, most);
    require(text.size() < size_t(1) << 31, "text must have less than 2^31 bytes");
    Lines lines;
    const char *first = text.c_str(), *last = first + text.size();
    run([&] {
        if (!lines.allocate(first, last)) return false;
        read_lines<true>(first, last, base, most, &lines);
        return true;
    });
    nb::object labels = array(std::move(lines.labels), lines.rows), starts = array(std::move(lines.starts), lines.rows + 1),
               columns = array(std::move(lines.columns), lines.entries), values = array(std::move(lines.values), lines.entries);
    return nb::make_tuple(labels, starts, columns, values, lines.refused);
}

}  // namespace

void bind_svmlight(nb::module_ &m) {
    m.def("svmlight_extent", svmlight_extent, "text"_a, "most"_a,
          "Rows, lowest and highest index of lines, and the byte of the first token that is refused or -1.");
    m.def("svmlight_rows", svmlight_rows, "text"_a, "base"_a, "most"_a,
          "Labels, indptr, indices and data of lines, and the byte of the first token that is refused or -1.");
}
