// Speed of the data folder: reading a corpus, building and opening its token store, making batches.
//   data_bench [FILE...]      default: $LITHE_DATA/lm/wikitext-2/train.txt
// Prints the median of several runs with the least and the most. One run of each part comes first, untimed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/data/batches.h"
#include "lithe/data/corpus.h"
#include "lithe/data/token_store.h"
#include "lithe/text/tokenizer.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

// Times `f`, which handles `amount` units a call, and prints units a second.
void measure(const char* name, double amount, const char* unit, int repeats, const std::function<void()>& f) {
  f();
  std::vector<double> rates;
  for (int r = 0; r < repeats; ++r) {
    const auto start = Clock::now();
    f();
    rates.push_back(amount / std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%-44s %12.2f %-10s (%.2f to %.2f, %d runs)\n", name, rates[rates.size() / 2], unit, rates.front(),
              rates.back(), repeats);
  std::fflush(stdout);
}

int run(const std::vector<std::string>& files) {
  const Corpus corpus(files, {});
  uint64_t bytes = 0;
  corpus.for_each_document([&](std::string_view document) { bytes += document.size(); });
  const double megabytes = double(bytes) * 1e-6;
  std::printf("%.1f MB of text, %d threads\n", megabytes, threads());

  measure("read and check documents", megabytes, "MB/s", 5, [&] { corpus.for_each_document([](std::string_view) {}); });
  measure("fingerprint of the corpus", megabytes, "MB/s", 5, [&] { Corpus(files, {}).fingerprint(); });

  std::unique_ptr<Tokenizer> bpe;
  measure("train BPE, 8192 tokens", megabytes, "MB/s", 3, [&] {
    BpeTrainer trainer({.vocab_size = 8192});
    corpus.for_each_document([&](std::string_view document) { trainer.add(document); });
    bpe = trainer.train();
  });
  const auto byte_level = make_byte_tokenizer();

  const Path directory = std::filesystem::temp_directory_path() / "lithe_data_bench";
  for (const auto& [name, tokenizer] : {std::pair{"bytes", byte_level.get()}, {"BPE", bpe.get()}}) {
    const TokenStore store = load_tokens(corpus, *tokenizer, directory);
    const Path path = token_store_path(corpus, *tokenizer, directory);
    const double million = double(store.tokens()) * 1e-6;
    std::printf("%s: %.2f M tokens\n", name, million);
    measure("  build the store", million, "M tokens/s", 3, [&] {
      std::filesystem::remove(path);
      load_tokens(corpus, *tokenizer, directory);
    });
    measure("  open and verify the store", double(std::filesystem::file_size(path)) * 1e-6, "MB/s", 5,
            [&] { TokenStore::open(path); });

    const BatchOrder order(store, 256, 8192, 1);
    const int64_t batches = order.batches_per_epoch();
    const double rows = double(batches * 8192) * 1e-6;
    int64_t epoch = 0;
    measure("  permutation and batches of new epochs", rows, "M rows/s", 5, [&] {
      ++epoch;
      for (int64_t i = 0; i < batches; ++i) order.batch(epoch, i);
    });
    measure("  batches of one epoch again", rows, "M rows/s", 5, [&] {
      for (int64_t i = 0; i < batches; ++i) order.batch(epoch, i);
    });
    Prefetcher prefetcher(order, 0, 0);
    measure("  batches through the prefetcher", rows, "M rows/s", 5, [&] {
      for (int64_t i = 0; i < batches; ++i) prefetcher.next();
    });
    const BatchOrder in_order(store, 256, 8192, 1, false);
    measure("  batches in order", double(store.tokens()) * 1e-6, "M rows/s", 5, [&] {
      for (int64_t i = 0; i < in_order.batches_per_epoch(); ++i) in_order.batch(0, i);
    });
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace lithe

int main(int argc, char** argv) {
  lithe::set_log_level(lithe::LogLevel::warning);
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) files = {"$LITHE_DATA/lm/wikitext-2/train.txt"};
  try {
    return lithe::run(files);
  } catch (const lithe::Error& error) {
    lithe::log_line(lithe::LogLevel::error, error.what());
    return int(error.code());
  }
}
