#include "lithe/interchange/tensor_source.h"

#include "lithe/base/json.h"
#include "lithe/model/safetensors.h"

namespace lithe {

std::set<std::string> TensorSource::names() const {
  std::set<std::string> out;
  for (const auto& [name, entry] : entries_) out.insert(name);
  return out;
}

const TensorSource::Entry& TensorSource::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  check(found != entries_.end(), "import", place(), " has no tensor '", name, "', which config.json calls for");
  return found->second;
}

namespace {

class Shards final : public TensorSource {
 public:
  explicit Shards(const Path& directory) : directory_(directory) {
    namespace fs = std::filesystem;
    const Path whole = directory / "model.safetensors", index = directory / "model.safetensors.index.json";
    if (!fs::exists(whole) && fs::exists(index)) {
      read_index(index);
      return;
    }
    check_usage(
        fs::exists(whole), "import", "'", directory.string(),
        "' has no model.safetensors and no model.safetensors.index.json; convert other formats (pytorch_model.bin) "
        "to safetensors first");
    open("model.safetensors");
  }

  Tensor read(const std::string& name) const override {
    const Entry& e = entry(name);
    const Tensor out = empty(e.shape, e.dtype);
    files_.at(e.file)->read(name, out);
    return out;
  }
  std::string place() const override { return "'" + directory_.string() + "'"; }

 private:
  Path directory_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;

  void open(const std::string& file) {
    check(std::filesystem::is_regular_file(directory_ / file), "import", "'", (directory_ / file).string(),
          "' is no file; a model's weights are read from files alone");
    auto opened = std::make_unique<SafetensorsFile>(directory_ / file);
    for (const auto& [name, e] : opened->entries()) {
      const auto before = entries_.find(name);
      if (before != entries_.end())
        fail("import", place(), ": tensor '", name, "' stands in '", before->second.file, "' and in '", file, "'");
      entries_[name] = {e.shape, e.dtype, e.half ? "F16" : name_of(e.dtype), file};
    }
    files_[file] = std::move(opened);
  }

  void read_index(const Path& index) {
    constexpr uint64_t kMost = uint64_t(1) << 28;
    const auto tree = parse_json_sorted(read_file(index, kMost), index.string(), true);
    check(tree.is_object() && tree.contains("weight_map") && tree["weight_map"].is_object(), "import", "'",
          index.string(), "' must have an object weight_map of tensors and files");
    for (const auto& [name, file] : tree["weight_map"].items()) {
      check(file.is_string(), "import", "'", index.string(), "': tensor '", name, "' must have the name of a file");
      const auto text = file.get<std::string>();
      check(!text.empty() && text.find_first_of("/\\") == std::string::npos && text != "." && text != "..", "import",
            "'", index.string(), "': tensor '", name, "' points to '", text,
            "', which is not the name of a file in its directory");
      if (!files_.count(text)) {
        check(std::filesystem::exists(directory_ / text), "import", "'", index.string(), "' lists the shard '", text,
              "', which is missing; fetch all files of the model");
        open(text);
      }
      check(has(name) && entries_.at(name).file == text, "import", "'", index.string(), "': tensor '", name,
            "' is not in '", text, "'; index and shards must be of one model");
    }
    for (const auto& [name, e] : entries_)
      check(tree["weight_map"].contains(name), "import", "'", index.string(), "' does not list tensor '", name,
            "' of '", e.file, "'; index and shards must be of one model");
  }
};

}  // namespace

std::unique_ptr<TensorSource> open_safetensors(const Path& directory) { return std::make_unique<Shards>(directory); }

}  // namespace lithe
