#include "lithe/recipe/file_kind.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"

namespace lithe {
namespace {

std::string error(const std::string& yaml, FileKind wanted) {
  try {
    check_kind(parse_yaml(yaml, "f.yaml"), "f.yaml", wanted);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "";
}

TEST(FileKind, NamesTheCommandThatTakesTheFile) {
  const std::string recipe = "{model: {hidden_size: 8}, data: {files: [a.txt]}}";
  const std::string experiment = "{recipe: r.yaml, baseline: a, variants: {a: {}}}";
  const std::string search = "{recipe: r.yaml, choices: {model.hidden_size: [8, 16]}}";
  const std::string task = "{task: arc_easy, dataset_path: arc}";
  EXPECT_EQ(error(experiment, FileKind::recipe),
            "recipe: f.yaml: is an experiment, not a recipe; give it to lithe compare");
  EXPECT_EQ(error(search, FileKind::recipe), "recipe: f.yaml: is a search, not a recipe; give it to lithe search");
  EXPECT_NE(error(task, FileKind::recipe).find("lithe eval RUN --tasks"), std::string::npos);
  EXPECT_NE(error(recipe, FileKind::experiment).find("lithe train"), std::string::npos);
  EXPECT_NE(error(search, FileKind::experiment).find("lithe search"), std::string::npos);
  EXPECT_NE(error(experiment, FileKind::search).find("lithe compare"), std::string::npos);
}

TEST(FileKind, LeavesOtherFaultsToTheReader) {
  EXPECT_EQ(error("{model: {}, data: {}}", FileKind::recipe), "");
  EXPECT_EQ(error("{recipe: r.yaml, variants: {}}", FileKind::experiment), "");
  EXPECT_EQ(error("{modle: {}}", FileKind::recipe), "");
  EXPECT_EQ(error("{}", FileKind::search), "");
}

}  // namespace
}  // namespace lithe
