#include "lithe/cli/text_lines.h"

#include <iostream>
#include <sstream>

#include "lithe/data/corpus.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

void add_lines(std::string_view text, std::vector<std::string>& out) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<std::string> text_lines(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  if (files.empty()) {
    std::ostringstream all;
    all << std::cin.rdbuf();
    add_lines(all.str(), out);
    return out;
  }
  Corpus(files, {.documents = "file"}).for_each_document([&](std::string_view text) { add_lines(text, out); });
  return out;
}

}  // namespace lithe
