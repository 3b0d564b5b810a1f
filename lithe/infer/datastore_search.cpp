// Nearest keys of a store: exact, or by an inverted file, in blocks that pass through memory.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/infer/datastore.h"
#include "lithe/kernels/gemm/gemm.h"

namespace lithe {
namespace {

constexpr int64_t kKeys = 1024;        // of a block
constexpr int64_t kSampleOfList = 64;  // keys that a list's centroid learns from
constexpr int kRounds = 8;             // of k-means

double squared_length(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

std::vector<float> squared_lengths(const Tensor& x) {
  std::vector<float> out(size_t(x.rows()));
  parallel_for(x.rows(), 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      out[size_t(i)] = float(squared_length(x.data<float>() + i * x.cols(), x.cols()));
  });
  return out;
}

// a b^T in f32, each row with the same bits whoever stands beside it.
Tensor products(const Tensor& a, const Tensor& b) {
  const Tensor out = empty({a.rows(), b.rows()}, DType::f32);
  kernels::gemm({.a = a, .b = b, .c = out, .transpose_b = true, .rowwise = true});
  return out;
}

// The nearest k of what is offered; of equal distances the earlier entry.
class Nearest {
 public:
  explicit Nearest(int64_t k) : k_(size_t(k)) {}
  void offer(float distance, int64_t entry) {
    if (!std::isfinite(distance)) return;  // of a damaged key
    const Item item{distance, entry};
    if (heap_.size() == k_) {
      if (!(item < heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    heap_.push_back(item);
    std::push_heap(heap_.begin(), heap_.end());
  }
  void write(int64_t* entries, float* distances) {
    std::sort_heap(heap_.begin(), heap_.end());
    for (size_t i = 0; i < k_; ++i) {
      const bool there = i < heap_.size();
      entries[i] = there ? heap_[i].entry : -1;
      distances[i] = there ? heap_[i].distance : std::numeric_limits<float>::infinity();
    }
  }

 private:
  struct Item {
    float distance;
    int64_t entry;
    bool operator<(const Item& o) const { return distance != o.distance ? distance < o.distance : entry < o.entry; }
  };
  size_t k_;
  std::vector<Item> heap_;  // the farthest in front
};

Tensor block_of(const Datastore& store, int64_t first, int64_t count) {
  const Tensor out = empty({count, store.info().width}, DType::f32);
  store.keys(first, count, out.data<float>());
  return out;
}

// Offers entries [begin, end) to the queries `who`.
void scan(const Datastore& store, const Tensor& queries, const std::vector<float>& lengths,
          const std::vector<int64_t>& who, int64_t begin, int64_t end, std::vector<Nearest>& nearest) {
  for (int64_t first = begin; first < end; first += kKeys) {
    const Tensor keys = block_of(store, first, std::min(kKeys, end - first));
    const std::vector<float> squares = squared_lengths(keys);
    const Tensor dots = products(queries, keys);
    parallel_for(int64_t(who.size()), 1, [&](int64_t from, int64_t to, int) {
      for (int64_t q = from; q < to; ++q) {
        const float length = lengths[size_t(who[size_t(q)])], *row = dots.data<float>() + q * keys.rows();
        Nearest& best = nearest[size_t(who[size_t(q)])];
        for (int64_t j = 0; j < keys.rows(); ++j)
          best.offer(std::max(0.f, length + squares[size_t(j)] - 2 * row[j]), first + j);
      }
    });
  }
}

Tensor rows_of(const Tensor& x, const std::vector<int64_t>& which) {
  const Tensor out = empty({int64_t(which.size()), x.cols()}, DType::f32);
  for (size_t i = 0; i < which.size(); ++i)
    std::copy_n(x.data<float>() + which[i] * x.cols(), x.cols(), out.data<float>() + int64_t(i) * x.cols());
  return out;
}

// The centroid nearest to each key: of equal ones the first.
std::vector<int32_t> lists_of(const Tensor& keys, const Tensor& centroids, const std::vector<float>& squares) {
  std::vector<int32_t> out(size_t(keys.rows()));
  const Tensor dots = products(keys, centroids);
  parallel_for(keys.rows(), 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = dots.data<float>() + i * centroids.rows();
      int64_t best = 0;
      for (int64_t c = 1; c < centroids.rows(); ++c)
        if (squares[size_t(c)] - 2 * row[c] < squares[size_t(best)] - 2 * row[best]) best = c;
      out[size_t(i)] = int32_t(best);
    }
  });
  return out;
}

// k-means of keys from all over the store.
Tensor cluster(const Datastore& store, int64_t lists) {
  const DatastoreInfo& info = store.info();
  const int64_t n = std::min(info.entries, lists * kSampleOfList), d = info.width;
  const Tensor sample = empty({n, d}, DType::f32), centroids = empty({lists, d}, DType::f32);
  for (int64_t i = 0; i < n; ++i) store.keys(i * info.entries / n, 1, sample.data<float>() + i * d);
  for (int64_t c = 0; c < lists; ++c)
    std::copy_n(sample.data<float>() + c * n / lists * d, d, centroids.data<float>() + c * d);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<float> squares = squared_lengths(centroids);
    std::vector<double> sums(size_t(lists * d), 0.0);
    std::vector<int64_t> counts(size_t(lists), 0);
    for (int64_t first = 0; first < n; first += kKeys) {
      const Tensor keys = sample.slice(first, std::min(n, first + kKeys));
      const std::vector<int32_t> of = lists_of(keys, centroids, squares);
      for (int64_t i = 0; i < keys.rows(); ++i) {
        ++counts[size_t(of[size_t(i)])];
        for (int64_t c = 0; c < d; ++c) sums[size_t(of[size_t(i)] * d + c)] += double(keys.data<float>()[i * d + c]);
      }
    }
    for (int64_t l = 0; l < lists; ++l)
      for (int64_t c = 0; c < d && counts[size_t(l)]; ++c)
        centroids.data<float>()[l * d + c] = float(sums[size_t(l * d + c)] / double(counts[size_t(l)]));
  }
  return centroids;
}

}  // namespace

NearestKeys nearest_keys(const Datastore& store, const Tensor& queries, int64_t k, int64_t probes) {
  const DatastoreInfo& info = store.info();
  check(queries.dtype() == DType::f32 && queries.cols() == info.width, "nearest_keys", "queries must be f32 [Q,",
        info.width, "], got ", queries);
  check(k >= 1 && probes >= 0, "nearest_keys", "k must be at least 1 and probes at least 0, got ", k, " and ", probes);
  const int64_t n = queries.rows();
  std::vector<Nearest> nearest(static_cast<size_t>(n), Nearest(k));
  const std::vector<float> lengths = squared_lengths(queries);
  if (probes == 0 || probes >= info.lists) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), int64_t(0));
    scan(store, queries, lengths, all, 0, info.entries, nearest);
  } else {
    const Tensor centroids = empty({info.lists, info.width}, DType::f32);
    std::copy_n(store.centroids(), centroids.numel(), centroids.data<float>());
    const std::vector<float> squares = squared_lengths(centroids);
    const Tensor dots = products(queries, centroids);
    std::vector<std::vector<int64_t>> asked(static_cast<size_t>(info.lists));
    for (int64_t q = 0; q < n; ++q) {
      Nearest lists(probes);
      for (int64_t l = 0; l < info.lists; ++l)
        lists.offer(squares[size_t(l)] - 2 * dots.data<float>()[q * info.lists + l], l);
      std::vector<int64_t> chosen(static_cast<size_t>(probes));
      std::vector<float> unused(static_cast<size_t>(probes));
      lists.write(chosen.data(), unused.data());
      for (const int64_t l : chosen)
        if (l >= 0) asked[size_t(l)].push_back(q);
    }
    for (int64_t l = 0; l < info.lists; ++l)
      if (const auto& who = asked[size_t(l)]; !who.empty())
        scan(store, rows_of(queries, who), lengths, who, store.list_begin(l), store.list_end(l), nearest);
  }
  NearestKeys out{k, std::vector<int64_t>(size_t(n * k)), std::vector<float>(size_t(n * k))};
  for (int64_t q = 0; q < n; ++q) nearest[size_t(q)].write(out.entries.data() + q * k, out.distances.data() + q * k);
  return out;
}

void index_datastore(const Path& directory, int64_t lists) {
  const Datastore store = Datastore::open(directory);
  const DatastoreInfo& info = store.info();
  check_usage(lists >= 1 && lists <= info.entries, "datastore", "an index of ", lists,
              " lists needs as many entries, and there are ", info.entries);
  const Tensor centroids = cluster(store, lists);
  const std::vector<float> squares = squared_lengths(centroids);
  std::vector<int32_t> of(size_t(info.entries));
  for (int64_t first = 0; first < info.entries; first += kKeys) {
    check(!stop_signal(), "datastore", "stopped by signal ", stop_signal());
    const int64_t count = std::min(kKeys, info.entries - first);
    const std::vector<int32_t> some = lists_of(block_of(store, first, count), centroids, squares);
    std::copy(some.begin(), some.end(), of.begin() + first);
  }
  std::vector<uint64_t> offsets(size_t(lists + 1), 0);
  for (const int32_t l : of) ++offsets[size_t(l) + 1];
  for (int64_t l = 0; l < lists; ++l) offsets[size_t(l + 1)] += offsets[size_t(l)];
  std::vector<int64_t> order(size_t(info.entries));
  std::vector<uint64_t> next(offsets.begin(), offsets.end() - 1);
  for (int64_t i = 0; i < info.entries; ++i) order[size_t(next[size_t(of[size_t(i)])]++)] = i;

  AtomicFile file(directory / "datastore.bin");
  DatastoreWriter writer(info, [&](std::string_view part) { file.write(part); });
  const Tensor block = empty({kKeys, info.width}, DType::f32);
  std::vector<int32_t> values;
  for (int64_t first = 0; first < info.entries; first += kKeys) {
    const int64_t count = std::min(kKeys, info.entries - first);
    values.clear();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = order[size_t(first + i)];
      store.keys(from, 1, block.data<float>() + i * info.width);
      values.push_back(store.value(from));
    }
    writer.add(block.slice(0, count), values);
  }
  writer.finish({centroids.data<float>(), size_t(centroids.numel())}, offsets);
  file.commit();
}

}  // namespace lithe
