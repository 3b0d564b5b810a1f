// Adapters between lithe's names and those of PEFT's files: joined projections, scales, and what is refused.
#include "lithe/interchange/peft.h"

#include <gtest/gtest.h>

#include "lithe/base/random.h"
#include "lithe/infer/adapter.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/model/adapter_files.h"
#include "lithe/model/safetensors.h"
#include "tests/interchange/golden_kit.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

Tensor random_matrix(int64_t rows, int64_t cols, const std::string& name) {
  const Tensor out = empty({rows, cols}, DType::f32);
  const RandomKey key{.seed = 7, .purpose = purpose_of(name)};
  for (int64_t i = 0; i < out.numel(); ++i) set_value(out, i, random_normal(key, uint64_t(i)));
  return out;
}

class PeftAdapters : public testing::TestWithParam<const char*> {
 protected:
  PeftAdapters() {
    const kit::TransformersGolden golden(cat("tests/golden/transformers/", GetParam(), ".json"));
    golden.write(scratch / "model");
    golden.import_to(scratch / "model", scratch / "run");
    const ModelConfig config = load_config(scratch.path() / "run/config.json");
    for (const auto& [name, shape] : parameter_shapes(config)) {
      const bool adapted = name.ends_with("heads.q.weight") || name.ends_with("heads.v.weight") ||
                           name.ends_with("ffn.down.weight") || name.ends_with("output.weight");
      if (!adapted || shape.rank() != 2) continue;
      const std::string module = name.substr(0, name.rfind('.'));
      const int64_t rank = name.ends_with("v.weight") ? 3 : 2;
      updates[module] = {random_matrix(rank, shape[0], name + "a"), random_matrix(shape[1], rank, name + "b"), 0.5};
    }
    std::filesystem::create_directories(scratch / "run/adapter");
    write_adapter(scratch.path() / "run/adapter", {.updates = updates});
  }
  // W + scale (b a)^T of a run's weights, by their names.
  std::map<std::string, Tensor> merged() const {
    std::map<std::string, Tensor> out;
    const SafetensorsFile file(scratch.path() / "run/model.safetensors");
    for (const auto& [name, entry] : file.entries()) {
      Tensor w = empty(entry.shape, DType::f32);
      file.read(name, w);
      if (const auto at = updates.find(name.substr(0, name.rfind('.'))); at != updates.end() && w.shape().rank() == 2)
        add_to(w, at->second, false);
      out[name] = w;
    }
    return out;
  }
  static void add_to(const Tensor& w, const LowRankUpdate& u, bool transposed) {
    const int64_t rank = u.a.dim(0), in = u.a.dim(1), outputs = u.b.dim(0);
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < rank; ++k) sum += value_at(u.b, o * rank + k) * value_at(u.a, k * in + i);
        const int64_t e = transposed ? o * in + i : i * outputs + o;
        set_value(w, e, value_at(w, e) + u.scale * sum);
      }
  }
  kit::Scratch scratch;
  std::map<std::string, LowRankUpdate> updates;
};

// What PEFT adds to the exported base is the exported model with our updates merged.
TEST_P(PeftAdapters, AreThoseOfTheExportedModel) {
  const AdapterReport report = export_adapter(scratch / "run", scratch / "peft", false);
  EXPECT_GT(report.modules, 0);
  std::map<std::string, PendingTensor> parameters, base;
  for (const auto& [name, tensor] : merged()) parameters[name] = pending(tensor);
  const RunToExport run = read_run({scratch / "run", scratch / "none", ""});
  const Described described = describe_model(run.config);
  const auto want = write_parameters(parameters, described.mapping),
             plain = write_parameters(run.parameters, described.mapping);
  const AdapterFiles files = read_adapter(scratch / "peft");
  const bool conv1d = files.config["fan_in_fan_out"];
  size_t changed = 0;
  for (const auto& [name, tensor] : plain) {
    const Tensor w = tensor.read(), expected = want.at(name).read();
    if (const auto at = files.updates.find(name.substr(0, name.rfind('.')));
        at != files.updates.end() && w.shape().rank() == 2) {
      add_to(w, at->second, !conv1d);
      ++changed;
    }
    for (int64_t e = 0; e < w.numel(); ++e)
      ASSERT_NEAR(value_at(w, e), value_at(expected, e), 1e-4) << name << " " << e;
  }
  EXPECT_EQ(changed, files.updates.size());
}

TEST_P(PeftAdapters, ComeBackToTheSameModel) {
  export_adapter(scratch / "run", scratch / "peft", false);
  import_adapter(scratch / "peft", scratch / "run", scratch / "again", false);
  const AdapterFiles again = read_adapter(scratch / "again");
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  EXPECT_GT(Adapter(*loaded.model, scratch / "again").rank(), 0);
  EXPECT_EQ(again.base, adapter_base_checksum(scratch / "run", ""));
  for (const auto& [module, update] : updates) {
    ASSERT_TRUE(again.updates.contains(module)) << module;
    const LowRankUpdate& back = again.updates.at(module);
    const Tensor a = zeros({update.a.dim(1), update.b.dim(0)}, DType::f32), b = zeros(a.shape(), DType::f32);
    add_to(a, update, false);
    add_to(b, back, false);
    for (int64_t e = 0; e < a.numel(); ++e) ASSERT_NEAR(value_at(a, e), value_at(b, e), 1e-4) << module;
  }
  // What was joined there has an update of zero here where ours had none.
  for (const auto& [module, update] : again.updates) {
    if (updates.contains(module)) continue;
    for (int64_t e = 0; e < update.b.numel(); ++e) ASSERT_EQ(value_at(update.b, e), 0) << module;
  }
}

TEST_P(PeftAdapters, OfOtherModelsAreRefused) {
  export_adapter(scratch / "run", scratch / "peft", false);
  std::map<std::string, LowRankUpdate> other = read_adapter(scratch / "peft").updates;
  const std::string module = other.begin()->first;
  other["model.layers.99.self_attn.q_proj"] = other.begin()->second;
  std::filesystem::create_directories(scratch / "other");
  write_adapter(scratch / "other", {.updates = other});
  const auto refused = [&](const std::string& words) {
    const std::string error =
        kit::coded_error_of([&] { import_adapter(scratch / "other", scratch / "run", scratch / "no", false); });
    EXPECT_TRUE(error.starts_with("2 ")) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_FALSE(std::filesystem::exists(scratch / "no"));
  };
  refused("has no linear map of that name");
  other.erase("model.layers.99.self_attn.q_proj");
  other[module].b = zeros({5, other[module].a.dim(0)}, DType::f32);
  write_adapter(scratch / "other", {.updates = other});
  refused("it is of another model");
  write_adapter(scratch / "other", {.config = {{"use_dora", true}}, .updates = {{module, updates.begin()->second}}});
  refused("type dora");
}

INSTANTIATE_TEST_SUITE_P(, PeftAdapters, testing::Values("smollm", "gpt2", "phi3", "gpt_neox"));

}  // namespace
}  // namespace lithe
