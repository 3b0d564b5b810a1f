// What files of tasks include, and the groups that they form.
#include <algorithm>
#include <cmath>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/repeated_keys.h"
#include "lithe/eval/zero_shot_reading.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargest = uint64_t(1) << 24;

constexpr std::string_view kFunction = "!function";

// Entries of `from`, but for some keys, replace those of `to`.
void set_all(Node& to, const Node& from, std::initializer_list<std::string_view> but = {}) {
  for (const auto& [key, value] : from.entries())
    if (std::find(but.begin(), but.end(), key) == but.end()) to.set(key, value);
}

Node read_node(const Path& file, std::vector<Path>& open) {
  check_usage(fs::is_regular_file(file), "eval", "'", file.string(),
              "' is no file; --tasks takes YAML files that describe tasks");
  const Path real = fs::canonical(file);
  check_usage(std::find(open.begin(), open.end(), real) == open.end(), "eval", "'", file.string(), "' includes itself");
  Node own = parse_repeated_yaml(read_file(file, kLargest), file.string());
  check_usage(own.is_map(), "eval", "'", file.string(), "' must hold keys task, output_type, doc_to_text, ...");
  const Node* include = own.find("include");
  if (!include) return own;
  open.push_back(real);
  Node out = Node::map();
  for (const Node& one : include->is_list() ? include->items() : std::vector<Node>{*include})
    set_all(out, read_node(file.parent_path() / one.text(), open), {"task_list"});
  open.pop_back();
  set_all(out, own, {"include"});
  return out;
}

bool is_group(const Node& node) {
  const Node* task = node.find("task");
  return node.find("group") && task && !(task->is_scalar() || task->is_null());
}

// The tasks, groups and tags that the files of a folder name.
class TaskIndex {
 public:
  explicit TaskIndex(const Path& folder) {
    std::vector<Path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
      if (entry.is_regular_file() && entry.path().extension() == ".yaml") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const Path& file : files) add(file);
  }
  const Path* file(const std::string& name) const {
    const auto found = files_.find(name);
    return found == files_.end() ? nullptr : &found->second;
  }
  std::set<std::string> tagged(const std::string& tag) const {
    const auto found = tags_.find(tag);
    return found == tags_.end() ? std::set<std::string>() : found->second;
  }

 private:
  std::map<std::string, Path> files_;
  std::map<std::string, std::set<std::string>> tags_;

  // Only names and tags count here, those of included files, too: a file that no task of the group names may be of any
  // kind.
  void add(const Path& file) {
    Node node;
    try {
      node = read_task_node(file);
    } catch (const Error&) {
      return;
    }
    const Node* name = node.find(is_group(node) ? "group" : "task");
    if (!name || !name->is_scalar()) return;
    const Node* tags = node.find("tag");
    if (!files_.emplace(name->text(), file).second || !tags) return;
    for (const Node& tag : tags->is_list() ? tags->items() : std::vector<Node>{*tags})
      tags_[tag.text()].insert(name->text());
  }
};

std::vector<ZeroShotGroup::Mean> means_of(const Node* list) {
  std::vector<ZeroShotGroup::Mean> out;
  if (!list || list->is_null()) return out;
  for (const Node& one : list->is_list() ? list->items() : std::vector<Node>{*list}) {
    ZeroShotGroup::Mean mean;
    std::string aggregation = "mean";
    Node filters;
    read_fields(one, "aggregate_metric_list", [&](Fields& f) {
      f("metric", mean.metric, "whose mean is taken", {.required = true});
      f("aggregation", aggregation, "mean alone", one_of({"mean"}));
      f("weight_by_size", mean.weight_by_size, "documents count alike, not tasks");
      f.free("filter_list", filters, "of which filters; none: of all");
    });
    for (const Node& name : filters.is_list()   ? filters.items()
                            : filters.is_null() ? std::vector<Node>()
                                                : std::vector<Node>{filters})
      mean.filters.push_back(name.text());
    out.push_back(mean);
  }
  return out;
}

class SuiteReader {
 public:
  SuiteReader(const Path& file, const ZeroShotReading& how) : how_(how), index_(fs::absolute(file).parent_path()) {}

  /// `name`: what results call it. `over`: keys that replace those of all tasks within.
  std::vector<std::string> group(const Node& node, const Path& file, const std::string& name, Node over) {
    constexpr int kDeepest = 16;
    check_usage(++depth_ <= kDeepest, "eval", file.string(), ": groups stand within more than ", kDeepest, " others");
    ZeroShotGroup out;
    out.name = name;
    Node all = Node::map();
    set_all(all, node, {"group", "task", "group_alias", "aggregate_metric_list", "metadata", "tag"});
    set_all(all, over);
    if (const Node* alias = node.find("group_alias")) out.alias = alias->text();
    if (const Node* means = node.find("aggregate_metric_list")) refuse_functions(*means, "aggregate_metric_list");
    out.means = means_of(node.find("aggregate_metric_list"));
    const size_t place = suite.groups.size();
    suite.groups.push_back(out);
    for (const Node& member : node.find("task")->items())
      for (std::string& one : tasks_of(member, file, name, all)) out.tasks.push_back(std::move(one));
    suite.groups[place] = out;
    --depth_;
    return out.tasks;
  }

  ZeroShotSuite suite;

 private:
  ZeroShotReading how_;
  TaskIndex index_;
  int depth_ = 0;
  std::set<std::string> read_;

  std::vector<std::string> tasks_of(const Node& member, const Path& file, const std::string& outer, const Node& over) {
    const bool grouped = member.is_map() && member.find("group");
    const Node* named = member.is_map() ? member.find(grouped ? "group" : "task") : &member;
    check_usage(named && named->is_scalar(), "eval", to_string(member.mark()),
                ": a group's task must be a name, or a map with task or group");
    const std::string& name = named->text();
    const Path* found = index_.file(name);
    Node own = over;
    set_all(own, member, {"group", "task"});
    if (grouped && !found) return group(member, file, outer + "::" + name, over);
    if (found) {
      std::vector<Path> open;
      Node node = read_node(*found, open);
      if (is_group(node)) return group(node, *found, name, own);
      set_all(node, own);
      return {add(node, *found)};
    }
    std::vector<std::string> out;
    for (const std::string& tagged : index_.tagged(name))
      for (std::string& one : tasks_of(Node::scalar(tagged, member.mark()), file, outer, own))
        out.push_back(std::move(one));
    if (out.empty() && member.is_map() && own.find("dataset_path")) {
      own.set("task", Node::scalar(outer + "::" + name, member.mark(), true));
      return {add(own, file)};
    }
    check_usage(!out.empty(), "eval", to_string(member.mark()), ": no file below '", file.parent_path().string(),
                "' describes a task, group or tag '", name, "'");
    return out;
  }
  std::string add(const Node& node, const Path& file) {
    ZeroShotTask task = task_of_node(node, file, how_);
    const std::string name = task.task;
    if (read_.insert(name).second) suite.tasks.push_back(std::move(task));
    return name;
  }
};

const ZeroShotMetric* metric_in(const ZeroShotResult& result, const std::string& name, const std::string& filter) {
  for (const ZeroShotMetric& m : result.metrics)
    if (m.name == name && m.filter == filter) return &m;
  return nullptr;
}

ZeroShotMetric mean_over(const std::vector<std::pair<double, const ZeroShotMetric*>>& parts, bool weighted) {
  ZeroShotMetric out{.name = parts[0].second->name, .filter = parts[0].second->filter, .value = 0, .stderr_ = {}};
  double total = 0, documents = 0, errors = 0;
  bool all = true;
  for (const auto& [size, m] : parts) {
    out.value += (weighted ? size : 1) * m->value;
    total += weighted ? size : 1;
    all = all && m->stderr_;
    const double e = m->stderr_.value_or(0);
    documents += size;
    errors += (size - 1) * e * e * size;
  }
  out.value /= total;
  // As the harness has it (pooled_sample_stderr): of all documents pooled, for a mean of means, too.
  if (all) out.stderr_ = std::sqrt(errors / (documents - double(parts.size())) / documents);
  return out;
}

}  // namespace

bool matches_a_file(const std::string& pattern) {
  try {
    return !glob(pattern).empty();
  } catch (const Error&) {
    return false;
  }
}

void refuse_functions(const Node& node, const std::string& key) {
  check_usage(!node.is_scalar() || node.quoted() || !node.text().starts_with(kFunction), "eval", to_string(node.mark()),
              ": ", key, " is a function of Python (", node.text(),
              "), which is not run; write what it gives into the ", "data");
  for (const Node& one : node.items()) refuse_functions(one, key);
  for (const auto& [name, one] : node.entries()) refuse_functions(one, name);
}

Node read_task_node(const Path& file) {
  std::vector<Path> open;
  return read_node(file, open);
}

ZeroShotSuite read_zero_shot_suite(const Path& file, const ZeroShotReading& how) {
  const Node node = read_task_node(file);
  if (!is_group(node)) return {{task_of_node(node, file, how)}, {}};
  SuiteReader reader(file, how);
  reader.group(node, file, node.find("group")->text(), {});
  return std::move(reader.suite);
}

std::vector<ZeroShotMetric> group_means(const ZeroShotGroup& group,
                                        const std::map<std::string, ZeroShotResult>& results) {
  std::vector<ZeroShotMetric> out;
  for (const ZeroShotGroup::Mean& mean : group.means) {
    std::set<std::string> filters(mean.filters.begin(), mean.filters.end());
    if (filters.empty())
      for (const std::string& task : group.tasks)
        for (const ZeroShotMetric& m : results.at(task).metrics)
          if (m.name == mean.metric) filters.insert(m.filter);
    for (const std::string& filter : filters) {
      std::vector<std::pair<double, const ZeroShotMetric*>> parts;
      for (const std::string& task : group.tasks)
        if (const ZeroShotMetric* m = metric_in(results.at(task), mean.metric, filter))
          parts.push_back({double(results.at(task).documents), m});
      if (!parts.empty()) out.push_back(mean_over(parts, mean.weight_by_size));
    }
  }
  return out;
}

}  // namespace lithe
