#include <gtest/gtest.h>

#include "tests/parts/combiner/combiner_kit.h"

namespace lithe {
namespace {

std::string layers(const std::string& more = "") {
  return cat("{mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}", more, "}");
}

// What closes the sub-layers: nothing comes out of their last maps.
void close_branches(kit::Combining& of) {
  for (Parameter& p : of.bench.parameters().all())
    if (p.name.find(".output.") != std::string::npos || p.name.find(".down.") != std::string::npos)
      fill_zero(p.master.value());
}

// oracle: syn.combine
TEST(ConcatLenCombiner, WithoutBranchesItIsTheRowsOneAfterAnother) {
  kit::Combining concat("concat_len", layers(", num_hidden_layers: 2"));
  EXPECT_EQ(concat.bench.parameters().count(), 2 * (4 * 4 * 4 + 2 * 4 * 6 + 5 * 4 + 6));
  close_branches(concat);
  const Rows syntax = kit::some_rows({0, 1, 3}, 1), text = kit::some_rows({0, 2, 5}, 2);
  const Tensor s = syntax.x.value(), t = text.x.value();
  const Rows y = concat({syntax, text});
  EXPECT_EQ(y.sequences.offsets(), (std::vector<int64_t>{0, 3, 8}));
  EXPECT_EQ(kit::bit_difference(y.x.value(), kit::concatenate({kit::rows_of(s, {0}), kit::rows_of(t, {0, 1}),
                                                               kit::rows_of(s, {1, 2}), kit::rows_of(t, {2, 3, 4})})),
            "");
  kit::Combining alone("concat_len", layers(", rows: text"));
  close_branches(alone);
  const Rows of_text = alone({syntax, text});
  EXPECT_EQ(of_text.sequences.offsets(), text.sequences.offsets());
  EXPECT_EQ(kit::bit_difference(of_text.x.value(), t), "");
}

// oracle: syn.combine
TEST(ConcatLenCombiner, RowsLookAtAllOfTheirTextAndAtNoOther) {
  kit::Combining concat("concat_len", layers());
  const Rows syntax = kit::some_rows({0, 1, 3}, 1), text = kit::some_rows({0, 2, 5}, 2);
  const Tensor y = concat({syntax, text}).x.value();
  Rows moved = syntax;
  moved.x = Var(clone(syntax.x.value()));
  set_value(moved.x.value(), 0, 7);
  EXPECT_EQ(kit::changed_rows(y, concat({moved, text}).x.value()), (std::vector<int64_t>{0, 1, 2}));
  Rows last = text;
  last.x = Var(clone(text.x.value()));
  set_value(last.x.value(), 4 * 4, 7);
  EXPECT_EQ(kit::changed_rows(y, concat({syntax, last}).x.value()), (std::vector<int64_t>{3, 4, 5, 6, 7}));
}

TEST(ConcatLenCombiner, SegmentsTellTheEncodersApart) {
  kit::Combining with("concat_len", layers(", segment_embeddings: true, num_hidden_layers: 0"));
  EXPECT_EQ(with.bench.parameters().count(), 2 * 4);
  const Rows a = kit::some_rows({0, 1}, 1), b = kit::some_rows({0, 2}, 2);
  const Tensor y = with({a, b}).x.value(), segments = with.bench["part.segments.weight"];
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(value_at(y, c), value_at(a.x.value(), c) + value_at(segments, c));
    EXPECT_EQ(value_at(y, 8 + c), value_at(b.x.value(), 4 + c) + value_at(segments, 4 + c));
  }
  kit::Combining whole("concat_len", layers(", segment_embeddings: true, rows: text"));
  EXPECT_LE(kit::gradient_error(
                whole.bench.parameters(),
                [&](const std::vector<Var>& in) {
                  return std::vector<Var>{whole({{in[0], Sequences({0, 1, 3})}, {in[1], Sequences({0, 2, 4})}}).x};
                },
                {kit::normal({3, 4}, DType::f64, 1), kit::normal({4, 4}, DType::f64, 2)}),
            1e-6);
}

// A column is of one text, and the rows here are of several.
TEST(ConcatLenCombiner, RefusesMixersThatReadColumns) {
  for (const char* mixer : {"{type: attention, num_attention_heads: 2, field: tree}",
                            "{type: cnn_branch, attention: {type: attention, num_attention_heads: 2, field: tree}}"})
    EXPECT_NE(kit::coded_error_of([&] { kit::Combining("concat_len", cat("{mixer: ", mixer, "}")); })
                  .find("2 combiner: the layers of concat_len read the rows of 2 encoders one after another, and the "
                        "column 'word' is of one text"),
              std::string::npos);
}

}  // namespace
}  // namespace lithe
