#include "lithe/train/tokenize_together.h"

#include "lithe/parallel/job.h"

namespace lithe {

// spec: hpc.parallel | training | corpora tokenized by all ranks, with the bytes of one process | TB 6.4.9
void tokenize_together(const DataConfig& data, std::shared_ptr<const Tokenizer> existing) {
  if (job().size() == 1) return;
  std::shared_ptr<const Tokenizer> tokenizer = std::move(existing);
  if (!tokenizer) in_turns([&] { tokenizer = tokenizer_of(data); });  // trained by the first
  together([&] { tokenize_share(data, *tokenizer, job().rank(), job().size()); });
}

}  // namespace lithe
