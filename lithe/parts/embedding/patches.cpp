// Patches of a picture: a linear map of each one's numbers, which is a convolution whose stride is its size
// [Dosovitskiy et al. 2021; TB 6.5.4].
#include "lithe/ops/hash_embedding.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/patch_positions.h"

namespace lithe {
namespace {

struct PatchesConfig {
  int64_t height = 0, width = 0, num_channels = 3, patch_size = 4, position_height = 0, position_width = 0;
  std::string position = "none";
  bool modality_row = false;
  void fields(Fields& f) {
    f("height", height,
      "height of a picture in pixels; equals data.image.height; 0: any number of patches, without learned positions",
      between(0, 1 << 14));
    f("width", width, "width of a picture in pixels; 0: the same as height", between(0, 1 << 14));
    f("num_channels", num_channels, "3 (RGB) or 1 (grey)", between(1, 1 << 10));
    f("patch_size", patch_size,
      "side P of a patch in pixels; a patch is P^2 * num_channels numbers, ordered by row, column, channel",
      between(1, 1 << 10));
    f("position", position,
      "learned: add a learned vector for each patch position; model.position then does not apply to the patches of an "
      "encoder. none: model.position applies",
      one_of({"none", "learned"}));
    f("position_height", position_height,
      "height in pixels of the pictures for which the positions were learned; for other sizes they are interpolated; "
      "0: height",
      between(0, 1 << 14));
    f("position_width", position_width, "width in pixels of these pictures; 0: the same as position_height",
      between(0, 1 << 14));
    f("modality_row", modality_row, "add one learned vector to every patch (modality embedding)");
  }
};

// Patches of a picture of `height` x `width` pixels; no sides: one patch, of any number.
PatchGrid patches_of(int64_t height, int64_t width, int64_t patch) {
  if (!width) width = height;
  check_usage(height % patch == 0 && width % patch == 0, "patches", "a picture of ", height, " x ", width,
              " pixels has no whole patches of ", patch, " x ", patch, "; choose sides that are multiples of it");
  return height ? PatchGrid{height / patch, width / patch} : PatchGrid{};
}

// spec: app.vit | architecture | patches as tokens, a class token, learned places, an encoder | TB 6.5.4, Fig 6.19
class Patches final : public PlacedEmbedding {
 public:
  Patches(const Scope& scope, const PatchesConfig& config, const Args& args)
      : Patches(scope, config, args, patches_of(config.height, config.width, config.patch_size)) {}
  int64_t width() const override { return width_; }
  int64_t rows() const override { return rows_; }
  bool places() const override { return positions_.places(); }
  Var forward(const Tensor& tokens, const Pass&) const override {
    check_codes("patches", tokens, width_);
    return positions_.add_to(projection_(code_numbers(tokens, dtype_)));
  }

 private:
  Patches(const Scope& scope, const PatchesConfig& config, const Args& args, const PatchGrid& grid)
      : dtype_(scope.context().compute),
        width_(1 + config.patch_size * config.patch_size * config.num_channels),
        rows_(config.height ? grid.cells() : 0),
        projection_(scope / "projection", width_ - 1, Axis::hidden(args.hidden_size), true),
        positions_(scope,
                   {.position = config.position,
                    .grid = grid,
                    .table = config.position_height
                                 ? patches_of(config.position_height, config.position_width, config.patch_size)
                                 : grid,
                    .modality_row = config.modality_row},
                   args.hidden_size) {
    check_usage(config.height || config.position == "none", "patches",
                "position learned needs the size of the pictures; give height");
    check_usage(!args.token_width || args.token_width == width_, "embedding", "patches read tokens of ", width_,
                " ints (a code and ", width_ - 1, " numbers), the tokenizer's are ", args.token_width,
                "; they are for model.modalities, with data.image");
  }
  DType dtype_;
  int64_t width_, rows_;
  Linear projection_;
  PatchPositions positions_;
};

}  // namespace

void register_embedding_patches(Registry& registry) {
  registry.add<Embedding, Patches, PatchesConfig>(
      "patches",
      {.summary = "linear map of picture patches, with learned positions (ViT)",
       .source = "Dosovitskiy et al. 2021; TB 6.5.4",
       .token_width = 1 + PatchesConfig().patch_size * PatchesConfig().patch_size * PatchesConfig().num_channels,
       .payload_below = 0x40000000,
       .samples = {"{modality_row: true}", "{height: 4, position: learned}"}});
}

}  // namespace lithe
