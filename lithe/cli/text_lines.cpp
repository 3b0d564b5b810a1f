#include "lithe/cli/text_lines.h"

#include <iostream>
#include <sstream>

#include "lithe/data/corpus.h"
#include "lithe/data/examples_readers.h"

namespace lithe {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) out.emplace_back(take_line(text));
  return out;
}

std::vector<std::string> text_lines(const std::vector<std::string>& files) {
  if (files.empty()) {
    std::ostringstream all;
    all << std::cin.rdbuf();
    return lines_of(all.str());
  }
  std::vector<std::string> out;
  Corpus(files, {.documents = "file"}).for_each_document([&](std::string_view text) {
    while (!text.empty()) out.emplace_back(take_line(text));
  });
  return out;
}

}  // namespace lithe
