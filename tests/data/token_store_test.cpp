#include "lithe/data/token_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "../fuzz/token_store_fuzz.cpp"
#include "files_for_tests.h"
#include "lithe/base/random.h"
#include "tests/data/store_kit.h"

namespace lithe {
namespace {

std::string bytes_of(const std::vector<Ids>& documents, const std::vector<std::string>& texts, StoreInfo info) {
  std::string bytes;
  TokenStoreWriter writer(info, [&](std::string_view part) { bytes += part; });
  for (size_t d = 0; d < documents.size(); ++d) writer.add(documents[d], texts[d]);
  writer.finish();
  return bytes;
}

const StoreInfo kInfo = {
    .tokenizer_fingerprint = 7, .corpus_fingerprint = 8, .vocab_size = 300, .begin_of_text = 256, .end_of_text = 257};

TEST(TokenStore, ReadsWhatWasWritten) {
  TestFiles files;
  const std::vector<Ids> documents = {{1, 2, 299}, {}, {0}, {5, 5, 5, 5}};
  const auto path = files.add("a.tokens", bytes_of(documents, {"one two\nthree\n", " ", "x", "\ta  b\r\n c"}, kInfo));
  const TokenStore store = TokenStore::open(path);
  ASSERT_EQ(store.documents(), 4);
  EXPECT_EQ(store.tokens(), 8);
  for (int64_t d = 0; d < 4; ++d) EXPECT_EQ(document(store, d), documents[size_t(d)]);
  EXPECT_EQ(store.info().tokenizer_fingerprint, 7u);
  EXPECT_EQ(store.info().corpus_fingerprint, 8u);
  EXPECT_EQ(store.info().vocab_size, 300);
  EXPECT_EQ(store.begin_of_text(), 256);
  EXPECT_EQ(store.end_of_text(), 257);
  EXPECT_EQ(store.info().bytes, 14 + 1 + 1 + 9);
  EXPECT_EQ(store.info().words, 3 + 0 + 1 + 3);
  EXPECT_EQ(store.info().lines, 2 + 0 + 0 + 1);
}

TEST(TokenStore, TheFileStaysValidWhenItsNameIsTaken) {
  TestFiles files;
  const auto path = files.add("a.tokens", bytes_of({{1, 2, 3}}, {"abc"}, kInfo));
  const TokenStore store = TokenStore::open(path);
  write_file(path, "something else");
  EXPECT_EQ(document(store, 0), (Ids{1, 2, 3}));
}

TEST(TokenStore, WidthOfIdsFollowsTheVocabulary) {
  StoreInfo info{.vocab_size = 65536};
  const std::string narrow = bytes_of({{0, 65535}}, {""}, info);
  info.vocab_size = 65537;
  const std::string wide = bytes_of({{0, 65536}}, {""}, info);
  EXPECT_EQ(document(TokenStore::from_bytes(narrow), 0), (Ids{0, 65535}));
  EXPECT_EQ(document(TokenStore::from_bytes(wide), 0), (Ids{0, 65536}));
  EXPECT_EQ(narrow.size(), wide.size());  // both padded to 8 bytes of ids
  expect_error([&] { bytes_of({{65537}}, {""}, info); }, {"must be in [0, 65537), got 65537"});
  expect_error([&] { bytes_of({{-1}}, {""}, info); }, {"must be in [0, 65537), got -1"});
}

TEST(TokenStore, LongStoresCrossTheBlocksOfTheChecksum) {
  std::vector<Ids> documents(3);
  for (uint64_t i = 0; i < 1200000; ++i) documents[i % 3].push_back(int32_t(random_below({.seed = 4}, i, 300)));
  const TokenStore store = TokenStore::from_bytes(bytes_of(documents, {"", "", ""}, kInfo));
  for (int64_t d = 0; d < 3; ++d) EXPECT_EQ(document(store, d), documents[size_t(d)]);
}

TEST(TokenStore, FingerprintTellsDataApart) {
  const auto print = [](const std::vector<Ids>& documents) {
    return TokenStore::from_documents(documents, kInfo).fingerprint();
  };
  EXPECT_EQ(print({{1, 2}, {3}}), print({{1, 2}, {3}}));
  EXPECT_NE(print({{1, 2}, {3}}), print({{1}, {2, 3}}));
  EXPECT_NE(print({{1, 2}, {3}}), print({{1, 2}, {4}}));
}

TEST(TokenStore, ReadsOutsideAreRefused) {
  const TokenStore store = TokenStore::from_documents({{1, 2, 3}}, kInfo);
  Ids out(8);
  expect_error([&] { store.copy(2, 2, out.data()); }, {"tokens [2, 4) must lie in [0, 3)"});
  expect_error([&] { store.copy(-1, 1, out.data()); }, {"[-1, 0)"});
  expect_error([&] { TokenStore().copy(0, 1, out.data()); }, {"[0, 0)"});
}

TEST(TokenStore, EveryTruncationAndEveryFlippedByteIsNoticed) {
  const std::string whole = bytes_of({{1, 2, 299}, {}, {0, 4}}, {"one two", "", "x"}, kInfo);
  ASSERT_NO_THROW(TokenStore::from_bytes(whole));
  for (size_t size = 0; size < whole.size(); ++size)
    expect_error([&] { TokenStore::from_bytes(whole.substr(0, size), "cut.tokens"); },
                 {"token store: 'cut.tokens'", "delete it"});
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = char(changed[at] ^ (1 << bit));
      expect_error([&] { TokenStore::from_bytes(changed, "flipped.tokens"); }, {"token store: 'flipped.tokens'"});
    }
  expect_error([&] { TokenStore::from_bytes(whole + "x"); }, {"token store: 'memory'"});
  expect_error([&] { TokenStore::from_bytes(whole + std::string(8, '\0')); }, {"token store: 'memory'"});
}

// A hostile file has right checksums. Each 8-byte number of the offsets and the trailer is set to extreme values.
TEST(TokenStore, HostileCountsAndOffsetsAreRefusedOrHarmless) {
  const std::string whole = bytes_of({{1, 2, 299}, {7}, {0, 4}}, {"one two", "", "x"}, kInfo);
  int refused = 0;
  for (size_t at = 8; at + 8 <= whole.size(); at += 8)
    for (const uint64_t value : {uint64_t(0), uint64_t(1), uint64_t(2), uint64_t(300), uint64_t(1) << 31,
                                 uint64_t(1) << 61, uint64_t(1) << 63, ~uint64_t(0)}) {
      std::string changed = whole;
      std::memcpy(changed.data() + at, &value, 8);
      seal_token_store(changed);
      try {
        read_all(TokenStore::from_bytes(changed));
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 60);
}

TEST(TokenStore, HostileContentsNameTheRule) {
  const std::string whole = bytes_of({{1, 2, 3, 4}}, {"text"}, kInfo);  // 16 head, 8 ids, 16 offsets, 96 trailer
  ASSERT_EQ(whole.size(), 16u + 8 + 16 + 96);
  const auto with = [&](size_t at, uint64_t value, size_t count, const char* rule) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, count);
    seal_token_store(changed);
    expect_error([&] { TokenStore::from_bytes(changed); }, {rule});
  };
  with(0, 'X', 1, "is no token store");
  with(8, 99, 4, "another version");
  with(12, 4, 4, "width");
  with(16, 300, 2, "ids outside its vocabulary");
  with(24, 1, 8, "offsets");
  with(32, 5, 8, "offsets");
  with(40 + 16, 0, 8, "vocabulary size");
  with(40 + 24, 300, 8, "special token outside");
  with(40 + 40, 0, 8, "do not match its size");
  with(40 + 40, ~uint64_t(0), 8, "impossible counts");
  with(40 + 48, ~uint64_t(0), 8, "impossible counts");
  with(40 + 64, 5, 8, "impossible counts of the text");  // more words than bytes
}

// ---- tokens of several ints

const StoreInfo kCodes = {.vocab_size = 6, .token_width = 3, .begin_of_text = 0, .end_of_text = 2};

TEST(TokenStore, CodesAreReadAsTheyWereWritten) {
  TestFiles files;
  // A payload may be any bits.
  const std::vector<Ids> documents = {{5, 7, -1, 3, 0, 0}, {}, {5, 1 << 30, std::numeric_limits<int32_t>::min()}};
  const TokenStore store = TokenStore::open(files.add("a.tokens", bytes_of(documents, {"one two", "", "x"}, kCodes)));
  EXPECT_EQ(store.token_width(), 3);
  EXPECT_EQ(store.info().token_width, 3);
  EXPECT_EQ(store.tokens(), 3);
  EXPECT_EQ(store.document_begin(2), 2);
  EXPECT_EQ(store.end_of_text(), 2);
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t begin = store.document_begin(d), count = store.document_end(d) - begin;
    Ids got(size_t(3 * count));
    store.copy(begin, count, got.data());
    EXPECT_EQ(got, documents[size_t(d)]) << d;
  }
  Ids one(3);
  store.copy(1, 1, one.data());
  EXPECT_EQ(one, (Ids{3, 0, 0}));
  expect_error([&] { store.copy(2, 2, one.data()); }, {"tokens [2, 4) must lie in [0, 3)"});
  EXPECT_EQ(TokenStore::from_documents(documents, kCodes).fingerprint(), store.fingerprint());
}

TEST(TokenStore, EqualIntsOfAnotherWidthAreOtherData) {
  StoreInfo two = kCodes, three = kCodes;
  two.token_width = 2;
  const Ids ints{5, 1, 2, 5, 3, 4};
  EXPECT_NE(TokenStore::from_documents({{5, 1, 5, 2, 5, 3}}, two).fingerprint(),
            TokenStore::from_documents({{5, 1, 5, 2, 5, 3}}, three).fingerprint());
  expect_error([&] { TokenStore::from_documents({{5, 1, 2, 5}}, kCodes); }, {"tokens of 3 ints cannot be 4 ints"});
  expect_error([&] { TokenStore::from_documents({{6, 1, 2}}, kCodes); }, {"must be in [0, 6), got 6"});
}

TEST(TokenStore, HostileCodesNameTheRule) {
  const std::string whole = bytes_of({{5, 1, 2, 3, 0, 0}}, {"text"}, kCodes);  // 16 head, 24 ints, 16 offsets, 96
  ASSERT_EQ(whole.size(), 16u + 24 + 16 + 96);
  const auto with = [&](size_t at, uint64_t value, size_t count, const char* rule) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, count);
    seal_token_store(changed);
    expect_error([&] { TokenStore::from_bytes(changed); }, {rule});
  };
  for (const uint64_t width : {0, 1, 3, 5, 13}) with(12, width, 4, "width");
  with(12, 8, 4, "do not match its size");
  with(12, 0xfffffffc, 4, "counts");
  with(16, 6, 4, "ids outside its vocabulary");
  with(28, 0xffffffff, 4, "ids outside its vocabulary");  // code[0] of the second token
  for (size_t size = 0; size < whole.size(); ++size)
    expect_error([&] { TokenStore::from_bytes(whole.substr(0, size)); }, {"token store:"});
}

TEST(TokenStore, FuzzTargetSurvivesMutations) {
  const std::string seed = bytes_of({{1, 2, 299}, {7}, {}, {0, 4, 9, 9}}, {"one two", "", "x", "y"}, kInfo);
  for (uint64_t round = 0; round < 20000; ++round) {
    const RandomKey key{.seed = 21, .step = round};
    std::string bytes = seed;
    for (uint64_t k = 0; k <= random_below(key, 0, 4); ++k)
      bytes[random_below(key, 2 * k + 1, bytes.size())] = char(random_below(key, 2 * k + 2, 256));
    if (round % 5 == 0) bytes.resize(random_below(key, 100, bytes.size()));
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace lithe
