// The ViT of transformers by its documented layout: a forward pass written out here reads the same tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/data/features.h"
#include "lithe/data/image.h"
#include "lithe/infer/load.h"
#include "lithe/interchange/export.h"
#include "lithe/interchange/import.h"
#include "lithe/model/safetensors.h"
#include "lithe/objective/device_batch.h"
#include "lithe/recipe/recipe.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr int64_t kHidden = 8, kHeads = 2, kInner = 12, kSide = 8, kPatch = 4, kCells = 4, kLabels = 3, kLayers = 2;

struct Vit {
  std::map<std::string, Tensor> tensors;

  Vit() {
    const auto add = [&](const std::string& name, const Shape& shape, double scale, double mean = 0) {
      std::vector<float> numbers;
      for (int64_t i = 0; i < shape.numel(); ++i)
        numbers.push_back(float(mean + scale * std::sin(double(i) * 0.7 + double(purpose_of(name) % 1000))));
      tensors[name] = tensor_of(shape, numbers);
    };
    const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
      add(name + ".weight", {out, in}, 0.5);
      add(name + ".bias", {out}, 0.2);
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {kHidden}, 0.3, 1);
      add(name + ".bias", {kHidden}, 0.2);
    };
    const std::string e = "vit.embeddings.";
    add(e + "cls_token", {1, 1, kHidden}, 0.5);
    add(e + "position_embeddings", {1, 1 + kCells, kHidden}, 0.5);
    add(e + "patch_embeddings.projection.weight", {kHidden, 3, kPatch, kPatch}, 0.3);
    add(e + "patch_embeddings.projection.bias", {kHidden}, 0.2);
    for (int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = cat("vit.encoder.layer.", i, ".");
      for (const char* name : {"query", "key", "value"})
        linear(layer + "attention.attention." + name, kHidden, kHidden);
      linear(layer + "attention.output.dense", kHidden, kHidden);
      linear(layer + "intermediate.dense", kHidden, kInner);
      linear(layer + "output.dense", kInner, kHidden);
      norm(layer + "layernorm_before");
      norm(layer + "layernorm_after");
    }
    norm("vit.layernorm");
    linear("classifier", kHidden, kLabels);
  }

  double at(const std::string& name, int64_t i) const { return value_at(tensors.at(name), i); }

  void write(const Path& directory) const {
    make_directory(directory);
    write_safetensors(directory / "model.safetensors", tensors, {{"format", "pt"}});
    write_file(directory / "config.json",
               R"({"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 8,
                   "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "hidden_act": "gelu",
                   "image_size": 8, "patch_size": 4, "num_channels": 3, "qkv_bias": true, "layer_norm_eps": 1e-12,
                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.02,
                   "encoder_stride": 16, "id2label": {"0": "cat", "1": "dog", "2": "boat"},
                   "label2id": {"cat": 0, "dog": 1, "boat": 2}, "torch_dtype": "float32"})");
    write_file(directory / "preprocessor_config.json",
               R"({"do_normalize": true, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.3]})");
  }
};

using Matrix = std::vector<std::vector<double>>;

Matrix linear_of(const Vit& vit, const std::string& name, const Matrix& x) {
  const int64_t out = vit.tensors.at(name + ".weight").dim(0), in = vit.tensors.at(name + ".weight").dim(1);
  Matrix y;
  for (const auto& row : x) {
    y.emplace_back();
    for (int64_t o = 0; o < out; ++o) {
      double sum = vit.at(name + ".bias", o);
      for (int64_t i = 0; i < in; ++i) sum += vit.at(name + ".weight", o * in + i) * row[size_t(i)];
      y.back().push_back(sum);
    }
  }
  return y;
}

Matrix norm_of(const Vit& vit, const std::string& name, Matrix x) {
  for (auto& row : x) {
    double mean = 0, variance = 0;
    for (const double v : row) mean += v / kHidden;
    for (const double v : row) variance += (v - mean) * (v - mean) / kHidden;
    for (size_t c = 0; c < row.size(); ++c)
      row[c] = (row[c] - mean) / std::sqrt(variance + 1e-12) * vit.at(name + ".weight", int64_t(c)) +
               vit.at(name + ".bias", int64_t(c));
  }
  return x;
}

void add_to(Matrix& x, const Matrix& y) {
  for (size_t r = 0; r < x.size(); ++r)
    for (size_t c = 0; c < x[r].size(); ++c) x[r][c] += y[r][c];
}

std::vector<double> logits_of(const Vit& vit, const Pixels& picture) {
  const std::string e = "vit.embeddings.";
  Matrix x(1 + kCells, std::vector<double>(kHidden));
  for (int64_t c = 0; c < kHidden; ++c) {
    x[0][size_t(c)] = vit.at(e + "cls_token", c);
    for (int64_t cell = 0; cell < kCells; ++cell) {
      double sum = vit.at(e + "patch_embeddings.projection.bias", c);
      for (int64_t k = 0; k < 3; ++k)
        for (int64_t i = 0; i < kPatch; ++i)
          for (int64_t j = 0; j < kPatch; ++j) {
            const int64_t row = cell / 2 * kPatch + i, column = cell % 2 * kPatch + j;
            sum += vit.at(e + "patch_embeddings.projection.weight", ((c * 3 + k) * kPatch + i) * kPatch + j) *
                   double(picture.values[size_t((row * kSide + column) * 3 + k)]);
          }
      x[size_t(1 + cell)][size_t(c)] = sum;
    }
  }
  for (size_t r = 0; r < x.size(); ++r)
    for (int64_t c = 0; c < kHidden; ++c)
      x[r][size_t(c)] += vit.at(e + "position_embeddings", int64_t(r) * kHidden + c);
  constexpr int64_t kWidth = kHidden / kHeads;
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string layer = cat("vit.encoder.layer.", l, ".");
    const Matrix in = norm_of(vit, layer + "layernorm_before", x);
    const Matrix q = linear_of(vit, layer + "attention.attention.query", in),
                 k = linear_of(vit, layer + "attention.attention.key", in),
                 v = linear_of(vit, layer + "attention.attention.value", in);
    Matrix context(x.size(), std::vector<double>(kHidden));
    for (size_t r = 0; r < x.size(); ++r)
      for (int64_t h = 0; h < kHeads; ++h) {
        std::vector<double> weights;
        double all = 0;
        for (size_t s = 0; s < x.size(); ++s) {
          double dot = 0;
          for (int64_t c = h * kWidth; c < (h + 1) * kWidth; ++c) dot += q[r][size_t(c)] * k[s][size_t(c)];
          weights.push_back(std::exp(dot / std::sqrt(double(kWidth))));
          all += weights.back();
        }
        for (size_t s = 0; s < x.size(); ++s)
          for (int64_t c = h * kWidth; c < (h + 1) * kWidth; ++c)
            context[r][size_t(c)] += weights[s] / all * v[s][size_t(c)];
      }
    add_to(x, linear_of(vit, layer + "attention.output.dense", context));
    Matrix up = linear_of(vit, layer + "intermediate.dense", norm_of(vit, layer + "layernorm_after", x));
    for (auto& row : up)
      for (double& value : row) value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
    add_to(x, linear_of(vit, layer + "output.dense", up));
  }
  return linear_of(vit, "classifier", {norm_of(vit, "vit.layernorm", x)[0]})[0];
}

TEST(VitInterchange, AnImportedModelGivesTheLogitsOfTheLayout) {
  const Vit vit;
  kit::Scratch scratch;
  vit.write(scratch / "model");
  const ImportReport report = import_model({scratch / "model", scratch / "run", {}});
  EXPECT_TRUE(report.dropped.empty());
  const LoadedModel loaded = load_model(scratch / "run", "", "f64");
  Pixels picture{kSide, kSide, 3, {}};
  for (int i = 0; i < kSide * kSide * 3; ++i) picture.values.push_back(float(std::cos(i * 0.31)));
  lithe::Batch batch{.tokens = {0}, .offsets = {0, 1}};
  add_feature_rows(batch, "image", kCells, kPatch * kPatch * 3, patchify(picture, kPatch));
  const NoGrad no_grad;
  Pass pass;
  const Tensor got = loaded.model->logits(loaded.model->run(to_device(batch, Device::cpu).input, pass)).value();
  const std::vector<double> want = logits_of(vit, picture);
  for (int64_t c = 0; c < kLabels; ++c)
    EXPECT_NEAR(value_at(got, c), want[size_t(c)], 1e-6 * std::abs(want[size_t(c)]) + 1e-7);
  const Recipe recipe = recipe_of_run(scratch / "run");
  EXPECT_EQ(recipe.data.image.mean, (std::vector<double>{0.5, 0.4, 0.3}));
  EXPECT_EQ(recipe.data.image.height, kSide);
  EXPECT_EQ(recipe.train.objective.type, "task");
  EXPECT_EQ(loaded.model->config().label_names, (std::vector<std::string>{"cat", "dog", "boat"}));
}

TEST(VitInterchange, AnExportedModelHasTheTensorsThatWereImported) {
  const Vit vit;
  kit::Scratch scratch;
  vit.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  EXPECT_EQ(export_model({scratch / "run", scratch / "out", ""}).model_type, "vit");
  const SafetensorsFile after(Path(scratch / "out") / "model.safetensors");
  EXPECT_EQ(after.entries().size(), vit.tensors.size());
  for (const auto& [name, before] : vit.tensors) {
    ASSERT_TRUE(after.entries().count(name)) << name;
    const Tensor now = empty(before.shape(), DType::f32);
    after.read(name, now);
    EXPECT_EQ(kit::bit_difference(before, now), "") << name;
  }
  EXPECT_NE(read_file(Path(scratch / "out") / "preprocessor_config.json").find("0.25"), std::string::npos);
  import_model({scratch / "out", scratch / "again", {}});
  EXPECT_EQ(read_file(Path(scratch / "run") / "model.safetensors"),
            read_file(Path(scratch / "again") / "model.safetensors"));
}

TEST(VitInterchange, TheDefaultPoolingOfAnEncoderIsItsFirstRow) {
  const Vit vit;
  kit::Scratch scratch;
  vit.write(scratch / "model");
  import_model({scratch / "model", scratch / "run", {}});
  const std::string cls = "\"pooling\": \"cls\"";
  std::string config = read_file(Path(scratch / "run") / "config.json");
  const size_t at = config.find(cls);
  ASSERT_NE(at, std::string::npos);
  write_file(Path(scratch / "run") / "config.json", config.replace(at, cls.size(), "\"pooling\": \"auto\""));
  EXPECT_EQ(export_model({scratch / "run", scratch / "out", ""}).model_type, "vit");
}

}  // namespace
}  // namespace lithe
