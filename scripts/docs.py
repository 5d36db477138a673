#!/usr/bin/python3
"""Generates a site of the book: one page for each file of docs, with a search, without external resources.

    scripts/docs.py OUTPUT     writes the site into this directory
    scripts/docs.py --check    makes it in a temporary directory; ends with 1 if a link leads nowhere

The order of the pages is that of docs/README.md. Needs python3-markdown.
"""

import html
import json
import pathlib
import re
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--link); }
header { padding: .6rem 1rem; border-bottom: 1px solid var(--line); display: flex; gap: 1rem;
  flex-wrap: wrap; align-items: center; }
header input { flex: 1 1 12rem; min-width: 0; font: inherit; padding: .3rem .5rem; }
#found { list-style: none; margin: 0; padding: 0 1rem; }
#found li { padding: .3rem 0; border-bottom: 1px solid var(--line); }
.whole { display: grid; grid-template-columns: minmax(0, 16rem) minmax(0, 1fr); max-width: 78rem;
  margin: auto; }
nav { padding: 1rem; font-size: .92rem; }
nav ul { list-style: none; padding: 0; margin: 0 0 1rem; }
nav li { padding: .1rem 0; }
nav [aria-current] { font-weight: 600; }
main { padding: 0 1rem 3rem; min-width: 0; }
pre, .table { overflow-x: auto; }
pre { background: var(--soft); padding: .7rem; }
code { font-family: ui-monospace, monospace; font-size: .92em; }
table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
img { max-width: 100%; height: auto; }
details summary { padding: .6rem 1rem; cursor: pointer; }
.narrow { display: none; }
@media (max-width: 50rem) {
  .whole { grid-template-columns: minmax(0, 1fr); }
  .wide { display: none; }
  .narrow { display: block; }
}
"""

SCRIPT = """
const field = document.querySelector('#search'), found = document.querySelector('#found');
let index;
field.addEventListener('input', async () => {
  index ??= await (await fetch(document.body.dataset.top + 'search.json')).json();
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const count = (text, word) => text.split(word).length - 1;
  const hits = !words.length ? [] : index.map(part => {
    const title = part.title.toLowerCase(), text = part.text.toLowerCase();
    const scores = words.map(word => 20 * count(title, word) + Math.min(count(text, word), 9));
    return { part, score: scores.includes(0) ? 0 : scores.reduce((one, other) => one + other) };
  }).filter(hit => hit.score).sort((one, other) => other.score - one.score).slice(0, 20);
  found.replaceChildren(...hits.map(({ part }) => {
    const item = document.createElement('li'), link = document.createElement('a');
    link.href = document.body.dataset.top + part.at;
    link.textContent = part.title;
    item.append(link);
    return item;
  }));
});
"""


def pages():
    """The files of the book in the order of its first page, and after that by name."""
    first = (DOCS / "README.md").read_text()
    named = [DOCS / name for name in re.findall(r"\]\(([\w/.-]+\.md)(?:#[\w-]*)?\)", first)
             if not name.startswith("../")]
    every = [DOCS / "README.md", *named, *sorted(DOCS.rglob("*.md"))]
    return list(dict.fromkeys(path for path in every if path.is_file()))


def slug(text, separator="-"):
    """The identifier of a heading, as code hosts generate it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def out_name(path):
    """The page of a file, relative to the site."""
    name = path.relative_to(DOCS)
    return (name.parent / "index.html" if name.name == "README.md" else name.with_suffix(".html")).as_posix()


def link_for(target, page, known, outside):
    """The address in the site for an address in the text; files outside the book are added to `outside`."""
    name, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not name:
        return target
    file = (page.parent / name).resolve()
    if file in known:
        up = "../" * (len(page.relative_to(DOCS).parts) - 1)
        return up + out_name(file) + ("#" + anchor if anchor else "")
    if file.is_file() and DOCS in file.parents:
        return target
    # Source files have no page.
    if not file.exists():
        outside.append(f"{page.relative_to(ROOT)}: {target} is not there")
    return None


def navigation(every, page, titles):
    """The links to all pages, relative to one page."""
    up = "../" * (len(page.relative_to(DOCS).parts) - 1)
    items = []
    for other in every:
        here = ' aria-current="page"' if other == page else ""
        items.append(f'<li><a href="{up}{out_name(other)}"{here}>{html.escape(titles[other])}</a></li>')
    return "<ul>" + "".join(items) + "</ul>"


def render(every, output):
    """Writes all pages; returns the errors of links."""
    import markdown  # here, so that the message about a missing package can be ours

    known = {path.resolve() for path in every}
    texts = {path: path.read_text() for path in every}
    titles = {path: re.search(r"^# (.+)$", text, re.M).group(1).replace("`", "")
              for path, text in texts.items()}
    problems, index, anchors, wanted = [], [], {}, []
    for page in every:
        # A table or list directly below a paragraph begins a block, as on code hosts.
        text = re.sub(r"^((?!\s*[-|>*#]|\d+\.).+)\n(?=- |\|)", r"\1\n\n", texts[page], flags=re.M)
        body = markdown.markdown(text, extensions=["tables", "fenced_code", "toc", "sane_lists"],
                                 extension_configs={"toc": {"slugify": slug}})

        def replaced(found, page=page):
            target = link_for(html.unescape(found.group(2)), page, known, problems)
            return found.group(1) + f'"{html.escape(target)}"' if target else 'data-source="' + found.group(2) + '"'

        body = re.sub(r'((?:href|src)=)"([^"]*)"', replaced, body)
        body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
        name = out_name(page)
        anchors[name] = set(re.findall(r'id="([^"]+)"', body))
        for target in re.findall(r'href="([^"]+)"', body):
            if not re.match(r"[a-z]+:", target):
                wanted.append((page, name, html.unescape(target)))
        parts = re.split(r'<h[1-3] id="([^"]+)">(.*?)</h[1-3]>', body)
        for anchor, heading, rest in zip(parts[1::3], parts[2::3], parts[3::3]):
            plain = lambda text: re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()
            title = plain(heading) if plain(heading) == titles[page] else f"{titles[page]}: {plain(heading)}"
            index.append({"title": title, "at": f"{name}#{anchor}", "text": plain(rest)[:4000]})
        up = "../" * (len(page.relative_to(DOCS).parts) - 1)
        links = navigation(every, page, titles)
        whole = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(titles[page])}</title>"
            f'<link rel="stylesheet" href="{up}style.css"></head><body data-top="{up}">'
            f'<header><a href="{up}index.html">Touchstone</a><label for="search">Search</label>'
            '<input id="search" type="search" autocomplete="off"></header><ul id="found"></ul>'
            f'<details class="narrow"><summary>Pages</summary><nav aria-label="Pages">{links}</nav></details>'
            f'<div class="whole"><nav class="wide" aria-label="Pages">{links}</nav>'
            f'<main>{body}</main></div><script src="{up}search.js"></script></body></html>\n'
        )
        place = output / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(whole)
    for page, name, target in wanted:
        path, _, anchor = target.partition("#")
        at = name if not path else (pathlib.PurePosixPath(name).parent / path).as_posix()
        at = re.sub(r"[^/]+/\.\./", "", at)
        if at in anchors:
            if anchor and anchor not in anchors[at]:
                problems.append(f"{page.relative_to(ROOT)}: {target}: there is no such heading")
        elif not (DOCS / at).is_file():
            problems.append(f"{page.relative_to(ROOT)}: {target} leads nowhere")
    (output / "style.css").write_text(STYLE)
    (output / "search.js").write_text(SCRIPT)
    (output / "search.json").write_text(json.dumps(index))
    for file in DOCS.rglob("*"):
        if file.is_file() and file.suffix in {".png", ".svg", ".json", ".webp", ".jpg"}:
            place = output / file.relative_to(DOCS)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    return problems


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        import markdown  # noqa: F401
    except ImportError:
        sys.exit("SKIPPED: the book as a site (install python3-markdown)")
    every = pages()
    if sys.argv[1] == "--check":
        with tempfile.TemporaryDirectory() as directory:
            problems = render(every, pathlib.Path(directory))
    else:
        output = pathlib.Path(sys.argv[1])
        problems = render(every, output)
        print(f"{output / 'index.html'}: {len(every)} pages")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
