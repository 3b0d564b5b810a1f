#include "lithe/kernels/cases.h"
#include "lithe/kernels/embedding/embedding.h"

namespace lithe::kernels {

void add_cases_embedding(KernelCases& c) {
  c.pass("gather", gather, GatherArgs{.table = c.x, .ids = c.ids, .out = c.y});
  if (c.type != DType::f32) return;  // the gradients of tables are f32
  c.pass("scatter", scatter_add, ScatterAddArgs{.dout = c.x, .ids = c.ids, .dtable = c.z}, {c.z});
}

}  // namespace lithe::kernels
