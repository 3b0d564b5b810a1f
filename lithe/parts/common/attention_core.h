// What the forms of softmax attention share [TB Eq 6.19-6.31]: heads, the field, the output, and how logits are made.
// The forms: a text to itself (mixer/attention.cpp), to another text, and by the map of a layer below.
#pragma once

#include "lithe/nn/registry.h"
#include "lithe/parts/common/projected_heads.h"

namespace lithe {

struct AttentionConfig : HeadSizes {
  std::string scale = "sqrt_head_dim", map = "own";
  double attention_dropout = 0, query_pre_attn_scalar = 0, attn_logit_softcapping = 0;
  PartChoice heads{"mha", {}}, field{"full", {}}, output{"dense", {}};
  void fields(Fields& f);
};

/// How many keys the queries of each sequence meet: those of a text, or the kept tokens of a state.
std::vector<FieldInput::Keys> key_counts(const Sequences& keys);
std::vector<FieldInput::Keys> key_counts(const std::vector<int64_t>& tokens);

/// attend() of sequences to themselves, some of whose weights are dropped in training; leaves its maps in the pass
/// where a training pass wants them.
Var attend_dropping(const Dropout& dropout, const Var& q, const Var& k, const Var& v, const SubLayerInput& in,
                    const AttendOptions& options);

class AttentionCore {
 public:
  /// `position`: none where a query and a key are of two texts.
  AttentionCore(const Scope& scope, const AttentionConfig& config, const Mixer::Args& args, const Position* position);

  /// The heads as their definition says; those that whole sequences are read by; those that a state is read by. The
  /// others come to the same where nobody looks at queries, keys and values.
  const Heads& heads() const { return *heads_; }
  const Heads& whole() const { return dropout_.active() ? *heads_ : *whole_; }
  const Heads& kept() const { return *kept_; }
  const Field& field() const { return *field_; }
  const Position* position() const { return position_; }
  const Dropout& dropout() const { return dropout_; }
  int64_t head_dim() const { return head_dim_; }  // as positions turn it
  bool biases() const { return field_->biases() || (position_ && position_->biases()); }
  /// Nothing else is added to logits by key, and weights are not changed after the softmax: log_presence can be added.
  bool reads_presence() const {
    const auto leaves = [](const auto* part) {
      if (!part || !part->biases()) return true;
      const BiasForm form = part->bias_form();
      return !form.prior && (!form.columns || form.pairs);
    };
    return leaves(field_.get()) && leaves(position_);
  }
  bool position_reads_keys() const { return position_ && position_->reads_keys(); }
  bool reads_keys() const { return field_->reads_keys() || position_reads_keys(); }
  /// Weights that are dropped in training are those of the heads as they are defined, not of whole().
  bool folds_but_for_dropout() const { return drops_ && whole_ != heads_.get(); }

  Heads::Input input_of(const SubLayerInput& in) const;
  Heads::Turn turn_by(const Sequences& sequences) const;
  /// Keys and values as attention reads them.
  static Heads::KeyValue read(const Heads& heads, const Heads::KeyValue& kept, const Heads::Turn& turn) {
    return heads.expands() ? heads.expand(kept, turn) : kept;
  }
  /// How queries of `heads` meet keys: `labels` in place of k where a state keeps them; by `other` in place of the
  /// field, where it is given.
  AttendOptions options(const Heads& heads, const SubLayerInput& in, const Var& q, const Var& k,
                        const std::vector<FieldInput::Keys>& keys, const Tensor& labels = {},
                        const Field* other = nullptr) const;
  /// What a cache keeps beside the keys of these rows, where the field's labels are of rows; else undefined.
  Tensor labels_of(const SubLayerInput& in) const {
    return field_->labels_rows() ? field_->label_rows(in.pass, in.x) : Tensor();
  }
  Var output(const Var& done) const { return output_->forward(done); }
  MixerMaps maps(const SubLayerInput& in, const Heads::Input& key_rows, const Sequences& keys) const;

 private:
  const Position* position_;
  int64_t head_dim_ = 0;
  double scale_ = 0, softcap_ = 0;
  std::unique_ptr<Heads> heads_;
  const Heads *whole_ = nullptr, *kept_ = nullptr;
  std::unique_ptr<Field> field_;
  std::unique_ptr<Output> output_;
  bool drops_;
  Dropout dropout_;  // of attention weights

  void check_dropout(const AttentionConfig& config, bool cross) const;
};

/// Refuses (usage) a position, or none, and a field that change logits or weights in ways that do not go together.
void check_biases(const Position* position, const Field& field, const std::string& field_type);

/// Attention whose queries are of one text and whose keys and values of another.
std::unique_ptr<Mixer> make_cross_attention(const Scope& scope, const AttentionConfig& config, const Mixer::Args& args);
/// Attention with the map of a layer below (config.map).
std::unique_ptr<Mixer> make_borrowed_attention(const Scope& scope, const AttentionConfig& config,
                                               const Mixer::Args& args);

}  // namespace lithe
