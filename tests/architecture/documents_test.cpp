// What a machine can check of the documents. Runs from the repository's root.
#include <gtest/gtest.h>

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

TEST(Documents, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  for (const Path& file : documents()) {
    const std::string text = read_file(file);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1];
      if (target.find("://") != std::string::npos || target.find(' ') != std::string::npos) continue;
      EXPECT_TRUE(std::filesystem::exists(file.parent_path() / target)) << file.string() << " links to " << target;
    }
  }
}

TEST(Readme, TableOfFoldersIsTheTree) {
  const std::string text = read_file("README.md");
  const size_t begin = text.find("## Folders");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  std::set<std::string> named;
  const std::regex word(R"(`([A-Za-z./_]+)`)");
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator at(cell.begin(), cell.end(), word), end; at != end; ++at) named.insert((*at)[1]);
  }
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
