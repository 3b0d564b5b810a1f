#include "lithe/eval/loss_by_position.h"

namespace lithe {

std::vector<PositionLoss> loss_by_position(const TokenScores& scores) {
  std::vector<PositionLoss> all{{.from = 0, .to = 8}};
  for (size_t i = 0; i < scores.positions.size(); ++i) {
    const int64_t at = scores.positions[i];
    while (all.back().to <= at) {
      const int64_t from = all.back().to, octave = (from & (from - 1)) == 0 ? from : from / 3 * 2;
      all.push_back({.from = from, .to = from == octave ? octave / 2 * 3 : 2 * octave});
    }
    size_t low = 0;
    while (all[low].to <= at) ++low;
    ++all[low].tokens;
    all[low].nll += double(scores.nll[i]);
  }
  std::erase_if(all, [](const PositionLoss& p) { return p.tokens == 0; });
  return all;
}

}  // namespace lithe
