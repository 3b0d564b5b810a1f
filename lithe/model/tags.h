// The tags that embeddings read beside tokens, where the values of a column are learnt from a treebank.
#pragma once

#include "lithe/model/config.h"

namespace lithe {

/// A column of tags that an embedding reads, and its values, in the order of their numbers from 1; none: they are not
/// known yet.
struct TagColumn {
  std::string column;
  std::vector<std::string> values = {};
  std::string owner = {};  // of the embedding, see embedding_owner()
};
/// The encoder (kSource: model.encoder) whose section holds the embedding of encoder `encoder`; empty: section model
/// itself, where all others have theirs from.
std::string embedding_owner(const ModelConfig& config, const std::string& encoder);
/// Where that embedding stands in section model: "encoders.syntax.embedding".
std::string embedding_place(const std::string& owner);
/// The columns of the embeddings that read texts with tags: that of the model (of model.encoder, where that has one),
/// and those of further encoders that have their own.
std::vector<TagColumn> tag_columns(const ModelConfig& config);
/// The columns of the embedding of one owner.
std::vector<TagColumn> tag_columns(const ModelConfig& config, const std::string& owner);
/// Gives a column of one embedding its values.
void set_tag_values(ModelConfig& config, const TagColumn& tags, const std::vector<std::string>& values);
/// Encoders that read one text have one column of a name, so that its values are numbered alike in all. Fails (usage)
/// where they are not.
void check_shared_tags(const ModelConfig& config);
/// The owners of embeddings that have a row for each composite of a token and its tags, which are not known yet.
std::vector<std::string> lacking_composites(const ModelConfig& config);
/// Each a token and its tags, one after another (option `composites` of input_joint).
void set_composites(ModelConfig& config, const std::string& owner, const std::vector<int64_t>& composites);

}  // namespace lithe
