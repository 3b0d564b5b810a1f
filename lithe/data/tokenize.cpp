// A corpus becomes a token store.
#include <chrono>
#include <cmath>
#include <set>

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

// Of the documents, those whose number leaves `index` when it is divided by `of`.
void tokenize(const Corpus& corpus, const Tokenizer& tokenizer, TokenStoreWriter::Sink sink, int64_t index = 0,
              int64_t of = 1) {
  TokenStoreWriter writer(facts(corpus, tokenizer), std::move(sink));
  Encoder encoder(tokenizer, writer);
  corpus.for_each_document([&, number = int64_t(0)](std::string_view document) mutable {
    if (number++ % of == index) encoder.add(document);
  });
  encoder.flush();
  const StoreInfo& info = writer.finish();
  log_info("tokenized ", counted(int64_t(info.documents), "document"), ", ", info.bytes, " bytes to ", info.tokens,
           " tokens in ", tenths(encoder.seconds()), " s");
}

Path share_path(const Path& store, int index, int of) {
  Path out = store;
  out += cat(".share-", index, "-of-", of);
  return out;
}

// Files of shares that stand beside a store, of this number of shares or of others.
std::vector<Path> share_files(const Path& store) {
  const std::string start = store.filename().string() + ".share-";
  std::vector<Path> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(store.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(start)) out.push_back(entry.path());
  return out;
}

// All shares of a store; none where one is missing, or is of something else.
std::vector<TokenStore> shares_of(const Path& store, const StoreInfo& info) {
  std::set<int> numbers;
  for (const Path& file : share_files(store)) {
    const std::string name = file.filename().string();
    if (const size_t at = name.rfind("-of-"); at != name.npos) numbers.insert(std::atoi(name.c_str() + at + 4));
  }
  for (const int of : numbers) {
    std::vector<TokenStore> out;
    while (int(out.size()) < of) {
      const Path path = share_path(store, int(out.size()), of);
      if (!std::filesystem::exists(path)) break;
      try {
        out.push_back(TokenStore::open(path));
      } catch (const Error& error) {
        log_warning(error.what(), "; the text is tokenized again now");
        break;
      }
      const StoreInfo& own = out.back().info();
      if (own.corpus_fingerprint != info.corpus_fingerprint || own.tokenizer_fingerprint != info.tokenizer_fingerprint)
        break;
    }
    if (int(out.size()) == of) return out;
  }
  return {};
}

void join_shares(const std::vector<TokenStore>& shares, StoreInfo info, TokenStoreWriter::Sink sink) {
  int64_t documents = 0;
  for (const TokenStore& share : shares) {
    documents += share.documents();
    info.bytes += share.info().bytes;
    info.words += share.info().words;
    info.lines += share.info().lines;
  }
  TokenStoreWriter writer(info, std::move(sink));
  const auto of = int64_t(shares.size());
  std::vector<int32_t> ids;
  for (int64_t d = 0; d < documents; ++d) {
    check_not_stopped("tokenize", "the cache is as it was before");
    const TokenStore& share = shares[size_t(d % of)];
    const int64_t begin = share.document_begin(d / of), count = share.document_end(d / of) - begin;
    ids.resize(size_t(count * share.token_width()));
    share.copy(begin, count, ids.data());
    writer.add(ids, {});
  }
  writer.finish();
  log_info("joined the tokens of ", counted(documents, "document"), " from ", of, " shares");
}

}  // namespace

void tokenize_share(const Corpus& corpus, const Tokenizer& tokenizer, const Path& cache_directory, int index, int of) {
  const Path store = token_store_path(corpus, tokenizer, cache_directory), path = share_path(store, index, of);
  if (std::filesystem::exists(store) || std::filesystem::exists(path)) return;
  make_directory(cache_directory);
  AtomicFile file(path);
  tokenize(
      corpus, tokenizer, [&](std::string_view bytes) { file.write(bytes); }, index, of);
  file.commit();
}

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
  const auto sink = [&](std::string_view bytes) { file.write(bytes); };
  const StoreInfo info = facts(corpus, tokenizer);
  const std::vector<TokenStore> shares = shares_of(path, info);
  if (shares.empty())
    tokenize(corpus, tokenizer, sink);
  else
    join_shares(shares, info, sink);
  file.commit();
  std::error_code ignored;
  for (const Path& share : share_files(path)) std::filesystem::remove(share, ignored);
  return TokenStore::open(path);
}

TokenStore tokenize_in_memory(const Corpus& corpus, const Tokenizer& tokenizer) {
  std::string bytes;
  tokenize(corpus, tokenizer, [&](std::string_view part) { bytes += part; });
  return TokenStore::from_bytes(std::move(bytes));
}

}  // namespace lithe
