#include "shade/train/checkpoints.h"

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/reader.h"
#include "shade/train/changes.h"
#include "shade/train/resume.h"

namespace shade::train {

Checkpoints::Checkpoints(comm::World& world, const RunFolder& folder, Job& job, History* history, RunIdentity identity,
                         Options options)
    : job_(&job),
      history_(history),
      identity_(std::move(identity)),
      options_(std::move(options)),
      store_(world.control("checkpoint"), {.folder = folder.checkpoints(), .keep = options_.keep}) {}

std::optional<Saved> Checkpoints::resume() {
  std::optional<Resumed> found;
  try {
    found = train::resume(store_, job_->groups().control, job_->runtime(), job_->optimizer(),
                          {.from = options_.resume_from, .is_private = history_ != nullptr});
  } catch (const UsageError& fault) {
    throw UsageError(explain_refusal(fault.what()));
  }
  if (!found) return std::nullopt;
  saved_ = job_->steps();
  began_ = found->saved.began;
  compare(found->saved);
  return found->saved;
}

// Weights that don't fit are the consequence; the settings that another --model in an old --output changed are the
// cause.
std::string Checkpoints::explain_refusal(const std::string& refusal) const {
  const auto all = store_.list();
  if (all.empty() || !options_.resume_from.empty()) return refusal;
  std::vector<std::string> causes;
  try {
    const auto before = Saved::from_json(checkpoint::read_manifest(all.back()).caller).settings;
    for (auto& change : train::changes(before, identity_.settings))
      if (change.starts_with("model.") || change.starts_with("optim.optimizer ") || change.starts_with("optim.ema "))
        causes.push_back(std::move(change));
  } catch (const Error&) {  // a damaged manifest says nothing
    return refusal;
  }
  if (causes.empty()) return refusal;
  return text("the run in ", store_.folder().parent_path().string(),
              " was made with other settings: ", join(causes, ", "),
              "; choose another --output for a new run, or give what that run had (its recipe.toml). ", refusal);
}

// With what was saved, by name where that is known.
void Checkpoints::compare(const Saved& saved) {
  const auto same = [&](const std::string& now, const std::optional<std::string>& before) {
    if (history_ != nullptr) return history_->is_sealed(now, before ? Json(*before) : Json()).value_or(true);
    return before == now;
  };
  changed_ = !same(identity_.digest, saved.identity);
  changes_ = train::changes(saved.settings, identity_.settings);
  if (saved.data && !same(identity_.data, saved.data))
    changes_.push_back(history_ != nullptr ? "data" : data_change(*saved.data, identity_.data));
}

void Checkpoints::save(bool wait) {
  const auto step = job_->steps();
  if (saved_ == step || step == 0) return wait ? store_.wait() : void();
  const Span span("save");
  Saved words{.identity = identity_.digest,
              .data = identity_.data,
              .micro_batch = job_->micro_batch(),
              .settings = identity_.settings,
              .began = began_,
              .is_private = history_ != nullptr,
              .origin = {}};
  if (history_ != nullptr) {  // others may read a checkpoint, and both follow from the records
    words.identity = history_->sealed(identity_.digest);
    words.data = history_->sealed(identity_.data);
    words.origin = history_->origin(step);
    words.clip_norm = job_->method().clipper()->clip_norm();
    words.noise_variance = job_->optimizer().noise_variance();
  }
  store_.save_async(job_->runtime(), job_->optimizer(), words.json());
  start_clock();
  saved_ = step;
  if (wait) store_.wait();
}

bool Checkpoints::is_due() const {
  return job_->groups().control.rank() == 0 && options_.save_every == 0 && options_.save_interval.count() > 0 &&
         Clock::now() - saved_at_ >= options_.save_interval;
}

}  // namespace shade::train
