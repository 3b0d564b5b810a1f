// Which patches of a picture a prediction looks at: attention roll-out.
#pragma once

#include "lithe/analyze/inspection.h"
#include "lithe/recipe/recipe.h"

namespace lithe::analyze {

/// The product of the layers' maps, each (I + its mean over heads)/2, the first layer's on the right: [L, L], rows sum
/// to 1 where those of the maps do [Abnar and Zuidema 2020]. Layers without maps count as the identity. Fails where a
/// map is not of L tokens.
std::vector<double> attention_rollout(const std::vector<LayerView>& layers, int64_t tokens);

/// A picture, with a text beside it where the model reads both, through an encoder that learnt a task of classes:
/// as inspect_model, and ModelView::picture has the roll-out of the row (or the mean of rows) that is classified.
/// Fails (usage) on other models.
ModelView inspect_picture(const std::string& name, const LoadedModel& loaded, const Recipe& recipe,
                          const std::string& text, const std::string& picture);

}  // namespace lithe::analyze
