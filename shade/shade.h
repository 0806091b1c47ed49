// The library in one header: a model, records, a private run.
//
//   struct Net : shade::Module {
//     shade::nn::Linear hidden = add<shade::nn::Linear>("hidden", {.in = 4, .out = 16, .bias = true});
//     shade::nn::Linear out = add<shade::nn::Linear>("out", {.in = 16, .out = 3, .bias = true});
//     at::Tensor loss(const shade::Batch& batch) override {
//       return shade::nn::class_losses(out(at::tanh(hidden(batch.field("x")))), batch.field("label"));
//     }
//   };
//
//   int main(int argc, char** argv) {
//     return shade::main(argc, argv, [](shade::World& world) {
//       const shade::InMemory records({{"x", x}, {"label", label}});
//       Net net;
//       shade::Run run(world, net, records,
//                      {.budget = {{.epsilon = 4, .delta = 1e-5}}, .batch_size = 100, .steps = 200, .folder = "run",
//                       .export_folder = "trained"});
//       run.finish();
//     });
//   }
//
// docs/embedding.md is the tutorial. What these names stand for stays open to who needs more: train::Job makes single
// steps without a folder, nn/unit.h gathers a model part by part, privacy/ has the clipping methods and accountants.
#pragma once

#include <ATen/ATen.h>
#include <shade/version.h>

#include "shade/comm/job/program.h"
#include "shade/comm/world.h"
#include "shade/data/in_memory.h"
#include "shade/models/module.h"
#include "shade/train/run/run.h"

namespace shade {

using comm::World;
using data::Dataset;
using data::InMemory;
using models::Module;
using nn::Batch;
using privacy::PrivacyUnit;
using train::Run;
using train::RunOptions;

// main() of a program of ranks (comm/job/program.h).
inline int main(int argc, char** argv, const std::function<void(World&)>& body) {
  return comm::run_program(argc, argv, body);
}

}  // namespace shade
