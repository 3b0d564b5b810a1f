// What a run reads of its data.
#include "lithe/train/training_data.h"

#include "tests/train/run_kit.h"

namespace lithe {
namespace {

TEST(TrainingData, EncodersReadFramedSequences) {
  const kit::Scratch scratch;
  Recipe recipe;
  DataConfig& data = recipe.data;
  data.files = {scratch.add("text.txt", kit::small_text(4000))};
  data.validation_fraction = 0.2;
  data.cache_directory = scratch / "cache";
  data.tokenizer = {.type = "wordpiece", .vocab_size = 50};
  data.sequence_length = 16;
  recipe.train.objective = {"mlm", {}};
  recipe.train.batch_tokens = 64;
  const TrainingData got = load_training_data(recipe, {});
  const Specials& s = got.tokenizer->specials();
  EXPECT_FALSE(got.text.has_value());
  ASSERT_TRUE(got.held_out);
  const BatchSource& held_out = got.held_out->batches();
  for (const BatchSource* source : std::initializer_list<const BatchSource*>{got.train.get(), &held_out}) {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < source->batches_per_epoch(); ++i) {
      const Batch batch = source->batch(0, i);
      EXPECT_LE(batch.rows(), source->largest_batch());
      all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
      for (const int64_t length : sequence_lengths(batch)) EXPECT_LE(length, 16);
    }
    const auto count = [&](int32_t id) { return std::count(all.begin(), all.end(), id); };
    EXPECT_NEAR(double(count(*s.cls)), double(all.size()) / 16, 2);
    EXPECT_NEAR(double(count(*s.sep)), double(count(*s.cls)), 2);
    EXPECT_GT(count(*s.mask), 0);
  }
  EXPECT_EQ(held_out.batch(0, 0), held_out.batch(0, 0));
}

}  // namespace
}  // namespace lithe
