// shade report from metrics of training: which lines count, what the picture shows, what is refused.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"
#include "tests/report/picture.h"
#include "tests/support/fault.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFirst = 0x1f77c9, kSecond = 0xd55e00;

std::string plain_step(int64_t step, double loss) { return text(Json{{"step", step}, {"loss", loss}}.dump(), "\n"); }
std::string evaluation(int64_t step, double loss) {
  return text(Json{{"step", step}, {"eval_loss", loss}, {"eval_records", 4}}.dump(), "\n");
}
Json private_step(int64_t step, double loss, double epsilon) {
  return {{"step", step}, {"not_private", {{"loss", loss}}}, {"epsilon", epsilon}, {"delta", 1e-5}};
}

class Runs : public testing::Test {
 protected:
  fs::path add(const std::string& name, const std::string& metrics) const {
    fs::create_directories(scratch_.path() / name);
    scratch_.write(name + "/metrics.jsonl", metrics);
    return scratch_.path() / name;
  }
  fs::path add_plain(const std::string& name) const {
    std::string lines;
    for (int step = 1; step <= 40; ++step)
      lines += plain_step(step, 1 + 4.0 / step) + evaluation(step, 1.5 + 4.0 / step);
    lines += Json{{"step", 40}, {"test_loss", 9.0}, {"test_records", 4}}.dump() + "\n";
    return add(name, lines);
  }
  fs::path add_private(const std::string& name) const {
    std::string lines;
    for (int step = 1; step <= 40; ++step)
      lines += private_step(step, 2 + 3.0 / step, std::sqrt(step)).dump() + "\n" + evaluation(step, 2.5 + 3.0 / step);
    return add(name, lines);
  }
  WrittenReport write(const std::vector<fs::path>& runs, const std::vector<ReferenceLine>& lines = {}) const {
    return write_training_report(runs, lines, scratch_.path() / "out");
  }
  test::PictureFacts picture() const {
    return test::decode_picture(scratch_.path() / "out/visualizations/training.png");
  }

  io::Scratch scratch_;
};

TEST_F(Runs, SayWhereTheyComeFromUnlessPrivate) {
  const auto environment = [](const std::string& host) {
    return Json{{"host", host}, {"command", "shade train on " + host}, {"libtorch", "2.15.0"}, {"cores", 2}}.dump();
  };
  const auto plain = add_plain("plain"), secret = add_private("secret"), older = add_plain("older");
  scratch_.write("plain/environment.json", environment("ann"));
  scratch_.write("secret/environment.json", environment("bob"));
  scratch_.write("older/environment.json", environment("cid"));
  const Json expected{{{"about", "host"}, {"text", "ann; cid"}},
                      {{"about", "cores"}, {"text", "2"}},
                      {{"about", "versions"}, {"text", "libtorch 2.15.0"}}};
  const auto json = write({plain, secret, older}).json;
  EXPECT_EQ(json["facts"], expected);
  EXPECT_EQ(json["runs"][0]["command"], "shade train on ann");
  EXPECT_FALSE(json["runs"][1].contains("command")) << "of a private run it stays with the owner";
  EXPECT_EQ(json["runs"][2]["command"], "shade train on cid");
  fs::remove(older / "environment.json");
  EXPECT_EQ(write({older}).json["facts"], Json::array());
}

TEST_F(Runs, ShowTheSettingsInWhichTheyDiffer) {
  const auto one = add_plain("one"), two = add_private("two"), older = add_plain("older");
  scratch_.write("one/recipe.toml",
                 "[optim]\nlr = 0.01\nbeta1 = 0.9\n\n[dp]\n# found for target_epsilon: sigma = 0.6\ndp = \"none\"\n"
                 "[train]\noutput = \"runs/one\"\n[data]\nclasses = [\"a\",\"b\"]\nno line of ours\nbroken = [1,\n");
  scratch_.write("two/recipe.toml",
                 "[optim]\nlr = 0.005\nbeta1 = 0.9\n\n[dp]\ndp = \"auto\"\n[train]\noutput = \"runs/two\"\n"
                 "[data]\ndata_folder = \"/home/ann/letters\"\ntokenizer = \"../../ann/bytes\"\n"
                 "classes = [\"a\",\"b\"]\n");
  const Json expected{{{"setting", "data.data_folder"}, {"values", {"-", ".../letters", "-"}}},
                      {{"setting", "data.tokenizer"}, {"values", {"-", ".../bytes", "-"}}},
                      {{"setting", "dp.dp"}, {"values", {"none", "auto", "-"}}},
                      {{"setting", "dp.sigma"}, {"values", {"0.6 (found for target_epsilon)", "-", "-"}}},
                      {{"setting", "optim.lr"}, {"values", {"0.01", "0.005", "-"}}}};
  const auto report = write({one, two, older});
  EXPECT_EQ(report.json["differing_settings"], expected);
  EXPECT_NE(report.summary.find("settings that differ:"), std::string::npos);
  EXPECT_EQ(report.summary.find("beta1"), std::string::npos);
  EXPECT_EQ(write({one, older}).json["differing_settings"], Json::array())
      << "a run that says nothing differs in nothing";
  EXPECT_EQ(write({older}).summary.find("settings that differ"), std::string::npos);
}

Json classified(int64_t step, const char* what, double accuracy) {
  const std::string key = what;
  return {{"step", step},          {key + "_loss", 1.7 - 0.01 * static_cast<double>(step)},
          {key + "_records", 200}, {key + "_accuracy", accuracy},
          {key + "_f1", 0.1},      {key + "_majority", 0.25}};
}

TEST_F(Runs, HaveTheirScoresWithABaseline) {
  const auto run = [&](const std::string& name, double held_out, std::optional<double> test) {
    auto lines = plain_step(1, 2) + classified(1, "eval", 0.2).dump() + "\n" + classified(2, "eval", held_out).dump();
    if (test) lines += "\n" + classified(2, "test", *test).dump();
    return add(name, lines);
  };
  const auto good = write({run("good", 0.6, {})});
  const auto& shown = good.json["runs"][0];
  EXPECT_EQ(shown["task"], "classifier");
  EXPECT_EQ(shown["scores"]["accuracy"], Json({{1, 0.2}, {2, 0.6}}));
  EXPECT_EQ(shown["scores"]["majority"], Json({{1, 0.25}, {2, 0.25}}));
  EXPECT_EQ(shown["scores"]["f1"].size(), 2u);
  EXPECT_EQ(good.json["scores"][0]["baseline"], "majority");
  EXPECT_EQ(good.json["findings"], Json::array());
  EXPECT_NE(good.summary.find("60.0 % (25.0 %)"), std::string::npos) << good.summary;

  const auto poor = write({run("poor", 0.2, {})});
  EXPECT_EQ(poor.json["findings"][0]["about"], "Below the majority class") << "although its loss falls";
  EXPECT_NE(poor.summary.find("poor names the right class of 20.0 % of the held-out records"), std::string::npos)
      << poor.summary;
  const auto tested = write({run("tested", 0.2, 0.5)});
  EXPECT_EQ(tested.json["findings"], Json::array()) << "test records decide where there are any";
  EXPECT_EQ(tested.json["runs"][0]["test"]["accuracy"], 0.5);
  EXPECT_NE(tested.summary.find("test accuracy"), std::string::npos) << tested.summary;
  EXPECT_EQ(write({run("same", 0.25, {})}).json["findings"][0]["about"], "No better than the majority class");
}

TEST_F(Runs, OfTwoTasksHaveAnAxisEach) {
  const auto classifier = add("classifier", plain_step(1, 2) + classified(1, "eval", 0.5).dump());
  const auto model =
      add("model", plain_step(1, 5) + Json{{"step", 1}, {"eval_loss", 5.0}, {"eval_perplexity", 148.0}}.dump());
  const auto both = write({model, classifier}, {{.value = 5.5, .words = "uniform"}});
  ASSERT_EQ(both.json["losses"].size(), 2u);
  EXPECT_EQ(both.json["losses"][0], Json({{"title", "Loss (language model)"}, {"runs", {0}}}));
  EXPECT_EQ(both.json["losses"][1], Json({{"title", "Loss (classifier)"}, {"runs", {1}}}));
  EXPECT_EQ(write({model}).json["losses"][0]["title"], "Loss");
  if (!find_gnuplot()) return;
  EXPECT_TRUE(both.warnings.empty()) << both.warnings.front();
  const auto script = io::content(scratch_.path() / "out/visualizations/scripts/training.gp");
  EXPECT_EQ(script.find("loss (language model)"), std::string::npos) << "the last report is of one run";
  write({model, classifier}, {{.value = 5.5, .words = "uniform"}});
  const auto drawn = io::content(scratch_.path() / "out/visualizations/scripts/training.gp");
  for (const auto* words : {"loss (language model)", "loss (classifier)", "accuracy, %", "most frequent class"})
    EXPECT_NE(drawn.find(words), std::string::npos) << words;
}

TEST_F(Runs, ShowAllSettingsAndWhichDoNotApply) {
  const auto plain = add_plain("plain"), secret = add_private("secret");
  const std::string recipe =
      "[model]\nmodel = \"base\"\n[optim]\nlr = 0.01\neps = 1e-8\n[dp]\ngamma = 0.01\nsigma = 1.0\n";
  scratch_.write("plain/recipe.toml", recipe + "dp = \"none\"\n");
  scratch_.write("secret/recipe.toml", recipe + "dp = \"auto\"\n");
  const auto groups = [](const Json& json) {
    std::map<std::string, Json> out;
    for (const auto& group : json["settings"])
      for (const auto& one : group["settings"])
        out[group["group"].get<std::string>() + "/" + one["setting"].get<std::string>()] = one["values"];
    return out;
  };
  const auto alone = groups(write({plain}).json);
  EXPECT_EQ(alone.at("Model/model.model"), Json({"base"})) << "of a single run too";
  EXPECT_EQ(alone.at("All other settings/optim.eps"), Json({"1e-08"}));
  const std::vector<RunDetails> details{{.statement = {}, .without_effect = {"dp.sigma", "dp.gamma", "dp.absent"}},
                                        {.statement = {"epsilon 3", "not covered: <b>; you"}, .without_effect = {}}};
  const auto report = write_training_report({plain, secret}, {}, scratch_.path() / "out", details);
  const auto both = groups(report.json);
  EXPECT_EQ(both.at("Optimizer/optim.lr"), Json({"0.01", "0.01"}));
  EXPECT_EQ(both.at("Privacy/dp.sigma"), Json({"does not apply", "1.0"}));
  EXPECT_FALSE(both.contains("All other settings/dp.absent"));
  EXPECT_EQ(report.json["differing_settings"], Json({{{"setting", "dp.dp"}, {"values", {"none", "auto"}}},
                                                     {{"setting", "dp.sigma"}, {"values", {"does not apply", "1.0"}}}}))
      << "gamma has one value where it has an effect";
  EXPECT_EQ(report.json["runs"][0]["statement"], Json::array());
  EXPECT_EQ(report.json["runs"][1]["statement"][0], "epsilon 3");
  EXPECT_EQ(io::content(scratch_.path() / "out/report.html").find("<b>; you"), std::string::npos);
}

TEST_F(Runs, AreDrawnWithACurveEach) {
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const auto plain = add_plain("plain"), secret = add_private("secret");
  const auto report = write({plain, secret});
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
  const auto both = picture();
  EXPECT_EQ(both.width, 1000u);
  EXPECT_GT(both.drawn, 0.01);
  EXPECT_GT(both.count(kFirst), 500u);
  EXPECT_GT(both.count(kSecond), 500u);
  EXPECT_NE(report.summary.find("epsilon 6.3246 at delta 1e-05"), std::string::npos) << report.summary;

  write({plain});
  const auto alone = picture();
  EXPECT_EQ(alone.count(kSecond), 0u);
  EXPECT_LT(alone.height, both.height) << "nothing is private: no panel for epsilon";
}

// Losses of a private run are not private, in whatever file they are.
TEST_F(Runs, PrivateOnesAreReportedToTheirOwnerAlone) {
  const auto out = scratch_.path() / "out";
  const auto plain = add_plain("plain"), secret = add_private("secret");
  const auto expect_closed = [&](const std::string& when) {
    for (const auto& entry : fs::recursive_directory_iterator(out))
      EXPECT_EQ(entry.status().permissions(), fs::perms(entry.is_directory() ? 0700 : 0600)) << when << entry.path();
  };
  const auto before = ::umask(0);
  EXPECT_EQ(write({plain, secret}).readers, Readers::owner);
  expect_closed("new: ");
  write({plain});
  for (const auto& entry : fs::recursive_directory_iterator(out))
    if (!entry.is_directory()) fs::permissions(entry, fs::perms(0644));
  write({plain, secret});
  expect_closed("over open ones: ");
  ::umask(before);

  // A link leads to where others may read.
  const auto elsewhere = scratch_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  const auto refusal = [&](const fs::path& folder) {
    fs::remove_all(folder);
    fs::create_directory_symlink(elsewhere, folder);
    return test::fault<UsageError>([&] { write({secret}); });
  };
  if (find_gnuplot())
    EXPECT_NE(refusal(out / "visualizations/scripts").find("scripts is a symbolic link"), std::string::npos);
  EXPECT_NE(refusal(out / "visualizations").find("visualizations is a symbolic link"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(elsewhere));
  const auto named = test::fault<UsageError>([&] { write_training_report({secret}, {}, out / "visualizations" / ""); });
  EXPECT_NE(named.find("visualizations is a symbolic link"), std::string::npos);
  write({plain});
  EXPECT_FALSE(fs::is_empty(elsewhere)) << "of a run that is not private it is followed";
}

// All runs of a data ledger share its cap: the epsilon of one of them is no promise.
TEST_F(Runs, WithADataLedgerSayThatTheirEpsilonIsTheirOwn) {
  const auto alone = [&](const std::string& recipe, const std::vector<RunDetails>& details = {}) {
    const auto run = add("run", private_step(1, 2, 3).dump());
    scratch_.write("run/recipe.toml", recipe);
    return read_training_runs({run}, details).front().privacy();
  };
  EXPECT_EQ(alone("[dp]\ndata_ledger = \"../ann/visits.ledger\"\n"), "epsilon 3.0000 at delta 1e-05 (this run alone)");
  EXPECT_NE(write({scratch_.path() / "run"}).summary.find("this run alone: runs that share a data ledger"),
            std::string::npos);
  EXPECT_EQ(alone("[dp]\ndata_ledger = \"\"\n"), "epsilon 3.0000 at delta 1e-05");
  EXPECT_EQ(alone("[dp]\ndata_ledger = \"a\"\n", {{.statement = {}, .without_effect = {"dp.data_ledger"}}}),
            "epsilon 3.0000 at delta 1e-05");
}

// An epsilon counts for all steps or for none.
TEST_F(Runs, LaterStepsWithoutAnEpsilonTakeItAway) {
  const auto first = private_step(1, 3, 2.5).dump() + "\n";
  const auto said = [&](const std::string& name, const Json& later) {
    return write({add(name, first + later.dump() + "\n")}).summary;
  };
  EXPECT_NE(said("on", private_step(2, 3, 2.75)).find("epsilon 2.7500 at delta"), std::string::npos);
  const Json without{{"step", 2}, {"not_private", {{"loss", 3.0}}}};
  EXPECT_NE(said("silent", without).find("no epsilon since step 2"), std::string::npos);
  const Json stated{{"step", 1}, {"not_private", Json::object()}, {"no_epsilon", "no noise is added"}};
  EXPECT_NE(said("stated", stated).find("no epsilon since step 1"), std::string::npos);
  const Json plain{{"step", 2}, {"loss", 3.0}};
  EXPECT_NE(said("plain", plain).find("no epsilon since step 2"), std::string::npos);
  EXPECT_NE(write({add("plain_first", plain_step(1, 3) + private_step(2, 3, 2.5).dump() + "\n")})
                .summary.find("no epsilon since step 1"),
            std::string::npos);
  EXPECT_EQ(write({add("page", first + plain.dump() + "\n")}).json["runs"][0]["no_epsilon_since"], 2);
  const Json ledger{{"step", 1}, {"not_private", Json::object()}, {"epsilon", 4.5}, {"delta", 1e-5}};
  EXPECT_NE(said("ledger", ledger).find("epsilon 4.5000 at delta"), std::string::npos);
}

// 40 steps at a constant epsilon: a line across the lower panel, 700 points or so and two or three of them high.
TEST_F(Runs, SpentEpsilonHasItsPanel) {
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  std::string without, with;
  for (int step = 1; step <= 40; ++step) {
    auto line = private_step(step, 2, 3);
    with += line.dump() + "\n";
    line.erase("epsilon");
    without += line.dump() + "\n";
  }
  write({add("with", with)});
  const auto drawn = picture();
  write({add("without", without)});
  EXPECT_GT(drawn.count(kFirst), picture().count(kFirst) + 600);
}

TEST_F(Runs, ReferenceLinesAreInThePictureWithTheirWords) {
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const auto plain = add_plain("plain");
  write({plain});
  const auto without = picture().drawn;
  const auto report = write({plain}, {{.value = 7.25, .words = "Bob's \"guess\""}});
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
  EXPECT_NE(picture().drawn, without);
  const auto script = io::content(scratch_.path() / "out/visualizations/scripts/training.gp");
  EXPECT_NE(script.find("Bob's"), std::string::npos) << script;
  EXPECT_NE(script.find(":7.49"), std::string::npos) << "the line is above all curves and has room: " << script;
}

TEST_F(Runs, AreNamedByTheirDirectory) {
  const auto names = [](const std::vector<fs::path>& folders) {
    std::vector<std::string> out;
    for (const auto& run : read_training_runs(folders)) out.push_back(run.name);
    return out;
  };
  const auto a = add_plain("a/run"), b = add_plain("b/run"), c = add_plain("c");
  EXPECT_EQ(names({c / "", a / "." / ""}), (std::vector<std::string>{"c", "run"}));
  EXPECT_EQ(names({a, b, c}), (std::vector<std::string>{"a/run", "b/run", "c"})) << "no whole path";
  const auto deep = add_plain("b/a/run");
  EXPECT_EQ(names({deep, a, b, c}),
            (std::vector<std::string>{"b/a/run", text(scratch_.path().filename().string(), "/a/run"), "b/run", "c"}));
  EXPECT_EQ(names({a, a / "."}), (std::vector<std::string>{"run", "run"})) << "one run";
}

TEST_F(Runs, AnEpsilonThatProtectsNobodyIsMarked) {
  auto line = private_step(1, 2, 3);
  EXPECT_EQ(read_training_runs({add("secret", line.dump())}).front().privacy(), "epsilon 3.0000 at delta 1e-05");
  line["privacy_unit"] = "window";
  EXPECT_EQ(read_training_runs({add("windows", line.dump())}).front().privacy(),
            "epsilon 3.0000 per window at delta 1e-05");
  line["privacy_unit"] = "record";
  line["epsilon_void"] = "the noise has a seed";
  EXPECT_EQ(read_training_runs({add("seeded", line.dump())}).front().privacy(), "epsilon 3.0000, void: seeded");
  line.erase("epsilon");
  EXPECT_EQ(read_training_runs({add("shuffled", line.dump())}).front().privacy(), "private, no epsilon");
  EXPECT_EQ(read_training_runs({add_plain("plain")}).front().privacy(), "");
}

TEST_F(Runs, ALossThatIsNotFiniteIsAGap) {
  const auto run = add("run", plain_step(1, 2) + plain_step(2, std::nan("")) + evaluation(2, HUGE_VAL));
  EXPECT_TRUE(std::isnan(read_training_runs({run}).front().loss.at(2)));
  if (!find_gnuplot()) return;
  const auto report = write({run});
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
}

TEST_F(Runs, FaultsNameFileAndLine) {
  const auto message = [&](const std::string& metrics) -> std::string {
    try {
      read_training_runs({add("run", metrics)});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  for (const auto* broken : {"{\"step\": 2, \"lo", "[]", "{\"loss\": 1}", "{\"step\": 1.5, \"loss\": 1}",
                             "{\"step\": 2}", "{\"step\": 2, \"loss\": \"low\"}", "{\"step\": 0, \"loss\": 1}", ""})
    EXPECT_NE(message(text(plain_step(1, 2), broken, "\n")).find("metrics.jsonl:2: not a line that shade train writes"),
              std::string::npos)
        << broken;
  const auto refused = [&](const fs::path& folder) { return test::fault([&] { read_training_runs({folder}); }); };
  EXPECT_NE(refused(add("empty", "")).find("is empty"), std::string::npos);
  EXPECT_NE(refused(scratch_.path()).find("has no metrics.jsonl"), std::string::npos);
  EXPECT_NE(refused(scratch_.path() / "absent").find("has no metrics.jsonl"), std::string::npos);
  const auto neither = test::fault([&] { write_report(scratch_.path(), scratch_.path()); });
  EXPECT_NE(neither.find("no metrics.jsonl of shade train"), std::string::npos) << neither;
}

}  // namespace
}  // namespace shade::report
