// A compact convolutional tokenizer (CCT): pictures through layers of convolution 3 x 3, ReLU and the largest of
// 3 x 3 at every second place; each place that is left is a token [Hassani et al. 2021].
#include "lithe/ops/basic.h"
#include "lithe/ops/hash_embedding.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pool.h"
#include "lithe/parts/common/patch_positions.h"
#include "lithe/parts/common/windows.h"

namespace lithe {
namespace {

struct ConvPatchesConfig {
  int64_t height = 4, width = 0, num_channels = 3, num_layers = 2, channels = 64;
  std::string position = "learned";
  int64_t position_height = 0, position_width = 0;
  bool modality_row = false;
  void fields(Fields& f) {
    f("height", height, "height of a picture in pixels; equals data.image.height", between(1, 1 << 14));
    f("width", width, "width of a picture in pixels; 0: the same as height", between(0, 1 << 14));
    f("num_channels", num_channels, "3 (RGB) or 1 (grey)", between(1, 1 << 10));
    f("num_layers", num_layers,
      "convolutions, each of which halves both sides; data.image.patch_size must be 2^num_layers", between(1, 6));
    f("channels", channels, "output channels of all convolutions except the last, which has hidden_size",
      between(1, 1 << 16));
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
  int64_t patch() const { return int64_t(1) << num_layers; }
};

// Places of `height` x `width` in each of `pictures`, row by row.
struct Plane {
  int64_t pictures, height, width;
  int64_t places() const { return pictures * height * width; }
  // Of the 3 x 3 around (y, x) of a picture, row by row: its place, or -1 outside.
  template <class F>
  void around(int64_t picture, int64_t y, int64_t x, F f) const {
    for (int64_t r = y - 1; r <= y + 1; ++r)
      for (int64_t c = x - 1; c <= x + 1; ++c)
        f(r < 0 || r >= height || c < 0 || c >= width ? int64_t(-1) : (picture * height + r) * width + c);
  }
  template <class F>
  void each(int64_t step, F f) const {
    for (int64_t p = 0; p < pictures; ++p)
      for (int64_t y = 0; y < height; y += step)
        for (int64_t x = 0; x < width; x += step) f(p, y, x);
  }
};

// The 3 x 3 around every place, side by side: rows [places, C] to [places, 9 C], zeros outside.
Var windows(const Var& rows, const Plane& plane) {
  std::vector<int64_t> from;
  from.reserve(size_t(9 * plane.places()));
  plane.each(1, [&](int64_t p, int64_t y, int64_t x) {
    plane.around(p, y, x, [&](int64_t place) { from.push_back(place < 0 ? plane.places() : place); });
  });
  return windows_of(rows, from, 9);
}

// The largest of the 3 x 3 around every second place.
Var halved(const Var& rows, const Plane& plane) {
  std::vector<int64_t> from, groups{0};
  plane.each(2, [&](int64_t p, int64_t y, int64_t x) {
    plane.around(p, y, x, [&](int64_t place) {
      if (place >= 0) from.push_back(place);
    });
    groups.push_back(int64_t(from.size()));
  });
  return max_pool_rows(rows, std::move(from), std::move(groups));
}

PatchGrid conv_grid(int64_t height, int64_t width, int64_t patch) {
  if (!width) width = height;
  check_usage(height % patch == 0 && width % patch == 0, "conv_patches", "a picture of ", height, " x ", width,
              " pixels cannot be halved to places of ", patch, " x ", patch,
              " pixels; choose multiples, or fewer layers");
  return {height / patch, width / patch};
}

class ConvPatches final : public PlacedEmbedding {
 public:
  ConvPatches(const Scope& scope, const ConvPatchesConfig& config, const Args& args)
      : config_(config),
        dtype_(scope.context().compute),
        grid_(conv_grid(config.height, config.width, config.patch())),
        positions_(
            scope,
            {.position = config.position,
             .grid = grid_,
             .table = config.position_height ? conv_grid(config.position_height, config.position_width, config.patch())
                                             : grid_,
             .modality_row = config.modality_row},
            args.hidden_size) {
    check_usage(!args.token_width || args.token_width == width(), "embedding", "conv_patches reads tokens of ", width(),
                " ints (a code and ", width() - 1, " numbers), the tokenizer's are ", args.token_width,
                "; it is for model.modalities, with data.image");
    Axis in = 9 * config.num_channels;
    for (int64_t i = 0; i < config.num_layers; ++i) {
      const bool last = i + 1 == config.num_layers;
      const Axis out = last ? Axis::hidden(args.hidden_size) : Axis(config.channels);
      convolutions_.emplace_back(scope / cat("convolutions.", i), in, out, false);
      in = 9 * config.channels;
    }
  }
  int64_t width() const override { return 1 + config_.patch() * config_.patch() * config_.num_channels; }
  int64_t rows() const override { return grid_.cells(); }
  bool places() const override { return positions_.places(); }
  Var forward(const Tensor& tokens, const Pass&) const override {
    check_codes("conv_patches", tokens, width());
    check(tokens.dim(0) % rows() == 0, "embedding", "pictures of ", grid_.rows, " x ", grid_.columns, " patches have ",
          rows(), " rows each, got ", tokens.dim(0), " in all");
    const int64_t patch = config_.patch();
    Plane plane{tokens.dim(0) / rows(), grid_.rows * patch, grid_.columns * patch};
    Var x(pixels(code_numbers(tokens, dtype_), plane));
    for (const Linear& convolution : convolutions_) {
      // ReLU of the largest is the largest ReLU, in value and gradient, of a quarter of the rows.
      x = activate(kernels::Activation::relu, halved(convolution(windows(x, plane)), plane));
      plane = {plane.pictures, plane.height / 2, plane.width / 2};
    }
    return positions_.add_to(x);
  }

 private:
  ConvPatchesConfig config_;
  DType dtype_;
  PatchGrid grid_;
  PatchPositions positions_;
  std::vector<Linear> convolutions_;

  // Patches [places / P^2, P^2 C] to pixels [places, C].
  Tensor pixels(const Tensor& patches, const Plane& plane) const {
    const int64_t patch = config_.patch(), channels = config_.num_channels, run = patch * channels;
    const Tensor out = empty({plane.places(), channels}, dtype_, patches.device());
    if (out.is_meta()) return out;
    dispatch_float(dtype_, [&]<class T>() {
      const T* from = patches.data<T>();
      for (int64_t p = 0; p < plane.pictures; ++p)
        for (int64_t y = 0; y < plane.height; y += patch)
          for (int64_t x = 0; x < plane.width; x += patch)
            for (int64_t r = 0; r < patch; ++r, from += run)
              std::copy_n(from, run, out.data<T>() + ((p * plane.height + y + r) * plane.width + x) * channels);
    });
    return out;
  }
};

}  // namespace

void register_embedding_conv_patches(Registry& registry) {
  registry.add<Embedding, ConvPatches, ConvPatchesConfig>(
      "conv_patches", {.summary = "compact convolutional tokenizer of pictures (CCT)",
                       .source = "Hassani et al. 2021",
                       .token_width = 1 + ConvPatchesConfig().patch() * ConvPatchesConfig().patch() * 3,
                       .payload_below = 0x40000000,
                       .samples = {"{num_layers: 1, height: 2, num_channels: 12}"}});
}

}  // namespace lithe
