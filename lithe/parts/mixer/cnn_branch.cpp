// Attention and a convolution side by side [TB 6.2.3, 6.3.1(2); Wu et al. 2020]: each reads a part of the channels and
// a last map merges them, or both read all and their results are added.
#include <algorithm>
#include <numeric>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/joint_state.h"

namespace lithe {
namespace {

struct CnnBranchConfig {
  std::string merge = "split", first = "attention";
  int64_t convolution_channels = -1;
  PartChoice attention{"attention", {}}, convolution{"light_convolution", {}};
  void fields(Fields& f) {
    f("merge", merge,
      "split: each branch reads a part of the channels, and a map merges the results; sum: both read all channels, and "
      "the results are added",
      one_of({"split", "sum"}));
    f("convolution_channels", convolution_channels,
      "split: channels d_c of the convolution, attention gets the others; -1: half; 0: only attention, without "
      "convolution and merging map",
      at_least(-1));
    f("first", first,
      "split: branch that gets the first channels: attention, as in arch.cnn_branch, or convolution, as in "
      "syn.cnn_transformer_branch (TB 6.2.3)",
      one_of({"attention", "convolution"}));
    f.part("attention", "mixer", attention, "the global branch");
    f.part("convolution", "mixer", convolution, "the local branch");
  }
};

// spec: syn.cnn_transformer_branch | mixer | a convolution on the first channels, attention on the rest | TB 6.2.3
class CnnBranch final : public Mixer {
 public:
  CnnBranch(const Scope& scope, const CnnBranchConfig& config, const Args& args) : split_(config.merge == "split") {
    const int64_t d = args.hidden_size, asked = config.convolution_channels;
    check_usage(split_ || (asked == -1 && config.first == "attention"), "cnn_branch",
                "merge sum gives all channels to both branches: leave convolution_channels and first out");
    check_usage(!split_ || asked != -1 || d % 2 == 0, "cnn_branch", "merge split needs an even hidden_size, got ", d,
                "; or give convolution_channels");
    check_usage(asked < d, "cnn_branch", "convolution_channels ", asked, " must be below hidden_size ", d,
                "; attention has the rest");
    const int64_t convolved = asked == -1 ? d / 2 : asked;
    const auto branch = [&](const PartChoice& choice, const char* name, int64_t begin, int64_t channels) {
      Args part = args;
      if (split_) part.hidden_size = channels;
      branches_.push_back({Registry::instance().make<Mixer>(choice, scope / name, part), begin, channels});
    };
    const bool convolution_first = config.first == "convolution";
    branch(config.attention, "attention", convolution_first ? convolved : 0, d - convolved);
    if (!split_ || convolved)
      branch(config.convolution, "convolution", convolution_first ? 0 : d - convolved, convolved);
    if (branches_.size() == 1) split_ = false;  // attention has all channels
    check_usage(!split_ || !reads_embedding(), "cnn_branch",
                "merge split gives a branch some of a row's channels and no embedding: choose other heads, or merge: "
                "sum");
    if (!split_) return;
    scope.couples({Dimension::hidden});  // which part a channel is in
    const Axis both = 2 * convolved == d ? Axis(2) * Axis::hidden(convolved) : Axis::hidden(d);
    merge_ = Linear(scope / "merge", both, Axis::hidden(d), false, InitRole::residual_output);
  }
  std::vector<std::string> reads_columns() const override {
    std::vector<std::string> out;
    for (const Branch& branch : branches_)
      for (const std::string& column : branch.mixer->reads_columns()) out.push_back(column);
    return out;
  }
  Var forward(const SubLayerInput& in) const override {
    const int64_t N = in.x.rows(), d = in.x.cols();
    // All parts begin at multiples of so many channels: those are rows of a narrower matrix.
    const int64_t piece = split_ ? std::gcd(branches_[0].channels, d) : d;
    const Var pieces = reshape(in.x, {N * (d / piece), piece});
    std::vector<Var> out;
    for (size_t i = 0; i < branches_.size(); ++i) {
      const Branch& of = branches_[i];
      SubLayerInput mine = in;
      if (split_) mine.x = reshape(pick_rows(pieces, pieces_of(of, N, d, piece)), {N, of.channels});
      if (in.state) mine.state = &static_cast<JointState&>(*in.state)[i];
      out.push_back(of.mixer->forward(mine));
    }
    if (out.size() == 1) return out[0];
    if (!split_) return add(out[0], out[1]);
    std::vector<int64_t> order(size_t(N * (d / piece)));  // of the branches' pieces, channel by channel
    int64_t made = 0;
    for (const Branch& of : branches_)
      for (const int64_t at : pieces_of(of, N, d, piece)) order[size_t(at)] = made++;
    std::vector<Var> narrow;
    for (const Var& y : out) narrow.push_back(reshape(y, {y.value().numel() / piece, piece}));
    return merge_(reshape(pick_rows(concatenate_rows(narrow), order), {N, d}));
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    std::vector<std::unique_ptr<State>> states;
    for (const Branch& branch : branches_) states.push_back(branch.mixer->make_state(shape));
    return std::make_unique<JointState>(std::move(states));
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    int64_t total = 0;
    for (const Branch& branch : branches_) total += branch.mixer->state_bytes(tokens, dtype);
    return total;
  }
  bool keeps_rows() const override {
    return std::ranges::any_of(branches_, [](const Branch& branch) { return branch.mixer->keeps_rows(); });
  }
  bool reads_embedding() const override {
    return std::ranges::any_of(branches_, [](const Branch& branch) { return branch.mixer->reads_embedding(); });
  }

 private:
  struct Branch {
    std::unique_ptr<Mixer> mixer;
    int64_t begin, channels;  // of a row, where they are split
  };
  bool split_;
  std::vector<Branch> branches_;  // attention, convolution
  Linear merge_;

  // Of [N, d] in pieces of so many channels, those of a branch.
  static std::vector<int64_t> pieces_of(const Branch& of, int64_t N, int64_t d, int64_t piece) {
    std::vector<int64_t> out;
    for (int64_t n = 0; n < N; ++n)
      for (int64_t at = of.begin / piece; at < (of.begin + of.channels) / piece; ++at)
        out.push_back(n * (d / piece) + at);
    return out;
  }
};

}  // namespace

void register_mixer_cnn_branch(Registry& registry) {
  registry.add<Mixer, CnnBranch, CnnBranchConfig>(
      "cnn_branch",
      {.spec = "arch.cnn_branch",
       .summary = "attention and a convolution in parallel, each on a part of the channels or both on all",
       .source = "TB 6.3.1(2); Wu et al. 2020 (Lite Transformer)",
       .samples = {
           "{first: convolution, convolution_channels: 3, attention: {type: attention, num_attention_heads: 1}, "
           "convolution: {type: convolution, kernel_size: 3}}",
           "{convolution_channels: 0, attention: {type: attention, num_attention_heads: 1}}",
           "{attention: {type: attention, num_attention_heads: 1}, convolution: {type: convolution, kernel_size: 3}}",
           "{merge: sum, attention: {type: attention, num_attention_heads: 1}, convolution: {type: "
           "light_convolution, kernel_size: 3}}"}});
}

}  // namespace lithe
