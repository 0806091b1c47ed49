"""Documents outside of docs/ as pages of the site, with the links between all of them as they are in the repository."""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "SECURITY.md": "SECURITY.md"}
STYLES = {"deploy/site/contrast.css": "contrast.css"}
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


def on_files(files, config):
    for source, page in (PAGES | STYLES).items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


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
        fences[i] = LINK.sub(change, IMAGE.sub(image, fences[i]))
    return "".join(fences)
