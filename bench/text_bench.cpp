// Speed of tokenizers: training a byte-level BPE, encoding and decoding. Prints medians of repeats.
//   text_bench FILE [entries] [repeats]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "lithe/base/error.h"
#include "lithe/base/threads.h"
#include "lithe/text/tokenizer.h"

namespace {

void measure(const char* what, double megabytes, int repeats, const std::function<void()>& run) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("%-28s %8.1f MB/s   median %.3f s, %.3f to %.3f s of %d\n", what, megabytes / median, median,
              seconds.front(), seconds.back(), repeats);
}

}  // namespace

int main(int argc, char** argv) try {
  lithe::check_usage(argc >= 2, "text_bench", "usage: text_bench FILE [entries] [repeats]");
  const std::string text = lithe::read_file(argv[1]);
  const int64_t entries = argc > 2 ? std::atoll(argv[2]) : 8192;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 5;
  lithe::check_usage(repeats >= 1, "text_bench", "repeats must be at least 1, got ", repeats);
  const double megabytes = double(text.size()) / 1e6;
  const std::string_view view = text;
  std::printf("%s: %.1f MB, %d threads\n", argv[1], megabytes, lithe::threads());

  std::unique_ptr<lithe::Tokenizer> tokenizer;
  measure("train", megabytes, repeats, [&] { tokenizer = lithe::train_bpe({&view, 1}, {.vocab_size = entries}); });
  std::vector<int32_t> ids;
  measure("encode, cold caches", megabytes, repeats, [&] {
    const auto fresh = lithe::parse_tokenizer(tokenizer->to_json(), "trained");
    ids = fresh->encode(text);
  });
  measure("encode, warm caches", megabytes, repeats, [&] { ids = tokenizer->encode(text); });
  std::string back;
  measure("decode", megabytes, repeats, [&] { back = tokenizer->decode(ids); });
  lithe::check(back == text, "text_bench", "decoding did not give back the text");
  std::printf("%zu tokens of %lld entries, %.3f bytes a token\n", ids.size(),
              static_cast<long long>(tokenizer->vocab_size()), double(text.size()) / double(ids.size()));
  return 0;
} catch (const lithe::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return int(error.code());
}
