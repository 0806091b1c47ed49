#include "shade/train/report.h"

#include <cstdio>

namespace shade::train {

Report::Report(RunFolder& folder, const Options& options) : folder_(&folder), options_(options) {
  if (options.speaks) {
    events_.emplace(folder.path());
    events_->begin_at(options.done + 1);
  }
  if (options.speaks && !options.quiet && is_terminal(stderr)) bar_.emplace("train", options.steps - options.done);
}

void Report::say(const std::string& words) {
  if (!options_.speaks || options_.quiet) return;
  std::printf("%s%s\n", is_terminal(stdout) ? "\r\033[K" : "", words.c_str());  // over the bar
  std::fflush(stdout);
}

void Report::advance() {
  if (bar_) bar_->advance();
}

void Report::step(const StepReport& r) {
  if (!options_.speaks) return;
  const auto mark = options_.is_private ? " (not private)" : "";
  auto line = text("step ", r.step, "/", options_.steps, "  loss ", significant(r.record.loss, 5), mark, "  lr ",
                   significant(r.record.learning_rate));
  if (r.record.gradient_norm > 0) line += text("  grad_norm ", significant(r.record.gradient_norm));
  line += text("  memory ", to_string(r.memory), "  ", significant(r.tokens_per_second), " tokens/s  mfu ",
               significant(100 * r.mfu, 2), " %");
  if (options_.is_private) line += text("  clipped ", r.record.samples.clipped, " of ", r.record.samples.samples, mark);
  if (r.record.samples.not_finite > 0) line += text("  not finite ", r.record.samples.not_finite, mark);
  if (r.spent)
    line += text("  epsilon ", significant(r.spent->epsilon, 4), options_.void_epsilon ? " (seeded: void)" : "");
  say(line);

  Json json{{"step", r.step}, {"lr", r.record.learning_rate}};
  Json own{{"loss", r.record.loss}, {"samples", r.record.samples.samples}};
  if (r.record.gradient_norm > 0) json["grad_norm"] = r.record.gradient_norm;
  if (options_.is_private) {
    own["clipped"] = r.record.samples.clipped;
    own["not_finite"] = r.record.samples.not_finite;
    json["clip_norm"] = r.record.clip_norm;
    json["not_private"] = own;
  } else {
    json.update(own);
  }
  json["step_ms"] = Millis(r.took).count();
  json["data_ms"] = Millis(r.data).count();
  json["load_ms"] = Millis(r.load).count();
  json["memory_bytes"] = r.memory.count;
  json["tokens_per_second"] = r.tokens_per_second;
  json["mfu"] = r.mfu;
  if (r.spent) {
    json["epsilon"] = r.spent->epsilon;
    json["delta"] = r.spent->delta;
    json["accountant"] = to_string(r.spent->accountant);
    if (options_.void_epsilon) json["epsilon_void"] = "the noise has a seed, not a secret key";
  }
  folder_->append_metrics(json);
  events_->scalar(options_.is_private ? "not_private/loss" : "train/loss", r.record.loss, r.step);
  events_->scalar("train/lr", r.record.learning_rate, r.step);
  events_->scalar("train/tokens_per_second", r.tokens_per_second, r.step);
  events_->scalar("train/memory_mib", static_cast<double>(r.memory.count) / static_cast<double>(MiB(1).count), r.step);
  if (r.spent && !options_.void_epsilon) events_->scalar("privacy/epsilon", r.spent->epsilon, r.step);
  events_->flush();
}

void Report::evaluation(int64_t step, const Evaluation& found, const std::string& what) {
  if (!options_.speaks) return;
  auto line =
      text("  ", what == "eval" ? "evaluation" : what, " after step ", step, ": loss ", significant(found.loss, 5));
  if (found.accuracy)
    line += text(", accuracy ", significant(100 * *found.accuracy),
                 " %; always the most frequent class: ", significant(100 * *found.majority), " %");
  say(text(line, " (", found.records, what == "eval" ? " held-out records)" : " records)"));
  auto json = found.json(what);
  json["step"] = step;
  folder_->append_metrics(json);
  events_->scalar(what + "/loss", found.loss, step);
  if (found.accuracy) events_->scalar(what + "/accuracy", *found.accuracy, step);
  events_->flush();
}

}  // namespace shade::train
