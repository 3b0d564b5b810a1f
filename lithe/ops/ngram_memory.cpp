#include "lithe/ops/ngram_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lithe/base/threads.h"
#include "lithe/kernels/kernel.h"
#include "lithe/ops/ngram.h"

namespace lithe {
namespace {

// Those of BLT's encoder, by their order.
constexpr std::array<uint64_t, 11> kRollingPrimes{1000000007, 5915587277, 1500450271, 3267000013,
                                                  5754853343, 4093082899, 9576890767, 3628273133,
                                                  2860486313, 5463458053, 3367900313};
constexpr double kLeast = 1e-6;  // of |s|, so that its root has a slope

bool is_prime(int64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (int64_t f = 3; f * f <= n; f += 2)
    if (n % f == 0) return false;
  return true;
}

void check_recent(const char* op, const Tensor& recent, int64_t size) {
  check(recent.dtype() == DType::i32 && recent.shape().rank() == 2 && recent.cols() >= size, op,
        "recent tokens must be i32 [N, ", size, " or more], got ", recent.dtype(), recent.shape());
}

double at_least(double s) { return std::copysign(std::max(std::abs(s), kLeast), s); }

}  // namespace

NgramHashes NgramHashes::of(const Choice& choice) {
  NgramHashes out{.max_size = choice.max_size,
                  .heads = choice.heads,
                  .multipliers = choice.multipliers,
                  .primes = {},
                  .folded_ids = choice.folded_ids};
  if (out.multipliers.empty())
    for (int64_t k = 0; k < out.max_size; ++k)
      out.multipliers.push_back(int64_t(split_mix(split_mix(uint64_t(choice.seed)) ^ uint64_t(k)) >> 32 | 1));
  check_usage(int64_t(out.multipliers.size()) == out.max_size, "engram", "there are ", out.multipliers.size(),
              " multipliers, max_ngram_size is ", out.max_size, "; give one for each token of an n-gram");
  for (const int64_t m : out.multipliers)
    check_usage(m > 0 && m % 2 && m < int64_t(1) << 32, "engram", "multiplier ", m,
                " must be odd and below 2^32, so that products fit 63 bits");
  for (int64_t p = choice.buckets; int64_t(out.primes.size()) < out.tables(); ++p)
    if (is_prime(p)) out.primes.push_back(p);
  check_usage(out.rows() < int64_t(1) << 31, "engram", "the tables have ", out.rows(),
              " rows together, more than ids of 31 bits reach; lower num_buckets");
  out.none = out.folded_ids.empty() ? (int64_t(1) << 31) - 1 : 0;
  for (const int64_t id : out.folded_ids) {
    check_usage(id >= 0 && id < (int64_t(1) << 31) - 1, "engram", "folded_ids has ", id,
                "; they are 0 or more, below 2^31 - 1");
    out.none = std::max(out.none, id + 1);
  }
  return out;
}

int64_t NgramHashes::rows() const { return std::accumulate(primes.begin(), primes.end(), int64_t(0)); }

Tensor ngram_memory_rows(const Tensor& recent, const NgramHashes& of) {
  check_recent("ngram_memory_rows", recent, of.max_size);
  const Tensor out = empty({recent.rows() * of.tables()}, DType::i32, recent.device());
  if (out.is_meta()) return out;
  const auto folded = [&](int32_t id) {
    if (id < 0) return uint64_t(of.none);
    if (of.folded_ids.empty()) return uint64_t(id);
    check(id < int64_t(of.folded_ids.size()), "ngram_memory_rows", "token ", id, " is beyond the ",
          of.folded_ids.size(), " folded ids");
    return uint64_t(of.folded_ids[size_t(id)]);
  };
  int32_t* to = out.data<int32_t>();
  for (int64_t n = 0; n < recent.rows(); ++n) {
    const int32_t* token = recent.data<int32_t>() + n * recent.cols();
    uint64_t h = folded(token[0]) * uint64_t(of.multipliers[0]);
    int64_t begin = 0;
    for (int64_t order = 2; order <= of.max_size; ++order) {
      h ^= folded(token[order - 1]) * uint64_t(of.multipliers[size_t(order - 1)]);
      for (int64_t j = 0; j < of.heads; ++j) {
        const int64_t prime = of.primes[size_t((order - 2) * of.heads + j)];
        *to++ = int32_t(begin + int64_t(h % uint64_t(prime)));
        begin += prime;
      }
    }
  }
  return out;
}

int64_t rolling_hash_functions() { return int64_t(kRollingPrimes.size()); }

Tensor rolling_hash_ids(const Tensor& recent, int64_t size, int64_t function, int64_t buckets) {
  check_recent("rolling_hash_ids", recent, size);
  check(function >= 0 && function < rolling_hash_functions() && buckets >= 1, "rolling_hash_ids", "there are ",
        rolling_hash_functions(), " functions over at least one bucket, got number ", function, " over ", buckets);
  const Tensor out = empty({recent.rows()}, DType::i32, recent.device());
  for (int64_t n = 0; n < recent.rows() && !out.is_meta(); ++n) {
    const int32_t* token = recent.data<int32_t>() + n * recent.cols();
    uint64_t sum = 0, power = 1;
    for (int64_t k = size; k-- > 0; power *= kRollingPrimes[size_t(function)])
      sum += uint64_t(std::max(token[k], 0)) * power;
    const int64_t rest = int64_t(sum) % buckets;
    out.data<int32_t>()[n] = int32_t(rest < 0 ? rest + buckets : rest);
  }
  return out;
}

Var memory_gate(const Var& key, const Var& query, const Var& value, Tensor* shown) {
  check(key.shape() == query.shape() && key.shape() == value.shape() && key.dtype() == query.dtype() &&
            key.dtype() == value.dtype(),
        "memory_gate", "key, query and value must be alike, got ", key.dtype(), key.shape(), ", ", query.dtype(),
        query.shape(), " and ", value.dtype(), value.shape());
  const int64_t rows = key.rows(), width = key.cols();
  const Tensor y = empty(key.shape(), key.dtype(), key.device()),
               products = empty({rows}, DType::f64, key.device());  // s
  kernels::book_cost("memory_gate", {3.0 * double(y.numel()) + 8.0 * double(rows), 4.0 * double(y.bytes())});
  const auto gate_of = [](double s) { return 1 / (1 + std::exp(-std::copysign(std::sqrt(std::abs(at_least(s))), s))); };
  if (!y.is_meta())
    dispatch_float(y.dtype(), [&]<class T>() {
      parallel_for(rows, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) {
          const T *k = key.value().data<T>() + n * width, *q = query.value().data<T>() + n * width,
                  *v = value.value().data<T>() + n * width;
          double s = 0;
          for (int64_t c = 0; c < width; ++c) s += double(k[c]) * double(q[c]);
          products.data<double>()[n] = s /= std::sqrt(double(width));
          const double gate = gate_of(s);
          for (int64_t c = 0; c < width; ++c) y.data<T>()[n * width + c] = T(gate * double(v[c]));
        }
      });
    });
  if (shown) {
    *shown = empty({rows}, DType::f32, key.device());
    for (int64_t n = 0; n < rows && !y.is_meta(); ++n) set_value(*shown, n, gate_of(products.data<double>()[n]));
  }
  return record("memory_gate", {key, query, value}, y, [=](const Tensor& dy, Grads& g) {
    const auto dk = g.into(key), dq = g.into(query), dv = g.into(value);
    kernels::book_cost("memory_gate", {7.0 * double(dy.numel()) + 12.0 * double(rows), 7.0 * double(dy.bytes())});
    if (dy.is_meta()) return;
    dispatch_float(dy.dtype(), [&]<class T>() {
      const auto put = [](const Grads::Into& into, int64_t i, double x) {
        if (T* to = into ? into.to.data<T>() : nullptr) to[i] = T(into.accumulate ? double(to[i]) + x : x);
      };
      parallel_for(rows, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) {
          const T *k = key.value().data<T>(), *q = query.value().data<T>(), *v = value.value().data<T>();
          const double s = products.data<double>()[n], gate = gate_of(s);
          double dgate = 0;
          for (int64_t i = n * width; i < (n + 1) * width; ++i) dgate += double(dy.data<T>()[i]) * double(v[i]);
          const double slope = std::abs(s) > kLeast ? 0.5 / std::sqrt(std::abs(s)) : 0,
                       ds = dgate * gate * (1 - gate) * slope / std::sqrt(double(width));
          for (int64_t i = n * width; i < (n + 1) * width; ++i) {
            put(dk, i, ds * double(q[i]));
            put(dq, i, ds * double(k[i]));
            put(dv, i, gate * double(dy.data<T>()[i]));
          }
        }
      });
    });
  });
}

}  // namespace lithe
