#include "lithe/eval/sentence_rows.h"

#include "lithe/base/stop.h"
#include "lithe/data/task_batches.h"
#include "lithe/objective/device_batch.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pool.h"

namespace lithe {

Tensor sentence_rows(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                     const std::string& pooling, int64_t max_tokens, const Truncation& truncation,
                     int64_t batch_tokens) {
  constexpr int64_t kSequences = 32;
  const NoGrad no_grad;
  std::vector<Example> examples;
  for (const std::string& text : texts) examples.push_back({.text = text, .label = 0});
  const TaskBatches batches(std::move(examples), TaskType::classification, tokenizer, max_tokens,
                            batch_tokens ? batch_tokens : kSequences * max_tokens, 0, false,
                            {.truncation = truncation});
  const Tensor out = empty({int64_t(texts.size()), model.config().hidden_size}, DType::f32);
  int64_t row = 0;
  for (int64_t i = 0; i < batches.batches_per_epoch(); ++i) {
    check(stop_signal() == 0, "encode", "stopped by signal ", stop_signal());
    const DeviceBatch batch = to_device(batches.batch(0, i), model);
    Pass pass;
    const Rows made = model.run(batch.input, pass);
    const Var rows = cast(pool(made.x, made.sequences, pooling), DType::f32);
    std::copy_n(rows.value().data<float>(), rows.value().numel(), out.data<float>() + row * out.cols());
    row += rows.rows();
  }
  return out;
}

}  // namespace lithe
