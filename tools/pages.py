"""Headings of our documents and the anchors that GitHub and the site give them."""
import re

FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def without_fences(text):
    """The same lines with blocks of code blanked."""
    return FENCE.sub(lambda block: re.sub(r"[^\n]", "", block.group()), text)


def headings(text):
    """(number of the line, from 0; anchor) of each heading."""
    out, used = [], set()
    for number, line in enumerate(without_fences(text).split("\n")):
        if not (heading := re.match(r"#+ (.*)$", line)):
            continue
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1)).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        again = 0
        while (name if again == 0 else f"{name}-{again}") in used:
            again += 1
        used.add(name if again == 0 else f"{name}-{again}")
        out.append((number, name if again == 0 else f"{name}-{again}"))
    return out
