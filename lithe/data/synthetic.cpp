#include "lithe/data/synthetic.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/base/new_directory.h"
#include "lithe/base/random.h"
#include "lithe/base/stop.h"

namespace lithe {
namespace {

constexpr const char *kBlank = "blank", *kMark = "mark";
constexpr const char *kTrain = "train.jsonl", *kTest = "test.jsonl", *kWords = "vocab.txt";
constexpr int64_t kTestFrom = int64_t(1) << 40;  // numbers of the test examples, beyond those of training

int64_t keys_of(const SyntheticConfig& c) { return c.keys ? c.keys : 4 * c.items; }
std::string key_word(int64_t i) { return cat("k", i); }
std::string symbol_word(int64_t i) { return cat("s", i); }

// Draws of one example.
class Draws {
 public:
  Draws(const SyntheticConfig& c, int64_t index)
      : key_{.seed = uint64_t(c.seed), .step = uint64_t(index), .purpose = purpose_of("synthetic." + c.task)} {}
  int64_t below(int64_t n) { return int64_t(random_below(key_, at_++, uint64_t(n))); }
  // `count` different numbers below n, in the order drawn.
  std::vector<int64_t> distinct(int64_t count, int64_t n) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) all[size_t(i)] = i;
    for (int64_t i = 0; i < count; ++i) std::swap(all[size_t(i)], all[size_t(i + below(n - i))]);
    all.resize(size_t(count));
    return all;
  }

 private:
  RandomKey key_;
  uint64_t at_ = 0;
};

void check_sizes(const SyntheticConfig& c) {
  const auto& tasks = synthetic_tasks();
  check_usage(std::find(tasks.begin(), tasks.end(), c.task) != tasks.end(), "synth", "no task '", c.task, "'");
  check_usage(c.items >= 1, "synth", "items must be at least 1, got ", c.items);
  check_usage(c.symbols >= 2, "synth", "symbols must be at least 2, got ", c.symbols);
  constexpr int64_t kLongest = int64_t(1) << 24;
  check_usage(c.length <= kLongest, "synth", "length must be at most ", kLongest, ", got ", c.length);
  const bool recall = c.task == "recall";
  const int64_t least = c.task == "induction" ? 4 : recall ? 3 * c.items : 2 * c.items;
  check_usage(c.length >= least, "synth", c.task, " of ", c.items, recall ? " pairs" : " symbols", " needs length ",
              least, ", got ", c.length);
  check_usage(recall || !c.keys, "synth", "keys are of recall; ", c.task, " has none");
  check_usage(!recall || keys_of(c) >= c.items, "synth", c.items, " pairs need as many different keys, got ", c.keys);
  check_usage(c.train >= 0 && c.test >= 0 && c.train < kTestFrom, "synth", "a number of examples is impossible");
}

void recall(const SyntheticConfig& c, Draws& draws, SyntheticExample& out) {
  const std::vector<int64_t> keys = draws.distinct(c.items, keys_of(c));
  std::vector<std::string> values;
  for (int64_t i = 0; i < c.items; ++i) {
    values.push_back(symbol_word(draws.below(c.symbols)));
    out.words[size_t(2 * i)] = key_word(keys[size_t(i)]);
    out.words[size_t(2 * i + 1)] = values.back();
  }
  const std::vector<int64_t> places = draws.distinct(c.items, c.length - 2 * c.items);
  for (int64_t i = 0; i < c.items; ++i) {
    const auto at = size_t(2 * c.items + places[size_t(i)]);
    out.words[at] = key_word(keys[size_t(i)]);
    out.labels[at] = values[size_t(i)];
  }
}

void copy(const SyntheticConfig& c, bool anywhere, Draws& draws, SyntheticExample& out) {
  std::vector<int64_t> places(static_cast<size_t>(c.items));
  for (int64_t i = 0; i < c.items; ++i) places[size_t(i)] = i;
  if (anywhere) places = draws.distinct(c.items, c.length - c.items);
  std::sort(places.begin(), places.end());
  for (int64_t i = 0; i < c.items; ++i) {
    const auto asks = size_t(c.length - c.items + i);
    out.labels[asks] = out.words[size_t(places[size_t(i)])] = symbol_word(draws.below(c.symbols));
    out.words[asks] = kMark;
  }
}

void induction(const SyntheticConfig& c, Draws& draws, SyntheticExample& out) {
  for (std::string& word : out.words) word = symbol_word(draws.below(c.symbols));
  const auto at = size_t(draws.below(c.length - 2));
  out.words[at] = out.words.back() = kMark;
  out.labels.back() = out.words[at + 1];
}

}  // namespace

const std::vector<std::string>& synthetic_tasks() {
  static const std::vector<std::string> tasks{"recall", "copy", "selective_copy", "induction"};
  return tasks;
}

SyntheticExample synthetic_example(const SyntheticConfig& c, int64_t index) {
  check_sizes(c);
  Draws draws(c, index);
  const auto length = size_t(c.length);
  SyntheticExample out{std::vector<std::string>(length, kBlank), std::vector<std::string>(length)};
  if (c.task == "recall")
    recall(c, draws, out);
  else if (c.task == "induction")
    induction(c, draws, out);
  else
    copy(c, c.task == "selective_copy", draws, out);
  return out;
}

std::vector<std::string> synthetic_words(const SyntheticConfig& c) {
  std::vector<std::string> out{kBlank, kMark};
  for (int64_t i = 0; i < c.symbols; ++i) out.push_back(symbol_word(i));
  for (int64_t i = 0; c.task == "recall" && i < keys_of(c); ++i) out.push_back(key_word(i));
  return out;
}

void write_synthetic(const SyntheticConfig& config, const Path& directory, bool overwrite) {
  check_sizes(config);
  if (overwrite && std::filesystem::is_directory(directory)) {
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      check_usage(entry.path().filename() == kTrain || entry.path().filename() == kTest ||
                      entry.path().filename() == kWords || entry.path().filename() == NewDirectory::kNotes,
                  "synth", "'", directory.string(), "' holds '", entry.path().filename().string(),
                  "', which is no file of synth; give --out another directory");
    for (const char* name : {kTrain, kTest, kWords, NewDirectory::kNotes}) std::filesystem::remove(directory / name);
  }
  NewDirectory out(directory, "synth");
  const auto write = [&](const char* name, int64_t from, int64_t count) {
    if (count == 0) return;
    AtomicFile file(out / name);
    for (int64_t i = from; i < from + count; ++i) {
      check_not_stopped("synth", "nothing is written");
      const SyntheticExample e = synthetic_example(config, i);
      Json labels = Json::array();
      for (const std::string& label : e.labels) labels.push_back(label.empty() ? Json(nullptr) : Json(label));
      file.write(dump(Json({{"text", e.words}, {"label", labels}})) + "\n");
    }
    file.commit();
  };
  write(kTrain, 0, config.train);
  write(kTest, kTestFrom, config.test);
  std::string vocabulary = "[PAD]\n[UNK]\n";
  for (const std::string& word : synthetic_words(config)) vocabulary += word + "\n";
  write_file(out / kWords, vocabulary);
  out.commit();
}

}  // namespace lithe
