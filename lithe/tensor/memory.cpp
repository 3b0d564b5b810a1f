#include "lithe/tensor/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {

const char* name_of(MemoryClass c) {
  static const char* names[] = {"weights", "gradients", "optimizer", "activations", "decode", "workspace"};
  return names[int(c)];
}

namespace {

// Waits awake: what it guards takes less time than to fall asleep, and small models make a tensor every microsecond.
class SpinLock {
 public:
  void lock() {
    constexpr int kPatience = 1000;  // then the thread that has it does not run
    for (int tries = 1; taken_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_acquire);
         ++tries)
      if (tries % kPatience == 0) std::this_thread::yield();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_ = false;
};

SpinLock guard;  // of the ledgers and the arena

}  // namespace

int64_t Ledger::current(MemoryClass c) const {
  const std::lock_guard lock(guard);
  return current_[int(c)];
}

int64_t Ledger::current() const {
  const std::lock_guard lock(guard);
  return total_;
}

int64_t Ledger::peak() const {
  const std::lock_guard lock(guard);
  return peak_;
}

int64_t Ledger::peak(MemoryClass c) const {
  const std::lock_guard lock(guard);
  return at_peak_[int(c)];
}

void Ledger::book(MemoryClass c, int64_t bytes) {
  current_[int(c)] += bytes;
  total_ += bytes;
  if (total_ > peak_) {
    peak_ = total_;
    at_peak_ = current_;
  }
}

void Ledger::reset_peak() {
  const std::lock_guard lock(guard);
  peak_ = total_;
  at_peak_ = current_;
}

Ledger& ledger(Device device) {
  static Ledger ledgers[2];
  return ledgers[int(device)];
}

namespace {

thread_local MemoryClass current_class = MemoryClass::activations;

constexpr int64_t kAlign = 64, kHugePage = int64_t(2) << 20;

// Three quarters of what limits of this process leave to be reserved; the rest is for stacks, libraries and texts.
int64_t addresses_allowed() {
  int64_t allowed = int64_t(1) << 40;
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;  // pages
  statm >> all >> resident >> shared >> text >> library >> data;
  const auto bound = [&](auto what, int64_t pages) {
    rlimit limit{};
    if (::getrlimit(what, &limit) == 0 && limit.rlim_cur < rlim_t(allowed))  // RLIM_INFINITY is above
      allowed = std::max<int64_t>(0, (int64_t(limit.rlim_cur) - pages * ::sysconf(_SC_PAGESIZE)) / 4 * 3);
  };
  bound(RLIMIT_AS, all);
  bound(RLIMIT_DATA, data);
  return allowed;
}

// One reserved range of addresses, handed out best fit with coalescing, so that freed neighbours
// merge and the range that was ever touched stays close to the ledger's peak. A few small blocks wait as they are: the
// rows of a decoding step come in the same sizes again and again.
class Arena {
 public:
  static Arena& instance() {
    static Arena* arena = new Arena;  // never destroyed: tensors may outlive static destruction
    return *arena;
  }

  std::byte* take(int64_t bytes) {
    if (bytes <= kSmall && !small_[size_t(bytes / kAlign)].empty()) {
      std::byte* at = small_[size_t(bytes / kAlign)].back();
      small_[size_t(bytes / kAlign)].pop_back();
      waiting_ -= bytes;
      return at;
    }
    auto fit = by_size_.lower_bound({bytes, nullptr});
    std::byte* at;
    int64_t have;
    if (fit != by_size_.end()) {
      std::tie(have, at) = *fit;
      erase(at, have);
    } else {
      // Grow at the end, using a free block that touches it.
      at = end_;
      have = 0;
      if (!free_.empty()) {
        auto last = std::prev(free_.end());
        if (last->first + last->second == end_) {
          at = last->first;
          have = last->second;
          erase(at, have);
        }
      }
      check(at + bytes <= limit_, "memory", "the arena of ", (limit_ - begin_) >> 30, " GiB is full; ", bytes,
            " bytes more were asked for");
      end_ = std::max(end_, at + bytes);
      have = bytes;
    }
    if (have > bytes) insert(at + bytes, have - bytes);
    return at;
  }

  void give(std::byte* at, int64_t bytes) {
    if (bytes <= kSmall && waiting_ + bytes <= kWaiting) {
      small_[size_t(bytes / kAlign)].push_back(at);
      waiting_ += bytes;
      return;
    }
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      const auto [a, b] = *next;
      erase(a, b);
    }
    auto after = free_.lower_bound(at);
    if (after != free_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == at) {
        const auto [a, b] = *before;
        erase(a, b);
        at = a;
        bytes += b;
      }
    }
    insert(at, bytes);
  }

  int64_t touched() const { return end_ - begin_; }

 private:
  static constexpr int64_t kSmall = 16384, kWaiting = 1 << 18;  // bytes of a small block, of all that wait
  std::array<std::vector<std::byte*>, kSmall / kAlign + 1> small_;
  int64_t waiting_ = 0;
  std::byte *begin_ = nullptr, *end_ = nullptr, *limit_ = nullptr;
  std::map<std::byte*, int64_t> free_;
  std::set<std::pair<int64_t, std::byte*>> by_size_;

  Arena() {
    constexpr int64_t kLeast = int64_t(64) << 20;
    const int64_t allowed = addresses_allowed();
    check(allowed >= kLeast, "memory", "a limit (ulimit -v or -d) leaves ", allowed >> 20,
          " MiB of addresses for tensors, and lithe needs ", kLeast >> 20,
          " MiB at least; raise it, or bound memory by a cgroup or --memory-budget in its place");
    for (int64_t reserve = allowed; reserve >= kLeast; reserve -= reserve / 4) {
      void* range =
          ::mmap(nullptr, size_t(reserve), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      const auto start = (reinterpret_cast<uintptr_t>(range) + kHugePage - 1) / kHugePage * kHugePage;
      begin_ = end_ = reinterpret_cast<std::byte*>(start);
      limit_ = static_cast<std::byte*>(range) + reserve;
      ::madvise(begin_, size_t(limit_ - begin_), MADV_HUGEPAGE);
      return;
    }
    fail("memory", "no address range could be reserved: ", std::strerror(errno));
  }
  void insert(std::byte* at, int64_t bytes) {
    free_[at] = bytes;
    by_size_.insert({bytes, at});
  }
  void erase(std::byte* at, int64_t bytes) {
    free_.erase(at);
    by_size_.erase({bytes, at});
  }
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kArena = false;  // let the sanitizer see every block on its own
#else
constexpr bool kArena = true;
#endif

// Of exactly `bytes`, so that a sanitizer sees the first byte beyond.
std::byte* own_block(int64_t bytes) {
  void* block = nullptr;
  return ::posix_memalign(&block, size_t(kAlign), size_t(bytes)) == 0 ? static_cast<std::byte*>(block) : nullptr;
}

}  // namespace

MemoryScope::MemoryScope(MemoryClass c) : previous_(current_class) { current_class = c; }
MemoryScope::~MemoryScope() { current_class = previous_; }
MemoryClass MemoryScope::current() { return current_class; }

Storage::Storage(Device device, int64_t bytes)
    : bytes_(bytes), booked_((bytes + kAlign - 1) / kAlign * kAlign), device_(device), class_(current_class) {
  check(bytes >= 0, "memory", "cannot allocate ", bytes, " bytes");
  const std::lock_guard lock(guard);
  if (device == Device::cpu && booked_ > 0) {
    data_ = kArena ? Arena::instance().take(booked_) : own_block(bytes);
    check(data_, "memory", "out of memory: ", bytes, " bytes");
  }
  ledger(device_).book(class_, booked_);
}

Storage::~Storage() {
  const std::lock_guard lock(guard);
  ledger(device_).book(class_, -booked_);
  if (!data_) return;
  if (kArena)
    Arena::instance().give(data_, booked_);
  else
    std::free(data_);
}

int64_t arena_bytes() {
  const std::lock_guard lock(guard);
  return kArena ? Arena::instance().touched() : 0;
}

}  // namespace lithe
