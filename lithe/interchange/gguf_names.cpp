#include "lithe/interchange/gguf_names.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/ops/rotary.h"
#include "lithe/parts/common/key_value_heads.h"

namespace lithe {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

const Names kLlama{{"self_attn.q_proj", "attn_q"},          {"self_attn.k_proj", "attn_k"},
                   {"self_attn.v_proj", "attn_v"},          {"self_attn.o_proj", "attn_output"},
                   {"self_attn.q_norm", "attn_q_norm"},     {"self_attn.k_norm", "attn_k_norm"},
                   {"mlp.gate_proj", "ffn_gate"},           {"mlp.up_proj", "ffn_up"},
                   {"mlp.down_proj", "ffn_down"},           {"input_layernorm", "attn_norm"},
                   {"post_attention_layernorm", "ffn_norm"}};
const Names kGpt2{{"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
                  {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}};
const std::map<std::string, std::string> kWhole{{"model.embed_tokens.weight", "token_embd.weight"},
                                                {"model.norm.weight", "output_norm.weight"},
                                                {"lm_head.weight", "output.weight"},
                                                {"transformer.wte.weight", "token_embd.weight"},
                                                {"transformer.wpe.weight", "position_embd.weight"},
                                                {"transformer.ln_f.weight", "output_norm.weight"},
                                                {"transformer.ln_f.bias", "output_norm.bias"}};

std::string renamed(const std::string& name, const std::string& family) {
  if (const auto found = kWhole.find(name); found != kWhole.end()) return found->second;
  const std::string layers = family == "gpt2" ? "transformer.h." : "model.layers.";
  if (!name.starts_with(layers)) return name;
  const size_t number = layers.size(), dot = name.find('.', number), last = name.rfind('.');
  const std::string what = name.substr(dot + 1, last - dot - 1),
                    block = "blk." + name.substr(number, dot - number) + ".";
  if (family == "olmo2" && what == "post_attention_layernorm") return block + "post_attention_norm" + name.substr(last);
  if (family == "olmo2" && what == "post_feedforward_layernorm") return block + "post_ffw_norm" + name.substr(last);
  for (const auto& [theirs, gguf] : family == "gpt2" ? kGpt2 : kLlama)
    if (theirs == what) return block + gguf + name.substr(last);
  return name;
}

// Rows of a llama's queries and keys: of each head channel 2i + p stands where ours has p c/2 + i.
std::vector<int64_t> llama_order(int64_t columns, int64_t head_dim) {
  std::vector<int64_t> out;
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t head = j / head_dim, c = j % head_dim, half = head_dim / 2;
    out.push_back(head * head_dim + c % half * 2 + c / half);
  }
  return out;
}

}  // namespace

bool is_gguf_architecture(const std::string& name) {
  const std::vector<std::string> known{"llama", "qwen2", "qwen3", "olmo2", "gpt2"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

void rename_for_gguf(Mapping& mapping, const std::string& family) {
  const PartChoice& mixer = mapping.model.mixer;
  const int64_t heads = option_integer(mixer, "num_attention_heads"), given = option_integer(mixer, "head_dim"),
                head_dim = given ? given : mapping.model.hidden_size / heads, kv = key_value_heads(mixer);
  for (Weight& w : mapping.weights) {
    const std::string name = renamed(w.theirs, family);
    const bool q = w.ours.find(".heads.q.") != std::string::npos, k = w.ours.find(".heads.k.") != std::string::npos;
    if (family == "llama" && (q || k)) w.columns = llama_order((q ? heads : kv) * head_dim, head_dim);
    // The matrices of GPT-2 are [in, out] there alone.
    if (family == "gpt2" && name.starts_with("blk.") && name.ends_with(".weight") &&
        name.find("_norm.") == std::string::npos)
      w.transposed = true;
    w.theirs = name;
  }
  for (std::string& name : mapping.dropped) name = renamed(name, family);
}

namespace {

// Reads the metadata of one architecture and notes which keys were read.
class Metadata {
 public:
  Metadata(const GgufFile& file, const std::string& family) : file_(file), prefix_(family + ".") {}
  const GgufValue* find(const std::string& key) {
    seen_.insert(prefix_ + key);
    const auto found = file_.metadata().find(prefix_ + key);
    return found == file_.metadata().end() ? nullptr : &found->second;
  }
  double number(const std::string& key, std::optional<double> otherwise = {}) {
    const GgufValue* value = find(key);
    check(value || otherwise, "import", "'", file_.origin(), "' has no ", prefix_, key,
          ", which its architecture needs");
    if (!value) return *otherwise;
    if (const int64_t* integer = value->get<int64_t>()) return double(*integer);
    const double* real = value->get<double>();
    check(real, "import", "'", file_.origin(), "': ", prefix_, key, " must be one number");
    return *real;
  }
  int64_t integer(const std::string& key, std::optional<double> otherwise = {}) {
    const double value = number(key, otherwise);
    check(value == double(int64_t(value)), "import", "'", file_.origin(), "': ", prefix_, key,
          " must be a whole number, got ", value);
    return int64_t(value);
  }
  std::string text(const std::string& key, const std::string& otherwise) {
    const GgufValue* value = find(key);
    const std::string* found = value ? value->get<std::string>() : nullptr;
    return found ? *found : otherwise;
  }
  void finish() {
    for (const auto& [key, value] : file_.metadata())
      check(!key.starts_with(prefix_) || seen_.count(key), "import", "'", file_.origin(), "': key ", key,
            " is unknown for this architecture and might change what the model computes");
    const auto split = file_.metadata().find("split.count");
    check(split == file_.metadata().end() || (split->second.get<int64_t>() && *split->second.get<int64_t>() <= 1),
          "import", "'", file_.origin(), "' is one of several parts; merge them first");
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string> seen_;
};

}  // namespace

Json config_of_gguf(const GgufFile& file, const std::string& family) {
  Metadata m(file, family);
  const auto embedding = file.entries().find("token_embd.weight");
  check(embedding != file.entries().end(), "import", "'", file.origin(), "' has no tensor 'token_embd.weight'");
  const int64_t vocabulary = embedding->second.shape[0], d = m.integer("embedding_length"),
                heads = m.integer("attention.head_count");
  check(heads > 0, "import", "'", file.origin(), "': attention.head_count must be above 0");
  m.integer("vocab_size", double(vocabulary));
  const bool tied = !file.entries().count("output.weight");
  if (family == "gpt2") {
    const Json out = {{"model_type", "gpt2"},
                      {"vocab_size", vocabulary},
                      {"n_embd", d},
                      {"n_layer", m.integer("block_count")},
                      {"n_head", heads},
                      {"n_positions", m.integer("context_length")},
                      {"n_inner", m.integer("feed_forward_length")},
                      {"layer_norm_epsilon", m.number("attention.layer_norm_epsilon")},
                      {"tie_word_embeddings", tied}};
    m.finish();
    return out;
  }
  Json out = {{"model_type", family},
              {"vocab_size", vocabulary},
              {"hidden_size", d},
              {"num_hidden_layers", m.integer("block_count")},
              {"num_attention_heads", heads},
              {"num_key_value_heads", m.integer("attention.head_count_kv", double(heads))},
              {"intermediate_size", m.integer("feed_forward_length")},
              {"max_position_embeddings", m.integer("context_length")},
              {"rms_norm_eps", m.number("attention.layer_norm_rms_epsilon")},
              {"rope_theta", m.number("rope.freq_base", 10000)},
              {"tie_word_embeddings", tied}};
  const int64_t turned = m.integer("rope.dimension_count", double(d / heads)),
                head_dim = m.integer("attention.key_length", double(turned));
  check(turned == head_dim && m.integer("attention.value_length", double(head_dim)) == head_dim, "import", "'",
        file.origin(), "': heads of ", head_dim, " channels of which ", turned, " rotate are not supported");
  if (head_dim * heads != d || family == "qwen3") out["head_dim"] = head_dim;
  check(m.integer("expert_count", 0) == 0, "import", "'", file.origin(), "' has experts, which are not supported");
  m.integer("expert_used_count", 0);
  check(m.integer("attention.sliding_window", 0) == 0, "import", "'", file.origin(),
        "' has a sliding window, which is not supported in GGUF files");
  const std::string scaling = m.text("rope.scaling.type", "none");
  const double factor = m.number("rope.scaling.factor", 1);
  const int64_t length = m.integer("rope.scaling.original_context_length", 0);
  m.find("rope.scaling.finetuned");
  check(scaling == "none" || scaling == "linear" || scaling == "yarn", "import", "'", file.origin(),
        "': rope.scaling.type is '", scaling, "'; none, linear and yarn are supported");
  if (scaling != "none") out["rope_scaling"] = {{"rope_type", scaling}, {"factor", factor}};
  if (scaling == "yarn") out["rope_scaling"]["original_max_position_embeddings"] = length;
  if (family == "llama") {
    out["attention_bias"] = file.entries().count("blk.0.attn_q.bias") > 0;
    out["mlp_bias"] = file.entries().count("blk.0.ffn_gate.bias") > 0;
  }
  m.finish();
  return out;
}

std::vector<GgufPair> gguf_of_config(const Json& c, const std::string& family) {
  constexpr uint32_t kU32 = 4, kF32 = 6, kText = 8;
  std::vector<GgufPair> out;
  const auto integer = [&](const std::string& key, const Json& value) {
    out.push_back({family + "." + key, {value.get<int64_t>()}, kU32});
  };
  const auto number = [&](const std::string& key, const Json& value) {
    out.push_back({family + "." + key, {value.get<double>()}, kF32});
  };
  const bool gpt2 = family == "gpt2";
  integer("context_length", c[gpt2 ? "n_positions" : "max_position_embeddings"]);
  integer("embedding_length", c[gpt2 ? "n_embd" : "hidden_size"]);
  integer("block_count", c[gpt2 ? "n_layer" : "num_hidden_layers"]);
  integer("feed_forward_length", c[gpt2 ? "n_inner" : "intermediate_size"]);
  integer("attention.head_count", c[gpt2 ? "n_head" : "num_attention_heads"]);
  if (gpt2) {
    number("attention.layer_norm_epsilon", c["layer_norm_epsilon"]);
    return out;
  }
  integer("attention.head_count_kv", c["num_key_value_heads"]);
  number("attention.layer_norm_rms_epsilon", c["rms_norm_eps"]);
  const int64_t head_dim = c.contains("head_dim")
                               ? c["head_dim"].get<int64_t>()
                               : c["hidden_size"].get<int64_t>() / c["num_attention_heads"].get<int64_t>();
  integer("rope.dimension_count", head_dim);
  if (c.contains("head_dim")) {
    integer("attention.key_length", head_dim);
    integer("attention.value_length", head_dim);
  }
  number("rope.freq_base", c["rope_theta"]);
  integer("vocab_size", c["vocab_size"]);
  if (!c.contains("rope_scaling")) return out;
  const std::string type = c["rope_scaling"]["rope_type"];
  if (type == "llama3") return out;  // stands in a tensor of factors
  out.push_back({family + ".rope.scaling.type", {type}, kText});
  number("rope.scaling.factor", c["rope_scaling"]["factor"]);
  if (type == "yarn")
    integer("rope.scaling.original_context_length", c["rope_scaling"]["original_max_position_embeddings"]);
  return out;
}

}  // namespace lithe
