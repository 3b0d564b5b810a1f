// Messages between the ranks of one job. Sums along the fixed tree, gathers and barriers are built on these two.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lithe {

class Communicator {
 public:
  class Request {
   public:
    virtual ~Request() = default;
    // Returns when the bytes have been taken or have come. Throws Error that names the rank at the other end when it is
    // gone.
    virtual void wait() = 0;
    // The same without waiting, as far as it goes: true when wait() has nothing left to do. Messages go on in it.
    virtual bool done() = 0;
  };

  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // in [0, size)
  virtual int size() const = 0;
  // Begins to send; `bytes` must stay as they are until wait returns. Messages of one pair of ranks and one tag keep
  // their order.
  virtual std::unique_ptr<Request> send(std::span<const std::byte> bytes, int to, int tag) = 0;
  // Begins to receive exactly bytes.size() bytes.
  virtual std::unique_ptr<Request> receive(std::span<std::byte> bytes, int from, int tag) = 0;
  // The ranks that give the same color, in their order here. All ranks call it.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
};

}  // namespace lithe
