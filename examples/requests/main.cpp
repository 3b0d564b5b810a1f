// Continues each line of standard input while others are continued: requests RUN.
#include <lithe/infer/generate.h>
#include <lithe/infer/load.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

int main(int, char** argv) {
  using namespace std::chrono_literals;
  const lithe::LoadedModel run = lithe::load_model(argv[1], "", "f32");
  lithe::DecodeLoop loop(*run.model, {.slots = 4, .tokens = 1024, .longest = 256});
  std::atomic<bool> open = true;
  std::thread reader([&] {
    uint64_t number = 0;
    for (std::string line; std::getline(std::cin, line); ++number) {
      const lithe::GenerateConfig config{.max_new_tokens = 40, .top_p = 0.9, .stop = {"\n"}, .seed = 7};
      lithe::DecodeRequest request = lithe::text_request(
          *run.tokenizer, lithe::prompt_tokens(*run.tokenizer, line, config), line.empty(), config, {},
          [line](lithe::Generation&& result) { std::cout << line << result.text << std::endl; });
      request.key = number;
      try {
        loop.submit(std::move(request));
      } catch (const lithe::Error& refused) {
        std::cerr << refused.what() << std::endl;
      }
    }
    open = false;
  });
  while (open || loop.wait(0ms))
    if (loop.wait(100ms)) loop.step();
  reader.join();
  return 0;
}
