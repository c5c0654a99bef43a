"""The page's only style sheet: for light and dark screens, as narrow as a phone's or wider, and for paper.

The colours are from the palette of Okabe and Ito, for colour-blind readers. Availability has a scale of one hue. No
chart tells anything by colour alone.
"""

from typing import Final

_LIGHT: Final = """
--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--none:#eef0f3;--best:#e7f1fa;
--led:#b07900;--published:#0072b2;--nobody:#c4302b;--area:#cfe3f3;--strong:#c4302b;--weak:#b07900;
--a0:#cfe3f3;--a1:#9cc4e4;--a2:#5f9fd0;--a3:#2f74ad;--a4:#154a7d;--a5:#0a1f3c;"""
_DARK: Final = """
--paper:#14171b;--ink:#e8eaed;--soft:#a3acb7;--line:#363d46;--none:#1f242a;--best:#16304a;
--led:#e69f00;--published:#56b4e9;--nobody:#ff7a70;--area:#1d405c;--strong:#ff7a70;--weak:#e69f00;
--a0:#1d405c;--a1:#2c628d;--a2:#4487bd;--a3:#72aede;--a4:#aed3f2;--a5:#f4faff;"""

STYLE: Final = (
    f":root{{color-scheme:light dark;{_LIGHT}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    """
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1.2rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .3rem}
h2{font-size:1.35rem;margin:2.4rem 0 .4rem;padding-top:.8rem;border-top:3px solid var(--published)}
h3{font-size:1.08rem;margin:1.8rem 0 .4rem}
h4{font-size:.9rem;margin:1.1rem 0 .1rem}
.hash{font:.78rem/1.3 ui-monospace,monospace;color:var(--soft)}
p{margin:.3rem 0}
a{color:var(--published)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;margin:.6rem 0;padding:0}
.soft,.note,.legend,caption{color:var(--soft);font-size:.86rem}
.note{max-width:62rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(8.2rem,1fr));gap:.6rem;margin:.8rem 0;padding:0}
.tiles div{border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem}
.tiles dt{color:var(--soft);font-size:.8rem}
.tiles dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem}
.key{white-space:nowrap}
.rows{margin:.4rem 0}
.row{display:grid;grid-template-columns:7.5rem minmax(0,1fr) 4.6rem;gap:.6rem;align-items:center;margin:2px 0}
.label{font-size:.86rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.value{font-size:.86rem;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.reasons .row{grid-template-columns:minmax(7.5rem,24rem) minmax(0,1fr) 4.6rem}
svg{display:block}
.key svg{display:inline;vertical-align:-1px}
.plot{width:100%;background:var(--none);border-radius:2px}
.axis{width:100%;overflow:visible}
.tick{font-size:11px;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
.led{fill:var(--led)}.published{fill:var(--published)}.nobody{fill:var(--nobody)}.bar{fill:var(--published)}
.none{fill:var(--none);stroke:var(--line)}
.cell{stroke:var(--paper);stroke-width:1;vector-effect:non-scaling-stroke}
.a0{fill:var(--a0)}.a1{fill:var(--a1)}.a2{fill:var(--a2)}.a3{fill:var(--a3)}.a4{fill:var(--a4)}.a5{fill:var(--a5)}
.area{fill:var(--area)}
.line{fill:none;stroke:var(--published);stroke-width:1.5;vector-effect:non-scaling-stroke}
.dot{fill:none;stroke-width:9;stroke-linecap:round;vector-effect:non-scaling-stroke}
.dot.strong{stroke:var(--strong)}.dot.weak{stroke:var(--weak);stroke-width:5}
.dot.first{stroke:var(--published)}.dot.other{stroke:var(--soft);stroke-width:6}
rect.strong{fill:var(--strong)}rect.weak{fill:var(--weak)}
.wide{overflow-x:auto;margin:.4rem 0}
table{border-collapse:collapse;font-size:.86rem;min-width:50%}
caption{text-align:left;padding:.2rem 0}
th,td{text-align:left;padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--line);
vertical-align:top;min-width:3.5rem}
td:first-child{min-width:9.5rem}
strong,code{white-space:nowrap}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.best td{background:var(--best)}
summary{cursor:pointer;font-size:.86rem;color:var(--soft);padding:.3rem 0}
:focus-visible{outline:2px solid var(--published);outline-offset:2px}
.missing{border-left:4px solid var(--led);padding:.3rem .8rem}
.hashes{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:0 2rem}
.closest .row{grid-template-columns:3rem minmax(0,1fr) 3.6rem}
@media (max-width:600px){
body{padding:.8rem;font-size:15px}
.row,.reasons .row{grid-template-columns:4.7rem minmax(0,1fr) 3.4rem;gap:.35rem}
.reasons .row{grid-template-columns:minmax(0,1fr) 3.4rem}
.reasons .label{grid-column:1/-1;white-space:normal}
.label,.value{font-size:.76rem}
.tick.odd{display:none}
td strong{display:block}
}
@media print{
body{max-width:none;font-size:11px;padding:0}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
nav,summary{display:none}
h2{break-before:page}
h2.first{break-before:auto}
h2,h3,h4{break-after:avoid}
.row,.tiles,tr{break-inside:avoid}
.wide{overflow:visible}
}
"""
)
