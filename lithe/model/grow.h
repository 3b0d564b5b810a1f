// A larger model from a trained one: more layers, or more channels.
#pragma once

#include "lithe/model/model.h"

namespace lithe {

/// The configuration with `layers` layers, a multiple of what it has: layer l is as layer l mod L.
/// Fails (usage) where the layers do not repeat.
ModelConfig deepened(const ModelConfig& config, int64_t layers);

/// The configuration with `factor` times the channels, heads (of the same width) and hidden units; a tied head becomes
/// a matrix of its own.
ModelConfig widened(const ModelConfig& config, int64_t factor);

/// Gives a model made from deepened() the values of the shallow one: layer l those of layer l mod L. `zero_residual`:
/// what new layers add starts as zero, so that with pre-norm the function is the same.
void grow_depth(const Model& from, Model& to, bool zero_residual);

/// "layers.7.ffn.up.weight" of a deeper model as the name that it grows from, of one of `layers` layers; other names
/// stay.
std::string shallow_name(const std::string& name, int64_t layers);

/// Gives a model made from widened() the values of the narrow one: matrices are tiled and divided by the copies of
/// their inputs, vectors and tables are tiled. `noise`: each number is multiplied by 1 + noise z, z normal, so that
/// copies can become different.
void grow_width(const Model& from, Model& to, double noise, uint64_t seed);

/// The largest difference of both models' predictions of some random tokens, relative to the largest logit.
double difference_of_predictions(const Model& a, const Model& b);

}  // namespace lithe
