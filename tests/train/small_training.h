// A run of six steps on forty synthetic records, private or not.
#pragma once

#include "tests/train/training.h"

namespace shade::train {

inline Words small(const Words& more) {
  return with({{"model.task", "lm"},
               {"train.steps", "6"},
               {"train.batch_size", "8"},
               {"train.seq_length", "12"},
               {"train.records", "40"},
               {"train.micro_batch", "4"},
               {"optim.lr", "1e-2"}},
              more);
}

inline const Words kPrivate{
    {"dp.dp", "flash_bookkeeping"}, {"dp.sigma", "0.7"}, {"dp.noise_seed", "3"}, {"dp.delta", "1e-3"}};
inline const Words kPlain{{"dp.sampler", "shuffled"}, {"optim.grad_clip", "1"}};

}  // namespace shade::train
