#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/cli/command.h"
#include "lithe/cli/text_lines.h"
#include "lithe/eval/sentence_rows.h"
#include "lithe/eval/similarity.h"
#include "lithe/eval/task_metrics.h"
#include "lithe/infer/load.h"
#include "lithe/model/safetensors.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct EncodeOptions {
  std::string model, out, weights, precision = "f32", pooling;
  std::optional<std::string> measure;
  std::vector<std::string> files, queries;
  int64_t nearest = 0;
  bool normalize = false, pairs = false, gold = false, json = false;
};

struct Line {
  std::string text, other;
  double score;
};

void print(const std::vector<Line>& lines, bool json) {
  for (const Line& l : lines)
    if (json)
      std::cout << dump(Json({{"text", l.text}, {"other", l.other}, {"score", l.score}}), -1, Invalid::replaced)
                << "\n";
    else
      std::printf("%.4f\t%s\t%s\n", l.score, l.text.c_str(), l.other.c_str());
}

struct Pairs {
  std::vector<std::string> first, second;
  std::vector<double> gold;  // empty, or one a pair
};

Pairs pairs_of(const std::vector<std::string>& lines, bool with_gold) {
  Pairs all;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const size_t tab = line.find('\t');
    check_usage(tab != std::string::npos, "encode", "line ", i + 1, " has no tab between the two texts of a pair");
    const size_t end = with_gold ? line.rfind('\t') : line.size();
    check_usage(end != tab, "encode", "line ", i + 1, " has no tab and score after the second text; --gold needs it");
    all.first.push_back(line.substr(0, tab));
    all.second.push_back(line.substr(tab + 1, end - tab - 1));
    if (!with_gold) continue;
    const std::string score = line.substr(end + 1);
    double& value = all.gold.emplace_back();
    const auto [rest, error] = std::from_chars(score.data(), score.data() + score.size(), value);
    check_usage(error == std::errc() && rest == score.data() + score.size() && std::isfinite(value), "encode", "line ",
                i + 1, " ends with '", score, "', which is not a number; --gold needs a score there");
  }
  return all;
}

void print_correlations(const std::vector<double>& gold, const std::vector<Line>& lines, bool json) {
  std::vector<double> scores;
  for (const Line& l : lines) scores.push_back(l.score);
  const double ranks = spearman(gold, scores), values = pearson(gold, scores);
  const auto number = [](double v) { return std::isfinite(v) ? Json(v) : Json(); };
  if (json)
    std::cout << dump(Json({{"spearman", number(ranks)}, {"pearson", number(values)}, {"pairs", gold.size()}})) << "\n";
  else
    std::fprintf(stderr, "Spearman %.4f, Pearson %.4f with the scores of %zu pairs\n", ranks, values, gold.size());
}

int run_encode(const EncodeOptions& o) {
  catch_stop_signals();
  check_usage(!o.out.empty() || o.pairs || o.nearest, "encode",
              "nothing to do: give --out for the rows, --pairs for similarities, or --nearest");
  check_usage(!(o.pairs && (o.nearest || !o.out.empty())), "encode",
              "--pairs prints similarities and neither writes rows nor searches; leave --out and --nearest out");
  check_usage(!o.measure || o.pairs || o.nearest, "encode", "--measure is of --pairs and --nearest; give one of them");
  check_usage(!o.gold || o.pairs, "encode", "--gold is of --pairs; give that, too");
  check_usage(o.queries.empty() || o.nearest, "encode", "--query needs --nearest, the number of lines to find");
  const Recipe recipe = recipe_of_run(o.model);
  const std::string pooling = o.pooling.empty() ? recipe.encode.pooling : o.pooling;
  const LoadedModel loaded = load_model(o.model, o.weights, o.precision);
  const std::vector<std::string> texts = text_lines(o.files);
  check_usage(!texts.empty(), "encode", "there are no lines to encode");
  const auto rows_of = [&](const std::vector<std::string>& of) {
    const Tensor rows = sentence_rows(*loaded.model, *loaded.tokenizer, of, pooling, recipe.data.sequence_length,
                                      recipe.data.truncation);
    return o.normalize || recipe.encode.normalize ? normalize_rows(rows) : rows;
  };
  const Similarity measure = similarity_of(o.measure.value_or("cosine"));
  std::vector<Line> lines;
  if (o.pairs) {
    const Pairs pairs = pairs_of(texts, o.gold);
    const Tensor scores = row_similarity(rows_of(pairs.first), rows_of(pairs.second), measure);
    for (size_t i = 0; i < texts.size(); ++i)
      lines.push_back({pairs.first[i], pairs.second[i], value_at(scores, int64_t(i))});
    print(lines, o.json);
    if (o.gold) print_correlations(pairs.gold, lines, o.json);
    return 0;
  }
  const Tensor rows = rows_of(texts);
  if (!o.out.empty()) {
    write_safetensors(o.out, {{"rows", rows}}, {{"format", "lithe"}, {"pooling", pooling}});
    std::fprintf(stderr, "%lld rows of %lld numbers in %s, tensor 'rows'\n", static_cast<long long>(rows.rows()),
                 static_cast<long long>(rows.cols()), o.out.c_str());
  }
  if (!o.nearest) return 0;
  const bool among = o.queries.empty();
  const int64_t most = rows.rows() - among;
  check_usage(o.nearest <= most, "encode", "--nearest ", o.nearest, " of only ", most, " other lines");
  const Neighbours near = nearest_rows(among ? rows : rows_of(o.queries), rows, o.nearest, measure, among);
  const std::vector<std::string>& asked = among ? texts : o.queries;
  for (size_t q = 0; q < asked.size(); ++q)
    for (int64_t k = 0; k < near.k; ++k) {
      const size_t at = q * size_t(near.k) + size_t(k);
      lines.push_back({asked[q], texts[size_t(near.index[at])], near.score[at]});
    }
  print(lines, o.json);
  return 0;
}

}  // namespace

Command add_encode(CommandLine& app) {
  auto o = std::make_shared<EncodeOptions>();
  app.add_option("model", o->model, "directory of a training run, usually of an encoder").required();
  app.add_option("files", o->files, "texts, one per line; default or -: standard input");
  app.add_option("--out", o->out,
                 "write the vectors to this safetensors file, as tensor 'rows' f32 [lines, hidden_size]")
      .output_file();
  app.add_option("--pooling", o->pooling,
                 "how the rows of a text become one vector: cls, last, mean or max; default: the recipe's, mean")
      .one_of({"cls", "last", "mean", "max"});
  app.add_flag("--normalize", o->normalize, "scale every vector to length 1");
  app.add_option("--measure", o->measure, "cosine (default) or euclidean (the distance, negative)")
      .one_of({"cosine", "euclidean"});
  app.add_flag("--pairs", o->pairs, "each line holds two texts separated by a tab: print how similar they are");
  app.add_flag("--gold", o->gold,
               "with --pairs: each line ends with a tab and a score; say how the similarities correlate with these "
               "scores");
  app.add_option("--nearest", o->nearest, "for each line, print this many of the lines most similar to it").positive();
  app.add_option("--query", o->queries, "with --nearest: find lines near this text (repeatable)").repeatable();
  add_weights_options(app, o->weights, o->precision);
  app.add_flag("--json", o->json, "print JSON lines");
  add_threads_option(app);
  app.footer("Example: lithe encode runs/bert lines.txt --nearest 3 --query 'a fine film'");
  return [o] { return run_encode(*o); };
}

}  // namespace lithe
