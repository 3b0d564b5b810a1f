#include "lithe/analyze/inspection_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "lithe/analyze/singular_values.h"
#include "lithe/report/page.h"
#include "lithe/report/part_statistics.h"

namespace lithe::analyze {
namespace {

using report::Cell;
using report::clean_text;
using report::HeatMap;
using report::LineChart;
using report::Page;
using report::Quantity;
using report::Series;
using report::Table;
using report::Tile;
using report::Tone;

constexpr const char* kMeanings[kIndicators] = {
    "0: every token looks at one token; 1: evenly at all it may see.",
    "0: weights are spread evenly; 1: each row is on one token.",
    "How much the heads' weights differ, on average over pairs of tokens.",
    "The share of attention that goes to the first token.",
    "The share of attention on the token itself.",
    "The share of attention on the token before.",
    "The share of attention two tokens back.",
    "The share of attention three tokens back.",
};

std::vector<int64_t> chosen(const std::vector<int64_t>& wanted, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), i) != wanted.end()) out.push_back(i);
  return out;
}

std::string layer_name(size_t i) { return "layer " + std::to_string(i + 1); }

std::vector<std::string> mixers_of(const ModelView& model) {
  std::vector<std::string> out;
  for (const LayerView& layer : model.layers)
    if (std::find(out.begin(), out.end(), layer.mixer) == out.end()) out.push_back(layer.mixer);
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// A curve over depth for each model; layers without maps leave a gap.
template <class Value>
LineChart depth_chart(const Inspection& inspection, const std::string& title, const std::string& detail, Value value) {
  LineChart chart;
  chart.title = title;
  chart.detail = detail;
  chart.x.label = "layer";
  chart.x.quantity = Quantity::count;
  chart.y.from_zero = true;
  chart.height = 240;
  for (const ModelView& model : inspection.models) {
    Series series;
    series.name = inspection.models.size() > 1 ? model.name : "";
    series.dots = true;
    for (size_t i = 0; i < model.layers.size(); ++i)
      series.x.push_back(double(i + 1)), series.y.push_back(value(model.layers[i]));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

void headline(Page& page, const Inspection& inspection) {
  std::vector<Tile> tiles;
  for (const ModelView& model : inspection.models)
    tiles.push_back({model.name, joined(mixers_of(model)),
                     cat(model.layers.size(), " layers, ", model.tokens.size(), " tokens", model.cut ? " (cut)" : "")});
  page.tiles(tiles);
  std::vector<std::string> without;
  for (const ModelView& model : inspection.models)
    for (size_t i = 0; i < model.layers.size(); ++i)
      if (!model.layers[i].maps.heads)
        without.push_back(cat(model.name, ", ", layer_name(i), ": ", model.layers[i].mixer));
  if (!without.empty()) page.notice(Tone::plain, "These layers have no map of tokens to tokens", without);
}

void curves(Page& page, const Inspection& inspection) {
  page.section("Indicators over depth");
  std::vector<Page::Figure> figures;
  for (size_t k = 0; k < kIndicators; ++k)
    figures.push_back(Page::half_figure(depth_chart(inspection, indicator_names()[k], kMeanings[k],
                                                    [&](const LayerView& l) { return l.numbers.normalised[k]; })));
  page.figures(figures);
}

void table_of_indicators(Page& page, const Inspection& inspection) {
  Table table;
  table.caption = "Indicators per layer";
  const bool several = inspection.models.size() > 1;
  if (several) table.columns.push_back({"Model"});
  table.columns.push_back({"Layer", true});
  const bool mixed = std::any_of(inspection.models.begin(), inspection.models.end(),
                                 [](const ModelView& model) { return mixers_of(model).size() > 1; });
  if (mixed) table.columns.push_back({"Mixer"});
  for (const char* name :
       {"Entropy", "Concentration", "Head diversity", "Sink", "Focus 0", "Focus 1", "Focus 2", "Focus 3"})
    table.columns.push_back({name, true});
  for (const ModelView& model : inspection.models)
    for (size_t i = 0; i < model.layers.size(); ++i) {
      std::vector<Cell> row;
      if (several) row.push_back(model.name);
      row.push_back(Cell::integer(int64_t(i) + 1));
      if (mixed) row.push_back(model.layers[i].mixer);
      for (const double value : model.layers[i].numbers.normalised)
        row.push_back(std::isnan(value) ? Cell("–") : Cell(value, Quantity::number, 3));
      table.rows.push_back(std::move(row));
    }
  page.table(table);
}

HeatMap map_picture(const ModelView& model, size_t layer, int64_t head, bool several) {
  const LayerView& view = model.layers[layer];
  HeatMap map;
  map.title = cat(several ? model.name + ", " : "", layer_name(layer), ", ",
                  head < 0 ? cat("mean of ", view.maps.heads, " heads") : cat("head ", head + 1));
  map.detail = view.mixer;
  map.rows = map.columns = model.tokens;
  map.values = view.map(head);
  map.root = true;
  return map;
}

void rollouts(Page& page, const Inspection& inspection) {
  std::vector<Page::Figure> figures;
  for (const ModelView& model : inspection.models) {
    if (!model.picture) continue;
    const PictureView& view = *model.picture;
    HeatMap map{.title = inspection.models.size() > 1 ? model.name : "Roll-out",
                .detail = view.reference,
                .row_name = "row",
                .column_name = "column"};
    for (int64_t i = 0; i < view.rows; ++i) map.rows.push_back(cat(i + 1));
    for (int64_t i = 0; i < view.columns; ++i) map.columns.push_back(cat(i + 1));
    map.values = view.weights;
    figures.push_back(Page::half_figure(map));
  }
  if (figures.empty()) return;
  page.section("Roll-out");
  page.paragraph(
      "What the prediction takes from each patch of the picture: the product of the layers' maps, each averaged over "
      "its "
      "heads and with the identity, for the way around the layer.");
  page.figures(figures);
}

void maps(Page& page, const Inspection& inspection, const Pictures& pictures) {
  page.section("Attention maps");
  page.paragraph(
      "Each row is a token and shows its weights for the tokens before it; rows sum to 1 where the mixer is a mean. "
      "Shades follow the square root of the weight.");
  size_t deepest = 0;
  for (const ModelView& model : inspection.models) deepest = std::max(deepest, model.layers.size());
  bool first = true;
  for (const int64_t layer : chosen(pictures.layers, int64_t(deepest))) {
    std::vector<Page::Figure> figures;
    const auto add = [&](const ModelView& model, int64_t head) {
      if (size_t(layer) < model.layers.size() && head < model.layers[size_t(layer)].maps.heads)
        figures.push_back(Page::half_figure(map_picture(model, size_t(layer), head, inspection.models.size() > 1)));
    };
    int64_t heads = 0;
    for (const ModelView& model : inspection.models)
      if (size_t(layer) < model.layers.size()) heads = std::max(heads, model.layers[size_t(layer)].maps.heads);
    const std::vector<int64_t> which = pictures.means ? std::vector<int64_t>{-1} : chosen(pictures.heads, heads);
    for (const int64_t head : which)
      for (const ModelView& model : inspection.models)
        if (size_t(layer) < model.layers.size() && model.layers[size_t(layer)].maps.heads) add(model, head);
    if (figures.empty()) continue;
    page.collapsible(
        "Layer " + std::to_string(layer + 1), [&] { page.figures(figures); }, first,
        cat(figures.size(), figures.size() == 1 ? " picture" : " pictures"));
    first = false;
  }
}

// Few enough curves to tell apart, from the first layer to the last.
std::vector<size_t> spread_layers(const ModelView& model) {
  constexpr size_t kCurves = 6;
  std::vector<size_t> with;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].has_logits) with.push_back(i);
  if (with.size() <= kCurves) return with;
  std::vector<size_t> out;
  for (size_t i = 0; i < kCurves; ++i) out.push_back(with[i * (with.size() - 1) / (kCurves - 1)]);
  return out;
}

LineChart logit_distribution(const Inspection& inspection, const ModelView& model) {
  LineChart chart;
  chart.title = inspection.models.size() > 1 ? model.name + ", distribution" : "Distribution";
  chart.x.label = "logit";
  chart.y.label = "share of pairs";
  chart.y.from_zero = true;
  chart.height = 280;
  const double width = (inspection.logit_high - inspection.logit_low) / Inspection::kBins;
  for (const size_t i : spread_layers(model)) {
    const LogitSummary& logits = model.layers[i].logits;
    Series series;
    series.name = layer_name(i);
    series.label_last = false;
    for (size_t bin = 0; bin < logits.counts.size(); ++bin) {
      series.x.push_back(inspection.logit_low + (double(bin) + 0.5) * width);
      series.y.push_back(double(logits.counts[bin]) / double(logits.pairs));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

LineChart logit_quantiles(const Inspection& inspection, const ModelView& model) {
  LineChart chart;
  chart.title = inspection.models.size() > 1 ? model.name + ", over depth" : "Over depth";
  chart.x.label = "layer";
  chart.x.quantity = Quantity::count;
  chart.y.label = "logit";
  chart.height = 280;
  for (const auto& [name, at] : {std::pair{"highest", 6}, {"99 %", 5}, {"middle", 3}, {"1 %", 1}, {"lowest", 0}}) {
    Series series;
    series.name = name;
    series.dots = true;
    for (size_t i = 0; i < model.layers.size(); ++i)
      if (model.layers[i].has_logits)
        series.x.push_back(double(i + 1)), series.y.push_back(model.layers[i].logits.quantiles[size_t(at)]);
    chart.series.push_back(std::move(series));
  }
  return chart;
}

void logits(Page& page, const Inspection& inspection) {
  page.section("Logits before the softmax");
  std::vector<Page::Figure> figures;
  for (const ModelView& model : inspection.models) {
    if (std::none_of(model.layers.begin(), model.layers.end(), [](const LayerView& l) { return l.has_logits; }))
      continue;
    figures.push_back(Page::half_figure(logit_quantiles(inspection, model)));
    figures.push_back(Page::half_figure(logit_distribution(inspection, model)));
  }
  if (figures.empty()) {
    page.paragraph("No layer has a softmax.");
    return;
  }
  page.paragraph(
      "Scaled, all heads together, over the pairs of tokens that may meet. The distributions leave out what lies "
      "beyond the "
      "1 % and 99 % quantiles of all layers.");
  page.figures(figures);
}

void inside_parts(Page& page, const Inspection& inspection) {
  for (const ModelView& model : inspection.models) {
    if (model.statistics.empty()) continue;
    std::vector<report::PartStatistic> all;
    for (const auto& [key, statistic] : model.statistics)
      all.push_back({.name = key.first, .layer = key.second + 1, .step = {0}, .values = {statistic.means()}});
    page.section(cat("Inside the parts", inspection.models.size() > 1 ? " of " + model.name : ""));
    report::part_values(page, all);
  }
}

std::string text_of(const ModelView& model) {
  std::string out;
  for (const std::string& token : model.tokens) out += token;
  return out;
}

}  // namespace

std::string inspection_page(const Inspection& inspection, const Pictures& pictures) {
  std::vector<std::string> names;
  for (const ModelView& model : inspection.models) names.push_back(model.name);
  Page page(names.size() == 1 ? "Attention of " + names[0] : "Attention side by side",
            names.size() == 1 ? "" : joined(names), "lithe inspect");
  headline(page, inspection);
  page.preformatted(text_of(inspection.models[0]), "Text");
  curves(page, inspection);
  table_of_indicators(page, inspection);
  rollouts(page, inspection);
  maps(page, inspection, pictures);
  logits(page, inspection);
  inside_parts(page, inspection);
  return page.html();
}

namespace {

// The rank that the map of each head needs; empty where there are no maps, or long ones.
MapRanks ranks_of(const LayerView& layer) {
  if (layer.maps.heads == 0) return {};
  const int64_t length = layer.maps.weights.cols();
  return map_ranks({layer.maps.heads, length, {layer.maps.weights.data<float>(), size_t(layer.maps.weights.numel())}});
}

// The mean, to a tenth.
double mean_of(const std::vector<int64_t>& of) {
  return std::round(10 * std::accumulate(of.begin(), of.end(), 0.0) / double(of.size())) / 10;
}

}  // namespace

std::string inspection_table(const Inspection& inspection) {
  std::string out;
  char text[320];
  for (const ModelView& model : inspection.models) {
    out += cat(model.name, ": ", model.tokens.size(), " tokens", model.cut ? " (the text was cut)" : "", "\n");
    std::snprintf(text, sizeof text, "%5s  %-18s %8s %8s %8s %8s %8s %8s %8s %8s %9s  %s\n", "layer", "mixer",
                  "entropy", "concentr", "headdiv", "sink", "focus 0", "focus 1", "focus 2", "focus 3", "rank90/99",
                  "logits low/mid/high");
    out += text;
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const LayerView& layer = model.layers[i];
      std::snprintf(text, sizeof text, "%5zu  %-18s", i + 1, layer.mixer.c_str());
      out += text;
      for (const double value : layer.numbers.normalised) {
        std::snprintf(text, sizeof text, " %8.4f", value);
        out += std::isnan(value) ? "        -" : text;
      }
      const MapRanks ranks = ranks_of(layer);
      std::snprintf(text, sizeof text, " %9s",
                    ranks.most.empty() ? "-" : cat(mean_of(ranks.most), "/", mean_of(ranks.nearly_all)).c_str());
      out += text;
      const auto& q = layer.logits.quantiles;
      std::snprintf(text, sizeof text, "  %.3g / %.3g / %.3g", q[0], q[3], q[6]);
      out += (layer.has_logits ? std::string(text) : std::string("  -")) + "\n";
    }
    for (const auto& [key, statistic] : model.statistics) {
      out += cat(key.first, ", layer ", key.second + 1, ":");
      for (const double value : statistic.means()) out += " " + report::format_number(value);
      out += "\n";
    }
    out += "\n";
  }
  return out;
}

Json inspection_json(const Inspection& inspection, const Pictures& pictures, bool maps) {
  Json out = {{"models", Json::array()}};
  for (const ModelView& model : inspection.models) {
    Json one = {{"model", model.name}, {"tokens", Json::array()}, {"cut", model.cut}, {"layers", Json::array()}};
    for (const std::string& token : model.tokens) one["tokens"].push_back(clean_text(token));
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const LayerView& layer = model.layers[i];
      Json row = {{"layer", i + 1}, {"mixer", layer.mixer}, {"heads", layer.maps.heads}};
      for (size_t k = 0; k < kIndicators; ++k)
        row["indicators"][indicator_keys()[k]] = finite_or_null(layer.numbers.raw[k]);
      if (const MapRanks ranks = ranks_of(layer); !ranks.most.empty())
        row["rank"] = {{"of_90_percent", ranks.most}, {"of_99_percent", ranks.nearly_all}};
      row["normalised"] = {{"entropy", finite_or_null(layer.numbers.normalised[0])},
                           {"concentration", finite_or_null(layer.numbers.normalised[1])}};
      if (layer.has_logits)
        row["logits"] = {{"mean", layer.logits.mean},
                         {"deviation", layer.logits.deviation},
                         {"pairs", layer.logits.pairs},
                         {"quantiles", layer.logits.quantiles},
                         {"counts", layer.logits.counts}};
      const std::vector<int64_t> drawn = chosen(pictures.layers, int64_t(model.layers.size()));
      if (maps && std::count(drawn.begin(), drawn.end(), int64_t(i)))
        for (const int64_t head : chosen(pictures.heads, layer.maps.heads))
          row["maps"].push_back({{"head", head + 1}, {"weights", layer.map(head)}});
      one["layers"].push_back(std::move(row));
    }
    if (model.picture)
      one["rollout"] = {{"image", model.picture->reference},
                        {"rows", model.picture->rows},
                        {"columns", model.picture->columns},
                        {"weights", model.picture->weights}};
    for (const auto& [key, statistic] : model.statistics)
      one["statistics"][key.first][cat(key.second + 1)] = statistic.means();
    out["models"].push_back(std::move(one));
  }
  out["logit_bins"] = {{"low", finite_or_null(inspection.logit_low)}, {"high", finite_or_null(inspection.logit_high)}};
  out["quantiles"] = LogitSummary::kQuantiles;
  return out;
}

}  // namespace lithe::analyze
