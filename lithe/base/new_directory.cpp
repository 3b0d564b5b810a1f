#include "lithe/base/new_directory.h"

#include <set>

#include "lithe/base/error.h"
#include "lithe/base/json.h"

namespace lithe {

namespace fs = std::filesystem;

namespace {

// All files and directories below, by their names from there.
std::set<std::string> entries_of(const Path& directory) {
  std::set<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    out.insert(entry.path().lexically_relative(directory).string());
  return out;
}

std::set<std::string> noted_entries(const Path& directory, const std::string& operation) {
  const Path notes = directory / NewDirectory::kNotes;
  std::set<std::string> out;
  if (!fs::exists(notes)) return out;
  const Json json = parse_json(read_file(notes, 1 << 20), notes.string());
  if (!json.is_object() || json.value("made_by", "") != operation || !json["entries"].is_array()) return out;
  for (const Json& name : json["entries"])
    if (name.is_string()) out.insert(name.get<std::string>());
  out.insert(NewDirectory::kNotes);
  return out;
}

}  // namespace

void NewDirectory::check_place(const Path& path, const std::string& operation, bool overwrite) {
  if (!fs::exists(path)) return;
  check_usage(fs::is_directory(path), operation, "'", path.string(), "' is a file; give --out a new directory");
  if (fs::is_empty(path)) return;
  check_usage(overwrite, operation, "'", path.string(),
              "' exists; give --out a new directory, or --overwrite to replace what lithe ", operation, " wrote there");
  const std::set<std::string> noted = noted_entries(path, operation);
  for (const std::string& entry : entries_of(path))
    check_usage(noted.count(entry) > 0, operation, "'", path.string(), "' holds '", entry, "', which lithe ", operation,
                " did not write; give --out another directory");
}

NewDirectory::NewDirectory(const Path& path, const std::string& operation, bool overwrite)
    : operation_(operation), overwrite_(overwrite) {
  check_place(path, operation, overwrite);
  parents_.emplace(fs::absolute(path / "").lexically_normal().parent_path().parent_path());
  temporary_.emplace(path, Temporary::Kind::directory);
}

void NewDirectory::commit() {
  write_file(path() / kNotes, dump(Json({{"made_by", operation_}, {"entries", entries_of(path())}}), 2) + "\n");
  if (overwrite_)
    temporary_->exchange();
  else
    temporary_->commit();
}

}  // namespace lithe
