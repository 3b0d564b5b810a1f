// Speed of hashing words, in words per second: a text of words drawn by Zipf's law, or a file.
//   hash_words_bench [FILE] [repeats]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "lithe/text/code_tokenizer.h"

namespace {

using namespace lithe;

/// `words` words of 30,000 types: the type of rank r is drawn with probability proportional to 1 / r.
std::string zipf_text(int64_t words) {
  constexpr size_t types = 30000;
  std::vector<std::string> names;
  std::vector<double> sums;
  double sum = 0;
  for (uint64_t r = 0; r < types; ++r) {
    std::string name;
    for (uint64_t i = 0, length = 2 + random_below({.seed = 1}, r, 9); i < length; ++i)
      name += "etaoinshrdlcumwfgypbvk"[size_t(22 * std::pow(random_uniform({.seed = 2, .step = r}, i), 2))];
    names.push_back(name);
    sums.push_back(sum += 1.0 / double(r + 1));
  }
  std::string text;
  for (int64_t w = 0; w < words; ++w) {
    const double at = sum * random_uniform({.seed = 3}, uint64_t(w));
    const size_t rank = size_t(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin());
    text += names[std::min(rank, types - 1)] + " ";
  }
  return text;
}

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string text = argc > 1 && argv[1][0] ? read_file(argv[1]) : zipf_text(2'000'000);
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 5;
  check_usage(repeats >= 1, "hash_words_bench", "repeats must be at least 1, got ", repeats);

  struct Kind {
    const char *hash, *code;
    int64_t bits;
  };
  for (const Kind& kind : {Kind{"md5", "bits", 128},
                           {"md5", "bucket", 128},
                           {"lsh", "bits", 128},
                           {"lsh", "bits", 420},
                           {"lsh", "bucket", 128}}) {
    WordHashSettings settings;
    settings.hash = kind.hash;
    settings.code = kind.code;
    settings.bits = kind.bits;
    NgramDictionary ngrams;
    if (settings.hash == "lsh") {
      NgramTrainer trainer(settings);
      trainer.add(text);
      ngrams = trainer.train();
    }
    std::unique_ptr<Tokenizer> tokenizer;
    size_t words = 0;
    std::vector<double> cold, warm;
    for (int i = 0; i < repeats; ++i) {
      tokenizer = make_word_tokenizer(settings, ngrams);
      cold.push_back(seconds_of([&] { words = tokenizer->encode(text).size() / size_t(tokenizer->width()); }));
      warm.push_back(seconds_of([&] { tokenizer->encode(text); }));
    }
    std::sort(cold.begin(), cold.end());
    std::sort(warm.begin(), warm.end());
    if (settings.hash == "md5" && settings.code == "bits")
      std::printf("%.1f MB, %zu words, %zu types, %d threads, medians of %d\n", double(text.size()) / 1e6, words,
                  distinct_words(*tokenizer, text).size(), threads(), repeats);
    const auto million = [&](double seconds) { return double(words) / 1e6 / seconds; };
    std::printf("%s %-6s %3d bits   warm %6.1f M words/s (%.1f to %.1f)   cold %6.2f M words/s (%.3f s)\n", kind.hash,
                kind.code, int(kind.bits), million(warm[size_t(repeats / 2)]), million(warm.back()),
                million(warm.front()), million(cold[size_t(repeats / 2)]), cold[size_t(repeats / 2)]);
  }
  return 0;
} catch (const lithe::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return int(error.code());
}
