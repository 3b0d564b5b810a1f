#include "tests/conformance/cases.h"

#include <algorithm>

#include "lithe/nn/combiner.h"

namespace lithe::conformance {
namespace {

const std::vector<std::pair<std::string, std::string>>& models() {
  static const std::vector<std::pair<std::string, std::string>> all{
      {"odd",
       R"({hidden_size: 15, num_hidden_layers: 2, vocab_size: 19, num_labels: 3, max_position_embeddings: 13, position: sinusoidal, norm: layer,
                  mixer: {type: attention, num_attention_heads: 3}, ffn: {type: relu, intermediate_size: 11}, tie_word_embeddings: false})"},
      {"even",
       R"({hidden_size: 24, num_hidden_layers: 2, vocab_size: 23, num_labels: 3, max_position_embeddings: 13, position: rotary, norm: rms,
                   mixer: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}, ffn: {type: swiglu, intermediate_size: 13}})"},
      {"power",
       R"({hidden_size: 16, num_hidden_layers: 2, vocab_size: 17, num_labels: 3, max_position_embeddings: 13, position: learned, norm: {type: layer, eps_mode: variance},
                    mixer: {type: attention, num_attention_heads: 2, heads: mqa}, ffn: {type: gelu, intermediate_size: 9}, residual: post})"}};
  return all;
}

bool inside_attention(const std::string& slot) {
  return slot == "heads" || slot == "field" || slot == "output" || slot == "memory";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const PartCase& c) {
  if (c.options != "{}") out << c.options << " of ";
  return out << c.slot << " " << c.name << (c.model.empty() ? "" : " in model ") << c.model
             << (c.cross ? ", cross" : "");
}

PartInfo PartCase::info() const {
  PartInfo out = Registry::instance().get(slot, name, {}).info;
  const auto& ahead = out.sees_ahead_samples;
  out.causal = out.causal && std::find(ahead.begin(), ahead.end(), options) == ahead.end();
  if (name == "retrieval" && options.find("window") != std::string::npos)  // of tokens before
    out.cross = out.bidirectional = false;
  if (name == "memory_attention")  // as its memory
    out.cross = out.bidirectional =
        options.find("continuous") != std::string::npos || options.find("retrieval") != std::string::npos;
  return out;
}

PartCase placed(PartCase part, const std::string& model, bool cross) {
  part.model = model, part.cross = cross;
  return part;
}

const std::vector<std::string>& small_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, yaml] : models()) out.push_back(name);
    return out;
  }();
  return names;
}

ModelConfig config_of(const PartCase& c) {
  for (const auto& [name, yaml] : models())
    if (name == c.model) return config_in(yaml, c);
  fail("test", "no small model '", c.model, "'");
}

ModelConfig config_in(const std::string& yaml, const PartCase& c) {
  Node node = parse_yaml(yaml, "small model " + c.model);
  Node part = parse_yaml(c.options, cat("samples of ", c.slot, " ", c.name));
  part.set("type", Node::scalar(c.name));
  const PartInfo info = c.info();
  const Node around = *node.find("mixer");
  if (inside_attention(c.slot)) {
    Node mixer = around;
    mixer.set(c.slot, part);
    if (c.slot == "memory") mixer.set("type", Node::scalar("memory_attention"));
    part = mixer;
  }
  if (c.slot == Compressor::slot) {  // stands in layers
    node.set("layers", parse_yaml("{whole: {}, short: {}}", "test"));
    Node layers = *node.find("layers"), shorter = Node::map();
    shorter.set(c.slot, part);
    layers.set("short", shorter);
    node.set("layers", layers);
    node.set("layer_types", parse_yaml("[whole, short]", "test"));
    return read_model_config(node);
  }
  if (c.slot == Combiner::slot) {  // of encoders, which a decoder has none of
    node.set("encoders", parse_yaml("{further: {num_hidden_layers: 1}}", "test"));
    node.set("combine", part);
    return read_model_config(node);
  }
  if (c.slot == Expander::slot) {  // above a compressor
    node.set("layers", parse_yaml("{short: {compressor: pool}, long: {}}", "test"));
    Node layers = *node.find("layers"), longer = Node::map();
    longer.set(c.slot, part);
    layers.set("long", longer);
    node.set("layers", layers);
    node.set("layer_types", parse_yaml("[short, long]", "test"));
    return read_model_config(node);
  }
  const std::string key = inside_attention(c.slot) ? "mixer" : c.slot;
  if (c.cross) {
    node.set("architecture", Node::scalar("encoder_decoder"));
    node.set("share_encoder_decoder_embeddings", Node::scalar(c.model == "odd" ? "false" : "true"));
    // Bounds come from moved weights. A learned position moves its row alone, as rounding does; a fixed one would
    // keep the rows of a source together, and attention does not see what moves them all alike.
    if (c.model == "odd") node.set("position", Node::scalar("learned"));
    Node encoder = parse_yaml("{num_hidden_layers: 1}", "small encoder");
    if (!info.bidirectional) encoder.set("mixer", around);
    node.set("encoder", encoder);
  }
  // The decoder's own mixers have the part too where it can be there; else only cross-attention has it.
  node.set(c.cross && !info.causal ? "cross_attention" : key, part);
  if (const int64_t width = info.token_width; width > 1) {
    node.set("token_width", Node::scalar(cat(width)));
    node.set("tie_word_embeddings", Node::scalar("false"));  // there is no table of a vocabulary
  }
  return read_model_config(node);
}

std::unique_ptr<Model> build(const PartCase& c, DType dtype, DType compute, Device device, uint64_t seed) {
  auto model = std::make_unique<Model>(
      config_of(c),
      ModelOptions{.device = device, .dtype = dtype, .compute = compute, .seed = seed, .trainable = true});
  kit::randomise(model->parameters(), seed);
  return model;
}

std::string refusal(const PartCase& c) {
  try {
    build(c, DType::f32, DType::f32, Device::meta);
  } catch (const Error& error) {
    check(error.code() == ExitCode::usage, "test", c, ": refused with exit code ", int(error.code()),
          ", not as wrong usage: ", error.what());
    return error.what();
  }
  return "";
}

std::vector<PartCase> all_parts() {
  std::vector<PartCase> out;
  for (const Registry::Entry* entry : Registry::instance().all()) {
    if (entry->slot == "objective") continue;  // no part of a model; what all objectives promise: tests/objective
    out.push_back({entry->slot, entry->name, ""});
    for (const auto* samples : {&entry->info.samples, &entry->info.sees_ahead_samples})
      for (const std::string& sample : *samples) out.push_back({entry->slot, entry->name, "", false, sample});
  }
  return out;
}

std::vector<PartCase> bidirectional_parts() {
  std::vector<PartCase> out;
  for (const PartCase& part : all_parts())
    if (mixes_tokens(part.slot) && part.info().bidirectional && !part.info().recurs) out.push_back(part);
  return out;
}

std::vector<PartCase> mixing_parts() {
  std::vector<PartCase> out;
  for (const PartCase& part : all_parts())
    if (mixes_tokens(part.slot)) out.push_back(part);
  return out;
}

std::vector<PartCase> placed_cross_parts() {
  std::vector<PartCase> out;
  for (const PartCase& part : mixing_parts())
    for (const std::string& model : small_models())
      if (const PartCase there = placed(part, model, true); refusal(there).empty()) out.push_back(there);
  return out;
}

std::vector<PartCase> cross_parts() {
  std::vector<PartCase> out;
  for (const PartCase& part : mixing_parts())
    for (const std::string& model : small_models())
      if (refusal(placed(part, model, true)).empty()) {
        out.push_back(part);
        break;
      }
  return out;
}

std::vector<PartCase> placed_parts() {
  std::vector<PartCase> out;
  for (const PartCase& part : all_parts()) {
    if (!part.info().causal) continue;
    for (const std::string& model : small_models())
      if (const PartCase there = placed(part, model); refusal(there).empty()) out.push_back(there);
  }
  return out;
}

}  // namespace lithe::conformance
