// A corpus becomes a token store.
#include <chrono>
#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/base/progress.h"
#include "lithe/base/stop.h"
#include "lithe/data/corpus.h"
#include "lithe/data/encode_texts.h"
#include "lithe/data/token_store.h"
#include "lithe/data/token_store_writer.h"
#include "lithe/text/hex.h"
#include "lithe/text/tokenizer.h"

namespace lithe {
namespace {

double tenths(double x) { return std::round(x * 10) / 10; }

constexpr size_t kLong = size_t(1) << 20;       // bytes from which the tokenizer itself splits a text over threads
constexpr size_t kGathered = size_t(16) << 20;  // bytes of short documents that are encoded at once

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Encodes documents in order; short ones are gathered and encoded in parallel.
class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, TokenStoreWriter& writer) : tokenizer_(tokenizer), writer_(writer) {}

  void add(std::string_view document) {
    check(stop_signal() == 0, "tokenize", "stopped by signal ", stop_signal(), "; the cache is as it was before");
    bytes_ += document.size();
    if (document.size() >= kLong) {
      flush();
      writer_.add(tokenizer_.encode(document), document);
      report();
      return;
    }
    ends_.push_back(gathered_.append(document).size());
    if (gathered_.size() >= kGathered) flush();
  }

  void flush() {
    const int64_t count = int64_t(ends_.size());
    const auto ids = encode_texts(tokenizer_, count, [&](int64_t d) { return document(d); });
    for (int64_t d = 0; d < count; ++d) writer_.add(ids[size_t(d)], document(d));
    gathered_.clear();
    ends_.clear();
    report();
  }

  double seconds() const { return seconds_since(start_); }
  uint64_t bytes() const { return bytes_; }

 private:
  const Tokenizer& tokenizer_;
  TokenStoreWriter& writer_;
  std::string gathered_;      // the texts of short documents
  std::vector<size_t> ends_;  // of each in `gathered_`
  uint64_t bytes_ = 0;
  LogPace pace_;
  Clock::time_point start_ = Clock::now(), reported_ = start_;

  std::string_view document(int64_t d) const {
    const size_t begin = d > 0 ? ends_[size_t(d - 1)] : 0;
    return std::string_view(gathered_).substr(begin, ends_[size_t(d)] - begin);
  }

  void report() {
    if (seconds_since(reported_) < 10 || !pace_.due(int64_t(bytes_), 0)) return;
    reported_ = Clock::now();
    log_info("tokenized ", tenths(double(bytes_) * 1e-6), " MB so far, ", tenths(double(bytes_) * 1e-6 / seconds()),
             " MB/s");
  }
};

StoreInfo facts(const Corpus& corpus, const Tokenizer& tokenizer) {
  const Specials& specials = tokenizer.specials();
  StoreInfo info;
  info.tokenizer_fingerprint = tokenizer.fingerprint();
  info.corpus_fingerprint = corpus.fingerprint();
  info.vocab_size = tokenizer.vocab_size();
  info.token_width = tokenizer.width();
  info.begin_of_text = specials.bos ? specials.bos : specials.eos;
  info.end_of_text = specials.eos;
  return info;
}

void tokenize(const Corpus& corpus, const Tokenizer& tokenizer, TokenStoreWriter::Sink sink) {
  TokenStoreWriter writer(facts(corpus, tokenizer), std::move(sink));
  Encoder encoder(tokenizer, writer);
  corpus.for_each_document([&](std::string_view document) { encoder.add(document); });
  encoder.flush();
  const StoreInfo& info = writer.finish();
  log_info("tokenized ", counted(int64_t(info.documents), "document"), ", ", info.bytes, " bytes to ", info.tokens,
           " tokens in ", tenths(encoder.seconds()), " s");
}

}  // namespace

Path token_store_path(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory) {
  const uint64_t prints[] = {corpus.fingerprint(), tokenizer.fingerprint()};
  return cache_directory / (hex(checksum(prints, sizeof prints)) + ".tokens");
}

TokenStore load_tokens(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory) {
  static std::mutex one_writer;  // of what two threads need, one waits for the other
  const std::lock_guard lock(one_writer);
  const Path path = token_store_path(corpus, tokenizer, cache_directory);
  if (std::filesystem::exists(path)) {
    try {
      TokenStore store = TokenStore::open(path);
      check(store.info().corpus_fingerprint == corpus.fingerprint() &&
                store.info().tokenizer_fingerprint == tokenizer.fingerprint(),
            "token store", "'", path.string(), "' is of another corpus or tokenizer");
      return store;
    } catch (const Error& error) {
      log_warning(error.what(), "; building it again now");
    }
  }
  make_directory(cache_directory);
  remove_temporaries(cache_directory);
  AtomicFile file(path);
  tokenize(corpus, tokenizer, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
  return TokenStore::open(path);
}

TokenStore tokenize_in_memory(const Corpus& corpus, const Tokenizer& tokenizer) {
  std::string bytes;
  tokenize(corpus, tokenizer, [&](std::string_view part) { bytes += part; });
  return TokenStore::from_bytes(std::move(bytes));
}

}  // namespace lithe
