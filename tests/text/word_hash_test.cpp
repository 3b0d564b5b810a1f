// MD5, n-grams and the two locality-sensitive hashes.
#include <cmath>
#include <map>
#include <thread>

#include "lithe/text/code_tokenizer.h"
#include "lithe/text/lsh.h"
#include "lithe/text/md5.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

using Counts = std::vector<NgramCount>;

std::string hex(const Digest& digest) {
  std::string out;
  for (const uint8_t byte : digest) out += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return out;
}

Ids code_of(const WordModel& model, std::string_view word) {
  Ids code;
  model.encode(word, code);
  return code;
}

std::vector<bool> bits_of(const Ids& code, int64_t bits) {
  std::vector<bool> out;
  for (int64_t j = 0; j < bits; ++j) out.push_back(code_bit(code.data() + 1, j));
  return out;
}

// ---- MD5

// oracle: hash.md5
TEST(Md5, VectorsOfRfc1321) {
  const Md5 md5;
  EXPECT_EQ(hex(md5("")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex(md5("a")), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(hex(md5("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(hex(md5("message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hex(md5("abcdefghijklmnopqrstuvwxyz")), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(hex(md5("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")),
            "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(hex(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890")),
            "57edf4a22be3c955ac49da2e2107b67a");
}

// oracle: hash.md5
TEST(Md5, HmacVectorsOfRfc2202) {
  EXPECT_EQ(hex(Md5(std::string(16, '\x0b'))("Hi There")), "9294727a3638bb1c13f48ef8158bfc9d");
  EXPECT_EQ(hex(Md5("Jefe")("what do ya want for nothing?")), "750c783e6ab0b503eaa86e310a5db738");
  EXPECT_EQ(hex(Md5(std::string(16, '\xaa'))(std::string(50, '\xdd'))), "56be34521d144c88dbb8c733f0e8b3f6");
  EXPECT_EQ(hex(Md5(std::string(80, '\xaa'))("Test Using Larger Than Block-Size Key - Hash Key First")),
            "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
  EXPECT_EQ(hex(Md5("en")("play")), "95ea122b0b72902c5a95d7ba740ff838");
}

// oracle: hash.md5
TEST(Md5, WordsOfTheThesis) {
  const Md5 md5;
  EXPECT_EQ(hex(md5("play")), "a3b34c0871dc2fd51eec5559b68f709d");
  EXPECT_EQ(hex(md5("plays")), "ed4018190d63d27337300381ca661fae");
  EXPECT_EQ(hex(md5("played")), "d1b335c1c6e53281edbff438ff2af54f");
  EXPECT_EQ(modulo(md5("play"), 50000), 15933);
  EXPECT_EQ(modulo(md5("play"), 1000), 933);
  EXPECT_EQ(modulo(md5("plays"), 50000), 3486);
  EXPECT_EQ(modulo(md5("played"), 50000), 1359);
  EXPECT_EQ(modulo(md5("play"), 1), 0);

  const auto model = make_word_hash({}, {});
  const Ids code = code_of(*model, "play");
  EXPECT_EQ(code, (Ids{code_ordinary, int32_t(0xa3b34c08), 0x71dc2fd5, 0x1eec5559, int32_t(0xb68f709d)}));
  const auto bits = bits_of(code, 128);
  EXPECT_EQ(std::count(bits.begin(), bits.end(), true), 67);
  EXPECT_TRUE(bits[0] && !bits[1] && bits[2]) << "0xa3 is 10100011, most significant first";

  WordHashSettings buckets;
  buckets.code = "bucket";
  EXPECT_EQ(code_of(*make_word_hash(buckets, {}), "play"), (Ids{code_ordinary, 15933}));
  WordHashSettings keyed;
  keyed.key = "en";
  EXPECT_EQ(code_of(*make_word_hash(keyed, {}), "play")[1], int32_t(0x95ea122b));
}

// oracle: hash.md5
TEST(Md5, HalfOfTheBitsAreOne) {
  const auto model = make_word_hash({}, {});
  constexpr int64_t words = 10000;
  int64_t ones = 0;
  for (int64_t w = 0; w < words; ++w)
    for (const bool bit : bits_of(code_of(*model, "word" + std::to_string(w)), 128)) ones += bit;
  const double n = 128.0 * words;
  EXPECT_NEAR(double(ones), n / 2, 4 * std::sqrt(n) / 2);  // 4 standard errors
}

TEST(Md5, ManyThreadsGetTheSame) {
  const Md5 plain, keyed("en");
  std::vector<std::string> results(8);
  std::vector<std::thread> workers;
  for (std::string& result : results)
    workers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) result = hex(plain("play")) + hex(keyed("play"));
    });
  for (std::thread& worker : workers) worker.join();
  for (const std::string& result : results)
    EXPECT_EQ(result, "a3b34c0871dc2fd51eec5559b68f709d95ea122b0b72902c5a95d7ba740ff838");
}

// ---- n-grams

// oracle: hash.ngram
TEST(Ngrams, OfAab) {
  const NgramDictionary dictionary(4, {"a", "b", "aa", "ab", "aab", "aabb", "zz"});
  EXPECT_EQ(dictionary.counts("aab"), (Counts{{0, 2}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
  EXPECT_EQ(dictionary.counts(""), Counts());
  EXPECT_EQ(dictionary.counts("xyz"), Counts()) << "unknown ones are left out";
  EXPECT_EQ(dictionary.counts("a\xFF"), (Counts{{0, 1}}));
  EXPECT_EQ(NgramDictionary(2, {"ü", "üb"}).counts("über"), (Counts{{0, 1}, {1, 1}})) << "characters, not bytes";
}

// oracle: hash.ngram
TEST(Ngrams, AllKnownOnesSumUp) {
  for (const std::string word : {"a", "ab", "aab", "abcabc", "naïveté"}) {
    WordTable<int64_t> words;
    words.insert(word) = 3;
    const NgramDictionary dictionary = learn_ngrams(words, 4, 1000);
    int64_t length = 0, sum = 0, expected = 0;
    for (const char c : word) length += (c & 0xC0) != 0x80;
    for (const NgramCount& c : dictionary.counts(word)) sum += c.count;
    for (int64_t n = 1; n <= 4; ++n) expected += std::max<int64_t>(length - n + 1, 0);
    EXPECT_EQ(sum, expected) << word;
  }
}

TEST(Ngrams, TheMostFrequentAreKeptWhateverTheOrder) {
  // a: 2*3 + 5 = 11, b: 3 + 5 = 8, ab: 3 + 5 = 8, aa: 3, aab: 3, c: 1
  std::vector<std::pair<std::string, int64_t>> words = {{"aab", 3}, {"ab", 5}, {"c", 1}};
  for (int turn = 0; turn < 2; ++turn) {
    WordTable<int64_t> table;
    for (const auto& [word, count] : words) table.insert(word) = count;
    EXPECT_EQ(learn_ngrams(table, 4, 5).ngrams(), (std::vector<std::string>{"a", "ab", "b", "aa", "aab"}));
    std::reverse(words.begin(), words.end());
  }
  EXPECT_THROW(NgramDictionary(4, {"a", "a"}), Error);
  EXPECT_THROW(NgramDictionary(4, {""}), Error);
  EXPECT_THROW(NgramDictionary(4, {"abcde"}), Error);
  EXPECT_THROW(NgramDictionary(4, {"\xFF"}), Error);
}

// ---- LSH

/// `entries` distinct ids below `features` with counts 1 to `most`, from a seed.
Counts random_counts(uint64_t seed, int64_t features, int64_t entries, int64_t most) {
  std::map<int32_t, int32_t> drawn;
  for (uint64_t i = 0; int64_t(drawn.size()) < entries; ++i)
    drawn[int32_t(random_below({.seed = seed}, 2 * i, uint64_t(features)))] =
        int32_t(1 + random_below({.seed = seed}, 2 * i + 1, uint64_t(most)));
  Counts out;
  for (const auto& [id, count] : drawn) out.push_back({id, count});
  return out;
}

// oracle: hash.lsh_argmax
TEST(LshArgmax, EqualsTheExplicitMatrix) {
  for (const auto& [features, buckets] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {100, 31}, {100, 32}, {300, 300}}) {
    const LshArgmax lsh(9, features, buckets);
    std::vector<std::vector<int64_t>> r;  // r^i, each shifted by one more; r^1 = [eta_2 .. eta_d, eta_1]
    std::vector<int64_t> row(lsh.eta().begin(), lsh.eta().end());
    for (int64_t i = 1; i <= buckets; ++i) {
      std::rotate(row.begin(), row.begin() + 1, row.end());
      r.push_back(row);
    }
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const Counts x = random_counts(seed, features, std::min<int64_t>(features, 1 + int64_t(seed % 20)), 5);
      int64_t best = 0;
      std::vector<int64_t> product;
      for (const auto& shifted : r) {
        int64_t sum = 0;
        for (const NgramCount& c : x) sum += c.count * shifted[size_t(c.id)];
        product.push_back(sum);
        if (sum > product[size_t(best)]) best = int64_t(product.size()) - 1;
      }
      ASSERT_EQ(lsh.bucket(x), best) << features << " " << buckets << " " << seed;
    }
    for (const auto& shifted : r) {
      double norm = 0, first = 0;
      for (size_t c = 0; c < shifted.size(); ++c) norm += double(shifted[c]) * double(shifted[c]);
      for (const int32_t e : lsh.eta()) first += double(e) * double(e);
      EXPECT_NEAR(norm, first, 1e-12 * first) << "all rows have the norm of eta";
    }
  }
}

// oracle: hash.lsh_argmax
TEST(LshArgmax, DoesNotDependOnScaleAndTakesTheSmallestOfEquals) {
  const LshArgmax lsh(3, 5000, 4000);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Counts x = random_counts(seed, 5000, 25, 3);
    const int64_t bucket = lsh.bucket(x);
    for (const int32_t scale : {2, 7, 100'000}) {  // the last needs 64 bits
      Counts scaled = x;
      for (NgramCount& c : scaled) c.count *= scale;
      ASSERT_EQ(lsh.bucket(scaled), bucket) << "seed " << seed << " scale " << scale;
    }
  }
  EXPECT_EQ(lsh.bucket({}), 0) << "all products are 0";
  // x = e_c: the largest of eta from c + 1 on.
  const int32_t c = 77;
  const auto eta = lsh.eta();
  int64_t best = 1;
  for (int64_t i = 1; i <= 4000; ++i)
    if (eta[size_t((c + i) % 5000)] > eta[size_t((c + best) % 5000)]) best = i;
  EXPECT_EQ(lsh.bucket(Counts{{c, 1}}), best - 1);
  EXPECT_EQ(error_of([] { LshArgmax(0, 10, 11); }),
            "lsh: num_buckets must be 1 to ngram_vocab_size 10, as each bucket is another shift of a vector of that "
            "length; got 11");
}

Ids lsh_code(const LshBits& lsh, const Counts& x, int64_t bits) {
  Ids code(size_t(1 + (bits + 31) / 32));
  lsh.hash(x, code.data() + 1);
  return code;
}

// oracle: hash.lsh_bits
TEST(LshBits, EqualsTheStoredMatrix) {
  for (const int64_t bits : {1, 31, 32, 128, 420}) {
    const LshBits lsh(4, bits);
    const Counts x = random_counts(uint64_t(bits), 1000, 20, 4);
    std::vector<int64_t> products(static_cast<size_t>(bits));
    for (const NgramCount& c : x) {
      const auto column = lsh.components(c.id);
      ASSERT_EQ(int64_t(column.size()), bits);
      for (size_t j = 0; j < column.size(); ++j) products[j] += c.count * column[j];
    }
    const Ids code = lsh_code(lsh, x, bits);
    for (int64_t j = 0; j < bits; ++j) ASSERT_EQ(code_bit(code.data() + 1, j), products[size_t(j)] >= 0);
    for (int64_t j = bits; j < int64_t(code.size() - 1) * 32; ++j)
      ASSERT_FALSE(code_bit(code.data() + 1, j)) << "what is left of the last int is zero";
  }
  const auto none = bits_of(lsh_code(LshBits(4, 128), {}, 128), 128);
  EXPECT_EQ(std::count(none.begin(), none.end(), true), 128) << "no known n-gram gives ones";
}

// oracle: hash.lsh_bits
TEST(LshBits, DoesNotDependOnScaleAndTurnsWithTheSign) {
  const LshBits lsh(5, 128);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Counts x = random_counts(seed, 1000, 15, 3);
    Counts scaled = x, negative = x;
    for (NgramCount& c : scaled) c.count *= 9;
    for (NgramCount& c : negative) c.count *= -1;
    const auto bits = bits_of(lsh_code(lsh, x, 128), 128), turned = bits_of(lsh_code(lsh, negative, 128), 128);
    EXPECT_EQ(bits_of(lsh_code(lsh, scaled, 128), 128), bits);
    for (int64_t j = 0; j < 128; ++j) {
      int64_t product = 0;
      for (const NgramCount& c : x) product += c.count * lsh.components(c.id)[size_t(j)];
      ASSERT_TRUE(product == 0 || bits[size_t(j)] != turned[size_t(j)]);
    }
  }
}

// oracle: hash.lsh_bits
TEST(LshBits, HammingDistanceIsTheAngle) {
  constexpr int64_t bits = 128;
  for (const int64_t shared : {0, 4, 9, 12}) {  // of 13 entries
    double angle = 0, share = 0;
    constexpr uint64_t pairs = 60;
    for (uint64_t seed = 0; seed < pairs; ++seed) {
      const Counts x = random_counts(seed, 2000, 13, 1), fresh = random_counts(seed + 1000, 2000, 40, 1);
      Counts y(x.begin(), x.begin() + shared);
      for (const NgramCount& c : fresh)
        if (int64_t(y.size()) < 13 && std::find(x.begin(), x.end(), c) == x.end()) y.push_back(c);
      angle = std::acos(double(shared) / 13.0);  // all counts are 1
      const LshBits lsh(seed, bits);
      const auto a = bits_of(lsh_code(lsh, x, bits), bits), b = bits_of(lsh_code(lsh, y, bits), bits);
      for (int64_t j = 0; j < bits; ++j) share += a[size_t(j)] != b[size_t(j)];
    }
    const double n = double(bits * pairs), p = angle / M_PI;
    EXPECT_NEAR(share / n, p, 3 * std::sqrt(p * (1 - p) / n)) << shared;
  }
}

// oracle: hash.lsh_bits
TEST(LshBits, LikeWordsAreNear) {
  WordTable<int64_t> words;
  for (const char* word : {"play", "plays", "zebra"}) words.insert(word) = 1;
  const NgramDictionary ngrams = learn_ngrams(words, 4, 1000);
  int nearer = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const LshBits lsh(seed, 128);
    const auto bits = [&](const char* word) { return bits_of(lsh_code(lsh, ngrams.counts(word), 128), 128); };
    const auto play = bits("play"), plays = bits("plays"), zebra = bits("zebra");
    int64_t to_plays = 0, to_zebra = 0;
    for (size_t j = 0; j < 128; ++j) to_plays += play[j] != plays[j], to_zebra += play[j] != zebra[j];
    nearer += to_plays < to_zebra;
  }
  EXPECT_GT(nearer, 50);
}

TEST(WordHash, RefusesWhatDoesNotExist) {
  const auto refusal = [](auto&& change) {
    WordHashSettings s;
    change(s);
    return error_of([&] { s.validate(); });
  };
  EXPECT_EQ(refusal([](auto& s) { s.bits = 420; }),
            "tokenizer: an MD5 has 128 bits, but bits is 420: choose 128, or hash lsh, which gives any number");
  EXPECT_EQ(refusal([](auto& s) { s.hash = "lsh", s.code = "bucket", s.ngram_vocab_size = 100; }),
            "tokenizer: num_buckets 50000 is above ngram_vocab_size 100, and lsh has one bucket a shift of a vector of "
            "that length: lower num_buckets or raise ngram_vocab_size");
  EXPECT_EQ(refusal([](auto& s) { s.hash = "sha"; }), "tokenizer: hash must be md5 or lsh, got 'sha'");
  EXPECT_EQ(refusal([](auto& s) { s.num_buckets = 0; }), "tokenizer: num_buckets must be 1 to 2147483647, got 0");
}

}  // namespace
}  // namespace lithe
