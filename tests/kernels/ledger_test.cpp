// A run on meta tensors books the same bytes as the real one, and counts the work.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lithe/kernels/cases.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/norm/norm.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/rope/rope.h"
#include "tests/kernels/sweep.h"

namespace lithe::kernels {
namespace {

// Every family once, on tensors made by `make`.
void run_all(DType type, Device device) {
  const int64_t N = 70, C = 96, V = 50;
  const auto rows = [&] { return zeros({N, C}, type, device); };
  const auto column = [&] { return zeros({C}, wide(type), device); };
  const auto statistic = [&] { return zeros({N}, wide(type), device); };
  const Tensor x = rows(), y = rows(), dy = rows(), weight = column(), dweight = column(), dbias = column(),
               mean = statistic(), scale = statistic();
  const Tensor ids = zeros({N}, DType::i32, device), table = zeros({V, C}, wide(type), device),
               logits = zeros({N, V}, type, device);
  activation({Activation::gelu, x, weight, y});
  activation_grad({Activation::gelu, x, weight, dy, y});
  gated({Activation::silu, x, dy, y});
  add({x, dy, y});
  mul({x, dy, y});
  row_affine({x, weight, {}, y});
  row_affine_grad({x, weight, dy, y, dweight, dbias});
  dropout({x, y, 0.1, {}});
  norm({NormKind::layer_sigma, x, {}, {}, weight, {}, y, mean, scale});
  norm_grad({NormKind::layer_sigma, x, weight, mean, scale, dy, y, dweight, dbias});
  rope({.x = x, .positions = ids, .out = y, .head_dim = 16});
  gather({table, ids, y});
  scatter_add({dy, ids, table});
  cross_entropy({logits, ids, mean, scale, 0.1, 1, true});
  softmax({logits, logits});
  adamw({table, clone(table), clone(table), clone(table), {}, 0.1});
  sum_of_squares(x);
  all_finite(x);
}

TEST(Ledger, MetaRunsBookThePeaksOfRealOnes) {
  for (const DType type : kTypes)
    for (const int count : {1, 3}) {
      const WithThreads with(count);
      int64_t peaks[2][2];
      for (const Device device : {Device::cpu, Device::meta}) {
        Ledger& book = ledger(device);
        book.reset_peak();
        const int64_t before = book.current();
        run_all(type, device);
        EXPECT_EQ(book.current(), before);
        peaks[int(device)][0] = book.peak() - before;
        peaks[int(device)][1] = book.peak(MemoryClass::workspace);
      }
      EXPECT_EQ(peaks[0][0], peaks[1][0]) << type << " on " << count << " threads";
      EXPECT_EQ(peaks[0][1], peaks[1][1]) << type << " on " << count << " threads";
      EXPECT_GT(peaks[0][0], 0);
    }
}

// Whatever a family names for timing: a new kernel is tested by its own cases.cpp.
TEST(Ledger, EveryCaseBooksItsWorkspaceOnMeta) {
  for (const DType type : {DType::f32, DType::bf16}) {
    KernelCases real(type, true), meta(type, true, Device::meta);
    for (const auto add : kAddCases) add(real), add(meta);
    ASSERT_GT(meta.cases.size(), 20u);
    std::map<std::string, const KernelCase*> by_name;
    for (const KernelCase& c : real.cases) by_name[c.name] = &c;
    for (const KernelCase& planned : meta.cases) {
      ASSERT_TRUE(by_name.count(planned.name)) << planned.name;
      int64_t peaks[2];
      for (const KernelCase* c : {by_name[planned.name], &planned}) {
        Ledger& book = ledger(c == &planned ? Device::meta : Device::cpu);
        book.reset_peak();
        const int64_t before = book.current();
        const CostMeter meter;
        c->run();
        peaks[c == &planned] = book.peak() - before;
        if (c == &planned) {
          EXPECT_EQ(meter.total().flops, by_name[planned.name]->cost.flops) << c->name;
        }
      }
      EXPECT_EQ(peaks[0], peaks[1]) << planned.name;
    }
  }
}

TEST(Ledger, ColumnSumsBookTheirWorkspace) {
  const WithThreads with(2);
  const Tensor dy = zeros({8, 100}, DType::bf16, Device::meta), dshift = zeros({100}, DType::f32, Device::meta);
  Ledger& book = ledger(Device::meta);
  book.reset_peak();
  const int64_t before = book.current();
  row_affine_grad({{}, {}, dy, {}, {}, dshift});
  EXPECT_EQ(book.peak() - before, 2 * 2 * 100 * 4);  // [threads, 2, C] f32
}

TEST(Cost, CountsBytesAndOperations) {
  const Tensor x = zeros({10, 64}, DType::f32, Device::meta), half = zeros({10, 64}, DType::bf16, Device::meta);
  CostMeter meter;
  add({x, half, half, 1, 2});
  norm({NormKind::rms, half, {}, {}, zeros({64}, DType::f32, Device::meta), {}, half});
  ASSERT_EQ(meter.entries().size(), 2u);
  EXPECT_EQ(meter.entries()[0].kernel, "add");
  EXPECT_EQ(meter.entries()[0].cost.bytes, 640 * (4 + 2 + 2));
  EXPECT_EQ(meter.entries()[0].cost.flops, 640 * 2);
  EXPECT_EQ(meter.entries()[1].kernel, "rms_norm");
  EXPECT_EQ(meter.entries()[1].cost.bytes, 640 * (2 + 2) + 64 * 4);
}

}  // namespace
}  // namespace lithe::kernels
