#include <cmath>

#include "lithe/model/packable.h"
#include "lithe/model/rounding.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

// What is read of a weight: rows that meet it are rounded as integer products round them, and an adapter stands beside.
class Adapted final : public View {
 public:
  Adapted(int bits, std::shared_ptr<const LowRank> beside) : bits_(bits), beside_(std::move(beside)) {}
  void refresh(const Tensor&) override {}
  Var read(const Var& master) const override { return master.with_rounded_inputs(bits_).with_low_rank(beside_); }
  int64_t bytes() const override { return 0; }

 private:
  int bits_;
  std::shared_ptr<const LowRank> beside_;
};

struct Learned {
  double loss = 0;
  std::map<std::string, Tensor> gradients;  // of both matrices of each adapter
};

// The loss of a training pass over the model's weights, of which those in `integers` are integers or what these stand
// for, with an adapter of rank 2 beside each linear map.
Learned learn(const PartCase& c, const std::map<std::string, Packable>& able, bool as_integers, uint64_t seed) {
  const auto model = build(c, DType::f32, DType::f32);
  kit::randomise(model->parameters(), 3);
  std::map<std::string, std::shared_ptr<const LowRank>> adapters;
  for (Parameter& p : model->parameters().all()) {
    const auto found = able.find(p.name);
    if (found == able.end()) continue;
    const auto [by_rows, product] = found->second;
    const Tensor numbers = p.master.value();
    auto m = std::make_shared<kernels::PackedMatrix>();
    // Rows of a table in 4 bits would be full of halves that the next product rounds.
    const bool four = found->second.adapts();
    m->format = four ? kernels::PackedFormat::int4 : kernels::PackedFormat::int8;
    m->group = four ? 32 : 0, m->name = p.name, m->by_rows = by_rows;
    m->outputs = numbers.dim(by_rows ? 0 : 1), m->inputs = numbers.dim(by_rows ? 1 : 0);
    const auto integers = round_matrix(numbers, *m);
    if (as_integers) {
      kernels::pack(*m, integers);
      p.master = Var(m, DType::f32);
    } else {
      write_numbers(integers, *m, numbers);
      p.master = Var(numbers);
    }
    if (found->second.adapts()) {
      const auto key = adapters.size() * 2;
      adapters[p.name] = std::make_shared<const LowRank>(
          LowRank{Var::leaf(kit::normal({m->inputs, 2}, DType::f32, key, 0.1)),
                  Var::leaf(kit::normal({2, m->outputs}, DType::f32, key + 1, 0.1)), 2.0});
    }
    const auto beside = adapters.find(p.name);
    p.view =
        std::make_shared<Adapted>(as_integers || !product ? 0 : 8, beside == adapters.end() ? nullptr : beside->second);
  }
  const kit::Batch batch = kit::random_batch({4, 1, 6}, model->config(), seed);
  Learned out;
  Tape tape;
  const Var loss = kit::loss(*model, batch, kit::labels_for(*model, batch), 0.1, 1);
  out.loss = value_at(loss.value(), 0);
  tape.backward(loss);
  for (const auto& [name, adapter] : adapters) {
    out.gradients[name + " a"] = adapter->a.grad();
    out.gradients[name + " b"] = adapter->b.grad();
  }
  return out;
}

std::string compare(const PartCase& c, const std::map<std::string, Packable>& able, uint64_t seed) {
  const Learned found = learn(c, able, true, seed), want = learn(c, able, false, seed);
  constexpr double kRounding = 1e-2;
  if (std::abs(found.loss - want.loss) > kRounding * std::abs(want.loss))
    return cat("loss ", found.loss, " over integers, ", want.loss, " over the numbers that they stand for");
  for (const auto& [name, gradient] : want.gradients) {
    const Tensor& other = found.gradients.at(name);
    if (gradient.defined() != other.defined()) return cat(name, ": has a gradient over one of both alone");
    if (!gradient.defined()) continue;
    double size = 0, apart = 0;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      size += std::pow(value_at(gradient, i), 2);
      apart += std::pow(value_at(other, i) - value_at(gradient, i), 2);
    }
    if (std::sqrt(apart) > kRounding * std::max(std::sqrt(size), 1e-3))
      return cat(name, ": gradients differ by ", std::sqrt(apart), ", their length is ", std::sqrt(size));
  }
  return "";
}

}  // namespace

std::string check_adapters_over_integers(const PartCase& c) {
  const std::map<std::string, Packable> able = packable_matrices(config_of(c));
  std::string wrong;
  // Sums in another order round a number beside a half to the other integer now and then; what is wrong is wrong with
  // all tokens.
  for (const uint64_t seed : {5, 7, 8})
    if (wrong = compare(c, able, seed); wrong.empty()) break;
  return wrong;
}

}  // namespace lithe::conformance
