// Low-rank adapters over frozen integer weights.
#include <gtest/gtest.h>

#include "lithe/compress/quantize.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/model/rounding.h"
#include "lithe/ops/linear.h"
#include "lithe/train/adapters.h"
#include "tests/ops/ops_kit.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

// Integer weights are constants; the gradient of the rows is that of the numbers that they stand for.
TEST(QuantizedLinear, RowsGetTheGradientOfTheirNumbers) {
  for (const bool four : {false, true})
    for (const bool by_rows : {false, true})
      for (const DType type : {DType::f32, DType::bf16}) {
        auto m = std::make_shared<kernels::PackedMatrix>();
        m->format = four ? kernels::PackedFormat::int4 : kernels::PackedFormat::int8;
        m->outputs = 45, m->inputs = 70, m->group = four ? 32 : 0, m->by_rows = by_rows, m->name = "w";
        const Tensor numbers = kit::normal(m->shape(), DType::f32, 1), stands_for = empty_like(numbers);
        const auto integers = round_matrix(numbers, *m);
        write_numbers(integers, *m, stands_for);
        kernels::pack(*m, integers);
        EXPECT_EQ(kit::bit_difference(kernels::unpacked(*m), stands_for), "") << four << by_rows;
        const Tensor x = kit::normal({7, 70}, type, 2), dy = kit::normal({7, 45}, type, 3);
        const auto gradient = [&](const Var& w) {
          return kit::differentiate([&](const Vars& in) { return linear(in[0], w, {}, by_rows); }, {x}, dy)
              .gradients[0];
        };
        EXPECT_EQ(kit::close(gradient(Var(m, type)), gradient(Var(convert(stands_for, type))), 16), "")
            << four << by_rows << type;
      }
}

// The rows that meet it are rounded as those of integer products are.
class WithRoundedRows final : public View {
 public:
  void refresh(const Tensor&) override {}
  Var read(const Var& master) const override { return master.with_rounded_inputs(8); }
  int64_t bytes() const override { return 0; }
};

struct AdaptedCase {
  std::string name, more;
};
void PrintTo(const AdaptedCase& c, std::ostream* out) { *out << c.name; }

class QuantizedAdapters : public testing::TestWithParam<AdaptedCase> {
 protected:
  const kit::Scratch scratch_;
  const ModelConfig config_ = kit::model_config(
      "{vocab_size: 37, hidden_size: 24, num_hidden_layers: 2, max_position_embeddings: 16, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 40}}",
      GetParam().more);

  IntegerWeights quantised(const std::string& integers) const {
    const Path file = scratch_.path() / (integers + ".safetensors");
    Model model(config_, {});
    kit::randomise(model.parameters(), 3);
    std::vector<QuantizedLayer> layers;
    quantize_model(model, {.integers = integers}, file, layers);
    return {file, integer_weights(file)};
  }

  // Every adapter's gradient, and the loss.
  std::map<std::string, Tensor> gradients(Model& model, double* loss) const {
    AdapterConfig config;
    config.type = "lora", config.rank = 3, config.alpha = 6, config.targets = {"*.weight"};
    Parameters parameters;
    Adapters adapters(model, config, parameters, 3);
    kit::randomise(parameters, 4, 0.1);
    const kit::Batch batch = kit::random_batch({7, 5}, model.config(), 5);
    const Tape tape;
    const Var value = kit::loss(model, batch, kit::labels_for(model, batch), 0, 1);
    *loss = value_at(value.value(), 0);
    const_cast<Tape&>(tape).backward(value);
    std::map<std::string, Tensor> out;
    for (const Parameter& p : parameters.all()) out[p.name] = clone(p.master.grad());
    return out;
  }
};

// The same adapters over the numbers that the integers stand for, with rows rounded alike.
TEST_P(QuantizedAdapters, LearnAsOverTheNumbersThatTheIntegersStandFor) {
  for (const std::string integers : {"int8", "int4"}) {
    const IntegerWeights weights = quantised(integers);
    ASSERT_FALSE(weights.names.empty());
    Model few(config_, {.trainable = true, .integers = &weights.names}), plain(config_, {.trainable = true});
    load_weights(few, weights.file);
    for (Parameter& p : plain.parameters().all()) {
      const Parameter& from = *few.parameters().find(p.name);
      p.assign(from.numbers());
      if (from.master.packed() && packable_matrices(config_).at(p.name).product)
        p.read_through(std::make_shared<WithRoundedRows>());
    }
    double loss = 0, want_loss = 0;
    const auto found = gradients(few, &loss), want = gradients(plain, &want_loss);
    EXPECT_NEAR(loss, want_loss, 2e-4 * std::abs(want_loss)) << integers;
    ASSERT_EQ(found.size(), want.size());
    for (const auto& [name, gradient] : found) {
      double largest = 0;
      for (int64_t i = 0; i < gradient.numel(); ++i) largest = std::max(largest, std::abs(value_at(want.at(name), i)));
      EXPECT_GT(largest, 0) << name;
      EXPECT_LE(kit::largest_difference(gradient, want.at(name)), 5e-3 * largest) << integers << " " << name;
    }
  }
}

TEST_P(QuantizedAdapters, BeginAsTheQuantisedModel) {
  for (const std::string integers : {"int8", "int4"}) {
    const IntegerWeights weights = quantised(integers);
    const Model plain = [&] {
      Model model(config_, {.integers = &weights.names});
      load_weights(model, weights.file);
      return model;
    }();
    Model model(config_, {.trainable = true, .integers = &weights.names});
    load_weights(model, weights.file);
    AdapterConfig config;
    config.type = "rslora", config.rank = 2, config.targets = {"*.weight"};
    Parameters parameters;
    const Adapters adapters(model, config, parameters, 3);
    const kit::Batch batch = kit::random_batch({7, 5}, config_, 5);
    const NoGrad no_grad;
    EXPECT_LE(kit::largest_difference(kit::logits(model, batch.ids, batch.sequences).value(),
                                      kit::logits(plain, batch.ids, batch.sequences).value()),
              1e-5)
        << integers;
  }
}

const AdaptedCase kAdaptedCases[] = {
    {"tied", ""},
    {"untied", "tie_word_embeddings: false"},
    {"gated", "ffn: {type: swiglu, intermediate_size: 40}, norm: rms, position: rotary"},
    {"experts", "ffn: {type: moe, num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 16}"},
    {"shared_keys", "mixer: {type: attention, num_attention_heads: 2, heads: mqa}"},
    {"selective", "mixer: {type: selective_ssm}"},
};

INSTANTIATE_TEST_SUITE_P(Models, QuantizedAdapters, testing::ValuesIn(kAdaptedCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lithe
