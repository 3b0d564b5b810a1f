#include "lithe/model/tags.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/nn/model_input.h"

namespace lithe {
namespace {

// Whose embeddings read texts with tags, see embedding_owner().
std::vector<std::string> owners(const ModelConfig& config) {
  std::vector<std::string> out{reads_source(config.architecture) ? embedding_owner(config, kSource) : ""};
  for (const auto& [name, section] : config.encoders.entries())
    if (section.find("embedding")) out.push_back(name);
  return out;
}

// Changes an option of that embedding.
void set_option(ModelConfig& config, const std::string& owner, const std::string& key, const Node& value) {
  if (owner.empty()) {
    config.embedding.options.set(key, value);
    return;
  }
  const bool main = owner == kSource;
  Node section = main ? config.encoder : *config.encoders.find(owner);
  Node embedding = *section.find("embedding");
  if (embedding.is_scalar()) {
    Node named = Node::map(embedding.mark());
    named.set("type", embedding);
    embedding = named;
  }
  embedding.set(key, value);
  section.set("embedding", embedding);
  if (main)
    config.encoder = section;
  else
    config.encoders.set(owner, section);
}

Node numbers(const std::vector<int64_t>& values) {
  Node out = Node::list();
  for (const int64_t value : values) out.push(Node::scalar(cat(value)));
  return out;
}

std::vector<TagColumn> tags_of(const PartChoice& embedding, const std::string& owner) {
  std::vector<TagColumn> out;
  const Node* tags = embedding.options.find("tags");
  if (!tags) return out;
  for (const Node& name : tags->items()) out.push_back({.column = name.text(), .owner = owner});
  for (const auto& [name, values] : tags->entries()) {
    out.push_back({.column = name, .owner = owner});
    for (const Node& value : values.items()) out.back().values.push_back(value.text());
  }
  return out;
}

}  // namespace

std::string embedding_place(const std::string& owner) {
  return owner.empty() ? "embedding" : owner == kSource ? "encoder.embedding" : "encoders." + owner + ".embedding";
}

std::string embedding_owner(const ModelConfig& config, const std::string& encoder) {
  const Node* section = encoder == kSource ? &config.encoder : config.encoders.find(encoder);
  return section && section->find("embedding") ? encoder : "";
}

std::vector<TagColumn> tag_columns(const ModelConfig& config) {
  std::vector<TagColumn> out;
  for (const std::string& owner : owners(config))
    for (TagColumn& tags : tag_columns(config, owner)) out.push_back(std::move(tags));
  return out;
}

std::vector<TagColumn> tag_columns(const ModelConfig& config, const std::string& owner) {
  const std::vector<std::string> all = owners(config);
  if (std::find(all.begin(), all.end(), owner) == all.end()) return {};
  if (owner.empty()) return tags_of(config.embedding, owner);
  return tags_of(config.encoder_config(owner).embedding, owner);
}

void set_tag_values(ModelConfig& config, const TagColumn& tags, const std::vector<std::string>& values) {
  Node all = Node::map();
  for (const TagColumn& known : tag_columns(config, tags.owner)) {
    Node list = Node::list();
    for (const std::string& value : known.column == tags.column ? values : known.values)
      list.push(Node::scalar(value, {}, true));
    all.set(known.column, list);
  }
  set_option(config, tags.owner, "tags", all);
}

void check_shared_tags(const ModelConfig& config) {
  if (reads_source(config.architecture)) return;  // each encoder has columns of its own
  std::map<std::string, TagColumn> first;
  for (const TagColumn& tags : tag_columns(config)) {
    if (tags.values.empty()) continue;
    const auto [other, is_new] = first.emplace(tags.column, tags);
    check_usage(is_new || other->second.values == tags.values, "model", embedding_place(tags.owner), ".tags and ",
                embedding_place(other->second.owner), ".tags number the values of '", tags.column, "' in two ways (",
                tags.values.size(), " and ", other->second.values.size(),
                " values), and both read one text; give both the same values");
  }
}

std::vector<std::string> lacking_composites(const ModelConfig& config) {
  std::vector<std::string> out;
  for (const std::string& owner : owners(config)) {
    const PartChoice embedding = owner.empty() ? config.embedding : config.encoder_config(owner).embedding;
    const Node *tags = embedding.options.find("tags"), *known = embedding.options.find("composites");
    if (embedding.type != "input_joint" || !tags || (tags->items().empty() && tags->entries().empty())) continue;
    if (!known || known->items().empty()) out.push_back(owner);
  }
  return out;
}

void set_composites(ModelConfig& config, const std::string& owner, const std::vector<int64_t>& composites) {
  set_option(config, owner, "composites", numbers(composites));
}

}  // namespace lithe
