#include "lithe/eval/zero_shot_documents.h"

#include <algorithm>

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

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

const Json& field_of(const Json& document, const std::string& path, const std::string& task) {
  const Json* at = &document;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    check(at->is_object() && at->contains(key), "eval", task, ": a document has no field '", path,
          "', which a template reads");
    at = &(*at)[key];
    begin = dot + 1;
  }
  return *at;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : dump(value); }

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    out.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

// A field, one of the two expressions that cut off a text's last word, or the number of a text in a list.
std::string evaluated(const std::string& expression, const Json& document, const std::string& task) {
  constexpr std::string_view before = ".split(' ')[:-1]|join(' ')", last = ".split(' ')[-1]", space = "' '+";
  if (expression.ends_with(before)) {
    const std::string text = text_of(field_of(document, expression.substr(0, expression.size() - before.size()), task));
    return text.substr(0, std::min(text.rfind(' '), text.size()));
  }
  if (expression.ends_with(last)) {
    const bool spaced = expression.starts_with(space);
    const size_t begin = spaced ? space.size() : 0;
    const std::string text =
        text_of(field_of(document, expression.substr(begin, expression.size() - begin - last.size()), task));
    const size_t at = text.rfind(' ');
    return (spaced ? " " : "") + (at == std::string::npos ? text : text.substr(at + 1));
  }
  // The number of a field's text in a list: ['yes', 'no'].index(label).
  if (const size_t index = expression.find("].index(");
      expression.starts_with('[') && index != std::string::npos && expression.ends_with(')')) {
    const std::string value =
        text_of(field_of(document, expression.substr(index + 8, expression.size() - index - 9), task));
    const std::vector<std::string> list = listed(expression.substr(1, index - 1));
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] == "'" + value + "'" || list[i] == '"' + value + '"') return cat(i);
    fail("eval", task, ": '", value, "' of a document is not among ", expression.substr(0, index + 1));
  }
  check_usage(expression.find_first_of(" |()[]'\"+") == std::string::npos, "eval", task, ": the template {{",
              expression, "}} is more than the name of a field; write what it gives into the data");
  return text_of(field_of(document, expression, task));
}

}  // namespace

std::vector<Json> zero_shot_documents(const std::vector<std::string>& files) {
  std::vector<Json> out;
  for (const std::string& name : files) {
    const std::string text = read_file(name);
    const std::string kind = Path(name).extension().string();
    if (kind == ".tsv") add_table(name, text, out);
    if (kind == ".raw" || kind == ".txt") add_pages(text, out);
    if (kind == ".tsv" || kind == ".raw" || kind == ".txt") continue;
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
  return out;
}

std::string rendered(const std::string& text, const Json& document, const std::string& task) {
  check_usage(text.find("{%") == std::string::npos, "eval", task, ": templates with {% %} are not supported");
  // A bare name of a field is that field.
  if (text.find("{{") == std::string::npos && document.contains(text)) return text_of(document[text]);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find("{{", at), close = open == std::string::npos ? open : text.find("}}", open);
    check_usage(open == std::string::npos || close != std::string::npos, "eval", task,
                ": a template has {{ without }}");
    out += text.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    out += evaluated(trimmed(text.substr(open + 2, close - open - 2)), document, task);
    at = close + 2;
  }
  return out;
}

std::vector<std::string> choices_of(const ZeroShotTask& task, const Json& document) {
  std::vector<std::string> out;
  if (task.doc_to_choice.is_list()) {
    for (const Node& one : task.doc_to_choice.items()) out.push_back(rendered(one.text(), document, task.task));
    return out;
  }
  std::string name = task.doc_to_choice.text();
  if (name.starts_with("{{") && name.ends_with("}}")) name = trimmed(name.substr(2, name.size() - 4));
  if (name.starts_with('[') && name.ends_with(']')) {  // fields: [sentence_good, sentence_bad]
    for (const std::string& one : listed(name.substr(1, name.size() - 2)))
      out.push_back(evaluated(one, document, task.task));
    return out;
  }
  const Json& list = field_of(document, name, task.task);
  check(list.is_array() && !list.empty(), "eval", task.task, ": field '", name,
        "' of a document must be a list of choices");
  for (const Json& one : list) out.push_back(text_of(one));
  return out;
}

std::vector<std::string> right_answers(const ZeroShotTask& task, const Json& document) {
  std::string name = task.doc_to_target;
  if (name.starts_with("{{") && name.ends_with("}}")) name = trimmed(name.substr(2, name.size() - 4));
  if (!document.contains(name) || !document[name].is_array())
    return {rendered(task.doc_to_target, document, task.task)};
  std::vector<std::string> out;
  for (const Json& one : document[name]) out.push_back(text_of(one));
  check(!out.empty(), "eval", task.task, ": field '", name, "' of a document lists no right answer");
  return out;
}

size_t right_choice(const ZeroShotTask& task, const Json& document, const std::vector<std::string>& choices) {
  const std::string target = rendered(task.doc_to_target, document, task.task);
  const bool number =
      !target.empty() && target.size() < 6 && target.find_first_not_of("0123456789") == std::string::npos;
  const size_t index =
      number ? size_t(std::stoul(target)) : size_t(std::find(choices.begin(), choices.end(), target) - choices.begin());
  check(index < choices.size(), "eval", task.task, ": doc_to_target gives '", target, "', which is none of the ",
        choices.size(), " choices");
  return index;
}

}  // namespace lithe
