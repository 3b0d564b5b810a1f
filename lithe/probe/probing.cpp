#include "lithe/probe/probing.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lithe/base/log.h"
#include "lithe/compare/statistics.h"
#include "lithe/eval/task_metrics.h"
#include "lithe/probe/control.h"

namespace lithe::probe {
namespace {

// A model with its rows.
struct Source {
  std::string name;  // trained, random weights
  Probed model = {};
  RowOptions rows;
  WordRows train, test;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Scores scores_of(const Task& task, const Outcome& outcome, const std::vector<Instance>& test) {
  if (task.regression) {
    std::vector<double> truth;
    for (const Instance& i : test) truth.push_back(i.value);
    double mean = 0, spread = 0;
    for (const double x : truth) mean += x / double(truth.size());
    for (const double x : truth) spread += (x - mean) * (x - mean) / double(truth.size());
    const double error = mean_squared_error(truth, outcome.values);
    return {{"mse", error},
            {"r2", spread > 0 ? 1 - error / spread : std::nan("")},
            {"spearman", spearman(truth, outcome.values)}};
  }
  if (!outcome.chosen.empty()) {
    int64_t right = 0, predicted = 0, gold = 0, exact = 0;
    for (size_t i = 0; i < test.size(); ++i) {
      std::vector<int32_t> labels = test[i].labels;
      std::sort(labels.begin(), labels.end());
      exact += labels == outcome.chosen[i];
      gold += int64_t(labels.size()), predicted += int64_t(outcome.chosen[i].size());
      for (const int32_t label : outcome.chosen[i]) right += std::binary_search(labels.begin(), labels.end(), label);
    }
    return {{"micro_f1", predicted + gold ? 2 * double(right) / double(predicted + gold) : 0},
            {"accuracy", double(exact) / double(test.size())}};
  }
  // Labels that training did not have are a class of their own that nobody predicts.
  std::vector<int32_t> truth;
  for (const Instance& i : test) truth.push_back(i.labels[0] < 0 ? int32_t(task.labels.size()) : i.labels[0]);
  return {{"accuracy", accuracy(truth, outcome.classes)}, {"macro_f1", macro_f1(truth, outcome.classes)}};
}

void add(Curve& curve, size_t column, size_t columns, const Scores& scores) {
  for (const auto& [name, value] : scores) {
    std::vector<Measured>& of = curve.scores[name];
    of.resize(columns);
    of[column].values.push_back(value);
  }
}

class Prober {
 public:
  Prober(const LoadedModel& loaded, const std::string& name, const ProbingOptions& options)
      : options_(options), trained_(probed(loaded)) {
    result_.model = name;
    result_.seeds = options.seeds;
    result_.pieces = options.rows.pieces;
    result_.width = trained_.model->config().hidden_size;
    const int64_t layers = trained_.layers();
    for (int64_t l = 0; l <= layers; ++l)
      if (options.layers.empty() || std::find(options.layers.begin(), options.layers.end(), l) != options.layers.end())
        columns_.push_back({l});
    for (const int64_t l : options.layers)
      check_usage(l >= 0 && l <= layers, "probe", "there is no layer ", l, ": 0 are the embeddings, and the last is ",
                  layers);
    for (const Layers& of : columns_) result_.columns.push_back(cat(of[0]));
    if (options.mixture) {
      Layers all;
      for (int64_t l = 0; l <= layers; ++l) all.push_back(l);
      columns_.push_back(all);
      result_.columns.push_back("mixture");
    }
    for (int64_t r = 0; options.random_weights && r < options.random_models; ++r) {
      ModelOptions fresh;
      fresh.seed = options.random_seed + uint64_t(r);
      fresh.compute = trained_.model->compute_dtype();
      fresh.dtype = wide_of(fresh.compute);
      random_.push_back(std::make_unique<Model>(trained_.model->config(), fresh));
    }
    result_.random_models = int64_t(random_.size());
  }

  ProbingResult run() {
    for (const std::string& task : options_.tasks)
      if (task == "cloze") cloze();
    if (std::any_of(options_.tasks.begin(), options_.tasks.end(), [](const std::string& t) { return t != "cloze"; })) {
      load();
      for (const std::string& task : options_.tasks)
        if (task == "distance" || task == "depth")
          structural(task == "depth");
        else if (task == "heads")
          heads();
        else if (task != "cloze")
          labelled(task);
      combine_structural();
      draw();
    }
    return std::move(result_);
  }

 private:
  const ProbingOptions& options_;
  Probed trained_;
  std::vector<std::unique_ptr<Model>> random_;
  ProbingResult result_;
  std::vector<Layers> columns_;
  Corpus train_, test_;
  std::vector<Source> sources_;
  std::vector<std::vector<size_t>>
      groups_;  // of sources that curves are of: the trained one, those with random weights
  std::vector<GoldTree> train_gold_, test_gold_;
  // By (group, column, run): the trees and the depths that probes give the test sentences.
  using Place = std::tuple<size_t, size_t, int64_t>;
  std::map<Place, std::vector<std::vector<TreeEdge>>> trees_;
  std::map<Place, std::vector<std::vector<double>>> depths_;

  Symmetry symmetry() const {
    if (options_.symmetry.empty()) return trained_.causal() ? Symmetry::max : Symmetry::mean;
    return options_.symmetry == "max" ? Symmetry::max : options_.symmetry == "min" ? Symmetry::min : Symmetry::mean;
  }

  void keep_fitting(Corpus& corpus) {
    const std::vector<bool> fits = fitting(trained_, corpus.texts(), options_.rows.max_tokens);
    Corpus kept{.file = corpus.file, .left_out = corpus.left_out, .has_spans = corpus.has_spans};
    for (size_t s = 0; s < corpus.sentences.size(); ++s) {
      if (!fits[s]) {
        ++kept.left_out;
        continue;
      }
      kept.sentences.push_back(std::move(corpus.sentences[s]));
      if (corpus.has_spans) kept.spans.push_back(std::move(corpus.spans[s]));
    }
    check_usage(!kept.sentences.empty(), "probe", "no sentence of '", corpus.file,
                "' fits the model: words without a token, or more than ", options_.rows.max_tokens, " tokens");
    corpus = std::move(kept);
  }

  void load() {
    check_usage(!options_.train.empty() && !options_.test.empty(), "probe",
                "these tasks need sentences to learn from and others to test on: give --train and --test");
    train_ = read_corpus(options_.train, options_.train_sentences);
    test_ = read_corpus(options_.test, options_.test_sentences);
    keep_fitting(train_);
    keep_fitting(test_);
    result_.train = train_.file, result_.test = test_.file;
    result_.train_sentences = int64_t(train_.sentences.size());
    result_.test_sentences = int64_t(test_.sentences.size());
    result_.left_out = train_.left_out + test_.left_out;
    sources_.push_back({"trained", trained_, options_.rows, {}, {}});
    groups_.push_back({0});
    for (size_t r = 0; r < random_.size(); ++r) {
      RowOptions rows = options_.rows;
      const uint64_t random[] = {options_.random_seed + r, rows.fingerprint};
      rows.fingerprint = checksum(random, sizeof random, 1);
      if (r == 0) groups_.emplace_back();
      groups_.back().push_back(sources_.size());
      sources_.push_back({"random weights", {random_[r].get(), trained_.tokenizer}, rows, {}, {}});
    }
  }
  // Predictors of a group: every seed of them and every model of it, as long as both last.
  int64_t runs(size_t group) const { return std::max(options_.seeds, int64_t(groups_[group].size())); }
  size_t source_of(size_t group, int64_t run) const { return groups_[group][size_t(run) % groups_[group].size()]; }
  uint64_t seed_of(int64_t run) const { return uint64_t(1 + run % options_.seeds); }

  const WordRows& rows_of(Source& source, bool test) {
    WordRows& rows = test ? source.test : source.train;
    if (rows.layers() == 0) {
      const Corpus& corpus = test ? test_ : train_;
      log_info("probe: rows of ", source.name, ", ", corpus.sentences.size(), " sentences");
      rows = word_rows(source.model, corpus.texts(), source.rows);
    }
    return rows;
  }

  void labelled(const std::string& name) {
    const Task task = make_task(name, train_, test_, options_.task);
    TaskResult out{.name = name,
                   .title = task.title,
                   .train = int64_t(task.train.size()),
                   .test = int64_t(task.test.size()),
                   .labels = int64_t(task.labels.size()),
                   .unknown = task.unknown};
    PredictorConfig usual = options_.predictor;
    usual.sigmoid = usual.sigmoid || task.several_labels;
    out.score = task.regression ? "mse" : usual.sigmoid ? "micro_f1" : "accuracy";
    out.lower_is_better = task.regression;
    for (const TaskBaselineScore& b : trivial_scores(task))
      out.baselines.push_back({b.name, {{task.regression ? "mse" : "accuracy", b.value}}});
    const auto classes = int64_t(task.labels.size());
    const bool typed = !task.regression && !usual.sigmoid && !task.train[0].type.empty();
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<std::pair<WordRows, WordRows>> of_swapped(groups_[g].size());
      std::vector<Dataset> trains, tests;
      for (size_t i = 0; i < groups_[g].size(); ++i) {
        Source& source = sources_[groups_[g][i]];
        auto& [train, test] = of_swapped[i];
        if (task.swapped) {
          train = word_rows(source.model, swapped(train_, draw_swaps(train_, options_.task.seed)), source.rows);
          test = word_rows(source.model, swapped(test_, draw_swaps(test_, options_.task.seed)), source.rows);
        }
        trains.push_back({task.swapped ? &train : &rows_of(source, false), task.train});
        tests.push_back({task.swapped ? &test : &rows_of(source, true), task.test});
      }
      const std::string& model = sources_[groups_[g][0]].name;
      for (const std::string& kind : options_.predictors)
        for (const bool control : {false, true}) {
          if (control && !(options_.control && typed && g == 0)) continue;
          log_debug("probe: ", name, ", ", model, ", ", kind, control ? ", control labels" : "");
          Curve curve{.model = model, .predictor = kind, .labels = control ? "control" : "task"};
          for (size_t c = 0; c < columns_.size(); ++c)
            for (int64_t run = 0; run < runs(g); ++run) {
              const size_t of = size_t(run) % trains.size();
              const Dataset &train = trains[of], &test = tests[of];
              PredictorConfig config = usual;
              config.kind = kind, config.seed = seed_of(run);
              const Dataset from = control ? with_control_labels(train, train, classes, config.seed) : train,
                            on = control ? with_control_labels(test, train, classes, config.seed) : test;
              const Predictor predictor(config, from, classes, columns_[c]);
              Scores scores = scores_of(task, predictor.predict(on), on.instances);
              if (columns_[c].size() == 1) curve.parameters = predictor.parameters();
              if (columns_[c].size() > 1) curve.mixtures.push_back(predictor.mixture());
              if (options_.description_length && !control && !task.regression && !usual.sigmoid) {
                const DescriptionLength length = description_length(config, from, classes, columns_[c]);
                scores["bits"] = length.bits;
                scores["compression"] = length.compression();
              }
              add(curve, c, columns_.size(), scores);
            }
          out.curves.push_back(std::move(curve));
        }
    }
    add_selectivity(out);
    result_.tasks.push_back(std::move(out));
  }

  // Accuracy on the task minus that on control labels, seed by seed.
  static void add_selectivity(TaskResult& out) {
    for (Curve& task : out.curves) {
      if (task.labels != "task") continue;
      for (const Curve& control : out.curves) {
        if (control.labels != "control" || control.model != task.model || control.predictor != task.predictor) continue;
        const std::vector<Measured>&a = task.scores.at("accuracy"), &b = control.scores.at("accuracy");
        std::vector<Measured>& selectivity = task.scores["selectivity"];
        selectivity.resize(a.size());
        for (size_t c = 0; c < a.size(); ++c)
          for (size_t s = 0; s < a[c].values.size(); ++s)
            selectivity[c].values.push_back(a[c].values[s] - b[c].values[s]);
      }
    }
  }

  void need_gold() {
    if (!train_gold_.empty()) return;
    train_gold_ = gold_trees(train_.sentences, train_.file);
    test_gold_ = gold_trees(test_.sentences, test_.file);
  }

  void structural(bool depth) {
    need_gold();
    TaskResult out{
        .name = depth ? "depth" : "distance",
        .title = depth ? "how deep a word stands in its tree" : "how far two words are from each other in their tree",
        .score = depth ? "spearman" : "uuas",
        .train = int64_t(train_gold_.size()),
        .test = int64_t(test_gold_.size())};
    if (!depth)
      for (const auto& [name, scores] : trivial_trees(test_gold_, options_.task.seed))
        out.baselines.push_back({name, scores});
    for (size_t g = 0; g < groups_.size(); ++g) {
      const std::string& name = sources_[groups_[g][0]].name;
      log_debug("probe: ", out.name, ", ", name);
      Curve curve{.model = name, .predictor = "structural", .labels = "task"};
      for (size_t c = 0; c < columns_.size(); ++c)
        for (int64_t run = 0; run < runs(g); ++run) {
          Source& source = sources_[source_of(g, run)];
          StructuralConfig config = options_.structural;
          config.depth = depth, config.seed = seed_of(run);
          const StructuralProbe probe(config, rows_of(source, false), train_gold_, columns_[c]);
          std::vector<std::vector<double>> said;
          for (const GoldTree& gold : test_gold_)
            said.push_back(probe.predict(rows_of(source, true), gold.first, gold.words()));
          add(curve, c, columns_.size(), depth ? depth_scores(test_gold_, said) : distance_scores(test_gold_, said));
          if (columns_[c].size() > 1) curve.mixtures.push_back(probe.mixture());
          if (depth)
            depths_[{g, c, run}] = std::move(said);
          else
            trees_[{g, c, run}] = trees_of(test_gold_, said);
        }
      curve.parameters = result_.width * (options_.structural.rank ? options_.structural.rank : result_.width);
      out.curves.push_back(std::move(curve));
    }
    result_.tasks.push_back(std::move(out));
  }

  // Heads from distances and depths, where both were probed.
  void combine_structural() {
    if (trees_.empty() || depths_.empty()) return;
    for (TaskResult& task : result_.tasks) {
      if (task.name != "depth") continue;
      for (size_t g = 0; g < groups_.size(); ++g)
        for (size_t c = 0; c < columns_.size(); ++c)
          for (int64_t run = 0; run < runs(g); ++run)
            add(task.curves[g], c, columns_.size(),
                {{"uas", head_score(test_gold_, trees_.at({g, c, run}), depths_.at({g, c, run}))}});
    }
  }

  void heads() {
    need_gold();
    const size_t chosen_on = std::min(train_.sentences.size(), size_t(options_.select_sentences));
    const std::vector<TreeSentence> select(train_.sentences.begin(), train_.sentences.begin() + int64_t(chosen_on));
    const std::vector<GoldTree> select_gold(train_gold_.begin(), train_gold_.begin() + int64_t(chosen_on));
    HeadsResult out{.chosen_on = int64_t(chosen_on)};
    std::vector<HeadTable> chosen, test;
    for (const Source& source : sources_) {
      log_info("probe: heads, ", source.name);
      chosen.push_back(count_heads(source.model, select, select_gold, symmetry()));
      test.push_back(count_heads(source.model, test_.sentences, test_gold_, symmetry()));
    }
    out.trivial = trivial_trees(test_gold_, options_.task.seed);
    // The best on the sentences that choose, and what it scores on the test.
    const auto best = [&](HeadsResult::Best row, const std::function<double(const HeadCounts&)>& score) {
      row.head = best_head(chosen[0], score);
      row.chosen = score(chosen[0].at(row.head));
      row.test = score(test[0].at(row.head));
      for (size_t s = 1; s < chosen.size(); ++s)
        row.random_weights.values.push_back(score(test[s].at(best_head(chosen[s], score))));
      out.best.push_back(std::move(row));
    };
    best({.score = "uuas", .baseline = out.trivial.at("chain").at("uuas"), .baseline_name = "chain"},
         [](const HeadCounts& h) { return h.uuas(); });
    best({.score = "uuas_no_punctuation",
          .baseline = out.trivial.at("chain").at("uuas_no_punctuation"),
          .baseline_name = "chain"},
         [](const HeadCounts& h) { return h.counted.uuas(); });
    for (const bool to : {true, false})
      best({.score = "uas", .detail = to ? "words attend to their heads" : "heads attend to their words"},
           [to](const HeadCounts& h) { return h.uas(to); });
    const std::map<std::string, FixedOffset> offsets = fixed_offsets(select, test_.sentences);
    for (const auto& [relation, offset] : offsets) {
      const auto& seen = test[0].begin()->second.relations;
      const auto found = seen.find(relation);
      if (found == seen.end()) continue;
      const auto share = [name = relation](const HeadCounts& h, bool to) {
        const auto of = h.relations.find(name);
        return of == h.relations.end() || !of->second.words
                   ? 0
                   : double(to ? of->second.to_head : of->second.from_head) / double(of->second.words);
      };
      const auto to_score = [&](const HeadCounts& h) { return share(h, true); };
      const auto from_score = [&](const HeadCounts& h) { return share(h, false); };
      const bool to = to_score(chosen[0].at(best_head(chosen[0], to_score))) >=
                      from_score(chosen[0].at(best_head(chosen[0], from_score)));
      best({.score = relation,
            .detail = to ? "words attend to their heads" : "heads attend to their words",
            .baseline = offset.test,
            .baseline_name = cat("offset ", offset.offset),
            .words = found->second.words},
           [&, to](const HeadCounts& h) { return share(h, to); });
    }
    out.test = test[0];
    result_.heads = std::move(out);
  }

  void cloze() {
    check_usage(!options_.facts.empty(), "probe", "task cloze needs facts: give --facts, a file of JSON lines");
    const std::vector<Fact> facts = read_facts(options_.facts);
    log_info("probe: cloze, ", facts.size(), " facts");
    result_.cloze = probe_cloze(trained_, facts, options_.cloze);
    result_.cloze_frequent = frequent_answers(facts);
    for (const auto& model : random_)
      result_.cloze_random.push_back(probe_cloze({model.get(), trained_.tokenizer}, facts, options_.cloze));
  }

  // Trees of some short sentences: by the distance probe of the best layer, and by the best head.
  void draw() {
    if (test_gold_.empty()) return;
    int64_t column = -1;
    for (const TaskResult& task : result_.tasks)
      if (task.name == "distance") column = best_column(task, task.curves[0], result_.columns);
    for (size_t s = 0; s < test_gold_.size() && int64_t(result_.drawn.size()) < options_.drawn; ++s) {
      const int64_t m = test_gold_[s].words();
      if (m < 6 || m > 14) continue;
      DrawnTree tree{.words = test_.sentences[s].words, .gold = test_gold_[s].edges};
      if (column >= 0)
        tree.predicted.emplace_back("distance probe of layer " + result_.columns[size_t(column)],
                                    trees_.at({0, size_t(column), 0})[s]);
      if (result_.heads) {
        const auto [layer, head] = result_.heads->best[0].head;
        const WordMaps maps = word_maps(trained_, sentence_of(test_.sentences[s]));
        tree.predicted.emplace_back(
            cat("head ", head + 1, " of layer ", layer + 1),
            minimum_spanning_tree(attention_distances(maps.layers[size_t(layer)].head(head, m), m, symmetry()), m));
      }
      if (!tree.predicted.empty()) result_.drawn.push_back(std::move(tree));
    }
  }
};

}  // namespace

double Measured::mean() const { return values.empty() ? std::nan("") : compare::mean(values); }
double Measured::deviation() const { return compare::deviation(values); }

const std::vector<Measured>* Curve::of(const std::string& score) const {
  const auto found = scores.find(score);
  return found == scores.end() ? nullptr : &found->second;
}

int64_t best_column(const TaskResult& task, const Curve& curve, const std::vector<std::string>& columns) {
  int64_t best = -1;
  const std::vector<Measured>* scores = curve.of(task.score);
  for (size_t c = 0; scores && c < columns.size(); ++c) {
    const double value = (*scores)[c].mean();
    if (columns[c] == "mixture" || std::isnan(value)) continue;
    const double most = best < 0 ? 0 : (*scores)[size_t(best)].mean();
    if (best < 0 || (task.lower_is_better ? value < most : value > most)) best = int64_t(c);
  }
  return best;
}

ProbingResult run_probing(const LoadedModel& loaded, const std::string& name, const ProbingOptions& options) {
  check_usage(!options.tasks.empty(), "probe", "no task is given: name some with --task, for example distance,pos");
  check_usage(options.seeds > 0 && options.random_models > 0, "probe",
              "seeds and random models must be 1 or more, got ", options.seeds, " and ", options.random_models);
  for (const std::string& task : options.tasks) check_task(task);
  for (const std::string& kind : options.predictors) {
    PredictorConfig config = options.predictor;
    config.kind = kind;
    pooling_of(config);  // refuses what does not fit
  }
  check_usage(options.symmetry.empty() || contains({"mean", "max", "min"}, options.symmetry), "probe",
              "maps become symmetric by mean, max or min, got '", options.symmetry, "'");
  return Prober(loaded, name, options).run();
}

}  // namespace lithe::probe
