#include "lithe/infer/datastore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lithe/infer/neighbours.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr int64_t kWidth = 6, kVocabulary = 11;

DatastoreInfo info_for(DType type = DType::f32) {
  return {.model_fingerprint = 5, .tokenizer_fingerprint = 7, .vocab_size = kVocabulary, .width = kWidth, .type = type};
}

std::vector<int32_t> some_values(int64_t n) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(int32_t((i * 7 + i / 3) % kVocabulary));
  return out;
}

std::string bytes_of(const Tensor& keys, const std::vector<int32_t>& values, DType type = DType::f32) {
  std::string bytes;
  DatastoreWriter writer(info_for(type), [&](std::string_view part) { bytes += part; });
  const int64_t half = keys.rows() / 2;  // in two parts
  writer.add(keys.slice(0, half), std::span(values).first(size_t(half)));
  writer.add(keys.slice(half, keys.rows()), std::span(values).subspan(size_t(half)));
  writer.finish();
  return bytes;
}

double squared_distance(const Tensor& a, int64_t i, const Tensor& b, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < kWidth; ++c) {
    const double d = value_at(a, i * kWidth + c) - value_at(b, j * kWidth + c);
    sum += d * d;
  }
  return sum;
}

TEST(Datastore, KeepsKeysAndTokens) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Tensor keys = kit::normal({37, kWidth}, DType::f32, 1);
    const std::vector<int32_t> values = some_values(37);
    const Datastore store = Datastore::from_bytes(bytes_of(keys, values, type));
    EXPECT_EQ(store.info().entries, 37);
    EXPECT_EQ(store.info().type, type);
    store.verify();
    std::vector<float> read(size_t(37 * kWidth));
    store.keys(0, 37, read.data());
    const Tensor want = convert(convert(keys, type), DType::f32);
    for (int64_t i = 0; i < 37 * kWidth; ++i) EXPECT_EQ(read[size_t(i)], want.data<float>()[i]);
    for (int64_t i = 0; i < 37; ++i) EXPECT_EQ(store.value(i), values[size_t(i)]);
    store.keys(30, 2, read.data());
    EXPECT_EQ(read[0], want.data<float>()[30 * kWidth]);
  }
}

// Blocks of keys are of 1,024: some before, some behind.
TEST(Datastore, FindsTheNearestKeys) {
  const Tensor keys = kit::normal({2100, kWidth}, DType::f32, 1), queries = kit::normal({9, kWidth}, DType::f32, 2);
  const Datastore store = Datastore::from_bytes(bytes_of(keys, some_values(2100)));
  const NearestKeys near = nearest_keys(store, queries, 5, 0);
  for (int64_t q = 0; q < 9; ++q) {
    std::vector<std::pair<double, int64_t>> all;
    for (int64_t j = 0; j < 2100; ++j) all.emplace_back(squared_distance(queries, q, keys, j), j);
    std::sort(all.begin(), all.end());
    for (int64_t n = 0; n < 5; ++n) {
      EXPECT_EQ(near.entries[size_t(q * 5 + n)], all[size_t(n)].second);
      EXPECT_NEAR(near.distances[size_t(q * 5 + n)], all[size_t(n)].first, 1e-4);
    }
    const NearestKeys alone = nearest_keys(store, clone(queries.slice(q, q + 1)), 5, 0);
    EXPECT_TRUE(std::equal(alone.distances.begin(), alone.distances.end(), near.distances.begin() + q * 5));
  }
}

TEST(Datastore, AnIndexFindsMostOfThemAndAllWithAllLists) {
  const kit::Scratch scratch;
  const Tensor keys = kit::normal({2100, kWidth}, DType::f32, 1), queries = kit::normal({20, kWidth}, DType::f32, 2);
  write_file(scratch.path() / "datastore.bin", bytes_of(keys, some_values(2100)));
  const Datastore plain = Datastore::open(scratch.path());
  index_datastore(scratch.path(), 40);
  const Datastore store = Datastore::open(scratch.path());
  store.verify();
  EXPECT_EQ(store.info().lists, 40);
  EXPECT_EQ(store.list_begin(0), 0);
  EXPECT_EQ(store.list_end(39), 2100);
  // The same entries in another order: distances tell them apart here.
  const auto distances = [&](const Datastore& of, int64_t probes) { return nearest_keys(of, queries, 8, probes); };
  const NearestKeys exact = distances(plain, 0), whole = distances(store, 0), some = distances(store, 10);
  int64_t found = 0;
  for (int64_t q = 0; q < 20; ++q) {
    std::set<float> want(exact.distances.begin() + q * 8, exact.distances.begin() + (q + 1) * 8);
    for (int64_t n = 0; n < 8; ++n) {
      EXPECT_NEAR(whole.distances[size_t(q * 8 + n)], exact.distances[size_t(q * 8 + n)], 1e-5);
      EXPECT_EQ(store.value(whole.entries[size_t(q * 8 + n)]), plain.value(exact.entries[size_t(q * 8 + n)]));
      found += some.distances[size_t(q * 8 + n)] <= exact.distances[size_t(q * 8 + 7)] + 1e-5;
    }
    const NearestKeys alone = nearest_keys(store, clone(queries.slice(q, q + 1)), 8, 10);
    EXPECT_TRUE(std::equal(alone.entries.begin(), alone.entries.end(), some.entries.begin() + q * 8));
  }
  EXPECT_GE(found, 160 * 8 / 10) << "of 160, with a quarter of the lists";
}

TEST(Datastore, FewerEntriesThanAskedFor) {
  const Datastore store = Datastore::from_bytes(bytes_of(kit::normal({3, kWidth}, DType::f32, 1), some_values(3)));
  const NearestKeys near = nearest_keys(store, kit::normal({1, kWidth}, DType::f32, 2), 5, 0);
  EXPECT_EQ(near.entries[3], -1);
  EXPECT_NE(near.entries[2], -1);
}

TEST(Neighbours, AMixtureOfBothDistributions) {
  const Tensor keys = kit::normal({60, kWidth}, DType::f32, 1), rows = kit::normal({4, kWidth}, DType::f32, 2),
               logits = kit::normal({4, kVocabulary}, DType::f32, 3);
  const std::vector<int32_t> values = some_values(60);
  const Datastore store = Datastore::from_bytes(bytes_of(keys, values));
  const NeighbourModel model(store, {.k = 7, .weight = 0.3, .temperature = 2});
  Tensor mixed = clone(logits);
  model.mix(rows, mixed);
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<std::pair<double, int64_t>> all;
    for (int64_t j = 0; j < 60; ++j) all.emplace_back(squared_distance(rows, i, keys, j), j);
    std::sort(all.begin(), all.end());
    std::vector<double> near(kVocabulary, 0), own(kVocabulary);
    double near_sum = 0, own_sum = 0;
    for (int64_t n = 0; n < 7; ++n) {
      const double w = std::exp(-all[size_t(n)].first / 2);
      near[size_t(values[size_t(all[size_t(n)].second)])] += w, near_sum += w;
    }
    for (int64_t c = 0; c < kVocabulary; ++c)
      own_sum += own[size_t(c)] = std::exp(value_at(logits, i * kVocabulary + c));
    for (int32_t c = 0; c < kVocabulary; ++c) {
      const double want = 0.3 * near[size_t(c)] / near_sum + 0.7 * own[size_t(c)] / own_sum;
      EXPECT_NEAR(std::exp(value_at(mixed, i * kVocabulary + c)), want, 1e-5);
      const double nll = -std::log(own[size_t(c)] / own_sum);
      const Tensor row = clone(rows.slice(i, i + 1));
      EXPECT_NEAR(model.nll(row, std::vector{c}, std::vector{nll})[0], -std::log(want), 1e-4);
    }
  }
  const NeighbourModel none(store, {.k = 7, .weight = 0});
  EXPECT_EQ(none.nll(clone(rows.slice(0, 1)), std::vector<int32_t>{3}, std::vector{1.25})[0], 1.25);
}

TEST(Datastore, WhatIsNoneOrOfOthersIsRefused) {
  const std::string bytes = bytes_of(kit::normal({20, kWidth}, DType::f32, 1), some_values(20));
  const auto refusal = [](std::string of) { return kit::error_of([&] { Datastore::from_bytes(std::move(of), "S"); }); };
  EXPECT_EQ(refusal(bytes), "no error");
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_NE(refusal(bytes.substr(0, cut)).find("'S' "), std::string::npos) << cut;
  EXPECT_NE(refusal(bytes.substr(0, bytes.size() - 9)).find("cut short"), std::string::npos);
  for (const size_t at : {size_t(0), size_t(9), size_t(13), bytes.size() - 90, bytes.size() - 60, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ 4);
    EXPECT_NE(refusal(damaged), "no error") << at;
  }
  std::string key = bytes;  // looked at when it is asked for
  key[20] = char(key[20] ^ 4);
  EXPECT_NE(kit::error_of([&] { Datastore::from_bytes(key).verify(); }).find("checksum of keys"), std::string::npos);
  const Datastore bad = Datastore::from_bytes(key, "S");
  const Tensor query = kit::normal({1, kWidth}, DType::f32, 9);
  EXPECT_NE(kit::error_of([&] { nearest_keys(bad, query, 3, 0); }).find("'S' is damaged"), std::string::npos);
  const Datastore store = Datastore::from_bytes(bytes, "S");
  EXPECT_NE(kit::coded_error_of([&] { store.check_made_by(5, 8); }).find("another tokenizer"), std::string::npos);
  EXPECT_NE(kit::coded_error_of([&] { store.check_made_by(6, 7); }).find("other weights"), std::string::npos);
  EXPECT_EQ(kit::coded_error_of([&] { store.check_made_by(5, 7); }), "no error");
  EXPECT_NE(kit::coded_error_of([&] { NeighbourModel(store, {.probes = 2}); }).find("--lists"), std::string::npos);
  EXPECT_NE(kit::coded_error_of([&] { Datastore::open("/no/such"); }).find("lithe datastore build"), std::string::npos);
}

// Every block of 64 KiB has a sum of its own: what is whole can be read beside what is not.
TEST(Datastore, KeysAreCheckedBlockByBlockAsTheyAreRead) {
  const int64_t entries = 3 * 64 * 1024 / (4 * kWidth) + 7;
  std::string bytes = bytes_of(kit::normal({entries, kWidth}, DType::f32, 1), some_values(entries));
  constexpr size_t kHead = 16, kBlock = 64 * 1024;
  bytes[kHead + kBlock + 5] = char(bytes[kHead + kBlock + 5] ^ 1);
  const Datastore store = Datastore::from_bytes(bytes, "S");
  std::vector<float> out(size_t(entries * kWidth));
  const auto read = [&](int64_t first, int64_t count) {
    return kit::error_of([&] { store.keys(first, count, out.data()); });
  };
  // The damaged block holds key 2731 and ends in key 5461.
  EXPECT_EQ(read(0, 2730), "no error");
  EXPECT_EQ(read(5462, entries - 5462), "no error");
  EXPECT_NE(read(2731, 1).find("checksum of keys, from byte 65536"), std::string::npos);
  EXPECT_NE(read(5461, 1).find("is damaged"), std::string::npos);
  EXPECT_NE(read(0, entries).find("is damaged"), std::string::npos);
  std::string sum = bytes_of(kit::normal({entries, kWidth}, DType::f32, 1), some_values(entries));
  const size_t trailer = 9 * 8;
  sum[sum.size() - trailer - 3] = char(sum[sum.size() - trailer - 3] ^ 1);  // of the sums themselves
  EXPECT_NE(kit::error_of([&] { Datastore::from_bytes(sum); }).find("checksum of values and index"), std::string::npos);
}

}  // namespace
}  // namespace lithe
