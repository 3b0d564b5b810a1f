// What the further encoders of a translator read, for subcommands that are given files.
#pragma once

#include "lithe/cli/options.h"
#include "lithe/infer/translate.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// --source NAME=FILE, several times.
void add_source_option(CommandLine& app, std::vector<std::string>& sources);

/// The files of `given`, NAME=FILE each, by name. Fails (usage) on others, a name twice, and one that is not of
/// `names`.
std::map<std::string, std::string> source_files(const std::vector<std::string>& given,
                                                const std::vector<std::string>& names, const char* operation);

/// The files that were given for a translator, by name. Fails (usage) as source_files() does, and where an encoder that
/// reads texts of its own is given none. One whose texts are made of the source lines may be given a file all the same.
std::map<std::string, std::string> further_files(const std::vector<std::string>& given, const Recipe& recipe,
                                                 const char* operation);

/// Texts of further encoders for lines that come window by window.
class FurtherLines {
 public:
  /// Reads the files, `given` as further_files() says.
  FurtherLines(const std::vector<std::string>& given, const Recipe& recipe, const char* operation);
  /// Fails (usage) unless each file has so many lines.
  void check_lines(size_t count) const;
  /// Those of the next lines. Fails (usage) where a file has no more.
  FurtherTexts next(const std::vector<std::string>& lines);

 private:
  const char* operation_;
  std::map<std::string, std::string> files_;
  std::map<std::string, FurtherSource> sources_;
  FurtherTexts texts_;               // of the files
  std::vector<std::string> before_;  // as many lines as the longest context has
  size_t done_ = 0;
};

}  // namespace lithe
