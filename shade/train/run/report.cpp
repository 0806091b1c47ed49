#include "shade/train/run/report.h"

#include <cmath>
#include <cstdio>

#include "shade/base/utc.h"
#include "shade/base/visible_text.h"

namespace shade::train {

Report::Report(RunFolder& folder, const Options& options) : folder_(&folder), options_(options) {
  if (options.speaks) {
    events_.emplace(folder.path(), folder.readers());
    events_->begin_at(options.done + 1);
  }
  if (options.speaks && !options.quiet && is_terminal(stderr)) bar_.emplace("train", options.steps - options.done);
}

void Report::say(const std::string& words) {
  if (!options_.speaks || options_.quiet) return;
  std::printf("%s%s\n", is_terminal(stdout) ? "\r\033[K" : "", visible_lines(words).c_str());  // over the bar
  std::fflush(stdout);
}

void Report::advance() {
  if (bar_) bar_->advance();
}

void Report::step(const StepReport& r) {
  if (!options_.speaks) return;
  const auto made = static_cast<double>(r.step - options_.done), more = static_cast<double>(options_.steps - r.step);
  const auto left = made > 0 && more > 0 ? text("  ", to_string(elapsed() / made * more), " left") : "";
  const auto& samples = r.record.samples;
  const bool has_loss = !std::isnan(r.record.loss);  // an empty batch has none
  auto line = text("step ", r.step, "/", options_.steps, "  lr ", significant(r.record.learning_rate));
  if (r.record.gradient_norm) line += text("  grad_norm ", significant(*r.record.gradient_norm));
  if (r.spent)
    line += text("  epsilon ", rounded_up(r.spent->epsilon), " per ", to_string(options_.unit),
                 options_.void_epsilon ? " (seeded: void)" : "");
  line +=
      text(options_.is_private ? " | not private: " : "  ", "loss ", has_loss ? significant(r.record.loss, 5) : "-");
  if (options_.is_private) line += text("  clipped ", samples.clipped, " of ", samples.samples);
  if (samples.not_finite > 0) line += text("  not finite ", samples.not_finite);
  const bool pads = r.record.padded_tokens > r.record.tokens;
  const auto percent = [&](const char* name, std::optional<double> Throughput::* share) {
    if (!(r.speed.*share)) return std::string();
    const auto figure = [&](const Throughput& of) { return text(significant(100 * *(of.*share), 2), " %"); };
    return text("  ", figure(r.speed), " ", name, pads ? text(" (", figure(r.padded), " with padding)") : "");
  };
  say(text(line, "  memory ", to_string(r.memory), "  ", significant(r.speed.tokens_per_second), " tokens/s",
           pads ? text(" (", significant(r.padded.tokens_per_second), " with padding)") : "",
           percent("mfu", &Throughput::mfu), percent("of matrix-product speed", &Throughput::gemm_share), "  ",
           utc_text(std::time(nullptr)), left));

  Json json{{"step", r.step}, {"lr", r.record.learning_rate}};
  if (r.record.gradient_norm) json["grad_norm"] = *r.record.gradient_norm;
  Json own{{"loss", has_loss ? Json(r.record.loss) : Json()},
           {"samples", samples.samples},
           {"step_ms", Millis(r.took).count()},
           {"data_ms", Millis(r.data).count()},
           {"load_ms", Millis(r.load).count()},
           {"memory_bytes", r.memory.count},
           {"tokens", r.record.tokens},
           {"padded_tokens", r.record.padded_tokens}};
  for (const auto& [prefix, speed] : {std::pair("", r.speed), {"padded_", r.padded}}) {
    const auto key = [&](const char* name) { return prefix + std::string(name); };
    own[key("tokens_per_second")] = speed.tokens_per_second;
    if (speed.mfu) own[key("mfu")] = *speed.mfu;
    if (speed.gemm_share) own[key("gemm_share")] = *speed.gemm_share;
  }
  if (options_.is_private) {
    own["clipped"] = samples.clipped;
    own["not_finite"] = samples.not_finite;
    json["clip_norm"] = r.record.clip_norm;
  }
  add_spent(json, r.spent);
  write(json, own);
  events_->scalar("train/lr", r.record.learning_rate, r.step);
  if (r.record.gradient_norm) events_->scalar("train/grad_norm", *r.record.gradient_norm, r.step);
  if (has_loss) events_->scalar(tag("train/loss"), r.record.loss, r.step);
  events_->scalar(tag("train/tokens_per_second"), r.speed.tokens_per_second, r.step);
  events_->scalar(tag("train/padded_tokens_per_second"), r.padded.tokens_per_second, r.step);
  events_->scalar(tag("train/memory_mib"), static_cast<double>(r.memory.count) / static_cast<double>(MiB(1).count),
                  r.step);
  if (r.spent && !options_.void_epsilon)
    events_->scalar(text("privacy/epsilon_per_", to_string(options_.unit)), r.spent->epsilon, r.step);
  events_->flush();
}

void Report::before(int64_t step, const std::optional<privacy::Spent>& spent) {
  if (!options_.speaks) return;
  Json line{{"step", step}};
  add_spent(line, spent);
  write(line, Json::object());
}

void Report::add_spent(Json& line, const std::optional<privacy::Spent>& spent) const {
  if (!spent) {
    if (options_.is_private) line["no_epsilon"] = options_.no_epsilon;
    return;
  }
  line["epsilon"] = spent->epsilon;
  line["delta"] = spent->delta;
  line["accountant"] = to_string(spent->accountant);
  line["privacy_unit"] = to_string(options_.unit);
  if (options_.void_epsilon) line["epsilon_void"] = "the noise has a seed, not a secret key";
}

void Report::evaluation(int64_t step, const Evaluation& found, const std::string& what) {
  if (!options_.speaks) return;
  auto line = text("  ", what == "eval" ? "evaluation" : what, " after step ", step,
                   options_.is_private ? " (not private)" : "", ": loss ", significant(found.loss, 5));
  if (found.perplexity) line += text(", perplexity ", significant(*found.perplexity));
  if (found.accuracy)
    line += text(", accuracy ", significant(100 * *found.accuracy), " %, F1 ", significant(*found.f1),
                 "; always the most frequent class: ", significant(100 * *found.majority), " %");
  say(text(line, " (", found.records, what == "eval" ? " held-out samples)" : " samples)"));
  write({{"step", step}}, found.json(what));
  events_->scalar(tag(what + "/loss"), found.loss, step);
  if (found.perplexity) events_->scalar(tag(what + "/perplexity"), *found.perplexity, step);
  if (found.accuracy) events_->scalar(tag(what + "/accuracy"), *found.accuracy, step);
  events_->flush();
}

std::string Report::tag(const std::string& name) const { return options_.is_private ? "not_private/" + name : name; }

void Report::write(Json line, const Json& own) {
  if (options_.is_private)
    line["not_private"] = own;
  else
    line.update(own);
  folder_->append_metrics(line);
}

}  // namespace shade::train
