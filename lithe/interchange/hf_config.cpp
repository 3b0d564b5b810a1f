#include "lithe/interchange/hf_config.h"

#include <charconv>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"

namespace lithe {
namespace {

// What says how to train, to generate or which program wrote the file, and nothing about what the model computes.
const std::set<std::string> kIrrelevant{"_name_or_path",
                                        "architectures",
                                        "model_type",
                                        "transformers_version",
                                        "torch_dtype",
                                        "dtype",
                                        "use_cache",
                                        "initializer_range",
                                        "initializer_factor",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "pad_token_id",
                                        "sep_token_id",
                                        "cls_token_id",
                                        "mask_token_id",
                                        "unk_token_id",
                                        "decoder_start_token_id",
                                        "attention_dropout",
                                        "hidden_dropout",
                                        "hidden_dropout_prob",
                                        "attention_probs_dropout_prob",
                                        "classifier_dropout",
                                        "resid_pdrop",
                                        "embd_pdrop",
                                        "attn_pdrop",
                                        "task_specific_params",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "return_dict",
                                        "torchscript",
                                        "gradient_checkpointing",
                                        "use_bfloat16",
                                        "id2label",
                                        "label2id",
                                        "problem_type",
                                        "chunk_size_feed_forward",
                                        "finetuning_task",
                                        "tokenizer_class",
                                        "prefix",
                                        "max_length",
                                        "min_length",
                                        "do_sample",
                                        "early_stopping",
                                        "num_beams",
                                        "num_beam_groups",
                                        "diversity_penalty",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "typical_p",
                                        "repetition_penalty",
                                        "length_penalty",
                                        "no_repeat_ngram_size",
                                        "encoder_no_repeat_ngram_size",
                                        "bad_words_ids",
                                        "num_return_sequences",
                                        "output_scores",
                                        "return_dict_in_generate",
                                        "forced_bos_token_id",
                                        "forced_eos_token_id",
                                        "remove_invalid_values",
                                        "exponential_decay_length_penalty",
                                        "suppress_tokens",
                                        "begin_suppress_tokens",
                                        "tf_legacy_loss",
                                        "auto_map",
                                        "attn_implementation",
                                        "_attn_implementation",
                                        "_attn_implementation_autoset",
                                        "_commit_hash",
                                        "adapter_config",
                                        "unsloth_fixed",
                                        "unsloth_version",
                                        "cache_implementation",
                                        "num_labels"};

// Keys of every config that would change results, with the only values that need nothing.
const std::vector<std::pair<std::string, std::vector<std::string>>> kPlain{
    {"is_encoder_decoder", {"false"}},   {"is_decoder", {"false"}}, {"add_cross_attention", {"false"}},
    {"cross_attention_hidden_size", {}}, {"pruned_heads", {"{}"}},  {"tie_encoder_decoder", {"false"}},
    {"quantization_config", {}},         {"pretraining_tp", {"1"}}};

std::string shown(const Node& value) {
  if (value.is_scalar()) return value.quoted() ? "\"" + value.text() + "\"" : value.text();
  if (value.is_map() && value.entries().empty()) return "{}";
  return value.is_list() ? "a list" : "an object";
}

}  // namespace

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

HfConfig HfConfig::from_file(const Path& file) {
  check_usage(std::filesystem::exists(file), "import", "'", file.string(),
              "' does not exist; give a directory of the Hugging Face format, with config.json and safetensors");
  const Node node = parse_json_node(read_file(file, uint64_t(1) << 26), file.string());
  check(node.is_map(), "import", "'", file.string(), "' must hold an object");
  return {node, file.string()};
}

const Node* HfConfig::find(const std::string& key) const {
  seen_.insert(key);
  const Node* found = node_.find(key);
  return found && !found->is_null() ? found : nullptr;
}

int64_t HfConfig::integer(const std::string& key, int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}
double HfConfig::number(const std::string& key, double otherwise) const { return has(key) ? number(key) : otherwise; }
std::string HfConfig::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

int64_t HfConfig::integer(const std::string& key) const {
  const double value = number(key);
  const double most =
      key.find("layer") != std::string::npos || key.find("head") != std::string::npos ? 1 << 20 : 0x1p40;
  check(value >= -1 && value <= most, "import", "'", origin_, "': ", key, " must be from 0 to ", int64_t(most),
        ", got ", shown(*find(key)));
  check(value == std::floor(value), "import", "'", origin_, "': ", key, " must be a whole number, got ",
        shown(*find(key)));
  return int64_t(value);
}

double HfConfig::number(const std::string& key) const {
  const Node* value = find(key);
  check(value, "import", "'", origin_, "' has no ", key, ", which this architecture needs");
  double out = 0;
  const std::string text = value->is_scalar() && !value->quoted() ? value->text() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  check(error == std::errc() && end == text.data() + text.size() && !text.empty() && std::isfinite(out), "import", "'",
        origin_, "': ", key, " must be a number, got ", shown(*value));
  return out;
}

bool HfConfig::flag(const std::string& key, bool otherwise) const {
  const Node* value = find(key);
  if (!value) return otherwise;
  check(value->is_scalar() && (value->text() == "true" || value->text() == "false"), "import", "'", origin_, "': ", key,
        " must be true or false, got ", shown(*value));
  return value->text() == "true";
}

std::string HfConfig::text(const std::string& key) const {
  const Node* value = find(key);
  check(value && value->is_scalar(), "import", "'", origin_, "' must have a text ", key);
  return value->text();
}

HfConfig HfConfig::section(const std::string& key) const {
  const Node* value = find(key);
  check(value && value->is_map(), "import", "'", origin_, "' must have an object ", key);
  return {*value, origin_ + "' " + key + " of '" + origin_};
}

void HfConfig::only(const std::string& key, const std::vector<std::string>& values) const {
  const Node* value = find(key);
  if (!value) return;
  const std::string is = value->is_scalar() ? value->text() : shown(*value);
  for (const std::string& allowed : values)
    if (is == allowed) return;
  fail("import", "'", origin_, "': ", key, " is ", shown(*value), ", which lithe does not compute",
       values.empty() ? "; only models without it can be imported" : "; it can be " + join(values));
}

void HfConfig::ignore(const std::vector<std::string>& keys) const { seen_.insert(keys.begin(), keys.end()); }

std::vector<std::string> HfConfig::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : node_.entries())
    if (!seen_.count(key) && !kIrrelevant.count(key) && !key.starts_with("summary_")) out.push_back(key);
  return out;
}

void HfConfig::finish() const {
  for (const auto& [key, values] : kPlain)
    if (!seen_.count(key)) only(key, values);
  const std::vector<std::string> unknown = unread();
  check(unknown.empty(), "import", "'", origin_, "': ", unknown.size() == 1 ? "key " : "keys ", join(unknown),
        unknown.size() == 1 ? " is" : " are",
        " unknown for this architecture and might change what the model computes; take what does not matter out of a "
        "copy of the file");
}

}  // namespace lithe
