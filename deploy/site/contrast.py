"""Contrast of the site's text on its backgrounds, from the style sheets of the built site: WCAG AA wants 4.5:1."""
import colorsys
import re

LEAST = 4.5
SCHEMES = ("default", "slate")
PRIMARY = "blue-grey"
TEXT = ("default-fg-color", "default-fg-color--light", "default-fg-color--lighter", "typeset-a-color", "accent-fg-color")
CODE = ("code-fg-color", "typeset-a-color", "accent-fg-color", "default-fg-color--light",
        *(f"code-hl-{kind}-color" for kind in ("number", "special", "function", "constant", "keyword", "string")))
PAIRS = [
    *((name, ("default-bg-color",)) for name in TEXT),
    *((name, ("default-bg-color", "code-bg-color")) for name in CODE),
    ("primary-bg-color", ("primary-fg-color",)),
    ("primary-bg-color--light", ("primary-fg-color",)),
    ("footer-fg-color", ("default-bg-color", "footer-bg-color")),
    ("footer-fg-color--light", ("default-bg-color", "footer-bg-color", "footer-bg-color--dark")),
    ("footer-fg-color--lighter", ("default-bg-color", "footer-bg-color", "footer-bg-color--dark")),
]
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
VARIABLE = re.compile(r"--md-([\w-]+):\s*([^;}]+)")
PART = re.compile(r"\[[^\]]*\]|:root")


def variables(sheets, scheme):
    """The variables that hold for a scheme: the later rule of the highest specificity."""
    given = {":root", f"[data-md-color-scheme={scheme}]", f"[data-md-color-primary={PRIMARY}]", "[data-md-color-accent=indigo]"}
    found = {}
    for order, (selectors, body) in enumerate(rule for sheet in sheets for rule in RULE.findall(re.sub(r"/\*.*?\*/", "", sheet, flags=re.S))):
        for selector in selectors.replace('"', "").split(","):
            parts = PART.findall(selector)
            if not parts or "".join(parts) != selector.strip() or not set(parts) <= given:
                continue
            rank = (sum(part != ":root" for part in parts), order)
            for name, value in VARIABLE.findall(body):
                if name not in found or found[name][0] <= rank:
                    found[name] = (rank, value.strip())
    return {name: value for name, (_, value) in found.items()}


def colour(names, name):
    """Red, green, blue and opacity, from 0 to 1."""
    value = re.sub(r"var\(--md-([\w-]+)\)", lambda other: names[other.group(1)], names[name])
    if value != names[name]:
        return colour({**names, name: value}, name)
    if value.startswith("#"):
        digits = value[1:] if len(value) > 5 else "".join(2 * digit for digit in value[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in range(0, len(digits), 2)]
        return (*parts, 1.0)[:4]
    if numbers := re.fullmatch(r"hsla\(([\d.]+)(?:deg)?,\s*([\d.]+)%,\s*([\d.]+)%,\s*([\d.]+)\)", value):
        hue, saturation, light, opacity = map(float, numbers.groups())
        return (*colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100), opacity)
    raise ValueError(f"--md-{name} is '{value}'; expected #rrggbb or hsla()")


def over(front, back):
    return tuple(f * front[3] + b * (1 - front[3]) for f, b in zip(front[:3], back[:3])) + (1.0,)


def luminance(colour_):
    parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in colour_[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def ratio(names, text, backgrounds):
    back = (1.0, 1.0, 1.0, 1.0)
    for layer in backgrounds:
        back = over(colour(names, layer), back)
    low, high = sorted((luminance(over(colour(names, text), back)), luminance(back)))
    return (high + 0.05) / (low + 0.05)


def too_low(sheets):
    """What is below the bound, and the lowest ratio of all."""
    wrong, lowest = [], 100.0
    for scheme in SCHEMES:
        names = variables(sheets, scheme)
        for text, backgrounds in PAIRS:
            found = ratio(names, text, backgrounds)
            lowest = min(lowest, found)
            if found < LEAST:
                wrong.append(f"{scheme}: {text} on {backgrounds[-1]} has a contrast of {found:.2f}; expected {LEAST}")
    return wrong, lowest
