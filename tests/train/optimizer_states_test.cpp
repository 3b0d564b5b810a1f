// Runs whose moments are 8-bit codes (train.optimizer_states).
#include "lithe/model/safetensors.h"
#include "lithe/train/checkpoint.h"
#include "tests/support/model_kit.h"
#include "tests/train/run_kit.h"

namespace lithe {
namespace {

// Matrices of 4096 numbers and the table have codes; those of 64 x 48 and vectors do not.
const char* const kModel =
    "{vocab_size: 257, hidden_size: 64, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}, ffn: "
    "{type: swiglu, intermediate_size: 48}}";
constexpr int64_t kCoded = 257 * 64 + 2 * 4 * 64 * 64, kWide = 2 * 3 * 64 * 48 + 5 * 64;

std::string int8_training(const std::string& more = "") {
  return "{max_steps: 12, batch_tokens: 64, learning_rate: 0.01, logging_steps: 2, eval_steps: 3, save_steps: 2, "
         "save_total_limit: 9, optimizer_states: int8" +
         more + "}";
}

TEST(OptimizerStates, ARunThatIsKilledAtAnyCheckpointEndsWithTheSameBits) {
  const kit::TrainKit kit;
  int number = 0;
  for (const char* more :
       {"", ", precision: bf16", ", freeze: [embedding.*]",
        ", growth: {steps: [3, 7], layers: [4, 8], optimizer_state: copy}", ", growth: {steps: [5], width: [2]}"}) {
    const TrainRun whole = kit.run(kModel, kit::kHeldOutData, int8_training(more), cat("whole", ++number));
    EXPECT_EQ(train(whole).status, RunStatus::finished);
    for (const int64_t last : {2, 6}) {
      SCOPED_TRACE(cat(more, " ", last));
      const TrainRun run = kit.killed_after(whole, last, cat("killed", number, "-", last));
      train(run);
      for (const char* file : {"model.safetensors", "metrics.jsonl", "best/model.safetensors"})
        EXPECT_TRUE(read_file(run.out / file) == read_file(whole.out / file)) << file;
      EXPECT_TRUE(read_file(checkpoint_path(run.out, 12) / "optimizer.safetensors") ==
                  read_file(checkpoint_path(whole.out, 12) / "optimizer.safetensors"));
    }
  }
}

TEST(OptimizerStates, CheckpointsHoldCodesOfWhatIsLarge) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(kModel, kit::kHeldOutData, int8_training());
  train(run);
  const SafetensorsFile file(checkpoint_path(run.out, 12) / "optimizer.safetensors");
  std::map<DType, int64_t> numbers;
  for (const auto& [name, entry] : file.entries()) {
    const bool scale = name[1] == '_';
    numbers[entry.dtype] += scale ? 0 : entry.shape.numel();
    if (!scale) continue;
    const int64_t of = file.entries().at(name.substr(0, 1) + name.substr(7)).shape.numel();
    EXPECT_EQ(entry.shape, Shape{(of + 255) / 256}) << name;
  }
  EXPECT_EQ(numbers, (std::map<DType, int64_t>{{DType::i8, kCoded}, {DType::u8, kCoded}, {DType::f32, 2 * kWide}}));
  EXPECT_EQ(file.entries().at("m.layers.1.mixer.heads.q.weight").dtype, DType::i8);
  EXPECT_EQ(file.entries().at("v.layers.1.mixer.heads.q.weight").dtype, DType::u8);
  EXPECT_EQ(file.entries().at("v.layers.1.ffn.up.weight").dtype, DType::f32);
}

// Two bytes a number and a scale of each moment for 256 of them.
TEST(OptimizerStates, ThePlanCountsTheirBytes) {
  const kit::TrainKit kit;
  for (const char* precision : {"f32", "bf16"}) {
    const TrainResult result =
        train(kit.run(kModel, kit::kHeldOutData, int8_training(cat(", precision: ", precision)), precision));
    const auto booked = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };  // as the allocator gives them
    const int64_t scales = 2 * booked(4 * ((257 * 64 + 255) / 256)) + 2 * 8 * booked(4 * 16);
    EXPECT_EQ(result.measured.by_class[size_t(MemoryClass::optimizer)], 2 * kCoded + scales + 8 * kWide);
    EXPECT_EQ(result.planned.peak, result.measured.peak);
    EXPECT_EQ(result.planned.by_class, result.measured.by_class);
  }
}

// In bf16 the upper halves of the weights are what products read: four bytes a number and no copy.
TEST(OptimizerStates, WeightsThatAreSplitCostNoCopy) {
  const kit::TrainKit kit;
  const TrainRun run = kit.run(kModel, kit::kHeldOutData, int8_training(", precision: bf16"));
  const TrainResult result = train(run);
  EXPECT_EQ(result.measured.by_class[size_t(MemoryClass::weights)], 4 * (kCoded + kWide));
  // The file has all 32 bits of them.
  const SafetensorsFile file(run.out / "model.safetensors");
  const Tensor saved = empty({257, 64}, DType::f32);
  file.read("embedding.weight", saved);
  int64_t narrow = 0;
  for (int64_t i = 0; i < saved.numel(); ++i) narrow += double(bf16(float(value_at(saved, i)))) == value_at(saved, i);
  EXPECT_LT(narrow, saved.numel() / 100);
}

TEST(OptimizerStates, AParameterIsTheSameSplitOrWhole) {
  kit::Bench bench(DType::f32, DType::bf16);
  const Linear map(bench.scope(), 64, 48, false);
  Parameter& p = *map.weight;
  const Tensor before = clone(p.numbers());
  const int64_t bytes = p.bytes();
  EXPECT_EQ(bytes, 6 * 64 * 48);
  p.split();
  EXPECT_EQ(p.bytes(), 4 * 64 * 48);
  EXPECT_EQ(p.var().dtype(), DType::bf16);
  EXPECT_EQ(p.var().ref()->dtype, DType::f32);
  EXPECT_EQ(kit::bit_difference(p.numbers(), before), "");
  const Tensor other = kit::normal({64, 48}, DType::f32, 7);
  p.assign(other);
  EXPECT_EQ(kit::bit_difference(p.numbers(), other), "");
  p.split();  // once
  EXPECT_EQ(kit::bit_difference(p.numbers(), other), "");
  // What no product reads stays whole.
  Parameter& read = *bench.scope().parameter("read", {64, 64}, InitRole::matrix, {.wide = true});
  read.split();
  EXPECT_EQ(read.master.dtype(), DType::f32);
}

TEST(OptimizerStates, LossesFollowThoseOfExactMoments) {
  const kit::TrainKit kit;
  const auto losses = [&](const std::string& states) {
    const TrainRun run = kit.run(kModel, kit::kHeldOutData,
                                 "{max_steps: 60, batch_tokens: 256, learning_rate: 0.01, warmup_steps: 6, "
                                 "logging_steps: 10, optimizer_states: " +
                                     states + "}",
                                 states);
    train(run);
    return kit::losses_of(run.out);
  };
  const std::map<int64_t, double> exact = losses("f32"), coded = losses("int8");
  EXPECT_LT(exact.at(60), 0.7 * exact.at(10));
  for (const auto& [step, loss] : exact) EXPECT_NEAR(coded.at(step), loss, 0.03 * exact.at(10)) << step;
  EXPECT_NE(coded.at(60), exact.at(60));
}

TEST(OptimizerStates, RefusesWhatItCannotBe) {
  const kit::TrainKit kit;
  const auto refused = [&](const std::string& train_section, const std::string& why) {
    const std::string error = kit::coded_error_of([&] { train(kit.run(kModel, kit::kHeldOutData, train_section)); });
    EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error;
  };
  refused("{max_steps: 1, batch_tokens: 64, optimizer_states: in8}", "int8");
  refused("{max_steps: 1, batch_tokens: 64, optimizer_state: int8}", "optimizer_states");
  refused("{max_steps: 1, batch_tokens: 64, optimizer_states: int8, precision: f64}", "leave optimizer_states out");
}

}  // namespace
}  // namespace lithe
