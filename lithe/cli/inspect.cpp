#include <iostream>
#include <set>

#include "lithe/analyze/inspection_page.h"
#include "lithe/analyze/rollout.h"
#include "lithe/base/files.h"
#include "lithe/base/log.h"
#include "lithe/cli/command.h"
#include "lithe/cli/inspect_hashes.h"
#include "lithe/cli/inspect_words.h"
#include "lithe/cli/text_lines.h"
#include "lithe/data/text_file.h"
#include "lithe/eval/finite_result.h"

namespace lithe {
namespace {

constexpr int64_t kPictures = 64;  // more heads than this are shown as their mean

struct InspectOptions {
  std::vector<std::string> models;
  std::string text, file, image, out, weights, precision = "f32", normalise = "bounds";
  std::vector<int64_t> layers, heads;
  WordQuestions words;
  std::vector<std::string> hashed;  // files
  int64_t length = 64;
  bool json = false;
};

// The ends of the paths, as long as it takes to tell the runs apart.
std::vector<std::string> names_of_runs(const std::vector<std::string>& directories) {
  for (int words = 1;; ++words) {
    std::vector<std::string> names;
    bool whole = true;
    for (const std::string& directory : directories) {
      Path rest = (Path(directory) / "").lexically_normal().parent_path(), name;
      for (int i = 0; i < words && rest.has_filename(); ++i, rest = rest.parent_path())
        name = name.empty() ? rest.filename() : rest.filename() / name;
      whole = whole && !rest.has_filename();
      names.push_back(name.empty() ? directory : name.string());
    }
    if (whole || std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
  }
}

// Numbers from 1 on the command line, from 0 inside.
std::vector<int64_t> from_zero(std::vector<int64_t> numbers, const char* what, int64_t count) {
  for (int64_t& n : numbers) {
    check_usage(n >= 1 && n <= count, "inspect", "there is no ", what, " ", n, ": they are numbered 1 to ", count);
    --n;
  }
  return numbers;
}

int run_inspect(InspectOptions o) {
  o.words.files = readable(std::move(o.words.files));
  if (!o.words.files.empty()) return inspect_words(o.models, o.words, o.json);
  if (!o.hashed.empty()) return inspect_hashes(o.models, readable(std::move(o.hashed)), o.json);
  check_usage(o.text.empty() || o.file.empty(), "inspect", "--text and --file both give the text; keep one");
  check_usage(!o.text.empty() || !o.file.empty() || !o.image.empty(), "inspect",
              "needs a text: give --text or --file, --image for a picture, or --words for the hashes of words");
  const std::string text = o.file.empty() ? o.text : read_text(readable(o.file), "inspect");
  analyze::Inspection inspection;
  int64_t layers = 0, heads = 0, pictures_in_all = 0;
  const std::vector<std::string> names = names_of_runs(o.models);
  for (size_t i = 0; i < names.size(); ++i) {
    const LoadedModel loaded = load_model(o.models[i], o.weights, o.precision, false, false);
    inspection.models.push_back(
        o.image.empty() ? analyze::inspect_model(names[i], loaded, text, o.length)
                        : analyze::inspect_picture(names[i], loaded, recipe_of_run(o.models[i]), text, o.image));
    layers = std::max(layers, int64_t(inspection.models.back().layers.size()));
    for (const analyze::LayerView& layer : inspection.models.back().layers) {
      heads = std::max(heads, layer.maps.heads);
      pictures_in_all += layer.maps.heads;
      double sum = 0;  // finite when all of them are: none is negative
      for (int64_t k = 0; layer.maps.heads && k < layer.maps.weights.numel(); ++k)
        sum += value_at(layer.maps.weights, k);
      check_finite_result("inspect", "the attention of '" + o.models[i] + "'", sum);
    }
  }
  if (o.normalise == "empirical") {
    std::vector<analyze::Indicators*> all;
    for (analyze::ModelView& model : inspection.models)
      for (analyze::LayerView& layer : model.layers)
        if (layer.maps.heads) all.push_back(&layer.numbers);
    analyze::normalise_empirically(all);
  }
  inspection.count_logits();
  const bool named = !o.layers.empty() || !o.heads.empty();
  const analyze::Pictures pictures{.layers = from_zero(o.layers, "layer", layers),
                                   .heads = from_zero(o.heads, "head", heads),
                                   .means = !named && pictures_in_all > kPictures};
  const Path page = o.out.empty() ? Path(o.models[0]) / "inspect.html" : Path(o.out);
  write_file(page, analyze::inspection_page(inspection, pictures));
  log_info("wrote ", page.string(),
           pictures.means ? "; it shows the means of heads, --layers and --heads show heads" : "");
  if (o.json)
    std::cout << dump(analyze::inspection_json(inspection, pictures, named), 2) << "\n";
  else
    std::cout << analyze::inspection_table(inspection);
  return 0;
}

}  // namespace

Command add_inspect(CommandLine& app) {
  auto o = std::make_shared<InspectOptions>();
  app.add_option("models", o->models, "directories of training runs, shown side by side").required();
  app.add_option("--text", o->text, "the text to inspect");
  app.add_option("--file", o->file, "a file with the text; -: standard input");
  app.add_option("--image", o->image,
                 "a picture, of encoders that learnt classes of pictures (with --text, where they read both): the page "
                 "also shows by roll-out which patches the class is taken from");
  app.add_option("--length", o->length, "most tokens of the text, up to 4096; default 64").between(1, 4096);
  app.add_option("--layers", o->layers, "layers to draw, from 1 (1,3); default: all").delimiter(',');
  app.add_option("--heads", o->heads, "heads to draw, from 1; default: all, or their mean when there are many")
      .delimiter(',');
  app.add_option("--normalise", o->normalise,
                 "how entropy and concentration are scaled to 0 ... 1: by their bounds for causal maps, or by the "
                 "range over these layers (empirical)")
      .one_of({"bounds", "empirical"});
  app.add_option("--out", o->out, "the page to write; default: inspect.html in the first model's directory")
      .output_file();
  add_weights_options(app, o->weights, o->precision);
  const std::vector<Option> of_attention = app.named();
  app.add_flag("--json", o->json, "print the numbers as JSON; with --layers or --heads their weights too");
  const Option words =
      app.add_option("--words", o->words.files,
                     "files whose words are counted, to show which share a code (tokenizers of type words only)");
  const Option word =
      app.add_option("--word", o->words.asked, "with --words: find the words nearest to this (repeatable)")
          .repeatable()
          .needs(words);
  app.add_option("--nearest", o->words.nearest, "with --word: how many; default 5").positive().needs(word);
  const Option hashes =
      app.add_option("--hashes", o->hashed,
                     "files whose n-grams are counted, to show how they share hashed rows (engram, byte_ngrams), and "
                     "tokens and candidates codes (hash_sum, hash_codes)");
  add_threads_option(app);
  app.footer(
      "Example: lithe inspect runs/first --text \"In the beginning\"\nWrites a page with attention maps, eight "
      "indicators over depth and the logits before the softmax; the table on stdout\nhas the indicators.\n"
      "In runs without a vocabulary, --words my.txt shows the words that share a hash, and --word the words nearest to "
      "a word.");
  return [o, words, hashes, of_attention] {
    check_usage(!words.given() || !hashes.given(), "inspect",
                "--words is of tokenizers, --hashes of models: leave one out");
    for (const Option& other : of_attention)
      check_usage(!hashes.given() || !other.given(), "inspect", other.name(),
                  " is not of the n-grams that --hashes counts: leave one out");
    for (const Option& other : of_attention)
      check_usage(!words.given() || !other.given(), "inspect", other.name(),
                  " is not of the words that --words counts: leave one out");
    return run_inspect(*o);
  };
}

}  // namespace lithe
