// Which label means which class of a model's head.
#include "shade/data/classes.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace shade::data {
namespace {

using List = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

const HeadClasses kNamed{.number = 3, .names = {"sea", "air", "hill"}, .may_be_named = true};
const HeadClasses kUnnamed{.number = 3, .names = {"LABEL_0", "LABEL_1", "LABEL_2"}, .may_be_named = true};
const HeadClasses kEvaluated{.number = 3, .names = {}, .may_be_named = false};

void expect_numbers(const HeadClasses& head, const List& labels, const List& stated, const List& names,
                    const Numbers& numbers) {
  const auto found = number_classes(labels, stated, head);
  EXPECT_EQ(found.names, names);
  EXPECT_EQ(found.of_labels, numbers);
}

std::string refused_labels(const HeadClasses& head, const List& labels, const List& stated = {}) {
  try {
    number_classes(labels, stated, head);
  } catch (const UsageError& fault) {  // an UnknownLabel, or of the classes themselves
    return fault.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(Classes, AHeadWithNamesKeepsItsNumbers) {
  const List names = kNamed.names;
  expect_numbers(kNamed, {"air", "hill", "sea"}, {}, names, {1, 2, 0});
  expect_numbers(kNamed, {"hill"}, {}, names, {2});
  expect_numbers(kNamed, {"air", "sea"}, {"air", "hill", "sea"}, names, {1, 0});
  expect_numbers(kNamed, {"0", "2"}, {}, names, {0, 2});
  expect_numbers(kNamed, {"0", "2"}, {"2", "1", "0"}, names, {0, 2});
  EXPECT_NE(number_classes(List{"air"}, {"air", "hill", "sea"}, kNamed).notice.find("not as --classes"),
            std::string::npos);
  EXPECT_NE(number_classes(List{"1"}, {}, kNamed).notice.find("class numbers"), std::string::npos);
  EXPECT_TRUE(number_classes(List{"air"}, names, kNamed).notice.empty());
}

// Names that are whole numbers are names.
TEST(Classes, NamesComeBeforeNumbers) {
  const HeadClasses stars{.number = 3, .names = {"1", "2", "5"}};
  expect_numbers(stars, {"1", "2", "5"}, {}, stars.names, {0, 1, 2});
  EXPECT_NE(refused_labels(stars, {"0", "1"}).find("the label '0'"), std::string::npos);
}

TEST(Classes, WhatIsNoClassIsRefusedWithBothLists) {
  for (const auto& labels : {List{"air", "moon"}, List{"0", "air"}, List{"1", "3"}, List{"01"}, List{"-1", "1"}}) {
    const auto said = refused_labels(kNamed, labels);
    EXPECT_NE(said.find("the model's classes: 'sea', 'air', 'hill'; labels of the data: "), std::string::npos) << said;
  }
  EXPECT_NE(refused_labels(kNamed, {"Sea"}).find("case counts; did you mean 'sea'?"), std::string::npos);
  EXPECT_NE(refused_labels(kNamed, {"3"}).find("class numbers are 0 to 2"), std::string::npos);
  for (const auto& stated : {List{"air", "sea"}, List{"air", "moon", "sea"}, List{"air", "hill", "moon", "sea"}}) {
    const auto said = refused_labels(kNamed, {"air"}, stated);
    EXPECT_NE(said.find("--classes and the model must have the same classes"), std::string::npos) << said;
    EXPECT_NE(said.find("'sea', 'air', 'hill'"), std::string::npos) << said;
  }
  HeadClasses twice{.number = 3, .names = {"a", "b", "a"}};
  EXPECT_NE(refused_labels(twice, {"b"}).find("expected at least 2 different names"), std::string::npos);
  twice.may_be_named = false;
  expect_numbers(twice, {"b"}, {}, twice.names, {1});
  EXPECT_NE(refused_labels(twice, {"a"}).find("two classes have that name"), std::string::npos);
}

TEST(Classes, AHeadWithoutNamesIsNumberedByNumbers) {
  for (const auto& head : {kUnnamed, kEvaluated}) {
    expect_numbers(head, {"0", "2"}, {}, kUnnamed.names, {0, 2});
    expect_numbers(head, {"LABEL_0", "LABEL_2"}, {}, kUnnamed.names, {0, 2});
    expect_numbers(head, {"0", "2"}, {"2", "1", "0"}, {"0", "1", "2"}, {0, 2});
    expect_numbers(head, {"air", "sea"}, {"sea", "air", "hill"}, {"sea", "air", "hill"}, {1, 0});
    expect_numbers(head, {"1", "3"}, {"1", "2", "3"}, {"1", "2", "3"}, {0, 2});
    for (const auto& labels : {List{"1", "2", "3"}, List{"LABEL_1", "LABEL_2", "LABEL_3"}, List{"0", "1", "air"}})
      EXPECT_NE(refused_labels(head, labels).find("the model does not name its 3 classes"), std::string::npos);
    EXPECT_NE(refused_labels(head, {"a"}, {"a", "b"}).find("the data has 2 classes, the model 3"), std::string::npos);
  }
}

// In training alone, and said.
TEST(Classes, LabelsNameAHeadWithoutNames) {
  expect_numbers(kUnnamed, {"air", "hill", "sea"}, {}, {"air", "hill", "sea"}, {0, 1, 2});
  EXPECT_NE(number_classes(List{"air", "hill", "sea"}, {}, kUnnamed).notice.find("'air', 'hill', 'sea'"),
            std::string::npos);
  EXPECT_NE(refused_labels(kUnnamed, {"air", "sea"}).find("the data has 2 classes, the model 3"), std::string::npos);
  const auto said = refused_labels(kEvaluated, {"air", "hill", "sea"});
  EXPECT_NE(said.find("labels of the data: 'air', 'hill', 'sea'; the model's classes: 'LABEL_0', 'LABEL_1', 'LABEL_2'"),
            std::string::npos)
      << said;
}

TEST(Classes, ANewHeadTakesAnyLabels) {
  const HeadClasses five{.number = 5, .is_new = true};
  const List stars{"1", "2", "3", "4", "5"};
  expect_numbers(five, stars, {}, stars, {0, 1, 2, 3, 4});
  EXPECT_EQ(number_classes(List{"0", "4"}, {}, five).of_labels, (std::vector<int64_t>{0, 4}));
  for (const auto& head : {HeadClasses{}, HeadClasses{.number = 2, .is_new = true}})
    expect_numbers(head, {"0", "1"}, {"1", "0"}, {"0", "1"}, {0, 1});  // as an adapter without names is read
}

// In a private run they are stated, and which labels occur decides nothing.
TEST(Classes, StatedClassesDoNotDependOnTheLabels) {
  const List stated{"sea", "hill", "air"};
  for (const auto& head : {HeadClasses{}, kUnnamed, kNamed}) {
    const auto all = number_classes(List{"air", "hill", "sea"}, stated, head);
    for (const auto& some : {List{"air"}, List{"hill", "sea"}, List{}})
      EXPECT_EQ(number_classes(some, stated, head).names, all.names);
    EXPECT_EQ(number_classes(List{"hill"}, stated, head).of_labels[0], all.of_labels[1]);
  }
}

TEST(Classes, WhiteSpaceMakesNoClass) {
  for (const auto* label : {"", " ", "x ", "\tx"})
    EXPECT_NE(refused_labels({}, {"x", label}).find("without white space around it"), std::string::npos) << label;
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":\"x \"}\n");
  EXPECT_THROW(open_dataset(folder.config(), 4, Task::classify), UsageError);
  EXPECT_NO_THROW(open_dataset(folder.config(), 4, Task::lm)) << "labels are not used";
}

}  // namespace
}  // namespace shade::data
