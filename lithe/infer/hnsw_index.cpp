#include "lithe/infer/hnsw_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"

#ifdef LITHE_HAVE_HNSWLIB
#define NO_MANUAL_VECTORIZATION  // distances are ours, and its prefetches read past lists
#include <hnswlib/hnswlib.h>
#endif

namespace lithe {

#ifdef LITHE_HAVE_HNSWLIB
namespace {

constexpr std::string_view kHnswMagic = "LITHENSW";
constexpr uint32_t kHnswVersion = 1;
constexpr uint64_t kMostLinks = 1024;
constexpr int kMostLevels = 64;
constexpr int64_t kRecallSample = 200;

struct HnswHead {
  char magic[8];
  uint32_t version, links;
  uint64_t store, entries;
  uint32_t entry_point, level;
};
static_assert(sizeof(HnswHead) == 40);

size_t levels_bytes(size_t entries) { return (entries + 7) / 8 * 8; }

// What hnswlib keeps of a key: which entry it is; of a query, its numbers.
struct Point {
  int64_t entry;
  const float* query;
};

const float* numbers_of(const Point& point, const Datastore& store, std::vector<float>& room) {
  if (point.query) return point.query;
  room.resize(size_t(store.info().width));
  store.keys(point.entry, 1, room.data());
  return room.data();
}

float squared_distance(const void* a, const void* b, const void* of) {
  const auto& store = *static_cast<const Datastore*>(of);
  thread_local std::vector<float> room_a, room_b;
  Point one, other;
  std::memcpy(&one, a, sizeof one), std::memcpy(&other, b, sizeof other);
  const float *x = numbers_of(one, store, room_a), *y = numbers_of(other, store, room_b);
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  const int64_t n = store.info().width, whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) {
      const float d = x[i + l] - y[i + l];
      sums[l] += d * d;
    }
  for (int64_t i = whole; i < n; ++i) sums[i - whole] += (x[i] - y[i]) * (x[i] - y[i]);
  float sum = 0;
  for (const float s : sums) sum += s;
  return std::isfinite(sum) ? sum : std::numeric_limits<float>::max();  // of a damaged key
}

}  // namespace

struct HnswIndex::Graph {
  class Space final : public hnswlib::SpaceInterface<float> {
   public:
    explicit Space(Datastore store) : store_(std::move(store)) {}
    const Datastore& store() const { return store_; }
    size_t get_data_size() override { return sizeof(Point); }
    hnswlib::DISTFUNC<float> get_dist_func() override { return squared_distance; }
    void* get_dist_func_param() override { return &store_; }

   private:
    Datastore store_;
  };
  Space space;
  hnswlib::HierarchicalNSW<float> graph;
  Graph(Datastore store, const HnswOptions& options)
      : space(std::move(store)),
        graph(&space, size_t(space.store().info().entries), size_t(options.links), size_t(options.construction)) {}
  int64_t entries() const { return space.store().info().entries; }
};

namespace {

void check_hnsw_size(int64_t entries) {
  check_usage(entries <= std::numeric_limits<int32_t>::max(), "datastore", "an index of the kind hnsw holds at most ",
              std::numeric_limits<int32_t>::max(), " entries, and there are ", entries, "; use --lists");
}

// Walks over the levels and lists of an index and fails where hnswlib would be led astray.
class HnswReader {
 public:
  HnswReader(std::string_view bytes, const Datastore& store, const std::string& origin)
      : bytes_(bytes), origin_(origin) {
    expect(bytes.size() >= sizeof head + 8, "is no index, or one cut short");
    std::memcpy(&head, bytes.data(), sizeof head);
    expect(std::string_view(head.magic, 8) == kHnswMagic, "is no index of a store");
    expect(head.version == kHnswVersion, "is of another version of the format");
    uint64_t sum = 0;
    std::memcpy(&sum, bytes.data() + bytes.size() - 8, 8);
    expect(sum == checksum(bytes.data(), bytes.size() - 8), "is cut short or damaged (checksum)");
    check_usage(head.store == store.fingerprint(), "datastore", "'", origin,
                "' is an index of another store than the one beside it; build the store again with --index hnsw");
    expect(head.entries == uint64_t(store.info().entries), "has another number of entries than its store");
    expect(head.links >= 2 && head.links <= kMostLinks, "says an impossible number of links");
    const uint64_t lists = sizeof head + levels_bytes(head.entries), base = 4 * (1 + 2 * uint64_t(head.links));
    expect(bytes.size() >= lists + head.entries * base + 8, "is cut short");
    levels = reinterpret_cast<const uint8_t*>(bytes.data() + sizeof head);
    above_ = lists + head.entries * base;
    uint64_t all = 0;
    for (uint64_t i = 0; i < head.entries; ++i) all += levels[i];
    expect(bytes.size() == above_ + all * 4 * (1 + uint64_t(head.links)) + 8,
           "has a size that does not match its levels");
    expect(head.entry_point < head.entries && levels[head.entry_point] == head.level, "has no such entry point");
    for (uint64_t i = 0; i < head.entries; ++i)
      expect(levels[i] <= head.level && levels[i] <= kMostLevels, "has a level above the entry point's");
    const char* upper = bytes.data() + above_;
    for (uint64_t i = 0; i < head.entries; ++i) {
      check_list(base_list(i), 2 * head.links, 0);
      for (int level = 1; level <= levels[i]; ++level, upper += 4 * (1 + size_t(head.links)))
        check_list(upper, head.links, level);
    }
  }
  const char* base_list(uint64_t entry) const {
    return bytes_.data() + sizeof head + levels_bytes(head.entries) + entry * 4 * (1 + 2 * uint64_t(head.links));
  }
  const char* upper_lists() const { return bytes_.data() + above_; }

  HnswHead head{};
  const uint8_t* levels = nullptr;

 private:
  std::string_view bytes_;
  const std::string& origin_;
  uint64_t above_ = 0;

  void expect(bool rule, const char* what) const {
    check(rule, "datastore", "'", origin_, "' ", what, "; build the store again with --index hnsw");
  }
  void check_list(const char* list, uint64_t most, int level) const {
    uint32_t count = 0;
    std::memcpy(&count, list, 4);
    expect(count <= most, "has a list of too many links");
    for (uint32_t i = 1; i <= count; ++i) {
      uint32_t to = 0;
      std::memcpy(&to, list + 4 * size_t(i), 4);
      expect(to < head.entries && levels[to] >= level, "has a link to an entry that is not there");
    }
  }
};

}  // namespace

HnswIndex HnswIndex::build(Datastore store, const HnswOptions& options,
                           const std::function<void(int64_t, int64_t)>& progress) {
  check_hnsw_size(store.info().entries);
  check(options.links >= 2 && options.links <= int64_t(kMostLinks) && options.construction >= 1, "hnsw",
        "links must be in [2, ", kMostLinks, "] and construction at least 1, got ", options.links, " and ",
        options.construction);
  HnswIndex out;
  out.graph_ = std::make_shared<Graph>(std::move(store), options);
  for (int64_t i = 0; i < out.graph_->entries(); ++i) {
    check(i % 256 != 0 || !stop_signal(), "datastore", "stopped by signal ", stop_signal());
    if (progress && i % 256 == 0) progress(i, out.graph_->entries());
    const Point point{i, nullptr};
    out.graph_->graph.addPoint(&point, size_t(i));
  }
  return out;
}

std::string HnswIndex::to_bytes() const {
  const auto& graph = graph_->graph;
  const size_t n = graph.cur_element_count;
  HnswHead head{.magic = {},
                .version = kHnswVersion,
                .links = uint32_t(graph.M_),
                .store = graph_->space.store().fingerprint(),
                .entries = n,
                .entry_point = graph.enterpoint_node_,
                .level = uint32_t(graph.maxlevel_)};
  std::copy(kHnswMagic.begin(), kHnswMagic.end(), head.magic);
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  for (size_t i = 0; i < n; ++i) out.push_back(char(graph.element_levels_[i]));
  out.append(levels_bytes(n) - n, '\0');
  for (size_t i = 0; i < n; ++i)
    out.append(reinterpret_cast<const char*>(graph.get_linklist0(hnswlib::tableint(i))), graph.size_links_level0_);
  for (size_t i = 0; i < n; ++i)
    if (graph.element_levels_[i] > 0)
      out.append(graph.linkLists_[i], size_t(graph.element_levels_[i]) * graph.size_links_per_element_);
  const uint64_t sum = checksum(out.data(), out.size());
  return out.append(reinterpret_cast<const char*>(&sum), 8);
}

HnswIndex HnswIndex::from_bytes(std::string_view bytes, Datastore store, const std::string& origin) {
  check_hnsw_size(store.info().entries);
  const HnswReader in(bytes, store, origin);
  HnswIndex out;
  out.graph_ = std::make_shared<Graph>(std::move(store), HnswOptions{.links = int64_t(in.head.links)});
  auto& graph = out.graph_->graph;
  const char* upper = in.upper_lists();
  for (size_t i = 0; i < in.head.entries; ++i) {
    const auto id = hnswlib::tableint(i);
    std::memcpy(graph.get_linklist0(id), in.base_list(i), graph.size_links_level0_);
    const Point point{int64_t(i), nullptr};
    std::memcpy(graph.getDataByInternalId(id), &point, sizeof point);
    graph.setExternalLabel(id, i);
    const size_t above = in.levels[i] * graph.size_links_per_element_;
    if (above) {
      graph.linkLists_[i] = static_cast<char*>(std::malloc(above));  // hnswlib frees it
      check(graph.linkLists_[i] != nullptr, "hnsw", "no memory for ", above, " bytes");
      std::memcpy(graph.linkLists_[i], upper, above);
      upper += above;
    }
    graph.element_levels_[i] = in.levels[i];
    graph.cur_element_count = i + 1;
  }
  graph.enterpoint_node_ = in.head.entry_point;
  graph.maxlevel_ = int(in.head.level);
  return out;
}

int64_t HnswIndex::links() const { return int64_t(graph_->graph.M_); }

NearestKeys HnswIndex::nearest(const Tensor& queries, int64_t k, int64_t effort) const {
  const int64_t width = graph_->space.store().info().width, n = queries.rows();
  check(queries.dtype() == DType::f32 && queries.cols() == width, "hnsw", "queries must be f32 [Q,", width, "], got ",
        queries);
  check(k >= 1 && effort >= 1, "hnsw", "k and effort must be at least 1, got ", k, " and ", effort);
  const auto candidates = size_t(std::max(k, effort));
  NearestKeys out{k, std::vector<int64_t>(size_t(n * k), -1),
                  std::vector<float>(size_t(n * k), std::numeric_limits<float>::infinity())};
  parallel_for(n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t q = begin; q < end; ++q) {
      const Point query{-1, queries.data<float>() + q * width};
      auto found = graph_->graph.searchKnn(&query, candidates);  // the farthest on top
      while (!found.empty()) {
        const auto place = int64_t(found.size()) - 1;
        if (place < k) {
          out.entries[size_t(q * k + place)] = int64_t(found.top().second);
          out.distances[size_t(q * k + place)] = found.top().first;
        }
        found.pop();
      }
    }
  });
  return out;
}

double HnswIndex::recall(int64_t k, int64_t effort) const {
  const Datastore& store = graph_->space.store();
  const int64_t entries = graph_->entries(), n = std::min(entries, kRecallSample);
  const Tensor queries = empty({n, store.info().width}, DType::f32);
  for (int64_t i = 0; i < n; ++i) store.keys(i * entries / n, 1, queries.data<float>() + i * store.info().width);
  const NearestKeys exact = nearest_keys(store, queries, k + 1, 0), some = nearest(queries, k + 1, effort);
  int64_t wanted = 0, found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto first = some.entries.begin() + i * (k + 1), last = first + k + 1;
    for (int64_t j = 0; j <= k; ++j) {
      const int64_t entry = exact.entries[size_t(i * (k + 1) + j)];
      if (entry < 0 || entry == i * entries / n) continue;
      ++wanted, found += std::find(first, last, entry) != last;
    }
  }
  return wanted ? double(found) / double(wanted) : 1;
}

#else

namespace {
[[noreturn]] void no_hnswlib() {
  check_usage(false, "datastore",
              "this lithe was built without hnswlib (Debian's libhnswlib-dev); build it with, or use --lists");
  std::abort();
}
}  // namespace

struct HnswIndex::Graph {};
HnswIndex HnswIndex::build(Datastore, const HnswOptions&, const std::function<void(int64_t, int64_t)>&) {
  no_hnswlib();
}
HnswIndex HnswIndex::from_bytes(std::string_view, Datastore, const std::string&) { no_hnswlib(); }
std::string HnswIndex::to_bytes() const { no_hnswlib(); }
int64_t HnswIndex::links() const { no_hnswlib(); }
NearestKeys HnswIndex::nearest(const Tensor&, int64_t, int64_t) const { no_hnswlib(); }
double HnswIndex::recall(int64_t, int64_t) const { no_hnswlib(); }

#endif

HnswIndex HnswIndex::open(const Path& directory, Datastore store) {
  check_usage(exists(directory), "datastore", "'", directory.string(),
              "' holds no hnsw.bin; build the store with --index hnsw");
  const MappedFile file(directory / "hnsw.bin");
  return from_bytes(file.view(), std::move(store), (directory / "hnsw.bin").string());
}

bool HnswIndex::exists(const Path& directory) { return std::filesystem::exists(directory / "hnsw.bin"); }

void HnswIndex::save(const Path& directory) const { write_file(directory / "hnsw.bin", to_bytes()); }

void seal_hnsw_index(std::string& bytes) {
  if (bytes.size() < 8) return;
  const uint64_t sum = checksum(bytes.data(), bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
}

}  // namespace lithe
