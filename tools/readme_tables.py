# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the option tables of README.md and each role's README.md from the argument specifications; --check fails when one is not current.

usage: tools/readme_tables.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def plain(text: object) -> str:
    """Ansible markup as Markdown, on one line, safe inside a table."""
    joined = " ".join(text) if isinstance(text, list) else str(text)
    joined = " ".join(joined.split())
    joined = re.sub(r"P\(([^#)]*)#\w+\)", r"`\1`", joined)
    joined = re.sub(r"[CVOMI]\(([^)]*)\)", r"`\1`", joined)
    return joined.replace("|", "\\|")


def table(options: dict[str, dict]) -> str:
    lines = ["| Option | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for name, option in options.items():
        kind = option.get("type", "str") + (f" of {option['elements']}" if option.get("elements") else "")
        if option.get("choices"):
            kind += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
        default = "required" if option.get("required") else ""
        if "default" in option and option["default"] not in ("", None):
            value = option["default"]
            default = f"`{value if isinstance(value, str) else json.dumps(value)}`"
        lines.append(f"| `{name}` | {kind} | {default} | {plain(option['description'])} |")
    return "\n".join(lines)


def blocks() -> dict[str, str]:
    options = yaml.safe_load((ROOT / "playbooks/vars/options.yml").read_text())["dflash_options"]
    result = {"options": table(options)}
    roles = []
    for specs in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        main = yaml.safe_load(specs.read_text())["argument_specs"]["main"]
        roles.append(
            f"| `{specs.parent.parent.name}` | {plain(main['short_description'])} | {len(main.get('options', {}))} |"
        )
    result["roles"] = "\n".join(["| Role | What it does | Options |", "| --- | --- | --- |", *roles])
    modules = []
    for module in sorted((ROOT / "plugins/modules").glob("*.py")):
        found = re.search(r'DOCUMENTATION = r?"""(.*?)"""', module.read_text(), re.S)
        modules.append(f"| `{module.stem}` | {plain(yaml.safe_load(found.group(1))['short_description'])} |")
    result["modules"] = "\n".join(["| Module | What it does |", "| --- | --- |", *modules])
    return result


def role_readmes() -> dict[Path, str]:
    """README.md of every role, made of its argument specifications."""
    result = {}
    for specs in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        role = specs.parent.parent
        lines = [
            "<!--",
            # REUSE-IgnoreStart
            "SPDX-FileCopyrightText: 2026 inferlab.dflash contributors",
            "SPDX-License-Identifier: GPL-3.0-or-later",
            # REUSE-IgnoreEnd
            "Written by tools/readme_tables.py from meta/argument_specs.yml; do not edit.",
            "-->",
            "",
            f"# Role {role.name}",
        ]
        entries = yaml.safe_load(specs.read_text())["argument_specs"]
        for name, entry in entries.items():
            description = entry.get("description", [])
            paragraphs = [description] if isinstance(description, str) else description
            heading = [] if name == "main" else ["", f"## Entry point {name}"]
            lines += [*heading, "", f"{plain(entry['short_description'])}.", ""]
            lines += [line for paragraph in paragraphs for line in (plain(paragraph), "")]
            if name == "main" or entry.get("options") != entries["main"].get("options"):
                lines.append(table(entry.get("options", {})))
            else:
                lines.append("Takes the options of the entry point main.")
        result[role / "README.md"] = "\n".join(lines) + "\n"
    return result


def main() -> int:
    readme = ROOT / "README.md"
    new = readme.read_text()
    for name, block in blocks().items():
        marker = re.compile(rf"(<!-- {name}: begin[^>]*-->\n).*?(<!-- {name}: end -->)", re.S)
        if not marker.search(new):
            print(f"README.md has no block {name!r}", file=sys.stderr)
            return 2
        new = marker.sub(lambda match, block=block: match.group(1) + "\n" + block + "\n\n" + match.group(2), new)
    wanted = {readme: new, **role_readmes()}
    stale = [file for file, content in wanted.items() if not file.exists() or file.read_text() != content]
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not current: run tools/readme_tables.py", file=sys.stderr)
        return 1 if stale else 0
    for file in stale:
        file.write_text(wanted[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
