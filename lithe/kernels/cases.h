// What `lithe bench` times of the kernels, and tests run on meta tensors. A family's cases.cpp defines
//   void add_cases_<family>(KernelCases&)
// which is found by the name of its folder.
#pragma once

#include <cmath>
#include <functional>
#include <memory>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// What bounds a case beside memory: products run in the type of the rows.
enum class Compute { f32, products, int8 };
/// How its bytes pass: read alone, or a third or more of them written.
enum class Traffic { read, copy };

struct KernelCase {
  std::string name;
  Cost cost;
  Compute compute;
  Traffic traffic;
  std::function<void()> run;
};

/// Takes the cases of all families for rows of one type, and has data for them. The same serve all: `x` and `u` are
/// only read, `y` and `z` only written, whatever stands in them. 64 MiB each in f32, beyond most caches.
class KernelCases {
 public:
  static constexpr int64_t rows = 8192, columns = 2048;

  /// `untyped`: kernels that have no type of rows add their cases, too. On the meta device cases book costs and
  /// workspace alone.
  KernelCases(DType type, bool untyped, Device device = Device::cpu);

  const DType type;
  const bool untyped;
  const Device device;
  Tensor x, u, y, z;               // [rows, columns]
  Tensor vector, vector_grad;      // f32 [columns]
  Tensor row_numbers, row_scales;  // f32 [rows]; numbers are written
  Tensor ids;                      // i32 [rows], below rows
  std::vector<KernelCase> cases;

  /// Numbers of [-0.5, 0.5), or integers; zeros; i32 ids below a bound.
  Tensor filled(Shape shape, DType of) const;
  Tensor cleared(Shape shape, DType of) const { return zeros(shape, of, device); }
  Tensor ids_below(int64_t count, int64_t bound) const;
  /// The first numbers of one of the data in another shape.
  static Tensor part(const Tensor& all, Shape shape) {
    return all.reshape({all.numel()}).slice(0, shape.numel()).reshape(shape);
  }

  void add(std::string name, Cost cost, Compute compute, Traffic traffic, std::function<void()> run) {
    cases.push_back({std::move(name), cost, compute, traffic, std::move(run)});
  }
  /// A kernel whose data come from memory and go there. cost() counts each operand once; those in `updated` are read
  /// and written, so they pass twice.
  template <class Args, class Kernel>
  void pass(const char* name, Kernel kernel, const Args& args, const std::vector<Tensor>& updated = {}) {
    Cost moved = cost(args);
    for (const Tensor& t : updated) moved.bytes += double(t.bytes());
    add(cat(name, " ", type), moved, Compute::f32, Traffic::copy, [=] { kernel(args); });
  }
};

/// The functions of all families, in the order of their folders' names.
extern const std::vector<void (*)(KernelCases&)> kAddCases;

}  // namespace lithe::kernels
