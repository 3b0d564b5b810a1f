#include "lithe/text/word_hash.h"

#include <mutex>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/base/files.h"
#include "lithe/text/lsh.h"
#include "lithe/text/md5.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr int64_t most_bits = 4096, most_ngrams = 1 << 22, longest_ngram = 8;
constexpr size_t most_remembered = 1 << 20;  // words

// spec: hash.md5 | tokenizer | digest of a word, as bits or modulo the number of buckets; with a key HMAC | TH 2.3.2
class Md5Hash final : public WordModel {
 public:
  explicit Md5Hash(const WordHashSettings& settings)
      : md5_(settings.key), buckets_(settings.code == "bucket" ? settings.num_buckets : 0) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const Digest digest = md5_(word);
    ids.push_back(code_ordinary);
    if (buckets_ > 0) {
      ids.push_back(int32_t(modulo(digest, buckets_)));
      return;
    }
    for (size_t i = 0; i < digest.size(); i += 4)
      ids.push_back(int32_t(uint32_t(digest[i]) << 24 | uint32_t(digest[i + 1]) << 16 | uint32_t(digest[i + 2]) << 8 |
                            digest[i + 3]));
  }

 private:
  Md5 md5_;
  int64_t buckets_;  // 0: bits
};

/// Payloads of words from n-gram counts, each computed once however many threads meet the word.
class LshHash : public WordModel {
 public:
  LshHash(NgramDictionary ngrams, int64_t payload) : ngrams_(std::move(ngrams)), payload_(size_t(payload)) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    ids.push_back(code_ordinary);
    {
      const std::lock_guard lock(mutex_);
      if (const size_t* at = places_.find(word)) {
        ids.insert(ids.end(), payloads_.begin() + ptrdiff_t(*at), payloads_.begin() + ptrdiff_t(*at + payload_));
        return;
      }
    }
    const size_t begin = ids.size();
    ids.resize(begin + payload_);
    payload(ngrams_.counts(word), ids.data() + begin);
    const std::lock_guard lock(mutex_);
    if (places_.size() == most_remembered) {
      places_.clear();
      payloads_.clear();
    }
    places_.insert(word) = payloads_.size();
    payloads_.insert(payloads_.end(), ids.begin() + ptrdiff_t(begin), ids.end());
  }

 protected:
  virtual void payload(const std::vector<NgramCount>& x, int32_t* out) const = 0;

 private:
  NgramDictionary ngrams_;
  size_t payload_;  // ints
  mutable std::mutex mutex_;
  mutable WordTable<size_t> places_;  // in payloads_
  mutable std::vector<int32_t> payloads_;
};

class LshBitsHash final : public LshHash {
 public:
  LshBitsHash(const WordHashSettings& s, NgramDictionary ngrams)
      : LshHash(std::move(ngrams), s.token_code().width() - 1), lsh_(uint64_t(s.hash_seed), s.bits) {}

 protected:
  void payload(const std::vector<NgramCount>& x, int32_t* out) const override { lsh_.hash(x, out); }

 private:
  LshBits lsh_;
};

class LshBucketHash final : public LshHash {
 public:
  LshBucketHash(const WordHashSettings& s, NgramDictionary ngrams)
      : LshHash(std::move(ngrams), 1), lsh_(uint64_t(s.hash_seed), s.ngram_vocab_size, s.num_buckets) {}

 protected:
  void payload(const std::vector<NgramCount>& x, int32_t* out) const override { *out = int32_t(lsh_.bucket(x)); }

 private:
  LshArgmax lsh_;
};

}  // namespace

void WordHashSettings::fields(Fields& f) {
  f("lowercase", lowercase, "type words: hash words in lower case");
  f("hash", hash,
    "type words: md5 gives every word an unrelated code; lsh gives similar codes to words that share character n-grams",
    one_of({"md5", "lsh"}));
  f("code", code, "type words: code of a word: bits (a vector of bits) or bucket (one bucket number)",
    one_of({"bits", "bucket"}));
  f("bits", bits, "type words, code bits: bits per word; md5 has 128", between(1, double(most_bits)));
  f("num_buckets", num_buckets, "type words, code bucket: number of buckets; with lsh at most ngram_vocab_size",
    between(1, double(INT32_MAX)));
  f("key", key, "type words, hash md5: key of HMAC-MD5; empty: plain MD5; stored in tokenizer.json");
  f("ngram_vocab_size", ngram_vocab_size,
    "type words, hash lsh: number of n-grams in use, the most frequent of the corpus", between(1, double(most_ngrams)));
  f("ngram_max", ngram_max, "type words, hash lsh: longest n-gram in characters", between(1, double(longest_ngram)));
  f("hash_seed", hash_seed, "type words, hash lsh: seed of the random projections", at_least(0));
}

std::vector<std::string> WordHashSettings::used_keys() const {
  std::vector<std::string> keys = {"lowercase", "hash", "code", code == "bits" ? "bits" : "num_buckets"};
  if (hash == "md5")
    keys.push_back("key");
  else
    keys.insert(keys.end(), {"ngram_vocab_size", "ngram_max", "hash_seed"});
  return keys;
}

void WordHashSettings::validate() const {
  const auto within = [](const char* name, int64_t value, int64_t least, int64_t most) {
    check_usage(value >= least && value <= most, "tokenizer", name, " must be ", least, " to ", most, ", got ", value);
  };
  check_usage(hash == "md5" || hash == "lsh", "tokenizer", "hash must be md5 or lsh, got '", hash, "'");
  check_usage(code == "bits" || code == "bucket", "tokenizer", "code must be bits or bucket, got '", code, "'");
  within("bits", bits, 1, most_bits);
  within("num_buckets", num_buckets, 1, INT32_MAX);
  within("ngram_vocab_size", ngram_vocab_size, 1, most_ngrams);
  within("ngram_max", ngram_max, 1, longest_ngram);
  within("hash_seed", hash_seed, 0, INT64_MAX);
  check_usage(is_valid_utf8(key), "tokenizer", "key is not UTF-8");
  check_usage(hash != "md5" || code != "bits" || bits == 128, "tokenizer", "an MD5 has 128 bits, but bits is ", bits,
              ": choose 128, or hash lsh, which gives any number");
  check_usage(hash != "lsh" || code != "bucket" || num_buckets <= ngram_vocab_size, "tokenizer", "num_buckets ",
              num_buckets, " is above ngram_vocab_size ", ngram_vocab_size,
              ", and lsh has one bucket a shift of a vector of that length: lower num_buckets or raise "
              "ngram_vocab_size");
}

TokenCode WordHashSettings::token_code() const {
  if (code == "bits") return {.payload = TokenCode::Payload::bits, .size = bits};
  return {.payload = TokenCode::Payload::bucket, .size = num_buckets};
}

std::unique_ptr<WordModel> make_word_hash(const WordHashSettings& settings, NgramDictionary ngrams) {
  settings.validate();
  if (settings.hash == "md5") return std::make_unique<Md5Hash>(settings);
  check(int64_t(ngrams.ngrams().size()) <= settings.ngram_vocab_size, "tokenizer", "there are ", ngrams.ngrams().size(),
        " n-grams, above ngram_vocab_size ", settings.ngram_vocab_size);
  if (settings.code == "bits") return std::make_unique<LshBitsHash>(settings, std::move(ngrams));
  return std::make_unique<LshBucketHash>(settings, std::move(ngrams));
}

uint64_t hash_probe(const WordHashSettings& settings) {
  if (settings.hash == "md5") return 0;
  if (settings.code == "bucket") {
    const LshArgmax lsh(uint64_t(settings.hash_seed), settings.ngram_vocab_size, settings.num_buckets);
    return checksum(lsh.eta().data(), lsh.eta().size_bytes());
  }
  const LshBits lsh(uint64_t(settings.hash_seed), settings.bits);
  uint64_t print = 0;
  for (int32_t id = 0; id < 16; ++id) {
    const auto components = lsh.components(id);
    print = checksum(components.data(), components.size() * sizeof(int32_t), print);
  }
  return print;
}

}  // namespace lithe
