// Texts of requests that wait for the model, which reads those of several requests together.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lithe {

/// What is asked of texts, with an answer of type T to each. The answers must not depend on who else is read.
template <class T>
class TextQueue {
 public:
  struct Texts {
    std::string kind;  // those of one kind are read together
    std::vector<std::string> texts;
    /// An answer to each of the texts; those of others of the kind may be among them.
    std::function<std::vector<T>(const std::vector<std::string>&)> read;
    std::optional<std::vector<T>> answers = {};
    std::exception_ptr error = {};
  };
  using Ticket = std::shared_ptr<Texts>;

  /// From any thread. Texts whose ticket nobody holds any more are not read.
  Ticket add(Texts texts) {
    auto ticket = std::make_shared<Texts>(std::move(texts));
    const std::lock_guard lock(mutex_);
    waiting_.push_back(ticket);
    return ticket;
  }

  /// The answers to the ticket's texts, in the thread of the model. Others of the kind that wait are answered with
  /// them, the oldest first, up to `most` texts. Throws what reading them throws; where several are read together,
  /// each is then read alone, so that nobody has the error of another.
  std::vector<T> answer(const Ticket& ticket, size_t most) {
    if (!ticket->answers && !ticket->error) {
      const std::vector<Ticket> together = take(ticket, most);
      try {
        read(together);
      } catch (...) {
        if (together.size() == 1) throw;
        for (const Ticket& one : together) read_alone(one);
      }
    }
    if (ticket->error) std::rethrow_exception(ticket->error);
    return std::move(*ticket->answers);
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Texts>> waiting_;

  std::vector<Ticket> take(const Ticket& ticket, size_t most) {
    std::vector<Ticket> out{ticket};
    size_t texts = ticket->texts.size();
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const std::weak_ptr<Texts>& weak) {
      const Ticket one = weak.lock();
      if (!one || one == ticket) return true;
      if (one->kind != ticket->kind || texts + one->texts.size() > most) return false;
      texts += one->texts.size();
      out.push_back(one);
      return true;
    });
    return out;
  }

  static void read(const std::vector<Ticket>& together) {
    std::vector<std::string> texts;
    for (const Ticket& one : together) texts.insert(texts.end(), one->texts.begin(), one->texts.end());
    std::vector<T> answers = together[0]->read(texts);
    auto next = std::make_move_iterator(answers.begin());
    for (const Ticket& one : together) {
      const auto first = next;
      one->answers.emplace(first, next += std::ptrdiff_t(one->texts.size()));
    }
  }

  static void read_alone(const Ticket& one) {
    try {
      read({one});
    } catch (...) {
      one->error = std::current_exception();
    }
  }
};

}  // namespace lithe
