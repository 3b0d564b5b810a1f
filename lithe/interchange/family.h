// How the models of one architecture family stand in files of the Hugging Face format.
#pragma once

#include <functional>
#include <optional>

#include "lithe/base/json.h"
#include "lithe/base/part_options.h"
#include "lithe/interchange/hf_config.h"
#include "lithe/model/config.h"

namespace lithe {

/// A parameter and the tensor that holds it.
struct Weight {
  std::string ours, theirs;
  bool transposed = false;            // theirs is [out, in], ours [in, out]
  std::vector<int64_t> columns = {};  // of theirs' outputs (rows where transposed) that are ours; empty: all
  bool row = false;                   // theirs is [1, n], ours [n]
  // Number i of ours is number places()[i] of theirs, of this shape; none: as above. Called once the shape is compared.
  std::function<std::vector<int64_t>()> places = {};
  Shape shape = {};
};

struct Mapping {
  ModelConfig model;
  std::vector<Weight> weights;
  std::vector<std::pair<std::string, int64_t>> zeros = {};  // vectors of theirs that are 0 where ours has none
  std::vector<std::string> dropped;  // tensors without a place here, and what a result never needs; * for any text
};

/// What a family looks at beside config.json: the tensors that there are; null when a file is to be written, whose
/// tensors have the usual names and all of them.
using TensorNames = const std::set<std::string>*;

struct Family {
  std::vector<std::string> model_types;
  /// The model that a config.json describes. Reads every key that it knows.
  Mapping (*read)(const HfConfig& config, TensorNames names);
  /// A config.json for `model`, as far as its parts have a name in this family; none where they have not. What it says
  /// is read() again and compared with `model` before anything is written.
  std::optional<Json> (*write)(const ModelConfig& model);
};

/// In the order in which export tries them.
const std::vector<Family>& families();
/// The family of a model_type; fails (usage), naming those that there are.
const Family& family_of(const std::string& model_type, const std::string& origin);

// ---- one file each

Family llama_family();     // llama, mistral, qwen2, qwen3, olmo, olmo2, phi3
Family gemma_family();     // gemma, gemma2, gemma3_text
Family gpt2_family();      // gpt2
Family gpt_neox_family();  // gpt_neox (Pythia)
Family phi_family();       // phi
Family bert_family();      // bert
Family roberta_family();   // roberta, xlm-roberta, camembert
Family distilbert_family();
Family modernbert_family();
Family t5_family();    // t5, mt5
Family bart_family();  // bart, mbart, marian
Family vit_family();   // vit
Family whisper_family();

// ---- what families share

/// The config.json of a section model.
ModelConfig model_of(const std::string& yaml);
/// A weight and, where `bias`, its bias: "q" from "q_proj" with [out, in] weights.
void add_linear(std::vector<Weight>& to, const std::string& ours, const std::string& theirs, bool bias,
                bool transposed = true, const std::vector<int64_t>& columns = {});
/// Numbers begin, begin + 1, ... below end.
std::vector<int64_t> range(int64_t begin, int64_t end);
/// Weight::places of a convolution: number i of ours, [kernel in, out], in theirs, [out, in, kernel].
std::vector<int64_t> of_convolution(int64_t kernel, int64_t in, int64_t out);
/// What stands before `anchor` in the tensors' names ("model.", "transformer."); `usual` when nothing is known.
std::string prefix_of(TensorNames names, const std::string& anchor, const std::string& usual);
bool has_tensor(TensorNames names, const std::string& name, bool otherwise);
/// max_position_embeddings, or what a model was first trained with where it has other frequencies beyond (longrope).
int64_t positions_of(const HfConfig& config, int64_t usual);
/// What a family takes where config.json does not say it.
struct UsualRotary {
  double theta = 10000, share = 1;  // base; share of a head's channels that turn
  bool whole = false;               // all of them do, whatever partial_rotary_factor says
  std::string layers;               // whose part of rope_parameters it is, where each kind of layers has its own
};
/// rope_theta, rope_scaling or rope_parameters as options of position rotary, "type: rotary, base: 10000".
std::string rotary_options(const HfConfig& config, int64_t head_dim, const UsualRotary& usual = {});
/// rope_parameters have a part for each of the kinds of layers full_attention and sliding_attention.
bool has_rotary_by_layers(const HfConfig& config);
/// Which layers see the last tokens only, by layer_types; `usual` where it is absent.
std::vector<bool> sliding_layers(const HfConfig& config, std::vector<bool> usual);
/// One of the names of activations as `ffn` options: "type: gelu, approximate: tanh". `gated`: of a gated layer.
std::string activation_options(const HfConfig& config, const std::string& key, const std::string& usual, bool gated);
/// Names of labels in a config with id2label, "label_names: [...], num_labels: 2".
std::string label_options(const HfConfig& config);
/// Keys of a config.json that every family writes.
Json common_config(const ModelConfig& model, const std::string& model_type, const std::string& architecture);
/// Adds rope_theta and rope_scaling.
void write_rotary(Json& to, const PartChoice& position);
/// Adds id2label and label2id.
void write_labels(Json& to, const ModelConfig& model);

// ---- what encoder-decoders with the names of BART share

/// The options mixer and ffn of the side "encoder" or "decoder", with biases; `act`: activation_options(). Fails where
/// its heads do not divide d_model.
std::string side_options(const HfConfig& config, const std::string& side, int64_t d_model, const std::string& act,
                         bool key_bias);
/// The layers of the side "encoder." or "decoder.", which stands behind `base` in theirs.
void add_side_layers(std::vector<Weight>& to, const std::string& side, const std::string& base, int64_t layers,
                     bool key_bias);
/// Adds is_encoder_decoder, d_model, each side's layers, heads and inner width, and activation_function.
void write_sides(Json& to, const ModelConfig& model);

}  // namespace lithe
