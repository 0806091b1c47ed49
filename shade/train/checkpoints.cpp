#include "shade/train/checkpoints.h"

#include "shade/base/span.h"
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
  const auto found = train::resume(store_, job_->groups().control, job_->runtime(), job_->optimizer(),
                                   {.from = options_.resume_from, .is_private = history_ != nullptr});
  if (!found) return std::nullopt;
  saved_ = job_->steps();
  began_ = found->saved.began;
  compare(found->saved);
  return found->saved;
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
