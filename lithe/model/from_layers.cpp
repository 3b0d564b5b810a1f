#include "lithe/model/from_layers.h"

#include <set>

#include "lithe/base/log.h"
#include "lithe/model/safetensors.h"

namespace lithe {
namespace {

constexpr const char* kStackLayers = "layers.";

std::string text_of(const Node& node, const char* key) {
  const Node* found = node.find(key);
  return found && found->is_scalar() ? found->text() : "";
}

void keep(Node& stack, const std::vector<int64_t>& layers, const char* key, int64_t otherwise) {
  if (layers.empty()) return;
  const std::string count = text_of(stack, "num_hidden_layers");
  const int64_t have = count.empty() ? otherwise : std::stoll(count);
  for (const int64_t layer : layers)
    check_usage(layer >= 1 && layer <= have, "recipe", key, " names layer ", layer,
                ", and from_pretrained has layers 1 to ", have);
  const std::string pattern = text_of(stack, "layer_pattern");
  check_usage(pattern.empty(), "recipe", key, " cannot take layers that layer_pattern ", pattern,
              " names by the depth; give model.layer_types");
  if (const Node* share = stack.find("share"))
    check_usage(text_of(*share, "layers").empty() || text_of(*share, "layers") == "none", "recipe", key,
                " cannot take layers that share their parameters (share.layers ", text_of(*share, "layers"), ")");
  const auto check_mixer = [&](const Node& mixer) {
    check_usage(text_of(mixer, "share") != "layers", "recipe", key,
                " cannot take layers that share maps of their mixers (share: layers), which the first layer has");
  };
  if (const Node* mixer = stack.find("mixer")) check_mixer(*mixer);
  if (const Node* mixers = stack.find("mixers"))
    for (const auto& [name, mixer] : mixers->entries()) check_mixer(mixer);
  stack.set("num_hidden_layers", Node::scalar(std::to_string(layers.size())));
  const Node* types = stack.find("layer_types");
  if (!types || types->items().empty()) return;
  std::vector<Node> kept;
  std::set<std::string> used;
  for (const int64_t layer : layers) {
    kept.push_back(types->items()[size_t(layer - 1)]);
    used.insert(kept.back().text());
  }
  stack.set("layer_types", Node::list(kept, types->mark()));
  for (const char* key : {"layers", "mixers"}) {  // names that no layer has any more are refused
    const Node* named = stack.find(key);
    if (!named || !named->is_map()) continue;
    Node still = Node::map(named->mark());
    for (const auto& [name, value] : named->entries())
      if (used.count(name)) still.set(name, value);
    stack.set(key, still);
  }
}

// "layers.1.ffn.up.weight" as what the layer at its place begins as.
std::string source_of(const std::string& name, const std::string& before, const std::vector<int64_t>& layers) {
  const std::string start = before + kStackLayers;
  if (layers.empty() || !name.starts_with(start)) return name;
  const size_t dot = name.find('.', start.size());
  const auto layer = size_t(std::stoll(name.substr(start.size(), dot - start.size())));
  return layer < layers.size() ? start + std::to_string(layers[layer] - 1) + name.substr(dot) : name;
}

void check_count(const std::vector<int64_t>& layers, int64_t have, const char* key) {
  check_usage(layers.empty() || int64_t(layers.size()) == have, "recipe", key, " names ", layers.size(),
              " layers, and the model has ", have, "; leave num_hidden_layers out");
}

}  // namespace

void keep_layers(Node& model, const FromLayers& from) {
  const std::string count = text_of(model, "num_hidden_layers");
  const int64_t have = count.empty() ? ModelConfig().num_hidden_layers : std::stoll(count);
  Node encoder = model.find("encoder") && model.find("encoder")->is_map() ? *model.find("encoder") : Node::map();
  check_usage(from.encoder.empty() || text_of(model, "architecture") == "encoder_decoder", "recipe",
              "from_encoder_layers is for an encoder_decoder; leave it out");
  // What the encoder does not say of itself is the decoder's, which may change now.
  if (!from.layers.empty() && from.encoder.empty() && text_of(model, "architecture") == "encoder_decoder" &&
      !encoder.find("num_hidden_layers")) {
    encoder.set("num_hidden_layers", Node::scalar(std::to_string(have)));
    if (const Node* types = model.find("layer_types"); types && !types->items().empty() && !encoder.find("layer_types"))
      encoder.set("layer_types", *types);
    for (const char* key : {"layers", "mixers"})
      if (const Node* named = model.find(key); named && !encoder.find(key)) encoder.set(key, *named);
  }
  keep(encoder, from.encoder, "from_encoder_layers", have);
  keep(model, from.layers, "from_layers", ModelConfig().num_hidden_layers);
  if (!encoder.entries().empty()) model.set("encoder", encoder);
}

void load_layers(Model& model, const Path& file, const FromLayers& from) {
  check_count(from.layers, model.config().num_hidden_layers, "from_layers");
  if (reads_source(model.config().architecture))
    check_count(from.encoder, model.config().encoder_config().num_hidden_layers, "from_encoder_layers");
  const SafetensorsFile in(file);
  const std::string main = reads_source(model.config().architecture) ? "decoder." : "";
  int64_t taken = 0;
  std::string fresh;
  for (Parameter& p : model.parameters().all()) {
    const std::string name = source_of(source_of(p.name, "encoder.", from.encoder), main, from.layers);
    const auto entry = in.entries().find(name);
    if (entry == in.entries().end() || entry->second.shape != p.master.shape()) {
      fresh += (fresh.empty() ? "" : ", ") + p.name;
      continue;
    }
    taken += p.master.shape().numel();
    if (p.master.value().is_meta()) continue;  // another rank has it
    const MemoryScope scratch(MemoryClass::workspace);
    const Tensor numbers = empty(p.master.shape(), wide_of(p.master.dtype()), p.master.device());
    in.read(name, numbers);
    p.assign(numbers);
  }
  model.parameters().refresh_views();
  check_usage(taken > 0, "recipe", "from_layers: no tensor of '", file.string(),
              "' has the name and shape of one of the model's; its parts or widths are others");
  log_info(taken, " of ", model.parameters().count(), " parameters begin as those of the layers that were chosen",
           fresh.empty() ? "" : "; these begin anew: ", fresh);
}

}  // namespace lithe
