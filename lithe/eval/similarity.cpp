#include "lithe/eval/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/threads.h"

namespace lithe {
namespace {

constexpr int64_t kQueries = 64;    // compared with a row while it is in the cache
constexpr int64_t kRows = 1 << 16;  // whose scores are held at a time
constexpr int64_t kGrain = 256;     // rows a thread takes at least

void check_rows(const char* operation, const char* name, const Tensor& x) {
  check(x.defined() && x.dtype() == DType::f32 && x.device() == Device::cpu && x.shape().rank() == 2 && x.dim(1) >= 1,
        operation, name, " must be f32 [N, D] on the CPU with D >= 1, got ",
        x.defined() ? cat(x.dtype(), " ", x.shape()) : std::string("none"));
  const float* values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    check(std::isfinite(values[i]), operation, name, " must be finite, got ", values[i], " in row ", i / x.dim(1));
}

void check_widths(const char* operation, const Tensor& a, const Tensor& b) {
  check(a.dim(1) == b.dim(1), operation, "both sides must have rows of one width, got ", a.shape(), " and ", b.shape());
}

// The sum of f(a[i], b[i]) in f64, in eight interleaved parts that the compiler keeps in vectors.
template <class F>
double sum_over(const float* a, const float* b, int64_t n, F&& f) {
  std::array<double, 8> parts{};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t j = 0; j < 8; ++j) parts[size_t(j)] += f(double(a[i + j]), double(b[i + j]));
  for (int64_t j = 0; i < n; ++i, ++j) parts[size_t(j)] += f(double(a[i]), double(b[i]));
  return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

double dot(const float* a, const float* b, int64_t n) {
  return sum_over(a, b, n, [](double x, double y) { return x * y; });
}

// |x|^2 of each row.
std::vector<double> squares(const Tensor& x) {
  const int64_t width = x.dim(1);
  std::vector<double> out(size_t(x.dim(0)));
  parallel_for(x.dim(0), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = x.data<float>() + i * width;
      out[size_t(i)] = dot(row, row, width);
    }
  });
  return out;
}

// The rows of two tensors, compared one by one.
class Pairs {
 public:
  Pairs(const Tensor& a, const Tensor& b, Similarity measure) : a_(a), b_(b), measure_(measure), width_(a.dim(1)) {
    if (measure == Similarity::cosine) squares_a_ = squares(a), squares_b_ = squares(b);
  }
  float operator()(int64_t i, int64_t j) const {
    const float *a = a_.data<float>() + i * width_, *b = b_.data<float>() + j * width_;
    if (measure_ == Similarity::euclidean) {
      const double squared = sum_over(a, b, width_, [](double x, double y) { return (x - y) * (x - y); });
      return float(-std::sqrt(squared));
    }
    // The root of the product, not the product of roots: it is exact for a row with itself.
    const double lengths = std::sqrt(squares_a_[size_t(i)] * squares_b_[size_t(j)]);
    return lengths > 0 ? float(std::clamp(dot(a, b, width_) / lengths, -1.0, 1.0)) : 0.f;
  }

 private:
  Tensor a_, b_;
  Similarity measure_;
  int64_t width_;
  std::vector<double> squares_a_, squares_b_;
};

// The best k of what is offered in the order of indices; of equal scores the earlier stays.
class Best {
 public:
  explicit Best(int64_t k) : k_(size_t(k)) { heap_.reserve(k_); }
  void offer(float score, int64_t index) {
    if (heap_.size() == k_ && score <= heap_.front().score) return;
    if (heap_.size() == k_) {
      std::pop_heap(heap_.begin(), heap_.end(), before);
      heap_.pop_back();
    }
    heap_.push_back({score, index});
    std::push_heap(heap_.begin(), heap_.end(), before);
  }
  void write(int64_t* index, float* score) {
    std::sort_heap(heap_.begin(), heap_.end(), before);
    for (const Item& item : heap_) *index++ = item.index, *score++ = item.score;
  }

 private:
  struct Item {
    float score;
    int64_t index;
  };
  static bool before(const Item& a, const Item& b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
  }
  size_t k_;
  std::vector<Item> heap_;  // the worst in front
};

}  // namespace

Similarity similarity_of(const std::string& name) {
  if (name == "cosine") return Similarity::cosine;
  check_usage(name == "euclidean", "similarity", "must be cosine or euclidean, got '", name, "'");
  return Similarity::euclidean;
}

// spec: app.similarity | metric | cosine and Euclidean similarity of rows, nearest rows, centroids | TB 6.5.2, Fig 6.17
Tensor row_similarity(const Tensor& a, const Tensor& b, Similarity measure) {
  check_rows("row_similarity", "a", a);
  check_rows("row_similarity", "b", b);
  check(a.shape() == b.shape(), "row_similarity", "a and b must have one shape, got ", a.shape(), " and ", b.shape());
  const Pairs pairs(a, b, measure);
  const Tensor out = empty({a.dim(0)}, DType::f32);
  parallel_for(a.dim(0), kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out.data<float>()[i] = pairs(i, i);
  });
  return out;
}

Tensor all_similarities(const Tensor& a, const Tensor& b, Similarity measure) {
  check_rows("all_similarities", "a", a);
  check_rows("all_similarities", "b", b);
  check_widths("all_similarities", a, b);
  const Pairs pairs(a, b, measure);
  const int64_t n = a.dim(0), m = b.dim(0);
  const Tensor out = empty({n, m}, DType::f32);
  parallel_for(m, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = 0; block < n; block += kQueries)
      for (int64_t j = begin; j < end; ++j)
        for (int64_t i = block; i < std::min(n, block + kQueries); ++i) out.data<float>()[i * m + j] = pairs(i, j);
  });
  return out;
}

Neighbours nearest_rows(const Tensor& queries, const Tensor& rows, int64_t k, Similarity measure, bool without_self) {
  const char* name = "nearest_rows";
  check_rows(name, "queries", queries);
  check_rows(name, "rows", rows);
  check_widths(name, queries, rows);
  const int64_t q = queries.dim(0), n = rows.dim(0);
  check(!without_self || q == n, name, "without_self needs as many queries as rows, got ", q, " and ", n);
  check(k >= 1 && k <= n - without_self, name, "k must be between 1 and the number of ", without_self ? "other " : "",
        "rows, ", n - without_self, ", got ", k);
  const Pairs pairs(queries, rows, measure);
  Neighbours out{k, std::vector<int64_t>(size_t(q * k)), std::vector<float>(size_t(q * k))};
  std::vector<float> scores(size_t(std::min(q, kQueries) * std::min(n, kRows)));  // [queries, rows] of a block
  for (int64_t first = 0; first < q; first += kQueries) {
    const int64_t count = std::min(kQueries, q - first);
    std::vector<Best> best{size_t(count), Best(k)};
    for (int64_t base = 0; base < n; base += kRows) {
      const int64_t width = std::min(kRows, n - base);
      parallel_for(width, kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t j = begin; j < end; ++j)
          for (int64_t i = 0; i < count; ++i) scores[size_t(i * width + j)] = pairs(first + i, base + j);
      });
      parallel_for(count, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          for (int64_t j = 0; j < width; ++j)
            if (!without_self || base + j != first + i) best[size_t(i)].offer(scores[size_t(i * width + j)], base + j);
      });
    }
    for (int64_t i = 0; i < count; ++i)
      best[size_t(i)].write(out.index.data() + (first + i) * k, out.score.data() + (first + i) * k);
  }
  return out;
}

Tensor centroid(const Tensor& rows) {
  check_rows("centroid", "rows", rows);
  const int64_t n = rows.dim(0), width = rows.dim(1);
  check(n >= 1, "centroid", "there must be a row, got ", rows.shape());
  std::vector<double> sums(size_t(width), 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < width; ++c) sums[size_t(c)] += double(rows.data<float>()[i * width + c]);
  const Tensor out = empty({width}, DType::f32);
  for (int64_t c = 0; c < width; ++c) out.data<float>()[c] = float(sums[size_t(c)] / double(n));
  return out;
}

Tensor normalize_rows(const Tensor& rows) {
  check_rows("normalize_rows", "rows", rows);
  const std::vector<double> squared = squares(rows);
  const int64_t width = rows.dim(1);
  const Tensor out = empty_like(rows);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const double length = std::sqrt(squared[size_t(i / width)]);
    out.data<float>()[i] = length > 0 ? float(double(rows.data<float>()[i]) / length) : 0.f;
  }
  return out;
}

}  // namespace lithe
