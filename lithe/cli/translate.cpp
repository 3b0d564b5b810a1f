#include "lithe/infer/translate.h"

#include "lithe/infer/tree_step.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/further_sources.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/translation.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct TranslateOptions {
  std::string model, weights, precision = "f32", prefix;
  std::vector<std::string> files, sources;
  std::optional<int64_t> num_beams, n_best, max_new_tokens, min_new_tokens, batch_size, top_k, seed;
  std::optional<double> length_penalty, temperature, top_p, min_p;
  bool early_stopping = false, trees = false, sample = false, scores = false, json = false;
  int64_t window = 1024;
};

// Lines as they come. std::getline cannot tell whether there are more, and Ctrl-C does not end its waiting.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  /// Waits for a line and takes all that are there, `most` at most; none at the end, and when a signal came.
  std::vector<std::string> next(int64_t most) {
    std::vector<std::string> out;
    while (int64_t(out.size()) < most && !stop_signal()) {
      if (const size_t end = pending_.find('\n', begin_); end != std::string::npos) {
        out.push_back(pending_.substr(begin_, end - begin_));
        if (out.back().ends_with('\r')) out.back().pop_back();
        begin_ = end + 1;
      } else if (at_end_) {
        if (begin_ == pending_.size()) break;
        pending_ += '\n';
      } else if (!read_more(out.empty()) && !out.empty()) {
        break;
      }
    }
    return out;
  }

 private:
  int fd_;
  bool at_end_ = false;
  std::string pending_;
  size_t begin_ = 0;  // of what was not taken

  // False: nothing came.
  bool read_more(bool wait) {
    constexpr int kPatience = 100;  // milliseconds until stop_signal() is polled again
    char bytes[1 << 16];
    const auto n = read_some(fd_, bytes, wait ? kPatience : 0);
    if (!n) return false;
    check(*n >= 0, "translate", "standard input cannot be read: ", std::strerror(errno));
    pending_.erase(0, std::exchange(begin_, 0));
    pending_.append(bytes, size_t(*n));
    at_end_ = *n == 0;
    return true;
  }
};

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Line `number`, from 0, and what was found for it.
void print(const TranslateOptions& o, bool several, int64_t number, const std::string& line,
           const std::vector<Translation>& found) {
  if (o.json) {
    Json translations = Json::array();
    for (const Translation& t : found)
      translations.push_back(
          {{"text", t.text}, {"score", t.score}, {"log_probability", t.log_probability}, {"tokens", t.tokens.size()}});
    std::cout << dump(Json({{"line", number + 1}, {"source", line}, {"translations", translations}}), -1,
                      Invalid::replaced)
              << "\n";
  } else if (several) {
    for (const Translation& t : found)
      std::cout << number << " ||| " << on_one_line(t.text) << " ||| " << t.score << "\n";
  } else {
    if (o.scores) std::cout << found[0].score << "\t";
    std::cout << on_one_line(found[0].text) << "\n";
  }
}

TranslateConfig settings_of(const TranslateOptions& o, TranslateConfig config) {
  take_given(config.num_beams, o.num_beams);
  take_given(config.length_penalty, o.length_penalty);
  take_given(config.num_return_sequences, o.n_best);
  take_given(config.max_new_tokens, o.max_new_tokens);
  take_given(config.min_new_tokens, o.min_new_tokens);
  take_given(config.batch_size, o.batch_size);
  if (o.early_stopping) config.early_stopping = true;
  if (o.sample || o.trees) {
    config.do_sample = true;
    if (!o.sample) config.top_k = 1;  // greedy
    // Trees are longer than their words.
    if (o.trees && !o.max_new_tokens && !config.max_new_tokens) config.max_new_tokens = 1024;
    if (!o.num_beams) config.num_beams = 1;
  }
  take_given(config.temperature, o.temperature);
  take_given(config.top_k, o.top_k);
  take_given(config.top_p, o.top_p);
  take_given(config.min_p, o.min_p);
  take_given(config.seed, o.seed);
  check_usage((config.do_sample && !o.trees) || o.sample || !(o.temperature || o.top_k || o.top_p || o.min_p || o.seed),
              "translate", "--temperature, --top-k, --top-p, --min-p and --seed are of draws; give --sample, too");
  config.validate();
  return config;
}

int run_translate(const TranslateOptions& o) {
  catch_stop_signals();
  const Recipe recipe = recipe_of_run(o.model);
  const TranslateConfig config = settings_of(o, recipe.translate);
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  check_usage(loaded.source_tokenizer != nullptr, "translate", "'", o.model,
              "' holds no encoder_decoder; `lithe generate` continues texts");
  const Tokenizer &source = *loaded.source_tokenizer, &target = *loaded.tokenizer;
  LogitSteps steps;
  if (o.trees && target.specials().eos) steps.push_back(tree_step(target, {*target.specials().eos}));

  LineReader input(STDIN_FILENO);
  const bool streams = o.files.empty() || o.files == std::vector<std::string>{"-"};
  std::vector<std::string> all;
  FurtherLines further(o.sources, recipe, "translate");
  std::vector<std::shared_ptr<const TreeSentence>> trees;  // of treebanks
  const bool treebanks = !o.files.empty() && is_treebank(o.files[0]);
  for (const std::string& file : o.files) {
    check_usage(is_treebank(file) == treebanks, "translate", "'", file, "' is ",
                treebanks ? "no treebank" : "a treebank", ", and '", o.files[0], "' is ", treebanks ? "one" : "none",
                "; give them apart");
    if (!treebanks) continue;
    for (TreeSentence& s : read_treebank(file, "translate")) {
      all.push_back(s.text());
      trees.push_back(std::make_shared<const TreeSentence>(std::move(s)));
    }
  }
  if (!streams && !treebanks) all = text_lines(o.files);
  if (!streams) further.check_lines(all.size());
  int64_t done = 0;  // lines of windows before
  const auto next_window = [&] {
    if (streams) return input.next(o.window);
    const auto begin = all.begin() + done, end = all.begin() + std::min(done + o.window, int64_t(all.size()));
    return std::vector<std::string>(begin, end);
  };
  for (std::vector<std::string> lines; !stop_signal() && !(lines = next_window()).empty();) {
    std::vector<const std::vector<Translation>*> found(lines.size());
    size_t printed = 0;
    const FurtherTexts beside = further.next(lines);
    translate(*loaded.model, source, target, lines, config, o.prefix,
              [&](size_t i, const std::vector<Translation>& translations) {
                found[i] = &translations;
                for (; printed < lines.size() && found[printed]; ++printed)
                  print(o, o.n_best.has_value(), done + int64_t(printed), lines[printed], *found[printed]);
                flush_results();
              },
              done + 1,
              {.further = beside,
               .trees = trees.empty() ? trees
                                      : std::vector<std::shared_ptr<const TreeSentence>>(
                                            trees.begin() + done, trees.begin() + done + int64_t(lines.size())),
               .steps = steps});
    done += int64_t(lines.size());
  }
  return stop_signal() ? 128 + stop_signal() : 0;
}

}  // namespace

Command add_translate(CommandLine& app) {
  auto o = std::make_shared<TranslateOptions>();
  app.add_option("model", o->model, "directory of a run with an encoder-decoder").required();
  app.add_option(
      "files", o->files,
      "sentences, one per line; default or -: standard input, answered as lines arrive; treebanks (.conllu) of models "
      "that read trees");
  add_source_option(app, o->sources);
  add_weights_options(app, o->weights, o->precision);
  app.add_option("--num-beams", o->num_beams, "hypotheses kept at each step; 1 is greedy").positive();
  app.add_option("--length-penalty", o->length_penalty,
                 "divide log-probabilities by ((5 + tokens) / 6) to this power; above 0 favours longer translations");
  app.add_flag("--early-stopping", o->early_stopping,
               "stop as soon as there are as many translations as beams: faster, but others might score higher");
  app.add_flag("--trees", o->trees,
               "translations are trees with matching brackets, as `lithe tokenize --trees --linear` writes them; "
               "greedy, or drawn with --sample");
  app.add_flag("--sample", o->sample, "draw translations at random instead of a beam search for the most likely ones");
  app.add_option("--temperature", o->temperature,
                 "with --sample: below 1 makes likely tokens likelier, above 1 less likely");
  app.add_option("--top-k", o->top_k, "with --sample: only the k most likely tokens").non_negative();
  app.add_option("--top-p", o->top_p, "with --sample: only the smallest set of tokens with this total probability");
  app.add_option("--min-p", o->min_p,
                 "with --sample: only tokens with at least this share of the probability of the most likely token");
  app.add_option("--seed", o->seed, "with --sample: random seed").non_negative();
  app.add_option("--n-best", o->n_best,
                 "print this many translations per line, as `LINE ||| TEXT ||| SCORE`, lines counted from 0")
      .positive();
  app.add_flag("--scores", o->scores, "print the score and a tab before each translation");
  app.add_option("--prefix", o->prefix, "text that every translation begins with");
  app.add_option("--max-new-tokens", o->max_new_tokens,
                 "longest translation in tokens; 0: twice the source and 10 more")
      .non_negative();
  app.add_option("--min-new-tokens", o->min_new_tokens,
                 "shortest translation of a sentence in tokens; default 1; 0: it may be empty")
      .non_negative();
  app.add_option("--batch-size", o->batch_size,
                 "largest number of sentences in a batch; does not change the translations")
      .positive();
  app.add_option("--window", o->window, "lines read ahead, so that those of similar length are translated together")
      .between(1, 1 << 24)
      .show_default();
  app.add_flag("--json", o->json, "print one JSON object a line");
  add_threads_option(app);
  app.footer("Example: echo 'ein kleines Haus' | lithe translate runs/de-en --num-beams 4");
  return [o] { return run_translate(*o); };
}

}  // namespace lithe
