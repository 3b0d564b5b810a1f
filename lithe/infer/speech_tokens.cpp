#include "lithe/infer/speech_tokens.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/infer/log_space.h"

namespace lithe {
namespace {

// What stands between the marks: "en" of "<|en|>"; none: it has none.
std::optional<std::string> unmarked(const std::string& spelt) {
  if (!spelt.starts_with("<|") || !spelt.ends_with("|>")) return {};
  return spelt.substr(2, spelt.size() - 4);
}

// generation_config.json of a run.
class Settings {
 public:
  Settings(const Json& tree, const std::string& file, const Tokenizer& tokenizer)
      : file_(file), vocabulary_(tokenizer.vocab_size()), tree_(tree) {
    check(tree_.is_object(), "transcribe", "'", file_, "' must hold an object");
  }
  const Json* find(const char* key) const {
    const auto found = tree_.find(key);
    return found == tree_.end() || found->is_null() ? nullptr : &*found;
  }
  int32_t id(const Json& value, const char* key) const {
    check(value.is_number_integer() && value >= 0 && value < vocabulary_, "transcribe", "'", file_, "': ", key, " ",
          dump(value), " is not among the tokenizer's ", vocabulary_, " entries");
    return value.get<int32_t>();
  }
  std::vector<int32_t> ids(const char* key) const {
    std::vector<int32_t> out;
    const Json* list = find(key);
    if (!list) return out;
    check(list->is_array(), "transcribe", "'", file_, "': ", key, " must be a list of ids");
    for (const Json& value : *list)
      if (value != -1) out.push_back(id(value, key));  // of old files: no more than that
    return out;
  }
  /// An object of ids by names: "<|en|>" or "transcribe", without the marks.
  std::map<std::string, int32_t> named(const char* key) const {
    std::map<std::string, int32_t> out;
    const Json* object = find(key);
    if (!object) return out;
    check(object->is_object(), "transcribe", "'", file_, "': ", key, " must be an object of ids");
    for (const auto& [name, value] : object->items()) out[unmarked(name).value_or(name)] = id(value, key);
    return out;
  }
  std::map<int64_t, int32_t> forced() const {
    std::map<int64_t, int32_t> out;
    const char* key = "forced_decoder_ids";
    const Json* list = find(key);
    if (!list) return out;
    check(list->is_array(), "transcribe", "'", file_, "': ", key, " must be a list of pairs");
    for (const Json& pair : *list) {
      check(pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[0] >= 1, "transcribe", "'",
            file_, "': ", key, " must be a list of a place from 1 and an id, got ", dump(pair));
      if (!pair[1].is_null()) out[pair[0].get<int64_t>()] = id(pair[1], key);
    }
    return out;
  }
  std::optional<int64_t> index(const char* key) const {
    const Json* value = find(key);
    if (!value) return {};
    check(value->is_number_integer() && *value >= 0, "transcribe", "'", file_, "': ", key,
          " must be a number from 0 on, got ", dump(*value));
    return value->get<int64_t>();
  }
  std::optional<bool> flag(const char* key) const {
    const Json* value = find(key);
    if (!value) return {};
    check(value->is_boolean(), "transcribe", "'", file_, "': ", key, " must be true or false, got ", dump(*value));
    return value->get<bool>();
  }

 private:
  std::string file_;
  int64_t vocabulary_;
  const Json& tree_;
};

// Special tokens of two or three small letters that stand between the begin and the first task.
std::map<std::string, int32_t> languages_between(const Tokenizer& tokenizer, int32_t begin, int32_t end) {
  std::map<std::string, int32_t> out;
  for (int32_t id = begin + 1; id < end; ++id) {
    const auto name = unmarked(tokenizer.token(id));
    if (!name || name->size() < 2 || name->size() > 3) continue;
    if (std::ranges::all_of(*name, [](char c) { return c >= 'a' && c <= 'z'; })) out[*name] = id;
  }
  return out;
}

// <|0.00|>, <|0.02|>, ...
bool spells_time(const std::string& spelt) {
  const std::string number = unmarked(spelt).value_or("");
  if (number.size() < 4) return false;
  const size_t point = number.size() - 3;
  for (size_t i = 0; i < number.size(); ++i)
    if (i == point ? number[i] != '.' : number[i] < '0' || number[i] > '9') return false;
  return true;
}

}  // namespace

std::optional<SpeechTokens> speech_tokens(const Tokenizer& tokenizer, const Path& run) {
  const Path file = run / "generation_config.json";
  const bool there = std::filesystem::exists(file);
  return speech_tokens(
      tokenizer, there ? parse_json(read_file(file, uint64_t(1) << 24), file.string()) : Json::object(), file.string());
}

std::optional<SpeechTokens> speech_tokens(const Tokenizer& tokenizer, const Json& tree, const std::string& origin) {
  const auto begin = tokenizer.id("<|startoftranscript|>");
  if (!begin) return {};
  const auto end = tokenizer.id(end_of_text);
  check(end.has_value(), "transcribe", "the tokenizer has <|startoftranscript|>, and no ", end_of_text,
        " that would end a transcript");
  const Settings settings(tree, origin, tokenizer);
  SpeechTokens out{.begin = *begin,
                   .end = *end,
                   .no_times = tokenizer.id("<|notimestamps|>"),
                   .before = tokenizer.id("<|startofprev|>"),
                   .no_speech = tokenizer.id("<|nospeech|>"),
                   .languages = settings.named("lang_to_id"),
                   .tasks = settings.named("task_to_id"),
                   .never = settings.ids("suppress_tokens"),
                   .never_first = settings.ids("begin_suppress_tokens"),
                   .most_first_time = settings.index("max_initial_timestamp_index"),
                   .forced = settings.forced()};
  if (!out.no_speech) out.no_speech = tokenizer.id("<|nocaptions|>");
  if (out.no_times) {
    out.first_time = *out.no_times + 1;
    const auto vocabulary = int32_t(tokenizer.vocab_size());
    while (out.first_time + out.times < vocabulary && spells_time(tokenizer.token(out.first_time + out.times)))
      ++out.times;
  }
  const auto translate = tokenizer.id("<|translate|>"), transcribe = tokenizer.id("<|transcribe|>");
  if (out.languages.empty() && translate && transcribe)
    out.languages = languages_between(tokenizer, *begin, std::min(*translate, *transcribe));
  if (out.tasks.empty()) {
    if (transcribe) out.tasks["transcribe"] = *transcribe;
    if (translate) out.tasks["translate"] = *translate;
  }
  // Models of English alone have the tokens, and were never shown them.
  if (!settings.flag("is_multilingual").value_or(out.languages.size() > 1)) {
    out.languages.clear();
    out.tasks.clear();
  }
  return out;
}

SpeechRules::SpeechRules(const SpeechTokens& tokens, const SpeechChoice& choice)
    : tokens_(tokens), times_(choice.times) {
  const auto named = [](const std::map<std::string, int32_t>& all, const std::string& name, const char* what) {
    const auto found = all.find(name);
    if (found != all.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, id] : all) names.push_back(known);
    fail_usage("transcribe", "the model has no ", what, " '", name, "'; ",
               names.empty() ? cat("it knows one alone, leave --", what, " out") : "it has " + join(names));
  };
  const auto forced = [&](int64_t place, const std::map<std::string, int32_t>& among) -> std::optional<int32_t> {
    const auto found = tokens.forced.find(place);
    if (found == tokens.forced.end()) return {};
    for (const auto& [name, id] : among)
      if (id == found->second) return id;
    return {};
  };
  std::vector<int32_t> languages;
  if (!choice.language.empty()) {
    languages = {named(tokens.languages, choice.language, "language")};
  } else if (const auto id = forced(1, tokens.languages)) {
    languages = {*id};
  } else {
    for (const auto& [name, id] : tokens.languages) languages.push_back(id);
  }
  if (!languages.empty()) first_.push_back(languages);
  if (!choice.task.empty() && (choice.task != "transcribe" || !tokens.tasks.empty())) {
    first_.push_back({named(tokens.tasks, choice.task, "task")});
  } else if (!tokens.tasks.empty()) {
    first_.push_back({forced(2, tokens.tasks).value_or(named(tokens.tasks, "transcribe", "task"))});
  }
  check_usage(!times_ || (tokens.no_times && tokens.times > 0), "transcribe",
              "the model's tokenizer has no <|notimestamps|> with <|0.00|> behind it, and so no times; leave "
              "--timestamps out, and cut sounds to the model's windows");
  if (!times_ && tokens.no_times) first_.push_back({*tokens.no_times});
}

std::string SpeechRules::language_of(std::span<const int32_t> tokens) const {
  for (const auto& [name, id] : tokens_.languages)
    if (!tokens.empty() && tokens[0] == id) return name;
  return "";
}

// spec: app.st_single | search | Whisper's rules for times: pairs, in order, a first one, by their joint probability |
// Radford et al. 2022
void SpeechRules::forbid_times(std::span<const int32_t> tokens, std::span<double> scores) const {
  const auto first = std::min(scores.size(), size_t(tokens_.first_time)),
             behind = std::min(scores.size(), first + size_t(tokens_.times));
  const auto forbid = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < std::min(end, scores.size()); ++i) scores[i] = kNever;
  };
  // Whatever is no time: what stands before and behind them.
  const auto forbid_texts = [&] {
    forbid(0, first);
    forbid(behind, scores.size());
  };
  const auto is_time = [&](size_t i) { return tokens_.is_time(tokens[i]); };
  forbid(size_t(*tokens_.no_times), size_t(*tokens_.no_times) + 1);
  const size_t n = tokens.size();
  const bool last = n >= 1 && is_time(n - 1), before = n < 2 || is_time(n - 2);
  if (last && before) forbid(first, behind);
  if (last && !before) {
    forbid(0, size_t(tokens_.end));
    forbid(behind, scores.size());
  }
  for (size_t i = n; i-- > 0;) {
    if (!is_time(i)) continue;
    forbid(first, size_t(tokens[i]) + (last && !before ? 0 : 1));  // of a pair both may be the same
    break;
  }
  if (n == 0) {
    forbid_texts();
    if (tokens_.most_first_time) forbid(first + size_t(*tokens_.most_first_time) + 1, behind);
  }
  double most_text = kNever, most_time = kNever, all = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    double& most = i >= first && i < behind ? most_time : most_text;
    most = std::max(most, scores[i]);
  }
  if (most_time == kNever) return;
  for (size_t i = first; i < behind; ++i) all += std::exp(scores[i] - most_time);
  if (most_time + std::log(all) > most_text) forbid_texts();
}

void SpeechRules::operator()(std::span<const int32_t> tokens, std::span<double> scores) const {
  if (tokens.size() < first_.size()) {
    const std::vector<int32_t>& allowed = first_[tokens.size()];
    const int32_t best = *std::max_element(allowed.begin(), allowed.end(), [&](int32_t a, int32_t b) {
      return std::pair(scores[size_t(a)], -a) < std::pair(scores[size_t(b)], -b);
    });
    std::ranges::fill(scores, kNever);
    scores[size_t(best)] = 0;
    return;
  }
  if (!log_normalise(scores)) return;  // the search says so
  const auto written = tokens.subspan(first_.size());
  for (const int32_t id : tokens_.never) scores[size_t(id)] = kNever;
  if (written.empty())
    for (const int32_t id : tokens_.never_first) scores[size_t(id)] = kNever;
  if (times_) forbid_times(written, scores);
  check(log_normalise(scores), "transcribe", "suppress_tokens and begin_suppress_tokens of generation_config.json",
        times_ ? " and the rules for times" : "", " leave no token behind the first ", tokens.size(),
        "; take ids out of them");
}

}  // namespace lithe
