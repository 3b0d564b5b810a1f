#include "lithe/probe/cloze.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/data/text_file.h"
#include "lithe/ops/basic.h"
#include "lithe/text/framing.h"

namespace lithe::probe {
namespace {

constexpr const char* kMask = "[MASK]";

std::vector<std::string> texts_of(const Json& json, const char* key, const std::string& where) {
  std::vector<std::string> out;
  const auto found = json.find(key);
  if (found == json.end()) return out;
  for (const Json& text : found->is_array() ? *found : Json::array({*found})) {
    check(text.is_string() && !text.get<std::string>().empty(), "probe", where, ": ", key,
          " must be a text or a list of texts");
    out.push_back(text.get<std::string>());
  }
  return out;
}

// Log-probabilities of all tokens at one row of logits.
std::vector<double> log_softmax(const Tensor& logits, int64_t row) {
  const int64_t v = logits.cols();
  std::vector<double> out(static_cast<size_t>(v));
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < v; ++i) out[size_t(i)] = value_at(logits, row * v + i), most = std::max(most, out[size_t(i)]);
  for (const double x : out) sum += std::exp(x - most);
  for (double& x : out) x -= most + std::log(sum);
  return out;
}

// The text before and after the mask, cut into tokens as they stand in a text: a word follows a space.
struct Halves {
  std::string before, after;
};
Halves halves_of(const Fact& fact) {
  const size_t at = fact.text.find(kMask);
  return {fact.text.substr(0, at), fact.text.substr(at + 6)};
}

class Scorer {
 public:
  Scorer(const Probed& model) : model_(model) {
    const Architecture architecture = model.model->config().architecture;
    check_usage(model.tokenizer->width() == 1, "probe", "cloze needs a vocabulary, and this tokenizer has none");
    check_usage(!reads_source(architecture), "probe",
                "cloze needs a model of masked tokens or a causal one, and this one reads a source");
    if (model.causal()) {
      model.model->check_predicts_next("probe");
      return;
    }
    check_usage(model.tokenizer->specials().mask.has_value() &&
                    model.model->config().vocab_size >= model.tokenizer->vocab_size(),
                "probe", "cloze needs a tokenizer with a mask token, and this one has none");
  }

  // Log-probabilities at r masks in the place of the answer, [r] of [V].
  std::vector<std::vector<double>> at_masks(const Fact& fact, int64_t r) const {
    const Halves halves = halves_of(fact);
    const Tokenizer& t = *model_.tokenizer;
    std::string before = halves.before;
    while (!before.empty() && before.back() == ' ') before.pop_back();
    std::vector<int32_t> ids = t.encode(before);
    const auto first = int64_t(ids.size());
    ids.insert(ids.end(), size_t(r), *t.specials().mask);
    const std::vector<int32_t> after = t.encode(halves.after);
    ids.insert(ids.end(), after.begin(), after.end());
    const FramedText text = frame(t, ids, {}, false, int64_t(ids.size()) + frame_specials(t, false));
    std::vector<int64_t> wanted;
    for (int64_t k = 0; k < r; ++k) wanted.push_back(text.a_begin + first + k);
    const Tensor logits = run(text.tokens, wanted, fact);
    std::vector<std::vector<double>> out;
    for (int64_t k = 0; k < r; ++k) out.push_back(log_softmax(logits, k));
    return out;
  }

  // The log-probability of the completed text of a causal model.
  double completed(const Fact& fact, const std::string& answer) const {
    const Halves halves = halves_of(fact);
    const Tokenizer& t = *model_.tokenizer;
    std::vector<int32_t> ids = t.encode(halves.before + answer + halves.after);
    const auto begin = t.specials().bos ? t.specials().bos : t.specials().eos;
    if (begin) ids.insert(ids.begin(), *begin);
    std::vector<int64_t> wanted;
    for (int64_t k = 0; k + 1 < int64_t(ids.size()); ++k) wanted.push_back(k);
    if (wanted.empty()) return 0;
    const Tensor logits = run(ids, wanted, fact);
    double sum = 0;
    for (int64_t k = 0; k < logits.rows(); ++k) sum += log_softmax(logits, k)[size_t(ids[size_t(k + 1)])];
    return sum;
  }

  // How an answer is cut where it stands: behind a space, unless it begins the text.
  std::vector<int32_t> tokens_of(const Fact& fact, const std::string& answer) const {
    const std::string before = halves_of(fact).before;
    return model_.tokenizer->encode(!before.empty() && before.back() == ' ' ? " " + answer : answer);
  }

 private:
  Probed model_;

  Tensor run(const std::vector<int32_t>& tokens, const std::vector<int64_t>& wanted, const Fact& fact) const {
    check_not_stopped("probe", "no page was written");
    const int64_t limit = model_.position_limit();
    check_usage(!limit || int64_t(tokens.size()) <= limit, "probe", fact.place, ": ", tokens.size(),
                " tokens are more than the ", limit, " positions of the model; shorten the text");
    Pass pass;
    const ModelInput input{tensor_of({int64_t(tokens.size())}, std::span<const int32_t>(tokens)),
                           Sequences::single(int64_t(tokens.size()))};
    const Tensor logits = cast(model_.model->logits(model_.model->run(input, pass), wanted), DType::f32).value();
    check_usage(logits.rows() == int64_t(wanted.size()) && logits.cols() >= model_.tokenizer->vocab_size(), "probe",
                "cloze needs a head that predicts tokens, and this model's gives ", logits.shape(), " for ",
                wanted.size(), " rows of a vocabulary of ", model_.tokenizer->vocab_size());
    return logits;
  }
};

}  // namespace

std::vector<Fact> read_facts(const Path& file) {
  const std::string text = read_text(file, "probe");
  refuse_invalid_utf8(text, file.string(), "probe");
  std::vector<Fact> out;
  int64_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string row = text.substr(at, end - at), where = cat(file.string(), ":", ++line);
    at = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = parse_json(row, where);
    check(json.is_object() && json.contains("text") && json["text"].is_string(), "probe", where,
          ": a fact must be an object with \"text\" and \"answer\"");
    Fact fact{json["text"].get<std::string>(), texts_of(json, "answer", where), texts_of(json, "candidates", where),
              where};
    const size_t mask = fact.text.find(kMask);
    check(mask != std::string::npos && fact.text.find(kMask, mask + 1) == std::string::npos, "probe", where,
          ": the text must hold ", kMask, " once");
    check(!fact.answers.empty(), "probe", where, ": a fact must have an \"answer\"");
    for (const std::string& answer : fact.answers)
      check(fact.candidates.empty() ||
                std::find(fact.candidates.begin(), fact.candidates.end(), answer) != fact.candidates.end(),
            "probe", where, ": the answer '", answer, "' must be among the candidates");
    out.push_back(std::move(fact));
  }
  check_usage(!out.empty(), "probe", "'", file.string(), "' has no facts");
  return out;
}

double ClozeResult::precision(int64_t k) const {
  int64_t right = 0, all = 0;
  for (const Answer& a : answers) all += a.rank > 0, right += a.rank > 0 && a.rank <= k;
  return all ? double(right) / double(all) : std::nan("");
}

double ClozeResult::mean_reciprocal_rank() const {
  double sum = 0;
  int64_t all = 0;
  for (const Answer& a : answers)
    if (a.rank > 0) sum += 1 / double(a.rank), ++all;
  return all ? sum / double(all) : std::nan("");
}

namespace {

// Ranks scored candidates; of equal scores those that stand before the answer count before it.
ClozeResult::Answer ranked(const std::vector<std::pair<std::string, double>>& scored,
                           const std::vector<std::string>& answers) {
  ClozeResult::Answer out{.log_probability = -INFINITY};
  double most = -INFINITY;
  size_t at = 0;
  for (size_t c = 0; c < scored.size(); ++c) {
    const auto& [name, score] = scored[c];
    if (score > most || c == 0) most = score, out.best = name;
    const bool right = std::find(answers.begin(), answers.end(), name) != answers.end();
    if (right && (out.rank == 0 || score > out.log_probability)) out.log_probability = score, out.rank = 1, at = c;
  }
  if (out.rank == 0) return out;
  for (size_t c = 0; c < scored.size(); ++c)
    out.rank += scored[c].second > out.log_probability || (scored[c].second == out.log_probability && c < at);
  return out;
}

}  // namespace

ClozeResult probe_cloze(const Probed& model, const std::vector<Fact>& facts, const ClozeOptions& options) {
  const Scorer scorer(model);
  const bool causal = model.causal();
  const std::string kind = options.candidates.empty() ? (causal ? "answers" : "vocabulary") : options.candidates;
  check_usage(kind == "answers" || kind == "vocabulary", "probe", "candidates are vocabulary or answers, got '", kind,
              "'");
  check_usage(!causal || kind == "answers", "probe",
              "a causal model scores completed texts, one a candidate, so that "
              "the vocabulary is too much; rank the answers");
  const NoGrad no_grad;
  std::set<std::string> all;
  for (const Fact& fact : facts) all.insert(fact.answers.begin(), fact.answers.end());
  ClozeResult out;
  double candidates = 0;
  for (const Fact& fact : facts) {
    const bool over_vocabulary = fact.candidates.empty() && kind == "vocabulary";
    std::vector<std::pair<std::string, double>> scored;
    std::vector<std::string> answers = fact.answers;
    if (over_vocabulary) {
      answers.clear();
      for (const std::string& answer : fact.answers)
        if (const std::vector<int32_t> ids = scorer.tokens_of(fact, answer); ids.size() == 1)
          answers.push_back(cat(ids[0]));
      if (answers.empty()) {
        out.answers.push_back({});
        ++out.passed_over;
        continue;
      }
      const std::vector<double> log_p = scorer.at_masks(fact, 1)[0];
      for (int32_t id = 0; id < int32_t(model.tokenizer->vocab_size()); ++id)
        scored.emplace_back(cat(id), log_p[size_t(id)]);
    } else {
      const std::vector<std::string> names =
          fact.candidates.empty() ? std::vector<std::string>(all.begin(), all.end()) : fact.candidates;
      std::map<size_t, std::vector<std::vector<double>>> by_length;
      for (const std::string& name : names) {
        if (causal) {
          scored.emplace_back(name, scorer.completed(fact, name));
          continue;
        }
        const std::vector<int32_t> ids = scorer.tokens_of(fact, name);
        check_usage(!ids.empty(), "probe", fact.place, ": the candidate '", name, "' has no token");
        auto& log_p = by_length[ids.size()];
        if (log_p.empty()) log_p = scorer.at_masks(fact, int64_t(ids.size()));
        double score = 0;
        for (size_t k = 0; k < ids.size(); ++k) score += log_p[k][size_t(ids[k])];
        scored.emplace_back(name, score);
      }
    }
    candidates += double(scored.size());
    out.answers.push_back(ranked(scored, answers));
    if (over_vocabulary) {
      std::string& best = out.answers.back().best;
      best = model.tokenizer->piece(int32_t(std::stoi(best)), true);
    }
  }
  const auto asked = double(facts.size()) - double(out.passed_over);
  out.candidates = asked > 0 ? candidates / asked : 0;
  return out;
}

ClozeResult frequent_answers(const std::vector<Fact>& facts) {
  std::map<std::string, int64_t> counts;
  for (const Fact& fact : facts)
    for (const std::string& answer : fact.answers) ++counts[answer];
  ClozeResult out;
  for (const Fact& fact : facts) {
    std::vector<std::pair<std::string, double>> scored;
    for (const auto& [answer, count] : counts) {
      const bool own = std::find(fact.answers.begin(), fact.answers.end(), answer) != fact.answers.end();
      if (fact.candidates.empty() ||
          std::find(fact.candidates.begin(), fact.candidates.end(), answer) != fact.candidates.end())
        scored.emplace_back(answer, double(count - own));
    }
    out.answers.push_back(ranked(scored, fact.answers));
  }
  out.candidates = double(counts.size());
  return out;
}

}  // namespace lithe::probe
