#include "lithe/compare/result.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/json.h"
#include "lithe/compare/fronts.h"

namespace lithe::compare {
namespace {

Json to_json(const Estimate& e, double confidence) {
  const double half = e.half_width(confidence);
  return {{"value", e.value}, {"error", e.error}, {"df", e.df}, {"low", e.value - half}, {"high", e.value + half}};
}

Json to_json(const Outcome& o, const Path& root, const std::string& score) {
  Json json = {{"seed", o.seed},
               {"status", name_of(o.status)},
               {"directory", o.directory.lexically_relative(root).string()},
               {"steps", o.steps},
               {"tokens", o.tokens},
               {"seconds", o.seconds},
               {"planned_peak_bytes", o.planned_peak},
               {"measured_peak_bytes", o.measured_peak}};
  if (!o.message.empty()) json["message"] = o.message;
  if (!o.finished()) return json;
  json["loss"] = o.quality.loss();
  json["score"] = score_of(o, score);
  json["token_perplexity"] = o.quality.token_perplexity();
  if (!o.translations.empty()) {
    json["bleu"] = o.bleu;
    json["chrf"] = o.chrf;
    return json;
  }
  json["word_perplexity"] = o.quality.word_perplexity();
  json["bits_per_byte"] = o.quality.bits_per_byte();
  return json;
}

Json to_json(const ResampledMetric& m) {
  Json json = {{"score", m.score.score}, {"low", m.score.low}, {"high", m.score.high}};
  if (std::isnan(m.p)) return json;  // the baseline
  json["p"] = m.p;
  json["p_corrected"] = m.corrected;
  json["beyond_noise_of_the_text"] = m.beyond;
  return json;
}

Json changes_of(const Variant& v) {
  Json out = Json::array();
  for (const Change& c : v.changes)
    out.push_back(
        {{"key", c.key}, {"baseline", c.baseline}, {"value", c.own}, {"by", c.solved ? "budget" : "declared"}});
  return out;
}

Json spread(const Speed& speed, size_t v, const std::string& what, int64_t cell, double tokens) {
  const Speed::Spread s = speed.spread(v, what, cell);
  return {{"seconds", s.median},
          {"low_quartile", s.low},
          {"high_quartile", s.high},
          {"tokens_per_second", tokens / s.median}};
}

Json speed_of(const Comparison& c, size_t v) {
  const Speed& s = c.speed;
  Json json;
  const double batch = c.variants[v].variant.step_tokens;
  if (c.experiment.measure.train_steps) json["training_step"] = spread(s, v, "training", -1, batch);
  if (c.translates()) {
    json["translation"] = Json::array();
    for (size_t k = 0; k < s.searches.size(); ++k) {
      const double tokens = double(s.translated[v][k]);
      Json one = spread(s, v, "translation", int64_t(k), tokens);
      one["num_beams"] = s.searches[k];
      one["sentences"] = s.sentences;
      one["sentences_per_second"] = double(s.sentences) / one["seconds"].get<double>();
      one["tokens"] = tokens;
      json["translation"].push_back(std::move(one));
    }
    return json;
  }
  json["cells"] = Json::array();
  for (size_t k = 0; k < s.cells.size(); ++k) {
    const Cell& cell = s.cells[k];
    const CellCost& cost = s.costs[v][k];
    Json one = {{"prompt_length", cell.prompt}, {"batch_size", cell.batch}};
    if (!cost.refused.empty()) {
      one["refused"] = cost.refused;
    } else {
      one["prefill"] = spread(s, v, "prefill", int64_t(k), double(cell.prompt * cell.batch));
      one["decode_token"] = spread(s, v, "decode", int64_t(k), double(cell.batch));
      one["prefill_flops"] = cost.prefill_flops;
      one["decode_flops"] = cost.decode_flops;
      one["state_bytes"] = cost.state_bytes;
      one["peak_bytes"] = cost.peak_bytes;
    }
    json["cells"].push_back(std::move(one));
  }
  return json;
}

Json variant_of(const Comparison& c, size_t i, const Path& root) {
  const VariantResult& r = c.variants[i];
  const Variant& v = r.variant;
  Json json = {{"name", v.name},
               {"recipe", v.file.string()},
               {"changes", changes_of(v)},
               {"parameters", v.plan.parameters},
               {"mixer_parameters", r.mixer_parameters},
               {"shared_start", {{"scalars", r.start.shared}, {"of", r.start.all}}},
               {"steps", v.steps},
               {"tokens", v.tokens()},
               {"forward_flops", v.plan.forward.flops},
               {"step_flops", v.plan.step.flops},
               {"training_flops", v.training_flops()},
               {"planned_peak_bytes", v.plan.memory.peak},
               {"finished", r.finished()},
               {"diverged", r.diverged()},
               {"loss", r.loss},
               {"loss_deviation", r.loss_deviation},
               {"score", r.score},
               {"score_deviation", r.score_deviation},
               {"prr", r.prr},
               {"prr_deviation", r.prr_deviation},
               {"peop", r.peop},
               {"peop_mixer", r.peop_mixer},
               {"cache_bytes", r.cache_bytes}};
  if (c.translates()) {
    json["state_bytes_per_target_token"] = r.target_state;
    json["state_bytes_per_source_token"] = r.source_state;
  }
  if (r.translation) {
    json["bleu"] = to_json(r.translation->bleu);
    json["chrf"] = to_json(r.translation->chrf);
  }
  if (!v.share.key.empty()) json["solved"] = {{"key", v.share.key}, {"from", v.share.from}, {"to", v.share.to}};
  if (v.share.target > 0) json["budget"] = {{"amount", v.share.amount}, {"target", v.share.target}};
  json["runs"] = Json::array();
  for (const Outcome& o : r.runs) json["runs"].push_back(to_json(o, root, c.experiment.score));
  if (c.speed.measured()) json["speed"] = speed_of(c, i);
  return json;
}

}  // namespace

std::string to_json_text(const Comparison& c) {
  const Experiment& e = c.experiment;
  const Path root = c.variants.empty() || c.variants[0].runs.empty()
                        ? Path()
                        : c.variants[0].runs[0].directory.parent_path().parent_path().parent_path();
  Json json = {{"experiment", e.name},
               {"status", name_of(c.status)},
               {"baseline", c.name(c.baseline)},
               {"peop_baseline", c.name(c.peop_baseline)},
               {"winner", c.winner ? Json(c.name(*c.winner)) : Json()},
               {"findings", c.sentences},
               {"score", e.score},
               {"confidence", e.confidence},
               {"seeds", e.seeds},
               {"budget", {{"match", e.budget.match}, {"solve", e.budget.solve}, {"tolerance", e.budget.tolerance}}},
               {"held_out", c.held_out},
               {"data_fingerprint", cat(c.data)},
               {"cache_lengths", c.cache_lengths},
               {"environment", Json::object()},
               {"ranking", Json::array()},
               {"noisier", Json::array()},
               {"variants", Json::array()},
               {"loss_differences", Json::array()},
               {"speed_differences", Json::array()},
               {"crossovers", Json::array()}};
  for (const auto& [name, value] : c.environment) json["environment"][name] = value;
  for (size_t v : c.ranking) json["ranking"].push_back(c.name(v));
  for (size_t v : c.noisier) json["noisier"].push_back(c.name(v));
  for (size_t v = 0; v < c.variants.size(); ++v) json["variants"].push_back(variant_of(c, v, root));
  for (const LossDifference& d : c.losses)
    json["loss_differences"].push_back({{"a", c.name(d.a)},
                                        {"b", c.name(d.b)},
                                        {"difference", to_json(d.both, e.confidence)},
                                        {"between_seeds", to_json(d.seeds, e.confidence)},
                                        {"over_the_text", to_json(d.text, e.confidence)},
                                        {"p", d.p},
                                        {"beyond_noise", d.beyond},
                                        {"beyond_noise_of_the_text", d.beyond_text}});
  for (const SpeedDifference& d : c.speeds) {
    Json one = {{"a", c.name(d.a)}, {"b", c.name(d.b)}, {"what", d.what}};
    if (d.what == "translation") {
      one["num_beams"] = c.speed.searches[size_t(d.cell)];
    } else if (d.cell >= 0) {
      one["prompt_length"] = c.speed.cells[size_t(d.cell)].prompt;
      one["batch_size"] = c.speed.cells[size_t(d.cell)].batch;
    }
    one.update(
        Json({{"time_ratio", d.ratio}, {"low", d.low}, {"high", d.high}, {"p", d.p}, {"beyond_noise", d.beyond}}));
    json["speed_differences"].push_back(std::move(one));
  }
  json["fronts"] = Json::array();
  for (const Front& front : fronts_of(c)) {
    Json members = Json::array();
    for (const size_t v : front.members) members.push_back({{"variant", c.name(v)}, {"cost", front.costs[v]}});
    json["fronts"].push_back({{"cost", front.cost}, {"variants", members}});
  }
  if (c.speed.measured()) {
    json["speed_rounds"] = c.speed.rounds.size();
    Json& floor = json["speed_noise_floor"] = {{"training", std::expm1(c.speed.floor[0])}};
    if (c.translates()) {
      floor["translation"] = std::expm1(c.speed.floor[3]);
    } else {
      floor["prefill"] = std::expm1(c.speed.floor[1]);
      floor["decode"] = std::expm1(c.speed.floor[2]);
    }
    floor["worst"] = std::expm1(*std::max_element(c.speed.worst.begin(), c.speed.worst.end()));
  }
  for (const Crossover& x : c.crossovers)
    json["crossovers"].push_back({{"winner", c.name(x.winner)},
                                  {"loser", c.name(x.loser)},
                                  {"what", x.what},
                                  {"along", x.along},
                                  {"at", x.at},
                                  {"fixed", x.fixed},
                                  {"exact", x.exact}});
  return dump(json, 2, Invalid::replaced) + "\n";
}

}  // namespace lithe::compare
