#include <cstdlib>

#include "lithe/base/error.h"
#include "lithe/eval/template.h"
#include "lithe/eval/zero_shot.h"
#include "lithe/eval/zero_shot_metrics.h"
#include "lithe/eval/zero_shot_reading.h"

namespace lithe {
namespace {

// What the harness's own files say beside what is measured.
constexpr const char* kIrrelevant[] = {
    "tag", "group", "dataset_name", "metadata", "should_decontaminate", "doc_to_decontamination_query"};
// What would need Python, or another reader: refused unless it says nothing.
constexpr const char* kPython[] = {"process_docs", "process_results", "custom_dataset", "use_prompt",
                                   "class",        "doc_to_image",    "doc_to_audio"};

std::string take_text(Node& node, const char* key) {
  const Node* value = node.find(key);
  const std::string out = value && value->is_scalar() ? value->text() : "";
  node.erase(key);
  return out;
}

void refuse_python(Node& node) {
  for (const char* key : kPython)
    if (const Node* value = node.find(key)) {
      check_usage(value->is_null() || value->text().empty(), "eval", to_string(value->mark()), ": ", key,
                  " needs Python; write what it gives into the data");
      node.erase(key);
    }
  for (const char* key : kIrrelevant) node.erase(key);
  if (take_text(node, "unsafe_code") == "true") fail_usage("eval", "unsafe_code is not supported");
}

// ---- data

// The names of files of one split, or of all where there are no splits.
std::vector<std::string> names_of(const Node& files, const std::string& split, const char* what) {
  Node named = files;
  if (files.is_map()) {
    const Node* one = files.find(split);
    check_usage(one, "eval", to_string(files.mark()), ": ", what, " must name one of these data_files, got '", split,
                "'");
    named = *one;
  }
  std::vector<std::string> out;
  for (const Node& one : named.is_list() ? named.items() : std::vector<Node>{named}) out.push_back(one.text());
  return out;
}

// Where the files are: here, beside the task, or under LITHE_DATA; a pattern stands for those that match it.
std::vector<std::string> placed(const std::vector<std::string>& names, const Path& task) {
  const char* home = std::getenv("LITHE_DATA");
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const bool pattern = name.find_first_of("*?[{") != std::string::npos;
    std::string found;
    for (const std::string& at :
         {name, (task.parent_path() / name).string(), home ? (Path(home) / name).string() : ""}) {
      if (at.empty() || !found.empty()) continue;
      if (std::filesystem::exists(at)) found = at;
      if (found.empty() && pattern && matches_a_file(at)) found = at;
    }
    check_usage(!found.empty(), "eval", "'", task.string(), "': '", name,
                "' is neither here, beside the task, nor under LITHE_DATA");
    if (std::filesystem::exists(found))
      out.push_back(found);
    else
      for (const Path& one : glob(found)) out.push_back(one.string());
  }
  return out;
}

struct Splits {
  std::string training, validation, test, examples;
  std::string scored() const { return test.empty() ? validation : test; }
  /// Where the harness takes examples from.
  std::string of_examples() const {
    return !examples.empty() ? examples : !training.empty() ? training : !validation.empty() ? validation : test;
  }
};

void read_data(Node& node, const Path& file, const Splits& splits, ZeroShotTask& out) {
  Node files;
  if (const Node* given = node.find("dataset_kwargs")) {
    const Node* named = given->find("data_files");
    check_usage(named, "eval", to_string(given->mark()), ": dataset_kwargs must name data_files, JSON lines");
    files = *named;
    node.erase("dataset_kwargs");
  } else if (const Node* own = node.find("data_files")) {
    files = *own;
  }
  node.erase("data_files");
  check_usage(!files.is_null(), "eval", "'", file.string(), "' names no data_files");
  out.data_files = placed(names_of(files, splits.scored(), "test_split (or validation_split)"), file);
  if (out.num_fewshot && out.samples.is_null())
    out.example_files = placed(names_of(files, splits.of_examples(), "fewshot_split"), file);
}

// ---- examples

// An unquoted number or true is text all the same.
void make_text(Node& node, const char* key) {
  if (const Node* value = node.find(key); value && value->is_scalar() && !value->quoted())
    node.set(key, Node::scalar(value->text(), value->mark(), true));
}

void read_examples(Node& node, ZeroShotTask& out, Splits& splits) {
  out.example = out;
  const std::string test = splits.test;
  Node given = Node::map();
  if (const Node* config = node.find("fewshot_config"); config && !config->is_null()) given = *config;
  node.erase("fewshot_config");
  given.erase("fewshot_indices");  // which the harness does not read either
  for (const char* key : {"doc_to_text", "doc_to_target"}) make_text(given, key);
  std::string sampler = "default";
  DocumentTexts& e = out.example;
  read_fields(given, "fewshot_config", [&](Fields& f) {
    f("sampler", sampler, "how examples are chosen", one_of({"default", "first_n"}));
    f("split", splits.examples, "whose documents are the examples");
    f.free("samples", out.samples, "the examples");
    f("doc_to_text", e.doc_to_text, "template of an example's text");
    f("doc_to_target", e.doc_to_target, "template of an example's answer");
    f.free("doc_to_choice", e.doc_to_choice, "template of an example's choices");
    f("gen_prefix", e.gen_prefix, "before an example's answer");
    f("fewshot_delimiter", e.fewshot_delimiter, "behind an example");
    f("target_delimiter", e.target_delimiter, "between an example's text and answer");
  });
  out.first_examples = sampler == "first_n";
  out.same_split = splits.examples == test;
  if (!splits.examples.empty()) out.samples = Node();
  check_usage(out.samples.is_null() || out.samples.is_list(), "eval", to_string(out.samples.mark()),
              ": samples of fewshot_config must be a list of documents");
}

void check_complete(const ZeroShotTask& task, const Path& file) {
  const bool choices = task.output_type == "multiple_choice", rolls = task.output_type == "loglikelihood_rolling";
  check_usage(rolls ? !task.doc_to_target.empty() || !task.doc_to_text.empty() : !task.doc_to_target.empty(), "eval",
              "'", file.string(), "' has no doc_to_target");
  const bool written = task.output_type == "generate_until";
  check_usage(written || choices != task.doc_to_choice.is_null(), "eval", "'", file.string(), "': doc_to_choice ",
              choices ? "is missing" : "is for multiple_choice");
  check_usage(!rolls || !task.num_fewshot, "eval", "'", file.string(),
              "': num_fewshot must be 0 for loglikelihood_rolling, which reads texts without questions");
}

// What is no template is refused before any document is read.
void check_templates(const DocumentTexts& texts, const std::string& place) {
  const auto check_one = [&](const char* key, const std::string& text) { Template(text, cat(place, ": ", key)); };
  check_one("doc_to_text", texts.doc_to_text);
  check_one("doc_to_target", texts.doc_to_target);
  check_one("gen_prefix", texts.gen_prefix);
  if (texts.doc_to_choice.is_scalar()) check_one("doc_to_choice", texts.doc_to_choice.text());
}

}  // namespace

ZeroShotTask task_of_node(Node node, const Path& file, const ZeroShotReading& how) {
  ZeroShotTask out;
  out.source = node;
  refuse_functions(node);
  if (const Node* metadata = node.find("metadata"))
    if (const Node* version = metadata->find("version")) out.version = std::atof(version->text().c_str());
  refuse_python(node);
  Splits splits{take_text(node, "training_split"), take_text(node, "validation_split"), take_text(node, "test_split"),
                take_text(node, "fewshot_split")};
  for (const char* key : {"doc_to_text", "doc_to_target", "description"}) make_text(node, key);
  Node data = Node::map(), examples = Node::map();
  for (const char* key : {"dataset_kwargs", "data_files"})
    if (const Node* found = node.find(key)) data.set(key, *found), node.erase(key);
  if (const Node* found = node.find("fewshot_config"))
    examples.set("fewshot_config", *found), node.erase("fewshot_config");
  Node measures = take_measures(node);
  read_fields(node, "", [&](Fields& f) {
    f("task", out.task, "name of the task", {.required = true});
    f("task_alias", out.alias, "what results call it");
    f("dataset_path", out.dataset_path, "json alone: data are read from files", one_of({"json"}));
    f("output_type", out.output_type, "what is measured",
      one_of({"multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until"}));
    f("doc_to_text", out.doc_to_text, "template of what stands before");
    f("doc_to_target", out.doc_to_target, "template of the right choice's number or text, or of what follows");
    f.free("doc_to_choice", out.doc_to_choice, "template of a list, or a list");
    f("description", out.description, "template of what stands before the examples");
    f("gen_prefix", out.gen_prefix, "template of what an answer begins with");
    f("target_delimiter", out.target_delimiter, "between text and choice");
    f("fewshot_delimiter", out.fewshot_delimiter, "behind an example");
    f("repeats", out.repeats, "answers to each document; greedily written, they are all the same", at_least(1));
    f("num_fewshot", out.num_fewshot, "examples before a question", at_least(0));
  });
  const bool fixed = out.source.find("num_fewshot") && !out.num_fewshot;
  // Rolling tasks have no questions for examples to stand before.
  if (how.num_fewshot >= 0 && !fixed && out.output_type != "loglikelihood_rolling") out.num_fewshot = how.num_fewshot;
  read_examples(examples, out, splits);
  read_data(data, file, splits, out);
  read_measures(measures, out);
  check_complete(out, file);
  Template(out.description, cat(file.string(), ": description"));
  check_templates(out, file.string());
  check_templates(out.example, cat(file.string(), ": fewshot_config"));
  return out;
}

ZeroShotTask read_zero_shot_task(const Path& file, const ZeroShotReading& how) {
  return task_of_node(read_task_node(file), file, how);
}

}  // namespace lithe
