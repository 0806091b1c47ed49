#include "shade/train/job_checks.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/io/digest.h"
#include "shade/train/job_words.h"

namespace shade::train {
namespace {

// Neighbouring data sets differ in one sample alone.
void require_neighbours(const JobOptions& options) {
  const auto& data = *options.data;
  SHADE_REQUIRE(!options.split || options.split->records() == data.size(), "the split is of ", options.split->records(),
                " records, the data set has ", data.size(), "; make the split from the data set");
  SHADE_REQUIRE(!options.split || options.split->each_alone(),
                "records of a private job are held out by position or number, so one additional record would move "
                "others between training and evaluation; hold them out by their content (HeldOut::by_content), or by "
                "user (HeldOut::by_user)");
  SHADE_REQUIRE(data.unit() != data::SampleUnit::overlapping_window,
                "windows of a private job must not share a token, or a token would move two samples; pack the texts "
                "with share_tokens = false");
  if (options.privacy->unit == privacy::PrivacyUnit::user) {
    SHADE_REQUIRE(data.unit() == data::SampleUnit::record, "a sample of the data set (", data.describe(), ") is a ",
                  to_string(data.unit()), ", which belongs to no user; bring records");
    SHADE_REQUIRE(options.max_records_per_user > 0,
                  "a job that protects users needs the most records of a user in one step: "
                  "JobOptions::max_records_per_user");
    (void)training_units(options);
    return;
  }
  SHADE_REQUIRE(to_string(data.unit()) == to_string(options.privacy->unit), "a sample of the data set (",
                data.describe(), ") is a ", to_string(data.unit()), ", and the privacy event protects a ",
                to_string(options.privacy->unit), "; set PrivacyEvent::unit to what a sample is");
}

}  // namespace

int64_t training_units(const JobOptions& options) {
  const auto split = options.split.value_or(HeldOut::by_position(options.data->size(), 0));
  return split.training(options.privacy ? options.privacy->unit : privacy::PrivacyUnit::record);
}

void require_private(const JobOptions& options) {
  const auto& event = *options.privacy;
  if (options.rehearsal) return;
  if (!options.unaccounted) {
    event.require_valid();
    SHADE_REQUIRE(event.mechanism.sampler != privacy::Sampler::shuffled,
                  "no accountant supports shuffled batches; choose the poisson sampler, or say that the job is "
                  "unaccounted");
    SHADE_REQUIRE(options.steps <= event.steps, options.steps, " steps, of which the privacy event counts ",
                  event.steps, "; make it count all of them");
  }
  if (options.data == nullptr) return;
  SHADE_REQUIRE(!options.data->fingerprint().empty(), "the data set (", options.data->describe(),
                ") has no fingerprint, so it can't be checked that a repeated step uses the same records; "
                "return a hash of everything that batches are made of from data::Dataset::fingerprint()");
  require_neighbours(options);
  SHADE_REQUIRE(event.mechanism.sampler != privacy::Sampler::truncated_poisson ||
                    event.mechanism.population >= training_units(options),
                "population ", event.mechanism.population, " is less than the ", training_units(options), " ",
                to_string(event.unit), "s of the data; expected a bound on their number");
}

void require_noise_for(const optim::OptimConfig& optimizer, bool is_private) {
  SHADE_REQUIRE(is_private || optimizer.optimizer != optim::Algorithm::adambc,
                "--optimizer adambc corrects adamw for the noise of a private run, and this run is not private; choose "
                "--optimizer adamw, or train privately (--dp auto)");
}

std::string no_epsilon(const JobOptions& options) {
  if (!options.privacy) return "not private";
  if (options.rehearsal) return "a rehearsal protects nothing";
  if (options.unaccounted) return "the job is unaccounted";
  if (options.noise_seed) return "the noise has a seed";
  if (options.key) return "the noise key is the caller's, who may know it or have used it before";
  return {};
}

void require_same(const comm::Group& control, const Json& words, const std::string& advice) {
  if (control.size() == 1) return;
  const auto written = words.flatten().dump();
  const auto mine = Json::parse(written);
  const auto first = Json::parse(checkpoint::from_rank0(control, "reading the job's options", [&] { return written; }));
  checkpoint::together(control, "comparing the job's options with rank 0's", [&] {
    std::vector<std::string> differ;
    auto all = first;
    all.update(mine);
    for (const auto& [field, value] : all.items())
      if (mine.value(field, Json()) != first.value(field, Json()))
        differ.push_back(text(field.substr(1), " is ", mine.value(field, Json()).dump(), ", rank 0 has ",
                              first.value(field, Json()).dump()));
    SHADE_REQUIRE(differ.empty(), join(differ, ", "), "; ", advice);
  });
}

void require_same_records(const comm::Group& control, const JobOptions& options) {
  if (control.size() == 1 || options.data == nullptr) return;
  std::string mine;
  checkpoint::together(control, "reading the records",
                       [&] { mine = io::to_hex(io::digest_of(record_words(options).dump())); });
  const auto first = checkpoint::from_rank0(control, "reading the records' fingerprint", [&] { return mine; });
  checkpoint::together(control, "comparing the records with rank 0's", [&] {
    SHADE_REQUIRE(mine == first, "the records of this rank (", options.data->describe(),
                  ") or those it holds out are not those of rank 0, or are in another order: one record could be "
                  "drawn twice in a step, which no epsilon accounts for. Give every rank the same files");
  });
}

}  // namespace shade::train
