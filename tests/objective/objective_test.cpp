// What every objective promises, and old spellings of their options.
#include "lithe/objective/objective.h"

#include <gtest/gtest.h>

#include "tests/parts/objective_kit.h"

namespace lithe {
namespace {

TEST(Objectives, OptionsAreStrictAndDescribed) {
  for (const Registry::Entry* entry : Registry::instance().slot(Objective::slot)) {
    SCOPED_TRACE(entry->name);
    EXPECT_FALSE(entry->info.summary.empty());
    const Node defaults = entry->resolve(Node(), "test");
    EXPECT_EQ(to_yaml(entry->resolve(defaults, "test")), to_yaml(defaults));
    for (const FieldDoc& field : entry->describe()) {
      EXPECT_FALSE(field.help.empty()) << field.path;
      EXPECT_TRUE(defaults.find(field.path)) << field.path;
    }
    EXPECT_NE(kit::coded_error_of([&] {
                kit::objective(cat("{type: ", entry->name, ", no_such_option: 1}"));
              }).find("no_such_option"),
              std::string::npos);
  }
}

// The planner counts on it: equally many labels in every batch of a size, and no row that does not exist.
TEST(Objectives, LabelsAreAsManyAsThePlanSays) {
  const auto tokenizer = kit::pieces();
  const Batch plain = kit::framed(*tokenizer, kit::some_texts());
  for (const Registry::Entry* entry : Registry::instance().slot(Objective::slot)) {
    SCOPED_TRACE(entry->name);
    const auto objective = make_objective({entry->name, {}});
    for (const int64_t rows : {1, 7, 8192}) EXPECT_LE(objective->predicted_rows(rows), rows);
    if (objective->learns_from() != Lessons::text || objective->predicts_next() || objective->beside()) continue;
    const auto source = objective->batches(std::make_unique<kit::Always>(plain), tokenizer, 1);
    EXPECT_EQ(source->largest_batch(), plain.rows());
    for (int64_t index = 0; index < 5; ++index) {
      const Batch batch = source->batch(2, index);
      EXPECT_EQ(batch.offsets, plain.offsets);
      EXPECT_EQ(int64_t(batch.predicted.size()), objective->predicted_rows(plain.rows()));
      EXPECT_EQ(int64_t(batch.labels.size()), batch.predicted.empty() ? plain.rows() : int64_t(batch.predicted.size()));
      EXPECT_EQ(source->batch(2, index), batch);
    }
  }
}

TEST(Objectives, AnUnknownNameIsToldTheNearest) {
  EXPECT_NE(kit::coded_error_of([] {
              kit::objective("mml");
            }).find("slot objective has no part 'mml'; it has clm, distillation, gates, layer_prediction, mlm"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
