// The interfaces of the slots that a Transformer is assembled from (docs/design.md). A part implements one of
// them in lithe/parts/<slot>/<name>.cpp and is reached by name through the Registry.
#pragma once

#include "lithe/nn/attention_slots.h"
#include "lithe/nn/sub_layer.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/loss.h"

namespace lithe {

class PlacedEmbedding;
class RecallingEmbedding;

/// Tokens to rows. A token is `token_width` ints: one is an id; more are a code, whose first int names a special token
/// (0 to 4, the rest zeros) or is 5 for an ordinary one, which the rest, the payload, describes: bits of a hash, or
/// features, the bits of f32 numbers (base/token_code.h).
class Embedding : public Part {
 public:
  static constexpr const char* slot = "embedding";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0;
    int64_t token_width = 1;  // the tokenizer's; 0: none made them, they are as wide as the embedding says
  };
  /// Ints of a token.
  virtual int64_t width() const { return 1; }
  /// tokens i32 [N] or [N, width()] -> rows [N, hidden_size] in the compute dtype.
  virtual Var forward(const Tensor& tokens, const Pass& pass = Pass::nowhere()) const = 0;
  /// The table [vocab, hidden] that a tied head shares; null when there is none.
  virtual Parameter* table() const { return nullptr; }
  /// This, where it reads the tokens before each one, too (nn/recalling_embedding.h); else null.
  virtual const RecallingEmbedding* recalling() const { return nullptr; }
  /// This, where rows stand at places of their own; else null.
  virtual const PlacedEmbedding* placed() const { return nullptr; }
};

/// Rows to normalised rows.
class Norm : public Part {
 public:
  static constexpr const char* slot = "norm";
  struct Args {
    int64_t hidden_size = 0;
  };
  virtual Var forward(const Var& x) const = 0;
  /// forward(a + b); a part may do both in one pass over the rows.
  virtual Var forward_sum(const Var& a, const Var& b) const { return forward(add(a, b)); }
  /// It does.
  virtual bool fuses_sum() const { return false; }
};

/// How a sub-layer F is wired with its norm and dropout.
class Residual : public Part {
 public:
  static constexpr const char* slot = "residual";
  struct Args {
    int64_t hidden_size = 0;
    const Norm* norm = nullptr;
    const Dropout* dropout = nullptr;  // on F's result
  };
  /// F(x): evaluation `stage` of stages() has its own state and its own random numbers.
  using SubLayerFunction = std::function<Var(const Var& x, int64_t stage)>;
  /// x after the sub-layer.
  virtual Var forward(const Var& x, const SubLayerFunction& f) const = 0;
  /// What F reads of x.
  virtual Var input(const Var& x) const { return x; }
  /// What forward() adds to x, without adding it, for stacks that wire themselves. Fails (usage) where forward() does
  /// more than that.
  virtual Var change(const Var& x, const SubLayerFunction& f) const {
    (void)x, (void)f;
    fail_usage("model", "this residual does more than add to the rows; the stack needs residual pre");
  }
  /// change() works.
  virtual bool adds() const { return false; }
  /// How often forward() evaluates F: stages 0, 1, ... in order. It may leave out the last ones where their results do
  /// not count; the states of these read input() of what forward() returned.
  virtual int64_t stages() const { return 1; }
  /// The stack ends with one more norm.
  virtual bool final_norm() const = 0;
};

/// A place in a stack where rows may leave it.
struct StackExit {
  int64_t layer = 0;      // from 0: after this one
  double weight = 1;      // of its loss, beside the model's own, which counts 1
  bool own_head = false;  // else the model's head predicts there, too
};

/// What a stack with exits may ask of the model that it stands in.
class ExitHeads {
 public:
  virtual ~ExitHeads() = default;
  /// What the head of exit `exit` (from 0; -1: the model's) predicts of rows as they leave the layer: Head::logits.
  virtual Var predict(int64_t exit, const Rows& x) const = 0;
  /// A row sees only the tokens up to its own.
  virtual bool causal() const = 0;
};

/// The layers of a model, as a stack runs them. They live as long as the model.
class Layers {
 public:
  virtual ~Layers() = default;
  virtual int64_t count() const = 0;
  /// x after the layer, recomputed in the backward pass where the model is told to. `gains`, where not empty: a factor
  /// on each sub-layer's result before it is wired; one of factor 0 is left out, and rows pass it unchanged.
  virtual Rows run(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains = {}) const = 0;
  /// The layer is not run for these rows: its states, if there are any, are brought forward all the same.
  virtual void skip(int64_t layer, const Rows& x, const Pass& pass) const = 0;
  /// For stacks that wire themselves: how many sub-layers a layer has, and what one adds to x (Residual::change);
  /// undefined when it adds nothing. `pass` is within() the layer.
  virtual int64_t sub_layers(int64_t layer) const = 0;
  virtual Var change(int64_t layer, int64_t sub_layer, const Rows& x, const Pass& pass) const = 0;
  /// Null: these layers stand in no model.
  virtual const ExitHeads* exit_heads() const { return nullptr; }
};

/// How layers follow each other.
class Stack : public Part {
 public:
  static constexpr const char* slot = "stack";
  struct Args {
    int64_t hidden_size = 0, num_hidden_layers = 0;
    DType compute = DType::f32;
  };
  /// Channels of the rows that layers read.
  virtual int64_t layer_width(int64_t hidden_size) const { return hidden_size; }
  /// Runs sub-layers one by one: needs a residual that adds().
  virtual bool wires() const { return false; }
  /// Lets rows pass a layer unchanged while others of their sequence run it. It needs layers with one mixer, without a
  /// compressor, and residuals of one stage, so that a layer's state is the same whether or not a row ran it.
  virtual bool selective() const { return false; }
  /// Where rows may leave by a rule (Pass::exits), the lowest first; each is trained by a loss of its own.
  virtual std::vector<StackExit> exits() const { return {}; }
  /// Keeps nothing of a layer once the next one has run, so that layers above cannot read it.
  virtual bool forgets() const { return false; }
  virtual Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const = 0;
  /// Reads rows of several layers side by side, so that none may make fewer or more of them: no layer has a compressor
  /// or an expander.
  virtual bool keeps_rows() const { return wires() || selective(); }
  /// Rows that come out may be fewer than those that came in, by what they are.
  virtual bool drops() const { return false; }
};

/// Sequences to shorter ones, before a layer. How many rows are left may depend on the rows.
class Compressor : public Part {
 public:
  static constexpr const char* slot = "compressor";
  struct Args {
    int64_t hidden_size = 0;
    bool causal = true;
  };
  struct Shorter {
    Rows rows;
    std::vector<int64_t> row_of;  // Shortening::row_of
  };
  virtual Shorter forward(const Rows& x, const Pass& pass) const = 0;
  /// What it looks at of the layer below, by Pass::get.
  virtual std::vector<Tap::Kind> reads_below() const { return {}; }
  /// In training its rows may have Rows::log_presence.
  virtual bool weakens() const { return false; }
  /// It takes rows with log_presence.
  virtual bool reads_presence() const { return false; }
  /// How many rows are left depends on what they are, not on their number alone.
  virtual bool drops() const { return false; }
};

/// Sequences as long as they were before the last compressor, before a layer.
class Expander : public Part {
 public:
  static constexpr const char* slot = "expander";
  struct Args {
    int64_t hidden_size = 0;
  };
  /// Rows [M, D] and what they were made of -> rows [N, D], one for each row of `from.before`.
  virtual Var forward(const Rows& x, const Shortening& from, const Pass& pass) const = 0;
  /// How many compressors it undoes, the last first, of each by forward(); 0: all.
  virtual int64_t undoes() const { return 1; }
};

/// What a head's loss is of.
struct LossArgs {
  Tensor labels;                    // i32 [LabelCount::labels], negative: none; f32 for a regression
  double smoothing = 0, scale = 1;  // the loss is scale * sum over the labels
  LossSums* sums = nullptr;         // optional
  Tensor row_nll;                   // optional: negative log-likelihood of each label
  Sequences label_sequences = {};   // of the labels, where LabelCount::own_lengths
};

/// Rows to predictions.
class Head : public Part {
 public:
  static constexpr const char* slot = "head";
  struct Args {
    int64_t vocab_size = 0, hidden_size = 0, num_labels = 0;
    Parameter* tied = nullptr;  // the embedding's table [vocab, hidden], or null
    bool causal = true;         // a row has seen only the tokens up to its own
  };
  /// Labels that a batch has, and the number that all of them must be below (0: they are real numbers). With lengths of
  /// their own each sequence has any number of labels, at most as many as rows, and there are `labels` at most.
  struct LabelCount {
    int64_t labels = 0, classes = 0;
    bool own_lengths = false;
  };
  virtual LabelCount count(const Sequences& sequences) const = 0;
  /// Its labels are of rows, or name rows: it needs a row for every token.
  virtual bool by_row() const { return true; }
  /// It reads the tokens of whole texts beside the rows (Rows::read); it refuses to be causal.
  virtual bool reads_tokens() const { return false; }
  /// [N, hidden] -> predictions, [N, classes] or [B, classes].
  virtual Var logits(const Rows& rows) const = 0;
  /// The rows may be some of those of their sequences where only these are predicted (Batch::predicted).
  virtual Var loss(const Rows& rows, const LossArgs& args) const = 0;
  /// A dependency tree of a sentence's words: their heads (from 1, 0: the root), labels, and of each word the
  /// probabilities of the root and of all words to be its head.
  struct Parse {
    std::vector<int32_t> heads, labels;
    std::vector<std::vector<double>> probabilities;
  };
  /// Trees with one root of the words that begin at words[b], rows of sequence b; `projective`: without crossing arcs.
  /// Fails (usage) on a head that does not parse.
  virtual std::vector<Parse> parse(const Rows& rows, const std::vector<std::vector<int64_t>>& words,
                                   bool projective) const {
    (void)rows, (void)words, (void)projective;
    fail_usage("model", "this head gives no trees; train a task of type parsing, whose head is biaffine");
  }
  /// Logits [N, 2] of whether a text goes on after each row or stops there; undefined where that was not learned.
  virtual Var stop_logits(const Var& x) const {
    (void)x;
    return {};
  }
  /// It reads the second row of a sequence as the one of the second token.
  virtual bool reads_second_row() const { return false; }
};

}  // namespace lithe
