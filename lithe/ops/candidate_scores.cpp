#include "lithe/ops/candidate_scores.h"

#include <set>
#include <type_traits>

#include "lithe/base/threads.h"
#include "lithe/kernels/kernel.h"
#include "lithe/ops/ngram.h"

namespace lithe {

Var candidate_scores(const Var& x, const Tensor& codes) {
  const int64_t tables = codes.cols(), count = codes.rows(), rows = x.rows(), width = x.cols(), each = width / tables;
  check(width % tables == 0 && codes.dtype() == DType::i32, "candidate_scores", "codes must be i32 [W,K], K dividing ",
        width, ", got ", codes.dtype(), codes.shape());
  const Tensor y = empty({rows, count}, x.dtype(), x.device());
  const auto book = [=](const Tensor& wide) {
    kernels::book_cost("candidate_scores", {double(rows * count * tables), double(x.value().bytes() + wide.bytes())});
  };
  book(y);
  if (!y.is_meta())
    dispatch_float(y.dtype(), [&]<class T>() {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t n = begin; n < end; ++n) {
          const T* from = x.value().data<T>() + n * width;
          T* to = y.data<T>() + n * count;
          const int32_t* code = codes.data<int32_t>();
          for (int64_t w = 0; w < count; ++w) {
            Wide sum = 0;
            for (int64_t k = 0; k < tables; ++k) sum += Wide(from[k * each + *code++]);
            to[w] = T(sum);
          }
        }
      });
    });
  return record("candidate_scores", {x}, y, [=, x = x.ref()](const Tensor& dy, Grads& g) {
    const Tensor dx = g.into_zeroed(x);
    book(dy);
    if (dy.is_meta()) return;
    dispatch_float(dy.dtype(), [&]<class T>() {
      parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
        std::vector<double> sums(static_cast<size_t>(width));
        for (int64_t n = begin; n < end; ++n) {
          std::fill(sums.begin(), sums.end(), 0);
          const int32_t* code = codes.data<int32_t>();
          for (int64_t w = 0; w < count; ++w)
            for (int64_t k = 0; k < tables; ++k)
              sums[size_t(k * each + *code++)] += double(dy.data<T>()[n * count + w]);
          for (int64_t c = 0; c < width; ++c) {
            T& to = dx.data<T>()[n * width + c];
            to = T(double(to) + sums[size_t(c)]);
          }
        }
      });
    });
  });
}

Tensor label_codes(const Tensor& labels, const Tensor& codes) {
  const int64_t tables = codes.cols();
  const Tensor out = empty({labels.numel() * tables}, DType::i32, labels.device());
  for (int64_t n = 0; n < labels.numel() && !out.is_meta(); ++n) {
    const int32_t label = labels.data<int32_t>()[n];
    check(label < codes.rows(), "hash_codes", "label ", label, " at row ", n, " is not below ", codes.rows(),
          ", the number of candidates");
    for (int64_t k = 0; k < tables; ++k)
      out.data<int32_t>()[n * tables + k] = label < 0 ? -1 : codes.data<int32_t>()[label * tables + k];
  }
  return out;
}

Tensor hashed_codes(int64_t candidates, int64_t tables, int64_t count, int64_t seed, Device device) {
  double combinations = 1;
  for (int64_t k = 0; k < tables; ++k) combinations *= double(count);
  check_usage(combinations >= double(candidates), "hash_codes", tables, " tables of ", count,
              " codes have fewer combinations than the ", candidates, " candidates; raise num_tables or num_codes");
  const Tensor out = empty({candidates, tables}, DType::i32, device);
  std::set<std::vector<int32_t>> taken;
  for (int64_t w = 0; w < candidates && !out.is_meta(); ++w) {
    std::vector<int32_t> code(static_cast<size_t>(tables));
    for (uint64_t attempt = 0;; ++attempt) {
      for (size_t k = 0; k < code.size(); ++k)
        code[k] = int32_t(split_mix(split_mix(split_mix(uint64_t(seed)) ^ (attempt << 32 | k)) ^ uint64_t(w)) %
                          uint64_t(count));
      if (taken.insert(code).second) break;
    }
    std::copy(code.begin(), code.end(), out.data<int32_t>() + w * tables);
  }
  return out;
}

}  // namespace lithe
