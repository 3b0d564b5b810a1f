// Pictures as rows of patches: the section data.image of a recipe.
#pragma once

#include "lithe/base/fields.h"
#include "lithe/data/features.h"
#include "lithe/data/image_files.h"

namespace lithe {

struct ImageConfig {
  int64_t height = 0, width = 0, channels = 3, patch_size = 4;  // height 0: recipes without pictures
  std::string fit = "stretch";
  std::vector<double> mean, std;  // empty: 0.5
  std::vector<int64_t> raw;
  int64_t crop_padding = 0;
  bool flip = false;
  double mix_up = 0;

  void fields(Fields& f);
  /// A recipe has pictures.
  bool given() const { return height > 0; }
  int64_t columns() const { return width ? width : height; }
  void validate() const;
};

/// The picture as the model reads it, in training with its augmentation: normalised, [height, columns(), channels].
Pixels prepared_image(const Image& image, const ImageConfig& config, const FeatureDraw& draw);

/// The reader of modality `image`: a row a patch, of patch_size^2 * channels numbers (patchify).
std::shared_ptr<const FeatureReader> image_reader(const ImageConfig& config, const Path& cache);

}  // namespace lithe
