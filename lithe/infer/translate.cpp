#include "lithe/infer/translate.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/data/tree_columns.h"
#include "lithe/infer/beam_search.h"
#include "lithe/infer/decode_loop.h"
#include "lithe/objective/device_batch.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r\n\v\f") == std::string::npos; }

int32_t end_of(const Tokenizer& tokenizer, const char* side) {
  check_usage(tokenizer.specials().eos.has_value(), "translate", "the ", side,
              " tokenizer has no token that ends a text (eos); name one in its tokenizer_config.json");
  return *tokenizer.specials().eos;
}

// What the model's further encoders read: a text a sentence.
FurtherTexts texts_read(const Model& model, const FurtherTexts& further, size_t sentences) {
  FurtherTexts out;
  for (const std::string& name : model.config().source_names()) {
    if (name == kSource) continue;
    const auto texts = further.find(name);
    const size_t have = texts == further.end() ? 0 : texts->second.size();
    check_usage(have == sentences, "translate", "the model reads a text of ", name, " beside each sentence; there are ",
                sentences, " sentences and ", have, " of these");
    out[name] = texts->second;
  }
  return out;
}

struct Batches {
  int64_t size, count;
  bool side_by_side;  // each on one thread, as many as there are threads; else one after another on all threads
};

// The draws of one sentence, as they are done.
struct Drawn {
  std::vector<Translation> translations;
  int64_t left;
};

Translation translation_of(const Tokenizer& target, std::vector<int32_t> tokens, double score, double log_probability) {
  std::string text = valid_utf8(target.decode(tokens));
  return {std::move(text), std::move(tokens), score, log_probability};
}

// What to draw of a sentence; draws are keyed by its line.
DecodeRequest draw_of(const SearchInput& input, const BeamSearchConfig& search, const TranslateConfig& config,
                      int64_t line, int64_t draw, const LogitSteps& more) {
  LogitSteps steps = {never(search.never), never_before(input.min_new_tokens, search.stop)};
  steps.insert(steps.end(), more.begin(), more.end());
  return {.tokens = input.prompt,
          .source = input.source,
          .further = input.further,
          .config = {.max_new_tokens = input.max_new_tokens,
                     .temperature = config.temperature,
                     .top_k = config.top_k,
                     .top_p = config.top_p,
                     .min_p = config.min_p,
                     .seed = config.seed},
          .key = uint64_t(line) << 16 | uint64_t(draw),
          .vocab_size = search.vocab_size,
          .end_tokens = search.stop,
          .steps = std::move(steps),
          .log_probabilities = true,
          .name = cat("line ", line)};
}

// `done(i, translations)` of each input that has a source.
void draw_translations(const Model& model, const Tokenizer& target, const std::vector<SearchInput>& inputs,
                       const BeamSearchConfig& search, const TranslateConfig& config,
                       const std::vector<int32_t>& prefix, int64_t first_line, const LogitSteps& steps,
                       const std::function<void(size_t, std::vector<Translation>)>& done) {
  int64_t longest = 1;
  for (const SearchInput& input : inputs)
    longest = std::max(longest, int64_t(input.prompt.size()) + input.max_new_tokens);
  DecodeLoop loop(model, {.slots = config.batch_size, .longest = longest});
  std::vector<Drawn> drawn(inputs.size(), {{}, config.num_return_sequences});
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int64_t n = 0; n < config.num_return_sequences && !inputs[i].source.empty(); ++n) {
      DecodeRequest request = draw_of(inputs[i], search, config, first_line + int64_t(i), n, steps);
      request.on_done = [&, i](DecodeResult&& result) {
        if (result.error) std::rethrow_exception(result.error);
        if (result.finish == Finish::interrupted) return;
        std::vector<int32_t> tokens = prefix;
        tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
        const std::vector<double>& each = result.log_probabilities;
        const double sum = std::accumulate(each.begin(), each.end(), 0.0);
        const double score = length_score(sum, int64_t(each.size()), config.length_penalty);
        drawn[i].translations.push_back(translation_of(target, std::move(tokens), score, sum));
        if (--drawn[i].left) return;
        std::stable_sort(drawn[i].translations.begin(), drawn[i].translations.end(), [](const auto& a, const auto& b) {
          return std::tie(b.score, a.tokens) < std::tie(a.score, b.tokens);
        });
        done(i, std::move(drawn[i].translations));
      };
      loop.submit(std::move(request));
    }
  while (!stop_signal() && loop.step()) continue;
  loop.interrupt();
}

// To divide every product of a small model between threads costs more than it saves, and batches need nothing of each
// other. Below the least work threads wait for each other where they make tensors and count who holds the weights;
// above the most, dividing is cheap. docs/performance.md has what was measured.
Batches batches_of(const Model& model, int64_t sentences, const TranslateConfig& config) {
  constexpr double kLeastWork = 2e7, kMostWork = 2e9;  // multiply-adds of a step, about
  constexpr int64_t kMostBatches = 8;                  // as wide as batch_size says; more threads have narrower ones
  if (!sentences) return {};
  const auto divide_up = [](int64_t n, int64_t by) { return (n - 1) / by + 1; };
  const int64_t width = std::min(config.batch_size, sentences), team = threads();
  const int64_t most = std::max<int64_t>(1, width * std::min(team, kMostBatches) / team);
  const int64_t each = divide_up(sentences, most * team);  // batches of a thread
  const int64_t size = divide_up(sentences, each * team);
  const double work = double(size) * double(config.num_beams) * double(model.parameters().count());
  if (team > 1 && sentences >= team && work >= kLeastWork && work <= kMostWork)
    return {size, divide_up(sentences, size), true};
  return {width, divide_up(sentences, width), false};
}

}  // namespace

std::vector<std::vector<Translation>> translate(
    const Model& model, const Tokenizer& source, const Tokenizer& target, const std::vector<std::string>& sentences,
    const TranslateConfig& config, const std::string& prefix,
    const std::function<void(size_t, const std::vector<Translation>&)>& on_done, int64_t first_line,
    const TranslationExtras& extras) {
  const auto& trees = extras.trees;
  const LogitSteps& steps = extras.steps;
  config.validate();
  check_usage(
      reads_source(model.config().architecture), "translate",
      "needs a model of architecture encoder_decoder; this one is of ", model.config().architecture,
      model.config().architecture == Architecture::decoder ? ", with which `lithe generate` continues texts" : "");
  const FurtherTexts read = texts_read(model, extras.further, sentences.size());
  const int32_t source_end = end_of(source, "source"), end = end_of(target, "target");
  BeamSearchConfig search{.num_beams = config.num_beams,
                          .length_penalty = config.length_penalty,
                          .early_stopping = config.early_stopping,
                          .num_return_sequences = config.num_return_sequences,
                          .stop = {end},
                          .never = never_written(target.specials(), end),
                          .vocab_size = target.vocab_size()};

  const std::vector<int32_t> forced = target.encode(prefix);
  std::vector<int32_t> prompt{target.specials().bos.value_or(end)};
  prompt.insert(prompt.end(), forced.begin(), forced.end());
  const auto prompt_tokens = int64_t(prompt.size());
  const int64_t most_source = model.source_limit(), most_target = model.position_limit();
  check_usage(!most_target || prompt_tokens <= most_target, "translate", "the prefix has ", forced.size(),
              " tokens, the model has positions for ", most_target - 1, "; shorten it");

  std::vector<std::vector<Translation>> results(sentences.size());
  const auto done = [&](size_t i) {
    if (on_done) on_done(i, results[i]);
  };
  std::map<std::string, ColumnChoice> choices;  // of each source
  for (const std::string& name : model.config().source_names()) choices[name] = columns_of(model, name);
  for (const auto& [name, choice] : choices)
    check_usage(choice.empty() || !config.do_sample, "translate",
                "--sample has no form for models that read trees; leave it out, beams search");
  check(trees.empty() || trees.size() == sentences.size(), "translate", "there are ", trees.size(), " trees for ",
        sentences.size(), " sentences");
  check_usage(steps.empty() || config.do_sample, "translate", "steps on logits are of draws; set do_sample");
  std::vector<SearchInput> inputs(sentences.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < sentences.size(); ++i) {
    if (is_blank(sentences[i])) continue;
    SearchInput& input = inputs[i];
    Batch cut;  // of a sentence whose words are known
    if (trees.empty() || !trees[i]) {
      input.source = source.encode(sentences[i]);
    } else {
      WordTokens words = encode_words(source, trees[i]->words, &trees[i]->space_after);
      input.source = std::move(words.tokens);
      cut.words = {{trees[i]}, std::move(words.word_of)};
    }
    if (config.source_length)
      for (std::vector<int32_t>* of : {&input.source, &cut.words.word_of})
        *of = config.truncation.cut(*of, config.source_length - 1);
    if (!cut.words.sentences.empty()) cut.words.word_of.push_back(-1);  // of the end
    const auto tokens = int64_t(input.source.size());
    check_usage(!most_source || tokens < most_source, "translate", "line ", first_line + int64_t(i), " has ", tokens,
                " tokens, the model reads at most ", most_source - 1, "; split it");
    input.source.push_back(source_end);
    cut.tokens = input.source, cut.offsets = {0, int64_t(input.source.size())};
    if (!choices[kSource].empty()) input.columns[kSource] = tree_columns(choices[kSource], cut);
    for (const auto& [name, texts] : read) {
      std::vector<int32_t>& ids = input.further[name];
      if (texts[i] == sentences[i]) {  // cut as that is
        ids = input.source;
        if (!choices[name].empty()) input.columns[name] = tree_columns(choices[name], cut);
      } else {
        check_usage(choices[name].empty(), "translate", "line ", first_line + int64_t(i), ": the encoder ", name,
                    " reads the columns ", join(choices[name].names),
                    " of a treebank, which its text has where it is the source; leave --source ", name, " out");
        ids = source.encode(texts[i]);
        ids.push_back(source_end);
      }
      const int64_t most = model.source_limit(name);
      check_usage(!most || int64_t(ids.size()) <= most, "translate", "line ", first_line + int64_t(i), " has ",
                  ids.size() - 1, " tokens of ", name, ", that encoder reads at most ", most - 1, "; shorten it");
    }
    input.prompt = prompt;
    input.max_new_tokens = config.max_new_tokens ? config.max_new_tokens : 2 * tokens + 10;
    if (most_target) input.max_new_tokens = std::min(input.max_new_tokens, most_target - prompt_tokens + 1);
    input.min_new_tokens = std::clamp<int64_t>(config.min_new_tokens - int64_t(forced.size()), 0, input.max_new_tokens);
    order.push_back(i);
  }
  for (size_t i = 0; i < sentences.size(); ++i)
    if (inputs[i].source.empty()) {
      results[i] = {Translation{}};
      done(i);
    }

  if (config.do_sample) {
    draw_translations(model, target, inputs, search, config, forced, first_line, steps,
                      [&](size_t i, std::vector<Translation> translations) {
                        results[i] = std::move(translations);
                        done(i);
                      });
    return results;
  }

  // Sentences of one batch are of like length, so that they finish together.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return inputs[a].source.size() > inputs[b].source.size(); });
  const Batches batches = batches_of(model, int64_t(order.size()), config);
  std::mutex one_at_a_time;  // on_done
  const auto translate_batch = [&](int64_t number) {
    if (stop_signal()) return;
    const auto begin = size_t(number * batches.size), batch_end = std::min(order.size(), begin + size_t(batches.size));
    std::vector<SearchInput> batch;
    for (size_t at = begin; at < batch_end; ++at) batch.push_back(std::move(inputs[order[at]]));
    const auto found = beam_search(model, batch, search);
    for (size_t at = begin; at < batch_end; ++at) {
      std::vector<Translation>& out = results[order[at]];
      for (const Hypothesis& h : found[at - begin]) {
        std::vector<int32_t> tokens = forced;
        tokens.insert(tokens.end(), h.tokens.begin(), h.tokens.end());
        out.push_back(translation_of(target, std::move(tokens), h.score, h.log_probability));
      }
      const std::lock_guard lock(one_at_a_time);
      if (!out.empty()) done(order[at]);
    }
  };
  if (batches.side_by_side)
    parallel_tasks(batches.count, translate_batch);
  else
    for (int64_t number = 0; number < batches.count; ++number) translate_batch(number);
  return results;
}

}  // namespace lithe
