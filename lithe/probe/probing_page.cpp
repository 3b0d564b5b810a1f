// The results of probing as JSON, as a page and as a table.
#include <algorithm>
#include <cmath>

#include "lithe/base/counted.h"
#include "lithe/probe/probing.h"
#include "lithe/report/page.h"

namespace lithe::probe {
namespace {

using report::Cell;
using report::Column;
using report::Page;
using report::Quantity;
using report::Table;

std::string share(double value) {
  return std::isnan(value) ? "-" : report::format_number(std::round(value * 1e4) / 1e4, 4);
}

std::string measured(const Measured& m) {
  if (m.values.empty()) return "-";
  return m.values.size() > 1 ? cat(share(m.mean()), " ± ", share(m.deviation())) : share(m.mean());
}

std::string name_of(const Curve& curve) {
  return cat(curve.model == "trained" ? "" : curve.model + ", ", curve.predictor,
             curve.labels == "control" ? ", control labels" : "");
}

std::string head_name(const HeadName& head) {
  if (head.first < 0) return "mean of all";
  return head.second < 0 ? cat("layer ", head.first + 1, ", mean")
                         : cat("layer ", head.first + 1, ", head ", head.second + 1);
}

Json json_of(const Scores& scores) {
  Json out = Json::object();
  for (const auto& [name, value] : scores) out[name] = finite_or_null(value);
  return out;
}

Json json_of(const Measured& of) {
  Json values = Json::array();
  for (const double v : of.values) values.push_back(finite_or_null(v));
  return {{"mean", finite_or_null(of.mean())}, {"deviation", finite_or_null(of.deviation())}, {"values", values}};
}

Json json_of(const TaskResult& task, const std::vector<std::string>& columns) {
  Json out = {{"task", task.name},           {"title", task.title},
              {"score", task.score},         {"lower_is_better", task.lower_is_better},
              {"train", task.train},         {"test", task.test},
              {"labels", task.labels},       {"unknown_labels", task.unknown},
              {"baselines", Json::object()}, {"curves", Json::array()}};
  for (const auto& [name, scores] : task.baselines) out["baselines"][name] = json_of(scores);
  for (const Curve& curve : task.curves) {
    Json one = {{"model", curve.model},
                {"predictor", curve.predictor},
                {"labels", curve.labels},
                {"parameters", curve.parameters},
                {"layers", Json::array()}};
    for (size_t c = 0; c < columns.size(); ++c) {
      Json layer = {{"layer", columns[c]}};
      for (const auto& [score, of] : curve.scores) layer[score] = json_of(of[c]);
      one["layers"].push_back(std::move(layer));
    }
    if (!curve.mixtures.empty()) one["mixture_weights"] = curve.mixtures;
    out["curves"].push_back(std::move(one));
  }
  return out;
}

Json json_of(const HeadsResult& heads) {
  Json out = {{"chosen_on_sentences", heads.chosen_on},
              {"best", Json::array()},
              {"baselines", Json::object()},
              {"heads", Json::array()}};
  for (const HeadsResult::Best& b : heads.best) {
    Json row = {{"score", b.score},
                {"direction", b.detail},
                {"layer", b.head.first + 1},
                {"head", b.head.second + 1},
                {"chosen", b.chosen},
                {"test", b.test},
                {"random_weights", json_of(b.random_weights)}};
    if (!b.baseline_name.empty()) row["baseline"] = {{"name", b.baseline_name}, {"value", b.baseline}};
    if (b.words) row["words"] = b.words;
    out["best"].push_back(std::move(row));
  }
  for (const auto& [name, scores] : heads.trivial) out["baselines"][name] = json_of(scores);
  for (const auto& [name, h] : heads.test)
    out["heads"].push_back({{"layer", name.first < 0 ? Json("mean") : Json(name.first + 1)},
                            {"head", name.second < 0 ? Json("mean") : Json(name.second + 1)},
                            {"uuas", h.uuas()},
                            {"uuas_no_punctuation", h.counted.uuas()},
                            {"uas_to_head", h.uas(true)},
                            {"uas_from_head", h.uas(false)}});
  return out;
}

Json json_of(const ClozeResult& cloze) {
  return {{"facts", int64_t(cloze.answers.size())},
          {"passed_over", cloze.passed_over},
          {"candidates", cloze.candidates},
          {"p_at_1", finite_or_null(cloze.precision(1))},
          {"p_at_10", finite_or_null(cloze.precision(10))},
          {"p_at_100", finite_or_null(cloze.precision(100))},
          {"mrr", finite_or_null(cloze.mean_reciprocal_rank())}};
}

// P@1, P@10, P@100 and MRR of several models.
std::vector<Measured> cloze_scores(const std::vector<ClozeResult>& of) {
  std::vector<Measured> out(4);
  for (const ClozeResult& c : of) {
    out[0].values.push_back(c.precision(1)), out[1].values.push_back(c.precision(10));
    out[2].values.push_back(c.precision(100)), out[3].values.push_back(c.mean_reciprocal_rank());
  }
  return out;
}

void task_section(Page& page, const ProbingResult& result, const TaskResult& task) {
  page.section(task.name + ": " + task.title);
  report::LineChart chart{.title = task.score + " by layer",
                          .detail = "layer 0 are the embeddings; straight lines are what needs no model",
                          .x = {.label = "layer"},
                          .y = {.label = task.score}};
  const auto line = [&](const std::string& name, auto&& value) {
    report::Series series{.name = name, .dots = true};
    for (size_t c = 0; c < result.columns.size(); ++c)
      if (result.columns[c] != "mixture")
        series.x.push_back(std::stod(result.columns[c])), series.y.push_back(value(c));
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  };
  for (const Curve& curve : task.curves)
    if (const auto* of = curve.of(task.score)) line(name_of(curve), [&](size_t c) { return (*of)[c].mean(); });
  for (const auto& [name, scores] : task.baselines)
    if (const auto found = scores.find(task.score); found != scores.end())
      line(name, [&](size_t) { return found->second; });
  if (!chart.series.empty()) page.chart(chart);

  Table table{
      .caption = cat("Scores over ", counted(result.seeds, "seed"), " (mean ± deviation); ", task.train,
                     " to learn from, ", task.test, " to test on",
                     task.unknown ? cat(", of which ", task.unknown, " have labels that training does not have") : "")};
  table.columns = {{"Layer"}};
  for (const Curve& curve : task.curves)
    for (const auto& [score, of] : curve.scores)
      if (curve.labels == "task" || score == task.score) table.columns.push_back({name_of(curve) + ": " + score, true});
  for (size_t c = 0; c < result.columns.size(); ++c) {
    std::vector<Cell> row = {result.columns[c]};
    for (const Curve& curve : task.curves)
      for (const auto& [score, of] : curve.scores)
        if (curve.labels == "task" || score == task.score) row.emplace_back(measured(of[c]));
    table.rows.push_back(std::move(row));
  }
  page.table(table);
  if (task.baselines.empty()) return;
  Table trivial{.caption = "Without a model", .columns = {{"Method"}, {"Score"}, {"Value", true}}};
  for (const auto& [name, scores] : task.baselines)
    for (const auto& [score, value] : scores) trivial.rows.push_back({name, score, share(value)});
  page.table(trivial);
}

void heads_section(Page& page, const HeadsResult& heads) {
  page.section("heads: trees from attention");
  int64_t layers = 0, most = 0;
  for (const auto& [name, counts] : heads.test)
    layers = std::max(layers, name.first + 1), most = std::max(most, name.second + 1);
  report::HeatMap map{.title = "UUAS of single heads",
                      .detail = "spanning trees of their weights between words, on the test sentences",
                      .row_name = "layer",
                      .column_name = "head"};
  for (int64_t l = 0; l < layers; ++l) map.rows.push_back(cat(l + 1));
  for (int64_t h = 0; h < most; ++h) map.columns.push_back(cat(h + 1));
  for (int64_t l = 0; l < layers; ++l)
    for (int64_t h = 0; h < most; ++h) {
      const auto found = heads.test.find({l, h});
      map.values.push_back(found == heads.test.end() ? std::nan("") : found->second.uuas());
    }
  page.chart(map);
  Table table{.caption = cat("Best heads, chosen on ", heads.chosen_on, " training sentences"),
              .columns = {{"Score"},
                          {"Direction"},
                          {"Head"},
                          {"Chosen on", true},
                          {"Test", true},
                          {"Random weights", true},
                          {"Baseline"},
                          {"Value", true}}};
  for (const HeadsResult::Best& b : heads.best)
    table.rows.push_back({b.score, b.detail, head_name(b.head), share(b.chosen), share(b.test),
                          measured(b.random_weights), b.baseline_name,
                          b.baseline_name.empty() ? "-" : share(b.baseline)});
  page.table(table);
  Table trivial{.caption = "Trees without a model",
                .columns = {{"Tree"}, {"UUAS", true}, {"Without punctuation", true}}};
  for (const auto& [name, scores] : heads.trivial)
    trivial.rows.push_back({name, share(scores.at("uuas")), share(scores.at("uuas_no_punctuation"))});
  page.table(trivial);
}

}  // namespace

Json probing_json(const ProbingResult& result) {
  Json out = {{"model", result.model},
              {"train", result.train},
              {"test", result.test},
              {"pieces", result.pieces},
              {"width", result.width},
              {"seeds", result.seeds},
              {"random_models", result.random_models},
              {"train_sentences", result.train_sentences},
              {"test_sentences", result.test_sentences},
              {"left_out", result.left_out},
              {"tasks", Json::array()}};
  for (const TaskResult& task : result.tasks) out["tasks"].push_back(json_of(task, result.columns));
  if (result.heads) out["heads"] = json_of(*result.heads);
  if (result.cloze) {
    out["cloze"] = {{"trained", json_of(*result.cloze)}, {"frequent answers", json_of(*result.cloze_frequent)}};
    for (const ClozeResult& random : result.cloze_random) out["cloze"]["random weights"].push_back(json_of(random));
    for (const ClozeResult::Answer& a : result.cloze->answers)
      out["cloze"]["ranks"].push_back(
          {{"rank", a.rank}, {"best", a.best}, {"log_probability", finite_or_null(a.log_probability)}});
  }
  for (const DrawnTree& tree : result.drawn) {
    Json one = {{"words", tree.words}, {"gold", Json::array()}, {"predicted", Json::object()}};
    const auto edges = [](const std::vector<TreeEdge>& of) {
      Json list = Json::array();
      for (const TreeEdge& e : of) list.push_back({e.low + 1, e.high + 1});
      return list;
    };
    one["gold"] = edges(tree.gold);
    for (const auto& [name, of] : tree.predicted) one["predicted"][name] = edges(of);
    out["trees"].push_back(std::move(one));
  }
  return out;
}

std::string probing_page(const ProbingResult& result) {
  Page page("What " + result.model + " knows",
            cat(result.train.empty() ? ""
                                     : cat("learned on ", result.train_sentences, " sentences of ", result.train,
                                           ", tested on ", result.test_sentences, " of ", result.test, "; "),
                counted(result.seeds, "seed"),
                result.random_models ? cat(", ", counted(result.random_models, "model"), " with random weights") : "",
                "; a word's row is the ", result.pieces, " of its pieces' rows"),
            "lithe probe");
  std::vector<report::Tile> tiles;
  for (const TaskResult& task : result.tasks)
    if (const int64_t c = task.curves.empty() ? -1 : best_column(task, task.curves[0], result.columns); c >= 0)
      tiles.push_back({task.name, share((*task.curves[0].of(task.score))[size_t(c)].mean()),
                       cat(task.score, ", layer ", result.columns[size_t(c)])});
  if (result.heads && !result.heads->best.empty())
    tiles.push_back({"best head", share(result.heads->best[0].test), "UUAS, " + head_name(result.heads->best[0].head)});
  if (result.cloze) tiles.push_back({"cloze", share(result.cloze->precision(1)), "P@1"});
  page.tiles(tiles);
  if (result.left_out)
    page.notice(report::Tone::plain,
                cat(result.left_out,
                    " sentences were left out: their trees are none, words have no token, or they are too long"));
  for (const TaskResult& task : result.tasks) task_section(page, result, task);
  if (result.heads) heads_section(page, *result.heads);
  if (result.cloze) {
    page.section("cloze: facts in the place of a mask");
    Table table{.caption = cat(result.cloze->answers.size(), " facts, ",
                               report::format_number(result.cloze->candidates), " candidates on average; ",
                               result.cloze->passed_over, " passed over, whose answer is more than one token"),
                .columns = {{"Ranked by"}, {"P@1", true}, {"P@10", true}, {"P@100", true}, {"MRR", true}}};
    const auto row = [&](const std::string& name, const std::vector<ClozeResult>& of) {
      table.rows.push_back({name});
      for (const Measured& m : cloze_scores(of)) table.rows.back().emplace_back(measured(m));
    };
    row("the model", {*result.cloze});
    if (!result.cloze_random.empty()) row("random weights", result.cloze_random);
    row("how often they are answers of other facts", {*result.cloze_frequent});
    page.table(table);
  }
  if (!result.drawn.empty()) {
    page.section("Trees");
    page.paragraph(
        "Above the words the edges of the treebank, below those that were predicted; wrong ones are broken lines.");
    for (const DrawnTree& tree : result.drawn)
      for (const auto& [name, edges] : tree.predicted) {
        report::TreeChart chart{.title = name, .words = tree.words};
        for (const TreeEdge& e : tree.gold) chart.above.push_back({e.low, e.high, true});
        for (const TreeEdge& e : edges)
          chart.below.push_back({e.low, e.high, std::binary_search(tree.gold.begin(), tree.gold.end(), e)});
        page.chart(chart);
      }
  }
  return page.html();
}

std::string probing_table(const ProbingResult& result) {
  std::string out;
  const auto length = [](const std::string& text) { return size_t(report::code_points(text)); };  // not of bytes
  const auto pad = [&](const std::string& text, size_t width) {
    return text + std::string(width - std::min(width, length(text)), ' ');
  };
  for (const TaskResult& task : result.tasks) {
    out += cat(task.name, ", ", task.score, " (", task.train, " to learn from, ", task.test, " to test on)\n");
    std::vector<std::vector<std::string>> cells(1 + result.columns.size());
    cells[0].push_back("layer");
    for (size_t c = 0; c < result.columns.size(); ++c) cells[c + 1].push_back(result.columns[c]);
    for (const Curve& curve : task.curves) {
      const auto show = [&](const std::string& name, const std::vector<Measured>& of) {
        cells[0].push_back(name);
        for (size_t c = 0; c < result.columns.size(); ++c) cells[c + 1].push_back(measured(of[c]));
      };
      if (const auto* of = curve.of(task.score)) show(name_of(curve), *of);
      for (const char* more : {"uuas_no_punctuation", "spearman", "root", "uas", "r2", "selectivity", "compression"})
        if (const auto* of = curve.of(more); of && task.score != more && curve.labels == "task")
          show(name_of(curve) + ": " + more, *of);
    }
    std::vector<size_t> widths(cells[0].size(), 0);
    for (const auto& row : cells)
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], length(row[i]));
    for (const auto& row : cells) {
      for (size_t i = 0; i < row.size(); ++i) out += "  " + pad(row[i], widths[i]);
      while (out.back() == ' ') out.pop_back();
      out += "\n";
    }
    for (const auto& [name, scores] : task.baselines)
      for (const auto& [score, value] : scores) out += cat("  ", name, ": ", score, " ", share(value), "\n");
  }
  if (result.heads) {
    out += cat("heads, chosen on ", result.heads->chosen_on, " training sentences, scores on the test\n");
    for (const HeadsResult::Best& b : result.heads->best)
      out += cat("  ", pad(b.score, 20), " ", pad(head_name(b.head), 18), " ", share(b.test),
                 b.random_weights.values.empty() ? "" : cat("  random weights ", measured(b.random_weights)),
                 b.baseline_name.empty() ? "" : cat("  ", b.baseline_name, " ", share(b.baseline)),
                 b.detail.empty() ? "" : cat("  (", b.detail, ")"), "\n");
  }
  if (result.cloze) {
    const auto row = [&](const std::string& name, const std::vector<ClozeResult>& of) {
      const std::vector<Measured> scores = cloze_scores(of);
      out += cat("  ", pad(name, 18), " P@1 ", measured(scores[0]), "  P@10 ", measured(scores[1]), "  P@100 ",
                 measured(scores[2]), "  MRR ", measured(scores[3]), "\n");
    };
    out += cat("cloze, ", result.cloze->answers.size(), " facts, ", result.cloze->passed_over, " passed over\n");
    row("trained", {*result.cloze});
    if (!result.cloze_random.empty()) row("random weights", result.cloze_random);
    row("frequent answers", {*result.cloze_frequent});
  }
  return out;
}

}  // namespace lithe::probe
