// Reads bytes as the body of a request, or as a grammar. What is read may fail by a lithe::Error alone, and a grammar
// that is taken can be followed.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/infer/grammar_machine.h"
#include "lithe/infer/json_grammar.h"
#include "lithe/serve/completions.h"
#include "tests/train/run_kit.h"

namespace {

// An untrained model of bytes that chats.
const lithe::ServedModel& model() {
  static lithe::kit::TrainKit kit;
  static const auto served = [] {
    lithe::TrainRun run = kit.run(
        "{vocab_size: 257, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 64, mixer: {type: attention, "
        "num_attention_heads: 1}, ffn: {type: relu, intermediate_size: 8}}",
        lithe::kit::kHeldOutData, "{max_steps: 1, batch_tokens: 64}", "tiny");
    run.initialise = true;
    lithe::train(run);
    kit.scratch.add("tiny/chat_template.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    return std::make_unique<lithe::ServedModel>(run.out, lithe::ServeOptions());
  }();
  return *served;
}

void follow(lithe::Grammar grammar, const std::string& text) {
  lithe::GrammarMachine machine(std::move(grammar));
  machine.begin_work();
  int32_t state = machine.start();
  for (size_t i = 0; i < text.size() && i < 64 && state != lithe::GrammarMachine::kNowhere; ++i)
    state = machine.next(state, uint8_t(text[i]));
}

template <class F>
void tried(F&& f) {
  try {
    f();
  } catch (const lithe::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 20000) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  lithe::Json body;
  try {
    body = lithe::parse_json(text, "fuzz");
  } catch (const lithe::Error&) {
    tried([&] { follow(lithe::parse_gbnf(text), text); });
    return 0;
  }
  tried([&] { lithe::read_completion(body, model(), false); });
  tried([&] { lithe::read_completion(body, model(), true); });
  tried([&] { follow(lithe::json_schema_grammar(body), "{\"a\": [1, \"b\"]}"); });
  return 0;
}
