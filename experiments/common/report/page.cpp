#include "experiments/common/report/page.h"

#include <fmt/format.h>

#include "experiments/common/report/chart.h"

namespace bochner {
namespace {

constexpr const char* kHead = R"(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1c1e21; --dim: #60656c; --line: #d8dce1; --band: #f4f6f8;
  --c0: #1f6fb4; --c1: #c4501b; --c2: #2b8a3e; --c3: #8e44ad; --c4: #b8860b; --c5: #007f86; --c6: #b0235f; --c7: #555b61; }
@media screen and (prefers-color-scheme: dark) { :root { --bg: #16181b; --fg: #e6e8ea; --dim: #9aa1a9; --line: #363b41;
  --band: #1f2327; --c0: #6cb2f0; --c1: #f2925f; --c2: #6fcf83; --c3: #c792ea; --c4: #e2bb4f; --c5: #4ecbd2;
  --c6: #f07fae; --c7: #b3b9c0; } }
* { box-sizing: border-box; }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p, .note { color: var(--dim); max-width: 48rem; } p.lead { color: var(--fg); font-size: 1.1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: right; vertical-align: baseline; }
td { white-space: nowrap; } th { vertical-align: bottom; } thead th { background: var(--band); }
th:first-child, td:first-child, .words { text-align: left; white-space: normal; }
th:first-child, td:first-child { min-width: 8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
svg { width: 100%; max-width: 44rem; height: auto; } svg text { fill: var(--fg); font: 12px system-ui, sans-serif; }
svg .title { font-weight: 600; font-size: 14px; } svg .tick { fill: var(--dim); } svg .grid { stroke: var(--line); }
svg .curve { fill: none; stroke-width: 1.8; } svg .mark { stroke-width: 1.5; }
summary { cursor: pointer; margin: .5rem 0; }
pre { background: var(--band); overflow-x: auto; padding: .8rem; font-size: 13px; }
@media (max-width: 55rem) { th, td { padding: .3rem .4rem; } th:first-child, td:first-child { min-width: 6rem; } }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } pre { white-space: pre-wrap; font-size: 8pt; }
  svg, tr { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } }
</style>
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<title>{0}</title>\n{1}</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n"
      "</html>\n",
      html_escaped(title), kHead, body);
}

}  // namespace bochner
