#include "lithe/ops/embedding.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

TEST(Embed, Gradients) {
  const Tensor table = kit::normal({5, 3}, DType::f64, 1), ids = kit::ids_of({4, 0, 4, 2});
  kit::expect_gradients([&](const Vars& in) { return embed(in[0], ids, DType::f64); }, {table});
  kit::expect_gradients([&](const Vars& in) { return embed(in[0], ids, DType::f64, -2.5); }, {table});
  kit::expect_gradients([&](const Vars& in) { return add_rows(in[0], in[1], ids); },
                        {kit::normal({4, 3}, DType::f64, 2), table});
  kit::expect_gradients(
      [&](const Vars& in) {
        return add_rows(in[0], in[0], kit::ids_of({1, 1, 0}));
      },
      {kit::normal({3, 3}, DType::f64, 2)}, "rows are the table");
}

TEST(Embed, PaddingGetsNoGradient) {
  const auto out = kit::differentiate(
      [](const Vars& in) {
        return embed(in[0], kit::ids_of({2, 1, 2}), DType::f64, 1, 2);
      },
      {kit::normal({3, 2}, DType::f64, 1)}, kit::tensor_f64({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(kit::values(out.gradients[0]), (std::vector<double>{0, 0, 3, 4, 0, 0}));
}

TEST(Embed, MissingIdsHaveNoRow) {
  const Tensor table = kit::normal({5, 3}, DType::f64, 1), x = kit::normal({4, 3}, DType::f64, 2),
               ids = kit::ids_of({4, -1, 4, 2});
  const auto rows = [&](const Vars& in) { return embed(in[0], ids, DType::f64, 1, -1, MissingIds::no_row); };
  const auto sums = [&](const Vars& in) { return add_rows(in[0], in[1], ids, MissingIds::no_row); };
  EXPECT_EQ(kit::values(rows({table}).value().slice(1, 2)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(kit::bit_difference(clone(sums({x, table}).value().slice(1, 2)), clone(x.slice(1, 2))), "");
  kit::expect_gradients(rows, {table});
  kit::expect_gradients(sums, {x, table});
}

TEST(Embed, RowsMayBeNarrowerNumbersThanTheTable) {
  const Var table = Var::leaf(convert(kit::tensor_f64({2, 2}, {1.001, 2, 3, 4}), DType::f32));
  Tape tape;
  const Var y = embed(table, kit::ids_of({0, 0}), DType::bf16);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(kit::values(y.value()), (std::vector<double>{1, 2, 1, 2}));
  tape.backward(y, convert(kit::tensor_f64({2, 2}, {1, 1, 1, 1}), DType::bf16));
  EXPECT_EQ(table.grad().dtype(), DType::f32);
  EXPECT_EQ(kit::values(table.grad()), (std::vector<double>{2, 2, 0, 0}));
}

// Sums are wide and rounded once: as those of f32 but for that.
TEST(Embed, GradientsOfNarrowTablesAreThoseOfWideOnes) {
  const Tensor table = convert(kit::normal({3, 5}, DType::f32, 1), DType::bf16),
               x = convert(kit::normal({40, 5}, DType::f32, 2), DType::bf16),
               dy = convert(kit::normal({40, 5}, DType::f32, 3), DType::bf16);
  const Tensor ids = empty({40}, DType::i32);
  for (int64_t i = 0; i < 40; ++i) set_value(ids, i, double(i % 4 - 1));
  for (const bool adds : {false, true}) {
    const auto gradient = [&](DType type) {
      const Var of = Var::leaf(convert(table, type));
      Tape tape;
      const Var y = adds ? add_rows(Var(convert(x, type)), of, ids, MissingIds::no_row)
                         : embed(of, ids, type, 1, -1, MissingIds::no_row);
      tape.backward(y, convert(dy, type));
      return of.grad();
    };
    const Tensor narrow = gradient(DType::bf16);
    EXPECT_EQ(narrow.dtype(), DType::bf16);
    EXPECT_EQ(kit::bit_difference(narrow, convert(gradient(DType::f32), DType::bf16)), "");
  }
}

TEST(Embed, ErrorsNameIdsAndShapes) {
  const Var table(kit::normal({3, 2}, DType::f64, 1)), x(kit::normal({2, 4}, DType::f64, 2));
  EXPECT_EQ(kit::error_of([&] {
              embed(table, kit::ids_of({0, 3}), DType::f64);
            }),
            "embed: id 3 at row 1 is outside the table of 3 rows");
  EXPECT_EQ(kit::error_of([&] { embed(Var(kit::normal({3}, DType::f64, 1)), kit::ids_of({0}), DType::f64); }),
            "embed: the table must be [V,D], got [3]");
  EXPECT_EQ(kit::error_of([&] { embed(table, kit::normal({2}, DType::f32, 1), DType::f64); }),
            "embed: ids must be i32, got f32");
  EXPECT_EQ(kit::error_of([&] {
              add_rows(x, table, kit::ids_of({0, 1}));
            }),
            "add_rows: x [2,4] does not fit the table [3,2] and 2 positions");
}

}  // namespace
}  // namespace lithe
