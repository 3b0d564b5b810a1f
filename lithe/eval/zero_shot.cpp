#include "lithe/eval/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

// ---- documents and templates

std::vector<Json> documents(const std::vector<std::string>& files) {
  std::vector<Json> out;
  for (const std::string& name : files) {
    const std::string text = read_file(name);
    int line = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++line;
      if (end > begin) {
        out.push_back(parse_json(std::string_view(text).substr(begin, end - begin), cat(name, ":", line)));
        check(out.back().is_object(), "eval", "'", name, "' line ", line, " must be a JSON object");
      }
      begin = end + 1;
    }
  }
  return out;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

const Json& field_of(const Json& document, const std::string& path, const std::string& task) {
  const Json* at = &document;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    check(at->is_object() && at->contains(key), "eval", task, ": a document has no field '", path,
          "', which a template reads");
    at = &(*at)[key];
    begin = dot + 1;
  }
  return *at;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : dump(value); }

// A field, or one of the two expressions that cut off a text's last word.
std::string evaluated(const std::string& expression, const Json& document, const std::string& task) {
  constexpr std::string_view before = ".split(' ')[:-1]|join(' ')", last = ".split(' ')[-1]", space = "' '+";
  if (expression.ends_with(before)) {
    const std::string text = text_of(field_of(document, expression.substr(0, expression.size() - before.size()), task));
    return text.substr(0, std::min(text.rfind(' '), text.size()));
  }
  if (expression.ends_with(last)) {
    const bool spaced = expression.starts_with(space);
    const size_t begin = spaced ? space.size() : 0;
    const std::string text =
        text_of(field_of(document, expression.substr(begin, expression.size() - begin - last.size()), task));
    const size_t at = text.rfind(' ');
    return (spaced ? " " : "") + (at == std::string::npos ? text : text.substr(at + 1));
  }
  check_usage(expression.find_first_of(" |()[]'\"+") == std::string::npos, "eval", task, ": the template {{",
              expression, "}} is more than the name of a field; write what it gives into the data");
  return text_of(field_of(document, expression, task));
}

std::string rendered(const std::string& text, const Json& document, const std::string& task) {
  check_usage(text.find("{%") == std::string::npos, "eval", task, ": templates with {% %} are not supported");
  // A bare name of a field is that field.
  if (text.find("{{") == std::string::npos && document.contains(text)) return text_of(document[text]);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find("{{", at), close = open == std::string::npos ? open : text.find("}}", open);
    check_usage(open == std::string::npos || close != std::string::npos, "eval", task,
                ": a template has {{ without }}");
    out += text.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    out += evaluated(trimmed(text.substr(open + 2, close - open - 2)), document, task);
    at = close + 2;
  }
  return out;
}

std::vector<std::string> choices_of(const ZeroShotTask& task, const Json& document) {
  std::vector<std::string> out;
  if (task.doc_to_choice.is_list()) {
    for (const Node& one : task.doc_to_choice.items()) out.push_back(rendered(one.text(), document, task.task));
    return out;
  }
  std::string name = task.doc_to_choice.text();
  if (name.starts_with("{{") && name.ends_with("}}")) name = trimmed(name.substr(2, name.size() - 4));
  const Json& list = field_of(document, name, task.task);
  check(list.is_array() && !list.empty(), "eval", task.task, ": field '", name,
        "' of a document must be a list of choices");
  for (const Json& one : list) out.push_back(text_of(one));
  return out;
}

size_t right_choice(const ZeroShotTask& task, const Json& document, const std::vector<std::string>& choices) {
  const std::string target = rendered(task.doc_to_target, document, task.task);
  const bool number =
      !target.empty() && target.size() < 6 && target.find_first_not_of("0123456789") == std::string::npos;
  const size_t index =
      number ? size_t(std::stoul(target)) : size_t(std::find(choices.begin(), choices.end(), target) - choices.begin());
  check(index < choices.size(), "eval", task.task, ": doc_to_target gives '", target, "', which is none of the ",
        choices.size(), " choices");
  return index;
}

// ---- likelihoods

// The tokens after `begin` are scored, each by those before it.
struct Request {
  std::vector<int32_t> tokens;
  size_t begin = 1;
  double log_likelihood = 0;
  bool greedy = true;
};

class Scorer {
 public:
  Scorer(const Model& model, const Tokenizer& tokenizer, const ZeroShotOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {
    most_ = size_t(model.config().max_position_embeddings);
    const Specials& specials = tokenizer.specials();
    start_ = specials.bos ? specials.bos : specials.eos;
  }
  size_t most() const { return most_; }
  int32_t start() const {
    check(start_.has_value(), "eval", "the tokenizer has no token to begin a text with (bos or eos)");
    return *start_;
  }

  // Spaces at the end of the text belong to what follows, as tokens do.
  Request request(std::string text, std::string target) const {
    while (text.ends_with(' ')) {
      text.pop_back();
      target.insert(0, 1, ' ');
    }
    const std::vector<int32_t> whole = tokenizer_.encode(text + target), before = tokenizer_.encode(text);
    Request out;
    if (options_.add_bos_token || before.empty()) out.tokens.push_back(start());
    out.begin = out.tokens.size() + std::min(before.size(), whole.size());
    out.tokens.insert(out.tokens.end(), whole.begin(), whole.end());
    check(out.begin < out.tokens.size(), "eval", "'", target, "' adds no token to '", text, "'");
    // One more than the model reads: the last token is only predicted.
    if (out.tokens.size() > most_ + 1) {
      const size_t cut = out.tokens.size() - most_ - 1;
      check(out.begin > cut, "eval", "a target of ", out.tokens.size() - out.begin,
            " tokens is longer than the model's ", most_, " positions");
      out.tokens.erase(out.tokens.begin(), out.tokens.begin() + int64_t(cut));
      out.begin -= cut;
    }
    return out;
  }

  void score(std::vector<Request>& requests) const {
    std::vector<size_t> order(requests.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return requests[a].tokens.size() > requests[b].tokens.size(); });
    for (size_t first = 0; first < order.size();) {
      check(stop_signal() == 0, "eval", "stopped by signal ", stop_signal());
      std::vector<Request*> batch;
      size_t rows = 0;
      do {
        batch.push_back(&requests[order[first]]);
        rows += batch.back()->tokens.size() - 1;
        ++first;
      } while (first < order.size() &&
               int64_t(rows + requests[order[first]].tokens.size() - 1) <= options_.batch_tokens);
      run(batch);
    }
  }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  const ZeroShotOptions& options_;
  size_t most_ = 0;
  std::optional<int32_t> start_;

  void run(const std::vector<Request*>& batch) const {
    const NoGrad no_grad;
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets{0}, predicted;
    std::vector<std::pair<Request*, int32_t>> labels;
    for (Request* r : batch) {
      for (size_t i = 0; i + 1 < r->tokens.size(); ++i) {
        if (i + 1 >= r->begin) {
          predicted.push_back(int64_t(ids.size()));
          labels.push_back({r, r->tokens[i + 1]});
        }
        ids.push_back(r->tokens[i]);
      }
      offsets.push_back(int64_t(ids.size()));
    }
    const Sequences sequences(offsets);
    const Var rows = model_.forward(tensor_of({int64_t(ids.size())}, std::span<const int32_t>(ids)), sequences);
    constexpr size_t kRows = 128;  // whose logits stand in memory at a time
    for (size_t first = 0; first < predicted.size(); first += kRows) {
      const size_t end = std::min(predicted.size(), first + kRows);
      const std::vector<int64_t> some(predicted.begin() + int64_t(first), predicted.begin() + int64_t(end));
      const Tensor logits = cast(model_.logits(pick_rows(rows, some)), DType::f32).value();
      for (size_t i = first; i < end; ++i) {
        const float* row = logits.data<float>() + int64_t(i - first) * logits.cols();
        const float* best = std::max_element(row, row + logits.cols());
        double sum = 0;
        for (int64_t c = 0; c < logits.cols(); ++c) sum += std::exp(double(row[c]) - double(*best));
        auto& [request, label] = labels[i];
        request->log_likelihood += double(row[label]) - double(*best) - std::log(sum);
        request->greedy = request->greedy && best - row == label;
      }
    }
  }
};

ZeroShotMetric mean_of(const std::string& name, const std::vector<double>& values) {
  const double n = double(values.size()), mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  ZeroShotMetric out{name, mean, {}};
  if (values.size() > 1) out.stderr_ = std::sqrt(squares / (n - 1) / n);
  return out;
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; });
}

std::vector<ZeroShotMetric> choose(const Scorer& scorer, const ZeroShotTask& task, const std::vector<Json>& docs) {
  std::vector<Request> requests;
  std::vector<std::vector<std::string>> choices;
  for (const Json& doc : docs) {
    choices.push_back(choices_of(task, doc));
    const std::string text = rendered(task.doc_to_text, doc, task.task);
    for (const std::string& choice : choices.back())
      requests.push_back(scorer.request(text, task.target_delimiter + choice));
  }
  scorer.score(requests);
  std::vector<double> right, right_by_length;
  size_t at = 0;
  for (size_t d = 0; d < docs.size(); ++d) {
    const size_t gold = right_choice(task, docs[d], choices[d]);
    size_t best = 0, best_by_length = 0;
    const auto by_length = [&](size_t i) {
      return requests[at + i].log_likelihood / double(std::max<int64_t>(1, characters(choices[d][i])));
    };
    for (size_t i = 1; i < choices[d].size(); ++i) {
      if (requests[at + i].log_likelihood > requests[at + best].log_likelihood) best = i;
      if (by_length(i) > by_length(best_by_length)) best_by_length = i;
    }
    right.push_back(best == gold);
    right_by_length.push_back(best_by_length == gold);
    at += choices[d].size();
  }
  return {mean_of("acc", right), mean_of("acc_norm", right_by_length)};
}

std::vector<ZeroShotMetric> follow(const Scorer& scorer, const ZeroShotTask& task, const std::vector<Json>& docs) {
  std::vector<Request> requests;
  for (const Json& doc : docs) {
    const std::string target = rendered(task.doc_to_target, doc, task.task);
    requests.push_back(scorer.request(rendered(task.doc_to_text, doc, task.task),
                                      (target.starts_with(' ') ? "" : task.target_delimiter) + target));
  }
  scorer.score(requests);
  std::vector<double> greedy, likelihood;
  for (const Request& r : requests) greedy.push_back(r.greedy), likelihood.push_back(r.log_likelihood);
  return {{"perplexity", std::exp(-mean_of("", likelihood).value), {}}, mean_of("acc", greedy)};
}

std::vector<ZeroShotMetric> roll(const Scorer& scorer, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                 const std::vector<Json>& docs) {
  std::vector<Request> requests;
  double words = 0, bytes = 0;
  for (const Json& doc : docs) {
    const std::string text =
        rendered(task.doc_to_target.empty() ? task.doc_to_text : task.doc_to_target, doc, task.task);
    bytes += double(text.size());
    bool inside = false;
    for (const char c : text) {
      const bool space = c == ' ' || (c >= 9 && c <= 13);
      words += !space && !inside;
      inside = !space;
    }
    // Windows that do not overlap: each begins with the last token of the one before it.
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    for (size_t begin = 0; begin < tokens.size(); begin += scorer.most()) {
      Request r;
      r.tokens.push_back(begin ? tokens[begin - 1] : scorer.start());
      r.tokens.insert(r.tokens.end(), tokens.begin() + int64_t(begin),
                      tokens.begin() + int64_t(std::min(tokens.size(), begin + scorer.most())));
      requests.push_back(std::move(r));
    }
  }
  scorer.score(requests);
  double sum = 0;
  for (const Request& r : requests) sum += r.log_likelihood;
  return {{"word_perplexity", std::exp(-sum / words), {}},
          {"byte_perplexity", std::exp(-sum / bytes), {}},
          {"bits_per_byte", -sum / bytes / std::log(2.0), {}}};
}

}  // namespace

ZeroShotResult evaluate_zero_shot(const Model& model, const Tokenizer& tokenizer, const ZeroShotTask& task,
                                  const ZeroShotOptions& options) {
  model.check_predicts_next("eval");
  std::vector<Json> docs = documents(task.data_files);
  ZeroShotResult out{.documents = 0, .all_documents = int64_t(docs.size()), .metrics = {}};
  if (options.limit && int64_t(docs.size()) > options.limit) docs.resize(size_t(options.limit));
  check_usage(!docs.empty(), "eval", task.task, ": its files hold no documents");
  out.documents = int64_t(docs.size());
  const Scorer scorer(model, tokenizer, options);
  out.metrics = task.output_type == "multiple_choice" ? choose(scorer, task, docs)
                : task.output_type == "loglikelihood" ? follow(scorer, task, docs)
                                                      : roll(scorer, tokenizer, task, docs);
  return out;
}

}  // namespace lithe
