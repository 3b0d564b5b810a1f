// Continues a text with a trained model: generate RUN "text".
#include <lithe/infer/generate.h>
#include <lithe/infer/load.h>

#include <iostream>

int main(int, char** argv) {
  const lithe::LoadedModel run = lithe::load_model(argv[1], "", "f32");
  std::cout << lithe::generate(*run.model, *run.tokenizer, {argv[2]}, {.max_new_tokens = 40})[0].text << "\n";
}
