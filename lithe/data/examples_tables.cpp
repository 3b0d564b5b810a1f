// Examples in columns: tsv, csv and label_text.
#include <algorithm>
#include <charconv>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/data/examples_readers.h"

namespace lithe {
namespace {

// Reads the rows of a table; rows without anything are passed over.
class Rows {
 public:
  Rows(std::string_view text, const std::string& name, bool quoting) : rest_(text), name_(name), quoting_(quoting) {}

  /// The cells of the next row; false at the end.
  bool next(std::vector<std::string>& cells) {
    while (!rest_.empty()) {
      line_ = next_line_;
      if (rest_[0] == '\n' || rest_.substr(0, 2) == "\r\n") {
        take_line(rest_);
        ++next_line_;
      } else {
        if (quoting_)
          csv_row(cells);
        else
          tsv_row(cells);
        return true;
      }
    }
    return false;
  }
  /// The line on which the row begins.
  int64_t line() const { return line_; }

 private:
  std::string_view rest_;
  const std::string& name_;
  bool quoting_;
  int64_t line_ = 1, next_line_ = 1;

  void tsv_row(std::vector<std::string>& cells) {
    split(take_line(rest_), '\t', cells);
    ++next_line_;
  }

  void csv_row(std::vector<std::string>& cells) {
    cells.clear();
    while (true) {
      cells.emplace_back();
      if (!rest_.empty() && rest_[0] == '"')
        quoted(cells.back(), cells.size());
      else
        plain(cells.back(), cells.size());
      if (rest_.empty() || rest_[0] == '\n' || rest_.substr(0, 2) == "\r\n") break;
      rest_.remove_prefix(1);  // a comma
    }
    if (!rest_.empty()) take_line(rest_);
    ++next_line_;
  }

  // Up to a comma or the end of the line.
  void plain(std::string& cell, size_t column) {
    const size_t comma = rest_.find_first_of(",\n");
    size_t end = std::min(comma, rest_.size());
    if (comma != std::string_view::npos && rest_[comma] == '\n' && end > 0 && rest_[end - 1] == '\r') --end;
    cell = rest_.substr(0, end);
    check(cell.find('"') == std::string::npos, "task", name_, ":", next_line_, ": column ", column,
          " has a double quote inside, found '", shortened(cell),
          "'; in CSV such a field stands in double quotes and each of its own is doubled");
    rest_.remove_prefix(end);
  }

  void quoted(std::string& cell, size_t column) {
    rest_.remove_prefix(1);
    while (true) {
      const size_t quote = rest_.find('"');
      check(quote != std::string_view::npos, "task", name_, ":", line_, ": column ", column,
            " begins with a double quote that nothing closes; close it, or for a file without quoting set task.format: "
            "tsv");
      cell += rest_.substr(0, quote);
      next_line_ += std::count(rest_.begin(), rest_.begin() + ptrdiff_t(quote), '\n');
      rest_.remove_prefix(quote + 1);
      if (rest_.empty() || rest_[0] != '"') break;
      cell += '"';
      rest_.remove_prefix(1);
    }
    check(rest_.empty() || rest_[0] == ',' || rest_[0] == '\n' || rest_.substr(0, 2) == "\r\n", "task", name_, ":",
          next_line_, ": column ", column,
          " goes on after its closing double quote; double each quote inside of a field, as in \"\"");
  }
};

constexpr size_t kAbsent = size_t(-1);

// Which columns hold what.
struct Columns {
  size_t count = 0;  // of the first row, so of all
  size_t text = kAbsent, pair = kAbsent, label = kAbsent, transcript = kAbsent;
  std::map<std::string, size_t> features, sources;
  std::vector<std::string> header;  // or empty

  std::string shown(size_t column) const {
    return header.empty() ? cat("column ", column + 1) : cat("column ", column + 1, " ('", header[column], "')");
  }
};

// The column that an option names: a number from 1, or a name in the header.
size_t find_column(const Columns& columns, const std::string& wanted, const std::string& option,
                   const std::string& file) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (end == wanted.data() + wanted.size() && error != std::errc::invalid_argument) {
    check_usage(error == std::errc() && number >= 1 && number <= columns.count, "task", file, ": task.", option, " is ",
                wanted, ", but the file has columns 1 to ", columns.count);
    return number - 1;
  }
  check_usage(!columns.header.empty(), "task", file, ": task.", option, " is '", wanted,
              "', but without a header columns have numbers only; set task.header: true, or task.", option,
              " to a number from 1 to ", columns.count);
  const auto found = std::find(columns.header.begin(), columns.header.end(), wanted);
  check_usage(found != columns.header.end(), "task", file, ":1: the header has no column '", wanted, "' (task.", option,
              "); it has ", join(columns.header), did_you_mean(wanted, columns.header));
  check_usage(std::find(found + 1, columns.header.end(), wanted) == columns.header.end(), "task", file,
              ":1: the header has two columns '", wanted, "' (task.", option, "); name one by its number from 1 to ",
              columns.count);
  return size_t(found - columns.header.begin());
}

// A header taken for an example, or an example for a header, would be a silent error.
void judge_header(const Columns& columns, const ExampleLayout& layout, const LabelNames& labels,
                  const std::string& name, const std::vector<Example>& out, size_t before) {
  if (layout.header && layout.type != TaskType::text) {
    const std::string& cell = columns.header[columns.label];
    const auto& names = labels.names();
    const bool is_target = layout.type == TaskType::regression
                               ? finite_number(cell).has_value()
                               : std::find(names.begin(), names.end(), cell) != names.end();
    check(!is_target, "task", name, ":1: the line is the header (task.header: true), but its '", shortened(cell),
          "' in column ", columns.label + 1, " is a label itself; set task.header: false");
    return;
  }
  if (!labels.learns() || layout.type != TaskType::classification || out.size() < before + 10) return;
  std::vector<int64_t> counts(labels.names().size());
  for (size_t i = before; i < out.size(); ++i) ++counts[size_t(out[i].label)];
  const size_t first = size_t(out[before].label);
  check(counts[first] > 1 || std::count(counts.begin(), counts.end(), 1) > 1, "task", name,
        ":1: the line looks like a header: its '", shortened(labels.names()[first]), "' in column ", columns.label + 1,
        " is the label of no other line; set task.header: true, or list the labels in task.labels");
}

void parse_table(Rows rows, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                 std::vector<Example>& out) {
  Columns columns;
  std::vector<std::string> cells;
  const size_t before = out.size();
  while (rows.next(cells)) {
    if (columns.count == 0) {
      columns.count = cells.size();
      if (layout.header) columns.header = cells;
      if (layout.features.empty() || !layout.text.empty())
        columns.text = find_column(columns, layout.text.empty() ? "text" : layout.text, "text", name);
      for (const auto& [modality, column] : layout.features)
        columns.features[modality] = find_column(columns, column, modality.c_str(), name);
      if (!layout.transcript.empty()) columns.transcript = find_column(columns, layout.transcript, "transcript", name);
      columns.label = find_column(columns, layout.label.empty() ? "label" : layout.label, "label", name);
      if (!layout.text_pair.empty()) columns.pair = find_column(columns, layout.text_pair, "text_pair", name);
      for (const auto& [source, column] : layout.sources)
        columns.sources[source] = find_column(columns, column, "sources." + source, name);
      if (layout.header) continue;
    }
    check(cells.size() == columns.count, "task", name, ":", rows.line(), ": the line must have ", columns.count,
          " columns as the first has, got ", cells.size());
    Example example;
    const bool may_be_header = rows.line() == 1 && !layout.header;
    set_target(example, cells[columns.label], layout, labels,
               cat(name, ":", rows.line(), ": ", columns.shown(columns.label)),
               may_be_header ? "; if the line is a header, set task.header: true" : "");
    if (!columns.features.empty()) example.place = cat(name, ":", rows.line());
    for (const auto& [modality, column] : columns.features)
      if (!cells[column].empty()) example.features[modality] = reference_in(name, cells[column]);
    for (const auto& [source, column] : columns.sources) example.sources[source] = cells[column];
    if (columns.transcript != kAbsent) example.transcript = cells[columns.transcript];
    if (columns.text != kAbsent) example.text = std::move(cells[columns.text]);
    example.has_pair = columns.pair != kAbsent;
    if (example.has_pair) example.pair = columns.pair == columns.text ? example.text : std::move(cells[columns.pair]);
    out.push_back(std::move(example));
  }
  if (out.size() > before) judge_header(columns, layout, labels, name, out, before);
}

}  // namespace

void parse_tsv(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
               std::vector<Example>& out) {
  parse_table(Rows(text, name, false), name, layout, labels, out);
}

void parse_csv(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
               std::vector<Example>& out) {
  parse_table(Rows(text, name, true), name, layout, labels, out);
}

void parse_label_text(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                      std::vector<Example>& out) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    check(space != std::string_view::npos, "task", name, ":", number,
          ": the line must be a label, a space and a text, got '", shortened(line), "'");
    Example example;
    set_target(example, std::string(line.substr(0, space)), layout, labels, cat(name, ":", number, ": column 1"), "");
    example.text = line.substr(space + 1);
    out.push_back(std::move(example));
  }
}

}  // namespace lithe
