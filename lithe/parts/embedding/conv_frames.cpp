// Frames of a sound through two convolutions with GELU, the second of which moves on by several frames at a time, as
// Whisper's encoder begins [Radford et al. 2022]. A token is the frames that one row is made of, side by side.
#include "lithe/ops/basic.h"
#include "lithe/ops/hash_embedding.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/patch_positions.h"
#include "lithe/parts/common/windows.h"

namespace lithe {
namespace {

struct ConvFramesConfig {
  int64_t num_features = 80, rows = 1, frames_per_row = 2, kernel = 3;
  std::string position = "learned";
  void fields(Fields& f) {
    f("num_features", num_features, "numbers per frame; equals data.audio.num_mel_bins", between(1, 1 << 16));
    f("rows", rows,
      "rows per sound, each of frames_per_row frames; all sounds have this length (data.audio.pad_seconds); Whisper: "
      "1500",
      between(1, 1 << 20));
    f("frames_per_row", frames_per_row, "stride of the second convolution in frames; equals data.audio.frames_per_row",
      between(1, 1 << 8));
    f("kernel", kernel,
      "kernel size k of both convolutions in frames, odd; (k - 1) / 2 zero frames are added before a sound",
      between(1, 1 << 8));
    f("position", position,
      "learned: add a learned vector for each row of a sound; model.position then does not apply to the rows of an "
      "encoder. none: model.position applies",
      one_of({"none", "learned"}));
  }
};

class ConvFrames final : public PlacedEmbedding {
 public:
  ConvFrames(const Scope& scope, const ConvFramesConfig& config, const Args& args)
      : config_(config),
        dtype_(scope.context().compute),
        near_(scope / "convolutions.0", config.kernel * config.num_features, Axis::hidden(args.hidden_size), true),
        far_(scope / "convolutions.1", Axis(config.kernel) * Axis::hidden(args.hidden_size),
             Axis::hidden(args.hidden_size), true),
        positions_(scope, {.position = config.position, .grid = {config.rows, 1}, .table = {config.rows, 1}},
                   args.hidden_size) {
    check_usage(config.kernel % 2 == 1, "conv_frames", "kernel must be odd, so that it has a middle, got ",
                config.kernel);
    check_usage(!args.token_width || args.token_width == width(), "embedding", "conv_frames reads tokens of ", width(),
                " ints (a code and ", width() - 1, " numbers), the tokenizer's are ", args.token_width,
                "; it is for model.modalities, with data.audio");
  }
  int64_t width() const override { return 1 + config_.frames_per_row * config_.num_features; }
  int64_t rows() const override { return config_.rows; }
  bool places() const override { return positions_.places(); }
  Var forward(const Tensor& tokens, const Pass&) const override {
    check_codes("conv_frames", tokens, width());
    check(tokens.dim(0) % rows() == 0, "embedding", "sounds of conv_frames have ", rows(), " rows each, got ",
          tokens.dim(0), " in all; data.audio.pad_seconds makes all sounds as long");
    const int64_t frames = tokens.dim(0) * config_.frames_per_row;
    const Var mel = reshape(Var(code_numbers(tokens, dtype_)), {frames, config_.num_features});
    const Var heard = activate(kernels::Activation::gelu, near_(windows(mel, 1)));
    return positions_.add_to(activate(kernels::Activation::gelu, far_(windows(heard, config_.frames_per_row))));
  }

 private:
  ConvFramesConfig config_;
  DType dtype_;
  Linear near_, far_;
  PatchPositions positions_;

  // The kernel's frames around every `step`-th, side by side: rows [F, C] to [F / step, k C], zeros outside a sound.
  Var windows(const Var& frames, int64_t step) const {
    const int64_t k = config_.kernel, each = config_.rows * config_.frames_per_row, all = frames.rows();
    std::vector<int64_t> from;
    from.reserve(size_t(all / step * k));
    for (int64_t sound = 0; sound < all; sound += each)
      for (int64_t t = 0; t < each; t += step)
        for (int64_t at = t - k / 2; at <= t + k / 2; ++at) from.push_back(at < 0 || at >= each ? all : sound + at);
    return windows_of(frames, from, k);
  }
};

}  // namespace

void register_embedding_conv_frames(Registry& registry) {
  registry.add<Embedding, ConvFrames, ConvFramesConfig>(
      "conv_frames", {.summary = "two convolutions over the frames of a sound (Whisper's front end)",
                      .source = "Radford et al. 2022",
                      .token_width = ConvFramesConfig().frames_per_row * ConvFramesConfig().num_features + 1,
                      .payload_below = 0x40000000,
                      .samples = {"{num_features: 40, frames_per_row: 4, kernel: 5, position: none}"}});
}

}  // namespace lithe
