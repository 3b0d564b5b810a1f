// The example that docs/library.md shows, compiled and run.
#include <atomic>
#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

#include "lithe/infer/generate.h"
#include "lithe/infer/load.h"
#include "tests/infer/infer_kit.h"
#include "tests/support/process.h"

#define main example_of_requests
#include "examples/requests/main.cpp"
#undef main

namespace lithe {
namespace {

// A stream reads and writes strings while this lives.
class Redirected {
 public:
  explicit Redirected(const std::string& input)
      : in_(input), old_in_(std::cin.rdbuf(in_.rdbuf())), old_out_(std::cout.rdbuf(out_.rdbuf())) {}
  ~Redirected() {
    std::cin.rdbuf(old_in_);
    std::cin.clear();
    std::cout.rdbuf(old_out_);
  }
  std::string written() const { return out_.str(); }

 private:
  std::istringstream in_;
  std::ostringstream out_;
  std::streambuf *old_in_, *old_out_;
};

TEST(RequestsExample, ContinuesEachLineOfItsInput) {
  const kit::Scratch scratch;
  const auto model = byte_model("rotary", 256);
  save_config(model->config(), scratch.path() / "config.json");
  save_weights(*model, scratch.path() / "model.safetensors");
  write_file(scratch.path() / "tokenizer.json", kBytes->to_json());
  const std::vector<std::string> lines = {"hello", "some longer line", "", "x"};
  std::string input;
  for (const std::string& line : lines) input += line + "\n";
  std::string run = scratch.path().string(), written;
  {
    const Redirected streams(input);
    char* arguments[] = {nullptr, run.data()};
    EXPECT_EQ(example_of_requests(2, arguments), 0);
    written = streams.written();
  }
  const LoadedModel loaded = load_model(scratch.path(), "", "f32");
  const auto want = generate(*loaded.model, *loaded.tokenizer, lines,
                             {.max_new_tokens = 40, .top_p = 0.9, .stop = {"\n"}, .seed = 7});
  size_t length = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_NE(written.find(lines[i] + want[i].text + "\n"), std::string::npos) << lines[i];
    length += lines[i].size() + want[i].text.size() + 1;
  }
  EXPECT_EQ(written.size(), length);  // and nothing else, in the order in which they are done
}

TEST(RequestsExample, IsWhatTheDocumentShows) {
  const std::string program = read_file("examples/requests/main.cpp");
  EXPECT_NE(read_file("docs/library.md").find(program.substr(program.find("#include"))), std::string::npos);
}

}  // namespace
}  // namespace lithe
