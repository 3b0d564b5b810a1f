#include "lithe/compress/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lithe/base/json.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/ops/weight_product.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

using kernels::PackedFormat;

ModelConfig config_of(const std::string& more = "") {
  return kit::model_config(
      "{vocab_size: 37, hidden_size: 24, num_hidden_layers: 2, max_position_embeddings: 16, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 40}}",
      more);
}

// A file whose tensors can be damaged before it is written.
struct QuantizedFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "lithe"}};
  std::set<std::string> by_rows;

  void add(const kernels::PackedMatrix& m, const kernels::QuantizedTensors& parts) {
    tensors[cat(m.name, ".", name_of(m.format))] = parts.values;
    tensors[m.name + ".scales"] = parts.scales;
    if (m.by_rows) by_rows.insert(m.name);
  }
  void write(const Path& file) {
    metadata["packed_by_rows"] = dump(Json(by_rows));
    write_safetensors(file, tensors, metadata);
  }
};

class Quantize : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path file_ = scratch_.path() / "model.safetensors";
  std::vector<QuantizedLayer> layers_;

  std::unique_ptr<Model> quantised(const Model& model, const QuantizeOptions& options) {
    layers_.clear();
    return quantize_model(model, options, file_, layers_);
  }
};

Model random_model(const ModelConfig& config, DType dtype = DType::f32) {
  Model model(config, {.dtype = dtype, .compute = dtype});
  kit::randomise(model.parameters(), 3);
  return model;
}

Tensor logits_of(const Model& model, const kit::Batch& batch) {
  const NoGrad no_grad;
  return kit::logits(model, batch.ids, batch.sequences).value();
}

// Every matrix that products or look-ups read; what is read otherwise stays numbers.
TEST(PackableMatrices, AreFoundByOnePassOverTheModel) {
  const auto tied = packable_matrices(config_of());
  EXPECT_EQ(tied.size(), 1u + 2 * 6);
  EXPECT_TRUE(tied.at("embedding.weight").by_rows);
  EXPECT_FALSE(tied.at("layers.1.ffn.down.weight").by_rows);
  const auto untied = packable_matrices(config_of("tie_word_embeddings: false, position: learned"));
  EXPECT_FALSE(untied.at("head.weight").by_rows);
  EXPECT_TRUE(untied.at("head.weight").product);
  EXPECT_TRUE(untied.at("embedding.weight").by_rows);
  EXPECT_FALSE(untied.at("embedding.weight").product);
  EXPECT_FALSE(untied.count("position.weight"));
  const auto mixed = packable_matrices(kit::model_config(
      "{vocab_size: 37, hidden_size: 24, num_hidden_layers: 1, max_position_embeddings: 16, mixer: linear}"));
  EXPECT_FALSE(mixed.count("layers.0.mixer.weight"));
  EXPECT_TRUE(mixed.count("layers.0.ffn.down.weight"));
}

// What no text reads: tokens of other kinds, also an encoder's, and a memory that a short text never asks.
TEST(PackableMatrices, TheTrialReadsModalitiesAndKeepsWhatItNeverRead) {
  const std::string image = "modalities: {image: {type: patches, height: 8, position: learned, modality_row: true}}";
  const auto pictures = packable_matrices(
      config_of("architecture: encoder, head: classify, num_labels: 2, tie_word_embeddings: false, " + image));
  EXPECT_TRUE(pictures.at("modalities.image.projection.weight").product);
  EXPECT_FALSE(pictures.count("modalities.image.position.weight"));
  EXPECT_FALSE(pictures.count("modalities.image.modality"));
  const auto sounds = packable_matrices(config_of(
      "architecture: encoder_decoder, tie_word_embeddings: false, encoder: {modalities: {audio: {type: features, "
      "num_features: 5}}}"));
  EXPECT_TRUE(sounds.at("encoder.modalities.audio.projection.weight").product);
  EXPECT_FALSE(sounds.count("encoder.modalities.audio.special"));
  const auto memory = packable_matrices(
      config_of("mixer: {type: memory_attention, num_attention_heads: 2, memory: {type: continuous, basis: 3, refit: "
                "4, reading: gaussian}}"));
  EXPECT_TRUE(memory.at("layers.0.mixer.output.weight").product);
  EXPECT_FALSE(memory.count("layers.0.mixer.memory.mean.weight"));
}

// Experts are rounded like other matrices, and a decoding step reads those of the chosen ones alone.
// oracle: moe.topk
TEST_F(Quantize, DecodingReadsTheChosenExpertsAlone) {
  const Model model =
      random_model(config_of("ffn: {type: moe, num_experts: 4, num_experts_per_tok: 1, "
                             "norm_topk_prob: false, moe_intermediate_size: 16}"));
  for (const PackedFormat format : {PackedFormat::int8, PackedFormat::int4}) {
    const auto integers = quantised(model, {.format = format, .keep = {}});
    const NoGrad no_grad;
    const auto state = integers->make_state(1, 8);
    std::set<std::string> read, ever;
    const ProductObserver observer([&](const Tensor&, const Var& w, const Tensor&, const Tensor&) {
      if (w.packed() && w.packed()->name.find(".experts.") != std::string::npos) read.insert(w.packed()->name);
    });
    const kit::Batch batch = kit::random_batch({8}, 37, 4);
    for (int64_t t = 0; t < 8; ++t) {
      read.clear();
      kit::forward(*integers, batch.ids.slice(t, t + 1), integers->continue_sequences(*state, {1}), state.get());
      EXPECT_EQ(read.size(), 2u * 2) << t;  // two layers, up and down of one expert each
      ever.insert(read.begin(), read.end());
    }
    EXPECT_GT(ever.size(), 4u);
  }
}

// Against the model whose numbers are the integers' values, in f64. What is left is the rounding of the rows: by at
// most max|x| / 254 an element, and max|x| <= sqrt(D) rms(x), as if each weight moved by sqrt(D) / 254 of itself.
TEST_F(Quantize, PredictsLikeItsIntegersAsNumbers) {
  const ModelConfig config = config_of();
  const Model model = random_model(config);
  const kit::Batch batch = kit::random_batch({5, 9, 1}, 37, 2);
  for (const auto& [format, dtype] : {std::pair{PackedFormat::int8, DType::f32},
                                      {PackedFormat::int4, DType::f32},
                                      {PackedFormat::int8, DType::bf16}}) {
    const Model source = random_model(config, dtype);
    const auto integers = quantised(source, {.format = format});
    const auto run = [&](double relative, uint64_t seed) {
      Model wide(config, {.dtype = DType::f64, .compute = DType::f64});
      for (Parameter& p : wide.parameters().all()) {
        const Var& from = integers->parameters().find(p.name)->master;
        const kernels::PackedMatrix* q = from.packed();
        for (int64_t i = 0; i < p.master.value().numel(); ++i) {
          const int64_t row = i / p.master.cols(), column = i % p.master.cols();
          const int64_t n = q && q->by_rows ? row : column, k = q && q->by_rows ? column : row;
          set_value(p.master.value(), i,
                    q ? double(quantized_scale(*q, n, k)) * quantized_value(*q, n, k) : value_at(from.value(), i));
        }
      }
      if (relative > 0) kit::jitter(wide.parameters(), relative, seed);
      return kit::Results{{"logits", kit::values(logits_of(wide, batch))}};
    };
    const double relative = std::sqrt(40.0) / 254 + kit::rounding(dtype, 40);
    const kit::Bounded bound = kit::rounding_bound(run, relative);
    EXPECT_EQ(kit::compare({{"logits", kit::values(logits_of(*integers, batch))}}, bound), "");
  }
}

TEST_F(Quantize, FilesLoadToTheSameBits) {
  for (const bool tied : {true, false})
    for (const auto format : {PackedFormat::int8, PackedFormat::int4}) {
      const ModelConfig config = config_of(cat("tie_word_embeddings: ", tied ? "true" : "false"));
      const Model model = random_model(config);
      const auto made = quantised(model, {.format = format, .group_size = 64, .keep = {"layers.0.*"}});
      const std::set<std::string> integers = integer_weights(file_);
      EXPECT_EQ(integers.size(), size_t(6 + 1 + !tied));
      Model loaded(config, {.seed = 9, .integers = &integers});
      load_weights(loaded, file_);
      const kit::Batch batch = kit::random_batch({7, 3}, 37, 2);
      EXPECT_EQ(kit::bit_difference(logits_of(loaded, batch), logits_of(*made, batch)), "");
      for (const Parameter& p : loaded.parameters().all())
        EXPECT_EQ(bool(p.master.packed()), integers.count(p.name) > 0);
      for (const QuantizedLayer& layer : layers_) {
        EXPECT_EQ(layer.format, integers.count(layer.name) ? name_of(format) : "kept") << layer.name;
        EXPECT_EQ(layer.weight_error > 0, integers.count(layer.name) > 0);
      }
    }
}

// A sequence has the same bits whatever it is batched with, and decoding agrees with the whole within the rounding of
// the rows' sums (the integers themselves are exact).
TEST_F(Quantize, SequencesDoNotDependOnTheirBatch) {
  const Model model = random_model(config_of());
  const auto integers = quantised(model, {.format = PackedFormat::int4});
  const kit::Batch batch = kit::random_batch({6, 11, 2}, 37, 5);
  const Tensor all = logits_of(*integers, batch);
  int64_t at = 0;
  for (int64_t b = 0; b < 3; ++b) {
    const kit::Batch one = kit::alone(batch, b);
    const int64_t rows = one.ids.numel();
    EXPECT_EQ(kit::bit_difference(logits_of(*integers, one), clone(all.slice(at, at + rows))), "");
    at += rows;
  }
}

TEST_F(Quantize, MeasuresWhatChanged) {
  const Model model = random_model(config_of());
  const TokenStore text = TokenStore::from_documents({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 2, 1}},
                                                     {.vocab_size = 37, .end_of_text = 0});
  const BatchOrder windows(text, 8, 8, 0, false);
  std::vector<double> kl;
  for (const auto format : {PackedFormat::int8, PackedFormat::int4}) {
    const auto integers = quantised(model, {.format = format});
    const PredictionChange same = compare_predictions(model, model, windows, 100, layers_);
    EXPECT_EQ(same.tokens, 15);
    EXPECT_NEAR(same.kl, 0, 1e-12);
    EXPECT_EQ(same.same_choice, 1);
    const PredictionChange change = compare_predictions(model, *integers, windows, 10, layers_);
    EXPECT_EQ(change.tokens, 10);
    EXPECT_GT(change.kl, 0);
    kl.push_back(change.kl);
    for (const QuantizedLayer& layer : layers_) {
      ASSERT_TRUE(layer.output_error.has_value()) << layer.name;
      EXPECT_GT(*layer.output_error, 0);
      EXPECT_LT(*layer.output_error, 0.5);
    }
  }
  EXPECT_LT(kl[0], kl[1]);
}

TEST_F(Quantize, IntegersAreNotTrainedOrReadAsNumbers) {
  const ModelConfig config = config_of();
  const Model model = random_model(config);
  const auto integers = quantised(model, {});
  Model trainable(config, {.trainable = true});
  EXPECT_NE(kit::error_of([&] { load_weights(trainable, file_); }).find("cannot be trained"), std::string::npos);
  EXPECT_NE(kit::error_of([&] { save_weights(*integers, file_); }).find("needs its numbers"), std::string::npos);
  EXPECT_NE(
      kit::error_of([&] { quantised(model, {.keep = {"nothing.*"}}); }).find("--keep 'nothing.*' names no parameter"),
      std::string::npos);
  EXPECT_NE(kit::error_of([&] { quantised(model, {.keep = {"*"}}); }).find("nothing is left to quantise"),
            std::string::npos);
}

// Whatever is cut, swapped or renamed in the file, loading says so, and never loads half of it.
TEST_F(Quantize, DamagedFilesAreRefused) {
  const ModelConfig config = config_of();
  const Model model = random_model(config);
  const auto refused = [&](const std::function<void(QuantizedFile&)>& damage, const std::string& words) {
    QuantizedFile out;
    kernels::PackedMatrix m{PackedFormat::int4, 24, 40, 32, false, "layers.1.ffn.down.weight", {}, {}};
    for (const Parameter& p : model.parameters().all())
      if (p.name != m.name) out.tensors[p.name] = p.master.value();
    out.add(m, round_matrix(const_cast<Model&>(model).parameters().find(m.name)->master.value(), m));
    damage(out);
    out.write(file_);
    const std::string error = kit::error_of([&] {
      const std::set<std::string> integers = integer_weights(file_);
      Model into(config, {.integers = &integers});
      load_weights(into, file_);
    });
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  const std::string values = "layers.1.ffn.down.weight.int4", scales = "layers.1.ffn.down.weight.scales";
  refused([](QuantizedFile&) {}, "no error");
  refused([&](QuantizedFile& f) { f.tensors[scales] = zeros({24, 3}, DType::bf16); }, "do not belong together");
  refused([&](QuantizedFile& f) { f.tensors[scales] = zeros({24, 2}, DType::f32); }, "do not belong together");
  refused([&](QuantizedFile& f) { f.tensors[values] = zeros({24, 32}, DType::i8); }, "do not belong together");
  refused([&](QuantizedFile& f) { f.tensors[values] = zeros({0, 32}, DType::u8); }, "do not belong together");
  refused([&](QuantizedFile& f) { set_value(f.tensors[scales], 3, std::nan("")); }, "is not finite");
  refused([&](QuantizedFile& f) { f.tensors.erase(scales); }, "has a tensor");
  refused([&](QuantizedFile& f) { f.by_rows.insert("layers.1.ffn.down.weight"); }, "the model needs");
  refused([&](QuantizedFile& f) { f.by_rows.insert("other"); }, "names 'other'");
  refused(
      [&](QuantizedFile& f) {
        f.tensors["layers.1.ffn.down.weight"] = zeros({40, 24}, DType::f32);
      },
      "as numbers and");
  refused(
      [&](QuantizedFile& f) {
        f.tensors[values] = zeros({24, 64}, DType::u8);
        f.tensors[scales] = zeros({24, 4}, DType::bf16);
      },
      "the model needs 24 of 40");
  refused(
      [&](QuantizedFile& f) {
        f.tensors["layers.0.ffn.down.weight.int8"] = zeros({24, 40}, DType::i8);
      },
      "has a tensor");
}

// The choice of bits is the best one of all that fit, where each matrix has the same ones.
TEST(ChooseBits, SpendsBytesWhereTheyChangeMost) {
  const std::vector<MatrixBits> matrices{
      {"a", {{"kept", 400, 0}, {"int8", 100, 0.01}, {"int4", 50, 0.5}}},
      {"b", {{"kept", 400, 0}, {"int8", 100, 0.02}, {"int4", 50, 0.1}}},
      {"c", {{"kept", 400, 0}, {"int8", 100, 0.03}, {"int4", 50, 0.02}}},  // by chance 4 bits change less than 8
  };
  using Bits = std::map<std::string, std::string>;
  EXPECT_EQ(choose_bits(matrices, 150), (Bits{{"a", "int4"}, {"b", "int4"}, {"c", "int4"}}));
  EXPECT_EQ(choose_bits(matrices, 200), (Bits{{"a", "int8"}, {"b", "int4"}, {"c", "int4"}}));
  EXPECT_EQ(choose_bits(matrices, 250), (Bits{{"a", "int8"}, {"b", "int8"}, {"c", "int4"}}));
  EXPECT_EQ(choose_bits(matrices, 1200), (Bits{{"a", "kept"}, {"b", "kept"}, {"c", "kept"}}));
  EXPECT_THROW(choose_bits(matrices, 149), Error);
}

// However few of the sums stand in memory together, and whoever asks in whatever order, they are the same; what no
// product reads has none. Files are the same, too.
TEST_F(Quantize, SumsOfInputsAreTheSameInGroups) {
  const Model model = random_model(config_of("position: learned"));
  const TokenStore text = TokenStore::from_documents({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {.vocab_size = 37});
  const BatchOrder batches(text, 8, 8, 0, false);
  const int64_t one = 24 * 24 * 8;
  const InputMoments all = input_moments(model, batches, 100, 1000 * one);
  for (const int64_t bytes : {int64_t(1), 3 * one}) {
    const InputMoments some = input_moments(model, batches, 100, bytes);
    for (const char* name : {"layers.1.ffn.down.weight", "layers.0.mixer.heads.q.weight",
                             "layers.1.mixer.output.weight", "embedding.weight", "layers.0.mixer.heads.q.weight"}) {
      ASSERT_TRUE(all(name).defined()) << name;
      EXPECT_EQ(kit::bit_difference(some(name), all(name)), "") << name << " of " << bytes;
    }
    EXPECT_FALSE(some("position.weight").defined());
    EXPECT_FALSE(some("layers.0.mixer_norm.weight").defined());
    std::string files[2];
    for (const InputMoments* moments : {&all, &some}) {
      layers_.clear();
      quantize_model(model, {.integers = "int4", .method = "gptq"}, file_, layers_, *moments);
      files[moments == &some] = read_file(file_);
    }
    EXPECT_EQ(files[0], files[1]) << bytes;
  }
}

TEST_F(Quantize, TheScanLeavesTheModelAsItWas) {
  Model model = random_model(config_of());
  const TokenStore text = TokenStore::from_documents({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {.vocab_size = 37});
  const BatchOrder batches(text, 8, 8, 0, false);
  std::map<std::string, Tensor> before;
  for (const Parameter& p : model.parameters().all()) before[p.name] = clone(p.numbers());
  const auto scan = bit_sensitivity(model, {.keep = {"layers.0.*"}}, {}, batches, 100);
  for (const Parameter& p : model.parameters().all())
    for (int64_t i = 0; i < p.numbers().numel(); ++i)
      ASSERT_EQ(value_at(p.numbers(), i), value_at(before[p.name], i)) << p.name;
  EXPECT_EQ(scan.size(), 1u + 6);
  for (const MatrixBits& m : scan) {
    ASSERT_EQ(m.choices.size(), 3u);
    EXPECT_LT(m.choices[1].change, m.choices[2].change) << m.name;
    EXPECT_GT(m.choices[2].change, 0) << m.name;
  }
}

}  // namespace
}  // namespace lithe
