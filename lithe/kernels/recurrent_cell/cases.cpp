#include "lithe/kernels/cases.h"
#include "lithe/kernels/recurrent_cell/recurrent_cell.h"

namespace lithe::kernels {

// Many sequences side by side, so that memory counts and not the call.
void add_cases_recurrent_cell(KernelCases& c) {
  constexpr int64_t rows = 4096, d = 512;
  const auto part = [&](const Tensor& of, int64_t columns) { return c.part(of, {rows, columns}); };
  for (const RecurrentCell kind : {RecurrentCell::lstm, RecurrentCell::gru}) {
    const bool lstm = kind == RecurrentCell::lstm;
    const int64_t gates = gates_of(kind) * d;
    // The gates are read and written: their functions keep them finite however often this runs.
    RecurrentCellArgs args{.kind = kind, .gates = part(c.y, gates), .hidden = part(c.z, d)};
    if (lstm) {
      args.cell_before = c.cleared({rows, d}, DType::f32), args.cell = c.cleared({rows, d}, DType::f32);
    } else {
      args.recurrent = part(c.u, gates), args.before = part(c.x, d), args.kept = empty({rows, d}, c.type, c.device);
    }
    RecurrentCellGradArgs grad{
        .forward = args, .dhidden = part(c.x, d), .dgates = empty({rows, gates}, c.type, c.device)};
    if (lstm) grad.dcell = c.cleared({rows, d}, DType::f32);
    if (!lstm) grad.drecurrent = empty({rows, gates}, c.type, c.device);
    const std::string of = cat(lstm ? "lstm" : "gru", " cell ", c.type),
                      back = cat(lstm ? "lstm" : "gru", " cell backward ", c.type);
    c.add(of, cost(args), Compute::f32, Traffic::copy, [args] { recurrent_cell(args); });
    c.add(back, cost(grad), Compute::f32, Traffic::copy, [grad] { recurrent_cell_grad(grad); });
  }
}

}  // namespace lithe::kernels
