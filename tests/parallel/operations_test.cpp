// What ranks exchange, and its gradients.
#include "lithe/parallel/operations.h"

#include "lithe/autograd/gradcheck.h"
#include "lithe/ops/basic.h"
#include "tests/parallel/divided_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

Group all_of(Communicator& ranks) { return {&ranks, ranks.rank(), ranks.size()}; }

Tensor numbers(const Shape& shape, int rank) {
  const Tensor out = empty(shape, DType::f64);
  for (int64_t i = 0; i < out.numel(); ++i) set_value(out, i, double(i + 1) * (rank + 1));
  return out;
}

// oracle: hpc.parallel
TEST(ParallelOperations, SumsReachAllRanksWithTheSameBits) {
  for (const int count : {1, 2, 3, 4, 5, 8}) {
    std::vector<Tensor> sums(static_cast<size_t>(count));
    run_local_ranks(count, [&](Communicator& ranks) {
      const Tensor x = empty({5}, DType::f32);
      for (int64_t i = 0; i < 5; ++i) set_value(x, i, 0.1 / double(i + 1) + 1e3 * ranks.rank());
      sum_over(x, all_of(ranks));
      sums[size_t(ranks.rank())] = x;
    });
    for (const Tensor& sum : sums) EXPECT_EQ(kit::bit_difference(sum, sums[0]), "") << count;
    EXPECT_NEAR(value_at(sums[0], 0), 0.1 * count + 1e3 * count * (count - 1) / 2, 1e-2);
  }
}

// Of a tree one after another, up and down; of rows that go to all at the same time, those of the largest direction.
TEST(ParallelOperations, AMeterCountsWhatARankWaitsFor) {
  const auto met = [](const Group& group, Device device) {
    const MessageMeter meter;
    sum_over(zeros({5}, DType::f32, device), group);                          // 2 x 2 messages of 20 bytes
    all_gather(Var(zeros({2, 3}, DType::f64, device)), group, {2, 2, 2, 2});  // 3 of 48
    return std::pair(meter.messages(), meter.bytes());
  };
  const std::pair<int64_t, int64_t> want{4 + 3, 4 * 20 + 3 * 48};
  run_local_ranks(4, [&](Communicator& ranks) { EXPECT_EQ(met(all_of(ranks), Device::cpu), want); });
  EXPECT_EQ(met({nullptr, 2, 4}, Device::meta), want);
  EXPECT_EQ(met({nullptr, 0, 1}, Device::meta), (std::pair<int64_t, int64_t>{}));
}

// y = sum_r f_r(x): every rank has the whole gradient of x, and that of y as it came.
TEST(ParallelOperations, DividedWorkHasTheGradientOfItsSum) {
  run_local_ranks(3, [&](Communicator& ranks) {
    const Group group = all_of(ranks);
    const Var x = Var::leaf(numbers({2, 3}, 0)), w = Var::leaf(numbers({2, 3}, ranks.rank()));
    Tape tape;
    const Var y = all_reduce(mul(divide_work(x, group), w), group);
    tape.backward(y, numbers({2, 3}, 0));
    for (int64_t i = 0; i < 6; ++i) {
      const double v = double(i + 1);
      EXPECT_EQ(value_at(y.value(), i), v * v * 6);  // w is v, 2v, 3v
      EXPECT_EQ(value_at(x.grad(), i), v * v * 6);
      EXPECT_EQ(value_at(w.grad(), i), v * v);
    }
  });
}

TEST(ParallelOperations, GatheredRowsHaveTheSumOfTheirGradients) {
  run_local_ranks(3, [&](Communicator& ranks) {
    const Group group = all_of(ranks);
    const std::vector<int64_t> counts{1, 2, 1};
    const int64_t mine = counts[size_t(ranks.rank())], first = ranks.rank() == 0 ? 0 : ranks.rank() == 1 ? 1 : 3;
    const Var x = Var::leaf(numbers({mine, 2}, ranks.rank()));
    Tape tape;
    const Var y = all_gather(x, group, counts);
    ASSERT_EQ(y.shape(), (Shape{4, 2}));
    EXPECT_EQ(value_at(y.value(), 0), 1);
    EXPECT_EQ(value_at(y.value(), 2), 2);
    EXPECT_EQ(value_at(y.value(), 6), 3);
    tape.backward(y, numbers({4, 2}, ranks.rank()));
    for (int64_t i = 0; i < 2 * mine; ++i) EXPECT_EQ(value_at(x.grad(), i), 6 * double(2 * first + i + 1));
  });
}

TEST(ParallelOperations, RowsAreHandedOnAndTheirGradientComesBack) {
  run_local_ranks(2, [&](Communicator& ranks) {
    const Group group = all_of(ranks);
    Tape tape;
    if (ranks.rank() == 0) {
      const Var x = Var::leaf(numbers({2, 2}, 0));
      const Var token = send_rows(scale(x, 2), group, 1);
      EXPECT_EQ(value_at(token.value(), 0), 0);
      tape.backward(token);
      for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(value_at(x.grad(), i), 2 * 3 * double(i + 1));
    } else {
      const Var y = receive_rows({2, 2}, DType::f64, Device::cpu, group, 0);
      EXPECT_EQ(value_at(y.value(), 3), 8);
      tape.backward(y, numbers({2, 2}, 2));
    }
  });
}

TEST(ParallelOperations, AFailingRankEndsTheOthersAndIsNamed) {
  kit::expect_error(
      [] {
        run_local_ranks(3, [&](Communicator& ranks) {
          check(ranks.rank() != 1, "test", "rank one stumbled");
          sum_over(1.0, all_of(ranks));
        });
      },
      "rank one stumbled");
}

TEST(ParallelLayout, RanksStandInTheirGroups) {
  ParallelConfig config{.data = 2, .tensor = 2, .pipeline = 2};
  run_local_ranks(8, [&](Communicator& ranks) {
    const Layout layout(config, ranks);
    const int r = ranks.rank();
    EXPECT_EQ(layout.tensor().rank, r % 2);
    EXPECT_EQ(layout.pipeline().rank, r / 2 % 2);
    EXPECT_EQ(layout.data().rank, r / 4);
    EXPECT_EQ(layout.model().rank, r % 4);
    EXPECT_EQ(sum_over(double(r), layout.tensor()), 4 * (r / 2) + 1);
    EXPECT_EQ(sum_over(double(r), layout.data()), 2 * (r % 4) + 4);
    EXPECT_EQ(sum_over(1.0, layout.model()), 4);
  });
  run_local_ranks(3, [&](Communicator& ranks) {
    kit::expect_error([&] { const Layout layout({.tensor = 2}, ranks); }, "needs 2 ranks, and the job has 3");
  });
}

}  // namespace
}  // namespace lithe
