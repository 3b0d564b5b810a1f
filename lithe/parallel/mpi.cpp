#include "lithe/parallel/mpi.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "lithe/base/counted.h"
#include "lithe/base/files.h"
#include "lithe/parallel/job.h"

namespace lithe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Seconds without a message after which the rank at the other end counts as hung.
double patience() {
  static const double seconds = [] {
    const char* given = std::getenv("LITHE_RANK_TIMEOUT");
    if (!given) return 1800.0;
    char* end = nullptr;
    const double value = std::strtod(given, &end);
    check_usage(end != given && *end == 0 && value > 0, "LITHE_RANK_TIMEOUT",
                "must be a number of seconds above 0, got '", given, "'");
    return value;
  }();
  return seconds;
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const LitheMpi& mpi, void* comm, void* world)
      : mpi_(&mpi), comm_(comm), world_(world), rank_(mpi.rank(comm)), size_(mpi.size(comm)) {}
  ~MpiCommunicator() override { mpi_->release(comm_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator::Request> send(std::span<const std::byte> bytes, int to, int tag) override {
    return begun(mpi_->send(comm_, bytes.data(), bytes.size(), to, tag), to);
  }
  std::unique_ptr<Communicator::Request> receive(std::span<std::byte> bytes, int from, int tag) override {
    return begun(mpi_->receive(comm_, bytes.data(), bytes.size(), from, tag), from);
  }
  std::unique_ptr<Communicator> split(int color) override {
    void* comm = mpi_->split(comm_, color);
    check(comm, "ranks", "the ranks cannot be divided: ", mpi_->error());
    return std::make_unique<MpiCommunicator>(*mpi_, comm, world_);
  }

 private:
  class Request final : public Communicator::Request {
   public:
    Request(MpiCommunicator& of, void* request, int other) : of_(of), request_(request), other_(other) {}
    ~Request() override { of_.mpi_->forget(request_); }
    void wait() override {
      const Clock::time_point begin = Clock::now();
      for (int64_t tries = 0;; ++tries) {
        if (done()) return;
        // Many ranks on few processors: who waits must let others run.
        if (tries < 200) continue;
        std::this_thread::sleep_for(std::chrono::microseconds(tries < 2000 ? 20 : 200));
        if (tries % 64) continue;
        of_.throw_reported();
        check(seconds_since(begin) < patience(), "ranks", "no word from rank ", other_, " of ", of_.size_, " for ",
              counted(int64_t(patience()), "second"), "; LITHE_RANK_TIMEOUT sets how long to wait");
      }
    }
    bool done() override {
      const int done = of_.mpi_->test(request_);
      check(done >= 0, "ranks", "rank ", other_, " of ", of_.size_, " is gone (", of_.mpi_->error(), ")");
      return done == 1;
    }

   private:
    MpiCommunicator& of_;
    void* request_;
    int other_;
  };

  const LitheMpi* mpi_;
  void *comm_, *world_;
  int rank_, size_;

  std::unique_ptr<Communicator::Request> begun(void* request, int other) {
    check(request, "ranks", "rank ", other, " of ", size_, " cannot be reached (", mpi_->error(), ")");
    return std::make_unique<Request>(*this, request, other);
  }

  // Another rank has failed and says why.
  void throw_reported() {
    int from = 0;
    const int count = mpi_->waiting(world_, kErrorTag, &from);
    if (count <= int(sizeof(int))) return;
    std::vector<char> bytes(size_t(count), 0);
    void* request = mpi_->receive(world_, bytes.data(), bytes.size(), from, kErrorTag);
    while (request && mpi_->test(request) == 0) std::this_thread::yield();
    if (request) mpi_->forget(request);
    int code = 1;
    std::memcpy(&code, bytes.data(), sizeof code);
    const std::string told(bytes.begin() + sizeof code, bytes.end());
    const size_t line = told.find('\n');
    throw Error(told.substr(0, line), told.substr(line + 1), ExitCode(code));
  }
};

}  // namespace

const LitheMpi& load_mpi_plugin() {
  constexpr const char* kName = "liblithe-mpi.so";
  std::vector<std::string> places;
  if (const char* given = std::getenv("LITHE_MPI_PLUGIN")) {
    places = {given};
  } else {
    std::error_code error;
    const Path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    places = {(here / kName).string(), (here.parent_path() / "lib" / "lithe" / kName).string(), kName};
  }
  std::string why;
  for (const std::string& place : places) {
    // Open MPI loads components that look for its symbols among the global ones.
    void* library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      const char* message = ::dlerror();
      why = message ? message : place;
      if (std::filesystem::exists(place)) break;  // there, and cannot be loaded: this is the reason to tell
      continue;
    }
    auto* entry = reinterpret_cast<LitheMpiEntry*>(::dlsym(library, kLitheMpiEntry));
    const LitheMpi* mpi = entry ? entry() : nullptr;
    check_usage(mpi && mpi->version == kLitheMpiVersion, "ranks", "'", place,
                "' is of another version of lithe; install lithe-mpi of the same version");
    return *mpi;
  }
  fail_usage("ranks", "this process is one of several ranks, and the MPI plug-in cannot be loaded (", why,
             "); apt install lithe-mpi, or build lithe with libopenmpi-dev installed");
}

std::unique_ptr<Communicator> mpi_world(const LitheMpi& mpi) {
  check(mpi.init() == 0, "ranks", "MPI does not start: ", mpi.error());
  void* world = mpi.world();
  return std::make_unique<MpiCommunicator>(mpi, world, world);
}

}  // namespace lithe
