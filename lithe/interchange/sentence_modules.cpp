// How sentence-transformers makes one row of a text: modules.json and what it names, as its versions 2 to 6 write them.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

struct PoolingMode {
  const char *ours, *theirs, *flag;  // since version 6 a name, before a flag for each
};
constexpr PoolingMode kModes[] = {{"cls", "cls", "pooling_mode_cls_token"},
                                  {"mean", "mean", "pooling_mode_mean_tokens"},
                                  {"max", "max", "pooling_mode_max_tokens"},
                                  {"last", "lasttoken", "pooling_mode_lasttoken"}};

std::string read_pooling(const Path& file) {
  const HfConfig config = HfConfig::from_file(file);
  config.ignore({"word_embedding_dimension", "embedding_dimension", "include_prompt"});
  std::vector<std::string> chosen;
  const std::string named = config.text("pooling_mode", "");
  for (const PoolingMode& mode : kModes)
    if (config.flag(mode.flag, false) || named == mode.theirs) chosen.push_back(mode.ours);
  config.only("pooling_mode", {"cls", "mean", "max", "lasttoken"});
  for (const char* other : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"})
    config.only(other, {"false"});
  config.finish();
  check(chosen.size() == 1, "import", "'", config.origin(), "' must choose one way of pooling, it chooses ",
        chosen.size());
  return chosen[0];
}

// The longest text of a model whose sentence_bert_config.json does not say it; 0: nothing does.
int64_t tokenizer_limit(const Path& model) {
  const Path file = model / "tokenizer_config.json";
  if (!fs::exists(file)) return 0;
  constexpr double kNone = 1e9;  // what stands for "no limit" there is about 1e30
  const double most = HfConfig::from_file(file).number("model_max_length", 0);
  return most < kNone ? int64_t(most) : 0;
}

void read_limits(const Path& model, Recipe& recipe, std::vector<std::string>& notes) {
  const Path file = model / "sentence_bert_config.json";
  int64_t most = 0;
  if (fs::exists(file)) {
    const HfConfig config = HfConfig::from_file(file);
    most = config.integer("max_seq_length", 0);
    if (config.flag("do_lower_case", false))
      notes.push_back("sentence_bert_config.json asks for lower case, which the tokenizer's own rules must do");
    config.only("transformer_task", {"feature-extraction"});
    config.only("module_output_name", {"token_embeddings"});
    if (config.has("modality_config")) {
      const HfConfig kinds = config.section("modality_config"), text = kinds.section("text");
      text.only("method", {"forward"});
      text.only("method_output_name", {"last_hidden_state"});
      text.finish();
      kinds.finish();
    }
    config.finish();
  }
  if (!most) most = tokenizer_limit(model);
  if (most > 0) recipe.data.sequence_length = std::min(recipe.model.max_position_embeddings, most);
}

// Batches are padded there, and it needs a token for that, which no row sees.
void write_padding(const Path& file, const Tokenizer& tokenizer) {
  const Specials& s = tokenizer.specials();
  const std::optional<int32_t> pad = s.pad ? s.pad : s.sep ? s.sep : s.eos;
  if (s.pad || !pad) return;
  Json settings = parse_json(read_file(file), file.string());
  settings["pad_token"] = tokenizer.token(*pad);
  write_file(file, dump(settings, 2) + "\n");
}

}  // namespace

void read_sentence_modules(const Path& model, Recipe& recipe, std::vector<std::string>& notes) {
  const Path file = model / "modules.json";
  if (!fs::exists(file)) return;
  check(recipe.model.architecture == Architecture::encoder, "import", "'", file.string(),
        "': sentence modules around a causal model are not supported; take the file out of a copy of the directory");
  const Node modules = parse_json_node(read_file(file, uint64_t(1) << 20), file.string());
  check(modules.is_list(), "import", "'", file.string(), "' must hold a list of modules");
  for (const Node& module : modules.items()) {
    const HfConfig m(module, file.string());
    const std::string type = m.text("type"), path = m.text("path", "");
    m.ignore({"idx", "name"});
    m.finish();
    check(path.find("..") == std::string::npos && !path.starts_with("/"), "import", "'", file.string(), "': path '",
          path, "' points outside of the model's directory");
    if (type.ends_with(".Transformer")) {
      check(path.empty(), "import", "'", file.string(), "': the transformer stands in '", path,
            "'; import that directory, with modules.json beside it");
    } else if (type.ends_with(".Pooling")) {
      recipe.encode.pooling = read_pooling(model / path / "config.json");
    } else if (type.ends_with(".Normalize")) {
      recipe.encode.normalize = true;
    } else {
      fail("import", "'", file.string(), "': module ", type,
           " is not supported; Transformer, Pooling and Normalize are");
    }
  }
  read_limits(model, recipe, notes);
}

void write_sentence_modules(const Path& out, const Recipe& recipe, const Tokenizer& tokenizer) {
  Json modules = Json::array();
  const auto add = [&](const char* kind, const std::string& path) {
    modules.push_back({{"idx", modules.size()},
                       {"name", cat(modules.size())},
                       {"path", path},
                       {"type", cat("sentence_transformers.models.", kind)}});
  };
  add("Transformer", "");
  add("Pooling", "1_Pooling");
  if (recipe.encode.normalize) add("Normalize", "2_Normalize");
  Json pooling = {{"word_embedding_dimension", recipe.model.hidden_size}};
  for (const PoolingMode& mode : kModes) pooling[mode.flag] = recipe.encode.pooling == mode.ours;
  make_directory(out / "1_Pooling");
  write_file(out / "1_Pooling" / "config.json", dump(pooling, 2) + "\n");
  write_file(out / "sentence_bert_config.json",
             dump(Json({{"max_seq_length", recipe.data.sequence_length}, {"do_lower_case", false}}), 2) + "\n");
  write_padding(out / "tokenizer_config.json", tokenizer);
  write_file(out / "modules.json", dump(modules, 2) + "\n");
}

}  // namespace lithe
