#include "lithe/interchange/family.h"

#include <cmath>

#include "lithe/base/error.h"

namespace lithe {

const std::vector<Family>& families() {
  static const std::vector<Family> all{llama_family(),      gemma_family(), gpt2_family(),    gpt_neox_family(),
                                       phi_family(),        bert_family(),  roberta_family(), distilbert_family(),
                                       modernbert_family(), t5_family(),    bart_family(),    vit_family(),
                                       whisper_family()};
  return all;
}

const Family& family_of(const std::string& model_type, const std::string& origin) {
  std::vector<std::string> known;
  for (const Family& family : families())
    for (const std::string& type : family.model_types) {
      if (type == model_type) return family;
      known.push_back(type);
    }
  fail_usage("import", "'", origin, "': model_type '", model_type,
             "' is not among those that can be imported: ", join(known));
}

ModelConfig model_of(const std::string& yaml) { return read_model_config(parse_yaml(yaml, "import"), ""); }

void add_linear(std::vector<Weight>& to, const std::string& ours, const std::string& theirs, bool bias, bool transposed,
                const std::vector<int64_t>& columns) {
  to.push_back({ours + ".weight", theirs + ".weight", transposed, columns});
  if (bias) to.push_back({ours + ".bias", theirs + ".bias", false, columns});
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

std::vector<int64_t> of_convolution(int64_t kernel, int64_t in, int64_t out) {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < kernel; ++k)
    for (int64_t c = 0; c < in; ++c)
      for (int64_t d = 0; d < out; ++d) places.push_back((d * in + c) * kernel + k);
  return places;
}

std::string prefix_of(TensorNames names, const std::string& anchor, const std::string& usual) {
  if (!names) return usual;
  for (const std::string& name : *names)
    if (name == anchor || name.ends_with("." + anchor)) return name.substr(0, name.size() - anchor.size());
  return usual;
}

bool has_tensor(TensorNames names, const std::string& name, bool otherwise) {
  return names ? names->count(name) > 0 : otherwise;
}

bool has_rotary_by_layers(const HfConfig& config) {
  const Node* all = config.find("rope_parameters");
  if (!all || !(all->find("full_attention") || all->find("sliding_attention"))) return false;
  for (const auto& [name, part] : all->entries())
    check((name == "full_attention" || name == "sliding_attention") && part.is_map(), "import", "'", config.origin(),
          "': rope_parameters has ", name,
          " beside parts for kinds of layers; it can have full_attention and sliding_attention");
  return true;
}

std::vector<bool> sliding_layers(const HfConfig& config, std::vector<bool> usual) {
  const Node* types = config.find("layer_types");
  if (!types) return usual;
  check(types->is_list() && types->items().size() == usual.size(), "import", "'", config.origin(),
        "': layer_types must be a list of ", usual.size(), " names (num_hidden_layers), got ",
        types->is_list() ? cat(types->items().size()) : "no list");
  for (size_t i = 0; i < usual.size(); ++i) {
    const std::string& type = types->items()[i].text();
    check(type == "full_attention" || type == "sliding_attention", "import", "'", config.origin(),
          "': layer_types names '", type, "'; full_attention and sliding_attention can be imported");
    usual[i] = type == "sliding_attention";
  }
  return usual;
}

std::string rotary_options(const HfConfig& config, int64_t head_dim, const UsualRotary& usual) {
  // Version 5 of transformers gathers in rope_parameters what stood beside and in rope_scaling before.
  const bool gathered = config.has("rope_parameters"), scaled = config.has("rope_scaling");
  HfConfig within = gathered ? config.section("rope_parameters")
                    : scaled ? config.section("rope_scaling")
                             : HfConfig(Node::map(), config.origin());
  if (!usual.layers.empty() && has_rotary_by_layers(config))
    within = within.has(usual.layers) ? within.section(usual.layers) : HfConfig(Node::map(), config.origin());
  for (const char* key : {"rope_scaling", "partial_rotary_factor"}) config.find(key);
  const double theta =
      gathered && within.has("rope_theta") ? within.number("rope_theta") : config.number("rope_theta", usual.theta);
  const double given = gathered && within.has("partial_rotary_factor")
                           ? within.number("partial_rotary_factor")
                           : config.number("partial_rotary_factor", usual.share);
  const std::string type = within.text("rope_type", within.text("type", "default"));
  const double share = usual.whole ? 1 : given;
  check(given == share || type == "default", "import", "'", config.origin(), "': partial_rotary_factor ", given,
        " with rope_type ", type, " is no model of this architecture, all of whose channels turn");
  within.only("type", {type});
  std::string out = cat("type: rotary, base: ", number_text(theta));
  if (share != 1) out += cat(", rotary_dim: ", int64_t(double(head_dim) * share));
  if (type != "default") {
    within.only("rope_type", {"linear", "llama3", "yarn", "longrope", "dynamic"});
    within.only("type", {"linear", "llama3", "yarn", "longrope", "dynamic"});
    // As the library does, the lengths say by how much texts are longer where both are there.
    const int64_t longest = config.integer("max_position_embeddings", 2048),
                  first = config.integer("original_max_position_embeddings",
                                         within.integer("original_max_position_embeddings", 0));
    const bool by_lengths = type == "longrope" && first;
    const double factor = by_lengths           ? double(longest) / double(first)
                          : type == "longrope" ? within.number("factor", 1)
                                               : within.number("factor");
    within.find("factor");
    out += cat(", scaling: ", type, ", factor: ", number_text(factor));
    const auto take = [&](const char* key, double usual) {
      if (within.has(key)) out += cat(", ", key, ": ", number_text(within.number(key, usual)));
    };
    if (type == "llama3")
      for (const char* key : {"low_freq_factor", "high_freq_factor"}) take(key, 0);
    if (type == "yarn") {
      for (const char* key : {"beta_fast", "beta_slow", "attention_factor"}) take(key, 0);
      const double all = within.number("mscale_all_dim", 0), some = within.number("mscale", 0);
      const auto gain = [&](double by) { return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1; };
      if (all && some && !within.has("attention_factor"))
        out += cat(", attention_factor: ", number_text(gain(some) / gain(all)));
      if (!within.flag("truncate", true)) out += ", truncate: false";
    }
    if (type == "longrope") {
      for (const char* key : {"short_factor", "long_factor"}) {
        const Node* list = within.find(key);
        check(list && list->is_list(), "import", "'", within.origin(), "' must have a list ", key);
        out += cat(", ", key, ": [");
        for (size_t i = 0; i < list->items().size(); ++i) out += cat(i ? ", " : "", list->items()[i].text());
        out += "]";
      }
      take("attention_factor", 0);
      within.find("original_max_position_embeddings");
    }
    if (type == "longrope" || type == "dynamic")
      out += cat(", original_max_position_embeddings: ", by_lengths ? first : longest);
    else if (type != "linear")
      out += cat(", original_max_position_embeddings: ",
                 within.integer("original_max_position_embeddings",
                                type == "yarn" ? config.integer("max_position_embeddings") : 0));
  }
  within.finish();
  return out;
}

int64_t positions_of(const HfConfig& config, int64_t usual) {
  const int64_t longest = config.integer("max_position_embeddings", usual);
  const char* key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(key)) return longest;
  const HfConfig within = config.section(key);
  if (within.text("rope_type", within.text("type", "default")) != "longrope") return longest;
  return config.integer("original_max_position_embeddings",
                        within.integer("original_max_position_embeddings", longest));
}

std::string activation_options(const HfConfig& config, const std::string& key, const std::string& usual, bool gated) {
  const std::string name = config.text(key, usual);
  const bool tanh = name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast";
  if (name == "gelu" || tanh) return cat("type: ", gated ? "geglu" : "gelu", ", approximate: ", tanh ? "tanh" : "none");
  if (gated && (name == "silu" || name == "swish")) return "type: swiglu";
  if (!gated && name == "relu") return "type: relu";
  if (!gated && (name == "silu" || name == "swish")) return "type: silu";
  fail("import", "'", config.origin(), "': ", key, " is \"", name, "\", for which there is no ffn part; ",
       gated ? "silu, gelu and gelu_pytorch_tanh" : "relu, silu, gelu, gelu_new and gelu_pytorch_tanh", " have one");
}

std::string label_options(const HfConfig& config) {
  int64_t labels = config.integer("num_labels", 0);
  std::vector<std::string> names;
  if (config.has("id2label")) {
    const HfConfig ids = config.section("id2label");
    for (int64_t i = 0; ids.has(cat(i)); ++i) names.push_back(ids.text(cat(i)));
    ids.finish();
  }
  if (!labels) labels = names.empty() ? 2 : int64_t(names.size());
  Node list = Node::list();
  for (const std::string& name : names) list.push(Node::scalar(name, {}, true));
  std::string out = cat("num_labels: ", labels);
  if (!names.empty()) {
    std::string quoted;
    for (const std::string& name : names) quoted += cat(quoted.empty() ? "" : ", ", dump(Json(name)));
    out += cat(", label_names: [", quoted, "]");
  }
  return out;
}

Json common_config(const ModelConfig& model, const std::string& model_type, const std::string& architecture) {
  Json out = {{"architectures", {architecture}}, {"model_type", model_type}, {"vocab_size", model.vocab_size}};
  out["tie_word_embeddings"] = model.tie_word_embeddings;
  return out;
}

void write_rotary(Json& to, const PartChoice& position) {
  to["rope_theta"] = option_number(position, "base");
  const std::string scaling = option(position, "scaling");
  if (scaling.empty() || scaling == "none") return;
  Json& out = to["rope_scaling"];
  out = {{"rope_type", scaling}, {"factor", option_number(position, "factor")}};
  if (scaling == "llama3")
    for (const char* key : {"low_freq_factor", "high_freq_factor"}) out[key] = option_number(position, key);
  if (scaling == "yarn")
    for (const char* key : {"beta_fast", "beta_slow"}) out[key] = option_number(position, key);
  if ((scaling == "yarn" || scaling == "longrope") && option_number(position, "attention_factor"))
    out["attention_factor"] = option_number(position, "attention_factor");
  if (scaling == "yarn" && option(position, "truncate") == "false") out["truncate"] = false;
  const int64_t first = option_integer(position, "original_max_position_embeddings");
  if (scaling == "longrope") {
    for (const char* key : {"short_factor", "long_factor"}) {
      out[key] = Json::array();
      if (const Node* list = position.options.find(key))
        for (const Node& number : list->items()) out[key].push_back(std::stod(number.text()));
    }
    out.erase("factor");
    to["original_max_position_embeddings"] = first;
    to["max_position_embeddings"] = std::llround(double(first) * option_number(position, "factor"));
  } else if (scaling == "dynamic") {
    to["max_position_embeddings"] = first;
  } else if (scaling != "linear")
    out["original_max_position_embeddings"] = option_integer(position, "original_max_position_embeddings");
}

void write_labels(Json& to, const ModelConfig& model) {
  Json names = Json::object(), ids = Json::object();
  for (int64_t i = 0; i < model.num_labels; ++i) {
    const std::string name = size_t(i) < model.label_names.size() ? model.label_names[size_t(i)] : cat("LABEL_", i);
    names[cat(i)] = name;
    ids[name] = i;
  }
  to["id2label"] = names;
  to["label2id"] = ids;
}

std::string side_options(const HfConfig& config, const std::string& side, int64_t d_model, const std::string& act,
                         bool key_bias) {
  const int64_t heads = config.integer(side + "_attention_heads");
  check(heads > 0 && d_model % heads == 0, "import", "'", config.origin(), "': ", side, "_attention_heads ", heads,
        " do not divide d_model ", d_model);
  return cat("mixer: {type: attention, ", key_bias ? "" : "heads: {type: mha, key_bias: false}, ",
             "num_attention_heads: ", heads, ", attention_bias: true, output_bias: true}, ffn: {", act,
             ", intermediate_size: ", config.integer(side + "_ffn_dim"), "}");
}

void add_side_layers(std::vector<Weight>& to, const std::string& side, const std::string& base, int64_t layers,
                     bool key_bias) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string ours = cat(side, "layers.", i, "."), theirs = base + ours;
    for (const bool cross : {false, true}) {
      if (cross && side != "decoder.") continue;
      const std::string part = ours + (cross ? "cross" : "mixer"),
                        other = theirs + (cross ? "encoder_attn" : "self_attn");
      add_linear(to, part + ".heads.q", other + ".q_proj", true);
      add_linear(to, part + ".heads.k", other + ".k_proj", key_bias);
      add_linear(to, part + ".heads.v", other + ".v_proj", true);
      add_linear(to, part + ".output", other + ".out_proj", true);
      add_linear(to, part + "_norm", other + "_layer_norm", true, false);
    }
    add_linear(to, ours + "ffn.up", theirs + "fc1", true);
    add_linear(to, ours + "ffn.down", theirs + "fc2", true);
    add_linear(to, ours + "ffn_norm", theirs + "final_layer_norm", true, false);
  }
}

void write_sides(Json& to, const ModelConfig& model) {
  const ModelConfig encoder = model.encoder_config();
  to["is_encoder_decoder"] = true;
  to["d_model"] = model.hidden_size;
  for (const ModelConfig* side : {&encoder, &model}) {
    const std::string name = side == &model ? "decoder" : "encoder";
    const int64_t inner = option_integer(side->ffn, "intermediate_size");
    to[name + "_layers"] = side->num_hidden_layers;
    to[name + "_attention_heads"] = option_integer(side->mixer, "num_attention_heads");
    to[name + "_ffn_dim"] = inner ? inner : 4 * model.hidden_size;
  }
  to["activation_function"] = model.ffn.type == "relu"                     ? "relu"
                              : model.ffn.type == "silu"                   ? "swish"
                              : option(model.ffn, "approximate") == "tanh" ? "gelu_new"
                                                                           : "gelu";
}

}  // namespace lithe
