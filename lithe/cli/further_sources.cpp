#include "lithe/cli/further_sources.h"

#include <algorithm>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/cli/text_lines.h"

namespace lithe {

void add_source_option(CommandLine& app, std::vector<std::string>& sources) {
  app.add_option("--source", sources,
                 "NAME=FILE: text for the further encoder NAME (model.encoders), with a line for each line of the "
                 "text; once for each such encoder");
}

std::map<std::string, std::string> source_files(const std::vector<std::string>& given,
                                                const std::vector<std::string>& names, const char* operation) {
  std::map<std::string, std::string> out;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    check_usage(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), operation,
                "--source takes NAME=FILE, got '", text, "'");
    const std::string name = text.substr(0, equals);
    check_usage(std::ranges::find(names, name) != names.end(), operation, "the model has no further encoder '", name,
                "'", names.empty() ? "; it reads one source, leave --source out" : cat("; it has ", join(names)));
    check_usage(out.emplace(name, text.substr(equals + 1)).second, operation, "--source ", name,
                " is given twice; keep one");
  }
  return out;
}

std::map<std::string, std::string> further_files(const std::vector<std::string>& given, const Recipe& recipe,
                                                 const char* operation) {
  std::vector<std::string> names;
  for (const auto& [name, keys] : recipe.model.encoders.entries()) names.push_back(name);
  std::map<std::string, std::string> out = source_files(given, names, operation);
  const auto sources = recipe.translation.further_sources();
  for (const std::string& name : names) {
    const auto source = sources.find(name);
    const bool made = source != sources.end() && (source->second.from == FurtherSource::From::previous ||
                                                  source->second.from == FurtherSource::From::source);
    check_usage(made || out.count(name), operation, "the model reads a text of ", name,
                " beside each line; give --source ", name, "=FILE");
  }
  return out;
}

FurtherLines::FurtherLines(const std::vector<std::string>& given, const Recipe& recipe, const char* operation)
    : operation_(operation), files_(further_files(given, recipe, operation)) {
  for (const auto& [name, source] : recipe.translation.further_sources())
    if (recipe.model.encoders.find(name) && !files_.count(name)) sources_[name] = source;
  for (const auto& [name, file] : files_) texts_[name] = text_lines({file});
}

void FurtherLines::check_lines(size_t count) const {
  for (const auto& [name, lines] : texts_)
    check_usage(lines.size() == count, operation_, "there are ", count, " lines, and '", files_.at(name), "' has ",
                lines.size(), "; line n of one must belong to line n of the other");
}

FurtherTexts FurtherLines::next(const std::vector<std::string>& lines) {
  FurtherTexts out;
  for (const auto& [name, texts] : texts_) {
    check_usage(done_ + lines.size() <= texts.size(), operation_, "'", files_.at(name), "' has ", texts.size(),
                " lines, and line ", texts.size() + 1, " is to be translated; give it one for each");
    const auto begin = texts.begin() + long(done_);
    out[name] = {begin, begin + long(lines.size())};
  }
  std::vector<std::string> all = before_;
  all.insert(all.end(), lines.begin(), lines.end());
  int64_t most = 0;
  for (const auto& [name, source] : sources_) {
    if (source.from == FurtherSource::From::source) {
      out[name] = lines;
      continue;
    }
    const auto context = previous_lines(all, source.lines);
    out[name] = {context.begin() + long(before_.size()), context.end()};
    most = std::max(most, source.lines);
  }
  before_.assign(all.end() - std::min(long(most), long(all.size())), all.end());
  done_ += lines.size();
  return out;
}

}  // namespace lithe
