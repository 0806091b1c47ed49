// The normal distribution far into its tails, and the privacy of the Gaussian mechanism without sampling.
#pragma once

namespace shade::privacy {

double log_normal_tail(double z);       // log of the probability to exceed z
double normal_tail_point(double mass);  // a z beyond which there is no more than `mass`; mass < 1/2

// The exact curve of N(mu, 1) against N(0, 1) (Balle and Wang 2018). k steps of the Gaussian mechanism without sampling
// have mu = sqrt(k) / sigma.
double gaussian_delta(double epsilon, double mu);
double gaussian_epsilon(double delta, double mu);

}  // namespace shade::privacy
