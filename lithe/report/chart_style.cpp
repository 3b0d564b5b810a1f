#include "lithe/report/chart.h"

namespace lithe::report {

std::string_view chart_style() {
  return R"css(
:root{--s0:#3a6ea5;--s1:#d0743c;--s2:#4f9268;--s3:#8a6bb1;--s4:#c9a227;--s5:#4ba3a8;--s6:#b65b7c;--s7:#7d8590;
--ink:#1f2328;--soft:#656d76;--line:#e3e6ea;--ground:#fff;--bad:#c0392b;--inside:#fff}
@media (prefers-color-scheme:dark){:root{--s0:#6ea8e0;--s1:#e8995f;--s2:#74bd8f;--s3:#b39ad8;--s4:#dcbc55;--s5:#6fc6ca;--s6:#dc8ba8;--s7:#9aa4b0;
--ink:#e2e6ea;--soft:#98a2ad;--line:#2c333b;--ground:#171b20;--bad:#f0776a;--inside:#14181c}}
.chart{display:block;width:100%;height:auto;overflow:visible;font:12px/1 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-variant-numeric:tabular-nums}
.chart text{fill:var(--ink)}.chart .tick,.chart .label,.chart .token{fill:var(--soft)}.chart .token{font-size:11px}
.chart .middle{text-anchor:middle}.chart .end{text-anchor:end}.chart .value{font-weight:600}
.chart .grid{stroke:var(--line);stroke-width:1;fill:none}.chart .mark,.chart .base{stroke:var(--soft);stroke-opacity:.55;fill:none}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}
.chart .line{fill:none;stroke:var(--c);stroke-width:1.9;stroke-linejoin:round;stroke-linecap:round}.chart .raw{stroke-width:1;stroke-opacity:.28}
.chart .line.again{stroke-dasharray:6 5}.chart .dot,.chart .box{fill:var(--c)}.chart .ring{fill:none;stroke:var(--c);stroke-width:1.6}.chart text.value{fill:var(--c,var(--ink))}
.chart .dot{stroke:var(--ground);stroke-width:1}.chart .error{stroke:var(--c);stroke-width:1.4;stroke-opacity:.7;fill:none}
.chart .halo{paint-order:stroke;stroke:var(--ground);stroke-width:4px;stroke-linejoin:round}.chart .inside{fill:var(--inside);font-weight:600}
.chart .event{stroke:var(--bad);stroke-opacity:.6;stroke-dasharray:3 4;fill:none}
.chart .cross{stroke:var(--bad);stroke-width:1.6;fill:none}.chart text.bad{fill:var(--bad)}.chart .marker{fill:var(--ink)}
.chart .roof{fill:none;stroke:var(--soft);stroke-width:1.4;stroke-linejoin:round}.chart .frame{fill:none;stroke:var(--line)}.chart .cell{stroke:var(--s0);stroke-width:1;fill:none;shape-rendering:crispEdges}.chart .cell.bad{stroke:var(--bad)}
.chart .key{stroke:var(--s0);stroke-width:10;fill:none;shape-rendering:crispEdges}.chart .rule{stroke:var(--soft);stroke-dasharray:3 3;pointer-events:none}
.tip{position:absolute;z-index:9;pointer-events:none;padding:7px 10px;border-radius:6px;background:var(--ink);color:var(--ground);white-space:pre;font:12px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums;box-shadow:0 2px 10px #0003}
)css";
}

// The lines' own path data are read back through the scale, so that values are not stored twice.
std::string_view chart_script() {
  return R"js(
(()=>{
const tip=document.createElement('div');tip.className='tip';tip.hidden=true;tip.setAttribute('aria-hidden','true');document.body.append(tip);
const prefixed=(v,base,units)=>{let u=0;while(Math.abs(v)>=base&&u<units.length-1){v/=base;u++}return +v.toPrecision(4)+' '+units[u]};
const show=(v,unit)=>unit=='bytes'?prefixed(v,1024,['B','KiB','MiB','GiB','TiB']):unit=='count'?prefixed(v,1000,['','k','M','G','T','P']):
  v!=0&&(Math.abs(v)<1e-4||Math.abs(v)>=1e7)?v.toExponential(3):(+v.toPrecision(4)).toLocaleString('en',{maximumFractionDigits:8});
const scale=s=>{const [a,b,p,q,log]=s.split(' '),low=+a,high=+b,from=+p,to=+q;
  return px=>{const t=(px-from)/(to-from);return log?low*Math.pow(high/low,t):low+t*(high-low)}};
const place=(event,text)=>{tip.textContent=text;tip.hidden=false;const w=tip.offsetWidth,page=document.documentElement.clientWidth;
  tip.style.left=Math.max(4,Math.min(event.pageX+16,scrollX+page-w-8))+'px';tip.style.top=event.pageY+16+'px'};
const at=(svg,event)=>new DOMPoint(event.clientX,event.clientY).matrixTransform(svg.getScreenCTM().inverse());
for(const svg of document.querySelectorAll('svg.lines')){
  let lines,rule;const x=scale(svg.dataset.x),y=scale(svg.dataset.y),from=+svg.dataset.x.split(' ')[2],to=+svg.dataset.x.split(' ')[3];
  const hide=()=>{tip.hidden=true;if(rule)rule.remove();rule=null};
  svg.addEventListener('pointerleave',hide);
  svg.addEventListener('pointermove',event=>{
    lines=lines||[...svg.querySelectorAll('path[data-name]')].map(p=>({name:p.dataset.name,points:[...p.getAttribute('d').matchAll(/[ML]([-\d.]+),([-\d.]+)/g)].map(m=>[+m[1],+m[2]])}));
    const px=at(svg,event).x;if(px<from-8||px>to+8)return hide();
    const near=lines.map(l=>l.points.reduce((a,b)=>!a||Math.abs(b[0]-px)<Math.abs(a[0]-px)?b:a,null));
    const first=near.reduce((a,b)=>b&&(!a||Math.abs(b[0]-px)<Math.abs(a[0]-px))?b:a,null);if(!first)return;
    if(!rule){rule=document.createElementNS(svg.namespaceURI,'path');rule.setAttribute('class','rule');svg.append(rule)}
    rule.setAttribute('d','M'+first[0]+','+svg.dataset.y.split(' ')[2]+'V'+svg.dataset.y.split(' ')[3]);
    place(event,(svg.dataset.label||'x')+' '+show(x(first[0]),'number')+lines.map((l,i)=>near[i]?'\n'+(l.name?l.name+'  ':'')+show(y(near[i][1]),svg.dataset.unit)+(Math.abs(near[i][0]-first[0])<3?'':'  at '+show(x(near[i][0]),'number')):'').join(''));
  });
}
for(const svg of document.querySelectorAll('svg.heat')){
  const [columns,rows,left,top,cell]=svg.dataset.grid.split(' ').map(Number),label=(group,i,n)=>{const t=svg.querySelectorAll('.'+group+' text');return t.length==n?t[i].textContent:'#'+i};
  svg.addEventListener('pointerleave',()=>tip.hidden=true);
  svg.addEventListener('pointermove',event=>{
    const p=at(svg,event),c=Math.floor((p.x-left)/cell),r=Math.floor((p.y-top)/cell);
    if(c<0||r<0||c>=columns||r>=rows){tip.hidden=true;return}
    const byte=parseInt(svg.dataset.cells.substr(2*(r*columns+c),2),16);
    place(event,label('rows',r,rows)+' → '+label('columns',c,columns)+'  '+(byte==255?'not a number':(byte/254).toFixed(2)));
  });
}
})();
)js";
}

}  // namespace lithe::report
