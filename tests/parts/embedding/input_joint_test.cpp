#include "tests/parts/embedding/tags_kit.h"

namespace lithe {
namespace {

// oracle: syn.input_joint
TEST(InputJoint, HasARowForEachCompositeAndFallsBack) {
  Tagged plain("input_joint", "{}");
  EXPECT_EQ(plain.bench.parameters().count(), 18);
  EXPECT_EQ(kit::bit_difference(plain(kit::ids_of({5, 0})).value(), kit::rows_of(plain.bench["part.weight"], {5, 0})),
            "");
  Tagged joint("input_joint", "{tags: {upos: 3}, composites: [0, 0, 5, 0, 5, 1, 5, 2]}");
  EXPECT_EQ(joint.bench.parameters().count(), 4 * 3);
  const auto rows = [&](const std::vector<int32_t>& ids, const std::vector<int32_t>& tags) {
    return joint(tensor_of({int64_t(ids.size())}, ids), {{"upos", tags}});
  };
  // 5/1, 5/2, 5/3 (unseen: 5/UNK), 4/1 (unseen: UNK).
  EXPECT_EQ(kit::bit_difference(rows({5, 5, 5, 4}, {1, 2, 3, 1}).value(),
                                kit::rows_of(joint.bench["part.weight"], {2, 3, 1, 0})),
            "");
  EXPECT_EQ(joint.part->table(), nullptr);
  {
    Tape tape;
    tape.backward(rows({5}, {1}), kit::normal({1, 3}, DType::f64, 1));
    const Tensor grad = joint.bench.parameters().find("part.weight")->master.grad();
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NE(value_at(grad, 6 + c), 0);
      EXPECT_EQ(value_at(grad, 9 + c), 0);
    }
  }
  EXPECT_THROW(Tagged("input_joint", "{tags: {upos: 3}}"), Error);
  EXPECT_THROW(Tagged("input_joint", "{tags: {upos: 3}, composites: [5, 1]}"), Error);
}

}  // namespace
}  // namespace lithe
