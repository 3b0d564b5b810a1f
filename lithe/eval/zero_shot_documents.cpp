#include "lithe/eval/zero_shot_documents.h"

#include <algorithm>
#include <set>

#include "lithe/eval/python_random.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/zero_shot_answers.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> out;
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    out.emplace_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// A line of names, then one document a line.
void add_table(const std::string& name, const std::string& text, std::vector<Json>& out) {
  std::vector<std::string> names;
  int64_t line = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> cells = cells_of(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (names.empty()) {
      names = cells;
      continue;
    }
    check(cells.size() == names.size(), "eval", "'", name, "' line ", line + 1, " has ", cells.size(),
          " cells, its first line ", names.size());
    Json& document = out.emplace_back(Json::object());
    for (size_t i = 0; i < cells.size(); ++i) document[names[i]] = cells[i];
  }
}

// A document a page; a page begins with its title, as in " = Title = ".
void add_pages(const std::string& text, std::vector<Json>& out) {
  const auto is_title = [](std::string_view line) {
    return line.starts_with(" = ") && !line.starts_with(" = = ") && (line.ends_with(" = ") || line.ends_with(" ="));
  };
  std::string page;
  const auto close = [&] {
    if (page.find_first_not_of(" \n") != std::string::npos) out.push_back({{"page", page}});
    page.clear();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1);
    std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    if (is_title(line.substr(0, line.size() - line.ends_with('\n')))) close();
    page += line;
    begin = end + 1;
  }
  close();
}

// Whole numbers among others are reals, also within lists and within objects that all have the same fields.
void unify_numbers(const std::vector<Json*>& values) {
  std::vector<Json*> items;
  std::map<std::string, std::vector<Json*>> fields;
  size_t objects = 0;
  for (Json* value : values) {
    if (value->is_array())
      for (Json& item : *value) items.push_back(&item);
    objects += value->is_object();
    if (value->is_object())
      for (auto& [name, inner] : value->items()) fields[name].push_back(&inner);
  }
  if (!items.empty()) unify_numbers(items);
  const bool alike =
      std::all_of(fields.begin(), fields.end(), [&](const auto& f) { return f.second.size() == objects; });
  if (alike)
    for (const auto& [name, inner] : fields) unify_numbers(inner);
  const auto is_number = [](Json* value) { return value->is_number() || value->is_null(); };
  if (!std::all_of(values.begin(), values.end(), is_number)) return;
  if (std::any_of(values.begin(), values.end(), [](Json* value) { return value->is_number_float(); }))
    for (Json* value : values)
      if (value->is_number()) *value = value->get<double>();
}

// As the columns of a table that the library datasets makes: what one document has, all have.
void complete(std::vector<Json>& documents) {
  std::map<std::string, std::vector<Json*>> columns;
  for (Json& document : documents)
    for (auto& [name, value] : document.items()) columns[name].push_back(&value);
  for (const auto& [name, values] : columns) unify_numbers(values);
  for (Json& document : documents)
    if (document.size() < columns.size())
      for (const auto& [name, values] : columns)
        if (!document.contains(name)) document[name] = nullptr;
}

bool is_space(const std::string& character) { return is_python_space(utf8_unit(character).code_point); }

// Neither side of the seam has white space there.
bool needs_delimiter(const std::string& before, const std::string& behind) {
  if (before.empty() || behind.empty()) return false;
  return !is_space(characters_of(before).back()) && !is_space(characters_of(behind).front());
}

std::string delimited(const std::string& before, const std::string& behind) {
  return before + (needs_delimiter(before, behind) ? " " : "") + behind;
}

constexpr uint32_t kExampleSeed = 1234;  // the harness's own

// The examples of one question after another: the generator goes on from question to question.
class ExampleSampler {
 public:
  ExampleSampler(const ZeroShotTask& task, std::vector<Json> pool) : task_(task), pool_(std::move(pool)) {}

  std::vector<const Json*> next(const Json& question) {
    const auto same = [&](const Json* one) { return python_equal(*one, question); };
    std::vector<const Json*> all;
    for (const Json& one : pool_) all.push_back(&one);
    const auto wanted = size_t(task_.num_fewshot);
    if (task_.first_examples) {
      if (task_.same_split) std::erase_if(all, same);
      check_usage(all.size() >= wanted, "eval", task_.task, ": ", wanted, " examples are asked for, and there are ",
                  all.size());
      all.resize(wanted);
      return all;
    }
    std::vector<const Json*> out = drawn(all, wanted + task_.same_split);
    if (task_.same_split) std::erase_if(out, same);
    if (out.size() < wanted) {
      std::erase_if(all, same);
      out = drawn(all, wanted);
    }
    out.resize(wanted);
    return out;
  }

 private:
  const ZeroShotTask& task_;
  std::vector<Json> pool_;
  PythonRandom random_{kExampleSeed};

  std::vector<const Json*> drawn(const std::vector<const Json*>& of, size_t count) {
    std::vector<const Json*> out;
    for (const int64_t at : random_.sample(int64_t(of.size()), int64_t(count))) out.push_back(of[size_t(at)]);
    return out;
  }
};

std::vector<Json> example_pool(const ZeroShotTask& task) {
  if (task.samples.is_null()) return zero_shot_documents(task.example_files);
  std::vector<Json> out;
  for (const Node& one : task.samples.items()) out.push_back(parse_json(to_json(one), task.task));
  return out;
}

}  // namespace

std::vector<Json> zero_shot_documents(const std::vector<std::string>& files) {
  std::vector<Json> out;
  for (const std::string& name : files) {
    const std::string kind = Path(name).extension().string();
    check_usage(kind != ".csv" && kind != ".parquet", "eval", "'", name, "' is ", kind.substr(1),
                ", which is not read; write it as JSON lines");
    const std::string text = read_file(name);
    if (kind == ".tsv") add_table(name, text, out);
    if (kind == ".raw" || kind == ".txt") add_pages(text, out);
    if (kind == ".tsv" || kind == ".raw" || kind == ".txt") continue;
    if (const size_t inside = text.find_first_not_of(" \t\r\n", 1);
        text.starts_with('[') && inside != std::string::npos && text[inside] == '{') {
      for (Json& one : parse_json(text, name)) out.push_back(std::move(one));
      check(out.empty() || out.back().is_object(), "eval", "'", name, "' must hold a list of JSON objects");
      continue;
    }
    int line = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++line;
      if (end > begin) {
        out.push_back(parse_json(std::string_view(text).substr(begin, end - begin), cat(name, ":", line)));
        check(out.back().is_object(), "eval", "'", name, "' line ", line, " must be a JSON object");
      }
      begin = end + 1;
    }
  }
  complete(out);
  return out;
}

TaskTexts::TaskTexts(const ZeroShotTask& task, const std::vector<Json>& documents)
    : task_(task), documents_(documents) {
  if (documents.empty()) return;
  if (!task.doc_to_choice.is_null()) multiple_inputs_ = python_integer(text_of(documents[0], task)).has_value();
  if (task.doc_to_target.empty()) return;
  const Json first = target(documents[0]);
  multiple_targets_ = first.is_array() && !first.empty();
}

bool TaskTexts::is_field(const std::string& text) const { return !documents_.empty() && documents_[0].contains(text); }

std::string TaskTexts::rendered(const std::string& text, const Json& document) const {
  const auto found = templates_.find(text);
  const Template& compiled =
      found != templates_.end() ? found->second : templates_.emplace(text, Template(text, task_.task)).first->second;
  return compiled.render(document);
}

Json TaskTexts::resolved(const std::string& text, const Json& document) const {
  if (!is_field(text)) return rendered(text, document);
  check(document.contains(text), "eval", task_.task, ": an example has no field '", text, "'");
  return document[text];
}

Json TaskTexts::text_of(const Json& document, const DocumentTexts& how) const {
  const Json out = resolved(how.doc_to_text, document);
  if (is_field(how.doc_to_text) || task_.doc_to_choice.is_null() || !is_digits(out)) return out;
  return python_literal(out.get<std::string>()).value_or(out);
}

Json TaskTexts::target_of(const Json& document, const DocumentTexts& how) const {
  const Json out = resolved(how.doc_to_target, document);
  if (is_field(how.doc_to_target)) return out;
  const std::string text = out;
  const bool number = is_digits(text) && !task_.doc_to_choice.is_null(),
             list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  return number || list ? python_literal(text).value_or(out) : out;
}

std::vector<std::string> TaskTexts::choices_of(const Json& document, const DocumentTexts& how) const {
  std::vector<std::string> out;
  const Node& given = how.doc_to_choice;
  for (const Node& one : given.items()) out.push_back(one.text());
  for (const auto& [name, one] : given.entries()) out.push_back(one.text());
  if (!given.is_scalar()) return out;
  Json list = resolved(given.text(), document);
  if (list.is_string()) {
    const std::optional<Json> literal = python_literal(list.get<std::string>());
    check(literal.has_value(), "eval", task_.task, ": doc_to_choice gives ", list.get<std::string>(),
          ", which is no list as Python writes it");
    list = *literal;
  }
  check(list.is_array() && !list.empty(), "eval", task_.task, ": doc_to_choice gives ", python_repr(list),
        "; it must be a list of choices");
  for (const Json& one : list) out.push_back(python_text(one));
  return out;
}

std::vector<std::string> TaskTexts::choices(const Json& document) const { return choices_of(document, task_); }

std::vector<int64_t> TaskTexts::right_choices(const Json& document, const std::vector<std::string>& choices) const {
  const Json gold = multiple_inputs_ ? text_of(document, task_) : target(document);
  std::vector<int64_t> out;
  for (const Json& one : gold.is_array() ? gold : Json::array({gold})) {
    int64_t index = python_integer(one).value_or(-1);
    if (one.is_number_float()) index = int64_t(one.get<double>());
    if (one.is_string()) index = std::find(choices.begin(), choices.end(), one.get<std::string>()) - choices.begin();
    if (index >= 0 && index < int64_t(choices.size())) out.push_back(index);
  }
  return out;
}

std::vector<std::string> TaskTexts::right_answers(const Json& document) const {
  const Json gold = target(document);
  if (!task_.doc_to_choice.is_null()) {
    const std::vector<std::string> all = choices(document);
    const std::vector<int64_t> right = right_choices(document, all);
    check(right.size() == 1, "eval", task_.task, ": doc_to_target must give one of the choices");
    return {all[size_t(right[0])]};
  }
  std::vector<std::string> out;
  for (const Json& one : gold.is_array() ? gold : Json::array({gold})) out.push_back(python_text(one));
  check(!out.empty(), "eval", task_.task, ": field '", task_.doc_to_target, "' of a document lists no right answer");
  return out;
}

std::string TaskTexts::question(const std::string& text, const std::string& prefix,
                                const std::string& delimiter) const {
  return text + (!prefix.empty() && needs_delimiter(text, prefix) ? delimiter : "") + prefix;
}

std::string TaskTexts::example(const Json& document) const {
  const DocumentTexts& how = task_.example;
  const Json text = text_of(document, how), answer = target_of(document, how);
  const std::string prefix = how.gen_prefix.empty() ? "" : python_text(resolved(how.gen_prefix, document));
  std::vector<std::string> all;
  if (!how.doc_to_choice.is_null()) all = choices_of(document, how);
  const auto choice = [&](const Json& number) {
    const int64_t at = *python_integer(number);
    check(at >= 0 && at < int64_t(all.size()), "eval", task_.task, ": an example has the number ", at, ", of ",
          all.size(), " choices");
    return all[size_t(at)];
  };
  const std::string before = multiple_inputs_ ? choice(text) : python_text(text);
  if (answer.is_null() || answer == "") return question(before, prefix, how.target_delimiter);
  const Json& first = answer.is_array() ? answer.at(0) : answer;
  const bool number = !multiple_inputs_ && !all.empty() && python_integer(first) && !answer.is_array();
  check(number || first.is_string(), "eval", task_.task, ": an example's answer is ", python_repr(first),
        ", which is no text");
  const std::string right = number ? choice(first) : first.get<std::string>();
  const std::string seam = prefix.empty() || needs_delimiter(before, prefix) ? how.target_delimiter : "";
  return before + seam + delimited(prefix, right) + how.fewshot_delimiter;
}

std::vector<std::vector<std::string>> TaskTexts::contexts() const {
  std::optional<ExampleSampler> sampler;
  if (task_.num_fewshot) sampler.emplace(task_, example_pool(task_));
  std::vector<std::vector<std::string>> out;
  for (const Json& document : documents_) {
    std::string before = task_.description.empty() ? "" : python_text(resolved(task_.description, document));
    if (sampler)
      for (const Json* one : sampler->next(document)) before += example(*one);
    const std::string prefix = task_.gen_prefix.empty() ? "" : python_text(resolved(task_.gen_prefix, document));
    std::vector<std::string>& texts = out.emplace_back();
    if (multiple_inputs_)
      for (const std::string& choice : choices(document)) texts.push_back(before + question(choice, prefix, ""));
    else
      texts.push_back(before + question(python_text(text_of(document, task_)), prefix, task_.target_delimiter));
  }
  return out;
}

}  // namespace lithe
