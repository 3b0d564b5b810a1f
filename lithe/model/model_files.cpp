// A model's weights and its config.json as files.
#include <algorithm>
#include <set>

#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/model/model.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/safetensors.h"
#include "lithe/model/tensor_stream.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

bool holds_integers(const Parameter& p) { return p.master.packed() && kernels::integers(p.master.packed()->format); }

}  // namespace

void save_weights(const Model& model, const Path& file, IntegersIn integers) {
  const MemoryScope scratch(MemoryClass::workspace);  // of split numbers, which are joined
  std::map<std::string, PendingTensor> tensors;
  for (const Parameter& p : model.parameters().all())
    if (holds_integers(p)) {
      if (integers == IntegersIn::file) throw PackedMismatch(*p.master.packed(), PackedMismatch::Needs::numbers);
    } else {
      tensors[p.name] = {p.master.shape(), p.numbers_type(), [&p] { return p.numbers(); }};
    }
  const std::map<std::string, std::string> notes{{"format", "lithe"}};
  if (!model.division()) return stream_safetensors(file, tensors, notes);
  model.division()->gather(tensors, {""}, [&](const auto& whole) { stream_safetensors(file, whole, notes); });
}

namespace {

// A piece at a time, so that the numbers do not stand beside the packed ones.
void read_packed(const SafetensorsFile& in, const kernels::PackedMatrix& m) {
  constexpr int64_t kPiece = 1 << 20;
  const MemoryScope scratch(MemoryClass::workspace);
  const int64_t rows = m.shape()[0], piece = std::max<int64_t>(1, kPiece / m.shape()[1]);
  for (int64_t first = 0; first < rows; first += piece) {
    const Tensor numbers = empty({std::min(piece, rows - first), m.shape()[1]}, m.data.dtype(), m.data.device());
    in.read_rows(m.name, first, numbers);
    kernels::pack_rows(m, first, numbers);
  }
}

enum class HeadFrom {
  file,
  file_where_alike,  // whose head has the same tensors
  nowhere,
};

bool heads_alike(const Model& model, const SafetensorsFile& file, const QuantizedWeights& quantized) {
  const Division* const division = model.division();
  std::set<std::string> left;
  for (const auto& [name, entry] : file.entries())
    if (name.starts_with("head."))
      left.insert(quantized.parameter_of(name).empty() ? name : quantized.parameter_of(name));
  for (const Parameter& p : model.parameters().all()) {
    if (!p.name.starts_with("head.")) continue;
    const auto entry = file.entries().find(p.name);
    if (!left.erase(p.name)) return false;
    const Shape shape = division ? division->whole_shape(p) : p.master.shape();
    if (!quantized.has(p.name) && entry->second.shape != shape) return false;
  }
  return division || left.empty();  // another rank may have it
}

void load(Model& model, const Path& file, HeadFrom head, IntegersIn integers = IntegersIn::file) {
  const SafetensorsFile in(file);
  const QuantizedWeights quantized(in, file.string());
  const bool with_head = head == HeadFrom::file,
             with_same_head = head == HeadFrom::file_where_alike && heads_alike(model, in, quantized);
  // Exits are added to a model as it is, and so its head stays. What a stack learns may be new.
  const auto kept = [&](const std::string& name) {
    const Parameter* p = model.exits().empty() ? nullptr : model.parameters().find(name);
    const auto entry = in.entries().find(name);
    return p && entry != in.entries().end() && entry->second.shape == p->master.shape();
  };
  const auto wanted = [&](const std::string& name) {
    if (with_head) return true;
    if (name.starts_with("stack.") && !in.entries().count(name)) return false;
    return !name.starts_with("head.") || with_same_head || kept(name);
  };
  const Division* const division = model.division();
  const auto elsewhere = [&](const Parameter& p) {
    return integers == IntegersIn::another_file && holds_integers(p) && !quantized.has(p.name);
  };
  for (const auto& [name, entry] : in.entries())
    check(division || !wanted(name) || model.parameters().find(name) ||
              model.parameters().find(quantized.parameter_of(name)),
          "load", "'", file.string(), "' has a tensor '", name,
          "' that this model does not; its config.json must be the one the weights were saved with");
  for (Parameter& p : model.parameters().all()) {
    if (!wanted(p.name)) continue;
    if (quantized.has(p.name)) {
      quantized.check_fits(p);
      continue;
    }
    const auto entry = in.entries().find(p.name);
    if (elsewhere(p)) continue;
    check(entry != in.entries().end(), "load", "'", file.string(), "' has no tensor '", p.name, "' ", p.master.shape(),
          "; its config.json must be the one the weights were saved with");
    const Shape shape = division ? division->whole_shape(p) : p.master.shape();
    check(entry->second.shape == shape, "load", "'", file.string(), "': tensor '", p.name, "' is ", entry->second.shape,
          ", the model needs ", shape,
          p.name.find("modalities.") != std::string::npos && p.name.ends_with(".position.weight")
              ? "; for pictures of another size give the modality the old one by position_height and position_width"
              : "");
  }
  std::set<std::string> read_as_integers;
  for (Parameter& p : model.parameters().all()) {  // all fit: nothing is half loaded
    check_not_stopped("load", "the weights were not read");
    if (!wanted(p.name) || elsewhere(p)) continue;
    if (quantized.has(p.name))
      read_as_integers.insert(p.name);
    else if (const kernels::PackedMatrix* matrix = p.master.packed())
      read_packed(in, *matrix);
    else if (p.rest.defined() || division) {
      const MemoryScope scratch(MemoryClass::workspace);
      const Tensor numbers =
          empty(division ? division->whole_shape(p) : p.master.shape(), p.numbers_type(), p.master.device());
      in.read(p.name, numbers);
      p.assign(division ? division->taken(p.name, numbers) : numbers);
    } else if (!p.master.value().is_meta()) {  // else another rank has it
      in.read(p.name, p.master.value());
    }
  }
  quantized.load(model.parameters(), read_as_integers);
  model.parameters().refresh_views();
  std::string left;
  for (const auto& [name, entry] : in.entries())
    if (!wanted(name)) left += (left.empty() ? "" : ", ") + name;
  std::string fresh;
  for (const Parameter& p : model.parameters().all())
    if (!wanted(p.name) && p.name.starts_with("stack.")) fresh += (fresh.empty() ? "" : ", ") + p.name;
  if (!fresh.empty()) log_info("'", file.string(), "' has none of ", fresh, ", which begin anew");
  if (!left.empty()) log_info("not taken over from '", file.string(), "', the head begins anew: ", left);
}

}  // namespace

void load_weights(Model& model, const Path& file, IntegersIn integers) { load(model, file, HeadFrom::file, integers); }
void load_backbone(Model& model, const Path& file, bool head_where_alike) {
  load(model, file, head_where_alike ? HeadFrom::file_where_alike : HeadFrom::nowhere);
}

void load_part(Model& model, const std::string& part, const Path& file) {
  const SafetensorsFile in(file);
  const std::string beginning = part + ".";
  bool same = false;
  for (const auto& [name, entry] : in.entries()) same = same || name.starts_with(beginning);
  std::vector<std::pair<Parameter*, std::string>> found;
  for (Parameter& p : model.parameters().all()) {
    if (!p.name.starts_with(beginning)) continue;
    const std::string name = same ? p.name : p.name.substr(beginning.size());
    const auto entry = in.entries().find(name);
    check_usage(entry != in.entries().end(), "load", "'", file.string(), "' has no tensor '", name, "' for ", p.name,
                "; give pretrained_parts.", part, " a run whose part is made alike");
    check_usage(entry->second.shape == p.master.shape(), "load", "'", file.string(), "': tensor '", name, "' is ",
                entry->second.shape, ", ", p.name, " is ", p.master.shape());
    found.emplace_back(&p, name);
  }
  check_usage(!found.empty(), "load", "pretrained_parts: no parameter of the model begins with '", beginning,
              "'; `lithe inspect` and model.safetensors show the names");
  for (const auto& [p, name] : found) {
    if (p->rest.defined()) {
      const MemoryScope scratch(MemoryClass::workspace);
      const Tensor numbers = empty(p->master.shape(), DType::f32, p->master.device());
      in.read(name, numbers);
      p->assign(numbers);
    } else if (!p->master.value().is_meta()) {  // else another rank has it
      in.read(name, p->master.value());
    }
  }
  model.parameters().refresh_views();
}

void save_config(const ModelConfig& config, const Path& file) {
  ModelConfig copy = config;
  Node node = write_fields([&](Fields& f) { copy.fields(f); });
  Node out = Node::map();
  out.set("model_type", Node::scalar("lithe", {}, true));
  for (const auto& [key, value] : node.entries()) out.set(key, value);
  if (!config.quantization_config.is_null()) out.set("quantization_config", config.quantization_config);
  write_file(file, to_json(out));
}

ModelConfig load_config(const Path& file) {
  Node node = parse_json_node(read_file(file, uint64_t(1) << 26), file.string());
  const Node* type = node.find("model_type");
  check(type && type->text() == "lithe", "load", "'", file.string(), "' is not a lithe config.json (model_type is ",
        type ? type->text() : "missing", ")");
  node.erase("model_type");
  Node quantization;
  if (const Node* found = node.find("quantization_config")) quantization = *found;
  node.erase("quantization_config");
  ModelConfig config = read_model_config(node, "");
  config.quantization_config = quantization;
  config.validate();
  return config;
}

}  // namespace lithe
