#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "files_for_tests.h"
#include "lithe/base/random.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/data/batches.h"
#include "lithe/data/config.h"
#include "tests/data/store_kit.h"
#include "tests/support/data.h"

namespace lithe {
namespace {

// Lines of made-up words, the same for the same seed.
std::string prose(uint64_t seed, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (uint64_t w = 0; w < 12; ++w) {
      const uint64_t word = random_below({.seed = seed}, uint64_t(i) * 12 + w, 40);
      text += std::string(w ? " " : "") + "tokiponala"[word % 10] + "eraimu"[word % 6] + "stnlk"[word % 5] +
              std::string(word / 20, 'e');
    }
    text += ".\n";
  }
  return text;
}

std::vector<Path> cached(const TestFiles& files, const std::string& extension) {
  std::vector<Path> out;
  for (const auto& entry : std::filesystem::directory_iterator(files / "cache"))
    if (entry.path().extension() == extension) out.push_back(entry.path());
  return out;
}

DataConfig config_for(const TestFiles& files, const std::vector<std::string>& names) {
  DataConfig config;
  config.files = names;
  config.cache_directory = files / "cache";
  return config;
}

// What is logged to stderr while f runs.
template <class F>
std::string log_of(F&& f) {
  testing::internal::CaptureStderr();
  f();
  return testing::internal::GetCapturedStderr();
}

TEST(Dataset, BytesOfEachDocumentAreItsTokens) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", "héy\n"), files.add("b.txt", "two words")});
  const Dataset data = load_dataset(config);
  ASSERT_EQ(data.train.documents(), 2);
  EXPECT_FALSE(data.validation);
  EXPECT_EQ(document(data.train, 0), (Ids{'h', 0xC3, 0xA9, 'y', '\n'}));
  EXPECT_EQ(data.tokenizer->decode(document(data.train, 1)), "two words");
  EXPECT_EQ(data.train.info().bytes, 14);
  EXPECT_EQ(data.train.info().words, 3);
  EXPECT_EQ(data.train.info().lines, 1);
  EXPECT_EQ(data.train.end_of_text(), data.tokenizer->specials().eos);
  EXPECT_EQ(data.train.begin_of_text(), data.tokenizer->specials().bos);
  EXPECT_EQ(data.train.info().tokenizer_fingerprint, data.tokenizer->fingerprint());
}

TEST(Dataset, ASecondCallNeitherTrainsNorTokenizes) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", prose(1, 300))});
  config.validation_fraction = 0.1;
  config.tokenizer.type = "bpe";
  config.tokenizer.vocab_size = 320;
  Dataset first, second;
  const std::string log = log_of([&] { first = load_dataset(config); });
  EXPECT_NE(log.find("tokenized 1 document"), std::string::npos);
  ASSERT_EQ(cached(files, ".tokens").size(), 2u);
  ASSERT_EQ(cached(files, ".bpe").size(), 1u);
  const auto time_before = std::filesystem::last_write_time(cached(files, ".bpe")[0]);
  const std::string again = log_of([&] { second = load_dataset(config); });
  EXPECT_EQ(again.find("tokenized"), std::string::npos) << again;
  EXPECT_EQ(std::filesystem::last_write_time(cached(files, ".bpe")[0]), time_before);
  EXPECT_EQ(second.tokenizer->fingerprint(), first.tokenizer->fingerprint());
  EXPECT_EQ(second.tokenizer->to_json(), first.tokenizer->to_json());
  EXPECT_EQ(second.tokenizer->specials().eos, first.tokenizer->specials().eos);
  EXPECT_EQ(second.train.fingerprint(), first.train.fingerprint());
  EXPECT_EQ(second.validation->fingerprint(), first.validation->fingerprint());
}

TEST(Dataset, TheTwoPartsOfAHeldOutSplitMakeTheText) {
  TestFiles files;
  const std::string text = prose(2, 200);
  DataConfig config = config_for(files, {files.add("a.txt", text)});
  config.validation_fraction = 0.2;
  config.tokenizer.type = "bpe";
  config.tokenizer.vocab_size = 300;
  const Dataset data = load_dataset(config);
  EXPECT_EQ(data.tokenizer->decode(document(data.train, 0)) + data.tokenizer->decode(document(*data.validation, 0)),
            text);
  EXPECT_NEAR(double(data.validation->info().bytes), 0.2 * double(text.size()), 80);
}

TEST(Dataset, BpeLearnsFromTheTrainingPartAlone) {
  TestFiles files;
  const std::string train = prose(3, 300);
  std::string held_out;
  for (int i = 0; i < 400; ++i) held_out += "qqqqqqqq zzzzzzzz\n";
  const auto both = files.add("a.txt", train + held_out), alone = files.add("b.txt", train);
  DataConfig config = config_for(files, {both});
  config.tokenizer.type = "bpe";
  config.tokenizer.vocab_size = 300;
  config.validation_fraction = double(held_out.size()) / double(train.size() + held_out.size());
  const Dataset split = load_dataset(config);
  config.files = {alone};
  config.validation_fraction = 0;
  EXPECT_EQ(split.tokenizer->to_json(), load_dataset(config).tokenizer->to_json());
  EXPECT_FALSE(split.tokenizer->id("qq"));
}

TEST(Dataset, ValidationFilesAreReadWithTheSameTokenizer) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", prose(3, 100))});
  config.validation_files = {files.add("v.jsonl.gz", gzip("{\"text\":\"tokes\"}\n{\"text\":\"ponas mu\"}\n"))};
  const Dataset data = load_dataset(config);
  ASSERT_EQ(data.validation->documents(), 2);
  EXPECT_EQ(data.tokenizer->decode(document(*data.validation, 1)), "ponas mu");
}

TEST(Dataset, AnExistingTokenizerIsUsedInsteadOfTheSection) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", prose(3, 100))});
  config.tokenizer.type = "bpe";
  const std::shared_ptr<const Tokenizer> bytes = make_byte_tokenizer();
  const Dataset data = load_dataset(config, bytes);
  EXPECT_EQ(data.tokenizer, bytes);
  EXPECT_EQ(data.train.tokens(), data.train.info().bytes);
  EXPECT_TRUE(cached(files, ".bpe").empty());
}

TEST(Dataset, ChangedTextOrOptionsAreNotServedFromTheCache) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", "one\ntwo\n")});
  EXPECT_EQ(load_dataset(config).train.documents(), 1);
  config.documents = "line";
  EXPECT_EQ(load_dataset(config).train.documents(), 2);
  files.add("a.txt", "six\nten\n");
  EXPECT_EQ(document(load_dataset(config).train, 0), (Ids{'s', 'i', 'x'}));
  EXPECT_EQ(cached(files, ".tokens").size(), 3u);
}

TEST(Dataset, DamagedCachesAreRebuiltWithAWarning) {
  TestFiles files;
  DataConfig config = config_for(files, {files.add("a.txt", prose(5, 100))});
  config.tokenizer.type = "bpe";
  config.tokenizer.vocab_size = 300;
  const Dataset first = load_dataset(config);
  const Ids ids = document(first.train, 0);
  for (const char* extension : {".tokens", ".bpe"}) {
    const Path path = cached(files, extension).at(0);
    const std::string sound = read_file(path);
    std::string flipped = sound;
    flipped[sound.size() / 2] ^= 4;
    for (const std::string& damaged :
         {flipped, sound.substr(0, sound.size() / 2), std::string(), std::string("junk")}) {
      write_file(path, damaged);
      Dataset again;
      const std::string log = log_of([&] { again = load_dataset(config); });
      EXPECT_NE(log.find("warning"), std::string::npos) << log;
      EXPECT_NE(log.find("again now"), std::string::npos) << log;
      EXPECT_EQ(document(again.train, 0), ids);
      EXPECT_EQ(read_file(path), sound);
    }
  }
}

TEST(Dataset, AStoreOfAnotherCorpusUnderTheNameIsRebuilt) {
  TestFiles files;
  DataConfig a = config_for(files, {files.add("a.txt", "aaaa")}), b = config_for(files, {files.add("b.txt", "bbbb")});
  load_dataset(a);
  const Path path_a = cached(files, ".tokens").at(0);
  const std::string of_a = read_file(path_a);
  std::filesystem::remove(path_a);
  load_dataset(b);
  const Path path_b = cached(files, ".tokens").at(0);
  ASSERT_NE(path_a, path_b);
  write_file(path_b, of_a);
  Dataset again;
  EXPECT_NE(log_of([&] { again = load_dataset(b); }).find("of another corpus or tokenizer"), std::string::npos);
  EXPECT_EQ(document(again.train, 0), (Ids{'b', 'b', 'b', 'b'}));
}

TEST(Dataset, TheResultDoesNotDependOnThreads) {
  TestFiles files;
  // Short documents are encoded in parallel; one of more than 1 MiB by itself.
  std::string lines;
  for (int d = 0; d < 500; ++d) lines += "{\"text\":\"" + prose(uint64_t(d), 1).substr(0, size_t(5 + d % 40)) + "\"}\n";
  const auto small = files.add("a.jsonl", lines), large = files.add("b.txt", prose(6, 22000)),
             last = files.add("c.txt", "the end");
  const Corpus corpus({small, large, last}, {});
  BpeTrainer trainer({.vocab_size = 300});
  trainer.add(prose(0, 50));
  const auto tokenizer = trainer.train();
  const int before = threads();
  set_threads(1);
  const TokenStore one = tokenize_in_memory(corpus, *tokenizer);
  set_threads(4);
  const TokenStore four = tokenize_in_memory(corpus, *tokenizer);
  set_threads(before);
  EXPECT_EQ(one.documents(), 502);
  EXPECT_EQ(one.fingerprint(), four.fingerprint());
  int64_t d = 0;
  corpus.for_each_document([&](std::string_view text) {
    if (d % 50 == 0 || d >= 500) {
      EXPECT_EQ(tokenizer->decode(document(four, d)), text) << "document " << d;
    }
    ++d;
  });
}

TEST(Dataset, TwoProcessesMayBuildTheCacheAtOnce) {
  TestFiles files;
  const DataConfig config = config_for(files, {files.add("a.txt", prose(7, 3000))});
  std::vector<pid_t> children;
  for (int c = 0; c < 2; ++c) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      set_threads(1);  // the parent's OpenMP threads do not exist here
      try {
        ::_exit(load_dataset(config).train.info().bytes == int64_t(prose(7, 3000).size()) ? 0 : 1);
      } catch (...) {
        ::_exit(2);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(cached(files, ".tokens").size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(files / "cache"), {}), 1) << "a temporary file was left";
}

TEST(Dataset, AStopSignalEndsTokenizingAndLeavesNoCache) {
  TestFiles files;
  const DataConfig config = config_for(files, {files.add("a.txt", "text")});
  set_stop_signal(15);
  expect_error([&] { load_dataset(config); }, {"stopped by signal 15"});
  set_stop_signal(0);
  EXPECT_TRUE(std::filesystem::is_empty(files / "cache"));
  EXPECT_EQ(load_dataset(config).train.tokens(), 4);
}

TEST(Dataset, RefusesContradictionsAndEmptyParts) {
  TestFiles files;
  const auto a = files.add("a.txt", "some text"), v = files.add("v.txt", "other text");
  DataConfig config = config_for(files, {});
  expect_error([&] { load_dataset(config); }, {"no texts are given", "data.files"}, ExitCode::usage);
  config.files = {a};
  config.validation_files = {v};
  config.validation_fraction = 0.1;
  expect_error([&] { load_dataset(config); }, {"both given; keep one"}, ExitCode::usage);
  config.validation_fraction = 0;
  config.files = {files / "*.txt"};
  expect_error([&] { load_dataset(config); }, {"v.txt' is in data.files and in data.validation_files"},
               ExitCode::usage);
  config.files = {files.add("blank_tail.txt", "text" + std::string(100, '\n'))};
  config.validation_files = {};
  config.validation_fraction = 0.1;
  expect_error([&] { load_dataset(config); }, {"leaves no text on one side"});
}

TEST(Dataset, DefaultCacheDirectoryFollowsTheEnvironment) {
  TestFiles files;
  const auto old_of = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  const std::string old_home = old_of("HOME"), old_cache = old_of("XDG_CACHE_HOME");
  ::setenv("HOME", (files / "home").c_str(), 1);
  ::setenv("XDG_CACHE_HOME", (files / "xdg").c_str(), 1);
  EXPECT_EQ(resolve_cache_directory(""), files / "xdg/lithe");
  EXPECT_EQ(resolve_cache_directory(files / "mine"), files / "mine");
  EXPECT_TRUE(std::filesystem::is_directory(files / "mine"));
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(resolve_cache_directory(""), files / "home/.cache/lithe");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(resolve_cache_directory(""), files / "home/.cache/lithe");
  ::unsetenv("HOME");
  expect_error([] { resolve_cache_directory(""); }, {"data.cache_directory"}, ExitCode::usage);
  ::setenv("HOME", old_home.c_str(), 1);
  if (!old_cache.empty()) ::setenv("XDG_CACHE_HOME", old_cache.c_str(), 1);
}

TEST(DataConfig, ReadsARecipeSection) {
  DataConfig config;
  const auto read = [&](const std::string& yaml) {
    read_fields(parse_yaml(yaml, "r.yaml"), "data", [&](Fields& f) { config.fields(f); });
  };
  read(
      "files: [a.txt, 'b/*.gz']\nvalidation_fraction: 0.05\ndocuments: line\nsequence_length: 64\ntokenizer: {type: "
      "bpe, vocab_size: 512}");
  EXPECT_EQ(config.files, (std::vector<std::string>{"a.txt", "b/*.gz"}));
  EXPECT_EQ(config.validation_fraction, 0.05);
  EXPECT_EQ(config.documents, "line");
  EXPECT_EQ(config.text_field, "text");
  EXPECT_EQ(config.sequence_length, 64);
  EXPECT_EQ(config.tokenizer.type, "bpe");
  EXPECT_EQ(config.tokenizer.vocab_size, 512);
  expect_error([&] { read("documents: page"); }, {"r.yaml:1", "data.documents", "file, paragraph, line"},
               ExitCode::usage);
  expect_error([&] { read("validation_fraction: 1"); }, {"data.validation_fraction", "between 0 and 0.99"},
               ExitCode::usage);
  expect_error([&] { read("sequence_lenght: 8"); }, {"unknown key 'sequence_lenght'", "did you mean 'sequence_length'"},
               ExitCode::usage);
}

// Published counts of WikiText-2 (Merity et al. 2016, Table 1): validation 217,646 and test 245,569 tokens, each line
// end one <eos>.
TEST(RealText, WordsAndLinesOfWikiText2AreThePublishedCounts) {
  const Path folder = kit::data_if_any("lm/wikitext-2");
  if (folder.empty()) GTEST_SKIP() << "needs $LITHE_DATA/lm/wikitext-2";
  const auto info_of = [&](const char* name) {
    return tokenize_in_memory(Corpus({(folder / name).string()}, {}), *make_byte_tokenizer()).info();
  };
  const StoreInfo valid = info_of("valid.txt"), test = info_of("test.txt");
  EXPECT_EQ(valid.words + valid.lines, 217646);
  EXPECT_EQ(test.words + test.lines, 245569);
  EXPECT_EQ(test.tokens, 1256449);
  EXPECT_EQ(test.bytes, 1256449);
}

}  // namespace
}  // namespace lithe
