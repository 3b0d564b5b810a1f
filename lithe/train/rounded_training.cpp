#include "lithe/train/rounded_training.h"

#include <fnmatch.h>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/threads.h"
#include "lithe/model/packable.h"
#include "lithe/model/rounding.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

// spec: hpc.qat | training | products read weights rounded as `lithe quantize` rounds them, and rows rounded to 8, 4 or
// 2 bits; gradients pass straight through inside the clip range | TB 6.4.9
class RoundedView final : public View {
 public:
  RoundedView(const Parameter& p, bool by_rows, const WeightIntegers& as, int64_t activation_bits, DType compute)
      : as_(as), activation_bits_(int(activation_bits)), copy_(empty(p.master.shape(), compute, p.master.device())) {
    const Shape shape = p.master.shape();
    matrix_ = {.format = as.format,
               .outputs = shape[by_rows ? 0 : 1],
               .inputs = shape[by_rows ? 1 : 0],
               .group = as.group,
               .by_rows = by_rows,
               .name = p.name};
    if (clips()) steps_ = empty({matrix_.outputs, matrix_.groups()}, DType::bf16, p.master.device());
  }

  void refresh(const Tensor& master) override {
    const MemoryScope memory(MemoryClass::workspace);
    if (master.is_meta()) return;
    const kernels::QuantizedTensors integers = round_matrix(master, matrix_, as_);
    write_numbers(integers, matrix_, copy_);
    if (clips()) copy_into(steps_, integers.scales);
  }

  Var read(const Var& master) const override { return numbers(master).with_rounded_inputs(activation_bits_); }

  int64_t bytes() const override { return copy_.bytes(); }

 private:
  WeightIntegers as_;
  int activation_bits_;
  kernels::PackedMatrix matrix_;  // without contents
  Tensor copy_, steps_;           // steps bf16 [outputs, groups] of the copy

  // The copy, whose gradient passes straight through to the master.
  Var numbers(const Var& master) const {
    if (!clips() || !recording() || !master.needs_grad()) return Var(copy_, master.ref());
    return record(
        "rounded_weight", {master}, copy_,
        [w = master.value(), steps = steps_, m = matrix_, as = as_, master = master.ref()](const Tensor& dy, Grads& g) {
          if (const auto dw = g.into(master)) pass_inside(w, steps, m, as, dy, dw);
        });
  }

  // The largest magnitude of an output is the largest integer of 8 bits: nothing lies beyond.
  bool clips() const { return as_.format == kernels::PackedFormat::int4; }

  // dw (+)= dy where w / step rounds to an integer that there is.
  static void pass_inside(const Tensor& w, const Tensor& steps, const kernels::PackedMatrix& m,
                          const WeightIntegers& as, const Tensor& dy, const Grads::Into& dw) {
    if (w.is_meta()) return;
    const Tensor wide = dw.to.dtype() == dy.dtype() ? dy : convert(dy, dw.to.dtype());
    dispatch_float(dw.to.dtype(), [&]<class T>() {
      const T* from = wide.data<T>();
      T* to = dw.to.data<T>();
      dispatch_float(w.dtype(), [&]<class W>() {
        parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t n = begin; n < end; ++n)
            for (int64_t k = 0; k < m.inputs; ++k) {
              const int64_t i = m.by_rows ? n * m.inputs + k : k * m.outputs + n;
              const auto step = float(steps.data<bf16>()[n * m.groups() + k / m.group]);
              const float v = step == 0 ? 0 : float(w.data<W>()[i]) / step;
              const bool inside = v >= float(as.least) - 0.5f && v <= float(as.most) + 0.5f;
              to[i] = T((dw.accumulate ? float(to[i]) : 0) + (inside ? float(from[i]) : 0));
            }
        });
      });
    });
  }
};

}  // namespace

void read_rounded(Model& model, const RoundedTraining& config) {
  if (!config.on()) return;
  const WeightIntegers as = weight_integers(config.weights, config.group_size);
  std::map<std::string, Packable> able = packable_matrices(model.config());
  std::vector<std::string> names;
  for (const Parameter& p : model.parameters().all()) names.push_back(p.name);
  for (const std::string& pattern : config.keep) {
    bool any = false;
    for (const std::string& name : names)
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) any = true, able.erase(name);
    check_usage(any, "train", "rounding.keep names '", pattern, "', and no parameter is called so",
                did_you_mean(pattern, names), " (lithe plan RECIPE)");
  }
  check_usage(!able.empty(), "train", "rounding.keep leaves no matrix to round; keep fewer, or set weights: none");
  const MemoryScope memory(MemoryClass::weights);
  for (Parameter& p : model.parameters().all()) {
    const auto found = able.find(p.name);
    if (found == able.end()) continue;
    // What look-ups alone read meets no product.
    p.read_through(std::make_shared<RoundedView>(
        p, found->second.by_rows, as, found->second.product ? config.activation_bits : 0, model.compute_dtype()));
  }
}

}  // namespace lithe
