"""The frame of the HTML report: structure and style."""

from __future__ import annotations

from string import Template

__all__ = ["PAGE"]

_STYLE = """\
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0;
  --good: #00694c; --bad: #a84300;
  --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b8588c; --c4: #b87f00; --c5: #2e95d3;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1d2125; --ink: #e3e6e9; --soft: #9aa4ae; --line: #363d44;
    --good: #35c99a; --bad: #ff9a57;
    --c0: #3d9bdc; --c1: #f0772a; --c2: #12b583; --c3: #d98bb5; --c4: #e6a51f; --c5: #8fd0f5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 70rem; padding: 1.5rem clamp(0.9rem, 4vw, 2.5rem) 3rem;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  color: var(--ink); background: var(--ground);
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 0.75rem; overflow-wrap: anywhere; }
section { margin-top: 2.75rem; }
ul { margin: 0; padding: 0; list-style: none; }
.splits, .about, .notes, figure p { color: var(--soft); font-size: 0.875rem; }
.about { max-width: 46rem; }
.lead { font-size: 1.05rem; max-width: 46rem; }
.notes { margin-top: 0.6rem; max-width: 46rem; }
.notes li + li { margin-top: 0.25rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
.wide:focus-visible { outline: 2px solid var(--c0); }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
table { font-variant-numeric: tabular-nums; }
th, td { padding: 0.45rem 0.7rem; white-space: nowrap; text-align: right; }
.left { text-align: left; }
thead th { color: var(--soft); font-weight: 600; background: var(--card); }
thead th { vertical-align: bottom; white-space: normal; line-height: 1.25; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
tbody th { font-weight: 500; }
th:first-child { position: sticky; left: 0; background: var(--ground); }
thead th:first-child { background: var(--card); }
.better, .worse { font-weight: 600; }
.better { color: var(--good); }
.worse { color: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.9rem 0; }
.legend { font-size: 0.875rem; }
.legend li { display: flex; align-items: center; gap: 0.45rem; overflow-wrap: anywhere; }
.legend svg { width: 2.6rem; flex: none; }
.plots { display: grid; gap: 1rem; margin-top: 1rem; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(100%, 19.5rem), 1fr)); }
figure { margin: 0; padding: 0.8rem 0.9rem; background: var(--card); border-radius: 8px; }
figure, tr { break-inside: avoid; }
figure { min-width: 0; max-width: 34rem; }
figcaption { font-weight: 600; font-size: 0.9rem; margin-bottom: 0.4rem; }
figcaption { overflow-wrap: anywhere; }
figure p { margin: 0.4rem 0 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
figure svg { max-width: 27rem; margin: 0 auto; }
figure svg + svg { margin-top: 0.6rem; }
.keys { position: absolute; width: 0; height: 0; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text { fill: currentColor; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; }
dl { font-size: 0.875rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-family: ui-monospace, monospace; }
pre { padding: 1rem; overflow-x: auto; border-radius: 8px; background: var(--card); }
pre { font: 0.85rem/1.45 ui-monospace, monospace; }
@media (max-width: 30rem) {
  h1 { font-size: 1.5rem; }
  section { margin-top: 2.2rem; }
  th:first-child { min-width: 6.8rem; max-width: 9.5rem; white-space: normal; }
  th:first-child { overflow-wrap: break-word; border-right: 1px solid var(--line); }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 0.4rem; }
}
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: 0.2rem 0.35rem; white-space: normal; }
  h2 { break-after: avoid; }
  pre { white-space: pre-wrap; }
}
"""

PAGE = Template(f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$name - rankplug</title>
<style>
{_STYLE}</style>
</head>
<body>
<header>
<h1>$name</h1>
$splits
<div class="lead">$lead</div>
</header>
<main>
$keys
$sections
<section>
<h2>Recipe</h2>
$digests
<pre>$recipe</pre>
</section>
</main>
</body>
</html>
""")
