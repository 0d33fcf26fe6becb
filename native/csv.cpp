// Rows of a CSV file of plain numbers as a matrix. Whatever is not plain (quotes, spaces, signs +, words, numbers beyond the range of doubles,
// lines of another number of cells) ends the reading, and pyarrow reads on from there.
#include <algorithm>
#include <memory>

#include "binding.h"
#include "decimal.h"

namespace {

struct Columns {
    char delimiter;
    std::vector<int32_t> places;  // of the columns of the file: inputs, then others; -1 for those left out
    std::vector<bool> whole;      // columns of integers
    std::vector<std::string> nulls;
};

inline bool ends_line(const char *p, const char *end) { return p == end || *p == '\n' || (*p == '\r' && (p + 1 == end || p[1] == '\n')); }

// The end of a cell that is left out, or nullptr.
inline const char *skip_cell(const char *p, const char *end, char delimiter) {
    for (; p < end && *p != delimiter && *p != '\n' && *p != '\r'; ++p)
        if (*p == '"') return nullptr;
    return p;
}

// Read a number or a word for a missing one; the end of the cell is returned, or nullptr.
inline const char *read_cell(const char *p, const char *end, const Columns &table, bool whole, double *value) {
    const char *const digits = p + (p < end && *p == '-');
    const char *after = nullptr;
    if (digits < end && (is_digit(*digits) || *digits == '.')) after = read_number(p, end, value);
    if (after && (after == end || *after == table.delimiter || *after == '\n' || *after == '\r')) {
        if (whole && (after - digits > 15 || std::any_of(digits, after, [](char c) { return !is_digit(c); }))) return nullptr;
        if (std::isinf(*value)) return nullptr;
        if (*value == 0)  // and not 1e-400
            for (const char *c = digits; c < after && (*c | 32) != 'e'; ++c)
                if (*c != '0' && *c != '.') return nullptr;
        return after;
    }
    after = skip_cell(p, end, table.delimiter);
    const auto size = static_cast<size_t>(after ? after - p : 0);
    const auto is_cell = [&](const std::string &word) { return word.size() == size && std::memcmp(word.data(), p, size) == 0; };
    if (whole || !after || std::none_of(table.nulls.begin(), table.nulls.end(), is_cell)) return nullptr;
    *value = std::numeric_limits<double>::quiet_NaN();
    return after;
}

// Two matrices of as many rows.
struct Rows {
    int64_t inputs, others, most, rows = 0;
    std::unique_ptr<double[]> X, Y;

    bool allocate() {
        X.reset(new (std::nothrow) double[static_cast<size_t>(most * inputs)]);
        Y.reset(new (std::nothrow) double[static_cast<size_t>(most * others)]);
        return X && Y;
    }
};

// Fill rows; the first byte of the line that is not plain is returned, or the end.
const char *read_rows(const char *p, const char *end, const Columns &table, Rows *out) {
    double *X = out->X.get(), *Y = out->Y.get();
    const size_t columns = table.places.size();
    while (p < end) {
        const char *const line = p;
        if (ends_line(p, end)) {  // a blank line
            p += *p == '\r';
            p += p < end;
            continue;
        }
        if (out->rows == out->most) return line;
        for (size_t j = 0; j < columns; ++j) {
            const int32_t place = table.places[j];
            double *const value = place < out->inputs ? X + place : Y + (place - out->inputs);
            p = place < 0 ? skip_cell(p, end, table.delimiter) : read_cell(p, end, table, table.whole[j], value);
            if (!p) return line;
            if (j + 1 == columns ? !ends_line(p, end) : p == end || *p != table.delimiter) return line;
            if (j + 1 < columns) ++p;
        }
        p += p < end && *p == '\r';
        p += p < end;
        X += out->inputs, Y += out->others, ++out->rows;
    }
    return p;
}

nb::object matrix(std::unique_ptr<double[]> values, int64_t rows, int64_t columns) {
    double *data = values.release();
    nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<double *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<2>>(data, {static_cast<size_t>(rows), static_cast<size_t>(columns)}, owner));
}

nb::tuple csv_rows(nb::bytes text, int64_t size, const std::string &delimiter, std::vector<int32_t> places, std::vector<bool> whole,
                   std::vector<std::string> nulls, int64_t inputs, int64_t others) {
    require(size >= 0 && size <= static_cast<int64_t>(text.size()), "size must be in 0 .. the size of text");
    require(delimiter.size() == 1, "delimiter must be one character");
    require(!places.empty() && places.size() == whole.size(), "places and whole must have a value for each column");
    const auto columns = static_cast<int64_t>(places.size());
    require(inputs >= 0 && others >= 0 && inputs <= columns && others <= columns, "inputs and others must be in 0 .. columns");
    for (const int32_t place : places) require(place >= -1 && place < inputs + others, "places must be in -1 .. inputs + others - 1");
    const Columns plain{delimiter[0], std::move(places), std::move(whole), std::move(nulls)};
    const char *first = text.c_str(), *last = first + size, *stop = first;
    // a row has a delimiter or the end of the line after each cell
    const int64_t most = size / columns + 1, lines = std::count(first, last, '\n') + 1;
    Rows rows{inputs, others, std::min(most, lines), 0, nullptr, nullptr};
    run([&] {
        if (!rows.allocate()) return false;
        stop = read_rows(first, last, plain, &rows);
        return true;
    });
    nb::object X = matrix(std::move(rows.X), rows.rows, inputs), Y = matrix(std::move(rows.Y), rows.rows, others);
    return nb::make_tuple(X, Y, stop - first);
}

}  // namespace

void bind_csv(nb::module_ &m) {
    m.def("csv_rows", csv_rows, "text"_a, "size"_a, "delimiter"_a, "places"_a, "whole"_a, "nulls"_a, "inputs"_a, "others"_a,
          "Inputs and other columns of rows of plain numbers, and the bytes that were read: less than all where a line is not plain.");
}
