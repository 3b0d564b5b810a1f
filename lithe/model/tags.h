// The tags that embeddings read beside tokens, where the values of a column are learnt from a treebank.
#pragma once

#include "lithe/model/config.h"

namespace lithe {

/// A column of tags that the embedding of the model (of the encoder, where there is one) reads, and its values, in the
/// order of their numbers from 1; none: they are not known yet.
struct TagColumn {
  std::string column;
  std::vector<std::string> values;
};
std::vector<TagColumn> tag_columns(const ModelConfig& config);
/// Gives a column its values.
void set_tag_values(ModelConfig& config, const std::string& column, const std::vector<std::string>& values);
/// The embedding has a row for each composite of a token and its tags, and they are not known yet.
bool lacks_composites(const ModelConfig& config);
/// Each a token and its tags, one after another (option `composites` of input_joint).
void set_composites(ModelConfig& config, const std::vector<int64_t>& composites);

}  // namespace lithe
