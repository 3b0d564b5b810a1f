#include <pybind11/stl.h>

#include "lithe/eval/token_likelihoods.h"
#include "lithe/infer/generate.h"
#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

// Scored tokens of one request.
struct TokenScores {
  std::vector<int32_t> tokens;
  std::vector<std::string> pieces;
  std::vector<double> log_probabilities;
  double log_likelihood = 0;
  bool greedy = false;
};

TokenScores scores_of(const Tokenizer& tokenizer, TokenRequest&& r) {
  TokenScores out{.log_probabilities = std::move(r.each), .log_likelihood = r.log_likelihood, .greedy = r.greedy};
  out.tokens.assign(r.tokens.begin() + int64_t(r.begin), r.tokens.end());
  for (size_t i = 0; i < out.tokens.size(); ++i)
    out.pieces.push_back(tokenizer.piece(out.tokens[i], i == 0 && r.begin <= 1));
  return out;
}

std::vector<TokenScores> run(const PyModel& self, std::vector<TokenRequest> requests, int64_t batch_tokens) {
  return self.alone([&] {
    score_tokens(self.model(), requests, batch_tokens);
    std::vector<TokenScores> out;
    for (TokenRequest& r : requests) out.push_back(scores_of(self.tokenizer(), std::move(r)));
    return out;
  });
}

py::object score(const PyModel& self, const py::object& texts, const py::object& continuations, bool add_bos_given,
                 const py::object& add_bos_token, int64_t batch_tokens) {
  const bool add_bos = add_bos_given ? cast_of<bool>(add_bos_token, "add_bos_token", "True or False")
                                     : self.recipe.generate.add_bos_token;
  bool alone = false, one = false;
  const std::vector<std::string> from = texts_of(texts, alone);
  std::vector<std::string> to;
  if (!continuations.is_none()) {
    to = texts_of(continuations, one);
    check_usage(to.size() == from.size() && one == alone, "score", "there are ", from.size(), " texts and ", to.size(),
                " continuations; give one for each");
  }
  std::vector<TokenRequest> requests;
  const GenerateConfig config{.add_bos_token = add_bos};
  for (size_t i = 0; i < from.size(); ++i)
    requests.push_back(continuations.is_none()
                           ? TokenRequest{.tokens = prompt_tokens(self.tokenizer(), from[i], config)}
                           : continuation_request(self.model(), self.tokenizer(), from[i], to[i], add_bos));
  std::vector<TokenScores> out = run(self, std::move(requests), batch_tokens);
  return alone ? py::cast(std::move(out[0])) : py::cast(std::move(out));
}

std::vector<TokenScores> score_ids(const PyModel& self,
                                   const std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>& pairs,
                                   int64_t batch_tokens) {
  std::vector<TokenRequest> requests;
  for (const auto& [context, continuation] : pairs) {
    check_usage(!context.empty(), "score", "a context has no tokens; begin it with the tokenizer's bos or eos");
    TokenRequest r{.tokens = context, .begin = context.size()};
    r.tokens.insert(r.tokens.end(), continuation.begin(), continuation.end());
    requests.push_back(std::move(r));
  }
  return run(self, std::move(requests), batch_tokens);
}

}  // namespace

void add_scores(py::module_& module, ModelClass& model) {
  py::class_<TokenScores>(module, "Scores", "What a model says of tokens, given those before them.")
      .def_readonly("tokens", &TokenScores::tokens, "The ids that were scored.")
      .def_property_readonly(
          "pieces",
          [](const TokenScores& s) {
            py::list out;
            for (const std::string& piece : s.pieces) out.append(text_of(piece));
            return out;
          },
          "What each of them adds to the text.")
      .def_readonly("log_probabilities", &TokenScores::log_probabilities, "Natural logs, one a token.")
      .def_readonly("log_likelihood", &TokenScores::log_likelihood, "Their sum.")
      .def_readonly("greedy", &TokenScores::greedy, "Whether greedy decoding would give these tokens.")
      .def("__len__", [](const TokenScores& s) { return s.tokens.size(); })
      .def("__repr__", [](const TokenScores& s) {
        return cat("Scores(", s.tokens.size(), " tokens, log_likelihood=", s.log_likelihood, ")");
      });
  model.def(
      "score",
      [](const PyModel& self, const py::object& texts, const py::object& continuations, const py::object& add_bos_token,
         int64_t batch_tokens) {
        return score(self, texts, continuations, !add_bos_token.is_none(), add_bos_token, batch_tokens);
      },
      py::arg("texts"), py::arg("continuations") = py::none(), py::kw_only(), py::arg("add_bos_token") = py::none(),
      py::arg("batch_tokens") = 2048,
      "Log-probabilities of the tokens of a text, or of many: of all but the first, which is the tokenizer's bos (or "
      "eos)\n"
      "where add_bos_token (default: the recipe's generate.add_bos_token) says so. With continuations: of the tokens "
      "that\n"
      "each adds to its text, cut as `lithe eval --tasks` and the evaluation harness cut them, and to the same bits.\n"
      "Results do not depend on batch_tokens, which are computed at once.");
  model.def("score_ids", score_ids, py::arg("pairs"), py::kw_only(), py::arg("batch_tokens") = 2048,
            "The same of (context, continuation) as lists of ids.");
}

}  // namespace lithe::python
