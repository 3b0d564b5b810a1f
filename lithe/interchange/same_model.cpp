#include "lithe/interchange/same_model.h"

#include <map>
#include <set>

#include "lithe/base/error.h"
#include "lithe/interchange/family.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

using Facts = std::map<std::string, std::string>;

// Of training alone.
const std::set<std::string> kTraining{"attention_dropout", "dropout", "activation_penalty", "padding_idx", "init"};

void flatten(const Node& node, const std::string& path, Facts& to) {
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries())
      if (!kTraining.count(key)) flatten(value, path.empty() ? key : path + "." + key, to);
  } else if (node.is_list()) {
    std::string text;
    for (const Node& item : node.items()) text += (text.empty() ? "" : ", ") + item.text();
    to[path] = "[" + text + "]";
  } else {
    to[path] = node.text();
  }
}

// Numbers that stand for others are those others.
void complete(const std::string& path, int64_t hidden, Facts& facts) {
  const auto zero = [&](const std::string& key) {
    const auto found = facts.find(path + key);
    return found != facts.end() && (found->second == "0" || found->second == "0.0");
  };
  const std::string type = facts[path + ".type"];
  if (type == "patches" && zero(".width")) facts[path + ".width"] = facts[path + ".height"];
  for (const char* side : {"height", "width"})
    if (zero(cat(".position_", side))) facts[cat(path, ".position_", side)] = facts[cat(path, ".", side)];
  if (zero(".intermediate_size"))
    facts[path + ".intermediate_size"] = cat(type == "swiglu" || type == "geglu" ? 8 * hidden / 3 : 4 * hidden);
  if (type != "attention") return;
  const int64_t heads = std::stoll(facts[path + ".num_attention_heads"]);
  if (zero(".head_dim")) facts[path + ".head_dim"] = cat(hidden / heads);
  if (zero(".query_pre_attn_scalar")) facts[path + ".query_pre_attn_scalar"] = facts[path + ".head_dim"];
  if (facts.count(path + ".query_pre_attn_scalar"))
    facts[path + ".query_pre_attn_scalar"] = number_text(std::stod(facts[path + ".query_pre_attn_scalar"]));
  std::string& kind = facts[path + ".heads.type"];
  const std::string kv = path + ".heads.num_key_value_heads";
  if (kind == "mqa") facts[kv] = "1";
  if (kind == "mha") facts[kv] = cat(heads);
  if (kind == "gqa" && facts[kv] == "0") facts[kv] = cat(grouped_heads(0, heads));
  if (kind == "mqa" || kind == "mha") kind = "gqa";
}

void add(const PartChoice& part, const std::string& path, int64_t hidden, Facts& to) {
  to[path + ".type"] = part.type;
  if (part.options.is_map()) flatten(part.options, path, to);
  complete(path, hidden, to);
}

Facts facts_of(const ModelConfig& config) {
  Facts out;
  if (reads_source(config.architecture)) {
    for (const auto& [key, value] : facts_of(config.encoder_config())) out["encoder." + key] = value;
    out["share_encoder_decoder_embeddings"] = config.share_encoder_decoder_embeddings ? "true" : "false";
  }
  for (const auto& [name, keys] : config.encoders.entries())
    for (const auto& [key, value] : facts_of(config.encoder_config(name)))
      out[cat("encoders.", name, ".", key)] = value;
  for (const auto& [name, part] : config.modalities.entries())
    add(read_part(part, name, "embedding", "model.modalities", config.embedding), "modalities." + name,
        config.hidden_size, out);
  if (const auto combiner = config.combiner()) add(*combiner, "combine", config.hidden_size, out);
  out["architecture"] = name_of(config.architecture);
  out["vocab_size"] = cat(config.vocab_size);
  out["token_width"] = cat(std::max<int64_t>(1, config.token_width));
  out["hidden_size"] = cat(config.hidden_size);
  out["num_hidden_layers"] = cat(config.num_hidden_layers);
  const std::string scaling = option(config.position, "scaling");
  // Of these two the longest text is no part of the model: its frequencies follow it.
  if (scaling != "longrope" && scaling != "dynamic")
    out["max_position_embeddings"] = cat(config.max_position_embeddings);
  out["embedding_norm"] = config.embedding_norm ? "true" : "false";
  const int64_t d = config.hidden_size;
  add(config.embedding, "embedding", d, out);
  add(config.norm, "norm", d, out);
  add(config.stack, "stack", d, out);
  add(config.head, "head", d, out);
  if (const auto pooling = out.find("head.pooling"); pooling != out.end() && pooling->second == "auto")
    pooling->second = config.architecture == Architecture::decoder ? "last" : "cls";
  if (config.head.type == "span") out.erase("head.bias");  // no answer depends on it
  if (config.head.type == "lm" || config.head.type == "mlm")
    out["tie_word_embeddings"] = config.tie_word_embeddings ? "true" : "false";
  if (config.head.type == "classify" || config.head.type == "tag") out["num_labels"] = cat(config.num_labels);
  if (config.position.type == "learned" || config.position.type == "sinusoidal")
    add(config.position, "position", d, out);
  const bool final_norm = config.residual.type != "post";
  out["final_norm"] = final_norm ? "true" : "false";
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerConfig layer = config.layer(i);
    const std::string path = cat("layers.", i, ".");
    std::string order;
    for (const SubLayerConfig& sub : layer.sub_layers) {
      order += (order.empty() ? "" : ", ") + sub.name;
      add(sub.part, path + sub.name, d, out);
      if (sub.scale != 1) out[path + sub.name + ".scale"] = number_text(sub.scale);
    }
    out[path + "sub_layers"] = order;
    add(layer.norm, path + "norm", d, out);
    add(layer.residual, path + "residual", d, out);
    add(layer.position.value_or(config.position), path + "position", d, out);
    if (layer.compressor) add(*layer.compressor, path + "compressor", d, out);
    if (layer.expander) add(*layer.expander, path + "expander", d, out);
  }
  return out;
}

}  // namespace

std::vector<std::string> model_differences(const ModelConfig& is, const ModelConfig& wanted) {
  const Facts have = facts_of(is), want = facts_of(wanted);
  std::set<std::string> keys;
  for (const Facts* facts : {&have, &want})
    for (const auto& [key, value] : *facts) keys.insert(key);
  std::vector<std::string> out;
  std::set<std::string> parts;  // whose type differs: their options need no line
  const auto value = [](const Facts& facts, const std::string& key) {
    const auto found = facts.find(key);
    return found == facts.end() ? std::string("none") : found->second;
  };
  for (const std::string& key : keys)
    if (key.ends_with(".type") && value(have, key) != value(want, key)) {
      parts.insert(key.substr(0, key.size() - 4));
      out.push_back(cat(key, " is ", value(have, key), ", not ", value(want, key)));
    }
  for (const std::string& key : keys) {
    if (value(have, key) == value(want, key) || key.ends_with(".type")) continue;
    bool within = false;
    for (const std::string& part : parts) within = within || key.starts_with(part);
    if (!within) out.push_back(cat(key, " is ", value(have, key), ", not ", value(want, key)));
  }
  return out;
}

}  // namespace lithe
