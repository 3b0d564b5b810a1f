#include "lithe/kernels/recurrent_cell/recurrent_cell.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr RecurrentCell kCells[] = {RecurrentCell::linear, RecurrentCell::elman, RecurrentCell::lstm,
                                    RecurrentCell::gru};

RecurrentCellArgs problem(RecurrentCell kind, DType type, int64_t n, int64_t d) {
  RecurrentCellArgs a;
  a.kind = kind;
  a.gates = random_tensor({n, gates_of(kind) * d}, type, 1, 2);
  a.hidden = zeros({n, d}, type);
  if (kind == RecurrentCell::lstm)
    a.cell_before = random_tensor({n, d}, wide(type), 2), a.cell = zeros({n, d}, wide(type));
  if (kind == RecurrentCell::gru) {
    a.recurrent = random_tensor({n, 3 * d}, type, 3), a.before = random_tensor({n, d}, type, 4),
    a.kept = zeros({n, d}, type);
  }
  return a;
}
RecurrentCellArgs copy(const RecurrentCellArgs& a, bool exact) {
  RecurrentCellArgs out = a;
  for (Tensor* x : {&out.gates, &out.hidden, &out.recurrent, &out.before, &out.kept, &out.cell_before, &out.cell})
    if (*x) *x = exact ? convert(*x, DType::f64) : clone(*x);
  return out;
}
struct Out {
  Tensor dgates, drecurrent, dbefore, dcell;
};
Out outputs(const RecurrentCellArgs& a) {
  Out g{zeros(a.gates.shape(), a.gates.dtype()), {}, {}, {}};
  if (a.kind == RecurrentCell::gru) {
    g.drecurrent = zeros(a.gates.shape(), a.gates.dtype());
    g.dbefore = random_tensor(a.hidden.shape(), a.hidden.dtype(), 6);
  }
  if (a.kind == RecurrentCell::lstm) g.dcell = random_tensor(a.hidden.shape(), a.cell.dtype(), 7);
  return g;
}

// Values within a handful of roundings of numbers that are at most a few.
TEST(RecurrentCell, EveryImplementationAgreesWithF64) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const RecurrentCell kind : kCells)
      for (const int64_t d : {1, 16, 19}) {
        const auto a = problem(kind, type, 5, d);
        const auto e = copy(a, true);
        recurrent_cell(e);
        auto kept = copy(a, false);  // what every gradient starts from
        for (const auto& [to, from] : {std::pair{&kept.gates, &e.gates},
                                       {&kept.hidden, &e.hidden},
                                       {&kept.kept, &e.kept},
                                       {&kept.cell, &e.cell}})
          if (*to) *to = convert(*from, to->dtype());
        const auto exact = copy(kept, true);
        const Tensor dh = random_tensor(a.hidden.shape(), type, 5);
        const Out want = outputs(exact);
        const auto as_f64 = [](const Tensor& to, const Tensor& from) {
          if (to) copy_into(to, convert(from, DType::f64));
        };
        const Out start = outputs(kept);
        as_f64(want.dbefore, start.dbefore);
        as_f64(want.dcell, start.dcell);
        recurrent_cell_grad({exact, convert(dh, DType::f64), want.dgates, want.drecurrent, want.dbefore, want.dcell});
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " kind ", int(kind), " d ", d);
          const auto near = [&](const Tensor& got, const Tensor& right, const std::string& name) {
            if (!got) return;
            expect_close(
                got, right,
                [&](int64_t i) {
                  return 64 * kF32 + (epsilon_of(got.dtype()) + 8 * kF32) * std::abs(value_at(right, i));
                },
                what + name);
          };
          const auto mine = copy(a, false);
          recurrent_cell(mine);
          near(mine.hidden, e.hidden, " hidden");
          if (kind != RecurrentCell::linear) near(mine.gates, e.gates, " gates");
          near(mine.cell, e.cell, " cell");
          near(mine.kept, e.kept, " kept");
          const Out g = outputs(kept);
          recurrent_cell_grad({kept, dh, g.dgates, g.drecurrent, g.dbefore, g.dcell});
          near(g.dgates, want.dgates, " dgates");
          near(g.drecurrent, want.drecurrent, " drecurrent");
          near(g.dbefore, want.dbefore, " dbefore");
          near(g.dcell, want.dcell, " dcell");
        });
      }
}

TEST(RecurrentCell, ErrorsSayWhatDoesNotFit) {
  auto a = problem(RecurrentCell::lstm, DType::f32, 2, 3);
  a.gates = zeros({2, 9}, DType::f32);
  try {
    recurrent_cell(a);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "recurrent_cell: gates must be f32[2,12] to match hidden [2,3], got f32[2,9]");
  }
}

}  // namespace
}  // namespace lithe::kernels
