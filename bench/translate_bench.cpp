// Translation of the lines of a file, in batches of like length, by a trained encoder-decoder.
//   translate_bench RUN FILE FEW MANY NAME
//   translate_bench RUN FILE ids
// The first runs its cases as bench/peers/turns.py asks: batches of 1 on the first FEW lines and of 32 on the first
// MANY, greedy and with 4 beams; NAME is what the lines call the weights. The second prints the lines' tokens as the
// source's vocabulary numbers them. bench/peers/translate.sh runs the same weights in CTranslate2.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/turns.h"
#include "lithe/data/examples_readers.h"
#include "lithe/infer/load.h"
#include "lithe/infer/translate.h"

namespace {

using namespace lithe;

int print_ids(const LoadedModel& loaded, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const char* before = "";
    for (const int32_t id : loaded.source_tokenizer->encode(line)) std::printf("%s%d", std::exchange(before, " "), id);
    std::printf("\n");
  }
  return 0;
}

bench::TurnCase case_of(const LoadedModel& loaded, const std::string& name, std::vector<std::string> lines,
                        int64_t batch, int64_t beams) {
  TranslateConfig config;
  config.batch_size = batch;
  config.num_beams = beams;
  config.early_stopping = true;  // as CTranslate2: it ends with as many translations as there are beams
  return {cat("lithe weights=", name, " batch=", batch, " beams=", beams, " count=", lines.size()), [=, &loaded] {
            return bench::seconds(
                [&] { translate(*loaded.model, *loaded.source_tokenizer, *loaded.tokenizer, lines, config); });
          }};
}

}  // namespace

int main(int argc, char** argv) try {
  const bool ids = argc == 4 && std::string(argv[3]) == "ids";
  if (!ids && argc != 6)
    return std::fprintf(stderr, "usage: translate_bench RUN FILE FEW MANY NAME\n       translate_bench RUN FILE ids\n"),
           2;
  const LoadedModel loaded = load_model(argv[1], "", "f32");
  std::vector<std::string> lines;
  const std::string text = read_file(argv[2]);
  for (std::string_view rest = text; !rest.empty();) lines.emplace_back(take_line(rest));
  if (ids) return print_ids(loaded, lines);
  const int64_t few = std::atoll(argv[3]), many = std::atoll(argv[4]);
  check(few > 0 && many > 0 && !lines.empty(), "lines", "there is nothing to translate: ", few, " and ", many,
        " of the ", lines.size(), " lines of ", argv[2]);
  std::vector<bench::TurnCase> cases;
  for (const auto& [batch, most] : {std::pair(1, few), {32, many}})
    for (const int beams : {1, 4})
      cases.push_back(case_of(loaded, argv[5], {lines.begin(), lines.begin() + std::min(most, int64_t(lines.size()))},
                              batch, beams));
  bench::take_turns(cases);
} catch (const std::exception& error) {
  return std::fprintf(stderr, "translate_bench: %s\n", error.what()), 1;
}
