#include "lithe/infer/hnsw_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "lithe/infer/neighbours.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr int64_t kKeyWidth = 6;

Datastore keys_store(int64_t entries, uint64_t seed = 1, DType type = DType::f32) {
  std::string bytes;
  DatastoreWriter writer({.vocab_size = 11, .width = kKeyWidth, .type = type},
                         [&](std::string_view part) { bytes += part; });
  writer.add(kit::normal({entries, kKeyWidth}, DType::f32, seed), std::vector<int32_t>(size_t(entries), 3));
  writer.finish();
  return Datastore::from_bytes(bytes);
}

#ifdef LITHE_HAVE_HNSWLIB

TEST(HnswIndex, FindsMostOfTheNearestKeysAndAllWhenItLooksAtAll) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Datastore store = keys_store(1500, 1, type);
    const HnswIndex index = HnswIndex::build(store);
    const Tensor queries = kit::normal({30, kKeyWidth}, DType::f32, 2);
    const NearestKeys exact = nearest_keys(store, queries, 8, 0), all = index.nearest(queries, 8, 1500),
                      some = index.nearest(queries, 8, 64);
    EXPECT_EQ(all.entries, exact.entries);
    int64_t found = 0;
    for (int64_t q = 0; q < 30; ++q) {
      for (int64_t n = 0; n < 8; ++n) {
        EXPECT_NEAR(all.distances[size_t(q * 8 + n)], exact.distances[size_t(q * 8 + n)], 1e-4);
        const auto first = exact.entries.begin() + q * 8;
        found += std::count(first, first + 8, some.entries[size_t(q * 8 + n)]);
      }
      const NearestKeys alone = index.nearest(clone(queries.slice(q, q + 1)), 8, 64);
      EXPECT_TRUE(std::equal(alone.entries.begin(), alone.entries.end(), some.entries.begin() + q * 8));
      EXPECT_TRUE(std::equal(alone.distances.begin(), alone.distances.end(), some.distances.begin() + q * 8));
    }
    EXPECT_GE(found, 30 * 8 * 9 / 10);
    EXPECT_GE(index.recall(8, 64), 0.9);
    EXPECT_EQ(index.recall(8, 1500), 1);
    EXPECT_LT(index.recall(8, 1), 1);
  }
}

TEST(HnswIndex, TheSameBytesAgainAndFromAFile) {
  const kit::Scratch scratch;
  const Datastore store = keys_store(700);
  const HnswIndex index = HnswIndex::build(store, {.links = 5, .construction = 40});
  const std::string bytes = index.to_bytes();
  EXPECT_EQ(HnswIndex::build(store, {.links = 5, .construction = 40}).to_bytes(), bytes);
  EXPECT_FALSE(HnswIndex::exists(scratch.path()));
  index.save(scratch.path());
  const HnswIndex read = HnswIndex::open(scratch.path(), store);
  EXPECT_EQ(read.links(), 5);
  EXPECT_EQ(read.to_bytes(), bytes);
  const Tensor queries = kit::normal({9, kKeyWidth}, DType::f32, 2);
  EXPECT_EQ(read.nearest(queries, 4, 20).entries, index.nearest(queries, 4, 20).entries);
}

TEST(HnswIndex, FewEntries) {
  for (const int64_t entries : {1, 2, 3}) {
    const Datastore store = keys_store(entries);
    const HnswIndex index = HnswIndex::from_bytes(HnswIndex::build(store).to_bytes(), store);
    const NearestKeys near = index.nearest(kit::normal({1, kKeyWidth}, DType::f32, 2), 4, 8);
    EXPECT_EQ(std::count(near.entries.begin(), near.entries.end(), -1), 4 - entries);
    EXPECT_EQ(near.entries[3], -1);
    EXPECT_EQ(index.recall(4, 8), 1);
  }
}

TEST(HnswIndex, WhatIsNoneOrOfAnotherStoreIsRefused) {
  const Datastore store = keys_store(40);
  const std::string bytes = HnswIndex::build(store, {.links = 2}).to_bytes();
  const auto refusal = [&](const std::string& of) {
    return kit::coded_error_of([&] { HnswIndex::from_bytes(of, store, "I"); });
  };
  EXPECT_EQ(refusal(bytes), "no error");
  for (size_t cut = 0; cut < bytes.size(); cut += 7)
    EXPECT_NE(refusal(bytes.substr(0, cut)).find("'I' "), std::string::npos) << cut;
  EXPECT_NE(refusal(bytes.substr(0, bytes.size() - 4)).find("checksum"), std::string::npos);
  const auto changed = [&](size_t at, uint32_t value) {
    std::string out = bytes;
    std::memcpy(out.data() + at, &value, 4);
    seal_hnsw_index(out);
    return out;
  };
  EXPECT_NE(refusal(changed(40 + 40, 9)).find("too many links"), std::string::npos);
  EXPECT_NE(refusal(changed(40 + 40 + 4, 40)).find("not there"), std::string::npos);
  EXPECT_NE(refusal(changed(32, 40)).find("entry point"), std::string::npos);
  EXPECT_NE(refusal(changed(12, 3)).find("build the store again"), std::string::npos);
  const std::string other = kit::coded_error_of([&] { HnswIndex::from_bytes(bytes, keys_store(40, 2)); });
  EXPECT_NE(other.find("another store"), std::string::npos) << other;
  EXPECT_NE(other.find("--index hnsw"), std::string::npos) << other;
}

TEST(HnswIndex, NeighboursThroughTheGraphAreThoseOfTheExactSearch) {
  const Datastore store = keys_store(300);
  const HnswIndex index = HnswIndex::build(store);
  const Tensor rows = kit::normal({4, kKeyWidth}, DType::f32, 2);
  const Tensor exact = kit::normal({4, 11}, DType::f32, 3), through = clone(exact);
  NeighbourModel(store, {.k = 7}).mix(rows, exact);
  NeighbourModel(store, {.k = 7, .effort = 300}, index).mix(rows, through);
  EXPECT_LE(kit::largest_difference(exact, through), 1e-4);
  EXPECT_NE(kit::coded_error_of([&] { NeighbourModel(store, {.probes = 2, .effort = 3}, index); }), "no error");
}

#else

TEST(HnswIndex, WithoutTheLibraryItSaysSo) {
  EXPECT_NE(kit::coded_error_of([] { HnswIndex::build(keys_store(9)); }).find("libhnswlib-dev"), std::string::npos);
}

#endif

TEST(HnswIndex, AStoreWithoutOneSaysHowToMakeIt) {
  const kit::Scratch scratch;
  const Datastore store = keys_store(9);
  EXPECT_NE(kit::coded_error_of([&] { HnswIndex::open(scratch.path(), store); }).find("--index hnsw"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([&] { NeighbourModel(store, {.effort = 3}); }).find("--index hnsw"), std::string::npos);
}

}  // namespace
}  // namespace lithe
