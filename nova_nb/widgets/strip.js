// The timeline strip: stacked tokens by category over the steps, on a canvas. Knows sizes; knows nothing of rows.

import { amount } from "./frame.js";

const MARKS = { compaction: ["◆", "compaction"], spill: ["◫", "result written to a file"], failure: ["!", "failure"] };
const BAND = 14; // pixels above the bars for marks
const WIDEST = 34; // pixels of a step

export class Strip {
  constructor(canvas, tip, pick) {
    Object.assign(this, { canvas, tip, at: 1 });
    const step = (event) => {
      const box = canvas.getBoundingClientRect();
      return Math.min(this.n, Math.max(1, Math.ceil((event.clientX - box.left) / this.slot)));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pick(step(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) pick(step(event));
      this.hover(step(event));
    });
    canvas.addEventListener("pointerleave", () => (tip.textContent = this.idle));
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(canvas);
  }

  set(store, at) {
    this.store = store;
    this.at = at;
    this.n = store.last;
    this.draw();
  }

  hover(s) {
    const { store } = this, step = store.step(s), names = store.head.categories;
    const parts = step.parts.map((n, i) => [n, names[i]]).filter(([n]) => n).sort((a, b) => b[0] - a[0]);
    const marks = store.marks.filter((m) => m[0] === s).map((m) => `${MARKS[m[1]][0]} ${MARKS[m[1]][1]}`);
    const name = s === store.last ? "next request" : `step ${s}${step.kind === "main" ? "" : ` (${step.kind})`}`;
    const total = `${amount(step.total)} tokens ${step.recorded ? "recorded" : "estimated"}`;
    this.tip.textContent = [`${name}: ${total}`, parts.slice(0, 5).map(([n, c]) => `${c} ${amount(n)}`).join(", "), ...new Set(marks)].join(" · ");
  }

  draw() {
    const { canvas, store } = this;
    if (!store || !canvas.clientWidth) return;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const g = canvas.getContext("2d"), css = getComputedStyle(canvas);
    const colour = (name) => css.getPropertyValue(`--n-${name}`).trim() || "#888";
    g.scale(ratio, ratio);
    const { total, parts, kind } = store.t.steps, { window: full, soft, hard } = store.head;
    const most = Math.max(1, ...bucket(total, width));
    const top = full && full < most * 4 ? Math.max(full, most) * 1.04 : most * 1.08;
    const y = (tokens) => height - ((height - BAND) * tokens) / top;
    const slot = (this.slot = Math.min(width / this.n, WIDEST)), bar = Math.max(1, slot - (slot > 4 ? 1 : 0));
    const stride = Math.max(1, Math.floor(1 / slot));
    const palette = store.head.categories.map(colour);
    for (let s = 0; s < this.n; s += stride) {
      let sum = 0;
      g.globalAlpha = kind[s] === "main" ? 1 : kind[s] === "next" ? 0.55 : 0.35;
      for (let c = 0; c < palette.length; c++) {
        const tokens = parts[s][c];
        if (!tokens) continue;
        g.fillStyle = palette[c];
        g.fillRect(s * slot, y(sum + tokens), Math.max(bar, stride * slot), Math.max(0.5, y(sum) - y(sum + tokens)));
        sum += tokens;
      }
    }
    g.globalAlpha = 1;
    g.font = "10px " + css.fontFamily;
    for (const [tokens, dash, name] of [[full, [], "window"], [soft, [2, 3], "soft"], [hard, [6, 3], "hard"]]) {
      if (!tokens || tokens > top) continue;
      g.strokeStyle = g.fillStyle = colour("fg2");
      g.setLineDash(dash);
      g.beginPath();
      g.moveTo(0, y(tokens));
      g.lineTo(width, y(tokens));
      g.stroke();
      g.textAlign = "right";
      g.fillText(`${name} ${amount(tokens)}`, width - { window: 4, hard: 82, soft: 148 }[name], y(tokens) - 2);
    }
    g.setLineDash([]);
    g.textAlign = "center";
    g.fillStyle = colour("fg");
    const signs = new Map(); // steps that share a slot share a place
    for (const [s, what] of store.marks) {
      const x = Math.round(((s - 0.5) * slot) / 9) * 9;
      signs.set(x, (signs.get(x) || new Set()).add(MARKS[what][0]));
    }
    for (const [x, some] of signs) g.fillText([...some].join(""), Math.max(5, Math.min(width - 5, x)), 10);
    g.strokeStyle = colour("accent");
    g.lineWidth = 2;
    g.strokeRect((this.at - 1) * slot, 1, Math.max(3, slot), height - 2);
    this.idle = full && full > top ? `window ${amount(full)} is far above` : "";
  }
}

function bucket(values, width) {
  if (values.length <= width) return values;
  const out = [];
  for (let i = 0; i < values.length; i += 512) out.push(Math.max(...values.slice(i, i + 512)));
  return out;
}
