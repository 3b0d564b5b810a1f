#include "generate.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "lithe/base/stop.h"
#include "lithe/infer/json_grammar.h"
#include "lithe/infer/tree_step.h"
#include "lithe/infer/weights_file.h"
#include "values.h"

namespace lithe::python {
namespace {

// A name of the command line for a key of the section.
void rename(py::kwargs& settings, const char* option, const char* key) {
  if (!settings.contains(option)) return;
  check_usage(!settings.contains(key), "generate", option, " and ", key, " are the same setting; keep one");
  settings[key] = settings.attr("pop")(option);
}

// A text, or that of the file that a path names.
std::string read_text(const py::handle& given, const std::string& what) {
  constexpr uint64_t kMostBytes = uint64_t(1) << 20;
  return py::hasattr(given, "__fspath__") ? read_file(path_of(given), kMostBytes) : utf8_of(given, what);
}

std::optional<py::object> taken(py::kwargs& settings, const char* name) {
  if (!settings.contains(name)) return {};
  py::object value = settings.attr("pop")(name);
  if (value.is_none()) return {};
  return value;
}

struct Named {
  bool greedy = false, trees = false;
  std::string draft, datastore, adapter;
  std::optional<std::string> grammar, json_schema;
  NeighbourOptions neighbours;
};

Named take_named(py::kwargs& settings, Choosing& out) {
  Named named;
  named.greedy = take<bool>(settings, "greedy");
  named.trees = take<bool>(settings, "trees");
  named.draft = take<std::string>(settings, "draft");
  out.draft_tokens = take<int64_t>(settings, "draft_tokens", 4);
  check_usage(out.draft_tokens >= 1, "generate", "draft_tokens must be at least 1, got ", out.draft_tokens);
  if (const auto given = taken(settings, "datastore")) named.datastore = path_of(*given).string();
  if (const auto given = taken(settings, "adapter")) named.adapter = path_of(*given).string();
  if (const auto given = taken(settings, "grammar")) named.grammar = read_text(*given, "grammar");
  if (const auto given = taken(settings, "json_schema"))
    named.json_schema =
        py::isinstance<py::dict>(*given) ? dump(to_json_value(*given)) : read_text(*given, "json_schema");
  check_usage(int(named.trees) + int(named.grammar.has_value()) + int(named.json_schema.has_value()) <= 1, "generate",
              "trees, grammar and json_schema exclude each other; give one");
  const char* knn[] = {"knn_k", "knn_weight", "knn_temperature", "knn_probes", "knn_effort"};
  for (const char* name : knn)
    check_usage(!named.datastore.empty() || !settings.contains(name), "generate", name, " needs a datastore");
  NeighbourOptions& n = named.neighbours;
  n.k = take(settings, knn[0], n.k);
  n.weight = take(settings, knn[1], n.weight);
  n.temperature = take(settings, knn[2], n.temperature);
  n.probes = take(settings, knn[3], n.probes);
  n.effort = take(settings, knn[4], n.effort);
  check_usage(named.datastore.empty() || named.draft.empty(), "generate",
              "drafts are checked by the model alone; leave out draft or datastore");
  for (const char* name : {"temperature", "top_k", "top_p", "min_p"})
    check_usage(!named.greedy || !settings.contains(name), "generate", "greedy takes the most likely token, so that ",
                name, " has nothing to do; leave out one of them");
  rename(settings, "samples", "num_return_sequences");
  rename(settings, "cache_type", "cache_dtype");
  if (settings.contains("stop") && py::isinstance<py::str>(settings["stop"])) {
    py::list one;
    one.append(settings["stop"]);
    settings["stop"] = one;
  }
  return named;
}

std::vector<int32_t> ends_of(const Tokenizer& tokenizer) {
  const auto& eos = tokenizer.specials().eos;
  return eos ? std::vector<int32_t>{*eos} : std::vector<int32_t>();
}

std::vector<int32_t> ids_of(const py::handle& prompt) {
  return cast_of<std::vector<int32_t>>(prompt, "a prompt", "a str or a list of ids ([[1, 2]] is one prompt of two)");
}

}  // namespace

std::unique_ptr<Choosing> choosing_of(const PyModel& model, py::kwargs settings) {
  auto out = std::make_unique<Choosing>();
  out->config = model.recipe.generate;
  const Named named = take_named(settings, *out);
  read_settings(settings, "generate", [&](Fields& f) { out->config.fields(f); });
  if (named.greedy) out->config.do_sample = false;
  out->config.validate();
  long_call([&] {
    out->drafting = drafter_named(named.draft, model.loaded, model.options.precision, out->config);
    if (!named.adapter.empty()) out->adapter.emplace(model.model(), named.adapter, model.run, model.options.weights);
    if (named.grammar || named.json_schema)
      out->grammar = std::make_shared<GrammarMasks>(
          std::make_shared<TokenBytes>(model.tokenizer()),
          named.grammar ? parse_gbnf(*named.grammar)
                        : json_schema_grammar(parse_json(*named.json_schema, "json_schema")));
    if (!named.datastore.empty())
      out->neighbours.emplace(open_neighbours(named.datastore, named.neighbours,
                                              weights_fingerprint(model.run, model.options.weights),
                                              model.tokenizer().fingerprint()));
    return true;
  });
  if (out->neighbours) out->steps.push_back(neighbour_step(*out->neighbours));
  if (named.trees) out->steps.push_back(tree_step(model.tokenizer(), ends_of(model.tokenizer())));
  return out;
}

LogitSteps Choosing::steps_of(const Tokenizer& tokenizer, bool first) const {
  LogitSteps out = steps;
  if (grammar) out.push_back(grammar_step(grammar, ends_of(tokenizer), first));
  return out;
}

PromptOf prompt_of(const PyModel& model, const py::handle& prompt, const GenerateConfig& config) {
  if (!py::isinstance<py::str>(prompt)) return {ids_of(prompt), true};
  const std::string text = utf8_of(prompt);
  return {prompt_tokens(model.tokenizer(), text, config), text.empty()};
}

namespace {

// One of a text, or all of several, each as often as there are samples.
py::object results_of(bool alone, std::vector<Generation>&& results) {
  if (alone && results.size() == 1) return py::cast(std::move(results[0]));
  return py::cast(std::move(results));
}

py::object generate(const PyModel& self, const py::object& prompts, const py::object& on_text,
                    const py::kwargs& settings) {
  const std::unique_ptr<Choosing> how = choosing_of(self, settings);
  const py::object given = prompts.is_none() ? py::str(how->config.prompt) : prompts;
  const bool alone = py::isinstance<py::str>(given);
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> tokens;
  const auto add = [&](const py::handle& prompt) {
    for (int64_t i = 0; i < how->config.num_return_sequences; ++i)
      if (py::isinstance<py::str>(prompt))
        texts.push_back(utf8_of(prompt));
      else
        tokens.push_back(ids_of(prompt));
  };
  if (alone)
    add(given);
  else
    for (const py::handle prompt : given) add(prompt);
  check_usage(texts.empty() || tokens.empty(), "generate", "prompts are texts or lists of ids, not both");
  std::vector<Generation> results(std::max(texts.size(), tokens.size()));
  GenerateEvents events{.on_done = [&](size_t i, Generation&& result) { results[i] = std::move(result); }};
  if (!on_text.is_none())
    events.on_text = [&](size_t i, std::string_view piece) {
      const py::gil_scoped_acquire locked;
      return goes_on(on_text(i, text_of(std::string(piece))), "on_text");
    };
  const auto empty = size_t(std::count(texts.begin(), texts.end(), ""));
  check_usage(!how->grammar || empty == 0 || empty == texts.size(), "generate",
              "a grammar is for prompts with a text or for those without one; leave out the empty ones");
  const GenerateHelp help{.steps = how->steps_of(self.tokenizer(), empty == texts.size()),
                          .drafter = how->drafting.drafter.get(),
                          .draft_tokens = how->draft_tokens,
                          .adapter = how->adapter ? &how->adapter->updates() : nullptr};
  self.alone([&] {
    if (tokens.empty())
      generate_each(self.model(), self.tokenizer(), texts, how->config, events, nullptr, help);
    else
      continue_each(self.model(), self.tokenizer(), tokens, how->config, events, nullptr, help);
    return true;
  });
  return results_of(alone, std::move(results));
}

// Text that came, and the tokens that it came with.
struct Piece {
  std::string text;
  std::vector<int32_t> tokens;
};

// A continuation that runs as far as somebody asks.
class Stream {
 public:
  Stream(std::shared_ptr<const PyModel> model, const py::object& prompt, const py::kwargs& settings)
      : model_(std::move(model)), how_(choosing_of(*model_, settings)) {
    const GenerateConfig& config = how_->config;
    check_usage(config.num_return_sequences == 1, "stream", "one stream is one text; leave samples out");
    PromptOf from = prompt_of(*model_, prompt.is_none() ? py::str(config.prompt) : prompt, config);
    const DecodeBudget budget{
        .slots = 1,
        .tokens = config.cache_tokens,
        .longest = most_tokens(model_->model(), int64_t(from.tokens.size()), config, "the prompt"),
        .cache = config.cache_type(),
        .use_cache = config.use_cache,
        .prefill_tokens = config.prefill_tokens};
    loop_ = std::make_unique<DecodeLoop>(model_->model(), budget);
    DecodeRequest request = text_request(
        model_->tokenizer(), std::move(from.tokens), from.first, config,
        [this](std::string_view piece) {
          pieces_.push_back({std::string(piece), std::exchange(tokens_, {})});
          return true;
        },
        [this](Generation&& result) {
          if (!tokens_.empty()) pieces_.push_back({"", std::exchange(tokens_, {})});
          result_ = std::move(result);
        });
    request.on_token = [this, inner = std::move(request.on_token)](int32_t token) {
      tokens_.push_back(token);
      return inner(token);
    };
    request.steps = how_->steps_of(model_->tokenizer(), from.first);
    if (how_->adapter) request.adapter = &how_->adapter->updates();
    request.drafter = how_->drafting.drafter.get();
    request.draft_tokens = how_->draft_tokens;
    request.name = "the prompt";
    loop_->submit(std::move(request));
  }

  Piece next() {
    model_->alone([&] {
      while (pieces_.empty() && !result_) {
        if (stop_signal())
          loop_->interrupt();
        else
          loop_->step();
      }
      return true;
    });
    if (pieces_.empty()) {
      if (result_->error) std::rethrow_exception(result_->error);
      throw py::stop_iteration();
    }
    Piece out = std::move(pieces_.front());
    pieces_.pop_front();
    return out;
  }
  void close() {
    model_->alone([&] {
      if (!result_) loop_->interrupt();
      return true;
    });
    pieces_.clear();
  }
  const std::optional<Generation>& result() const { return result_; }

 private:
  std::shared_ptr<const PyModel> model_;
  std::unique_ptr<Choosing> how_;
  std::unique_ptr<DecodeLoop> loop_;
  std::deque<Piece> pieces_;
  std::vector<int32_t> tokens_;  // since the last piece
  std::optional<Generation> result_;
};

}  // namespace

void add_generation(py::module_& module, ModelClass& model) {
  py::class_<Generation>(module, "Generation", "What a prompt was continued with.")
      .def_property_readonly(
          "text", [](const Generation& g) { return text_of(g.text); }, "Without the prompt.")
      .def_readonly("tokens", &Generation::tokens, "Ids of the text, without the one that ended it.")
      .def_property_readonly(
          "finish", [](const Generation& g) { return to_string(g.finish); },
          "Why it ended: end, length, positions, stop, early_stop, cancelled.")
      .def_readonly("prompt_tokens", &Generation::prompt_tokens, "Tokens of the prompt.")
      .def("__str__", [](const Generation& g) { return text_of(g.text); })
      .def("__repr__", [](const Generation& g) {
        return "Generation(text=" + std::string(py::repr(text_of(g.text))) + ", finish='" + to_string(g.finish) + "')";
      });
  py::class_<Piece>(module, "Piece", "A piece of a stream: text, whole characters only, and the ids that it came with.")
      .def_property_readonly(
          "text", [](const Piece& p) { return text_of(p.text); }, "May be empty at the end.")
      .def_readonly("tokens", &Piece::tokens, "Ids since the piece before.")
      .def("__str__", [](const Piece& p) { return text_of(p.text); })
      .def("__repr__", [](const Piece& p) { return "Piece(" + std::string(py::repr(text_of(p.text))) + ")"; });
  py::class_<Stream>(module, "Stream",
                     "An iterator over the pieces of a text that the model writes as they are asked for.")
      .def("__iter__", [](const py::object& self) { return self; })
      .def("__next__", &Stream::next)
      .def("close", &Stream::close, "Ends it: no more pieces come.")
      .def_property_readonly(
          "result", [](const Stream& s) { return s.result(); }, "The Generation, once it is done; None before.");
  model.def(
      "generate", generate, py::arg("prompts") = py::none(), py::kw_only(), py::arg("on_text") = py::none(),
      "Continues a text, or many, as `lithe generate` does. A str gives one Generation (with samples a list), a list\n"
      "of texts or of lists of ids a list, samples of a prompt one after another. Default: the recipe's prompt.\n\n"
      "on_text(i, piece): called with the text of prompt i as it comes; returning False ends that text.\n"
      "Settings: greedy, max_new_tokens, temperature, top_k, top_p, min_p, repetition_penalty, samples, stop, seed,\n"
      "batch_size, use_cache, cache_type, cache_tokens, prefill_tokens, add_bos_token, exit, early_stop,\n"
      "early_stop_margin, draft, draft_tokens, trees, datastore, knn_k, knn_weight, knn_temperature, knn_probes,\n"
      "knn_effort; adapter: the directory of one; grammar: a text in GBNF, or the path object of a file; json_schema:\n"
      "a dict, its JSON, or the path object of a file. What is not given has the value of section generate in the\n"
      "run's recipe.");
  model.def(
      "stream",
      [](const std::shared_ptr<PyModel>& self, const py::object& prompt, const py::kwargs& settings) {
        return std::make_unique<Stream>(self, prompt, settings);
      },
      py::arg("prompt") = py::none(),
      "Continues one text piece by piece: an iterator over Pieces. Settings as of generate(); the tokens are the "
      "same.");
}

}  // namespace lithe::python
