// Parity with PyTorch: the values of tests/golden/ were made by tools/oracles/make_golden.py, which tells their format
// and the formula of the weights. f64 must agree to rounding; f32 and bf16 within bounds from how roundings of their
// size move the f64 result.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/json.h"
#include "lithe/base/threads.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

uint32_t crc32(const std::string& text) {
  uint32_t crc = 0xffffffffu;
  for (unsigned char c : text) {
    crc ^= c;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// Sums in every model of tests/golden are at most this long: the widest of vocabulary, d_ff and rows.
constexpr int64_t kLongestSum = 44;

struct Golden {
  Json json;
  ModelConfig config;
  kit::Batch batch;
  double smoothing = 0;

  explicit Golden(const Path& path)
      : json(parse_json(read_file(path), path.string())),
        config(read_model_config(parse_json_node(json["config"].dump(), path.string()))) {
    smoothing = json["label_smoothing"];
    batch = {kit::ids_of(json["tokens"]), kit::ids_of(json["labels"]),
             Sequences(json["offsets"].get<std::vector<int64_t>>())};
  }

  void set_weights(Model& model) const {
    const Json& f = json["formula"];
    for (Parameter& p : model.parameters().all()) {
      const Tensor x = p.master.value();
      const double phase = double(f["name"]) * (crc32(p.name) % 1000);
      const bool norm = p.name.ends_with("norm.weight"), bias = p.name.ends_with(".bias");
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double s =
            std::sin(double(f["linear"]) * double(i) + double(f["square"]) * (double(i) * double(i)) + phase);
        set_value(x, i, norm ? 1 + double(f["norm"]) * s : double(f[bias ? "bias" : "matrix"]) * s);
      }
    }
    model.parameters().refresh_views();
  }

  std::unique_ptr<Model> model(DType dtype, DType compute) const {
    auto made = std::make_unique<Model>(config, ModelOptions{.dtype = dtype, .compute = compute, .trainable = true});
    set_weights(*made);
    return made;
  }
};

// The l2 norm, the sum and the first elements of every tensor, as the files have them. Rounding moves the norm by at
// most the norm of the elements' bounds, and the sum by about as much, as the errors are independent; adding n
// elements in double rounds too.
kit::Bounded summaries(const kit::Bounded& elements) {
  kit::Bounded out;
  for (const auto& [name, x] : elements.exact) {
    const auto& b = elements.bound.at(name);
    double squares = 0, sum = 0, size = 0, bounds = 0;
    for (size_t i = 0; i < x.size(); ++i)
      squares += x[i] * x[i], sum += x[i], size += std::abs(x[i]), bounds += b[i] * b[i];
    const double adding = double(x.size()) * 0x1p-53;
    out.exact[name + " l2"] = {std::sqrt(squares)};
    out.bound[name + " l2"] = {std::sqrt(bounds) + adding * std::sqrt(squares)};
    out.exact[name + " sum"] = {sum};
    out.bound[name + " sum"] = {std::sqrt(bounds) + adding * size};
    const auto first = int64_t(std::min<size_t>(8, x.size()));
    out.exact[name + " first"] = {x.begin(), x.begin() + first};
    out.bound[name + " first"] = {b.begin(), b.begin() + first};
  }
  return out;
}
kit::Results summaries(const kit::Results& elements) {
  kit::Bounded all{elements, elements};
  return summaries(all).exact;
}

// What the files hold of one evaluation, from ours.
kit::Results evaluation(const Golden& golden, Model& model) {
  const kit::Results all = kit::run_training(model, golden.batch, golden.smoothing);
  kit::Results out;
  out["loss"] = all.at("loss");
  const int64_t V = golden.config.vocab_size;
  for (int64_t row : golden.json["logits"]["rows"]) {
    const auto& logits = all.at("logits");
    out["logits of row " + std::to_string(row)] = {logits.begin() + row * V, logits.begin() + (row + 1) * V};
  }
  double squares = 0;
  for (const auto& [name, x] : all) {
    if (!name.starts_with("gradient of ")) continue;
    out[name] = x;
    for (double v : x) squares += v * v;
  }
  out["gradient norm"] = {std::sqrt(squares)};
  return out;
}

kit::Results golden_evaluation(const Golden& golden) {
  kit::Results out;
  out["loss first"] = {golden.json["loss"]["f64"]};
  const Json& logits = golden.json["logits"];
  for (size_t i = 0; i < logits["rows"].size(); ++i) {
    const kit::Results row{{"logits of row " + logits["rows"][i].dump(), logits["values"][i]}};
    out.merge(summaries(row));
  }
  for (const auto& [name, g] : golden.json["gradients"].items()) {
    out["gradient of " + name + " l2"] = {g["l2"]};
    out["gradient of " + name + " sum"] = {g["sum"]};
    out["gradient of " + name + " first"] = g["first"].get<std::vector<double>>();
  }
  out["gradient norm first"] = {golden.json["gradient_norm"]};
  return out;
}

// Ten steps of AdamW with clipping. With `relative`, every parameter is moved by that much before each step.
kit::Results train(const Golden& golden, Model& model, double relative, uint64_t seed) {
  const Json& o = golden.json["optimiser"];
  auto& parameters = model.parameters();
  std::vector<Tensor> m, v;
  for (const Parameter& p : parameters.all()) {
    m.push_back(zeros(p.master.shape(), p.master.dtype()));
    v.push_back(zeros(p.master.shape(), p.master.dtype()));
  }
  int64_t labelled = 0;
  for (double label : kit::values(golden.batch.labels)) labelled += label >= 0;
  kit::Results out;
  for (int step = 1;; ++step) {
    kit::jitter(parameters, relative, seed * 100 + uint64_t(step));
    for (Parameter& p : parameters.all()) p.master.ref()->grad = Tensor();  // the head's gradient comes with the loss
    LossSums sums;
    Tape tape;
    const Var loss = kit::loss(model, golden.batch.ids, golden.batch.labels, golden.batch.sequences, golden.smoothing,
                               1.0 / double(labelled), &sums);
    out["loss " + std::to_string(step)] = {sums.loss / double(labelled)};
    if (step == 11) break;
    tape.backward(loss);
    double squares = 0;
    for (const Parameter& p : parameters.all()) squares += kernels::sum_of_squares(p.master.grad());
    const double norm = std::sqrt(squares), clip = o["clip"];
    out["gradient norm " + std::to_string(step)] = {norm};
    size_t i = 0;
    for (const Parameter& p : parameters.all()) {
      kernels::adamw({.param = p.master.value(),
                      .gradient = p.master.grad(),
                      .m = m[i],
                      .v = v[i],
                      .shadow = p.storage().rounded,
                      .lr = o["lr"],
                      .beta1 = o["betas"][0],
                      .beta2 = o["betas"][1],
                      .eps = o["eps"],
                      .weight_decay = p.decay ? double(o["weight_decay"]) : 0,
                      .gradient_scale = std::min(1.0, clip / norm),
                      .step = step});
      ++i;
    }
  }
  for (const Parameter& p : parameters.all()) out[p.name] = kit::values(p.master.value());
  return out;
}

kit::Results golden_steps(const Golden& golden, const char* dtype = "f64") {
  const Json& steps = golden.json["steps"][dtype];
  kit::Results out;
  for (size_t i = 0; i < 11; ++i) out[cat("loss ", i + 1, " first")] = {steps["losses"][i]};
  for (size_t i = 0; i < 10; ++i) out[cat("gradient norm ", i + 1, " first")] = {steps["gradient_norms"][i]};
  for (const auto& [name, p] : steps["parameters"].items()) {
    out[name + " l2"] = {p["l2"]};
    out[name + " first"] = p["first"].get<std::vector<double>>();
  }
  return out;
}

// The files' values with our bounds.
kit::Bounded around(const kit::Results& want, const kit::Bounded& ran) {
  const kit::Bounded all = summaries(ran);
  kit::Bounded out;
  for (const auto& [name, x] : want) {
    out.exact[name] = x;
    out.bound[name] = all.bound.at(name);
  }
  return out;
}

class GoldenTest : public testing::TestWithParam<std::string> {
 protected:
  GoldenTest() { set_threads(1); }  // products this small are slower on two
  ~GoldenTest() override { set_threads(usable_threads()); }
  Golden golden_{GetParam()};
  // Our result in these dtypes against the files' f64 values, within what roundings of that size do in f64. `stray` is
  // another computation in that dtype: where many terms cancel, as in the bias of keys, it strays further than moved
  // parameters tell, and so may we.
  template <class Run>
  void compare(DType dtype, DType compute, const kit::Results& want, Run run, const kit::Results& stray = {}) {
    const auto bound = kit::rounding_bound(
        [&](double relative, uint64_t seed) {
          auto exact = golden_.model(DType::f64, DType::f64);
          return run(*exact, relative, seed);
        },
        kit::rounding(compute, kLongestSum));
    kit::Bounded limits = around(want, bound);
    for (const auto& [name, other] : stray) {
      double squares = 0;
      for (size_t i = 0; i < other.size(); ++i)
        squares += (other[i] - want.at(name)[i]) * (other[i] - want.at(name)[i]);
      for (double& b : limits.bound.at(name)) b += 4 * std::sqrt(squares / double(other.size()));
    }
    auto model = golden_.model(dtype, compute);
    double closest = 0;
    EXPECT_EQ(kit::compare(summaries(run(*model, 0, 0)), limits, &closest), "");
    RecordProperty("error_by_bound", std::to_string(closest));
  }
  void compare_evaluation(DType dtype, DType compute) {
    compare(dtype, compute, golden_evaluation(golden_), [&](Model& model, double relative, uint64_t seed) {
      kit::jitter(model.parameters(), relative, seed);
      return evaluation(golden_, model);
    });
  }
  void compare_training(DType dtype, DType compute) {
    compare(
        dtype, compute, golden_steps(golden_),
        [&](Model& model, double relative, uint64_t seed) { return train(golden_, model, relative, seed); },
        dtype == DType::f32 ? golden_steps(golden_, "f32") : kit::Results{});
  }
};

std::vector<std::string> golden_files() {
  std::vector<std::string> out;
  for (const Path& path : glob("tests/golden/decoder_*.json")) out.push_back(path.string());
  return out;
}

INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenTest, testing::ValuesIn(golden_files()),
                         [](const auto& info) { return Path(info.param).stem().string().substr(8); });

TEST_P(GoldenTest, WeightsAndTheirNamesAreTheFilesOwn) {
  auto model = golden_.model(DType::f64, DType::f64);
  const Json& initial = golden_.json["initial"];
  EXPECT_EQ(model->parameters().all().size(), initial.size());
  for (const Parameter& p : model->parameters().all()) {
    ASSERT_TRUE(initial.contains(p.name)) << p.name;
    const Json& want = initial[p.name];
    EXPECT_EQ(cat(p.master.shape()), want["shape"].dump()) << p.name;
    kit::Results got = summaries(kit::Results{{"", kit::values(p.master.value())}});
    EXPECT_NEAR(got[" l2"][0], double(want["l2"]), 1e-13 * double(want["l2"])) << p.name;
    for (size_t i = 0; i < want["first"].size(); ++i)
      EXPECT_NEAR(got[" first"][i], double(want["first"][i]), 4 * 0x1p-53) << p.name << " " << i;
    EXPECT_EQ(p.decay, !(p.name.ends_with(".bias") || p.name.ends_with("norm.weight"))) << p.name;
  }
}

// oracle: arch.decoder_only train.nll
TEST_P(GoldenTest, LossLogitsAndGradientsInF64) { compare_evaluation(DType::f64, DType::f64); }
TEST_P(GoldenTest, LossLogitsAndGradientsInF32) { compare_evaluation(DType::f32, DType::f32); }
TEST_P(GoldenTest, LossLogitsAndGradientsInBf16) { compare_evaluation(DType::f32, DType::bf16); }

// oracle: train.adam
TEST_P(GoldenTest, TenStepsInF64) { compare_training(DType::f64, DType::f64); }
TEST_P(GoldenTest, TenStepsInF32) { compare_training(DType::f32, DType::f32); }

}  // namespace
}  // namespace lithe
