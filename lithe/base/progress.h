// How far a long task has come: one line on a terminal, drawn anew each time, and some twenty lines in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lithe {

/// stderr is a terminal where a line can be drawn anew.
bool draws_on_terminal();

/// Which of many reports stand in a log: of a task with a known end so many `lines`, at equal distances; else one
/// whenever half as much again has been done.
class LogPace {
 public:
  explicit LogPace(int64_t lines = 20) : lines_(lines) {}
  /// Whether the report of `done` of `all` (0: not known) stands there. The last one does.
  bool due(int64_t done, int64_t all);

 private:
  int64_t lines_, last_ = 0;
};

class ProgressLine {
 public:
  /// "reading 3/10 tokens"
  ProgressLine(std::string doing, std::string unit);
  ~ProgressLine() { end(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// A log has a line only when two seconds have passed since the one before, or since the beginning.
  void operator()(int64_t done, int64_t all);
  /// Takes the line away from a terminal.
  void end();

 private:
  std::string doing_, unit_;
  bool terminal_, drawn_ = false;
  LogPace pace_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace lithe
