#include "lithe/parallel/local.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {
namespace {

// What was sent and not yet received: by communicator, sender, receiver and tag.
struct Post {
  using Key = std::tuple<std::string, int, int, int>;
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, std::deque<std::vector<std::byte>>> messages;
  std::exception_ptr error;  // of the first rank that failed
  int failed = -1;
};

class LocalRank final : public Communicator {
 public:
  // `members`: ranks of the job, by their rank here.
  LocalRank(std::shared_ptr<Post> post, std::string name, std::vector<int> members, int rank)
      : post_(std::move(post)), name_(std::move(name)), members_(std::move(members)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return int(members_.size()); }

  std::unique_ptr<Request> send(std::span<const std::byte> bytes, int to, int tag) override {
    const std::lock_guard lock(post_->mutex);
    post_->messages[{name_, rank_, to, tag}].emplace_back(bytes.begin(), bytes.end());
    post_->arrived.notify_all();
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Request> receive(std::span<std::byte> bytes, int from, int tag) override {
    return std::make_unique<Awaited>(*post_, Post::Key{name_, from, rank_, tag}, bytes, members_[size_t(from)]);
  }
  std::unique_ptr<Communicator> split(int color) override {
    constexpr int kColors = -1;
    for (int other = 0; other < size(); ++other) send(std::as_bytes(std::span(&color, 1)), other, kColors);
    std::vector<int> members;
    int mine = 0;
    for (int other = 0; other < size(); ++other) {
      int theirs = 0;
      receive(std::as_writable_bytes(std::span(&theirs, 1)), other, kColors)->wait();
      if (other == rank_) mine = int(members.size());
      if (theirs == color) members.push_back(members_[size_t(other)]);
    }
    return std::make_unique<LocalRank>(post_, name_ + "/" + std::to_string(splits_++) + ":" + std::to_string(color),
                                       std::move(members), mine);
  }

 private:
  class Sent final : public Request {
    void wait() override {}
    bool done() override { return true; }
  };
  class Awaited final : public Request {
   public:
    Awaited(Post& post, Post::Key key, std::span<std::byte> to, int from)
        : post_(post), key_(std::move(key)), to_(to), from_(from) {}
    void wait() override {
      std::unique_lock lock(post_.mutex);
      if (taken_) return;
      auto& waiting = post_.messages[key_];
      post_.arrived.wait(lock, [&] { return !waiting.empty() || post_.failed >= 0; });
      check(!waiting.empty(), "ranks", "rank ", post_.failed, " failed, and rank ", from_, " sends no more");
      check(waiting.front().size() == to_.size(), "ranks", "a message of ", waiting.front().size(), " bytes from rank ",
            from_, ", where ", to_.size(), " were awaited");
      std::memcpy(to_.data(), waiting.front().data(), to_.size());
      waiting.pop_front();
      taken_ = true;
    }
    // Messages of one key are taken in the order in which they are waited for.
    bool done() override { return taken_; }

   private:
    Post& post_;
    Post::Key key_;
    std::span<std::byte> to_;
    int from_;
    bool taken_ = false;
  };

  std::shared_ptr<Post> post_;
  std::string name_;
  std::vector<int> members_;
  int rank_, splits_ = 0;
};

}  // namespace

void run_local_ranks(int count, const std::function<void(Communicator& ranks)>& work) {
  const auto post = std::make_shared<Post>();
  std::vector<int> members;
  for (int rank = 0; rank < count; ++rank) members.push_back(rank);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        LocalRank ranks(post, "job", members, rank);
        work(ranks);
      } catch (...) {
        const std::lock_guard lock(post->mutex);
        if (post->failed < 0) post->failed = rank, post->error = std::current_exception();
        post->arrived.notify_all();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (post->error) std::rethrow_exception(post->error);
}

}  // namespace lithe
