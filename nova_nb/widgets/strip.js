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
    this.sizes = new ResizeObserver(() => this.restyle());
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

  // Colours or size changed: draw all again. Asking the page for either lays it out, so it is done only here.
  restyle() {
    this.seq = -1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.draw();
  }

  draw() {
    const { canvas, store, width, height } = this;
    if (!store || !width) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.seq !== store.seq) {
      this.seq = store.seq;
      const css = getComputedStyle(canvas), colour = (name) => css.getPropertyValue(`--n-${name}`).trim() || "#888";
      this.picture = document.createElement("canvas");
      for (const c of [canvas, this.picture]) Object.assign(c, { width: width * ratio, height: height * ratio });
      const g = this.picture.getContext("2d");
      g.scale(ratio, ratio);
      this.accent = colour("accent");
      this.bars(g, width, height, colour);
      this.marks(g, width, height, colour, css.fontFamily);
    }
    const g = canvas.getContext("2d");
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, canvas.width, canvas.height);
    g.drawImage(this.picture, 0, 0);
    g.scale(ratio, ratio);
    g.strokeStyle = this.accent;
    g.lineWidth = 2;
    g.strokeRect((this.at - 1) * this.slot, 1, Math.max(3, this.slot), height - 2);
  }

  bars(g, width, height, colour) {
    const { total, parts, kind } = this.store.t.steps, full = this.store.head.window;
    const most = total.reduce((a, b) => Math.max(a, b), 1);
    this.most = full && full < most * 4 ? Math.max(full, most) * 1.04 : most * 1.08;
    this.y = (tokens) => height - ((height - BAND) * tokens) / this.most;
    this.slot = Math.min(width / this.n, WIDEST);
    const { slot, y } = this, gap = slot > 4 ? 1 : 0, palette = this.store.head.categories.map(colour);
    const group = Math.max(1, Math.ceil(1 / slot)); // steps a pixel; the largest of them is drawn
    for (let first = 0; first < this.n; first += group) {
      let s = first, sum = 0;
      for (let i = first + 1; i < Math.min(first + group, this.n); i++) if (total[i] > total[s]) s = i;
      const x = slot < 4 ? Math.floor(first * slot) : first * slot, wide = Math.max(1, Math.ceil(group * slot) - gap);
      g.globalAlpha = kind[s] === "main" ? 1 : kind[s] === "next" ? 0.55 : 0.35;
      for (let c = 0; c < palette.length; c++) {
        const tokens = parts[s][c];
        if (!tokens) continue;
        g.fillStyle = palette[c];
        g.fillRect(x, y(sum + tokens), wide, Math.max(0.5, y(sum) - y(sum + tokens)));
        sum += tokens;
      }
    }
    g.globalAlpha = 1;
  }

  marks(g, width, height, colour, font) {
    const { store, slot, y } = this, { window: full, soft, hard } = store.head;
    g.font = "10px " + font;
    g.textAlign = "right";
    for (const [tokens, dash, name] of [[full, [], "window"], [soft, [2, 3], "soft"], [hard, [6, 3], "hard"]]) {
      if (!tokens || tokens > this.most) continue;
      const at = width - { window: 6, hard: 88, soft: 160 }[name], text = `${name} ${amount(tokens)}`;
      g.strokeStyle = g.fillStyle = colour("fg2");
      g.lineWidth = 1;
      g.setLineDash(dash);
      g.beginPath();
      g.moveTo(0, y(tokens));
      g.lineTo(width, y(tokens));
      g.stroke();
      g.setLineDash([]);
      g.lineWidth = 4; // a halo, so that the words read over bars and lines
      g.strokeStyle = colour("bg");
      g.strokeText(text, at, y(tokens) + 3);
      g.fillText(text, at, y(tokens) + 3);
    }
    g.textAlign = "center";
    g.fillStyle = colour("fg");
    const signs = new Map(); // steps that share a slot share a place
    for (const [s, what] of store.marks) {
      const x = Math.round(((s - 0.5) * slot) / 9) * 9;
      signs.set(x, (signs.get(x) || new Set()).add(MARKS[what][0]));
    }
    for (const [x, some] of signs) g.fillText([...some].join(""), Math.max(5, Math.min(width - 5, x)), 10);
    this.idle = full && full > this.most ? `the window, ${amount(full)}, is far above` : "";
    this.tip.textContent = this.idle;
  }
}
