#include "lithe/eval/datastore_build.h"

#include "lithe/base/stop.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

// Windows gathered until the budget of rows is full, then run together.
class Builder {
 public:
  Builder(const Model& model, int64_t budget, DatastoreWriter& writer)
      : model_(model), budget_(budget), writer_(writer) {}

  void add(const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored) {
    if (!ids_.empty() && int64_t(ids_.size()) + rows > budget_) run();
    for (int64_t i = rows - scored; i < rows; ++i) {
      kept_.push_back(int64_t(ids_.size()) + i);
      values_.push_back(labels[i]);
    }
    ids_.insert(ids_.end(), inputs, inputs + rows);
    offsets_.push_back(int64_t(ids_.size()));
  }
  void run() {
    if (ids_.empty()) return;
    check(!stop_signal(), "datastore", "stopped by signal ", stop_signal());
    const NoGrad no_grad;
    Pass pass;
    const Var rows = model_.run({tensor_of({int64_t(ids_.size())}, ids_), Sequences(offsets_)}, pass).x;
    writer_.add(cast(pick_rows(rows, kept_), DType::f32).value(), values_);
    ids_.clear(), values_.clear(), kept_.clear();
    offsets_ = {0};
  }

 private:
  const Model& model_;
  int64_t budget_;
  DatastoreWriter& writer_;
  std::vector<int32_t> ids_, values_;
  std::vector<int64_t> offsets_{0}, kept_;
};

}  // namespace

DatastoreInfo build_datastore(const Model& model, const TokenStore& text, const EvalConfig& config,
                              int64_t default_context, DatastoreInfo info, int64_t lists, const Path& directory,
                              const std::function<void(int64_t, int64_t)>& progress) {
  const WindowSizes sizes = window_sizes("datastore", model, text, config, default_context);
  info.vocab_size = model.config().vocab_size;
  info.width = model.config().hidden_size;
  AtomicFile file(directory / "datastore.bin");
  DatastoreWriter writer(info, [&](std::string_view part) { file.write(part); });
  Builder builder(model, config.batch_tokens, writer);
  int64_t done = 0;
  for_each_window(text, sizes,
                  [&](const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored, int64_t) {
                    builder.add(inputs, labels, rows, scored);
                    done += scored;
                    if (progress) progress(done, text.tokens() + text.documents());
                  });
  builder.run();
  info = writer.finish();
  file.commit();
  if (lists == 0) return info;
  index_datastore(directory, lists);
  return Datastore::open(directory).info();
}

}  // namespace lithe
