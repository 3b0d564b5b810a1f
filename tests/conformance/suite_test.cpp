// The suite's own test: parts that are wrong in one way each are found, by the check that is for it; a right one
// passes. They are registered here, after the list of real parts was read.
#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

enum class Fault {
  none,
  sees_next,
  crosses_sequences,
  no_state,
  no_truncation,
  swaps_on_reorder,
  more_bytes,
  grows,
  breaks_promise,
  forgets_when_saved
};

// The rows that each sequence had last.
class LastRows final : public State {
 public:
  LastRows(int64_t sequences, int64_t width, DType dtype, Device device, Fault fault) : fault(fault) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < sequences; ++b) rows.push_back(zeros({1, width}, dtype, device));
  }
  int64_t bytes() const override {
    int64_t total = 0;
    for (const Tensor& row : rows) total += row.bytes();
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override {
    const MemoryScope memory(MemoryClass::decode);
    std::vector<Tensor> out;
    for (int64_t i : from) out.push_back(clone(rows[size_t(fault == Fault::swaps_on_reorder ? 0 : i)]));
    rows = out;
  }
  bool truncates() const override { return fault == Fault::no_truncation || fault == Fault::breaks_promise; }
  NamedTensors save() const override {
    NamedTensors out;
    for (size_t b = 0; b < rows.size(); ++b)
      if (fault != Fault::forgets_when_saved) out[cat(b)] = rows[b];
    return out;
  }
  void restore(const NamedTensors& kept) override {
    for (size_t b = 0; b < rows.size(); ++b)
      if (fault != Fault::forgets_when_saved) restore_tensor(rows[b], kept, cat(b));
  }
  void truncate(int64_t, int64_t) override {
    if (fault != Fault::no_truncation) fail("previous", "the state has one row only and cannot go back");
  }
  std::vector<Tensor> rows;
  std::vector<Tensor> hoard;
  Fault fault;
};

// y_t = x_(t-1), 0 at the start of a sequence: a mixer with a constant state.
template <Fault kFault>
class Previous final : public Mixer {
 public:
  Previous(const Scope&, const NoOptions&, const Args& args) : width_(args.hidden_size) {}
  Var forward(const SubLayerInput& in) const override {
    const Var& x = in.x;
    const Sequences& sequences = in.sequences;
    auto* last = static_cast<LastRows*>(in.state);
    const Tensor rows = x.value();
    Tensor out = zeros(x.shape(), x.dtype(), x.device());
    std::vector<std::pair<int64_t, int64_t>> moves;  // from row, to row
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1);
      if (begin == end) continue;
      const int64_t first = kFault == Fault::crosses_sequences && !last && b > 0 ? begin : begin + 1;
      for (int64_t t = first; t < end; ++t) moves.push_back({t - 1, t});
      if (kFault == Fault::sees_next && begin + 1 < end) moves[moves.size() - 1] = {end - 1, end - 2};
      if (!last) continue;
      if (kFault != Fault::no_state) copy(out, begin, last->rows[size_t(b)], 0);
      copy(last->rows[size_t(b)], 0, rows, end - 1);
      if (kFault == Fault::grows) {
        const MemoryScope memory(MemoryClass::decode);
        last->hoard.push_back(empty({1 << 14}, DType::f32, x.device()));
      }
    }
    for (const auto& [from, to] : moves) copy(out, to, rows, from);
    return record("previous", {x}, out, [moves, x = x.ref()](const Tensor& dy, Grads& g) {
      Tensor dx = zeros(x->shape, x->dtype, x->device);
      for (const auto& [from, to] : moves) copy(dx, from, dy, to);
      g.give(x, dx);
    });
  }
  std::unique_ptr<State> make_state(const StateShape& shape) const override {
    return std::make_unique<LastRows>(shape.sequences, width_, shape.dtype, shape.device, kFault);
  }
  int64_t state_bytes(const std::vector<int64_t>& tokens, DType dtype) const override {
    return int64_t(tokens.size()) * size_of(dtype) * (kFault == Fault::more_bytes ? width_ - 1 : width_);
  }

 private:
  int64_t width_;
  static void copy(const Tensor& to, int64_t row, const Tensor& from, int64_t from_row) {
    if (!to.is_meta()) copy_into(to.slice(row, row + 1), from.slice(from_row, from_row + 1));
  }
};

enum class Slip {
  none,
  wrong_gradient,
  no_gradient,
  counts_rows,
  counts_calls,
  counts_channels,
  hides_an_axis,
  more_memory,
  other_when_fast
};

// y = w x with one number a column.
template <Slip kSlip>
class Scaled final : public Ffn {
 public:
  Scaled(const Scope& scope, const NoOptions&, const Args& args)
      : weight_(scope.parameter(
            "weight", {kSlip == Slip::hides_an_axis ? Axis(args.hidden_size) : Axis::hidden(args.hidden_size)},
            InitRole::ones)) {}
  Var forward(const SubLayerInput& in) const override {
    const Var& x = in.x;
    static int calls = 0;
    if constexpr (kSlip == Slip::wrong_gradient) {
      // The value is w x, the gradient that of w x + 1e-4 x.
      const Var y = add(row_affine(x, weight_->var(), {}), x, 1, 1e-4);
      const Var unseen = Var(scale(x, 1e-4).value());
      return add(y, unseen, 1, -1);
    }
    if constexpr (kSlip == Slip::no_gradient) return row_affine(x, Var(weight_->var().value()), {});
    if constexpr (kSlip == Slip::counts_rows)
      return scale(row_affine(x, weight_->var(), {}), 1 + 1e-3 * double(x.rows()));
    if constexpr (kSlip == Slip::counts_calls) return scale(row_affine(x, weight_->var(), {}), 1 + 1e-3 * ++calls);
    if constexpr (kSlip == Slip::counts_channels) return scale(row_affine(x, weight_->var(), {}), 1 / double(x.cols()));
    if constexpr (kSlip == Slip::other_when_fast)
      return scale(row_affine(x, weight_->var(), {}), kernels::reference_only() ? 1 : 1.001);
    if constexpr (kSlip == Slip::more_memory) {
      Tensor hidden;
      if (!x.value().is_meta()) hidden = empty({1 << 22}, DType::f32);
      return row_affine(x, weight_->var(), {});
    }
    return row_affine(x, weight_->var(), {});
  }

 private:
  Parameter* weight_;
};

class Suite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Registry& registry = Registry::instance();
    const PartInfo info{.summary = "for tests of the suite", .bidirectional = false};
    registry.add<Mixer, Previous<Fault::none>, NoOptions>("previous", info);
    registry.add<Mixer, Previous<Fault::sees_next>, NoOptions>("sees_next", info);
    registry.add<Mixer, Previous<Fault::crosses_sequences>, NoOptions>("crosses_sequences", info);
    registry.add<Mixer, Previous<Fault::no_state>, NoOptions>("no_state", info);
    registry.add<Mixer, Previous<Fault::no_truncation>, NoOptions>("no_truncation", info);
    registry.add<Mixer, Previous<Fault::swaps_on_reorder>, NoOptions>("swaps_on_reorder", info);
    registry.add<Mixer, Previous<Fault::more_bytes>, NoOptions>("more_bytes", info);
    registry.add<Mixer, Previous<Fault::grows>, NoOptions>("grows", info);
    registry.add<Mixer, Previous<Fault::breaks_promise>, NoOptions>("breaks_promise", info);
    registry.add<Mixer, Previous<Fault::forgets_when_saved>, NoOptions>("forgets_when_saved", info);
    registry.add<Ffn, Scaled<Slip::none>, NoOptions>("scaled", info);
    registry.add<Ffn, Scaled<Slip::wrong_gradient>, NoOptions>("wrong_gradient", info);
    registry.add<Ffn, Scaled<Slip::no_gradient>, NoOptions>("no_gradient", info);
    registry.add<Ffn, Scaled<Slip::counts_rows>, NoOptions>("counts_rows", info);
    registry.add<Ffn, Scaled<Slip::counts_calls>, NoOptions>("counts_calls", info);
    registry.add<Ffn, Scaled<Slip::counts_channels>, NoOptions>("counts_channels", info);
    registry.add<Ffn, Scaled<Slip::hides_an_axis>, NoOptions>("hides_an_axis", info);
    registry.add<Ffn, Scaled<Slip::more_memory>, NoOptions>("more_memory", info);
    registry.add<Ffn, Scaled<Slip::other_when_fast>, NoOptions>("other_when_fast", info);
  }
  // Every check but those that `slot` does not have, by name.
  static std::vector<std::string> failed(const std::string& slot, const std::string& name) {
    const PartCase c{slot, name, "odd"};
    const std::map<std::string, std::string> found{{"gradients alone", check_gradients_alone(c)},
                                                   {"gradients in model", check_gradients_in_model(c)},
                                                   {"causality", check_causality(c)},
                                                   {"batch independence", check_batch_independence(c)},
                                                   {"decoding", check_decoding(c, DType::f32)},
                                                   {"decoding together", check_decoding_together(c, DType::f32)},
                                                   {"packed", check_packed(c, DType::f32)},
                                                   {"reordering", check_reordering(c)},
                                                   {"truncation", check_truncation(c)},
                                                   {"saved states", check_saved_states(c)},
                                                   {"states under a tape", check_states_on_tape(c)},
                                                   {"slices", check_slices({slot, name, ""})},
                                                   {"state bytes", check_state_bytes(c)},
                                                   {"meta run", check_meta_run(c)},
                                                   {"files", check_files(c)},
                                                   {"options", check_options(c)},
                                                   {"determinism", check_determinism(c)},
                                                   {"kernels", check_kernels(c, DType::f32)}};
    std::vector<std::string> out;
    for (const auto& [check, why] : found)
      if (!why.empty()) out.push_back(check);
    return out;
  }
  using Names = std::vector<std::string>;
};

TEST_F(Suite, RightPartsPass) {
  EXPECT_EQ(failed("mixer", "previous"), Names{});
  EXPECT_EQ(failed("ffn", "scaled"), Names{});
}

TEST_F(Suite, MixersThatSeeTheFutureOrOtherSequencesAreFound) {
  const Names future = failed("mixer", "sees_next");
  EXPECT_NE(std::find(future.begin(), future.end(), "causality"), future.end());
  const Names crossing = failed("mixer", "crosses_sequences");
  EXPECT_EQ(crossing, Names{"batch independence"});
}

TEST_F(Suite, WrongStatesAreFound) {
  EXPECT_EQ(failed("mixer", "no_state"), (Names{"decoding", "decoding together", "reordering"}));
  EXPECT_EQ(failed("mixer", "no_truncation"), Names{"truncation"});
  EXPECT_EQ(failed("mixer", "swaps_on_reorder"), Names{"reordering"});
  EXPECT_EQ(failed("mixer", "more_bytes"), Names{"state bytes"});
  EXPECT_EQ(failed("mixer", "grows"), Names{"state bytes"});
  EXPECT_EQ(failed("mixer", "breaks_promise"), Names{"truncation"});
  EXPECT_EQ(failed("mixer", "forgets_when_saved"), Names{"saved states"});
}

TEST_F(Suite, WrongGradientsAreFound) {
  EXPECT_EQ(failed("ffn", "wrong_gradient"), (Names{"gradients alone", "gradients in model", "states under a tape"}));
  EXPECT_NE(check_no_idle_parameters({"ffn", "no_gradient", ""}), "");
  EXPECT_EQ(check_no_idle_parameters({"ffn", "scaled", ""}), "");
  const Names none = failed("ffn", "no_gradient");
  EXPECT_NE(std::find(none.begin(), none.end(), "gradients alone"), none.end());
  EXPECT_NE(std::find(none.begin(), none.end(), "gradients in model"), none.end());
}

// max(0, x) at 5e-6: differences by 1e-5 see both sides of the kink, which is no fault of the gradient.
TEST_F(Suite, SlopesBesideAKinkAreRight) {
  Parameters parameters;
  Parameter* x = parameters.add({.name = "x",
                                 .master = Var(tensor_of({1}, std::vector{5e-6})),
                                 .axes = {1},
                                 .role = InitRole::matrix,
                                 .decay = false});
  const auto relu = [&] { return std::max(0.0, value_at(x->master.value(), 0)); };
  const auto claimed = [](double slope) { return [slope](const Parameter&) { return std::vector{slope}; }; };
  EXPECT_EQ(check_slopes(parameters, relu, claimed(1)), "");
  EXPECT_NE(check_slopes(parameters, relu, claimed(0.96)), "");
  EXPECT_EQ(value_at(x->master.value(), 0), 5e-6);
}

TEST_F(Suite, PartsThatDependOnMoreThanTheirInputsAreFound) {
  const Names rows = failed("ffn", "counts_rows");
  EXPECT_NE(std::find(rows.begin(), rows.end(), "batch independence"), rows.end());
  const Names calls = failed("ffn", "counts_calls");
  EXPECT_NE(std::find(calls.begin(), calls.end(), "determinism"), calls.end());
  EXPECT_EQ(failed("ffn", "counts_channels"), Names{"slices"});
  EXPECT_EQ(failed("ffn", "hides_an_axis"), Names{"slices"});
  EXPECT_EQ(failed("ffn", "more_memory"), Names{"meta run"});
  EXPECT_EQ(failed("ffn", "other_when_fast"), Names{"kernels"});
}

TEST_F(Suite, UnknownSlotsAreNamed) {
  try {
    build_alone({"no_such_slot", "part", ""});
    FAIL() << "built";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("slot 'no_such_slot'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lithe::conformance
