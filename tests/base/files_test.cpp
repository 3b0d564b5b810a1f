#include "lithe/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const Path& directory) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Temporary, ItsNameIsNotGuessableAndItGoes) {
  const kit::Scratch scratch;
  {
    const AtomicFile first(scratch / "out"), second(scratch / "out");
    const auto names = names_in(scratch.path());
    ASSERT_EQ(names.size(), 2u);  // two at once, each with a name of its own
    for (const std::string& name : names) {
      EXPECT_EQ(name.substr(0, 8), "out.tmp-");
      EXPECT_EQ(name.size(), 8u + 16u);
      EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 8), std::string::npos) << name;
      EXPECT_EQ(name.find(std::to_string(::getpid())), std::string::npos) << "the process is in " << name;
    }
  }
  EXPECT_TRUE(names_in(scratch.path()).empty());
  write_file(scratch / "out", "whole");
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"out"});
  EXPECT_EQ(read_file(scratch / "out"), "whole");
}

// A process that was killed leaves its temporaries without a lock; the next that writes the same removes them.
TEST(Temporary, LeftoversOfTheDeadGoAndThoseOfTheLivingStay) {
  const kit::Scratch scratch;
  scratch.add("out.tmp-0123456789abcdef", "half");
  scratch.add("other.tmp-0123456789abcdef", "of another output");
  scratch.add("out.tmp-1234", "a name of somebody else");
  fs::create_directory(scratch / "out.tmp-aaaaaaaaaaaaaaaa");
  scratch.add("out.tmp-aaaaaaaaaaaaaaaa/model", "half");
  const std::string target = scratch.add("target", "kept");
  fs::create_symlink(target, scratch / "out.tmp-bbbbbbbbbbbbbbbb");
  {
    const AtomicFile living(scratch / "out");
    write_file(scratch / "out", "whole");
    const auto names = names_in(scratch.path());
    ASSERT_EQ(names.size(), 6u) << testing::PrintToString(names);
    EXPECT_EQ(names[0], "other.tmp-0123456789abcdef");
    EXPECT_EQ(names[1], "out");
    EXPECT_TRUE(fs::exists(scratch / "out.tmp-1234"));
    EXPECT_TRUE(fs::is_symlink(scratch / "out.tmp-bbbbbbbbbbbbbbbb"));  // ours are no links
    EXPECT_EQ(read_file(target), "kept");
    remove_temporaries(scratch.path());
    EXPECT_FALSE(fs::exists(scratch / "other.tmp-0123456789abcdef"));
    EXPECT_EQ(names_in(scratch.path()).size(), 5u);  // the living one is among them
  }
}

TEST(Temporary, ADirectoryAppearsWholeOrNotAtAll) {
  const kit::Scratch scratch;
  {
    const Temporary made(scratch / "run/", Temporary::Kind::directory);
    write_file(made.name() / "a", "a");
  }
  EXPECT_TRUE(names_in(scratch.path()).empty());
  Temporary made(scratch / "run/", Temporary::Kind::directory);
  write_file(made.name() / "a", "a");
  made.commit();
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"run"});
  EXPECT_EQ(read_file(scratch / "run/a"), "a");
}

// 24 groups are 16 million patterns.
TEST(Glob, BracesThatStandForThousandsOfPatternsAreRefused) {
  const kit::Scratch scratch;
  scratch.add("ac", "");
  scratch.add("bd", "");
  EXPECT_EQ(glob(scratch / "{a,b}{c,d}").size(), 2u);
  std::string many = scratch / "";
  for (int i = 0; i < 24; ++i) many += "{a,b}";
  const std::string error = kit::coded_error_of([&] { glob(many); });
  EXPECT_EQ(error.substr(0, 8), "2 files:") << error;
  EXPECT_NE(error.find("stands for more than 4096 patterns by its braces"), std::string::npos) << error;
  std::string nested = scratch / "";
  for (int i = 0; i < 24; ++i) nested += "{a,{b,c}}";
  EXPECT_EQ(kit::coded_error_of([&] { glob(nested); }).substr(0, 8), "2 files:");
}

// Recipes name the public sets so, wherever a user has them.
TEST(Glob, AVariableNamesTheDirectoryOfTheData) {
  const kit::Scratch scratch;
  scratch.add("set.txt", "");
  const char* before = std::getenv("LITHE_DATA");
  const std::string old = before ? before : "";
  ::setenv("LITHE_DATA", scratch.path().c_str(), 1);
  EXPECT_EQ(glob("$LITHE_DATA/*.txt"), std::vector<Path>{scratch / "set.txt"});
  std::string error = kit::coded_error_of([] { glob("$LITHE_DATA/none.txt"); });
  EXPECT_EQ(error.substr(0, 8), "2 files:") << error;
  EXPECT_NE(error.find(scratch / "none.txt"), std::string::npos) << error;
  EXPECT_NE(error.find("set LITHE_DATA"), std::string::npos) << error;
  ::unsetenv("LITHE_DATA");
  error = kit::coded_error_of([] { glob("$LITHE_DATA/none.txt"); });
  EXPECT_NE(error.find("nothing matches 'data/none.txt'"), std::string::npos) << error;
  if (before) ::setenv("LITHE_DATA", old.c_str(), 1);
}

}  // namespace
}  // namespace lithe
