// Attention and a convolution side by side [TB 6.3.1(2); Wu et al. 2020]: each reads half of the channels and a last
// map merges them, or both read all and their results are added.
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/joint_state.h"

namespace lithe {
namespace {

struct CnnBranchConfig {
  std::string merge = "split";
  PartChoice attention{"attention", {}}, convolution{"light_convolution", {}};
  void fields(Fields& f) {
    f("merge", merge, "split: half of the channels to each branch, merged by a map; sum: all to both, added",
      one_of({"split", "sum"}));
    f.part("attention", "mixer", attention, "the branch that looks far");
    f.part("convolution", "mixer", convolution, "the branch that looks near");
  }
};

class CnnBranch final : public Mixer {
 public:
  CnnBranch(const Scope& scope, const CnnBranchConfig& config, const Args& args) : split_(config.merge == "split") {
    check_usage(!split_ || args.hidden_size % 2 == 0, "cnn_branch", "merge split needs an even hidden_size, got ",
                args.hidden_size);
    Args part = args;
    if (split_) part.hidden_size /= 2;
    branches_.push_back(Registry::instance().make<Mixer>(config.attention, scope / "attention", part));
    branches_.push_back(Registry::instance().make<Mixer>(config.convolution, scope / "convolution", part));
    check_usage(!split_ || !reads_embedding(), "cnn_branch",
                "merge split gives a branch half of a row and no embedding: choose other heads, or merge: sum");
    if (!split_) return;
    scope.couples({Dimension::hidden});  // which half a channel is in
    merge_ = Linear(scope / "merge", Axis(2) * Axis::hidden(part.hidden_size), Axis::hidden(args.hidden_size), false,
                    InitRole::residual_output);
  }
  Var forward(const SubLayerInput& in) const override {
    const int64_t N = in.x.rows(), d = in.x.cols();
    const Var halves = split_ ? reshape(in.x, {2 * N, d / 2}) : in.x;
    std::vector<Var> out;
    for (size_t i = 0; i < 2; ++i) {
      SubLayerInput mine = in;
      if (split_) mine.x = pick_rows(halves, every_other(N, int64_t(i)));
      if (in.state) mine.state = &static_cast<JointState&>(*in.state)[i];
      out.push_back(branches_[i]->forward(mine));
    }
    if (!split_) return add(out[0], out[1]);
    std::vector<int64_t> side_by_side;
    for (int64_t n = 0; n < N; ++n) side_by_side.insert(side_by_side.end(), {n, N + n});
    return merge_(reshape(pick_rows(concatenate_rows(out), side_by_side), {N, d}));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    std::vector<std::unique_ptr<State>> states;
    for (const auto& branch : branches_) states.push_back(branch->make_state(shape));
    return std::make_unique<JointState>(std::move(states));
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return branches_[0]->state_bytes(tokens, dtype) + branches_[1]->state_bytes(tokens, dtype);
  }
  bool keeps_rows() const override { return branches_[0]->keeps_rows() || branches_[1]->keeps_rows(); }
  bool reads_embedding() const override { return branches_[0]->reads_embedding() || branches_[1]->reads_embedding(); }

 private:
  bool split_;
  std::vector<std::unique_ptr<Mixer>> branches_;
  Linear merge_;

  static std::vector<int64_t> every_other(int64_t rows, int64_t first) {
    std::vector<int64_t> out;
    for (int64_t n = 0; n < rows; ++n) out.push_back(2 * n + first);
    return out;
  }
};

}  // namespace

void register_mixer_cnn_branch(Registry& registry) {
  registry.add<Mixer, CnnBranch, CnnBranchConfig>(
      "cnn_branch",
      {.spec = "arch.cnn_branch",
       .summary = "attention and a convolution side by side, on halves of the channels or both on all",
       .source = "TB 6.3.1(2); Wu et al. 2020 (Lite Transformer)",
       .samples = {
           "{attention: {type: attention, num_attention_heads: 1}, convolution: {type: convolution, kernel_size: 3}}",
           "{merge: sum, attention: {type: attention, num_attention_heads: 1}, convolution: {type: "
           "light_convolution, kernel_size: 3}}"}});
}

}  // namespace lithe
