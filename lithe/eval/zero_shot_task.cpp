#include <cstdlib>

#include "lithe/base/error.h"
#include "lithe/eval/zero_shot.h"
#include "lithe/eval/zero_shot_generation.h"

namespace lithe {
namespace {

// What the harness's own files say beside what is measured, and which metrics they want: those of the type are given.
void take_irrelevant(Node& node) {
  for (const char* key : {"tag", "group", "dataset_name", "training_split", "validation_split", "test_split",
                          "fewshot_split", "metric_list", "metadata", "should_decontaminate",
                          "doc_to_decontamination_query", "task_alias", "description", "target_delimiter_"})
    if (const Node* value = node.find(key)) {
      check_usage(std::string(key) != "description" || value->text().empty(), "eval", to_string(value->mark()),
                  ": description puts a text before every question, which is not supported; leave it empty");
      node.erase(key);
    }
}

}  // namespace

ZeroShotTask read_zero_shot_task(const Path& file) {
  check_usage(std::filesystem::is_regular_file(file), "eval", "'", file.string(),
              "' is no file; --tasks takes YAML files that describe tasks");
  Node node = parse_yaml(read_file(file, uint64_t(1) << 20), file.string());
  check_usage(node.is_map(), "eval", "'", file.string(), "' must hold keys task, output_type, doc_to_text, ...");
  ZeroShotTask out;
  out.source = node;
  if (const Node* metadata = node.find("metadata"))
    if (const Node* version = metadata->find("version")) out.version = std::atof(version->text().c_str());
  std::string split;  // the harness scores the test data, or where there are none those for validation
  for (const char* key : {"test_split", "validation_split"})
    if (const Node* name = node.find(key); name && split.empty()) split = name->text();
  if (const Node* type = node.find("output_type"); type && type->text() == "generate_until") read_generation(node, out);
  take_irrelevant(node);
  if (const Node* files = node.find("dataset_kwargs")) {
    const Node* named = files->find("data_files");
    check_usage(named, "eval", to_string(files->mark()), ": dataset_kwargs must name data_files, JSON lines");
    Node inner = *named;
    if (named->is_map()) {
      const Node* scored = named->find(split);
      check_usage(scored, "eval", to_string(named->mark()),
                  ": test_split (or validation_split) must name one of these data_files, got '", split, "'");
      inner = *scored;
    }
    Node list = Node::list();
    for (const Node& one : inner.is_list() ? inner.items() : std::vector<Node>{inner}) list.push(one);
    node.erase("dataset_kwargs");
    node.set("data_files", list);
  }
  if (const Node* target = node.find("doc_to_target"); target && target->is_scalar() && !target->quoted())
    node.set("doc_to_target", Node::scalar(target->text(), target->mark(), true));
  int64_t repeats = 1;
  read_fields(node, "", [&](Fields& f) {
    f("task", out.task, "name of the task", {.required = true});
    f("dataset_path", out.dataset_path, "json alone: data are read from files", one_of({"json"}));
    f("data_files", out.data_files, "files of JSON lines");
    f("output_type", out.output_type, "what is measured",
      one_of({"multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until"}));
    f("doc_to_text", out.doc_to_text, "template of what stands before");
    f("doc_to_target", out.doc_to_target, "template of the right choice's number or text, or of what follows");
    f.free("doc_to_choice", out.doc_to_choice, "template of a list, or a list");
    f("target_delimiter", out.target_delimiter, "between text and choice");
    f("repeats", repeats, "answers to each document; greedily written, they are all the same", between(1, 1));
    f("num_fewshot", out.num_fewshot, "examples before a question; 0 alone", between(0, 0));
  });
  const bool choices = out.output_type == "multiple_choice";
  check_usage(!out.data_files.empty(), "eval", "'", file.string(), "' names no data_files");
  check_usage(out.output_type == "loglikelihood_rolling" ? !out.doc_to_target.empty() || !out.doc_to_text.empty()
                                                         : !out.doc_to_target.empty(),
              "eval", "'", file.string(), "' has no doc_to_target");
  check_usage(choices != out.doc_to_choice.is_null(), "eval", "'", file.string(), "': doc_to_choice ",
              choices ? "is missing" : "is for multiple_choice");
  const char* home = std::getenv("LITHE_DATA");
  for (std::string& name : out.data_files) {
    const Path beside = file.parent_path() / name;
    if (std::filesystem::exists(name)) continue;
    if (std::filesystem::exists(beside))
      name = beside.string();
    else if (home && std::filesystem::exists(Path(home) / name))
      name = (Path(home) / name).string();
    check_usage(std::filesystem::exists(name), "eval", "'", file.string(), "': '", name,
                "' is neither here, beside the task, nor under LITHE_DATA");
  }
  return out;
}

}  // namespace lithe
