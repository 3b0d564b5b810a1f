#include "tests/support/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe::kit {

Scratch::Scratch() {
  static std::atomic<int> count = 0;
  path_ = std::filesystem::temp_directory_path() / cat("lithe_test_", ::getpid(), "_", count++);
  make_directory(path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Scratch::add(const std::string& name, std::string_view bytes) const {
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return *this / name;
}

namespace {

void redirect(const std::string& file, int to) {
  const int fd = ::open(file.c_str(), to == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0) ::dup2(fd, to);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  const char* binary = std::getenv("LITHE_BINARY");
  check(binary, "test", "LITHE_BINARY is not set");
  out_ = options.stdout_to.empty() ? files_ / "out" : options.stdout_to;
  err_ = files_ / "err";
  const std::string in = options.stdin_text.empty() ? "" : files_.add("in", options.stdin_text);
  std::vector<std::string> words = {binary};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int sent[2] = {-1, -1};
  check(!options.stdin_open || ::pipe2(sent, O_CLOEXEC) == 0, "test", "pipe failed");
  input_ = sent[1];
  pid_ = ::fork();
  check(pid_ >= 0, "test", "fork failed");
  if (pid_ > 0) {
    if (options.stdin_open) ::close(sent[0]);
    return;
  }
  if (options.stdin_open) ::dup2(sent[0], STDIN_FILENO);
  for (const std::string& variable : options.environment) ::putenv(const_cast<char*>(variable.c_str()));
  if (!in.empty()) redirect(in, STDIN_FILENO);
  if (out_ == "closed")
    ::close(STDOUT_FILENO);
  else if (int ends[2]; out_ == "unread" && ::pipe(ends) == 0)
    ::close(ends[0]), ::dup2(ends[1], STDOUT_FILENO);
  else
    redirect(out_, STDOUT_FILENO);
  redirect(err_, STDERR_FILENO);
  if (options.file_limit) {
    ::signal(SIGXFSZ, SIG_IGN);  // writes fail instead, as on a full disk
    const rlimit limit{rlim_t(options.file_limit), rlim_t(options.file_limit)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  const auto bound = [](auto what, int64_t most) {
    const rlimit limit{rlim_t(most), rlim_t(most)};
    if (most) ::setrlimit(what, &limit);
  };
  bound(RLIMIT_DATA, options.data_limit);
  bound(RLIMIT_CPU, options.cpu_limit);
  bound(RLIMIT_STACK, options.stack_limit);
  bound(RLIMIT_AS, options.space_limit);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

Process::~Process() {
  if (input_ >= 0) ::close(input_);
  if (done_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

void Process::send(int signal) {
  if (running()) ::kill(pid_, signal);
}

ssize_t Process::write(std::string_view bytes) { return ::write(input_, bytes.data(), bytes.size()); }

bool Process::running() {
  if (!done_) done_ = reap(WNOHANG);
  return !done_;
}

bool Process::reap(int options) {
  rusage usage{};
  if (::wait4(pid_, &status_, options, &usage) != pid_) return false;
  peak_memory_ = int64_t(usage.ru_maxrss) << 10;
  return true;
}

Finished Process::wait() {
  if (!done_) reap(0);
  done_ = true;
  Finished f;
  f.peak_memory = peak_memory_;
  if (WIFEXITED(status_)) f.code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) f.signal = WTERMSIG(status_);
  if (std::filesystem::is_regular_file(out_)) f.out = read_file(out_);
  if (std::filesystem::exists(err_)) f.err = read_file(err_);  // not when it was killed before it began
  return f;
}

void wait_until(const std::function<bool()>& is) {
  for (int i = 0; i < 3000 && !is(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

bool have_program() {
  const char* binary = std::getenv("LITHE_BINARY");
  return binary && std::filesystem::exists(binary);
}

Finished run_program(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  return Process(arguments, options).wait();
}

std::string small_text(int64_t bytes, uint64_t seed) {
  static const char* const words[] = {"the", "cat", "sat", "on",    "a",     "mat",
                                      "and", "saw", "two", "small", "birds", "fly"};
  std::string text;
  for (uint64_t i = 0; int64_t(text.size()) < bytes; ++i) {
    text += words[random_below({.seed = seed, .purpose = purpose_of("test text")}, i, std::size(words))];
    text += random_below({.seed = seed, .purpose = purpose_of("test line")}, i, 7) ? ' ' : '\n';
  }
  return text;
}

}  // namespace lithe::kit
