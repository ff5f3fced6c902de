// SPDX-License-Identifier: Apache-2.0
#include "src/answer/page.h"

namespace bascule {

const char* html_style() {
  return R"css(
:root{color-scheme:light dark;
--page:#f5f6f8;--card:#fff;--ink:#161b22;--soft:#5d6776;--line:#e4e8ee;--wash:#f3f5f8;--on:#fff;
--good:#126a33;--good-wash:#e7f5ec;--bad:#b91c1c;--bad-wash:#fdecec;
--c1:#4b6cdb;--c2:#a13512;--c3:#1f483c;--c4:#460b51;--c5:#7353cf;--c6:#7d6b08;--c7:#1a7497;--c8:#667080}
@media (prefers-color-scheme:dark){:root{
--page:#0e1116;--card:#161b22;--ink:#e6eaf0;--soft:#97a1b0;--line:#29303a;--wash:#1c222b;--on:#0e1116;
--good:#4ccb84;--good-wash:#12301f;--bad:#ff8080;--bad-wash:#3a1719;
--c1:#537cf8;--c2:#e5b65f;--c3:#4df7ec;--c4:#fe728f;--c5:#ab93f5;--c6:#d9c65c;--c7:#66c2e6;--c8:#98a2b1}}
*{box-sizing:border-box}
html{scroll-padding-top:4rem}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
main,.inner{max-width:1160px;margin:0 auto;padding:0 24px}header.inner{padding-top:36px;padding-bottom:20px}
.brand{display:flex;align-items:center;gap:10px;color:var(--soft);font-size:13px;letter-spacing:.04em}.brand svg{width:34px;height:26px;color:var(--c1)}
h1{font-size:34px;line-height:1.2;letter-spacing:-.02em;margin:10px 0 4px;font-weight:680}
.sub{color:var(--soft);margin:0}.sub code{color:var(--ink)}
code{font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
nav{position:sticky;top:0;z-index:2;background:var(--page);border-bottom:1px solid var(--line)}
nav .inner{display:flex;gap:16px;overflow-x:auto;padding-top:11px;padding-bottom:11px}
nav a{color:var(--soft);text-decoration:none;font-size:13.5px;white-space:nowrap}nav a:hover{color:var(--c1)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(235px,100%),1fr));gap:12px;margin:22px 0 8px}
.figure{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}.figure span{display:block;color:var(--soft);font-size:12.5px}
.figure b{display:block;white-space:nowrap;font-size:25px;font-weight:650;letter-spacing:-.015em;line-height:1.3;margin-top:2px}
.figure b small{font-size:14px;font-weight:500;color:var(--soft);letter-spacing:0}.figure i{display:block;font-style:normal;color:var(--soft);font-size:12px}
section{margin:36px 0}
h2{font-size:20px;letter-spacing:-.01em;margin:0 0 12px;font-weight:650}h3{font-size:14px;margin:22px 0 6px;font-weight:640}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px}
.card>h3:first-child{margin-top:0}.card>.lead:last-child{margin-bottom:0}
.lead{margin:0 0 14px;color:var(--soft)}.lead b{color:var(--ink);font-weight:620}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:14px}
.chart{margin:0;display:flex;flex-direction:column;justify-content:space-between;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 14px 8px}
.chart figcaption{display:flex;flex-wrap:wrap;gap:4px 16px;padding:0 6px 8px;align-items:baseline}
.chart figcaption b{font-weight:640}.key{font-size:12.5px;color:var(--soft)}.chart .key b{font-weight:600;color:var(--ink)}
.key svg{display:inline-block;width:34px;height:12px;margin-right:6px;vertical-align:middle}
svg{display:block;width:100%;height:auto}
.chart svg{overflow:visible}.chart text{font-size:11.5px;fill:var(--soft)}.arena svg{min-width:900px}
.grid{stroke:var(--line);stroke-width:1}.line{fill:none;stroke:var(--k);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.c2{stroke-dasharray:9 5}.line.c3{stroke-dasharray:2 5}.line.c4{stroke-dasharray:12 4 2 4}
.line.c5{stroke-dasharray:20 6}.line.c6{stroke-dasharray:6 3 2 3 2 3}.line.c7{stroke-dasharray:5 9}.line.c8{stroke-dasharray:14 3 5 3}
.line.pale{stroke-dasharray:none;stroke-width:1;opacity:.38}.area{fill:var(--k);opacity:.11}
.mark{fill:var(--card);stroke:var(--k);stroke-width:2}
.c1{--k:var(--c1)}.c2{--k:var(--c2)}.c3{--k:var(--c3)}.c4{--k:var(--c4)}.c5{--k:var(--c5)}.c6{--k:var(--c6)}.c7{--k:var(--c7)}.c8{--k:var(--c8)}
.at rect{fill:transparent}.at line{stroke:var(--soft);stroke-dasharray:2 3}.at line,.at circle,.at text{visibility:hidden;pointer-events:none}
.at .c1,.at .c2,.at .c3,.at .c4,.at .c5,.at .c6,.at .c7,.at .c8{fill:var(--k)}
.at text{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:5px;stroke-linejoin:round}
.at:hover line,.at:hover circle,.at:hover text{visibility:visible}
.stack{display:flex;height:34px;border-radius:8px;overflow:hidden;gap:2px;margin:4px 0 14px}
.stack span{background:var(--k);min-width:2px;flex-basis:0;display:flex;align-items:center;justify-content:center;overflow:hidden}
.stack b{color:var(--on);font-size:12px;font-weight:600;white-space:nowrap;padding:0 6px;overflow:hidden;text-overflow:ellipsis}
.wide{overflow-x:auto}.tall{max-height:460px;overflow-y:auto}
.tall thead>tr>*{position:sticky;top:0;z-index:1;background:var(--card);box-shadow:inset 0 -1px var(--line)}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;font-weight:560;color:var(--soft);font-size:12.5px}th,td{padding:7px 14px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}
.wide{overflow-wrap:normal}.wide tbody th{white-space:nowrap;position:sticky;left:0;background:var(--card);font-size:14px;font-weight:400;color:var(--ink)}
:focus-visible{outline:2px solid var(--c1);outline-offset:2px}.n{text-align:right;white-space:nowrap}thead th{vertical-align:bottom}thead .n{white-space:normal}
.note{color:var(--soft);font-size:13px}.best{font-weight:680;color:var(--c1)}
.dot{display:inline-block;width:10px;height:10px;border-radius:3px;background:var(--k);margin-right:9px}
.bar-head{width:30%}.bar{vertical-align:middle}
.bar span{display:block;height:10px;border-radius:3px;background:var(--c1)}.bar span:not([style="width:0%"]){min-width:2px}
.pairs th{width:40%;font-size:13px;padding-right:18px}.pairs td{padding-right:0;overflow-wrap:anywhere}
.columns{columns:2;column-gap:40px}.group{break-inside:avoid;padding-bottom:14px}.columns h3{margin:0 0 4px}
.columns .pairs{font-size:13px}.columns .pairs th,.columns .pairs td{padding-top:4px;padding-bottom:4px;font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12.5px}
.columns .pairs th{width:54%;font-weight:400}
.contracts{list-style:none;margin:0;padding:0;display:grid;gap:12px;grid-template-columns:repeat(auto-fill,minmax(min(320px,100%),1fr))}
.contracts li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:13px 16px}
.contracts p{margin:6px 0 0;color:var(--soft);font-size:13.5px}
.pill{float:right;font-size:12px;font-weight:620;border-radius:99px;padding:1px 10px;background:var(--wash);color:var(--soft)}
.kept .pill{background:var(--good-wash);color:var(--good)}.contracts .broken{border-color:var(--bad)}.broken .pill{background:var(--bad-wash);color:var(--bad)}
.queries{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(480px,100%),1fr))}
.query{min-width:0;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:15px 18px}
blockquote{margin:0 0 12px;font-weight:600}
.hits{list-style:none;margin:0;padding:0;display:grid;grid-template-columns:repeat(auto-fit,minmax(52px,1fr));gap:10px}
.hits li{text-align:center;font-size:12.5px;color:var(--soft)}
.picture{background:var(--wash) center/contain no-repeat;border-radius:8px;aspect-ratio:1;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.hits .picture{margin-bottom:4px}
.clamped{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:6;overflow:hidden;min-width:0}
.hits .right .picture{outline:3px solid var(--good);outline-offset:2px}
.right,.right .score{color:var(--good)!important;font-weight:640}
.from-picture{display:grid;grid-template-columns:128px 1fr;gap:18px;align-items:center}
.from-picture>div{min-width:0}.from-picture ol{list-style:none;margin:0;padding:0;min-width:0}
.from-picture li{padding:4px 0;border-bottom:1px solid var(--line);font-size:14px;display:flex;gap:12px}
.from-picture li:last-child{border-bottom:0}.score{color:var(--soft);flex:none;min-width:3.5em}
.tokens{margin:0 0 10px;line-height:1.9}.tokens mark{background:var(--wash);color:var(--ink);border:1px solid var(--line);border-radius:5px;padding:1px 5px;font-weight:600}
.guesses{list-style:none;margin:0;padding:0;font-size:13.5px}.guesses li{padding:3px 0;border-top:1px solid var(--line);color:var(--soft)}
.guesses b{color:var(--ink);font-weight:600}.guesses .right{white-space:nowrap}
footer.inner{color:var(--soft);font-size:12.5px;padding-top:8px;padding-bottom:44px}
@media (max-width:960px){nav{position:static}nav .inner{flex-wrap:wrap;gap:6px 16px}html{scroll-padding-top:0}}
@media (max-width:720px){.columns{columns:1}h1{font-size:27px}main,.inner{padding:0 15px}
.figures{grid-template-columns:1fr 1fr}.figure b{font-size:20px}.from-picture{grid-template-columns:88px 1fr}
.wide tbody th{white-space:normal;min-width:8.5em}.note{min-width:10em}.chart text{font-size:15px}}
@media (max-width:480px){.chart text{font-size:18px}.chart .at text{font-size:15px}}
@media (min-width:942px) and (max-width:1180px){.chart text{font-size:14.5px}}
@media print{nav{display:none}.tall{max-height:none}.card,.chart,.query,.contracts li{break-inside:avoid}}
)css";
}

}  // namespace bascule
