// The rules of the house that a machine can check (docs of the folders: lithe/*/README.md). Runs from the repository's
// root.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "lithe/base/capabilities.h"
#include "lithe/base/files.h"
#include "lithe/nn/registry.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

std::vector<Path> files_below(const Path& root, const std::set<std::string>& extensions) {
  std::vector<Path> out;
  if (!std::filesystem::exists(root)) return out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file() && extensions.count(entry.path().extension().string())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

const std::set<std::string> kSources{".cpp", ".h"};

// lithe/<folder>/... -> folder; lithe/parts/<slot>/... -> parts/<slot> where that is built apart.
std::string folder_of(const std::string& path, const std::set<std::string>& apart) {
  const auto begin = path.find("lithe/") + 6, end = path.find('/', begin);
  const std::string slot = path.substr(begin, path.find('/', end + 1) - begin);
  return apart.count(slot) ? slot : path.substr(begin, end - begin);
}

// Folder -> folders it may include, read from CMakeLists.txt, where each names the ones it stands on.
std::map<std::string, std::set<std::string>> allowed() {
  std::map<std::string, std::set<std::string>> out;
  const std::regex folder(R"(^lithe_folder\((\w+) (?:LIGHT )?(?:HEADERS \w+ )?DEPENDS (.*)\))"),
      special(R"(^lithe_(kernels|parts)\(DEPENDS (.*)\))"),
      apart(R"(^lithe_parts_apart\((\w+) (?:HEADERS \w+ )?DEPENDS (.*)\))");
  for (const std::string& line : kit::lines_of(read_file("CMakeLists.txt"))) {
    std::smatch match;
    const bool is_apart = std::regex_search(line, match, apart);
    if (!is_apart && !std::regex_search(line, match, folder) && !std::regex_search(line, match, special)) continue;
    std::set<std::string>& mine = out[(is_apart ? "parts/" : "") + match[1].str()];
    std::istringstream words(match[2]);
    for (std::string word; words >> word;) {
      if (!word.starts_with("lithe_")) continue;
      const std::string below = word.substr(6);
      EXPECT_TRUE(out.count(below)) << match[1] << " depends on " << below
                                    << ", which must stand above it in CMakeLists.txt";
      mine.insert(below);
      mine.insert(out[below].begin(), out[below].end());
    }
  }
  return out;
}

TEST(House, FoldersIncludeOnlyWhatStandsAboveThem) {
  const auto may = allowed();
  ASSERT_GE(may.size(), 10u);
  std::set<std::string> apart;
  for (const auto& [name, below] : may)
    if (name.find('/') != std::string::npos) apart.insert(name);
  const std::regex include(R"re(^\s*#\s*include\s*"(lithe/[^"]+)")re");
  int seen = 0;
  for (const Path& file : files_below("lithe", kSources)) {
    const std::string mine = folder_of(file.string(), apart);
    ASSERT_TRUE(may.count(mine)) << mine << " is not in CMakeLists.txt";
    for (const std::string& line : kit::lines_of(read_file(file))) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++seen;
      const std::string other = folder_of(match[1], apart);
      EXPECT_TRUE(other == mine || may.at(mine).count(other))
          << file.string() << " includes " << match[1] << ", but " << mine << " may not include " << other;
    }
  }
  EXPECT_GE(seen, 100);  // the pattern does find includes
}

TEST(House, IncludesAreWrittenFromTheRoot) {
  const std::regex relative(R"re(^\s*#\s*include\s*"(?!lithe/)[^"]*")re");
  for (const char* root : {"lithe", "apps"})
    for (const Path& file : files_below(root, kSources))
      for (const std::string& line : kit::lines_of(read_file(file)))
        EXPECT_FALSE(std::regex_search(line, relative)) << file.string() << ": " << line;
}

// What parts share stands in parts/common.
bool is_common(const Path& file) { return file.parent_path().filename() == "common"; }

TEST(House, PartsHaveNoHeaders) {
  for (const Path& header : files_below("lithe/parts", {".h"}))
    EXPECT_TRUE(is_common(header)) << header.string() << ": siblings must not see each other";
}

TEST(House, EveryFolderSaysWhatLivesThere) {
  for (const auto& entry : std::filesystem::directory_iterator("lithe")) {
    if (!entry.is_directory()) continue;
    const bool empty = files_below(entry.path(), kSources).empty();
    EXPECT_TRUE(empty || std::filesystem::exists(entry.path() / "README.md"))
        << entry.path().string() << " needs a short README.md: what lives here, what may not";
  }
}

TEST(House, FilesAreShort) {
  const std::set<std::string> kinds{".cpp", ".h", ".py", ".cmake", ".sh", ".txt"};
  for (const char* root : {"lithe", "tests", "apps", "bench", "tools", "cmake"})
    for (const Path& file : files_below(root, kinds)) {
      if (file.string().starts_with("tests/golden/") || file.string().find("/data/") != std::string::npos) continue;
      EXPECT_LE(kit::lines_of(read_file(file)).size(), 600u) << file.string();
    }
}

TEST(House, NothingIsLeftForLater) {
  const std::regex left(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X|HA" + "CK)\\b");
  for (const char* root : {"lithe", "tests", "apps", "bench", "tools", "cmake"})
    for (const Path& file : files_below(root, {".cpp", ".h", ".py", ".cmake"}))
      for (const std::string& line : kit::lines_of(read_file(file)))
        EXPECT_FALSE(std::regex_search(line, left)) << file.string() << ": " << line;
}

TEST(House, NamesKeepTheirNamespace) {
  const std::regex whole("^\\s*using namespace ");
  for (const char* root : {"lithe", "apps"})
    for (const Path& file : files_below(root, kSources))
      for (const std::string& line : kit::lines_of(read_file(file)))
        EXPECT_FALSE(std::regex_search(line, whole)) << file.string() << ": " << line;
}

TEST(House, HeadersAreIncludedOnce) {
  for (const char* root : {"lithe", "tests"})
    for (const Path& file : files_below(root, {".h"}))
      EXPECT_NE(read_file(file).find("#pragma once"), std::string::npos) << file.string();
}

// ---- parts: one source, one test, one recipe

TEST(Parts, EveryOneHasItsSourceTestAndRecipe) {
  std::set<std::string> registered;
  for (const Registry::Entry* entry : Registry::instance().all()) {
    const std::string name = entry->slot + "/" + entry->name;
    registered.insert(name);
    EXPECT_TRUE(std::filesystem::exists("lithe/parts/" + name + ".cpp")) << name;
    EXPECT_TRUE(std::filesystem::exists("tests/parts/" + name + "_test.cpp")) << name;
    EXPECT_TRUE(std::filesystem::exists("recipes/" + name + ".yaml")) << name;
  }
  for (const Path& source : files_below("lithe/parts", {".cpp"}))
    EXPECT_TRUE(is_common(source) ||
                registered.count(source.parent_path().filename().string() + "/" + source.stem().string()))
        << source.string() << " registers another name than its file's";
}

TEST(Parts, TestsAndRecipesBelongToAPart) {
  for (const Path& test : files_below("tests/parts", {".cpp"})) {
    std::string name = test.stem().string();
    ASSERT_TRUE(name.ends_with("_test")) << test.string();
    name.resize(name.size() - 5);
    const Path part = Path("lithe/parts") / test.parent_path().filename() / name;
    EXPECT_TRUE(std::filesystem::exists(part.string() + ".cpp") ||
                (is_common(test) && std::filesystem::exists(part.string() + ".h")))
        << test.string();
  }
  for (const auto& slot : std::filesystem::directory_iterator("lithe/parts"))
    for (const Path& recipe : files_below(Path("recipes") / slot.path().filename(), {".yaml"}))
      EXPECT_TRUE(std::filesystem::exists(slot.path() / (recipe.stem().string() + ".cpp"))) << recipe.string();
}

// ---- specification: what is announced exists there and is tested

std::map<std::string, std::string> announced() {
  std::map<std::string, std::string> out;
  for (const Capability& c : capabilities()) out[c.id] = c.file;
  for (const Registry::Entry* entry : Registry::instance().all())
    if (!entry->info.spec.empty()) out[entry->info.spec] = "lithe/parts/" + entry->slot + "/" + entry->name + ".cpp";
  return out;
}

TEST(Specification, EveryAnnouncedIdHasItsOraclesTested) {
  const std::vector<std::string>& tested = ids_with_oracles();
  for (const auto& [id, file] : announced())
    EXPECT_TRUE(std::find(tested.begin(), tested.end(), id) != tested.end())
        << id << " (" << file << ") has no line \"// oracle: " << id << "\" in tests/";
}

TEST(Specification, AnnouncementsAreComplete) {
  for (const Capability& c : capabilities())
    for (const std::string& field : {c.kind, c.summary, c.source})
      EXPECT_FALSE(field.empty()) << c.id << " in " << c.file;
}

TEST(Specification, IdsAreThoseOfTheSpecification) {
  std::set<std::string> known;
  for (const std::string& line : kit::lines_of(read_file("docs/methods.tsv"))) {
    if (line.starts_with('#')) continue;
    EXPECT_TRUE(known.insert(line.substr(0, line.find('\t'))).second) << line << ": twice";
  }
  EXPECT_EQ(known.size(), 256u);
  for (const auto& [id, file] : announced()) EXPECT_TRUE(known.count(id)) << id << " in " << file;
  for (const std::string& id : ids_with_oracles()) EXPECT_TRUE(known.count(id)) << "// oracle: " << id;
}

}  // namespace
}  // namespace lithe
