// Layers that take the attention map of one below (spec share.attn_map).
#include "tests/conformance/checks.h"
#include "tests/support/errors.h"

namespace lithe::conformance {

std::string check_borrowed_map(const PartCase& part) {
  if (part.slot != Field::slot && part.slot != Position::slot) return "";
  const PartInfo info = part.info();
  for (const bool causal : {true, false}) {
    if (causal ? !info.causal : !info.bidirectional) continue;
    const std::string yaml = cat(
        "{hidden_size: 24, vocab_size: 19, max_position_embeddings: 24, position: learned, mixer: {type: attention, "
        "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 10}, layers: {own: {}, again: {mixer: {type: "
        "attention, num_attention_heads: 2, map: below}}}, layer_types: [own, again, own, again]",
        causal ? "" : ", architecture: encoder, head: mlm", "}");
    std::unique_ptr<Model> model;
    const std::string refused =
        kit::coded_error_of([&] { model = std::make_unique<Model>(config_in(yaml, part), kit::kTrainable); });
    if (!model) {
      if (refused.starts_with("2 ")) continue;  // wrong usage, with its reason
      return refused;
    }
    kit::randomise(model->parameters(), 3);
    const std::vector<MixerMaps> maps = kit::maps(*model, kit::random_batch({7}, 19, 4).ids);
    for (const size_t layer : {0u, 2u}) {
      if (maps[layer].weights.numel() == 0) return cat("layer ", layer + 1, " has no map");
      const std::string apart = kit::bit_difference(maps[layer].weights, maps[layer + 1].weights);
      if (!apart.empty())
        return cat(causal ? "" : "encoder: ", "layer ", layer + 2, " has another map than layer ", layer + 1, ": ",
                   apart);
    }
  }
  return "";
}

}  // namespace lithe::conformance
