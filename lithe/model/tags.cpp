#include "lithe/model/tags.h"

#include "lithe/base/error.h"

namespace lithe {
namespace {

// The section that holds the embedding which reads tags: model.encoder where that names one, else the model.
const Node* encoder_embedding(const ModelConfig& config) {
  return reads_source(config.architecture) ? config.encoder.find("embedding") : nullptr;
}

// An embedding's part, and its options: the model's own, or those of an encoder with one of its own, which are kept in
// `space`.
struct Chosen {
  const std::string& type;
  const Node& options;
};
Chosen embedding_of(const ModelConfig& config, PartChoice& space) {
  if (!encoder_embedding(config)) return {config.embedding.type, config.embedding.options};
  space = config.encoder_config().embedding;
  return {space.type, space.options};
}

// Changes an option of that embedding.
void set_option(ModelConfig& config, const std::string& key, const Node& value) {
  const Node* of_encoder = encoder_embedding(config);
  if (!of_encoder) {
    config.embedding.options.set(key, value);
    return;
  }
  Node embedding = *of_encoder;
  if (embedding.is_scalar()) {
    Node named = Node::map(embedding.mark());
    named.set("type", embedding);
    embedding = named;
  }
  embedding.set(key, value);
  config.encoder.set("embedding", embedding);
}

Node numbers(const std::vector<int64_t>& values) {
  Node out = Node::list();
  for (const int64_t value : values) out.push(Node::scalar(cat(value)));
  return out;
}

}  // namespace

std::vector<TagColumn> tag_columns(const ModelConfig& config) {
  std::vector<TagColumn> out;
  PartChoice space;
  const Node* tags = embedding_of(config, space).options.find("tags");
  if (!tags) return out;
  for (const Node& name : tags->items()) out.push_back({name.text(), {}});
  for (const auto& [name, values] : tags->entries()) {
    out.push_back({name, {}});
    for (const Node& value : values.items()) out.back().values.push_back(value.text());
  }
  return out;
}

void set_tag_values(ModelConfig& config, const std::string& column, const std::vector<std::string>& values) {
  Node tags = Node::map();
  for (const TagColumn& known : tag_columns(config)) {
    Node list = Node::list();
    for (const std::string& value : known.column == column ? values : known.values)
      list.push(Node::scalar(value, {}, true));
    tags.set(known.column, list);
  }
  set_option(config, "tags", tags);
}

bool lacks_composites(const ModelConfig& config) {
  PartChoice space;
  const Chosen embedding = embedding_of(config, space);
  const Node *tags = embedding.options.find("tags"), *known = embedding.options.find("composites");
  if (embedding.type != "input_joint") return false;
  return !tag_columns(config).empty() && tags && (!known || known->items().empty());
}

void set_composites(ModelConfig& config, const std::vector<int64_t>& composites) {
  set_option(config, "composites", numbers(composites));
}

}  // namespace lithe
