#include "lithe/interchange/import_parts.h"

#include <algorithm>

#include "lithe/base/error.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMost = uint64_t(1) << 28;
constexpr const char *kChatTemplate = "chat_template.jinja", *kMoreChatTemplates = "additional_chat_templates";

nlohmann::json read_json(const Path& file) { return parse_json_sorted(read_file(file, kMost), file.string()); }

}  // namespace

bool begins_with_bos(const Path& files, const Tokenizer& tokenizer) {
  if (!tokenizer.specials().bos) return false;
  const std::string bos = tokenizer.token(*tokenizer.specials().bos);
  const Path directory = fs::is_directory(files) ? files : files.parent_path();
  if (fs::exists(directory / "tokenizer.json")) {
    const auto tree = read_json(directory / "tokenizer.json");
    std::vector<nlohmann::json> processors;
    if (tree.is_object() && tree.contains("post_processor")) processors.push_back(tree["post_processor"]);
    while (!processors.empty()) {
      const nlohmann::json p = processors.back();
      processors.pop_back();
      if (!p.is_object() || !p.contains("type")) continue;
      if (p["type"] == "Sequence" && p.contains("processors") && p["processors"].is_array())
        for (const auto& one : p["processors"]) processors.push_back(one);
      if (p["type"] != "TemplateProcessing" || !p.contains("single") || !p["single"].is_array() || p["single"].empty())
        continue;
      const auto& first = p["single"][0];
      if (first.is_object() && first.contains("SpecialToken") && first["SpecialToken"].is_object() &&
          first["SpecialToken"].value("id", "") == bos)
        return true;
    }
    return false;
  }
  if (fs::exists(directory / "tokenizer_config.json")) {
    const auto tree = read_json(directory / "tokenizer_config.json");
    if (tree.is_object() && tree.contains("add_bos_token") && tree["add_bos_token"].is_boolean())
      return tree["add_bos_token"].get<bool>();
  }
  return fs::exists(directory / "tokenizer.model");
}

namespace {

std::vector<double> numbers_at(const nlohmann::json& tree, const char* key, double otherwise, const Path& file) {
  if (!tree.contains(key)) return {otherwise};
  check(tree[key].is_array() && !tree[key].empty(), "import", "'", file.string(), "': ", key, " must be numbers");
  std::vector<double> out;
  for (const auto& number : tree[key]) {
    check(number.is_number(), "import", "'", file.string(), "': ", key, " must be numbers");
    out.push_back(number.get<double>());
  }
  return out;
}

}  // namespace

void read_pictures(const Path& model, Recipe& recipe) {
  const PartChoice patches = read_part(*recipe.model.modalities.find("image"), "image", "embedding", "model.modalities",
                                       recipe.model.embedding);
  ImageConfig& image = recipe.data.image;
  image.height = option_integer(patches, "height");
  image.channels = option_integer(patches, "num_channels");
  image.patch_size = option_integer(patches, "patch_size");
  recipe.data.tokenizer.type = "none";
  recipe.data.sequence_length = 1 + (image.height / image.patch_size) * (image.height / image.patch_size);
  const Path file = model / "preprocessor_config.json";
  if (!fs::exists(file)) return;
  const auto tree = read_json(file);
  const bool normalises = !tree.contains("do_normalize") || tree["do_normalize"] == true;
  image.mean = normalises ? numbers_at(tree, "image_mean", 0.5, file) : std::vector<double>{0};
  image.std = normalises ? numbers_at(tree, "image_std", 0.5, file) : std::vector<double>{1};
}

void write_pictures(const Path& directory, const ImageConfig& image) {
  const auto of = [](const std::vector<double>& list, int64_t channels) {
    return list.size() == size_t(channels) ? list : std::vector<double>(size_t(channels), list.empty() ? 0.5 : list[0]);
  };
  const Json config = {{"image_processor_type", "ViTImageProcessor"},
                       {"do_resize", true},
                       {"size", {{"height", image.height}, {"width", image.columns()}}},
                       {"resample", 2},  // bilinear
                       {"do_rescale", true},
                       {"rescale_factor", 1.0 / 255},
                       {"do_normalize", true},
                       {"image_mean", of(image.mean, image.channels)},
                       {"image_std", of(image.std, image.channels)}};
  write_file(directory / "preprocessor_config.json", dump(config, 2) + "\n");
}

void read_generation(const Path& model, const Path& tokenizer_files, const Tokenizer& tokenizer, GenerateConfig& to,
                     std::vector<std::string>& notes) {
  to.add_bos_token = begins_with_bos(tokenizer_files, tokenizer);
  to.do_sample = false;
  const Path file = model / "generation_config.json";
  if (!fs::exists(file)) return;
  const HfConfig config = HfConfig::from_file(file);
  to.do_sample = config.flag("do_sample", false);
  to.temperature = config.number("temperature", 1);
  // The library keeps the 50 most likely tokens where nothing else is said.
  to.top_k = config.integer("top_k", to.do_sample ? 50 : 0);
  to.top_p = config.number("top_p", 1);
  to.repetition_penalty = config.number("repetition_penalty", 1);
  to.max_new_tokens = config.integer("max_new_tokens", to.max_new_tokens);
  if (const Node* ends = config.find("eos_token_id"))
    for (const Node& id : ends->is_list() ? ends->items() : std::vector<Node>{*ends}) {
      const int64_t token = HfConfig(
                                [&] {
                                  Node one = Node::map();
                                  one.set("eos_token_id", id);
                                  return one;
                                }(),
                                config.origin())
                                .integer("eos_token_id");
      check(token >= 0 && token < tokenizer.vocab_size(), "import", "'", file.string(), "': eos_token_id ", token,
            " is not among the tokenizer's ", tokenizer.vocab_size(), " entries");
      if (tokenizer.specials().eos == int32_t(token)) continue;
      if (const std::string text = tokenizer.token(int32_t(token)); !text.empty()) to.stop.push_back(text);
    }
  for (const auto& [key, plain] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"num_beams", {"1"}},
                                                                     {"no_repeat_ngram_size", {"0"}},
                                                                     {"typical_p", {"1.0", "1"}},
                                                                     {"min_p", {"0"}},
                                                                     {"min_new_tokens", {"0"}},
                                                                     {"penalty_alpha", {}},
                                                                     {"guidance_scale", {"1", "1.0"}},
                                                                     {"bad_words_ids", {}},
                                                                     {"forced_bos_token_id", {}},
                                                                     {"forced_eos_token_id", {}},
                                                                     {"suppress_tokens", {}},
                                                                     {"begin_suppress_tokens", {}},
                                                                     {"epsilon_cutoff", {"0", "0.0"}},
                                                                     {"eta_cutoff", {"0", "0.0"}}})
    config.only(key, plain);
  config.ignore({"_from_model_config", "renormalize_logits", "output_logits"});
  for (const std::string& key : config.unread())
    if (config.has(key)) notes.push_back(cat("generation_config.json: ", key, " is not applied by `generate`"));
}

void keep_chat_templates(const Path& tokenizer_files, const Path& out, std::vector<std::string>& notes) {
  const Path from = fs::is_directory(tokenizer_files) ? tokenizer_files : tokenizer_files.parent_path(),
             settings = from / "tokenizer_config.json";
  std::map<std::string, std::string> templates;  // by file
  const auto named = [](const std::string& name) {
    return name == "default" ? std::string(kChatTemplate) : cat(kMoreChatTemplates, "/", name, ".jinja");
  };
  if (fs::exists(settings)) {
    const auto tree = read_json(settings);
    const auto given = tree.is_object() ? tree.value("chat_template", nlohmann::json()) : nlohmann::json();
    if (given.is_string()) templates[kChatTemplate] = given.get<std::string>();
    for (const auto& one : given.is_array() ? given : nlohmann::json::array()) {
      const bool whole = one.is_object() && one.contains("name") && one["name"].is_string() &&
                         one.contains("template") && one["template"].is_string();
      const std::string name = whole ? one["name"].get<std::string>() : "";
      check(whole && !name.empty() && name.find_first_of("/\\.") == std::string::npos, "import", "'", settings.string(),
            "': chat_template must be text, or a list of templates with a plain name each");
      templates[named(name)] = one["template"].get<std::string>();
    }
  }
  if (fs::exists(from / kChatTemplate)) templates[kChatTemplate] = read_file(from / kChatTemplate, kMost);
  if (fs::is_directory(from / kMoreChatTemplates))
    for (const auto& file : fs::directory_iterator(from / kMoreChatTemplates))
      if (file.path().extension() == ".jinja")
        templates[named(file.path().stem().string())] = read_file(file.path(), kMost);
  for (const auto& [file, text] : templates) {
    make_directory((out / file).parent_path());
    write_file(out / file, text);
  }
  if (templates.empty()) return;
  notes.push_back(cat(kChatTemplate,
                      " is kept: `lithe chat` and `lithe serve` run it; `lithe generate` takes the whole "
                      "prompt, with its special tokens as text"));
}

void copy_chat_templates(const Path& run, const Path& out) {
  if (fs::exists(run / kChatTemplate)) write_file(out / kChatTemplate, read_file(run / kChatTemplate, kMost));
  if (!fs::is_directory(run / kMoreChatTemplates)) return;
  make_directory(out / kMoreChatTemplates);
  for (const auto& file : fs::directory_iterator(run / kMoreChatTemplates))
    write_file(out / kMoreChatTemplates / file.path().filename(), read_file(file.path(), kMost));
}

void copy_companions(const Path& run, const Path& out) {
  const char* generation = "generation_config.json";
  if (fs::exists(run / generation)) write_file(out / generation, read_file(run / generation));
  copy_chat_templates(run, out);
}

void read_translation(const Path& model, TranslateConfig& to, std::vector<std::string>& notes) {
  const Path file = model / "generation_config.json";
  if (!fs::exists(file)) return;
  const HfConfig config = HfConfig::from_file(file);
  to.num_beams = std::max<int64_t>(1, config.integer("num_beams", 1));
  to.length_penalty = config.number("length_penalty", 1);
  to.min_new_tokens = 0;  // as there
  const Node* early = config.find("early_stopping");
  to.early_stopping = early && early->is_scalar() && early->text() == "true";
  for (const char* key : {"no_repeat_ngram_size", "min_length", "forced_bos_token_id", "repetition_penalty"})
    if (config.has(key) && config.number(key) != 0 &&
        (key != std::string("repetition_penalty") || config.number(key) != 1))
      notes.push_back(cat("generation_config.json: ", key, " is not applied by `translate`"));
}

}  // namespace lithe
