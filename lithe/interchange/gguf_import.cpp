#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/interchange/import_parts.h"

namespace lithe {
namespace {

class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const Path& path) : file_(path) {
    for (const auto& [name, e] : file_.entries())
      entries_[name] = {e.shape, e.type == GgmlType::bf16 ? DType::bf16 : DType::f32, name_of(e.type), path.string()};
  }
  const GgufFile& file() const { return file_; }
  Tensor read(const std::string& name) const override { return file_.read(name); }
  std::string place() const override { return "'" + file_.origin() + "'"; }

 private:
  GgufFile file_;
};

// Factors on the angles of pairs of channels (Llama 3), which stand in a tensor.
void set_factors(const GgufSource& source, Mapping& mapping) {
  if (!source.has("rope_freqs.weight")) return;
  const Tensor factors = source.read("rope_freqs.weight");
  Node list = Node::list();
  for (int64_t i = 0; i < factors.numel(); ++i) list.push(Node::scalar(number_text(value_at(factors, i))));
  mapping.model.position.options.set("scaling", Node::scalar("factors"));
  mapping.model.position.options.set("frequency_factors", list);
  mapping.dropped.push_back("rope_freqs.weight");
}

}  // namespace

ImportReport import_gguf(const ImportOptions& o) {
  NewDirectory out(o.out, "import", o.overwrite);
  const GgufSource source(o.from);
  const GgufFile& file = source.file();
  const auto named = file.metadata().find("general.architecture");
  const std::string* architecture = named == file.metadata().end() ? nullptr : named->second.get<std::string>();
  check_usage(architecture && is_gguf_architecture(*architecture), "import", "'", o.from.string(),
              "': general.architecture is '", architecture ? *architecture : "missing",
              "'; llama, qwen2, qwen3, olmo2 and gpt2 can be read");
  const Json written = config_of_gguf(file, *architecture);
  const HfConfig config(parse_json_node(dump(written), o.from.string()), o.from.string());
  Mapping mapping = family_of(*architecture, o.from.string()).read(config, nullptr);
  config.finish();
  rename_for_gguf(mapping, *architecture);
  set_factors(source, mapping);
  const auto parameters = parameters_of(source, mapping);

  Recipe recipe;
  recipe.model = mapping.model;
  constexpr int64_t kWindow = 2048;
  recipe.data.sequence_length = std::min(mapping.model.max_position_embeddings, kWindow);
  recipe.generate.do_sample = false;
  ImportReport report{.model_type = *architecture,
                      .parameters = 0,
                      .tensors = int64_t(source.entries().size()),
                      .dtype = dtypes_of(parameters),
                      .dropped = {},
                      .notes = {}};
  std::set<std::string> types;
  for (const auto& [name, entry] : source.entries()) types.insert(entry.type);
  report.notes.push_back("stored as " + join({types.begin(), types.end()}));
  std::shared_ptr<const Tokenizer> tokenizer;
  if (o.tokenizer.empty()) {
    tokenizer = tokenizer_of_gguf(file, recipe.generate.add_bos_token);
  } else {
    tokenizer = load_tokenizer(o.tokenizer);
    read_generation(o.from, o.tokenizer, *tokenizer, recipe.generate, report.notes);
    keep_chat_templates(o.tokenizer, out.path(), report.notes);
  }
  for (const auto& [name, tensor] : parameters) report.parameters += tensor.shape.numel();
  write_run(out, recipe, parameters, *tokenizer,
            {{"format", "gguf"}, {"model_type", *architecture}, {"config", written}});
  out.commit();
  return report;
}

}  // namespace lithe
