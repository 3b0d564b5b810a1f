#include "lithe/kernels/quantized_product/quantized_product.h"

#include "lithe/base/threads.h"
#include "lithe/kernels/checks.h"
#include "lithe/kernels/quantized_product/cpu.h"
#include "lithe/kernels/quantized_product/reference.h"
#include "lithe/kernels/tile_support.h"

namespace lithe::kernels {
namespace {

void product_ref(const QuantizedProductArgs& a) {
  const bool narrow = a.x.dtype() == DType::bf16;
  if (!narrow)
    ref::quantized_product<float, float>(a);
  else if (a.y.dtype() == DType::f32)
    ref::quantized_product<bf16, float>(a);
  else
    ref::quantized_product<bf16, bf16>(a);
}

void products_ref(const QuantizedProducts& products) {
  for (const QuantizedProduct& p : products.all) product_ref(*p.args);
}

void gather_ref(const PackedGather& g) {
  const PackedGatherArgs& a = *g.args;
  if (a.out.dtype() == DType::bf16)
    ref::packed_gather<bf16>(a);
  else
    ref::packed_gather<float>(a);
}

// Rows that vectors read weights for as fast as they come, or that are few for tiles whose sums are scaled group by
// group, and inputs of a group that fill too little of a tile. Emulated tiles have other vectors beside them, which
// round otherwise, and take all.
constexpr int64_t kTileFewRows = 8, kTileFewRowsOfGroups = 15, kTileFewInputs = 16;
const char* why_no_tiles(const PackedMatrix& w, int64_t M) {
  if (can_run(Isa::amx_emulated)) return nullptr;
  const bool by_groups = w.group && !whole_scales(w.format);
  if (by_groups && w.group <= kTileFewInputs) return "small groups are multiplied faster by vectors";
  return M <= (by_groups ? kTileFewRowsOfGroups : kTileFewRows) ? "few rows are read faster by vectors" : nullptr;
}
const char* refuse_tiles(const QuantizedProducts& products) {
  return why_no_tiles(*products.all[0].args->w, products.all[0].M);
}

int64_t workspace_of(const PackedMatrix& w, int64_t M) {
  if (reference_only()) return 0;
  if (tiles_can_run() && !why_no_tiles(w, M)) return QuantizedTiles(w, M, threads()).bytes;
  const Isa isa = machine_isa();
  const bool pairs = isa == Isa::avx2 || isa == Isa::avx512;  // cpu_tile.h: kPairs
  return quantized_workspace(w, M, pairs && !w.group ? 2 : 1);
}

void check_matrix(const char* op, const PackedMatrix* w) { check(w && w->data, op, "needs a packed matrix"); }

void check_product(const char* op, const QuantizedProductArgs& args) {
  check_matrix(op, args.w);
  const auto& [x, matrix, y, bias] = args;
  const PackedMatrix& w = *matrix;
  check(integers(w.format), op, "'", w.name, "' holds ", name_of(w.format), " numbers; gemm multiplies with those");
  check(x.defined() && y.defined() && x.cols() == w.inputs && y.shape() == Shape{x.rows(), w.outputs}, op,
        "x must be [M,", w.inputs, "] and y [M,", w.outputs, "] for the weights '", w.name, "', got ", x, " and ", y);
  check((x.dtype() == DType::f32 && y.dtype() == DType::f32) ||
            (x.dtype() == DType::bf16 && (y.dtype() == DType::f32 || y.dtype() == DType::bf16)),
        op, "types must be f32 -> f32 or bf16 -> bf16 or f32, got ", x.dtype(), " -> ", y.dtype(),
        "; integer weights have no f64 products");
  check(!bias || (bias.dtype() == DType::f32 && bias.shape() == Shape{w.outputs}), op, "bias must be f32[", w.outputs,
        "], got ", bias);
  check(x.device() == y.device() && w.data.device() == x.device(), op, "x, y and the weights must be on one device");
  check_alias(op, {"y", y}, {}, {{"x", x}, {"the weights", w.data}});
}

}  // namespace

Cost cost(const QuantizedProductArgs& a) {
  return {2 * double(a.y.numel()) * double(a.w->inputs), bytes_of({a.x, a.y, a.bias}) + double(a.w->bytes())};
}

// spec: hpc.int_matmul | kernel | D(Q(a) Q(A)): 8-bit rows x 8- or 4-bit weights, exact 32-bit sums | TB 6.4.9
void quantized_products(std::span<const QuantizedProductArgs> products) {
  const char* op = "quantized_product";
  check(!products.empty(), op, "needs a product");
  const QuantizedProductArgs& one = products[0];
  for (const QuantizedProductArgs& p : products) {
    check_product(op, p);
    const PackedMatrix &w = *p.w, &first = *one.w;
    check(p.x.raw() == one.x.raw() && p.x.shape() == one.x.shape() && p.y.dtype() == one.y.dtype() &&
              w.format == first.format && w.group == first.group,
          op, "products of one x must be alike in x, format, group and the type of y; '", first.name, "' is ",
          name_of(first.format), " of ", one.x, " -> ", one.y, ", '", w.name, "' ", name_of(w.format), " of ", p.x,
          " -> ", p.y);
    for (const QuantizedProductArgs* q = &one; q != &p; ++q) check_alias(op, {"y", p.y}, {}, {{"another y", q->y}});
  }
  const Tensor& x = one.x;
  const MemoryScope scope(MemoryClass::workspace);
  const Tensor workspace = empty({workspace_of(*one.w, x.rows())}, DType::u8, x.device());
  std::vector<QuantizedProduct> all;
  for (const QuantizedProductArgs& p : products) {
    const PackedMatrix& w = *p.w;
    if (p.y.numel() == 0) continue;
    all.push_back({.args = &p,
                   .M = x.rows(),
                   .N = w.outputs,
                   .K = w.inputs,
                   .w = static_cast<const uint8_t*>(w.data.raw()),
                   .w_scales = w.group ? nullptr : static_cast<const float*>(w.scales.raw()),
                   .bias = p.bias ? static_cast<const float*>(p.bias.raw()) : nullptr,
                   .group = w.group,
                   .groups = w.groups(),
                   .units = w.units(),
                   .panel_bytes = w.panel_bytes(),
                   .group_bytes = in_blocks(w.format) ? w.block_bytes() : w.group_bytes(),
                   .workspace = workspace.raw()});
  }
  if (all.empty()) return;
  run_kernel<QuantizedProducts>(op, x.is_meta(),
                                {LITHE_TILE_LIST(quantized_tiles, refuse_tiles),
                                 LITHE_CPU_BYTES(quantized_products, nullptr),
                                 {"ref", Isa::generic, nullptr, products_ref}},
                                {all});
}

Cost cost(const PackedGatherArgs& a) {
  const double read = double(a.ids.numel()) * double(a.table->bytes()) / double(a.table->outputs);
  return {double(a.out.numel()), bytes_of({a.ids, a.out}) + read};
}

void packed_gather(const PackedGatherArgs& args) {
  const char* op = "packed_gather";
  check_matrix(op, args.table);
  const PackedMatrix& t = *args.table;
  check(t.by_rows, op, "'", t.name, "' is packed by its columns; a table must be packed by its rows");
  check(args.out.defined() && args.out.cols() == t.inputs &&
            (args.out.dtype() == DType::f32 || args.out.dtype() == DType::bf16),
        op, "out must be f32 or bf16 [N,", t.inputs, "], got ", args.out);
  check_vector(op, {"ids", args.ids}, args.out.rows(), DType::i32, {"out", args.out});
  const PackedGather gather{
      .args = &args,
      .format = t.format,
      .N = args.ids.numel(),
      .K = t.inputs,
      .w = static_cast<const uint8_t*>(t.data.raw()),
      .w_scales = t.format == PackedFormat::int8 ? static_cast<const float*>(t.scales.raw()) : nullptr,
      .group = t.group,
      .panel_bytes = t.panel_bytes(),
      .group_bytes = in_blocks(t.format) ? t.block_bytes() : t.group_bytes(),
  };
  run_kernel<PackedGather>(op, args.out.is_meta(),
                           {LITHE_CPU_BYTES(packed_gather, nullptr), {"ref", Isa::generic, nullptr, gather_ref}},
                           gather);
}

}  // namespace lithe::kernels
