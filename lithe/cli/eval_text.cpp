#include <cstdio>
#include <cstring>
#include <iostream>

#include "lithe/base/progress.h"
#include "lithe/cli/command.h"
#include "lithe/cli/eval_run.h"
#include "lithe/data/corpus.h"
#include "lithe/data/token_store_writer.h"
#include "lithe/eval/finite_result.h"
#include "lithe/eval/loss_by_position.h"
#include "lithe/eval/measured_part.h"
#include "lithe/eval/misspell.h"
#include "lithe/eval/neighbour_perplexity.h"
#include "lithe/model/exits.h"
#include "lithe/model/safetensors.h"
#include "lithe/parallel/job.h"
#include "lithe/report/run_report.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

constexpr double kMostLogits = double(int64_t(4) << 30);  // bytes that are kept at once

// The documents of the files with wrong letters.
TokenStore misspelt_text(const EvalOptions& o, const DataConfig& data, const Tokenizer& tokenizer) {
  const Specials& specials = tokenizer.specials();
  StoreInfo info{.tokenizer_fingerprint = tokenizer.fingerprint(), .vocab_size = tokenizer.vocab_size()};
  info.begin_of_text = specials.bos ? specials.bos : specials.eos;
  info.end_of_text = specials.eos;
  std::string bytes;
  TokenStoreWriter writer(info, [&](std::string_view part) { bytes += part; });
  Corpus(o.files, corpus_options(data)).for_each_document([&](std::string_view document) {
    const std::string text = misspell(document, o.misspell, uint64_t(o.misspell_seed));
    writer.add(tokenizer.encode(text), text);
  });
  writer.finish();
  return TokenStore::from_bytes(std::move(bytes));
}

// A line of JSON a token, or tensors with the logits.
void write_tokens(const Path& file, const TokenScores& scores, const Tokenizer& tokenizer) {
  const auto n = int64_t(scores.tokens.size());
  if (file.extension() == ".safetensors") {
    const auto tensor = [](const auto& values, Shape shape, DType type) {
      const Tensor out = empty(shape, type);
      std::memcpy(out.raw(), values.data(), values.size() * sizeof values[0]);
      return out;
    };
    write_safetensors(file,
                      {{"tokens", tensor(scores.tokens, {n}, DType::i32)},
                       {"documents", tensor(scores.documents, {n}, DType::i32)},
                       {"nll", tensor(scores.nll, {n}, DType::f32)},
                       {"logits", tensor(scores.logits, {n, int64_t(scores.logits.size()) / n}, DType::f32)}},
                      {});
    return;
  }
  std::string text;
  for (size_t i = 0; i < scores.tokens.size(); ++i)
    text += dump(Json({{"document", scores.documents[i]},
                       {"id", scores.tokens[i]},
                       {"token", tokenizer.token(scores.tokens[i])},
                       {"piece", tokenizer.piece(scores.tokens[i], false)},
                       {"nll", scores.nll[i]}}),
                 -1, Invalid::replaced) +
            "\n";
  write_file(file, text);
}

Json json_of(const std::vector<PositionLoss>& by_position) {
  Json out = Json::array();
  for (const PositionLoss& p : by_position)
    out.push_back({{"from", p.from}, {"to", p.to}, {"tokens", p.tokens}, {"loss", p.loss()}});
  return out;
}

// For the run's page, which is written anew.
void keep_by_position(const Path& run, const std::vector<PositionLoss>& by_position, int64_t trained, int64_t context) {
  const Json json = {{"trained_length", trained}, {"context_length", context}, {"positions", json_of(by_position)}};
  write_file(run / "loss_by_position.json", dump(json, 2) + "\n");
  write_run_report(run);
}

void print_by_position(const std::vector<PositionLoss>& by_position, const Path& run) {
  std::printf("\n%-19s %10s  %s\n", "tokens before", "tokens", "loss");
  for (const PositionLoss& p : by_position)
    std::printf("%-19s %10lld  %.4f\n", cat(p.from, " to ", p.to - 1).c_str(), static_cast<long long>(p.tokens),
                p.loss());
  std::printf("chart             %s\n", (run / "report.html").c_str());
}

}  // namespace

int eval_text(const EvalOptions& o, const Recipe& recipe, const LoadedModel& loaded) {
  const std::optional<NeighbourModel> neighbours = neighbours_of(o.datastore, o.model, o.weights, loaded);
  check_usage(!neighbours || Path(o.per_token).extension() != ".safetensors", "eval",
              "logits are the model's alone; with --datastore give --per-token a .json file");
  TokenStore text;
  in_turns([&] {
    text = o.misspell > 0 && !o.files.empty() ? misspelt_text(o, recipe.data, *loaded.tokenizer)
                                              : measured_text(recipe, loaded.tokenizer, o.files);
  });
  if (o.exits)
    return print_exits(
        o, text_exit_table(*loaded.model, text,
                           recipe.eval.context_length ? recipe.eval.context_length : recipe.data.sequence_length,
                           o.exit_tokens, std::min<int64_t>(o.exit_tokens, 128), exit_grid(*loaded.model)));
  ProgressLine progress("scoring", "tokens");
  TokenScores each{.with_logits = Path(o.per_token).extension() == ".safetensors"};
  const double bytes = double(text.tokens()) * double(loaded.model->config().vocab_size) * sizeof(float);
  check_usage(!each.with_logits || bytes <= kMostLogits, "eval", "the logits of ", text.tokens(), " tokens are ",
              format_bytes(bytes), ", more than ", format_bytes(kMostLogits),
              "; give less text, or --per-token a .json file for the losses alone");
  const Perplexity p =
      perplexity(*loaded.model, text, recipe.eval, recipe.data.sequence_length, neighbours ? &*neighbours : nullptr,
                 speaks_for_job() ? Progress(std::ref(progress)) : Progress(), nullptr,
                 o.per_token.empty() && !o.by_position ? nullptr : &each);
  if (!speaks_for_job()) return 0;
  progress.end();
  check_finite_result("eval", "the loss", p.loss());
  if (!o.per_token.empty()) write_tokens(o.per_token, each, *loaded.tokenizer);
  const std::vector<PositionLoss> by_position = o.by_position ? loss_by_position(each) : std::vector<PositionLoss>();
  if (o.json) {
    Json json = p.json();
    if (o.by_position) json["by_position"] = json_of(by_position);
    weights_used(o).add_to(json);
    std::cout << dump(json, 2) << "\n";
  } else {
    const std::string windows =
        p.carry_state ? "carried states" : cat("context ", p.windows.context, ", stride ", p.windows.stride);
    std::printf("loss              %.4f per token (%lld tokens, %s)\n", p.loss(), static_cast<long long>(p.tokens),
                windows.c_str());
    std::printf(
        "token perplexity  %.2f\nword perplexity   %.2f (%.2f with line ends as words)\nbits per byte     %.4f\n",
        p.token_perplexity(), p.word_perplexity(), p.word_and_line_perplexity(), p.bits_per_byte());
    if (p.mean_layers > 0) std::printf("mean layers       %.2f\n", p.mean_layers);
    print_weights(o);
    if (o.by_position) print_by_position(by_position, o.model);
  }
  if (o.by_position) {
    flush_results();
    keep_by_position(o.model, by_position, recipe.data.sequence_length, p.windows.context);
  }
  return 0;
}

}  // namespace lithe
