#include "lithe/parts/common/pattern_field.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "lithe/kernels/attention/reference.h"

namespace lithe {
namespace {

using kernels::TileMask;
constexpr int64_t kQueries = TileMask::kQueries, kKeys = TileMask::kKeys;

double widened(double x) { return x; }
double widened(float x) { return x; }
double widened(bf16 x) { return float(x); }

uint32_t bits(int64_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }

/// Puts tiles together, one row of them after another.
class Builder {
 public:
  Builder(int64_t queries, int64_t keys) : queries_(queries), keys_(keys), row_(size_t((keys + kKeys - 1) / kKeys)) {
    out_.first = {0};
  }
  /// Query `lane` of the row sees keys [begin, end).
  void add(int64_t lane, int64_t begin, int64_t end) {
    begin = std::max<int64_t>(begin, 0), end = std::min(end, keys_);
    for (int64_t tile = begin / kKeys; tile * kKeys < end; ++tile) {
      Tile& t = row_[size_t(tile)];
      t.used = true;
      const int64_t from = std::max(begin, tile * kKeys), to = std::min(end, (tile + 1) * kKeys);
      if (to - from == std::min(kKeys, keys_ - tile * kKeys))
        t.whole |= 1u << lane;
      else
        for (int64_t j = from; j < to; ++j) t.rule[size_t(j % kKeys)] |= 1u << lane;
    }
  }
  /// Queries `lanes` see the tile, or what its rule has.
  void add(int32_t tile, const TileMask::Rule* rule) {
    Tile& t = row_[size_t(tile)];
    t.used = true;
    if (!rule)
      t.whole = ~0u;
    else
      for (size_t j = 0; j < rule->size(); ++j) t.rule[j] |= (*rule)[j];
  }
  /// Query `lane` sees key `own` if it sees no other (up to it, if `causal`), and only then.
  void add_last(int64_t lane, int64_t own, bool causal) {
    const uint32_t bit = 1u << lane;
    bool others = false;
    for (int64_t j = 0; j < (causal ? std::min(own, keys_) : keys_) && !others; ++j) {
      const Tile& t = row_[size_t(j / kKeys)];
      others = j != own && t.used && (t.rule[size_t(j % kKeys)] & bit);
    }
    if (!others) return add(lane, own, own + 1);
    if (own < keys_) row_[size_t(own / kKeys)].rule[size_t(own % kKeys)] &= ~bit;
  }
  void end_row() {
    const int64_t first = int64_t(out_.first.size() - 1) * kQueries;
    const uint32_t all = bits(queries_ - first);
    for (size_t tile = 0; tile < row_.size(); ++tile) {
      Tile& t = row_[tile];
      if (!t.used) continue;
      uint32_t some = 0, each = all;
      for (uint32_t& lanes : t.rule) lanes = (lanes | t.whole) & all;
      for (int64_t j = 0; j < std::min(kKeys, keys_ - int64_t(tile) * kKeys); ++j)
        some |= t.rule[size_t(j)], each &= t.rule[size_t(j)];
      if (some) {
        out_.keys.push_back(int32_t(tile));
        out_.rule.push_back(each == all ? -1 : number_of(t.rule));
      }
      t = {};
    }
    out_.first.push_back(int32_t(out_.keys.size()));
  }
  std::shared_ptr<const Visits> made() { return std::make_shared<const Visits>(std::move(out_)); }

 private:
  struct Tile {
    TileMask::Rule rule{};
    uint32_t whole = 0;  // queries that see all of it
    bool used = false;
  };
  int64_t queries_, keys_;
  std::vector<Tile> row_;
  std::map<TileMask::Rule, int32_t> numbers_;
  Visits out_;

  // A rule that many tiles have is kept once; in a single row few have the same.
  int32_t number_of(const TileMask::Rule& rule) {
    const auto next = int32_t(out_.rules.size());
    if (queries_ > kQueries)
      if (const auto [at, fresh] = numbers_.try_emplace(rule, next); !fresh) return at->second;
    out_.rules.push_back(rule);
    return next;
  }
};

}  // namespace

std::shared_ptr<const Visits> visits_of(int64_t queries, int64_t keys, const RangesOf& ranges) {
  Builder builder(queries, keys);
  std::vector<KeyRange> seen;
  for (int64_t first = 0; first < queries; first += kQueries) {
    for (int64_t i = first; i < std::min(first + kQueries, queries); ++i) {
      seen.clear();
      ranges(i, seen);
      for (const KeyRange& range : seen) builder.add(i - first, range.begin, range.end);
    }
    builder.end_row();
  }
  return builder.made();
}

std::shared_ptr<const Visits> visits_of(const kernels::AttentionPattern& pattern, int64_t heads, int64_t b,
                                        int64_t head, int64_t queries, int64_t keys) {
  const kernels::AttentionMask& mask = pattern.of(head);
  if (mask.window == 0) return pattern.tiles ? pattern.tiles->visits[size_t(b * heads + head)] : nullptr;
  check(!pattern.tiles, "field", "a window beside tiles is not known");
  kernels::AttentionSegment segment;
  segment.query_rows = queries, segment.key_rows = keys;
  return visits_of(queries, keys, [&](int64_t i, std::vector<KeyRange>& out) {
    const kernels::ref::Visible seen = kernels::ref::visible_keys(segment, mask, i);
    out.push_back({seen.begin, seen.end});
  });
}

std::shared_ptr<const Visits> union_of(const std::vector<std::shared_ptr<const Visits>>& parts, int64_t queries,
                                       int64_t keys) {
  for (const auto& part : parts)
    if (!part) return nullptr;
  Builder builder(queries, keys);
  for (int64_t t = 0; t * kQueries < queries; ++t) {
    for (const auto& part : parts)
      for (int32_t n = part->first[size_t(t)]; n < part->first[size_t(t) + 1]; ++n) {
        const int32_t rule = part->rule.empty() ? -1 : part->rule[size_t(n)];
        builder.add(part->keys[size_t(n)], rule < 0 ? nullptr : &part->rules[size_t(rule)]);
      }
    builder.end_row();
  }
  return builder.made();
}

kernels::AttentionPattern tiled_pattern(
    bool causal, int64_t heads, const FieldInput& in,
    const std::function<std::shared_ptr<const Visits>(int64_t b, int64_t head)>& visits) {
  auto tiles = std::make_shared<TileMask>();
  for (int64_t b = 0; b < in.queries.count(); ++b)
    for (int64_t head = 0; head < heads; ++head) tiles->visits.push_back(visits(b, head));
  return {.mask = {.causal = causal}, .heads = {}, .tiles = std::move(tiles)};
}

namespace {

/// Queries and keys of one sequence and head by their labels: the first of each, `rounds` in a row of `columns`. `who`
/// is all 0 [rounds * kinds], and is left so.
template <class T>
std::shared_ptr<const Visits> same_labels(const T* asked, const T* given, int64_t columns, int64_t rounds,
                                          int64_t queries, int64_t keys, int64_t ahead, bool causal, bool last_resort,
                                          std::vector<uint32_t>& who) {
  const int64_t kinds = int64_t(who.size()) / rounds;
  Builder builder(queries, keys);
  for (int64_t first = 0; first < queries; first += kQueries) {
    const int64_t last = std::min(first + kQueries, queries);
    const auto each_label = [&](auto f) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t round = 0; round < rounds; ++round)
          f(who[size_t(round * kinds + int64_t(asked[i * columns + round]))], 1u << (i - first));
    };
    each_label([](uint32_t& queries_of, uint32_t query) { queries_of |= query; });
    for (int64_t tile = 0; tile * kKeys < keys; ++tile) {
      TileMask::Rule rule{};
      uint32_t some = 0;
      for (int64_t j = tile * kKeys; j < std::min(keys, (tile + 1) * kKeys); ++j) {
        uint32_t lanes = 0;
        for (int64_t round = 0; round < rounds; ++round)
          lanes |= who[size_t(round * kinds + int64_t(given[j * columns + round]))];
        rule[size_t(j % kKeys)] = lanes;
        some |= lanes;
      }
      if (some) builder.add(int32_t(tile), &rule);
    }
    each_label([](uint32_t& queries_of, uint32_t) { queries_of = 0; });
    for (int64_t i = first; i < last; ++i)
      last_resort ? builder.add_last(i - first, i + ahead, causal) : builder.add(i - first, i + ahead, i + ahead + 1);
    builder.end_row();
  }
  return builder.made();
}

}  // namespace

kernels::AttentionPattern labelled_pattern(bool causal, int64_t heads, int64_t kinds, const FieldInput& in,
                                           const Tensor& of_queries, const Tensor& of_keys, bool last_resort) {
  const int64_t columns = of_keys.cols(), rounds = columns / heads;
  const std::vector<int64_t> offsets = key_offsets(in);
  std::vector<uint32_t> who(size_t(rounds * kinds));
  const auto pattern = [&]<class T>(const T* asked, const T* given) {
    return tiled_pattern(causal, heads, in, [&](int64_t b, int64_t head) {
      const FieldInput::Keys& keys = in.keys[size_t(b)];
      return same_labels(asked + in.queries.offset(b) * columns + head * rounds,
                         given + offsets[size_t(b)] * columns + head * rounds, columns, rounds, in.queries.length(b),
                         keys.count, in.queries.past(b) - keys.first, causal, last_resort, who);
    });
  };
  return of_keys.dtype() == DType::u8 ? pattern(of_queries.data<uint8_t>(), of_keys.data<uint8_t>())
                                      : pattern(of_queries.data<int32_t>(), of_keys.data<int32_t>());
}

kernels::AttentionPattern PatternField::pattern(const FieldInput& in) const {
  std::shared_ptr<const Visits> last;
  return tiled_pattern(args_.causal, args_.num_attention_heads, in, [&](int64_t b, int64_t head) {
    const FieldInput::Keys& keys = in.keys[size_t(b)];
    if (head == 0 || by_head())
      last =
          visits({in.queries.past(b), in.queries.length(b), keys.first, keys.count, keys.sinks, by_head() ? head : 0});
    return last;
  });
}

std::shared_ptr<const Visits> PatternField::visits(const Key& key) const {
  constexpr size_t kMost = 512;
  const bool keep = key.queries > 1;
  const std::lock_guard lock(mutex_);
  if (keep)
    if (const auto at = made_.find(key); at != made_.end()) return at->second;
  const int64_t tokens = key.first + key.keys;
  const auto made = visits_of(key.queries, key.keys, [&](int64_t i, std::vector<KeyRange>& out) {
    see(key.query + i, tokens, key.head, out);
    // Sinks stand at their positions, the other keys `first` further than their numbers say.
    const size_t count = out.size();
    for (size_t n = 0; n < count; ++n) {
      const KeyRange range = out[n];
      if (range.begin < key.sinks) out.push_back({range.begin, std::min(range.end, key.sinks)});
      out[n] = {std::max(range.begin, key.sinks + key.first) - key.first, range.end - key.first};
    }
  });
  if (keep) {
    if (made_.size() >= kMost) made_.clear();
    made_[key] = made;
  }
  return made;
}

std::vector<double> head_products(const Tensor& x, int64_t begin, int64_t n, int64_t head, int64_t heads,
                                  std::span<const double> directions) {
  const int64_t cols = x.cols(), d = cols / heads, count = int64_t(directions.size()) / d;
  std::vector<double> out(size_t(n * count)), row(static_cast<size_t>(d));
  dispatch_float(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) {
      const T* from = x.data<T>() + (begin + i) * cols + head * d;
      for (int64_t k = 0; k < d; ++k) row[size_t(k)] = widened(from[k]);
      double* to = out.data() + i * count;
      int64_t c = 0;
      for (; c + 4 <= count; c += 4) {  // sums that do not wait for each other
        const double* r = directions.data() + c * d;
        double a = 0, b = 0, e = 0, f = 0;
        for (int64_t k = 0; k < d; ++k) {
          const double v = row[size_t(k)];
          a += v * r[k], b += v * r[d + k], e += v * r[2 * d + k], f += v * r[3 * d + k];
        }
        to[c] = a, to[c + 1] = b, to[c + 2] = e, to[c + 3] = f;
      }
      for (; c < count; ++c) to[c] = std::inner_product(row.begin(), row.end(), directions.begin() + c * d, 0.0);
    }
  });
  return out;
}

std::vector<double> column(const Tensor& x, int64_t begin, int64_t n, int64_t column) {
  std::vector<double> out(static_cast<size_t>(n));
  dispatch_float(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>() + begin * x.cols() + column;
    for (int64_t i = 0; i < n; ++i) out[size_t(i)] = widened(from[i * x.cols()]);
  });
  return out;
}

// Numbers are counted in bins of their range; only those of the bins that first and last fall into are sorted.
std::vector<int64_t> at_ranks(std::span<const double> x, int64_t first, int64_t last) {
  constexpr size_t kBins = 256;
  double least = x[0], most = x[0];
  for (const double number : x) least = std::min(least, number), most = std::max(most, number);
  const double factor = kBins / (most - least);
  std::vector<uint8_t> bin(x.size());
  std::array<int64_t, kBins + 1> begin{};  // the rank of the first of a bin
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = (x[i] - least) * factor;  // no number where all are equal
    bin[i] = at > 0 ? uint8_t(std::min(at, kBins - 1.0)) : 0;
    ++begin[bin[i] + 1u];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int64_t> out;
  std::vector<std::tuple<uint8_t, double, int64_t>> cut;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t from = begin[bin[i]], to = begin[bin[i] + 1u];
    if (from >= first && to <= last)
      out.push_back(int64_t(i));
    else if (from < last && to > first)
      cut.push_back({bin[i], x[i], int64_t(i)});
  }
  std::sort(cut.begin(), cut.end());
  int64_t rank = 0;
  for (size_t n = 0; n < cut.size(); ++n) {
    const auto [of, number, i] = cut[n];
    rank = n > 0 && of == std::get<0>(cut[n - 1]) ? rank + 1 : begin[of];
    if (rank >= first && rank < last) out.push_back(i);
  }
  return out;
}

std::vector<int64_t> draw_without_replacement(const RandomKey& key, int64_t wanted, int64_t count) {
  std::set<int64_t> drawn;
  for (int64_t n = count - wanted; n < count; ++n) {
    const auto at = int64_t(random_below(key, uint64_t(n - count + wanted), uint64_t(n + 1)));
    drawn.insert(drawn.count(at) ? n : at);
  }
  return {drawn.begin(), drawn.end()};
}

std::vector<std::vector<int64_t>> sorted_chunks(const std::vector<double>& q, const std::vector<double>& k,
                                                const SortedChunks& how) {
  const auto n = int64_t(q.size()), count = int64_t(k.size());
  std::vector<std::vector<int64_t>> out;
  std::vector<int64_t> order;  // keys in order; a single query does without
  int64_t next = 0;
  const auto less = [&](int64_t a, int64_t c) {
    return k[size_t(a)] < k[size_t(c)] || (k[size_t(a)] == k[size_t(c)] && a < c);
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t end = how.causal ? i + how.ahead + 1 : count;
    if (n > 1 && order.empty() && end > 1) {  // those before the first query, at once
      order.resize(size_t(end));
      std::iota(order.begin(), order.end(), int64_t(0));
      std::sort(order.begin(), order.end(), less);
      next = end;
    }
    for (; n > 1 && next < end; ++next) order.insert(std::upper_bound(order.begin(), order.end(), next, less), next);
    // Where the query's score stands among those of the keys, a key's own place for an equal score.
    const auto before = [&](int64_t a) {
      return k[size_t(a)] < q[size_t(i)] || (k[size_t(a)] == q[size_t(i)] && a < i + how.ahead);
    };
    int64_t rank = std::partition_point(order.begin(), order.end(), before) - order.begin();
    for (int64_t j = 0; n == 1 && j < end; ++j) rank += before(j);
    const int64_t chunk = std::min(rank, end - 1) / how.size, first = (chunk - (how.previous && chunk > 0)) * how.size,
                  last = std::min((chunk + 1) * how.size, end);
    if (end == 0)
      out.emplace_back();
    else if (n > 1)
      out.emplace_back(order.begin() + first, order.begin() + last);
    else
      out.push_back(at_ranks({k.data(), size_t(end)}, first, last));
  }
  return out;
}

std::vector<int64_t> key_offsets(const FieldInput& in) {
  std::vector<int64_t> out{0};
  for (const FieldInput::Keys& keys : in.keys) out.push_back(out.back() + keys.count);
  return out;
}

}  // namespace lithe
