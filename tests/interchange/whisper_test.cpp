// Whisper in the layout of transformers: what its encoder computes and its rules let it write
// (tools/oracles/make_transformers_golden.py), and what is refused.
#include <gtest/gtest.h>

#include "lithe/data/batches.h"
#include "lithe/data/features.h"
#include "lithe/data/task_batches.h"
#include "lithe/infer/beam_search.h"
#include "lithe/infer/speech_text.h"
#include "lithe/interchange/export.h"
#include "lithe/objective/device_batch.h"
#include "lithe/recipe/recipe.h"
#include "tests/interchange/golden_kit.h"
#include "tests/support/errors.h"
#include "tests/support/program_test.h"
#include "tests/support/sound.h"

namespace lithe {
namespace {

using kit::TransformersGolden;

class WhisperInterchange : public testing::TestWithParam<const char*> {
 protected:
  WhisperInterchange() : golden(cat("tests/golden/transformers/", GetParam(), ".json")) {
    golden.write(scratch / "model");
    golden.import_to(scratch / "model", scratch / "run");
  }
  TransformersGolden golden;
  kit::Scratch scratch;
};

TEST_P(WhisperInterchange, EncodersGiveTheRowsOfTransformers) {
  for (const char* precision : {"f32", "f64"}) {
    const LoadedModel loaded = load_model(scratch / "run", "", precision);
    const NoGrad no_grad;
    Pass pass;
    const Tensor x = loaded.model->encode(golden.sources().at(kSource), pass).x.value();
    std::vector<std::vector<double>> rows;
    for (int64_t n = 0; n < x.rows(); ++n) {
      rows.emplace_back();
      for (int64_t c = 0; c < x.cols(); ++c) rows.back().push_back(value_at(x, n * x.cols() + c));
    }
    const auto want = golden.json["encoder"].get<std::vector<std::vector<double>>>();
    EXPECT_LE(kit::relative_difference(rows, want), 1e-5) << precision;
  }
}

// Greedy, under what language, task and times forbid.
TEST_P(WhisperInterchange, WriteWhatTheLibrarysProcessorsLetThem) {
  const LoadedModel loaded = load_model(scratch / "run", "", "f32");
  const auto tokens = speech_tokens(*loaded.tokenizer, scratch / "run");
  ASSERT_TRUE(tokens.has_value());
  ASSERT_EQ(golden.json["heard"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Json& heard = golden.json["heard"][i];
    auto want = heard["ids"].get<std::vector<int32_t>>();
    const std::string language = std::string(heard["language"]).substr(2, 2);
    const bool detects = i == 0 || i == 2;
    const SpeechRules rules(
        *tokens,
        {.language = detects ? "" : language, .task = std::string(heard["task"]), .times = bool(heard["times"])});
    const SearchInput input{.source = {}, .prompt = {tokens->begin}, .max_new_tokens = int64_t(want.size())};
    const BeamSearchConfig config{
        .num_beams = 1, .stop = {tokens->end}, .rescore = [&](size_t, std::span<const int32_t> t, std::span<double> s) {
          rules(t, s);
        }};
    const auto found = beam_search(*loaded.model, {&input, 1}, config, golden.sources())[0];
    ASSERT_EQ(found.size(), 1u);
    if (want.back() == tokens->end) want.pop_back();
    EXPECT_EQ(found[0].tokens, want) << i;
    EXPECT_EQ(rules.language_of(found[0].tokens), language) << i;
  }
}

TEST_P(WhisperInterchange, ComeBackWithTheirSettings) {
  const Recipe recipe = recipe_of_run(scratch / "run");
  EXPECT_EQ(recipe.data.audio.num_mel_bins, int64_t(golden.json["config"]["num_mel_bins"]));
  EXPECT_EQ(recipe.data.audio.frames_per_row, 2);
  EXPECT_NEAR(recipe.data.audio.pad_seconds, 0.02 * double(golden.json["config"]["max_source_positions"]), 1e-12);
  EXPECT_EQ(recipe.task.type, "text");
  EXPECT_EQ(recipe.train.objective.type, "task");
  export_model({scratch / "run", scratch / "out", ""});
  const Json before = parse_json(read_file(scratch / "model/preprocessor_config.json"), "before"),
             after = parse_json(read_file(scratch / "out/preprocessor_config.json"), "after");
  for (const auto& [key, value] : before.items()) EXPECT_EQ(after.at(key), value) << key;
  EXPECT_EQ(read_file(scratch / "out/generation_config.json"), read_file(scratch / "model/generation_config.json"));
  const Json config = parse_json(read_file(scratch / "out/config.json"), "config");
  EXPECT_EQ(config["decoder_start_token_id"], 257);
  import_model({scratch / "out", scratch / "again", {}});
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "resolved_recipe.yaml"})
    EXPECT_EQ(read_file(scratch.path() / "run" / file), read_file(scratch.path() / "again" / file)) << file;
}

INSTANTIATE_TEST_SUITE_P(, WhisperInterchange, testing::Values("whisper", "whisper_untied"));

class WhisperTranscripts : public testing::Test {
 protected:
  WhisperTranscripts() {
    const TransformersGolden golden("tests/golden/transformers/whisper_untied.json");
    golden.write(scratch / "model");
    golden.import_to(scratch / "model", scratch / "run");
    loaded = load_model(scratch / "run", "", "f32");
    tokens = *speech_tokens(*loaded.tokenizer, scratch / "run");
    audio = recipe_of_run(scratch / "run").data.audio;  // windows of 0.14 s
    for (int i = 0; i < 16000; ++i) sound.samples.push_back(float(0.4 * std::sin(0.05 * i + 1e-5 * i * i)));
    part.samples.assign(sound.samples.begin(), sound.samples.begin() + 2000);
  }
  SpeechText heard(const Sound& of, const SpeechSearch& search) const {
    return speech_text(*loaded.model, *loaded.tokenizer, tokens, audio, of, search);
  }
  kit::Scratch scratch;
  LoadedModel loaded;
  SpeechTokens tokens;
  AudioConfig audio;
  Sound sound{16000, {}}, part{16000, {}};
};

// A sound of several windows is written as the windows are, one after another.
TEST_F(WhisperTranscripts, OfLongSoundsGoOnWhereSegmentsEnd) {
  const SpeechText text = heard(sound, {.choice = {.task = ""}});
  EXPECT_FALSE(text.interrupted);
  ASSERT_GE(text.segments.size(), 4u);
  EXPECT_FALSE(text.language.empty());
  std::string all;
  double before = 0;
  for (const SpeechSegment& s : text.segments) {
    EXPECT_LE(before, s.begin + 1e-9);
    EXPECT_LE(s.begin, s.end);
    EXPECT_LE(s.end, 1.0 + 0.02);  // of the last row
    before = s.begin;
    all += s.text;
  }
  all.erase(0, all.find_first_not_of(' '));
  EXPECT_EQ(text.text, all);
  // One window of the same sound has no times unless they are asked for, and beams find nothing less likely.
  const auto one = heard(part, {.choice = {.language = "de"}});
  ASSERT_LE(one.segments.size(), 1u);
  for (const SpeechSegment& s : one.segments) EXPECT_NEAR(s.end, 0.12, 0.021);
}

// The model is random, so that no token is likely: every search is beyond the threshold of probability.
TEST_F(WhisperTranscripts, AreDrawnAgainWhileTheyAreBeyondAThreshold) {
  const auto text = [&](const SpeechSearch& search) { return heard(sound, search).text; };
  const SpeechText searched = heard(sound, {}), drawn = heard(sound, {.temperatures = {0, 0.4, 1}});
  for (const SpeechSegment& s : drawn.segments) {
    EXPECT_EQ(s.quality.temperature, 1);
    EXPECT_LT(s.quality.avg_logprob, -1);
  }
  EXPECT_NE(drawn.text, searched.text);
  EXPECT_EQ(drawn.text, text({.temperatures = {0, 0.4, 1}}));
  EXPECT_EQ(drawn.text, text({.temperatures = {1}}));  // of each temperature the same draws
  EXPECT_NE(drawn.text, text({.temperatures = {1}, .seed = 2}));
  // Nearly nothing but the likeliest token is drawn where it is cold.
  EXPECT_EQ(searched.text, text({.temperatures = {1e-6}}));
  const SpeechSearch patient{.temperatures = {0, 1}, .logprob_threshold = -100, .compression_ratio_threshold = 100};
  EXPECT_EQ(searched.text, text(patient));
  for (const SpeechSegment& s : heard(sound, patient).segments) EXPECT_EQ(s.quality.temperature, 0);
  // A text that is drawn has bytes that do not repeat.
  SpeechSearch repeats = patient;
  repeats.compression_ratio_threshold = 0.1;
  EXPECT_EQ(drawn.text, text(repeats));
  const std::string error = kit::error_of([&] { text({.temperatures = {0.4, 0}}); });
  EXPECT_NE(error.find("each at least the one before it; got 0.4 to 0"), std::string::npos) << error;
}

TEST_F(WhisperTranscripts, OfWindowsWithoutSpeechAreEmpty) {
  tokens.no_speech = 7;  // any token: the model is random
  const double probability = heard(part, {}).segments.at(0).quality.no_speech_prob;
  EXPECT_GT(probability, 0);
  EXPECT_LT(probability, 1);
  SpeechSearch search{.temperatures = {0, 1}, .no_speech_threshold = probability / 2};
  EXPECT_EQ(heard(part, search).text, "");
  EXPECT_TRUE(heard(sound, search).segments.empty() || heard(sound, search).text != heard(sound, {}).text);
  search.logprob_threshold = -100;  // sure of its text all the same
  EXPECT_NE(heard(part, search).text, "");
  search = {.temperatures = {0, 1}, .no_speech_threshold = (1 + probability) / 2};
  EXPECT_NE(heard(part, search).text, "");
}

TEST_F(WhisperTranscripts, GoOnFromTheTextBefore) {
  tokens.before.reset();
  const std::string error = kit::error_of([&] { heard(part, {.initial_prompt = "Anna"}); });
  EXPECT_NE(error.find("<|startofprev|>"), std::string::npos) << error;
  tokens.before = 9;
  const SpeechText alone = heard(sound, {}), told = heard(sound, {.initial_prompt = "Anna"}),
                   knowing = heard(sound, {.condition_on_prev_tokens = true});
  ASSERT_GE(alone.segments.size(), 2u);
  EXPECT_NE(alone.segments[0].text, told.segments[0].text);
  EXPECT_EQ(alone.segments[0].text, knowing.segments[0].text);
  EXPECT_NE(alone.text, knowing.text);
  // The first window by hand: the text stands behind <|startofprev|>, cut to less than half of the places.
  const int64_t places = loaded.model->position_limit();
  std::string name;
  while (int64_t(loaded.tokenizer->encode(" " + name).size()) < places) name += "Anna ";
  std::vector<int32_t> prompt = loaded.tokenizer->encode(" " + name);
  prompt.erase(prompt.begin(), prompt.end() - (places / 2 - 1));
  prompt.insert(prompt.begin(), 9);
  prompt.push_back(tokens.begin);
  Batch batch{.offsets = {0, 0}};
  const auto rows = audio.rows_of(audio.pad_samples());
  add_feature_rows(batch, "audio", rows, audio.row_width(),
                   window_frames(part.samples, part.rate, audio, MelFeatures(audio.mel())));
  const std::map<std::string, ModelInput> sources{{kSource, to_device(batch, loaded.model->device()).input}};
  const SpeechRules rules(tokens, {});
  const SearchInput input{.source = {}, .prompt = prompt, .max_new_tokens = places - int64_t(prompt.size())};
  const BeamSearchConfig config{
      .num_beams = 1,
      .stop = {tokens.end},
      .vocab_size = loaded.tokenizer->vocab_size(),
      .rescore = [&](size_t, std::span<const int32_t> t, std::span<double> s) { rules(t, s); }};
  const auto found = beam_search(*loaded.model, {&input, 1}, config, sources)[0];
  const SpeechText window = heard(part, {.initial_prompt = name});
  ASSERT_EQ(window.segments.size(), 1u);
  const auto& all = found[0].tokens;
  EXPECT_EQ(window.segments[0].tokens, std::vector<int32_t>(all.begin() + rules.instructions(), all.end()));
  EXPECT_NEAR(window.segments[0].quality.avg_logprob,
              found[0].log_probability / double(all.size() - size_t(rules.instructions()) + 1), 1e-9);
}

class WhisperProgram : public kit::ProgramTest {};

TEST_F(WhisperProgram, ImportsAndTranscribes) {
  kit::Scratch scratch;
  TransformersGolden("tests/golden/transformers/whisper_untied.json").write(scratch / "model");
  ASSERT_EQ(kit::run_program({"import", scratch / "model", "--out", scratch / "run"}).code, 0);
  std::vector<float> samples;
  for (int i = 0; i < 8000; ++i) samples.push_back(float(0.4 * std::sin(0.1 * i)));
  const std::string file = scratch.add("sound.wav", kit::wav_file(samples, 8000));
  const auto told = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"transcribe", scratch / "run", file, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const kit::Finished f = kit::run_program(arguments);
    EXPECT_EQ(f.code, 0) << f.err;
    return parse_json(f.out, "output");
  };
  const Json text = told({"--language", "de", "--task", "translate", "--timestamps"});
  EXPECT_EQ(text["language"], "de");
  ASSERT_GE(text["segments"].size(), 2u);
  EXPECT_LE(double(text["segments"][0]["begin"]), double(text["segments"][0]["end"]));
  EXPECT_FALSE(std::string(told({"--num-beams", "3"})["language"]).empty());
  EXPECT_EQ(told({"--temperatures", "0,1", "--seed", "3"})["segments"][0]["temperature"], 1);
  const std::string run = scratch / "run";
  EXPECT_NE(told({"--initial-prompt", "Anna"})["text"], told({})["text"]);
  expect_error({"transcribe", run, file, "--temperatures", "1,0"}, 2, "each at least the one before it");
  expect_error({"transcribe", run, file, "--language", "xx"}, 2, "the model has no language 'xx'; it has de, en, fr");
  expect_error({"transcribe", run, scratch / "none.wav"}, 1, "none.wav' cannot be read");
  expect_error({"transcribe", run, file, "--ctc-weight", "0.3"}, 2, "--ctc-weight");
  expect_error({"transcribe", run, file, "--stream"}, 2, "features whisper");
}

class WhisperFineTuning : public WhisperProgram {
 protected:
  WhisperFineTuning() {
    TransformersGolden("tests/golden/transformers/whisper_untied.json").write(scratch / "model");
    import_model({scratch / "model", scratch / "run", {}});
    std::vector<float> samples;
    for (int i = 0; i < 1600; ++i) samples.push_back(float(0.4 * std::sin(0.1 * i)));
    scratch.add("sound.wav", kit::wav_file(samples, 16000));
    list = scratch.add("list.tsv", "sound.wav\tab\nsound.wav\tc\n");
  }
  // Sounds of 7 rows, 48 places in the decoder.
  std::string recipe(const std::string& task, int64_t length = 55, const std::string& pad = ", pad_seconds: 0.14") {
    return scratch.add(
        "recipe.yaml",
        cat("from_pretrained: ", scratch / "run", "\ndata: {sequence_length: ", length,
            ", audio: {sample_rate: 16000, features: whisper, num_mel_bins: 128, frames_per_row: 2", pad,
            "}}\ntask: {type: text, prompt: none, train: [", list, "], audio: \"1\", label: \"2\"", task,
            "}\ntrain: {objective: task, max_steps: 1, batch_tokens: 111, learning_rate: 1.0e-3, warmup_steps: 0}\n"));
  }
  kit::Scratch scratch;
  std::string list;
};

TEST_F(WhisperFineTuning, TakesAStepAndKeepsWhatTranscribeReads) {
  const std::string tuned = scratch / "tuned";
  const kit::Finished plan = kit::run_program({"plan", recipe(", language: de")});
  EXPECT_EQ(plan.code, 0) << plan.err;
  const kit::Finished f = kit::run_program({"train", recipe(", language: de"), "--out", tuned});
  ASSERT_EQ(f.code, 0) << f.err;
  const Json before = parse_json(read_file(scratch / "run/generation_config.json"), "before"),
             after = parse_json(read_file(scratch / "tuned/generation_config.json"), "after");
  for (const auto& [key, value] : before.items()) EXPECT_EQ(after.at(key), value) << key;
  EXPECT_FALSE(after.contains("do_sample"));
  const kit::Finished heard = kit::run_program({"transcribe", tuned, scratch / "sound.wav", "--language", "de"});
  EXPECT_EQ(heard.code, 0) << heard.err;
  EXPECT_EQ(kit::run_program({"export", tuned, "--out", scratch / "out"}).code, 0);
  EXPECT_EQ(read_file(scratch / "out/generation_config.json"), read_file(scratch / "tuned/generation_config.json"));
}

TEST_F(WhisperFineTuning, RefusesWhatTheModelIsNotAsked) {
  const auto refused = [&](const std::string& file, const std::string& words) {
    expect_error({"train", file, "--out", scratch / "none"}, 2, words);
  };
  refused(recipe(""), "set task.language: en");
  refused(recipe(", language: xx"), "the tokenizer has no <|xx|>");
  refused(recipe(", language: none, translates: true"), "translates needs a language");
  refused(recipe(", language: en", 56), "max_position_embeddings 48 is below data.sequence_length 56 less 7 rows");
  refused(recipe(", language: en", 48, ""), "set data.audio.pad_seconds");
  refused(recipe(", language: en", 55, ", pad_seconds: 0.2"), "reads 7 rows, data.audio gives 10");
}

// What is learnt is what `lithe transcribe` asks for.
TEST_F(WhisperFineTuning, TeachesAnAnswerBehindItsInstructions) {
  const auto tokenizer = load_tokenizers(scratch / "run").tokenizer;
  const auto tokens = *speech_tokens(*tokenizer, scratch / "run");
  for (const std::string language : {"de", "none"}) {
    const TaskBatches batches({Example{.answers = {{"ab", 0}}}}, TaskType::text, *tokenizer, 20, 20, 1, false,
                              {.answers = {.reads_source = true, .ends_source = false, .language = language}});
    std::vector<int32_t> want{tokens.begin};
    if (language == "de") want.insert(want.end(), {tokens.languages.at("de"), tokens.tasks.at("transcribe")});
    want.push_back(*tokens.no_times);
    const Batch prompt = batches.prompts(0, 0), batch = batches.batch(0, 0);
    EXPECT_EQ(prompt.tokens, want);
    std::vector<int32_t> labels(want.size() - 1, -1);
    for (const int32_t id : tokenizer->encode("ab")) want.push_back(id), labels.push_back(id);
    labels.push_back(tokens.end);
    EXPECT_EQ(batch.tokens, want);
    EXPECT_EQ(batch.labels, labels);
  }
}

struct WhisperRefusals : testing::Test {
  WhisperRefusals() : golden("tests/golden/transformers/whisper.json") { golden.write(model()); }
  Path model() const { return scratch / "model"; }
  void change(const char* file, const char* key, const Json& value) const {
    Json json = parse_json(read_file(model() / file), file);
    json[key] = value;
    write_file(model() / file, json.dump());
  }
  void refused(const std::string& words) const {
    const std::string error = kit::error_of([&] { import_model({model(), scratch / "run", {}}); });
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
  }
  TransformersGolden golden;
  kit::Scratch scratch;
};

TEST_F(WhisperRefusals, OtherMelBins) {
  change("preprocessor_config.json", "feature_size", 80);
  refused("feature_size is 80, num_mel_bins of config.json 10");
}
TEST_F(WhisperRefusals, OtherLengths) {
  change("preprocessor_config.json", "nb_max_frames", 3000);
  refused("nb_max_frames is 3000");
}
TEST_F(WhisperRefusals, OtherSeconds) {
  change("preprocessor_config.json", "chunk_length", 30);
  refused("chunk_length is 30, the seconds that config.json's max_source_positions call for are 0.24");
  change("preprocessor_config.json", "chunk_length", nullptr);
  refused("chunk_length is 30");
}
TEST_F(WhisperRefusals, OtherRates) {
  for (const int rate : {-1, 0}) {
    change("preprocessor_config.json", "sampling_rate", rate);
    refused(cat("sampling_rate must be from 1 to 1048576, got ", rate));
  }
  change("preprocessor_config.json", "sampling_rate", 44100);
  refused("sample_rate 44100 has no whole frames");
}
TEST_F(WhisperRefusals, UsualMelBinsWhereNoneAreGiven) {
  change("preprocessor_config.json", "feature_size", nullptr);
  refused("feature_size is 80, num_mel_bins of config.json 10");
}
TEST_F(WhisperRefusals, SizesThatNoFileHolds) {
  change("config.json", "num_mel_bins", int64_t(1) << 39);
  refused("num_mel_bins must be from 1 to 1024");
  change("config.json", "num_mel_bins", 10);
  change("config.json", "encoder_layers", 10001);
  refused("encoder_layers must be from 1 to 10000");
  change("config.json", "encoder_layers", 2);
  change("config.json", "d_model", 12 * 65536);
  refused("config.json calls for");
}
TEST_F(WhisperRefusals, ExportOfOtherFeatures) {
  import_model({model(), scratch / "run", {}});
  const Path recipe = scratch.path() / "run/resolved_recipe.yaml";
  std::string text = read_file(recipe);
  const std::string none = "normalise: none";
  ASSERT_NE(text.find(none), std::string::npos) << text;
  write_file(recipe, text.replace(text.find(none), none.size(), "normalise: utterance"));
  const std::string error = kit::error_of([&] { export_model({scratch / "run", scratch / "out", ""}); });
  EXPECT_NE(error.find("normalise utterance, which WhisperFeatureExtractor does not make"), std::string::npos) << error;
}
// Without a generation_config.json the library generates by what config.json says.
TEST_F(WhisperRefusals, NothingOfWhatConfigSaysOfGeneration) {
  std::filesystem::remove(model() / "generation_config.json");
  change("config.json", "suppress_tokens", {1, 2, 50000});
  change("config.json", "forced_decoder_ids", {{1, 259}, {2, 262}});
  import_model({model(), scratch / "run", {}});
  const auto tokens = *speech_tokens(*load_tokenizer(scratch / "run"), scratch / "run");
  EXPECT_EQ(tokens.never, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokens.never_first, std::vector<int32_t>{220});
  EXPECT_EQ(tokens.forced, (std::map<int64_t, int32_t>{{1, 259}, {2, 262}}));
  EXPECT_EQ(tokens.times, 13);
  export_model({scratch / "run", scratch / "out", ""});
  EXPECT_EQ(read_file(scratch.path() / "run/generation_config.json"),
            read_file(scratch.path() / "out/generation_config.json"));
  std::filesystem::remove_all(scratch.path() / "run");
  change("config.json", "forced_decoder_ids", Json::array({Json::array({1, 280})}));
  refused("config.json': forced_decoder_ids 280 is not among the tokenizer's 280");
}
TEST_F(WhisperRefusals, OtherFeatures) {
  change("preprocessor_config.json", "feature_extractor_type", "Wav2Vec2FeatureExtractor");
  refused("feature_extractor_type is Wav2Vec2FeatureExtractor");
}
TEST_F(WhisperRefusals, OtherTokenizers) {
  save_tokenizer(*make_byte_tokenizer(), model());
  refused("no <|startoftranscript|>");
}
TEST_F(WhisperRefusals, IdsThatAreNone) {
  change("generation_config.json", "suppress_tokens", {3, 280});
  refused("suppress_tokens 280 is not among the tokenizer's 280");
}
TEST_F(WhisperRefusals, OtherHeads) {
  change("config.json", "architectures", {"WhisperForAudioClassification"});
  refused("WhisperForAudioClassification can not be imported");
}
TEST_F(WhisperRefusals, CutWeights) {
  const std::string bytes = read_file(model() / "model.safetensors");
  write_file(model() / "model.safetensors", bytes.substr(0, bytes.size() / 2));
  refused("model.safetensors");
}
TEST_F(WhisperRefusals, OtherShapes) {
  change("config.json", "num_mel_bins", 12);
  refused("model.encoder.conv1.weight' is [24,10,3], config.json calls for [24,12,3]");
}

}  // namespace
}  // namespace lithe
