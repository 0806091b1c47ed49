// Published and recomputed values: accountant_vectors.csv (each row names its source). `published` is what the source
// says, `exact_here` was computed independently when the file was made. What a row can be held to depends on its kind:
//   rdp, gdp     exact_here to 1e-9, rdp on the orders of the source; a published value that is an upper bound, from
//   below prv, pld     from exact_here (whose own grid is good to 1e-5) upward; never above the published prv value
//   calibrate    the published sigma, from above
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "shade/accounting/accountant.h"
#include "shade/accounting/branch.h"
#include "shade/accounting/calibrate.h"
#include "shade/accounting/gaussian_pair.h"
#include "shade/accounting/prv.h"
#include "shade/accounting/rdp.h"
#include "shade/base/strings.h"

namespace shade::privacy {
namespace {

struct Row {
  std::string id, kind, q, sigma, steps, delta, published, exact;
};

double leading(const std::string& words) { return std::strtod(words.c_str(), nullptr); }  // "16.1 (+0.01)" -> 16.1

const std::vector<Row>& rows() {
  static const auto all = [] {
    std::ifstream file(std::string(std::getenv("SHADE_SOURCE")) + "/tests/privacy/accountant_vectors.csv");
    std::vector<Row> out;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      const auto cells = split(line, ',');
      out.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6], cells[8]});
    }
    return out;
  }();
  return all;
}

const Row& row(const std::string& id) {
  for (const auto& candidate : rows())
    if (candidate.id == id) return candidate;
  throw Error("no row " + id);
}

Steps steps_of(const Row& r) {
  return {{.sample_rate = leading(r.q), .noise_multiplier = leading(r.sigma)}, static_cast<int64_t>(leading(r.steps))};
}

// Rows R12 and G3 print their delta to six digits only, and can be held to no more than what those digits leave open.
bool short_delta(const Row& r) { return r.delta == "2.08333e-5"; }
constexpr double kShortLeast = 2.083325e-5, kShortMost = 2.083335e-5;

std::vector<double> opacus_orders() {
  std::vector<double> orders;
  for (int tenths = 11; tenths < 110; ++tenths) orders.push_back(tenths / 10.0);
  for (int order = 12; order < 64; ++order) orders.push_back(order);
  return orders;
}

double rdp_of(const Row& r, std::span<const double> orders) {
  const auto run = steps_of(r);
  return rdp_epsilon({&run, 1}, leading(r.delta), orders).epsilon;
}

TEST(Vectors, AllEightyFourAreHere) {
  EXPECT_EQ(rows().size(), 84u);
  std::map<std::string, int> kinds;  // one line for each kind below; a new kind must be thought about
  for (const auto& r : rows()) ++kinds[r.kind.substr(0, r.kind.find_first_of(" -@"))];
  EXPECT_EQ(kinds,
            (std::map<std::string, int>{
                {"rdp", 23}, {"gdp", 5}, {"prv", 37}, {"pld", 10}, {"calibrate", 2}, {"analytic", 5}, {"exact", 2}}));
}

TEST(Vectors, RdpEpsilonIsExact) {
  int held = 0;
  for (const auto& r : rows()) {
    if (r.kind != "rdp" || r.id == "R4" || r.id == "R11" || short_delta(r)) continue;
    EXPECT_NEAR(rdp_of(r, opacus_orders()) / leading(r.exact), 1, 1e-9) << r.id;
    EXPECT_LE(rdp_epsilon(std::array{steps_of(r)}, leading(r.delta)).epsilon, leading(r.exact) * (1 + 1e-9)) << r.id;
    ++held;
  }
  EXPECT_EQ(held, 11);
  for (const char* id : {"R7", "R8"}) EXPECT_LT(rdp_of(row(id), opacus_orders()), leading(row(id).published)) << id;
}

TEST(Vectors, ADeltaOfSixDigitsLeavesAnInterval) {
  const auto rdp = std::array{steps_of(row("R12"))}, gdp = std::array{steps_of(row("G3"))};
  EXPECT_GT(rdp_epsilon(rdp, kShortLeast, opacus_orders()).epsilon, leading(row("R12").exact));
  EXPECT_LT(rdp_epsilon(rdp, kShortMost, opacus_orders()).epsilon, leading(row("R12").exact));
  EXPECT_GT(gdp_epsilon(gdp, kShortLeast), leading(row("G3").exact));
  EXPECT_LT(gdp_epsilon(gdp, kShortMost), leading(row("G3").exact));
}

TEST(Vectors, AGridThatStartsTooHighCostsAFactorOfAThousandAndIsReported) {
  const auto run = std::array{steps_of(row("R4"))};
  const auto coarse = rdp_epsilon(run, 1e-7, std::array{1.25, 1.5, 1.75, 2.0});
  EXPECT_NEAR(coarse.epsilon, 5907980, 3);
  EXPECT_TRUE(coarse.at_grid_end);
  EXPECT_NEAR(rdp_epsilon(run, 1e-7, std::array{1.1, 1.25, 1.5}).epsilon, 7801.0567, 1e-3);
  EXPECT_NE(spent(Accountant::rdp, std::array{steps_of(row("R1"))}, 1e-5).warning, "end of the grid");
  EXPECT_FALSE(rdp_epsilon(std::array{steps_of(row("R1"))}, 1e-5).at_grid_end);
  EXPECT_NE(spent(Accountant::rdp, std::array{Steps{{.sample_rate = 1e-6, .noise_multiplier = 50}, 1}}, 1e-6)
                .warning.find("end of the grid"),
            std::string::npos);
}

TEST(Vectors, RdpComposesDifferentSteps) {
  std::vector<double> orders;
  for (int order = 2; order <= 32; ++order) orders.push_back(order);
  const auto found = rdp_epsilon(std::array{Steps{{.sample_rate = 1e-5, .noise_multiplier = 1}, 10},
                                            Steps{{.sample_rate = 1e-4, .noise_multiplier = 3}, 4}},
                                 1e-5, orders);
  EXPECT_NEAR(found.epsilon, leading(row("R11").exact), 1e-9);
  EXPECT_EQ(found.order, 23);
}

TEST(Vectors, RdpConversion) {
  std::vector<double> orders, divergences;
  for (int order = 2; order <= 32; ++order) orders.push_back(order), divergences.push_back(1.1);
  const auto pure = rdp_to_epsilon(orders, divergences, 1e-5);
  EXPECT_NEAR(pure.epsilon, leading(row("R15").published), 1e-10);
  EXPECT_EQ(pure.order, 32);
  EXPECT_TRUE(pure.at_grid_end);

  const auto& r = row("R16");
  orders.clear();
  for (int i = 1; i < 99000; ++i) orders.push_back(1 + i / 1000.0);
  EXPECT_NEAR(rdp_of(r, orders), leading(r.published), 1e-6);
  EXPECT_NEAR(gaussian_epsilon(1e-6, 1 / leading(r.sigma)), 0.927392, 1e-6);
}

TEST(Vectors, RenyiDivergences) {
  int held = 0;
  for (const auto& r : rows()) {
    if (!r.kind.starts_with("rdp@")) continue;
    const auto run = steps_of(r);
    const double found = static_cast<double>(run.count) * renyi(run.mechanism, leading(r.kind.substr(4)));
    const double digits = r.id == "O6" || r.id == "O7" ? 1e-10 : 5e-9;  // as many as the file has
    EXPECT_NEAR(found / leading(r.exact), 1, digits) << r.id;
    if (r.id == "O1" || r.id == "O2") {
      EXPECT_LT(found, leading(r.published)) << "published is an upper bound";
    }
    ++held;
  }
  EXPECT_EQ(held, 7);
}

TEST(Vectors, Gdp) {
  for (const char* id : {"G1", "G2"})
    EXPECT_NEAR(gdp_epsilon(std::array{steps_of(row(id))}, leading(row(id).delta)), leading(row(id).exact), 1e-9) << id;
  for (const auto& [id, gdp, exact] : {std::tuple{"G4", 3.721776, 5.804188}, std::tuple{"G5", 0.235673, 0.467683}}) {
    const auto run = std::array{steps_of(row(id))};
    EXPECT_NEAR(gdp_epsilon(run, 1e-6), gdp, 1e-6) << id;
    EXPECT_NEAR(prv_epsilon(run, 1e-6), exact, 3e-4 * exact) << id << ": what gdp under-reports";
  }
  EXPECT_FALSE(spent(Accountant::gdp, std::array{steps_of(row("G1"))}, 1e-5).upper_bound);
}

TEST(Vectors, PrvIsAboveExactAndBelowPublished) {
  int held = 0;
  for (const auto& r : rows()) {
    if (r.kind != "prv upper" && r.kind != "exact pld" && !(r.kind == "pld" && leading(r.q) > 0)) continue;
    if (r.id == "L11" || r.id == "L12") continue;
    const double found = prv_epsilon(std::array{steps_of(r)}, leading(r.delta));
    const double exact = leading(r.exact);
    if (!r.exact.empty()) {
      EXPECT_GE(found, exact - 1e-5) << r.id;
      EXPECT_LE(found, exact + 1e-4 * std::max(1.0, exact)) << r.id;
    }
    if (r.kind == "prv upper" && !r.published.starts_with("target")) {
      EXPECT_LE(found, leading(r.published)) << r.id;
      EXPECT_GE(found, leading(r.published) - 0.011 - 1e-3 * leading(r.published)) << r.id;
    }
    ++held;
  }
  EXPECT_EQ(held, 47);
}

TEST(Vectors, AnalyticGaussian) {
  for (const auto& r : rows()) {
    if (r.kind != "analytic gaussian") continue;
    const auto run = steps_of(r);
    const double exact = leading(r.exact), delta = leading(r.delta);
    const double mu = std::sqrt(static_cast<double>(run.count)) / run.mechanism.noise_multiplier;
    EXPECT_NEAR(gaussian_epsilon(delta, mu), exact, 1e-12) << r.id;
    const double found = prv_epsilon({&run, 1}, delta);
    EXPECT_GE(found, exact) << r.id;
    EXPECT_LE(found, exact * (1 + 1e-4)) << r.id;
  }
}

TEST(Vectors, CalibrationFindsThePublishedSigmaFromAbove) {
  struct Target {
    const char* id;
    Accountant accountant;
    double epsilon;
  };
  for (const auto& [id, accountant, epsilon] :
       {Target{"R13", Accountant::rdp, 8}, Target{"R14", Accountant::rdp, 8}, Target{"G2", Accountant::gdp, 8},
        Target{"P32", Accountant::prv, 8}, Target{"P33", Accountant::prv, 8}, Target{"L9", Accountant::prv, 1},
        Target{"L10", Accountant::prv, 1}}) {
    const auto& r = row(id);
    const auto run = steps_of(r);
    const auto found = calibrate(accountant, run, epsilon, leading(r.delta));
    EXPECT_LE(found.spent.epsilon, epsilon) << id;
    EXPECT_GE(found.spent.epsilon, epsilon * (1 - 1e-4)) << id;
    // Opacus searches epsilon to 0.01 (and its prv adds 0.01), so its sigma may lie that much higher.
    EXPECT_NEAR(found.sigma / run.mechanism.noise_multiplier, 1,
                accountant == Accountant::prv && epsilon == 8 ? 3e-3 : 2e-3)
        << id;
  }
}

TEST(Vectors, OtherMixturesOfGaussians) {
  const double published = leading(row("L12").published);
  const GaussianPair first(1, {{0, 0.2}, {1, 0.6}, {2, 0.2}}, {{0, 1}});
  const GaussianPair second(2, {{0, 0.33}, {2, 0.34}, {3, 0.33}}, {{0, 1}});
  const double found = prv_epsilon({{{{1, first}}, 3}, {{{1, second}}, 2}}, 1e-6);
  EXPECT_GE(found, published - 1e-6);
  EXPECT_LE(found, published * (1 + 1e-4));
}

// Google's row for truncated Poisson uses another relation (a record becomes zero, and the cut branch is the pair of a
// replaced record); the same branches through our numbers give its value.
TEST(Vectors, TruncatedPoissonWithTheBranchesOfTheSource) {
  const auto step = [](int64_t records) -> StepPairs {
    const double q = 0.5, batch = 2;
    const auto n = static_cast<double>(records);
    const double cut = binomial_tail(records - 1, q, 2);
    double exact_cut = 0, joins = 0;  // below the mean binomial_tail rounds up to 1
    for (double t = batch; t < n; ++t) {
      const double p = std::exp(std::lgamma(n) - std::lgamma(t + 1) - std::lgamma(n - t)) * std::pow(q, n - 1);
      exact_cut += p;
      joins += p * q * batch / (t + 1);
    }
    EXPECT_GE(cut, exact_cut * (1 - 1e-12));
    const double rate = joins / exact_cut;
    return {{1 - exact_cut, GaussianPair(1, {{0, 1 - q}, {1, q}}, {{0, 1}})},
            {exact_cut, GaussianPair(1, {{0, 1 - rate}, {2, rate}}, {{0, 1 - rate}, {-2, rate}})}};
  };
  const double published = leading(row("L11").published);
  const double found = prv_epsilon({{step(4), 3}, {step(3), 2}}, 1e-6);
  EXPECT_GE(found, published - 1e-6);
  EXPECT_LE(found, published * (1 + 1e-4));
}

}  // namespace
}  // namespace shade::privacy
