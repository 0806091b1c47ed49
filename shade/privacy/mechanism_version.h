// Version of the clipped sum and its noise.
#pragma once

namespace shade::privacy {

// Raise it with every change of the bits that clipping, summing or noise give for the same records, settings and key;
// once per release is enough. It is part of a private job's words (train/step/job.h): ranks of different versions
// refuse each other, and a run that a program of another version started continues as a new incarnation, with other
// noise and its steps counted in addition. Its noise on a sum of another version would reveal the difference of the
// two.
//
//   1   0.1, 0.2
//   2   subkeys of the noise have a personalisation
//   3   sums are exact, in fp64 on a grid; norms are bounds that hold for products that underflow, too
//   4   the noisy sum is that with an ideal Gaussian number, rounded once; records are drawn by as many bits as decide
inline constexpr int kMechanismVersion = 4;
inline constexpr int kExactSums = 3, kIdealNoise = 4;  // from these versions on

}  // namespace shade::privacy
