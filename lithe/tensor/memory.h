// The allocator and its ledger: every byte is booked under a class, on the CPU and on the meta device
// alike, so that a run on meta tensors tells the exact peak of the run on real ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lithe {

enum class Device : uint8_t { cpu, meta };  // meta: shapes without data

enum class MemoryClass : uint8_t { weights, gradients, optimizer, activations, decode, workspace };
constexpr int kMemoryClasses = 6;
const char* name_of(MemoryClass c);

/// Bytes by class, now and at the moment of the highest total: of all threads, each of which may make tensors.
class Ledger {
 public:
  int64_t current(MemoryClass c) const;
  int64_t current() const;
  int64_t peak() const;               // highest total
  int64_t peak(MemoryClass c) const;  // its share at that moment
  void reset_peak();

 private:
  friend class Storage;
  std::array<int64_t, kMemoryClasses> current_{}, at_peak_{};
  int64_t total_ = 0, peak_ = 0;

  void book(MemoryClass c, int64_t bytes);  // negative when freed
};
Ledger& ledger(Device device);

/// Tensors that this thread makes while it lives are booked under `c`. Default activations. Nests.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryClass c);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  static MemoryClass current();

 private:
  MemoryClass previous_;
};

/// One block of memory, 64-byte aligned, from an arena in huge pages that is kept between steps.
class Storage {
 public:
  Storage(Device device, int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() const { return data_; }  // null on meta
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_, booked_;
  Device device_;
  MemoryClass class_;
};

/// Bytes the arena ever touched: what the process keeps for tensors, fragmentation included.
int64_t arena_bytes();

}  // namespace lithe
