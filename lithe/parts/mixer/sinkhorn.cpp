// Attention to the own block and to one that a soft permutation of blocks puts beside it [TB 6.4.1; Tay et al. 2020].
// Blocks of tokens are summed, R, and mapped to logits R W of every block of the longest text; sinkhorn() makes them
// doubly stochastic, P; block a also sees keys and values sum_b P[a,b] K_b and sum_b P[a,b] V_b, token by token of the
// blocks. The choice reads whole texts: there is no causal form; the field sort has one.
#include <algorithm>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/pattern_field.h"
#include "lithe/parts/common/projected_heads.h"
#include "lithe/parts/common/sinkhorn.h"

namespace lithe {
namespace {

struct SinkhornConfig : HeadSizes {
  int64_t size = 64, iterations = 8;
  PartChoice output{"dense", {}};
  void fields(Fields& f) {
    sizes(f);
    f("size", size, "block size in tokens", at_least(1));
    f("iterations", iterations, "number S of Sinkhorn iterations (normalisation of rows and columns)",
      between(1, 1000));
    biases(f);
    f.part("output", "output", output, "maps the concatenated heads to rows");
  }
};

// spec: sparse.sort | mixer | blocks meet their own and a soft permutation of all, sinkhorn | TB 6.4.1
class Sinkhorn final : public Mixer {
 public:
  Sinkhorn(const Scope& scope, const SinkhornConfig& config, const Args& args)
      : size_(config.size), iterations_(config.iterations), position_(args.position) {
    const Heads::Args size = config.args("sinkhorn", args.hidden_size);
    check_usage(
        !position_ || !position_->biases(), "sinkhorn",
        "keys that mix tokens of many blocks stand at no distance; give model.position one that adds to rows or "
        "rotates queries and keys (rotary, sinusoidal, learned), or none");
    head_dim_ = size.head_dim;
    if (position_) position_->check_head_dim(head_dim_);
    heads_ = std::make_unique<ProjectedHeads>(scope / "heads", size, config.num_attention_heads);
    blocks_ = (args.max_position_embeddings + size_ - 1) / size_;
    permute_ = (scope / "permute")
                   .parameter("weight", {Axis::hidden(args.hidden_size), blocks_}, InitRole::matrix, {.wide = true});
    output_ = Registry::instance().make<Output>(
        config.output, scope / "output",
        {.context = heads_->context(), .hidden_size = args.hidden_size, .bias = config.output_bias});
    scope.couples({Dimension::head_width});  // logits are divided by the root of it
  }
  int64_t limit() const override { return blocks_ * size_; }

  Var forward(const SubLayerInput& in) const override {
    check(!in.state, "sinkhorn", "permutes the blocks of whole texts and cannot decode token by token");
    const auto turn = [&](const Var& x) { return position_ ? position_->turn(x, in.sequences, head_dim_) : x; };
    const auto [q, kv] = heads_->read({in.x, in.x}, turn);
    std::vector<Var> k, v;
    std::vector<int64_t> offsets{0};
    auto tiles = std::make_shared<kernels::TileMask>();
    for (int64_t b = 0; b < in.sequences.count(); ++b) {
      const int64_t begin = in.sequences.offset(b), end = in.sequences.offset(b + 1), tokens = end - begin,
                    blocks = (tokens + size_ - 1) / size_, slots = std::min(size_, tokens);
      check(blocks <= blocks_, "sinkhorn", "permutes at most ", blocks_, " blocks of ", size_,
            " tokens, got a text of ", tokens, "; raise max_position_embeddings and train anew");
      const auto rows = [&](const Var& x) { return slice_rows(x, begin, end); };
      k.push_back(rows(kv.k)), v.push_back(rows(kv.v));
      if (blocks > 0) {
        const Var permutation = permuted(rows(in.x), blocks);
        k.push_back(sorted(rows(kv.k), permutation, slots)), v.push_back(sorted(rows(kv.v), permutation, slots));
      }
      offsets.push_back(offsets.back() + tokens + blocks * slots);
      const auto visits = visits_of(tokens, tokens + blocks * slots, [&](int64_t i, std::vector<KeyRange>& seen) {
        const int64_t block = i / size_;
        seen.push_back({block * size_, std::min(tokens, (block + 1) * size_)});
        seen.push_back({tokens + block * slots, tokens + (block + 1) * slots});
      });
      tiles->visits.insert(tiles->visits.end(), size_t(heads_->query_heads()), visits);
    }
    AttendOptions options{.heads = heads_->query_heads(), .kv_heads = heads_->kv_heads()};
    options.tiles = std::move(tiles);
    return output_->forward(attend(q, concatenate_rows(k), concatenate_rows(v), in.sequences,
                                   Sequences(offsets, {}, in.x.device()), options));
  }
  std::unique_ptr<State> make_state(const StateShape&) const override {
    fail("sinkhorn", "permutes the blocks of whole texts and has no decode state");
  }
  int64_t state_bytes(const std::vector<int64_t>&, DType) const override { return 0; }

 private:
  int64_t size_, iterations_, head_dim_ = 0, blocks_ = 0;
  const Position* position_;
  std::unique_ptr<ProjectedHeads> heads_;
  Parameter* permute_ = nullptr;  // [D, blocks]
  std::unique_ptr<Output> output_;

  // x [T, C] as a row a block of `slots` tokens, zeros behind the last: [blocks, slots*C].
  static Var by_block(const Var& x, int64_t blocks, int64_t slots) {
    const int64_t missing = blocks * slots - x.rows();
    const Var whole = missing ? concatenate_rows({x, zeros({missing, x.cols()}, x.dtype(), x.device())}) : x;
    return reshape(whole, {blocks, slots * x.cols()});
  }
  // How much of each block stands beside each: [blocks, blocks].
  Var permuted(const Var& x, int64_t blocks) const {
    const int64_t tokens = x.rows();
    const DType wide = wide_of(x.dtype());
    const Tensor of_block = zeros({blocks, tokens}, wide, x.device());
    for (int64_t i = 0; !of_block.is_meta() && i < tokens; ++i) set_value(of_block, i / size_ * tokens + i, 1);
    const Var sums = linear(Var(of_block), cast(x, wide));
    return sinkhorn(linear(sums, cast(permute_->var(), wide)), blocks, iterations_);
  }
  // Keys or values of the blocks that stand beside each: [blocks*slots, C].
  static Var sorted(const Var& x, const Var& permutation, int64_t slots) {
    const Var mixed = linear(permutation, cast(by_block(x, permutation.rows(), slots), permutation.dtype()));
    return cast(reshape(mixed, {permutation.rows() * slots, x.cols()}), x.dtype());
  }
};

}  // namespace

void register_mixer_sinkhorn(Registry& registry) {
  registry.add<Mixer, Sinkhorn, SinkhornConfig>(
      "sinkhorn",
      {.summary = "attention to a token's own block and to a soft permutation of all blocks",
       .source = "TB 6.4.1; Tay et al. 2020",
       .causal = false,
       .samples = {"{num_attention_heads: 1, size: 3}", "{num_attention_heads: 1, size: 2, iterations: 3}"}});
}

}  // namespace lithe
