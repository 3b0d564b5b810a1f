#include "lithe/compare/rounds.h"

#include <algorithm>

#include "lithe/base/json.h"
#include "lithe/base/log.h"

namespace lithe::compare {
namespace {

Json to_json(const Timing& t) {
  Json json = {{"train_step", t.train_step}, {"prefill", t.prefill}, {"decode_token", t.decode_token}};
  if (!t.translation.empty()) json["translation"] = t.translation;
  return json;
}

Timing timing_from(const Json& json) {
  Timing t;
  t.train_step = number_or_nan(json.at("train_step"));
  for (const Json& v : json.at("prefill")) t.prefill.push_back(number_or_nan(v));
  for (const Json& v : json.at("decode_token")) t.decode_token.push_back(number_or_nan(v));
  if (json.contains("translation"))
    for (const Json& v : json.at("translation")) t.translation.push_back(number_or_nan(v));
  return t;
}

// Rounds already taken on the same machine for the same question.
std::vector<std::vector<Timing>> stored_rounds(const Path& file, const std::string& key) {
  std::vector<std::vector<Timing>> out;
  if (!std::filesystem::exists(file)) return out;
  try {
    const Json json = parse_json(read_file(file), file.string());
    if (json.at("key") != key) return out;
    for (const Json& round : json.at("rounds")) {
      out.emplace_back();
      for (const Json& t : round) out.back().push_back(timing_from(t));
    }
  } catch (const std::exception& error) {
    log_warning("'", file.string(), "' is damaged (", error.what(), "); timing again");
    out.clear();
  }
  return out;
}

void keep_rounds(const std::vector<std::vector<Timing>>& rounds, const std::string& key, const Path& file) {
  Json json = {{"key", key}, {"rounds", Json::array()}};
  for (const auto& taken : rounds) {
    Json timings = Json::array();
    for (const Timing& t : taken) timings.push_back(to_json(t));
    json["rounds"].push_back(std::move(timings));
  }
  write_file(file, dump(json) + "\n");
}

}  // namespace

bool take_rounds(SpeedBench& bench, size_t contenders, int64_t repeats, const std::string& key, const Path& file,
                 Speed& speed) {
  speed.cells = bench.cells();
  speed.costs = bench.costs();
  speed.searches = bench.searches();
  speed.translated = bench.translated();
  std::vector<std::vector<Timing>>& rounds = speed.rounds;
  rounds = stored_rounds(file, key);
  const auto of_this_bench = [&](const Timing& t) {
    return t.prefill.size() == speed.cells.size() && t.decode_token.size() == speed.cells.size() &&
           t.translation.size() == speed.searches.size();
  };
  if (!std::ranges::all_of(rounds, [&](const std::vector<Timing>& round) {
        return round.size() == contenders && std::ranges::all_of(round, of_this_bench);
      })) {
    log_warning("'", file.string(), "' holds rounds of other measurements; timing again");
    rounds.clear();
  }
  if (int64_t(rounds.size()) > repeats) rounds.resize(size_t(repeats));
  while (int64_t(rounds.size()) < repeats) {
    auto round = bench.round(int64_t(rounds.size()));
    if (round.empty()) return false;
    rounds.push_back(std::move(round));
    keep_rounds(rounds, key, file);
  }
  return true;
}

}  // namespace lithe::compare
