#include "lithe/recipe/file_kind.h"

#include <optional>

#include "lithe/base/error.h"

namespace lithe {
namespace {

struct KindName {
  const char *name, *command;
};

KindName name_of(FileKind kind) {
  switch (kind) {
    case FileKind::experiment: return {"an experiment", "lithe compare"};
    case FileKind::search: return {"a search", "lithe search"};
    case FileKind::harness_task: return {"a task of the evaluation harness", "lithe eval RUN --tasks"};
    case FileKind::recipe: break;
  }
  return {"a recipe", "lithe train"};
}

std::optional<FileKind> kind_of(const Node& root) {
  if (root.find("dataset_path")) return FileKind::harness_task;
  if (root.find("choices")) return FileKind::search;
  if (root.find("variants")) return FileKind::experiment;
  if (root.find("model") || root.find("data")) return FileKind::recipe;
  return {};
}

}  // namespace

void check_kind(const Node& root, const std::string& origin, FileKind wanted) {
  const std::optional<FileKind> found = kind_of(root);
  if (!found || *found == wanted) return;
  fail_usage("recipe", origin, ": is ", name_of(*found).name, ", not ", name_of(wanted).name, "; give it to ",
             name_of(*found).command);
}

}  // namespace lithe
