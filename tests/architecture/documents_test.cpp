// What a machine can check of the documents. Runs from the repository's root.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "lithe/base/files.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

const std::set<std::string> kNotOurs{"build", "runs", "data", "corpus"};  // .gitignore names them

std::vector<Path> files_of_the_repository() {
  std::vector<Path> out;
  for (const auto& top : std::filesystem::directory_iterator(".")) {
    const std::string name = top.path().filename().string();
    if (kNotOurs.count(name) || name == ".git" || name.ends_with(".whl")) continue;
    if (!top.is_directory()) {
      out.push_back(top.path());
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(top))
      if (entry.is_regular_file()) out.push_back(entry.path());
  }
  return out;
}

std::vector<Path> documents() {
  std::vector<Path> out;
  for (const Path& file : files_of_the_repository())
    if (file.extension() == ".md") out.push_back(file);
  return out;
}

size_t characters(const std::string& line) {
  size_t n = 0;
  for (const char c : line) n += (c & 0xC0) != 0x80;  // not a continuation of UTF-8
  return n;
}

TEST(Documents, NoFileNamesWhatIsOutsideOfTheRepository) {
  const std::string beside = std::string("..") + "/shared", absolute = std::string("/wo") + "rk/";
  for (const Path& file : files_of_the_repository()) {
    if (file == "./.ci/run") continue;  // which says where the data are on its machine
    const std::string text = read_file(file);
    EXPECT_EQ(text.find(beside), std::string::npos) << file << " names " << beside;
    EXPECT_EQ(text.find(absolute), std::string::npos) << file << " names " << absolute;
  }
}

TEST(Documents, LinesFitAPage) {
  for (const Path& file : documents()) {
    size_t number = 0;
    for (const std::string& line : kit::lines_of(read_file(file))) {
      ++number;
      EXPECT_LE(characters(line), 160u) << file.string() << ":" << number;
    }
  }
}

// The names by which a page's headings are linked to, as GitHub makes them.
std::set<std::string> anchors_of(const Path& page) {
  std::set<std::string> out;
  bool code = false;
  for (const std::string& line : kit::lines_of(read_file(page))) {
    if (line.starts_with("```")) code = !code;
    const size_t begin = line.find_first_not_of('#');
    if (code || begin == 0 || begin == std::string::npos || line[begin] != ' ') continue;
    std::string name;
    for (const char c : line.substr(begin + 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == ' ' || c == '-') name += '-';
      if (std::isalnum(byte) || c == '_' || byte >= 0x80) name += char(std::tolower(byte));
    }
    std::string unique = name;
    for (int again = 1; !out.insert(unique).second; ++again) unique = name + "-" + std::to_string(again);
  }
  return out;
}

TEST(Documents, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#]*)(#[^)]*)?\))");
  int anchors = 0;
  for (const Path& file : documents()) {
    const std::string text = read_file(file);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1], anchor = (*at)[2];
      if (target.find("://") != std::string::npos || (target + anchor).find(' ') != std::string::npos) continue;
      const Path page = target.empty() ? file : file.parent_path() / target;
      EXPECT_TRUE(std::filesystem::exists(page)) << file.string() << " links to " << target;
      if (anchor.empty() || page.extension() != ".md" || !std::filesystem::exists(page)) continue;
      ++anchors;
      EXPECT_TRUE(anchors_of(page).count(anchor.substr(1)))
          << file.string() << " links to " << target << anchor << ", which has no such heading";
    }
  }
  EXPECT_GE(anchors, 10);  // the pattern does find anchors
}

// What the first column of README's table of folders names, from top to bottom.
std::vector<std::string> folders_of_the_table() {
  const std::string text = read_file("README.md");
  const size_t begin = text.find("## Folders");
  if (begin == std::string::npos) return {};
  const std::string table = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  std::vector<std::string> named;
  const std::regex word(R"(`([A-Za-z./_]+)`)");
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator at(cell.begin(), cell.end(), word), end; at != end; ++at) named.push_back((*at)[1]);
  }
  return named;
}

TEST(Readme, TableOfFoldersIsTheTree) {
  const std::vector<std::string> in_order = folders_of_the_table();
  const std::set<std::string> named(in_order.begin(), in_order.end());
  EXPECT_EQ(named.size(), in_order.size());
  std::set<std::string> folders;
  for (const auto& top : std::filesystem::directory_iterator(".")) {
    const std::string name = top.path().filename().string();
    if (!top.is_directory() || name.starts_with(".") || kNotOurs.count(name) || name == "lithe") continue;
    folders.insert(name);
  }
  for (const auto& folder : std::filesystem::directory_iterator("lithe"))
    folders.insert("lithe/" + folder.path().filename().string());
  EXPECT_EQ(named, folders);
}

TEST(Readme, TableOfFoldersHasTheOrderInWhichTheyAreBuilt) {
  const std::regex folder(R"(^lithe_(?:folder\((\w+)|(kernels|parts)\())");
  std::vector<std::string> built, named;
  for (const std::string& line : kit::lines_of(read_file("CMakeLists.txt")))
    if (std::smatch match; std::regex_search(line, match, folder))
      built.push_back("lithe/" + (match[1].matched ? match[1] : match[2]).str());
  for (const std::string& name : folders_of_the_table())
    if (name.starts_with("lithe/")) named.push_back(name);
  EXPECT_EQ(named, built);
}

TEST(Readme, NamesEveryPage) {
  const std::string text = read_file("README.md");
  for (const auto& page : std::filesystem::directory_iterator("docs")) {
    const std::string name = page.path().filename().string();
    if (!name.ends_with(".md")) continue;
    EXPECT_NE(text.find("](docs/" + name + ")"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace lithe
