// A convolution that moves on by several rows at a time: row j of the shorter sequence is W [x_{sj-p}; ...;
// x_{sj-p+k-1}]
// + b, where rows outside of the sequence are zero [TB 6.4.8]. Stages of layers, each of which begins with such a
// compressor or with pool, are progressive downsampling.
// spec: seqc.progressive | compressor | stages of layers, each on rows a factor fewer (model.layers, layer_types) |
// TB 6.4.8
#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

struct StridedConvConfig {
  int64_t kernel = 2, stride = 2, padding = 0;
  bool pad_last = false, bias = true;
  std::string sees = "all";
  void fields(Fields& f) {
    f("kernel", kernel, "kernel size k: input rows per output row", between(1, 1 << 10));
    f("stride", stride, "stride s in rows; at most k, so that every row counts", between(1, 1 << 10));
    f("padding", padding, "zero rows p before and after a sequence, below k: floor((m + 2p - k) / s) + 1 rows are left",
      between(0, 1 << 10));
    f("pad_last", pad_last,
      "add zeros after the sequence until its last row counts: ceil((m + 2p - k) / s) + 1 rows are left");
    f("sees", sees,
      "all; left: causal, with k - 1 zero rows before a sequence and none after, so that no row sees later ones",
      one_of({"all", "left"}));
    f("bias", bias, "a learned bias b");
  }
};

class StridedConv final : public Compressor {
 public:
  StridedConv(const Scope& scope, const StridedConvConfig& config, const Args& args)
      : config_(config),
        map_(scope, Axis(config.kernel) * Axis::hidden(args.hidden_size), Axis::hidden(args.hidden_size), config.bias) {
    check_usage(config.stride <= config.kernel && config.padding < config.kernel, "strided_conv", "stride ",
                config.stride, " and padding ", config.padding, " must be at most and below the kernel of ",
                config.kernel, " rows; raise kernel");
    check_usage(config.sees == "all" || (config.padding == 0 && !config.pad_last), "strided_conv",
                "sees: left says where the zeros stand; leave padding and pad_last out");
  }
  Shorter forward(const Rows& x, const Pass&) const override {
    const int64_t k = config_.kernel, s = config_.stride, d = x.x.cols();
    const int64_t before = config_.sees == "left" ? k - 1 : config_.padding;
    const int64_t zero = x.x.rows();  // the row behind them
    bool pads = false;
    std::vector<int64_t> taps, offsets{0}, row_of;
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      const int64_t begin = x.sequences.offset(b), m = x.sequences.length(b), made = offsets.back(), count = left_of(m);
      for (int64_t j = 0; j < count; ++j)
        for (int64_t t = j * s - before; t < j * s - before + k; ++t) {
          const bool inside = t >= 0 && t < m;
          pads = pads || !inside;
          taps.push_back(inside ? begin + t : zero);
        }
      for (int64_t t = 0; t < m; ++t) {
        // The last that counts it; where rows see no later ones, the last that sees none after it.
        const int64_t j = config_.sees == "left" ? t / s : std::min((t + before) / s, count - 1);
        row_of.push_back(t < j * s - before + k || config_.sees == "left" ? made + j : -1);
      }
      offsets.push_back(made + count);
    }
    const Device device = x.x.device();
    const Var windows = pick_rows(pads ? concatenate_rows({x.x, Var(zeros({1, d}, x.x.dtype(), device))}) : x.x, taps);
    return {{map_(reshape(windows, {offsets.back(), k * d})), Sequences(offsets, {}, device)}, row_of};
  }

 private:
  StridedConvConfig config_;
  Linear map_;

  // A sequence that the kernel does not fit into has one row.
  int64_t left_of(int64_t m) const {
    if (m == 0) return 0;
    const int64_t s = config_.stride, k = config_.kernel,
                  over = config_.sees == "left" ? m - 1 : m + 2 * config_.padding - k;
    return over < 0 ? 1 : (config_.pad_last ? over + s - 1 : over) / s + 1;
  }
};

}  // namespace

void register_compressor_strided_conv(Registry& registry) {
  registry.add<Compressor, StridedConv, StridedConvConfig>(
      "strided_conv", {.spec = "seqc.strided_conv",
                       .summary = "a convolution with a stride",
                       .source = "TB 6.4.8",
                       .causal = false,
                       .samples = {"{pad_last: true}", "{kernel: 3, padding: 1}", "{kernel: 3, sees: left}"}});
}

}  // namespace lithe
