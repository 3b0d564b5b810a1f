// Tagged words and sentences in CoNLL-U (universaldependencies.org/format.html), tagged words in bracketed trees.
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

// Its trees go along; what is wrong with one is said where the tree is used.
void parse_words(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                 std::vector<Example>& out) {
  std::vector<TreeSentence> trees = parse_conllu_trees(text, name, [](const std::string&) {});
  const size_t before = out.size();
  const bool parses = layout.type == TaskType::parsing;
  const size_t form = find_column(layout.text.empty() ? "form" : layout.text, "text");
  const size_t tag = find_column(!layout.label.empty() ? layout.label : parses ? "deprel" : "upos", "label");
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
  check(trees.size() == out.size() - before, "task", name, ": ", out.size() - before, " sentences, but ", trees.size(),
        " of their trees can be read; `lithe tokenize TOKENIZER --trees FILE` lists what is wrong");
  for (size_t i = 0; i < trees.size(); ++i) {
    check(!parses || trees[i].heads.words() == int64_t(trees[i].words.size()), "task",
          trees[i].fault.empty()
              ? cat(trees[i].place, ": the sentence has no heads (column 7), which a parser learns from")
              : trees[i].fault);
    out[before + i].tree = std::make_shared<const TreeSentence>(std::move(trees[i]));
  }
}

}  // namespace

void parse_conllu(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                  std::vector<Example>& out) {
  if (layout.type == TaskType::tagging || layout.type == TaskType::parsing)
    return parse_words(text, name, layout, labels, out);
  const std::string key = layout.label.empty() ? "label" : layout.label;
  for (TreeSentence& s : parse_conllu_trees(text, name, refusing("task"))) {
    Example example;
    const auto found = s.comments.find(key);
    check(found != s.comments.end(), "task", s.place, ": the sentence has no comment '# ", key,
          " = ...' with its label; set task.label to the key of one");
    set_target(example, found->second, layout, labels, cat(s.place, ": comment '", key, "'"), "");
    example.text = s.text();
    example.words = s.words;
    example.tree = std::make_shared<const TreeSentence>(std::move(s));
    out.push_back(std::move(example));
  }
}

void parse_brackets(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                    std::vector<Example>& out) {
  for (TreeSentence& s : parse_bracketed_trees(text, name, refusing("task"))) {
    Example example;
    const std::vector<std::string>& tags = s.tags.at("pos");
    for (size_t w = 0; w < tags.size(); ++w)
      example.tags.push_back(labels.index(tags[w], cat(s.place, ": the label above word ", w + 1)));
    example.words = s.words;
    example.tree = std::make_shared<const TreeSentence>(std::move(s));
    out.push_back(std::move(example));
  }
  (void)layout;
}

}  // namespace lithe
