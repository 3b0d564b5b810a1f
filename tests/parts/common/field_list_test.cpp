#include "lithe/parts/common/field_list.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

const Field::Args kArgs{
    .causal = true, .num_attention_heads = 2, .hidden_size = 8, .kv_heads = 2, .key_dim = 4, .value_dim = 4};

// A list that shows what its first field shows.
struct FirstOf final : FieldList {
  using FieldList::FieldList;
  kernels::AttentionPattern pattern(const FieldInput& in) const override { return patterns(in).front(); }
};

std::unique_ptr<FieldList> list_of(const std::string& fields) {
  kit::Bench bench;
  return std::make_unique<FirstOf>("list", bench.scope(), parse_yaml(fields, "test"), kArgs);
}

// What stands for the list in a cache: as far back as any of its fields sees, and for ever if one sees everything.
TEST(FieldList, ReachesAsFarAsAnyOfItsFields) {
  EXPECT_EQ(list_of("[{type: span, left: 9}, {type: span, left: 30}]")->reach(),
            list_of("[{type: span, left: 30}]")->reach());
  EXPECT_GT(list_of("[{type: span, left: 30}]")->reach(), 30);
  EXPECT_EQ(list_of("[{type: span, left: 9}, full]")->reach(), 0);
}

TEST(FieldList, KeepsTheMostSinks) {
  EXPECT_EQ(list_of("[{type: span, left: 9}]")->sinks(), 0);
  EXPECT_EQ(list_of("[{type: global, tokens: 3}, {type: global, tokens: 7}, {type: span, left: 9}]")->sinks(), 7);
}

TEST(FieldList, KeepsLabelsOfOneFieldThatReadsKeys) {
  const std::string lsh = "{type: lsh, rounds: 1, buckets: 4}", kmeans = "{type: kmeans, clusters: 4}";
  const auto none = list_of("[{type: span, left: 9}, full]"), one = list_of("[{type: span, left: 9}, " + lsh + "]"),
             several = list_of("[" + lsh + ", " + kmeans + "]");
  EXPECT_FALSE(none->reads_keys());
  EXPECT_TRUE(one->reads_keys());
  EXPECT_TRUE(several->reads_keys());
  EXPECT_EQ(none->key_labels(DType::f32).count, 0);
  EXPECT_EQ(several->key_labels(DType::f32).count, 0);
  const auto alone = list_of("[" + lsh + "]");
  EXPECT_GT(one->key_labels(DType::f32).count, 0);
  EXPECT_EQ(one->key_labels(DType::f32).count, alone->key_labels(DType::f32).count);
  EXPECT_EQ(one->label(kit::normal({5, 8}, DType::f64, 1)).shape(), Shape({5, one->key_labels(DType::f64).count}));
}

TEST(FieldList, TakesNamesAndMaps) {
  EXPECT_EQ(list_of("[{type: global}]")->sinks(), list_of("[global]")->sinks());
  const auto error = [](const std::string& fields) { return kit::coded_error_of([&] { list_of(fields); }); };
  EXPECT_NE(error("[]").find("2 list: fields must be a list of fields"), std::string::npos) << error("[]");
  EXPECT_NE(error("full").find("2 list: fields must be a list of fields"), std::string::npos);
  EXPECT_NE(error("[full, {left: 3}]").find("2 list: field 1 has no type"), std::string::npos);
  EXPECT_NE(error("[local_prior]").find("2 list: field local_prior changes weights"), std::string::npos);
  EXPECT_NE(error("[spam]").find("spam"), std::string::npos);
}

}  // namespace
}  // namespace lithe
