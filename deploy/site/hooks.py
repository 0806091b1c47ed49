"""Documents outside docs/ as pages of the site, with the links between all of them as they are in the repository, and
the differences between GitHub's Markdown and Python's made up for."""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "SECURITY.md": "SECURITY.md"}
STYLES = {"deploy/site/contrast.css": "contrast.css"}
API = "api.md"
REFERENCE = ROOT / "build" / "apidoc"
LIST = re.compile(r"(?:[-*]|\d+\.) ")
OPTION = re.compile(r"--[\w.-]*\w")
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)#\s:]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)((?:#[^)\s]*)?)\)")


def source_of(uri):
    """The path in the repository of a page of the site."""
    for source, page in PAGES.items():
        if page == uri:
            return source
    return "docs/" + uri


def page_of(path):
    """The address in the site of a path in the repository; None: it is not part of it."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return None


def head_comment(header):
    """The first sentence of a header, which says what it declares."""
    lines = []
    for line in header.read_text().splitlines():
        if not line.startswith("// "):
            break
        lines.append(line.removeprefix("// "))
    return re.split(r"(?<=[^.]\.)(?: |$)", " ".join(lines))[0].rstrip(".:").replace("|", "\\|").replace("<", "&lt;")


def api_page():
    """The public headers by topic (shade/public); with a link to Doxygen's reference where tools/apidoc has made it."""
    out = ["# API reference", "", "The public headers of the library, by topic. How a program uses them: [embedding.md](embedding.md)."]
    if (REFERENCE / "index.html").exists():
        out += ["", "[All classes and functions](reference/index.html), made by Doxygen from these headers."]
    for block in (ROOT / "shade" / "public").read_text().split("\n\n")[1:]:
        topic, *headers = block.strip().splitlines()
        topic = topic.removeprefix("# ")
        out += ["", f"## {topic[:1].upper()}{topic[1:]}", "", "| header | what |", "|---|---|"]
        out += [f"| `{header}` | {head_comment(ROOT / header)} |" for header in headers]
    return "\n".join(out) + "\n"


def on_files(files, config):
    for source, page in (PAGES | STYLES).items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, API, content=api_page()))
    for made in sorted(REFERENCE.rglob("*")):
        if made.is_file() and made.suffix != ".txt":
            files.append(File.generated(config, f"reference/{made.relative_to(REFERENCE)}", abs_src_path=str(made)))
    return files


def separated(text):
    """A list or table that follows a paragraph without an empty line: GitHub shows it, Python's Markdown needs the line."""
    out = []
    for line in text.split("\n"):
        before = out[-1] if out else ""
        plain = before.strip() and not before.startswith((" ", "#", "|", "<!--")) and not LIST.match(before)
        if plain and (LIST.match(line) or line.startswith("|")):
            out.append("")
        out.append(line)
    return "\n".join(out)


def on_page_markdown(markdown, page, config, files):
    source = source_of(page.file.src_uri)
    folder = posixpath.dirname(source)

    def change(match):
        words, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        where = page_of(path)
        if where is None:
            # A file or folder of the sources that is no page: only its words stay.
            if (ROOT / path).exists():
                return f"{words} (`{path}` in the sources)" if path not in words else words
            return match.group(0)  # --strict reports it
        return f"[{words}]({posixpath.relpath(where, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    def image(match):
        path = posixpath.normpath(posixpath.join(folder, match.group(2)))
        where = page_of(path)
        if where is None:
            return match.group(0)
        return f"![{match.group(1)}]({posixpath.relpath(where, posixpath.dirname(page.file.src_uri) or '.')})"

    # Blocks of code are left alone.
    fences = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(fences), 2):
        fences[i] = separated(LINK.sub(change, IMAGE.sub(image, fences[i])))
    return "".join(fences)


def on_page_content(html, page, config, files):
    """Lines are not broken after the dashes of an option."""

    def keep(found):
        return OPTION.sub(r'<span class="option">\g<0></span>', found.group())

    return INLINE_CODE.sub(keep, html)
