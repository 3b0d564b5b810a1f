#include "lithe/parts/common/key_value_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/close.h"

namespace lithe {
namespace {

using testing_support::expect_same_bits;
using testing_support::random_tensor;

constexpr int64_t kPage = KeyValueCache::kPageTokens, kKeys = 16, kValues = 48;

int64_t booked() { return ledger(Device::cpu).current(MemoryClass::decode); }

// Labels of a key: the sum of its numbers and its first. Counts the keys.
struct Sums final : Field {
  mutable int64_t formed = 0;
  kernels::AttentionPattern pattern(const FieldInput&) const override { return {}; }
  KeyLabels key_labels(DType) const override { return {2, DType::f64}; }
  Tensor label(const Tensor& keys) const override {
    formed += keys.rows();
    const Tensor out = zeros({keys.rows(), 2}, DType::f64);
    for (int64_t i = 0; i < keys.numel(); ++i) {
      double* of = out.data<double>() + i / kKeys * 2;
      of[0] += value_at(keys, i);
      if (i % kKeys == 0) of[1] = value_at(keys, i);
    }
    return out;
  }
};

// A cache and, beside it, all rows that each sequence should have.
class Checked {
 public:
  explicit Checked(int64_t sequences, int64_t capacity = 1000, DType dtype = DType::f32, bool shared = false,
                   int64_t heads = 1, const Field* field = nullptr)
      : before_(booked()),
        shared_(shared),
        dtype_(dtype),
        heads_(heads),
        cache({sequences, capacity, dtype, Device::cpu},
              {.keys = kKeys, .values = shared ? kKeys : kValues, .shared = shared, .heads = heads, .field = field}),
        keys(size_t(sequences)),
        values(size_t(sequences)) {}

  void append(const std::vector<int64_t>& counts) {
    std::vector<int64_t> offsets{0};
    for (int64_t n : counts) offsets.push_back(offsets.back() + n);
    const Tensor k = random_tensor({offsets.back(), kKeys}, DType::f32, ++seed_),
                 v = shared_ ? k : random_tensor({offsets.back(), kValues}, DType::f32, ++seed_);
    cache.append(k, v, Sequences(offsets, cache.tokens()));
    for (size_t b = 0; b < counts.size(); ++b)
      for (int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
        keys[b].push_back(k.slice(i, i + 1));
        values[b].push_back(v.slice(i, i + 1));
      }
  }
  void reorder(const std::vector<int64_t>& from) {
    cache.reorder(from);
    for (auto* rows : {&keys, &values}) {
      std::vector<std::vector<Tensor>> next;
      for (int64_t i : from) next.push_back((*rows)[size_t(i)]);
      *rows = std::move(next);
    }
  }
  void truncate(int64_t b, int64_t tokens) {
    cache.truncate(b, tokens);
    keys[size_t(b)].resize(size_t(tokens));
    values[size_t(b)].resize(size_t(tokens));
  }

  /// Every sequence holds its rows.
  void expect_right() const {
    for (size_t b = 0; b < keys.size(); ++b) {
      const KeyValueCache::Rows got = cache.gather(int64_t(b), DType::f32);
      expect_rows(got.keys, keys[b]);
      expect_rows(got.values, values[b]);
    }
  }
  /// The ledger has the pages that some sequence holds, each once, and nothing else.
  void expect_conserved() const { EXPECT_EQ(allocated(), distinct_bytes()); }
  int64_t allocated() const { return booked() - before_; }
  int64_t row_bytes() const {
    return KeyValueCache::bytes_of({1}, {.keys = kKeys, .values = kValues, .shared = shared_, .heads = heads_}, dtype_);
  }

 private:
  int64_t before_;
  bool shared_;
  DType dtype_;
  int64_t heads_;
  uint64_t seed_ = 0;

  void expect_rows(const Tensor& got, const std::vector<Tensor>& want) const {
    ASSERT_EQ(got.rows(), int64_t(want.size()));
    const int64_t cols = got.cols(), size = cols / heads_;
    for (int64_t i = 0; i < got.rows(); ++i)
      for (int64_t head = 0; head < heads_; ++head) {
        double most = 0;
        for (int64_t c = head * size; c < (head + 1) * size; ++c)
          most = std::max(most, std::abs(value_at(want[size_t(i)], c)));
        for (int64_t c = head * size; c < (head + 1) * size; ++c) {
          const double x = value_at(want[size_t(i)], c), y = value_at(got, i * cols + c);
          // Half a step of the rounding to 8 bits (and what f32 adds to it), or of the type. In 4 bits a step is a 15th
          // of what lies between the numbers of a head, 2 * most at most, and of what bf16 adds to it on both sides.
          const double bound = dtype_ == DType::i8    ? most / 127 * (0.5 + 127 * 0x1p-21)
                               : dtype_ == DType::u8  ? most / 15 * (1 + 0x1p-6)
                               : dtype_ == DType::f32 ? 0
                                                      : epsilon_of(dtype_) * std::abs(x);
          ASSERT_LE(std::abs(x - y), bound) << "row " << i << " column " << c;
        }
      }
  }
  int64_t distinct_bytes() const {
    std::set<const void*> seen;
    int64_t bytes = 0;
    for (const KeyValues& entry : cache.entries())
      for (const kernels::PagedRows* rows : {&entry.keys, &entry.values})
        for (const std::vector<Tensor>* list : {&rows->pages, &rows->scales})
          for (const Tensor& page : *list)
            if (seen.insert(page.raw()).second) bytes += page.bytes();
    return bytes;
  }

 public:
  KeyValueCache cache;
  std::vector<std::vector<Tensor>> keys, values;
};

// oracle: hpc.paged, infer.kv_cache
TEST(KeyValueCache, HoldsWhatAContiguousCacheHolds) {
  for (DType dtype : {DType::f32, DType::bf16, DType::i8, DType::u8})
    for (bool shared : {false, true}) {
      Checked c(3, 1000, dtype, shared, 4);
      for (const auto& counts : std::vector<std::vector<int64_t>>{
               {1, 0, 63}, {62, 200, 1}, {1, 1, 1}, {1, 0, 0}, {130, 55, 64}, {0, 1, 1}}) {
        c.append(counts);
        c.expect_right();
      }
      EXPECT_EQ(c.cache.longest(), 257);
    }
}

// oracle: hpc.paged
TEST(KeyValueCache, WastesLessThanAPageASequence) {
  for (DType dtype : {DType::f32, DType::i8, DType::u8}) {
    Checked c(2, 1000, dtype, false, 2);
    EXPECT_EQ(c.allocated(), 0);
    for (int64_t n = 1; n <= 3 * kPage + 1; ++n) {
      c.append({1, n % 3 ? 0 : 2});
      EXPECT_EQ(c.cache.bytes(), (c.cache.tokens()[0] + c.cache.tokens()[1]) * c.row_bytes());
      const int64_t waste = c.allocated() - c.cache.bytes();
      EXPECT_GE(waste, 0);
      EXPECT_LE(waste, 2 * (kPage - 1) * c.row_bytes());
    }
  }
  Checked limited(1, 100);  // the last page ends where the sequence must
  limited.append({100});
  EXPECT_EQ(limited.allocated(), 100 * limited.row_bytes());
}

// oracle: hpc.paged
TEST(KeyValueCache, ForksSharePagesUntilTheyAreWritten) {
  for (bool shared : {false, true}) {
    Checked c(1, 1000, DType::f32, shared);
    c.append({kPage + 10});
    const int64_t page = kPage * c.row_bytes();
    ASSERT_EQ(c.allocated(), 2 * page);
    c.reorder({0, 0, 0});
    EXPECT_EQ(c.allocated(), 2 * page);
    EXPECT_EQ(c.cache.bytes(), 3 * (kPage + 10) * c.row_bytes());
    c.append({1, 0, 1});
    EXPECT_EQ(c.allocated(), 4 * page);  // the second page, twice more
    c.append({0, 1, 0});                 // its last holder writes in place
    EXPECT_EQ(c.allocated(), 4 * page);
    const auto& entries = c.cache.entries();
    EXPECT_EQ(entries[0].keys.pages[0].raw(), entries[2].keys.pages[0].raw());
    EXPECT_NE(entries[0].keys.pages[1].raw(), entries[2].keys.pages[1].raw());
    c.expect_right();
    c.expect_conserved();
  }
  Checked whole(1);  // nothing is copied where a page ends
  whole.append({kPage});
  whole.reorder({0, 0});
  whole.append({1, 1});
  EXPECT_EQ(whole.allocated(), 3 * kPage * whole.row_bytes());
}

// oracle: hpc.paged
TEST(KeyValueCache, ConservesPages) {
  for (DType dtype : {DType::f32, DType::i8, DType::u8}) {
    Checked c(4, 400, dtype);
    const RandomKey key{.seed = 7, .purpose = purpose_of("pages")};
    uint64_t draw = 0;
    const auto below = [&](int64_t n) { return int64_t(random_below(key, draw++, uint64_t(n))); };
    for (int step = 0; step < 60; ++step) {
      const int64_t b = below(4);
      switch (below(3)) {
        case 0: c.reorder({below(4), b, below(4), below(4)}); break;
        case 1: c.truncate(b, below(c.cache.tokens()[size_t(b)] + 1)); break;
        default: {
          std::vector<int64_t> counts;
          for (int64_t tokens : c.cache.tokens()) counts.push_back(below(std::min<int64_t>(90, 400 - tokens) + 1));
          c.append(counts);
        }
      }
      c.expect_right();
      c.expect_conserved();
    }
    for (int64_t b = 0; b < 4; ++b) c.truncate(b, 0);
    EXPECT_EQ(c.allocated(), 0);
  }
}

// Of each key as it is read back, formed once, on pages that are shared and copied as those of keys are.
TEST(KeyValueCache, KeepsLabels) {
  for (DType dtype : {DType::f32, DType::bf16, DType::i8, DType::u8})
    for (bool shared : {false, true}) {
      const Sums sums;
      Checked c(2, 1000, dtype, shared, 4, &sums);
      int64_t appended = 0;
      const auto append = [&](const std::vector<int64_t>& counts) {
        c.append(counts);
        appended += counts[0] + counts[1];
        EXPECT_EQ(sums.formed, appended);
        EXPECT_EQ(c.cache.bytes(), (c.cache.tokens()[0] + c.cache.tokens()[1]) * (c.row_bytes() + 16));
        const Tensor labels = c.cache.gather_labels();
        int64_t row = 0;
        for (int64_t b = 0; b < 2; ++b) {
          const Tensor wanted = Sums().label(c.cache.gather_keys(b, DType::f32));
          expect_same_bits(labels.slice(row, row + wanted.rows()), wanted, "labels");
          row += wanted.rows();
        }
        EXPECT_EQ(labels.rows(), row);
        c.expect_right();
      };
      append({70, 130});
      c.reorder({0, 0});
      append({1, 2});
      c.truncate(1, 30);
      append({60, 1});
      c.reorder({1, 0});
      {
        KeyValueCache again(
            {2, 1000, dtype, Device::cpu},
            {.keys = kKeys, .values = shared ? kKeys : kValues, .shared = shared, .heads = 4, .field = &sums});
        again.restore(c.cache.save());
        expect_same_bits(again.gather_labels(), c.cache.gather_labels(), "labels restored");
      }
      append({100, 1});
      c.truncate(0, 0), c.truncate(1, 0);
      EXPECT_EQ(c.allocated(), 0);
    }
}

// What stays is not rounded again, whatever goes: rows before a reach, or those of each head that its field names.
TEST(KeyValueCache, ForgettingMovesRoundedRows) {
  struct Even final : Field {  // each head keeps its last rows
    kernels::AttentionPattern pattern(const FieldInput&) const override { return {}; }
    KeyLabels key_labels(DType) const override { return {1, DType::u8}; }
    Tensor label(const Tensor& keys) const override { return zeros({keys.rows(), 1}, DType::u8); }
    std::vector<int64_t> stays(const Tensor& labels, int64_t head) const override {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < labels.rows(); ++i)
        if (labels.rows() <= 6 || i != head) rows.push_back(i);  // one goes at a time
      return rows;
    }
  } const field;
  for (DType dtype : {DType::i8, DType::u8})
    for (bool by_head : {false, true}) {
      KeyValueCache::Columns columns{.keys = kKeys, .values = kValues, .heads = 4};
      KeyValueCache all({1, 100, dtype, Device::cpu}, columns);
      by_head ? (columns.most = 6, columns.field = &field)
              : (columns.reach = 5, columns.sinks = 2, columns.field = nullptr);
      KeyValueCache some({1, 100, dtype, Device::cpu}, columns);
      std::vector<std::vector<int64_t>> wanted(4);
      for (int64_t t = 0; t < 20; ++t) {
        const Tensor k = random_tensor({1, kKeys}, DType::f32, uint64_t(2 * t)),
                     v = random_tensor({1, kValues}, DType::f32, uint64_t(2 * t + 1));
        for (KeyValueCache* cache : {&all, &some}) cache->append(k, v, Sequences({0, 1}, cache->tokens()));
        some.forget();
        for (int64_t head = 0; head < 4; ++head) {
          auto& rows = wanted[size_t(head)];
          rows.push_back(t);
          if (rows.size() > 6) rows.erase(rows.begin() + (by_head ? head : 2));
        }
      }
      const KeyValueCache::Rows from = all.gather(0, DType::f32), got = some.gather(0, DType::f32);
      ASSERT_EQ(got.keys.rows(), 6);
      for (const auto& [of, in] : {std::pair{got.keys, from.keys}, {got.values, from.values}})
        for (int64_t i = 0; i < 6; ++i)
          for (int64_t c = 0; c < of.cols(); ++c) {
            const int64_t row = wanted[size_t(c / (of.cols() / 4))][size_t(i)];
            EXPECT_EQ(value_at(of, i * of.cols() + c), value_at(in, row * of.cols() + c)) << dtype << i << c;
          }
    }
}

TEST(KeyValueCache, RefusesMoreThanItsCapacity) {
  Checked c(2, 70);
  c.append({60, 70});
  try {
    c.append({11, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cache: sequence 0 has room for 70 tokens, got 71");
  }
  EXPECT_THROW(c.cache.truncate(0, 61), Error);
  EXPECT_THROW(c.cache.reorder({2}), Error);
  c.append({10, 0});
  c.expect_right();
}

}  // namespace
}  // namespace lithe
