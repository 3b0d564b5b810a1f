#include "lithe/train/rounded_training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/compress/quantize.h"
#include "lithe/model/packable.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/weight_product.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

// With steps that are searched: nothing else is trained.
void read_rounded(Model& model, const RoundedTraining& config) {
  Parameters none;
  const RoundedWeights rounded(model, config, none);
}

ModelConfig rounded_config_of(const std::string& more = "") {
  return kit::model_config(
      "{vocab_size: 37, hidden_size: 24, num_hidden_layers: 2, max_position_embeddings: 16, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 40}}",
      more);
}

// oracle: hpc.qat
TEST(RoundedTraining, ReadsTheVeryNumbersThatQuantizeWrites) {
  const kit::Scratch scratch;
  for (const std::string weights : {"int8", "int4", "int2", "ternary"}) {
    Model model(rounded_config_of("tie_word_embeddings: false"), {.trainable = true});
    kit::randomise(model.parameters(), 3);
    read_rounded(model, {.weights = weights});
    std::vector<QuantizedLayer> layers;
    const auto integers =
        quantize_model(model, {.integers = weights}, scratch.path() / (weights + ".safetensors"), layers);
    int matrices = 0;
    for (const Parameter& p : integers->parameters().all()) {
      const Tensor read = model.parameters().find(p.name)->var().value();
      const kernels::PackedMatrix* m = p.master.packed();
      if (!m) {
        EXPECT_EQ(kit::bit_difference(read, p.master.value()), "") << p.name;
        continue;
      }
      ++matrices;
      const Tensor want = empty_like(read);
      for (int64_t n = 0; n < m->outputs; ++n)
        for (int64_t k = 0; k < m->inputs; ++k)
          want.data<float>()[m->by_rows ? n * m->inputs + k : k * m->outputs + n] =
              quantized_scale(*m, n, k) * float(quantized_value(*m, n, k));
      EXPECT_EQ(kit::bit_difference(read, want), "") << weights << " " << p.name;
    }
    EXPECT_EQ(matrices, 2 + 2 * 6) << weights;
    // With rows rounded, too, the forward pass is that of the integers, up to the rounding of sums.
    Model rounded(model.config(), {.trainable = true});
    kit::copy_values(rounded.parameters(), model.parameters());
    read_rounded(rounded, {.weights = weights, .activation_bits = 8});
    const kit::Batch batch = kit::random_batch({7, 9}, model.config(), 5);
    const Tensor a = kit::logits(rounded, batch.ids, batch.sequences).value(),
                 b = kit::logits(*integers, batch.ids, batch.sequences).value(),
                 plain = kit::logits(model, batch.ids, batch.sequences).value();
    EXPECT_LT(kit::largest_difference(a, b), 2e-2 * (1 + kit::largest_difference(a, plain))) << weights;
  }
}

TEST(RoundedTraining, GradientsPassInsideTheClipRangeOnly) {
  for (const std::string weights : {"int8", "int4", "ternary"}) {
    Model model(rounded_config_of("tie_word_embeddings: false"), {.trainable = true});
    kit::randomise(model.parameters(), 3);
    read_rounded(model, {.weights = weights});
    Parameter& p = *model.parameters().find("layers.0.ffn.up.weight");  // [24, 40]: a group an output
    const Tensor w = p.master.value();
    Tape tape;
    const Var y = sum(mul(p.var(), Var(kit::normal(w.shape(), DType::f32, 9))));
    tape.backward(y);
    const Tensor given = kit::normal(w.shape(), DType::f32, 9), got = p.master.grad();
    kernels::PackedMatrix m{.outputs = 40, .inputs = 24, .by_rows = false, .name = "w"};
    const WeightIntegers as = weight_integers(weights, 32);
    m.format = as.format, m.group = as.group;
    const kernels::QuantizedTensors integers = round_matrix(w, m, as);
    int outside = 0;
    for (int64_t k = 0; k < 24; ++k)
      for (int64_t n = 0; n < 40; ++n) {
        const double step = value_at(integers.scales, n), v = value_at(w, k * 40 + n) / step;
        const bool inside = v >= as.least - 0.5 && v <= as.most + 0.5;
        outside += !inside;
        EXPECT_FLOAT_EQ(value_at(got, k * 40 + n), inside ? value_at(given, k * 40 + n) : 0) << weights << v;
      }
    if (weights == "int8") {
      EXPECT_EQ(outside, 0);
    } else if (weights == "ternary") {
      EXPECT_GT(outside, 0);
    }
  }
}

// d(s q(w / s)) / ds is q(v) - v inside the range, its end outside [Esser et al. 2020, Eq 3].
// oracle: hpc.qat
TEST(RoundedTraining, LearnedStepsBeginSearchedAndGetTheGradientOfTheirSize) {
  for (const std::string weights : {"int8", "int4", "int2", "ternary"}) {
    Model model(rounded_config_of("tie_word_embeddings: false"), {.trainable = true}),
        searched(model.config(), {.trainable = true});
    kit::randomise(model.parameters(), 3);
    kit::copy_values(searched.parameters(), model.parameters());
    read_rounded(searched, {.weights = weights});
    Parameters steps;
    RoundedWeights rounded(model, {.weights = weights, .steps = "learned"}, steps);
    rounded.begin();
    const std::string name = "layers.0.ffn.up.weight";  // [24, 40]: a group an output
    EXPECT_LE(kit::largest_difference(model.parameters().find(name)->var().value(),
                                      searched.parameters().find(name)->var().value()),
              1e-2)
        << weights;
    // Smaller steps clip more.
    Parameter& log_step = *steps.find("rounding." + name + ".log_step");
    for (int64_t n = 0; n < 40; ++n) set_value(log_step.master.value(), n, value_at(log_step.master.value(), n) - 0.04);
    rounded.refresh();
    const Tensor w = model.parameters().find(name)->master.value(), dy = kit::normal(w.shape(), DType::f32, 9);
    Tape tape;
    tape.backward(sum(mul(model.parameters().find(name)->var(), Var(dy))));
    const Tensor read = model.parameters().find(name)->var().value();
    const WeightIntegers as = weight_integers(weights, 32);
    const int64_t width = weights == "int8" ? 24 : 32;
    double largest = 0;
    int outside = 0;
    for (int64_t n = 0; n < 40; ++n) {
      double step = value_at(steps.find("rounding." + name + ".sign")->master.value(), n) *
                    std::exp(10 * value_at(log_step.master.value(), n));
      if (weights != "int8") step = double(float(bf16(float(step))));
      double want = 0;
      for (int64_t k = 0; k < 24; ++k) {
        const double v = value_at(w, k * 40 + n) / step,
                     q = std::clamp(std::round(v), double(as.least), double(as.most));
        EXPECT_NEAR(value_at(read, k * 40 + n), step * q, 1e-5) << weights << v;
        const bool inside = std::round(v) == q;
        outside += !inside;
        want += value_at(dy, k * 40 + n) * (inside ? q - v : q);
      }
      want *= 10 * step / std::sqrt(double(width * as.most));
      largest = std::max(largest, std::abs(want));
      EXPECT_NEAR(value_at(log_step.master.grad(), n), want, 2e-3) << weights << n;
    }
    EXPECT_GT(largest, 1e-2);
    EXPECT_GT(outside, 0) << weights;
    EXPECT_FALSE(steps.find("rounding." + name + ".sign")->master.needs_grad());
  }
}

TEST(RoundedTraining, QuantizeTakesTheStepsThatWereLearned) {
  const kit::Scratch scratch;
  for (const std::string weights : {"int8", "int4", "ternary"}) {
    Model model(rounded_config_of("tie_word_embeddings: false"), {.trainable = true});
    kit::randomise(model.parameters(), 3);
    Parameters steps;
    RoundedWeights rounded(model, {.weights = weights, .steps = "learned"}, steps);
    rounded.begin();
    for (Parameter& p : steps.all())
      for (int64_t i = 0; p.master.needs_grad() && i < p.master.value().numel(); ++i)
        set_value(p.master.value(), i, value_at(p.master.value(), i) - 0.02 - 0.001 * double(i % 7));
    rounded.refresh();
    rounded.save(scratch.path() / "model.safetensors");
    Model saved(model.config(), {});
    load_weights(saved, scratch.path() / "model.safetensors");
    EXPECT_EQ(kit::bit_difference(saved.parameters().find("head.weight")->master.value(),
                                  model.parameters().find("head.weight")->var().value()),
              "")
        << weights;
    std::vector<QuantizedLayer> layers;
    const auto integers = quantize_model(
        weights == "int8" ? saved : model,
        {.integers = weights, .steps = RoundedWeights::learned_steps(scratch.path() / "model.safetensors")},
        scratch.path() / "integers.safetensors", layers);
    for (const Parameter& p : integers->parameters().all())
      if (p.master.packed()) {
        EXPECT_EQ(kit::bit_difference(p.numbers(), model.parameters().find(p.name)->var().value()), "")
            << weights << p.name;
      }
  }
  EXPECT_NE(kit::error_of([&] {
              RoundedWeights::learned_steps(scratch.path() / "other" / "model.safetensors");
            }).find("rounding.safetensors' is missing"),
            std::string::npos);
}

TEST(RoundedTraining, RowsAreRoundedAsIntegerProductsRoundThem) {
  const Tensor x = kit::normal({5, 24}, DType::f32, 1), w = kit::normal({24, 8}, DType::f32, 2);
  const auto most = [&](int bits) {
    const Var rounds = Var(w).with_rounded_inputs(bits);
    const Tensor read = round_rows(Var(x), bits).value();
    EXPECT_EQ(kit::bit_difference(linear(Var(x), rounds).value(), linear(Var(read), Var(w)).value()), "");
    double worst = 0;
    for (int64_t n = 0; n < 5; ++n) {
      double largest = 0;
      for (int64_t c = 0; c < 24; ++c) largest = std::max(largest, std::abs(value_at(x, n * 24 + c)));
      const double step = largest / double((1 << (bits - 1)) - 1);
      for (int64_t c = 0; c < 24; ++c) {
        const double v = value_at(read, n * 24 + c);
        EXPECT_NEAR(v / step, std::round(v / step), 1e-4);
        worst = std::max(worst, std::abs(v - value_at(x, n * 24 + c)) / step);
      }
    }
    return worst;
  };
  for (const int bits : {8, 4, 2}) EXPECT_LE(most(bits), 0.5 + 1e-4) << bits;
}

// y = x W with numbers that three integers do not have: to choose them for the error of y is better than to round.
TEST(RoundedTraining, LearnsARegressionBetterThanRoundingAfterwards) {
  const Tensor x = kit::normal({256, 32}, DType::f32, 1), target = kit::normal({32, 4}, DType::f32, 2);
  for (int64_t n = 0; n < 256; ++n)  // rows whose channels go together, so that errors of one make up for another's
    for (int64_t c = 1; c < 32; ++c)
      set_value(x, n * 32 + c, 0.7 * value_at(x, n * 32 + c - 1) + 0.5 * value_at(x, n * 32 + c));
  const Tensor y = linear(Var(x), Var(target)).value();
  kernels::PackedMatrix m{.outputs = 4, .inputs = 32, .by_rows = false, .name = "w"};
  const WeightIntegers as = weight_integers("ternary", 32);
  m.format = as.format, m.group = as.group;
  const auto loss_of = [&](const Tensor& w, Tensor* gradient) {
    const Tensor read = empty_like(w);
    write_numbers(round_matrix(w, m, as), m, read);
    Tape tape;
    const Var leaf = Var::leaf(read);
    const Var d = add(linear(Var(x), leaf), Var(y), 1, -1), loss = scale(sum(mul(d, d)), 1 / 256.);
    tape.backward(loss);
    if (gradient) *gradient = leaf.grad();
    return value_at(loss.value(), 0);
  };
  const double rounded = loss_of(target, nullptr);
  Tensor w = clone(target);
  double best = rounded;
  for (int step = 0; step < 300; ++step) {
    Tensor gradient;
    best = std::min(best, loss_of(w, &gradient));
    for (int64_t i = 0; i < w.numel(); ++i) set_value(w, i, value_at(w, i) - 0.01 * value_at(gradient, i));
  }
  EXPECT_LT(best, 0.8 * rounded);
}

// The rounded copy of an embedding is bf16 where rows are, and its gradient the one of f32 but for rounding.
TEST(RoundedTraining, LearnsInBf16AsInF32) {
  for (const std::string weights : {"int8", "int4", "int2", "ternary"}) {
    const auto gradient = [&](DType compute) {
      Model model(rounded_config_of("tie_word_embeddings: false"), {.compute = compute, .trainable = true});
      kit::randomise(model.parameters(), 3);
      read_rounded(model, {.weights = weights});
      const kit::Batch batch = kit::random_batch({7, 9}, model.config(), 5);
      Tape tape;
      tape.backward(kit::loss(model, batch, kit::labels_for(model, batch), 0, 1));
      return model.parameters().find("embedding.weight")->master.grad();
    };
    const Tensor wide = gradient(DType::f32), narrow = gradient(DType::bf16);
    EXPECT_EQ(narrow.dtype(), DType::f32);
    double largest = 0;
    for (int64_t i = 0; i < wide.numel(); ++i) largest = std::max(largest, std::abs(value_at(wide, i)));
    EXPECT_LT(kit::largest_difference(narrow, wide), 0.1 * largest) << weights;
  }
}

TEST(RoundedTraining, NoneIsTheModelAsItIs) {
  Model model(rounded_config_of(), {.trainable = true});
  read_rounded(model, {});
  for (const Parameter& p : model.parameters().all()) EXPECT_EQ(p.view, nullptr);
  EXPECT_NE(kit::error_of([&] {
              read_rounded(model, {.weights = "int8", .keep = {"nothing.*"}});
            }).find("rounding.keep names 'nothing.*'"),
            std::string::npos);
  EXPECT_NE(kit::error_of([&] { read_rounded(model, {.weights = "int8", .keep = {"*"}}); }).find("leaves no matrix"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
