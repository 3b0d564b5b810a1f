// Examples in JSON: one object a line, and SQuAD.
#include <algorithm>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/data/examples_readers.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Tree = nlohmann::json;

std::string shown(const Tree& value) { return shortened(dump(value, -1, Invalid::replaced)); }

// A member of an object; `remedy` follows the error when it is missing.
const Tree& member(const Tree& object, const std::string& key, const std::string& where, const char* remedy = "") {
  check(object.is_object(), "task", where, ": must be a JSON object with '", key, "', got ", shown(object));
  const auto found = object.find(key);
  if (found != object.end()) return *found;
  std::vector<std::string> keys;
  for (auto it = object.begin(); it != object.end() && keys.size() < 20; ++it) keys.push_back(shortened(it.key()));
  fail("task", where, ": has no '", key, "'; it has ", keys.empty() ? "nothing" : join(keys), remedy,
       did_you_mean(key, keys));
}

const std::string& text_of(const Tree& value, const std::string& where) {
  check(value.is_string(), "task", where, " must be text, got ", shown(value));
  return value.get_ref<const std::string&>();
}

// Text, or numbers in lists of any depth, written out for a tokenizer of type features.
void append_numbers(const Tree& value, const std::string& where, std::string& out) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) append_numbers(value[i], where, out);
    return;
  }
  check(value.is_number(), "task", where, " must be text, or numbers in lists, got ", shown(value));
  out += (out.empty() ? "" : " ") + dump(value);
}
std::string text_or_numbers(const Tree& value, const std::string& where) {
  if (!value.is_array()) return text_of(value, where);
  std::string out;
  append_numbers(value, where, out);
  return out;
}

const Tree& list_of(const Tree& value, const std::string& where) {
  check(value.is_array(), "task", where, " must be a list, got ", shown(value));
  return value;
}

// Labels are texts, whole numbers or truth values.
int32_t label_of(const Tree& value, LabelNames& labels, const std::string& where) {
  check(value.is_string() || value.is_number_integer() || value.is_boolean(), "task", where,
        " must be a label: text, a whole number, true or false; got ", shown(value));
  return labels.index(value.is_string() ? value.get<std::string>() : dump(value), where);
}

void set_words(Example& example, const Tree& words, const Tree& tags, LabelNames& labels, const std::string& words_at,
               const std::string& tags_at) {
  list_of(words, words_at);
  list_of(tags, tags_at);
  check(!words.empty(), "task", words_at, " has no words");
  check(words.size() == tags.size(), "task", tags_at, " must have as many tags as there are words, ", words.size(),
        ", got ", tags.size());
  for (size_t i = 0; i < words.size(); ++i) {
    example.words.push_back(text_of(words[i], cat(words_at, "[", i, "]")));
    example.tags.push_back(tags[i].is_null() ? -1 : label_of(tags[i], labels, cat(tags_at, "[", i, "]")));
  }
  check(std::any_of(example.tags.begin(), example.tags.end(), [](int32_t tag) { return tag >= 0; }), "task", tags_at,
        " has no label, null alone");
}

// Where each character of a text begins, and the end.
std::vector<int64_t> character_starts(std::string_view text) {
  std::vector<int64_t> starts;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(int64_t(i));
  starts.push_back(int64_t(text.size()));
  return starts;
}

// Answers whose start may count characters or bytes: a whole file counts one of them.
class AnswerStarts {
 public:
  /// The answer `text` said to start at `start` of `context`.
  void add(const std::string& context, const std::vector<int64_t>& starts, const std::string& text, uint64_t start,
           const std::string& where) {
    const auto stands_at = [&](uint64_t byte) {
      return byte <= context.size() && context.compare(byte, text.size(), text) == 0;
    };
    const bool inside = start < starts.size();
    in_characters_.push_back(inside ? starts[start] : 0);
    in_bytes_.push_back(int64_t(std::min<uint64_t>(start, context.size())));
    if (!stands_at(start)) all_at_bytes_ = false;
    if (problem_.empty() && !(inside && stands_at(uint64_t(starts[start]))))
      problem_ =
          cat(where, ": the answer '", shortened(text), "' does not stand at character ", start, " of its context",
              inside ? cat(", where '", shortened(std::string_view(context).substr(size_t(starts[start]))), "' stands")
                     : cat(", which has ", starts.size() - 1, " characters"));
  }

  /// Sets Answer::begin of the answers, in the order of add.
  void settle(std::vector<Example>& examples, size_t from) const {
    check(problem_.empty() || all_at_bytes_, "task", problem_,
          "; answer_start counts characters (code points) or, in all of a file, bytes");
    const std::vector<int64_t>& begins = problem_.empty() ? in_characters_ : in_bytes_;
    size_t i = 0;
    for (; from < examples.size(); ++from)
      for (Answer& answer : examples[from].answers) answer.begin = begins[i++];
  }

 private:
  std::vector<int64_t> in_characters_, in_bytes_;
  std::string problem_;  // the first answer that does not stand at its character
  bool all_at_bytes_ = true;
};

Example read_question(const Tree& question, const std::string& context, const std::vector<int64_t>& character_starts,
                      AnswerStarts& starts, const std::string& where) {
  Example example;
  example.text = text_of(member(question, "question", where), where + ".question");
  example.pair = context;
  example.has_pair = true;
  if (const auto id = question.find("id"); id != question.end())
    example.id = id->is_string() ? id->get<std::string>() : id->dump();
  const Tree& answers = list_of(member(question, "answers", where), where + ".answers");
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string at = cat(where, ".answers[", i, "]");
    const std::string& text = text_of(member(answers[i], "text", at), at + ".text");
    const Tree& start = member(answers[i], "answer_start", at);
    check(!text.empty(), "task", at, ".text is empty; a question without an answer has no answers");
    check(start.is_number_unsigned(), "task", at, ".answer_start must be a whole number from 0, got ", shown(start));
    starts.add(context, character_starts, text, start.get<uint64_t>(), at);
    example.answers.push_back({.text = text});
  }
  if (const auto impossible = question.find("is_impossible"); impossible != question.end()) {
    check(impossible->is_boolean(), "task", where, ".is_impossible must be true or false, got ", shown(*impossible));
    check(impossible->get<bool>() == example.answers.empty(), "task", where, ": is_impossible is ", impossible->dump(),
          ", but there are ", example.answers.size(), " answers");
  }
  return example;
}

}  // namespace

void parse_json_lines(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                      std::vector<Example>& out) {
  const std::string text_key = layout.text.empty() ? "text" : layout.text;
  const std::string label_key = layout.label.empty() ? "label" : layout.label;
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = cat(name, ":", number);
    const Tree object = parse_json_sorted(line, where);
    const auto value = [&](const std::string& key, const char* remedy) -> const Tree& {
      return member(object, key, where, remedy);
    };
    const auto at = [&](const std::string& key) { return cat(where, ": '", key, "'"); };
    static const Tree none("");
    const Tree& first = layout.features.empty() || !layout.text.empty() ? value(text_key, "; set task.text") : none;
    const Tree& target = value(label_key, "; set task.label");
    Example example;
    if (!layout.features.empty()) example.place = where;
    for (const auto& [modality, key] : layout.features)  // null or absent: it has none
      if (const auto found = object.find(key); found != object.end() && !found->is_null())
        if (const std::string reference = reference_in(name, text_of(*found, at(key))); !reference.empty())
          example.features[modality] = reference;
    if (!layout.transcript.empty())  // null or absent: it has none
      if (const auto found = object.find(layout.transcript); found != object.end() && !found->is_null())
        example.transcript = text_of(*found, at(layout.transcript));
    if (layout.type == TaskType::tagging) {
      set_words(example, first, target, labels, at(text_key), at(label_key));
    } else {
      example.text = text_or_numbers(first, at(text_key));
      for (const auto& [source, key] : layout.sources)
        example.sources[source] = text_of(value(key, "; set task.sources"), at(key));
      example.has_pair = !layout.text_pair.empty();
      if (example.has_pair)
        example.pair = text_of(value(layout.text_pair, "; set task.text_pair"), at(layout.text_pair));
      if (layout.type == TaskType::text) {
        example.answers.push_back({.text = text_of(target, at(label_key))});
      } else if (layout.type == TaskType::transcription) {
        if (target.is_array())
          for (size_t i = 0; i < target.size(); ++i)
            example.tags.push_back(label_of(target[i], labels, cat(at(label_key), "[", i, "]")));
        else
          set_characters(example, text_of(target, at(label_key)), labels, at(label_key));
      } else if (layout.type == TaskType::classification) {
        example.label = label_of(target, labels, at(label_key));
      } else {
        check(target.is_number(), "task", at(label_key), " must be a number, got ", shown(target));
        example.value = target.get<double>();
      }
    }
    out.push_back(std::move(example));
  }
}

void parse_squad(std::string_view text, const std::string& name, std::vector<Example>& out) {
  check(text.find_first_not_of(" \t\r\n") != std::string_view::npos, "task", "'", name,
        "' is empty; SQuAD's format is a JSON object with 'data'");
  const Tree file = parse_json_sorted(text, name);
  const size_t before = out.size();
  AnswerStarts starts;
  const Tree& articles = list_of(member(file, "data", name), name + ": data");
  for (size_t a = 0; a < articles.size(); ++a) {
    const std::string article = cat(name, ": data[", a, "]");
    const Tree& paragraphs = list_of(member(articles[a], "paragraphs", article), article + ".paragraphs");
    for (size_t p = 0; p < paragraphs.size(); ++p) {
      const std::string paragraph = cat(article, ".paragraphs[", p, "]");
      const std::string& context = text_of(member(paragraphs[p], "context", paragraph), paragraph + ".context");
      const std::vector<int64_t> characters = character_starts(context);
      const Tree& questions = list_of(member(paragraphs[p], "qas", paragraph), paragraph + ".qas");
      for (size_t q = 0; q < questions.size(); ++q)
        out.push_back(read_question(questions[q], context, characters, starts, cat(paragraph, ".qas[", q, "]")));
    }
  }
  starts.settle(out, before);
}

}  // namespace lithe
