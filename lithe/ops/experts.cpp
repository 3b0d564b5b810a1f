#include "lithe/ops/experts.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/gemm/grouped_gemm.h"
#include "lithe/kernels/head_dot/head_dot.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

Tensor in_type(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty(x.shape(), dtype, x.device());
  kernels::add({.a = x, .out = out});
  return out;
}

Tensor ids_of(const std::vector<int64_t>& numbers, Device device) {
  const Tensor ids = empty({int64_t(numbers.size())}, DType::i32, device);
  if (!ids.is_meta()) std::copy(numbers.begin(), numbers.end(), ids.data<int32_t>());
  return ids;
}

// The softmax of a row of n logits, in double.
template <class T>
void softmax(const T* logits, int64_t n, std::vector<double>& out) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, double(logits[i]));
  out.resize(size_t(n));
  for (int64_t i = 0; i < n; ++i) sum += out[size_t(i)] = std::exp(double(logits[i]) - largest);
  for (double& p : out) p /= sum;
}

constexpr int64_t kTokensAtOnce = 256;

void check_routed(const char* op, const Var& logits, const Routing& routing) {
  check(logits.shape() == Shape{routing.tokens, routing.experts}, op, "logits must be [", routing.tokens, ",",
        routing.experts, "], as they were routed, got ", logits.shape());
}

std::vector<Tensor> matrices(const std::vector<LinearMap>& maps) {
  std::vector<Tensor> out;
  for (const LinearMap& map : maps) out.push_back(map.w.value());
  return out;
}

// What the gradient of the rows reads, and whether transposed.
std::pair<std::vector<Tensor>, bool> gradient_matrices(const std::vector<LinearMap>& maps) {
  if (!maps[0].w.packed()) return {matrices(maps), true};
  std::vector<Tensor> out;
  for (const LinearMap& map : maps) out.push_back(kernels::numbers_by_outputs(*map.w.packed(), map.w.dtype()));
  return {out, false};
}

Tensor grouped_product(const Tensor& x, const std::vector<LinearMap>& maps, const std::vector<int64_t>& offsets) {
  const bool with_bias = maps[0].bias.defined();
  const Tensor y = empty({x.rows(), maps[0].w.dim(1)}, x.dtype(), x.device());
  if (!maps[0].w.packed() && !LowRankScope::any()) {
    std::vector<Tensor> biases;
    if (with_bias)
      for (const LinearMap& map : maps) biases.push_back(map.bias.value());
    kernels::grouped_gemm({.a = x, .c = y, .b = matrices(maps), .bias = biases, .offsets = offsets});
    return y;
  }
  for (size_t g = 0; g < maps.size(); ++g) {
    // On the meta device every matrix must be seen once, to find out that it can be packed.
    if (offsets[g] == offsets[g + 1] && !x.is_meta()) continue;
    const WeightProduct product{maps[g].w, with_bias ? maps[g].bias.value() : Tensor(),
                                y.slice(offsets[g], offsets[g + 1])};
    weight_products(x.slice(offsets[g], offsets[g + 1]), {&product, 1});
  }
  return y;
}

void check_maps(const char* op, const Var& x, const std::vector<LinearMap>& maps) {
  check(!maps.empty(), op, "needs at least one map");
  for (const auto& [w, bias] : maps)
    check(w.shape() == maps[0].w.shape() && w.dim(0) == x.cols() && bias.defined() == maps[0].bias.defined(), op,
          "maps must be [", x.cols(), ",M] of one shape to match x ", x.shape(), ", with biases or without; got ",
          w.shape());
}

std::vector<GradRef> inputs_of(std::vector<GradRef> inputs, const std::vector<LinearMap>& maps) {
  for (const auto& [w, bias] : maps) inputs.insert(inputs.end(), {w.ref(), bias.ref()});
  return inputs;
}

// dw (+)= rows^T dy, db += sums of dy, group by group.
void map_gradients(const Tensor& rows, const Tensor& dy, const std::vector<LinearMap>& maps,
                   const std::vector<int64_t>& offsets, Grads& g) {
  std::vector<Tensor> dw;
  std::vector<bool> accumulate;
  for (size_t e = 0; e < maps.size(); ++e) {
    if (const auto into = g.into(maps[e].w)) {
      dw.push_back(into.to);
      accumulate.push_back(into.accumulate);
    }
    if (const Tensor db = g.into_zeroed(maps[e].bias); db.defined() && offsets[e] < offsets[e + 1])
      kernels::row_affine_grad({.dy = dy.slice(offsets[e], offsets[e + 1]), .dshift = db});
  }
  if (dw.empty()) return;
  check(dw.size() == maps.size(), "grouped_linear", "the matrices of all experts are trained, or none");
  kernels::grouped_grad({.a = rows, .b = dy, .c = dw, .accumulate = accumulate, .offsets = offsets});
}

// The same maps without their low-rank adapters, and the two maps of each of these; all experts have one, or none.
struct Adapted {
  std::vector<LinearMap> maps, narrow, wide;
  double scale = 1;
};
Adapted taken_apart(const std::vector<LinearMap>& maps, DType type) {
  Adapted out;
  const auto in_type = [&](const Var& x) { return x.dtype() == type ? x : cast(x, type); };
  for (const LinearMap& map : maps) {
    out.maps.push_back({map.w.without_low_rank(), map.bias});
    if (const LowRank* low = map.w.low_rank()) {
      out.narrow.push_back({in_type(low->a), {}});
      out.wide.push_back({in_type(low->b), {}});
      out.scale = low->scale;
    }
  }
  check_usage(out.narrow.empty() || out.narrow.size() == maps.size(), "train", "adapters.targets names ",
              out.narrow.size(), " of ", maps.size(), " experts that one product reads; name all of them, or none");
  return out;
}

bool any_adapted(const std::vector<LinearMap>& maps) {
  return std::ranges::any_of(maps, [](const LinearMap& map) { return map.w.low_rank(); });
}

}  // namespace

Var router_logits(const Var& x, const Var& w) {
  check(w.shape().rank() == 2 && x.cols() == w.dim(0), "router_logits", "x ", x.shape(), " does not fit the weight ",
        w.shape());
  const Tensor y = empty({x.rows(), w.dim(1)}, wide_of(x.dtype()), x.device());
  kernels::gemm({.a = x.value(), .b = w.value(), .c = y, .rowwise = true});
  return record("router_logits", {x, w}, y, [x, w](const Tensor& dy, Grads& g) {
    const Tensor d = in_type(dy, x.dtype());
    if (const auto dw = g.into(w))
      kernels::gemm({.a = x.value(), .b = d, .c = dw.to, .transpose_a = true, .accumulate = dw.accumulate});
    if (const auto dx = g.into(x))
      kernels::gemm({.a = d, .b = w.value(), .c = dx.to, .transpose_b = true, .accumulate = dx.accumulate});
  });
}

// spec: moe.topk | operation | the largest logits of each token, ties to the lower index | TB Eq 6.115
Routing route(const Tensor& logits, int64_t chosen) {
  const int64_t N = logits.rows(), M = logits.cols(), R = N * chosen;
  check(chosen >= 1 && chosen <= M, "route", "can choose 1 to ", M, " experts, not ", chosen);
  std::vector<int64_t> choice(size_t(R), 0);
  if (logits.is_meta()) {
    for (int64_t r = 0; r < R; ++r) choice[size_t(r)] = r % M;
  } else {
    dispatch_float(logits.dtype(), [&]<class T>() {
      parallel_for(N, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
        std::vector<bool> taken;
        for (int64_t n = begin; n < end; ++n) {
          const T* l = logits.data<T>() + n * M;
          taken.assign(size_t(M), false);
          for (int64_t j = 0; j < chosen; ++j) {
            int64_t best = -1;
            for (int64_t i = 0; i < M; ++i)
              if (!taken[size_t(i)] && (best < 0 || l[i] > l[best])) best = i;
            taken[size_t(best)] = true;
            choice[size_t(n * chosen + j)] = best;
          }
        }
      });
    });
  }
  Routing out{.tokens = N, .experts = M, .chosen = chosen, .offsets = {}, .token = {}, .expert = {}, .row = {}};
  out.offsets.assign(size_t(M) + 1, 0);
  for (const int64_t e : choice) ++out.offsets[size_t(e) + 1];
  for (size_t e = 0; e < size_t(M); ++e) out.offsets[e + 1] += out.offsets[e];
  out.token.resize(size_t(R)), out.expert.resize(size_t(R)), out.row.resize(size_t(R));
  std::vector<int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  for (int64_t at = 0; at < R; ++at) {
    const int64_t e = choice[size_t(at)], r = next[size_t(e)]++;
    out.token[size_t(r)] = at / chosen;
    out.expert[size_t(r)] = e;
    out.row[size_t(at)] = r;
  }
  return out;
}

// g = softmax over the chosen:    dl_i = g_i (dg_i - sum_j g_j dg_j) for the chosen i.
// g = p, the softmax over all:    dl_m = p_m ([m chosen] dg_m - sum_j p_j dg_j).
Var expert_gates(const Var& logits, const Routing& routing, bool renormalise) {
  check_routed("expert_gates", logits, routing);
  const int64_t N = routing.tokens, M = routing.experts, k = routing.chosen;
  const Tensor gates = empty({N * k, 1}, logits.dtype(), logits.device());
  // Calls f(token, its logits, its row and expert of choice j, p), p over the chosen or all.
  const auto each = [logits = logits.value(), routing, renormalise, N, M, k](auto type, auto f) {
    using T = decltype(type);
    parallel_for(N, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
      std::vector<T> mine(static_cast<size_t>(k));
      std::vector<double> p;
      for (int64_t n = begin; n < end; ++n) {
        const T* l = logits.data<T>() + n * M;
        const int64_t* rows = &routing.row[size_t(n * k)];
        for (int64_t j = 0; j < k; ++j) mine[size_t(j)] = l[routing.expert[size_t(rows[j])]];
        softmax(renormalise ? mine.data() : l, renormalise ? k : M, p);
        f(n, rows, p);
      }
    });
  };
  const auto index = [routing, renormalise](const int64_t* rows, int64_t j) {
    return size_t(renormalise ? j : routing.expert[size_t(rows[j])]);
  };
  if (!gates.is_meta())
    dispatch_float(gates.dtype(), [&]<class T>() {
      each(T(), [&](int64_t, const int64_t* rows, const std::vector<double>& p) {
        for (int64_t j = 0; j < k; ++j) gates.data<T>()[rows[j]] = T(p[index(rows, j)]);
      });
    });
  return record("expert_gates", {logits}, gates,
                [each, index, routing, renormalise, logits = logits.ref(), M, k](const Tensor& dy, Grads& g) {
                  const auto dl = g.into(logits);
                  if (!dl.accumulate) fill_zero(dl.to);
                  if (dy.is_meta()) return;
                  dispatch_float(dy.dtype(), [&]<class T>() {
                    each(T(), [&](int64_t n, const int64_t* rows, const std::vector<double>& p) {
                      double mean = 0;
                      for (int64_t j = 0; j < k; ++j) mean += p[index(rows, j)] * double(dy.data<T>()[rows[j]]);
                      T* out = dl.to.data<T>() + n * M;
                      const auto add_to = [&](int64_t m, double d) { out[m] = T(double(out[m]) + d); };
                      for (int64_t j = 0; j < k; ++j)
                        add_to(routing.expert[size_t(rows[j])], p[index(rows, j)] * double(dy.data<T>()[rows[j]]));
                      if (renormalise)
                        for (int64_t j = 0; j < k; ++j) add_to(routing.expert[size_t(rows[j])], -mean * p[size_t(j)]);
                      else
                        for (int64_t m = 0; m < M; ++m) add_to(m, -mean * p[size_t(m)]);
                    });
                  });
                });
}

// d P_i / d l_m = p_i ([i = m] - p_m) / N for every token
Var balance_loss(const Var& logits, const Routing& routing, double factor) {
  check_routed("balance_loss", logits, routing);
  const int64_t N = routing.tokens, M = routing.experts;
  std::vector<double> share(static_cast<size_t>(M));  // factor M f_i / N
  for (size_t i = 0; i < size_t(M); ++i)
    share[i] = factor * double(M) * double(routing.offsets[i + 1] - routing.offsets[i]) /
               double(std::max<int64_t>(N * routing.chosen, 1)) / double(std::max<int64_t>(N, 1));
  const Tensor loss = empty({1}, logits.dtype(), logits.device());
  if (!loss.is_meta()) {
    double total = 0;
    dispatch_float(logits.dtype(), [&]<class T>() {
      std::vector<double> p;
      for (int64_t n = 0; n < N; ++n) {
        softmax(logits.value().data<T>() + n * M, M, p);
        for (size_t i = 0; i < size_t(M); ++i) total += share[i] * p[i];
      }
    });
    set_value(loss, 0, total);
  }
  return record("balance_loss", {logits}, loss, [logits, share, N, M](const Tensor& dy, Grads& g) {
    const auto dl = g.into(logits);
    if (dy.is_meta()) return;
    const double d = value_at(dy, 0);
    dispatch_float(logits.dtype(), [&]<class T>() {
      parallel_for(N, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
        std::vector<double> p;
        for (int64_t n = begin; n < end; ++n) {
          softmax(logits.value().data<T>() + n * M, M, p);
          double mean = 0;
          for (size_t i = 0; i < size_t(M); ++i) mean += share[i] * p[i];
          T* out = dl.to.data<T>() + n * M;
          for (size_t i = 0; i < size_t(M); ++i)
            out[i] = T(d * p[i] * (share[i] - mean) + (dl.accumulate ? double(out[i]) : 0));
        }
      });
    });
  });
}

RouterStatistics router_statistics(const Tensor& logits, const Routing& routing) {
  const int64_t N = routing.tokens, M = routing.experts;
  RouterStatistics out;
  for (size_t i = 0; i < size_t(M); ++i)
    out.load.push_back(double(routing.offsets[i + 1] - routing.offsets[i]) /
                       double(std::max<int64_t>(N * routing.chosen, 1)));
  std::vector<double> entropies(size_t(N), 0);
  dispatch_float(logits.dtype(), [&]<class T>() {
    parallel_for(N, kTokensAtOnce, [&](int64_t begin, int64_t end, int) {
      std::vector<double> p;
      for (int64_t n = begin; n < end; ++n) {
        softmax(logits.data<T>() + n * M, M, p);
        for (const double share : p) entropies[size_t(n)] -= share > 0 ? share * std::log(share) : 0;
      }
    });
  });
  for (const double entropy : entropies) out.entropy += entropy / double(std::max<int64_t>(N, 1));
  return out;
}

Var grouped_linear(const Var& given, const std::vector<LinearMap>& maps, const std::vector<int64_t>& offsets) {
  check_maps("grouped_linear", given, maps);
  if (any_adapted(maps)) {
    const Adapted a = taken_apart(maps, given.dtype());
    return add(grouped_linear(given, a.maps, offsets),
               grouped_linear(grouped_linear(given, a.narrow, offsets), a.wide, offsets), 1, a.scale);
  }
  const Var x = product_input(given, maps[0].w);
  const Tensor y = grouped_product(x.value(), maps, offsets);
  if (!recording()) return Var(y);
  return record_many("grouped_linear", inputs_of({x.ref()}, maps), {y},
                     [x, maps, offsets](const std::vector<Tensor>& dys, Grads& g) {
                       map_gradients(x.value(), dys[0], maps, offsets, g);
                       const auto dx = g.into(x);
                       if (!dx) return;
                       const auto [numbers, transposed] = gradient_matrices(maps);
                       kernels::grouped_gemm({.a = dys[0],
                                              .c = dx.to,
                                              .b = numbers,
                                              .bias = {},
                                              .offsets = offsets,
                                              .transpose_b = transposed,
                                              .accumulate = dx.accumulate});
                     })[0];
}

Var grouped_activated_linear(kernels::Activation kind, const Var& x, const Var& up, const std::vector<LinearMap>& maps,
                             const std::vector<int64_t>& offsets) {
  check_maps("grouped_activated_linear", x, maps);
  check(!up.defined() || up.shape() == x.shape(), "grouped_activated_linear",
        "gate and up must have equal shapes, got ", x.shape(), " and ", up.shape());
  if (maps[0].w.rounded_inputs() || any_adapted(maps))
    return grouped_linear(up.defined() ? gated(kind, x, up) : activate(kind, x), maps, offsets);
  const auto hidden = [kind, x, up] {
    Tensor a = empty_like(x.value());
    if (up.defined())
      kernels::gated({.kind = kind, .gate = x.value(), .up = up.value(), .y = a});
    else
      kernels::activation({.kind = kind, .x = x.value(), .bias = {}, .y = a});
    return a;
  };
  const Tensor y = grouped_product(hidden(), maps, offsets);
  if (!recording()) return Var(y);
  return record_many(
      "grouped_activated_linear", inputs_of({x.ref(), up.ref()}, maps), {y},
      [hidden, kind, x, up, maps, offsets](const std::vector<Tensor>& dys, Grads& g) {
        Tensor da = hidden();
        map_gradients(da, dys[0], maps, offsets, g);
        if (!x.needs_grad() && !(up.defined() && up.needs_grad())) return;
        const auto [numbers, transposed] = gradient_matrices(maps);
        kernels::grouped_gemm({.a = dys[0],
                               .c = da,  // its memory is free for the gradient now
                               .b = numbers,
                               .bias = {},
                               .offsets = offsets,
                               .transpose_b = transposed});
        if (!up.defined()) {
          kernels::activation_grad({.kind = kind, .x = x.value(), .bias = {}, .dy = da, .dx = da});
          return g.give(x, da);
        }
        Tensor dgate = empty_like(da);
        kernels::gated_grad({.kind = kind, .gate = x.value(), .up = up.value(), .dy = da, .dgate = dgate, .dup = da});
        g.give(x, dgate);
        g.give(up, da);
      })[0];
}

Var combine_rows(const Var& y, const Var& gates, const std::vector<std::vector<int64_t>>& picks,
                 const std::vector<int64_t>& owner) {
  check(!picks.empty() && int64_t(owner.size()) == y.rows(), "combine_rows", "each of the rows of y ", y.shape(),
        " needs an owner, got ", owner.size());
  check(!gates.defined() || gates.shape() == Shape{y.rows(), 1}, "combine_rows", "gates must be [", y.rows(),
        ",1] to match y ", y.shape(), ", got ", gates.defined() ? gates.shape() : Shape{});
  Tensor scaled = y.value();
  if (gates.defined()) {
    scaled = empty_like(y.value());
    kernels::head_dot_grad({.a = y.value(), .b = y.value(), .ds = gates.value(), .da = scaled, .db = {}});
  }
  const Tensor out = empty({int64_t(picks[0].size()), y.cols()}, y.dtype(), y.device());
  for (size_t j = 0; j < picks.size(); ++j)
    kernels::gather({.table = scaled, .ids = ids_of(picks[j], y.device()), .out = out, .accumulate = j > 0});
  const Tensor kept = gates.defined() && gates.needs_grad() ? y.value() : Tensor();
  return record("combine_rows", {y, gates}, out, [kept, y = y.ref(), gates, owner](const Tensor& dy, Grads& g) {
    const Tensor rows = empty({int64_t(owner.size()), dy.cols()}, dy.dtype(), dy.device());
    kernels::gather({.table = dy, .ids = ids_of(owner, dy.device()), .out = rows});
    if (kept.defined()) {
      const Tensor dgates = empty_like(gates.value());
      kernels::head_dot({.a = kept, .b = rows, .s = dgates});
      g.give(gates, dgates);
    }
    if (!y) return;
    if (!gates.defined()) return g.give(y, rows);
    const auto d = g.into(y);
    kernels::head_dot_grad(
        {.a = rows, .b = rows, .ds = gates.value(), .da = d.to, .db = {}, .accumulate_da = d.accumulate});
  });
}

}  // namespace lithe
