// Sentences a second of translation: the lines of a file, in batches of like length, by a trained encoder-decoder.
//   translate_bench RUN FILE BATCH BEAMS [PRECISION f32|bf16] [MAX_LINES]
//   translate_bench RUN FILE ids
// Prints one line of key=value pairs, or the lines' tokens as the source's vocabulary numbers them.
// bench/peers/translate.sh runs the same weights in CTranslate2, in turns.
#include <cstdio>
#include <cstdlib>

#include "lithe/base/threads.h"
#include "lithe/bench/timing.h"
#include "lithe/data/examples_readers.h"
#include "lithe/infer/load.h"
#include "lithe/infer/translate.h"

int main(int argc, char** argv) try {
  using namespace lithe;
  if (argc < 5 && !(argc == 4 && std::string(argv[3]) == "ids"))
    return std::fprintf(stderr, "usage: translate_bench RUN FILE BATCH BEAMS [PRECISION] [MAX_LINES]\n"), 2;
  const std::string precision = argc > 5 ? argv[5] : "f32";
  const size_t most = argc > 6 ? size_t(std::atoll(argv[6])) : SIZE_MAX;
  const LoadedModel loaded = load_model(argv[1], "", precision);
  std::vector<std::string> lines;
  const std::string text = read_file(argv[2]);
  for (std::string_view rest = text; !rest.empty() && lines.size() < most;) lines.emplace_back(take_line(rest));
  if (argc == 4) {
    for (const std::string& line : lines) {
      const char* before = "";
      for (const int32_t id : loaded.source_tokenizer->encode(line))
        std::printf("%s%d", std::exchange(before, " "), id);
      std::printf("\n");
    }
    return 0;
  }
  TranslateConfig config;
  config.batch_size = std::atoll(argv[3]);
  config.num_beams = std::atoll(argv[4]);
  config.early_stopping = true;  // as CTranslate2: it ends with as many translations as there are beams
  const auto run = [&](const std::vector<std::string>& of) {
    int64_t tokens = 0;
    for (const auto& best : translate(*loaded.model, *loaded.source_tokenizer, *loaded.tokenizer, of, config))
      tokens += int64_t(best.at(0).tokens.size());
    return tokens;
  };
  run({lines.begin(), lines.begin() + std::min<long>(long(lines.size()), 2 * config.batch_size)});
  const double begin = bench::now();
  const int64_t tokens = run(lines);
  const double seconds = bench::now() - begin;
  std::printf(
      "program=lithe precision=%s batch=%s beams=%s threads=%d lines=%zu tokens=%lld seconds=%.3f sentences/s=%.1f\n",
      precision.c_str(), argv[3], argv[4], threads(), lines.size(), static_cast<long long>(tokens), seconds,
      double(lines.size()) / seconds);
} catch (const std::exception& error) {
  return std::fprintf(stderr, "translate_bench: %s\n", error.what()), 1;
}
