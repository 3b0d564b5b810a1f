// Chunks of equal length, the last one shorter; tokens see their own chunk only [TB Eq 6.124].
#include "lithe/nn/registry.h"
#include "lithe/parts/common/pattern_field.h"

namespace lithe {
namespace {

struct ChunkConfig {
  int64_t size = 128;
  void fields(Fields& f) { f("size", size, "chunk size in tokens", at_least(1)); }
};

class Chunk final : public PatternField {
 public:
  Chunk(const Scope&, const ChunkConfig& config, const Args& args) : PatternField(args), size_(config.size) {}
  int64_t reach() const override { return args().causal ? size_ : 0; }
  int64_t first_seen(int64_t tokens) const override { return tokens / size_ * size_; }

 protected:
  void see(int64_t position, int64_t, int64_t, std::vector<KeyRange>& out) const override {
    const int64_t begin = position / size_ * size_;
    out.push_back({begin, begin + size_});
  }

 private:
  int64_t size_;
};

}  // namespace

void register_field_chunk(Registry& registry) {
  registry.add<Field, Chunk, ChunkConfig>("chunk", {.spec = "sparse.chunk",
                                                    .summary = "a token sees the tokens of its own chunk",
                                                    .source = "TB Eq 6.124",
                                                    .cross = true,
                                                    .samples = {"{size: 5}"}});
}

}  // namespace lithe
