#include "lithe/data/examples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/text_file.h"

namespace lithe {
namespace {

std::string format_of(const std::string& name, const ExampleLayout& layout) {
  const auto& formats = example_formats(layout.type);
  if (!layout.format.empty()) {
    check_usage(std::find(formats.begin(), formats.end(), layout.format) != formats.end(), "task", "format '",
                layout.format, "' does not hold examples of this type; those that do: ", join(formats));
    return layout.format;
  }
  Path path = name;
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  static const std::map<std::string, std::string> by_extension = {
      {".tsv", "tsv"},       {".csv", "csv"},      {".jsonl", "jsonl"},  {".ndjson", "jsonl"},     {".json", "squad"},
      {".conllu", "conllu"}, {".ptb", "brackets"}, {".mrg", "brackets"}, {".brackets", "brackets"}};
  if (layout.type == TaskType::classification) {
    if (path.filename().string().find("-images-idx") != std::string::npos) return "idx";
    static const std::map<std::string, std::string> pictures = {
        {".bin", "cifar10"},       {".tar", "image_folder"}, {".png", "image_folder"}, {".jpg", "image_folder"},
        {".jpeg", "image_folder"}, {".ppm", "image_folder"}, {".pgm", "image_folder"}};
    if (const auto found = pictures.find(path.extension().string()); found != pictures.end()) return found->second;
  }
  const auto found = by_extension.find(path.extension().string());
  check_usage(found != by_extension.end() && std::find(formats.begin(), formats.end(), found->second) != formats.end(),
              "task", "the name of '", name, "' does not say its format; set task.format to one of ", join(formats));
  return found->second;
}

// An option that the format has no use for is a mistake.
void refuse_idle_options(const std::string& format, const ExampleLayout& layout) {
  std::string idle;
  for (const std::string& option : idle_options(format, layout)) idle += (idle.empty() ? "task." : ", task.") + option;
  check_usage(idle.empty(), "task", "format ", format, " does not use ", idle, "; remove these keys");
}

}  // namespace

std::vector<std::string> idle_options(const std::string& format, const ExampleLayout& layout) {
  std::vector<std::string> out;
  const auto idle = [&](bool set, const std::string& option) {
    if (set) out.push_back(option);
  };
  const bool table = format == "tsv" || format == "csv", columns = table || format == "jsonl";
  idle(layout.header && !table, "header");
  const bool tagged = format == "conllu" && (layout.type == TaskType::tagging || layout.type == TaskType::parsing);
  idle(!layout.text.empty() && !columns && !tagged, "text");
  for (const auto& [modality, column] : layout.features) idle(!columns || layout.type == TaskType::tagging, modality);
  idle(!layout.text_pair.empty() && (!columns || layout.type == TaskType::tagging), "text_pair");
  idle(!layout.label.empty() && !columns && format != "conllu", "label");
  return out;
}

// ---- names of labels

LabelNames::LabelNames(std::vector<std::string> names) : names_(std::move(names)), learns_(names_.empty()) {
  for (size_t i = 0; i < names_.size(); ++i) {
    check_usage(!names_[i].empty(), "task", "label ", i + 1, " of task.labels is empty; name it");
    check_usage(index_.emplace(names_[i], int32_t(i)).second, "task", "label '", names_[i],
                "' stands twice in task.labels; remove one");
  }
}

int32_t LabelNames::index(const std::string& name, const std::string& where) {
  check(!name.empty(), "task", where, " is empty, but must be a label");
  const auto found = index_.find(name);
  if (found != index_.end()) return found->second;
  if (!learns_) {
    const std::vector<std::string> first(names_.begin(), names_.begin() + std::min<ptrdiff_t>(names_.size(), 20));
    fail("task", where, " is '", shortened(name), "', no label; the labels are ", join(first),
         names_.size() > first.size() ? ", ..." : "", did_you_mean(name, names_));
  }
  names_.push_back(name);
  return index_[name] = int32_t(names_.size()) - 1;
}

void LabelNames::sort(std::vector<Example>& examples) {
  std::vector<int32_t> place(names_.size());  // of each index after sorting
  names_.clear();
  for (auto& [name, index] : index_) {  // a map is in the order of its keys
    place[size_t(index)] = int32_t(names_.size());
    index = int32_t(names_.size());
    names_.push_back(name);
  }
  learns_ = false;
  for (Example& example : examples) {
    if (example.label >= 0) example.label = place[size_t(example.label)];
    for (int32_t& tag : example.tags)
      if (tag >= 0) tag = place[size_t(tag)];
  }
}

// ---- what the readers share

void set_characters(Example& example, std::string_view text, LabelNames& labels, const std::string& where) {
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    example.tags.push_back(labels.index(std::string(text.substr(begin, end - begin)), where));
  }
}

void set_target(Example& example, const std::string& cell, const ExampleLayout& layout, LabelNames& labels,
                const std::string& where, const char* hint) {
  if (layout.type == TaskType::classification) {
    example.label = labels.index(cell, where);
    return;
  }
  if (layout.type == TaskType::text) return void(example.answers.push_back({.text = cell}));
  if (layout.type == TaskType::transcription) return set_characters(example, cell, labels, where);
  const auto value = finite_number(cell);
  check(value.has_value(), "task", where, " must be a finite number, got '", shortened(cell), "'", hint);
  example.value = *value;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

void split(std::string_view line, char separator, std::vector<std::string>& parts) {
  parts.clear();
  for (size_t end; (end = line.find(separator)) != std::string_view::npos; line.remove_prefix(end + 1))
    parts.emplace_back(line.substr(0, end));
  parts.emplace_back(line);
}

std::optional<double> finite_number(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::string shortened(std::string_view text) {
  if (text.size() <= 60) return std::string(text);
  size_t end = 60;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

// ---- reading

const std::vector<std::string>& example_formats(TaskType type) {
  static const std::vector<std::string> texts = {"tsv", "csv", "jsonl", "label_text", "conllu"},
                                        words = {"conllu", "brackets", "jsonl"}, spans = {"squad"}, trees = {"conllu"},
                                        classes = {"tsv",    "csv", "jsonl",   "label_text",
                                                   "conllu", "idx", "cifar10", "image_folder"};
  switch (type) {
    case TaskType::tagging: return words;
    case TaskType::span: return spans;
    case TaskType::parsing: return trees;
    case TaskType::classification: return classes;
    default: return texts;
  }
}

void parse_examples(std::string_view text, const std::string& name, const ExampleLayout& layout, LabelNames& labels,
                    std::vector<Example>& out) {
  const std::string format = format_of(name, layout);
  refuse_idle_options(format, layout);
  refuse_invalid_utf8(text, name, "task");
  const size_t before = out.size();
  if (format == "tsv") parse_tsv(text, name, layout, labels, out);
  if (format == "csv") parse_csv(text, name, layout, labels, out);
  if (format == "label_text") parse_label_text(text, name, layout, labels, out);
  if (format == "jsonl") parse_json_lines(text, name, layout, labels, out);
  if (format == "conllu") parse_conllu(text, name, layout, labels, out);
  if (format == "brackets") parse_brackets(text, name, layout, labels, out);
  if (format == "squad") parse_squad(text, name, out);
  check(out.size() > before, "task", "'", name, "' holds no examples; give a file with examples in format ", format);
}

std::string reference_in(const std::string& manifest, const std::string& reference) {
  if (reference.empty() || reference.starts_with("$LITHE_DATA/") || Path(reference).is_absolute()) return reference;
  return (Path(manifest).parent_path() / reference).string();
}

void read_examples(const Path& path, const ExampleLayout& layout, LabelNames& labels, std::vector<Example>& out) {
  if (layout.type == TaskType::classification) {
    const std::string format = format_of(path.string(), layout);
    if (format == "idx" || format == "cifar10" || format == "image_folder") {
      refuse_idle_options(format, layout);
      if (format == "idx") return read_idx(path, labels, out);
      if (format == "cifar10") return read_cifar10(path, labels, out);
      return read_image_folder(path, labels, out);
    }
  }
  parse_examples(read_text(path, "task"), path.string(), layout, labels, out);
}

}  // namespace lithe
