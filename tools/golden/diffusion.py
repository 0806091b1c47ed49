"""The variational bound that trains a denoiser's variance (Nichol and Dhariwal 2021), with DDPM's linear schedule.

Written step by step as the papers derive it: images, posteriors, densities. Everything is [B,C,H,W] or one number a sample.
"""

import math

import torch

BETAS = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
KEPT = torch.cumprod(1 - BETAS, dim=0)  # the share of the image's variance that is left
KEPT_BEFORE = torch.cat([torch.ones(1, dtype=torch.float64), KEPT[:-1]])
POSTERIOR_VARIANCE = BETAS * (1 - KEPT_BEFORE) / (1 - KEPT)


def at(table, timesteps_B, like):
    return table[timesteps_B].to(like.dtype)[:, None, None, None]


def image_of(noisy, noise, timesteps_B):
    kept = at(KEPT, timesteps_B, noisy)
    return (noisy - (1 - kept).sqrt() * noise) / kept.sqrt()


def posterior_mean(image, noisy, timesteps_B):
    """Of x_{t-1}, if x_t and the image are known."""
    beta, kept, before = (at(table, timesteps_B, noisy) for table in (BETAS, KEPT, KEPT_BEFORE))
    return (beta * before.sqrt() * image + (1 - beta).sqrt() * (1 - before) * noisy) / (1 - kept)


def divergence(mean, log_variance, other_mean, other_log_variance):
    """KL of two normal distributions, in nats."""
    return 0.5 * (other_log_variance - log_variance - 1 + (log_variance - other_log_variance).exp()
                  + (mean - other_mean).square() / other_log_variance.exp())


def normal_cdf(x):
    """Half of 1 + tanh(...), the usual approximation; written as a sigmoid, it has all its digits where it is near 0."""
    return torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def level_likelihood(image, mean, log_variance):
    """P of the level, of 256 from -1 to 1, that a pixel has; the lowest and the highest reach to infinity."""
    deviation = (0.5 * log_variance).exp()
    above, below = (image - mean + 1 / 255) / deviation, (image - mean - 1 / 255) / deviation
    # Both ends mirrored to the lower tail where that is nearer: the same difference, without cancellation.
    inner = torch.where(image > mean, normal_cdf(-below) - normal_cdf(-above), normal_cdf(above) - normal_cdf(below))
    plain = 0.5 * (torch.tanh(math.sqrt(2 / math.pi) * (above + 0.044715 * above**3))
                   - torch.tanh(math.sqrt(2 / math.pi) * (below + 0.044715 * below**3)))
    if image.dtype == torch.float64:
        assert (inner - plain).abs().max() < 1e-14
    return torch.where(image < -0.999, normal_cdf(above), torch.where(image > 0.999, normal_cdf(-below), inner))


def bound(predicted_noise, sigma, noisy, noise, timesteps_B):
    """[B], in bits per channel and pixel. `sigma` says where between its bounds the log variance lies: -1 to 1."""
    wide = torch.promote_types(noisy.dtype, torch.float32)  # bf16 models compute their losses in fp32
    predicted_noise, sigma, noisy, noise = (x.to(wide) for x in (predicted_noise, sigma, noisy, noise))
    image = image_of(noisy, noise, timesteps_B)
    least = at(POSTERIOR_VARIANCE.log(), timesteps_B.clamp(min=1), noisy)  # at t = 0 it would be 0
    most = at(BETAS.log(), timesteps_B, noisy)
    log_variance = (sigma + 1) / 2 * most + (1 - sigma) / 2 * least
    mean = posterior_mean(image_of(noisy, predicted_noise, timesteps_B), noisy, timesteps_B)
    later = divergence(posterior_mean(image, noisy, timesteps_B), least, mean, log_variance)
    # Where it isn't asked for, the likelihood is of the mean itself, so that it has a gradient without infinities.
    first = (timesteps_B == 0)[:, None, None, None]
    likelihood = level_likelihood(torch.where(first, image, mean), mean, torch.where(first, log_variance, 0.0))
    nats = torch.where(first, -likelihood.clamp(min=1e-12).log(), later)
    return nats.mean(dim=(1, 2, 3)) / math.log(2)
