// Tagged words in CoNLL-U (universaldependencies.org/format.html).
#include <algorithm>
#include <charconv>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/data/examples_readers.h"

namespace lithe {
namespace {

const std::vector<std::string> kColumns = {"id",    "form", "lemma",  "upos", "xpos",
                                           "feats", "head", "deprel", "deps", "misc"};

size_t find_column(const std::string& wanted, const char* option) {
  const auto found = std::find(kColumns.begin(), kColumns.end(), wanted);
  if (found != kColumns.end()) return size_t(found - kColumns.begin());
  size_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  check_usage(end == wanted.data() + wanted.size() && error == std::errc() && number >= 1 && number <= kColumns.size(),
              "task", "task.", option, " must be a column of CoNLL-U (", join(kColumns), ", or 1 to 10), got '", wanted,
              "'", did_you_mean(wanted, kColumns));
  return number - 1;
}

enum class Line { word, range, empty_node, wrong };

// What an ID says: 3 is a word, 3-4 a multiword range, 3.1 an empty node.
Line kind_of(const std::string& id, int64_t& number) {
  const char* end = id.data() + id.size();
  const auto first = std::from_chars(id.data(), end, number);
  if (first.ec != std::errc() || number < 0) return Line::wrong;
  if (first.ptr == end) return Line::word;
  const Line kind = *first.ptr == '-' ? Line::range : *first.ptr == '.' ? Line::empty_node : Line::wrong;
  int64_t second = 0;
  const auto last = std::from_chars(first.ptr + 1, end, second);
  return last.ec == std::errc() && last.ptr == end && second >= 0 ? kind : Line::wrong;
}

}  // namespace

void parse_conllu(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                  std::vector<Example>& out) {
  const size_t form = find_column(layout.text.empty() ? "form" : layout.text, "text");
  const size_t tag = find_column(layout.label.empty() ? "upos" : layout.label, "label");
  Example sentence;
  const auto deliver = [&] {
    if (!sentence.words.empty()) out.push_back(std::move(sentence));
    sentence = {};
  };
  std::vector<std::string> cells;
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = take_line(text);
    if (line.empty()) deliver();
    if (line.empty() || line[0] == '#') continue;
    split(line, '\t', cells);
    const std::string where = cat(name, ":", line_number);
    check(cells.size() == kColumns.size(), "task", where, ": a line of CoNLL-U has 10 columns between tabs, got ",
          cells.size());
    int64_t number = 0;
    const Line kind = kind_of(cells[0], number);
    check(kind != Line::wrong, "task", where, ": column 1 ('id') must be a number, a range as 3-4 or an empty node as ",
          "3.1, got '", shortened(cells[0]), "'");
    if (kind != Line::word) continue;
    check(number == int64_t(sentence.words.size()) + 1, "task", where, ": column 1 ('id') must be ",
          sentence.words.size() + 1, ", the next word of the sentence, got ", number,
          "; sentences stand between empty lines");
    check(!cells[form].empty(), "task", where, ": column ", form + 1, " ('", kColumns[form], "') is empty");
    sentence.tags.push_back(labels.index(cells[tag], cat(where, ": column ", tag + 1, " ('", kColumns[tag], "')")));
    sentence.words.push_back(cells[form]);
  }
  deliver();
}

}  // namespace lithe
