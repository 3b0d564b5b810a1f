// Running the program as a child, as a person or a script would, and a place for its files.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/base/files.h"

namespace lithe::kit {

/// An empty directory that goes away with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const Path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file (not synced) and returns its path.
  std::string add(const std::string& name, std::string_view bytes) const;

 private:
  Path path_;
};

struct Finished {
  int code = -1;   // exit code; -1 when a signal ended it
  int signal = 0;  // that ended it
  std::string out, err;
  int64_t peak_memory = 0;  // bytes of its largest resident set; not below that of this process
};

struct ProcessOptions {
  std::vector<std::string> environment = {};  // NAME=value, added
  int64_t file_limit = 0;                     // bytes a file may have: writes beyond fail as on a full disk
  int64_t data_limit = 0;                     // bytes of memory that it may write to
  int64_t cpu_limit = 0;                      // seconds of a processor, after which SIGXCPU ends it
  int64_t stack_limit = 0, space_limit = 0;   // bytes of the stack, and of all addresses
  std::string stdout_to = {};                 // a file; "closed": none; "unread": a pipe that nobody reads
  std::string stdin_text = {};                // what it can read; empty: the parent's own standard input
  bool stdin_open = false;                    // or what write() sends it, without an end
};

/// The program named by LITHE_BINARY with these arguments.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void send(int signal);
  /// To its standard input, of stdin_open; as write(2).
  ssize_t write(std::string_view bytes);
  bool running();
  Finished wait();

 private:
  pid_t pid_ = -1;
  int input_ = -1;  // of stdin_open
  bool done_ = false;
  int status_ = 0;
  int64_t peak_memory_ = 0;
  std::string out_, err_;
  Scratch files_;

  bool reap(int options);
};

/// Waits until `is`, 30 seconds at most.
void wait_until(const std::function<bool()>& is);

/// False when LITHE_BINARY is not set or not there: tests skip.
bool have_program();
Finished run_program(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

/// Deterministic text of about `bytes` bytes in short lines that a model can learn.
std::string small_text(int64_t bytes, uint64_t seed = 1);

}  // namespace lithe::kit
