#include "lithe/eval/datastore_build.h"

#include "lithe/base/stop.h"
#include "lithe/ops/basic.h"
#include "lithe/parallel/operations.h"

namespace lithe {
namespace {

// Windows gathered until the budget of rows is full, then run together: by one rank after another, and the first
// writes what they have, in order.
class Builder {
 public:
  /// `writer`: of the first rank, null on the others.
  Builder(const Model& model, int64_t budget, DatastoreWriter* writer, Communicator* ranks)
      : model_(model), budget_(budget), writer_(writer), ranks_(ranks) {}

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
    const int of = ranks_ ? int(batches_++ % ranks_->size()) : 0;
    Tensor keys;
    if (!ranks_ || of == ranks_->rank()) {
      const NoGrad no_grad;
      Pass pass;
      const Var rows = model_.run({tensor_of({int64_t(ids_.size())}, ids_), Sequences(offsets_)}, pass).x;
      keys = cast(pick_rows(rows, kept_), DType::f32).value();
    }
    if (writer_) {
      if (of > 0) {
        keys = empty({int64_t(kept_.size()), model_.config().hidden_size}, DType::f32);
        ranks_->receive(bytes_of(keys), of, kTag)->wait();
      }
      writer_->add(keys, values_);
    } else if (keys.defined()) {
      end();
      going_ = keys;
      sent_ = ranks_->send(bytes_of(going_), 0, kTag);
    }
    ids_.clear(), values_.clear(), kept_.clear();
    offsets_ = {0};
  }
  /// What was sent has gone.
  void end() {
    if (sent_) sent_->wait();
    sent_.reset();
  }

 private:
  const Model& model_;
  int64_t budget_;
  DatastoreWriter* writer_;
  Communicator* ranks_;
  int64_t batches_ = 0;
  Tensor going_;  // to the first rank, while this one runs its next windows
  std::unique_ptr<Communicator::Request> sent_;
  static constexpr int kTag = 4;
  std::vector<int32_t> ids_, values_;
  std::vector<int64_t> offsets_{0}, kept_;
};

}  // namespace

DatastoreInfo build_datastore(const Model& model, const TokenStore& text, const EvalConfig& config,
                              int64_t default_context, DatastoreInfo info, int64_t lists, const Path& directory,
                              const std::function<void(int64_t, int64_t)>& progress, Communicator* among) {
  const WindowSizes sizes = window_sizes("datastore", model, text, config, default_context);
  info.vocab_size = model.config().vocab_size;
  info.width = model.config().hidden_size;
  std::optional<AtomicFile> file;
  std::optional<DatastoreWriter> writer;
  if (!among || among->rank() == 0) {
    file.emplace(directory / "datastore.bin");
    writer.emplace(info, [&](std::string_view part) { file->write(part); });
  }
  Builder builder(model, config.batch_tokens, writer ? &*writer : nullptr, among);
  int64_t done = 0;
  for_each_window(text, sizes,
                  [&](const int32_t* inputs, const int32_t* labels, int64_t rows, int64_t scored, int64_t) {
                    builder.add(inputs, labels, rows, scored);
                    done += scored;
                    if (progress) progress(done, text.tokens() + text.documents());
                  });
  builder.run();
  builder.end();
  if (!writer) return {};
  info = writer->finish();
  file->commit();
  if (lists == 0) return info;
  index_datastore(directory, lists);
  return Datastore::open(directory).info();
}

}  // namespace lithe
