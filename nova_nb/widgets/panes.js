// The three panes: history, request, chain. Know how a row of each is drawn; selection and steps are the explorer's.

import { STATES, amount } from "./frame.js";
import { List, h } from "./list.js";

const WHO = {
  person: "What a person wrote.", model: "What the model answered.", tool: "Results of tools.",
  harness: "Text that the agent's own program put in.", summary: "The summary that a compaction wrote.",
  boundary: "From here on the summary stands for what came before.", failure: "Something did not work and the session went on.",
  note: "A fact worth keeping that changes no state.", branch: "The head moved.",
};
const MARK = { call: "⚙", result: "↩", thinking: "…" };
export const CATEGORY = {
  system: "System prompt.", tools: "Schemas of the tools.", memory: "Instructions and memories from outside the conversation.",
  unlogged: "What the log does not hold: recorded usage less the estimate of what it holds, on the first step.",
  summary: "A compaction's summary.", attachment: "Context built again after a compaction.", reminder: "Put in by the harness.",
  person: "What a person wrote.", model: "Answers of the model.", thinking: "Thinking of the model.", call: "Calls of tools.", result: "Results of tools.",
};

// How the model sees a row, in a few words.
export const phrase = (state, reason) => {
  if (!(state in STATES)) return `not sent (${state})${reason ? ": " + reason : ""}`;
  const word = STATES[state][1];
  if (!reason || state === "whole" || state === "later" || state === "record") return word;
  return reason.startsWith(word) ? reason : `${word}: ${reason}`;
};

export class HistoryPane {
  constructor(ui) {
    this.ui = ui;
    this.all = false;
    this.list = new List({ label: "Interactive history", rowHeight: 38, draw: (i, el) => this.draw(this.rows[i], el), pick: (i) => ui.select(this.rows[i]) });
  }

  refresh() {
    const { store, sel } = this.ui, { main } = store.t.rows;
    this.rows = [];
    for (let i = 0; i < store.rowCount; i++) if (this.all || main[i] || i === sel.row) this.rows.push(i);
    this.paint();
  }

  paint() { this.list.set(this.rows.length, this.at(this.ui.sel.row)); }

  at(row) { // place of a row in the list: the rows ascend
    let lo = 0, hi = this.rows.length;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (this.rows[middle] < row) lo = middle + 1;
      else hi = middle;
    }
    return this.rows[lo] === row ? lo : -1;
  }

  draw(row, el) {
    const { store, step } = this.ui, { rows, blocks } = store.t;
    const [state, reason] = store.rowState(row, step), [glyph, , meaning] = STATES[state] || STATES.other;
    el.classList.add("nova-h", `nova-is-${state}`, `nova-who-${rows.who[row]}`);
    if (this.ui.hits.has(row)) el.classList.add("nova-hit");
    const number = h("span", "nova-num", rows.line[row]);
    number.title = `line ${rows.line[row]} of the file${rows.at[row] ? " · " + rows.at[row] : ""}`;
    const who = h("span", "nova-who", rows.who[row]);
    who.title = WHO[rows.who[row]] || "A record of the log that is no message.";
    const text = h("span", "nova-text");
    let chars = 0;
    for (let b = rows.first[row]; b < rows.first[row] + rows.count[row]; b++) {
      chars += blocks.chars[b];
      const part = h("span", `nova-part nova-c-${blocks.cat[b]}`, `${MARK[blocks.cat[b]] ? MARK[blocks.cat[b]] + " " : ""}${blocks.head[b]} `);
      text.append(part);
    }
    if (!rows.count[row]) text.append(h("span", "nova-part", "(no content)"));
    const size = h("span", "nova-size", amount(chars));
    size.title = `${chars.toLocaleString("en")} characters`;
    const mark = h("span", "nova-glyph", glyph);
    const how = h("span", "nova-state", phrase(state, reason));
    how.title = meaning + (reason ? ` Reason: ${reason}.` : "");
    if (rows.flags[row]) how.append(h("i", "nova-flags", ` ${rows.flags[row]}`));
    el.append(number, who, text, size, mark, how);
  }
}

export class RequestPane {
  constructor(ui) {
    this.ui = ui;
    this.entries = [];
    this.list = new List({ label: "Request projection", rowHeight: 22, draw: (i, el) => this.draw(this.entries[i], el), pick: (i) => {
      const entry = this.entries[i];
      if (entry.row >= 0) ui.select(entry.row, entry.piece);
    } });
  }

  refresh() {
    const { store, step } = this.ui;
    this.entries = store.entries(step, this.ui.against());
    this.most = this.entries.reduce((n, e) => Math.max(n, e.tokens), 1);
    this.paint();
  }

  paint() { this.list.set(this.entries.length, this.at(this.ui.sel)); }

  at({ row, piece }) {
    if (row < 0) return -1;
    const exact = this.entries.findIndex((e) => e.piece !== undefined && e.piece === piece);
    if (exact >= 0) return exact;
    const also = this.ui.store.t.pieces.also;
    return this.entries.findIndex((e) => e.row === row || (e.piece !== undefined && also[e.piece].includes(row)));
  }

  draw(entry, el) {
    if (entry.line !== undefined) {
      el.classList.add("nova-rule");
      if (entry.note) el.classList.add("nova-note");
      el.append(h("span", "", entry.line));
      return;
    }
    el.classList.add("nova-q");
    if (entry.cached) el.classList.add("nova-cached");
    if (entry.row >= 0 && entry.row === this.ui.sel.row) el.classList.add("nova-same");
    const swatch = h("span", `nova-swatch nova-b-${entry.cat}`);
    const cat = h("span", "nova-cat", entry.cat);
    cat.title = CATEGORY[entry.cat] || "";
    const state = entry.state && entry.state !== "whole" ? `${(STATES[entry.state] || STATES.other)[0]} ` : "";
    const text = h("span", "nova-text", state + (entry.head || "(empty)"));
    if (entry.state) text.title = `${STATES[entry.state] ? STATES[entry.state][2] : ""} From line ${this.ui.store.t.rows.line[entry.row] ?? "?"}.`;
    const bar = h("span", "nova-bar");
    const fill = h("span", `nova-fill nova-b-${entry.cat}`);
    fill.style.width = Math.max(2, (100 * entry.tokens) / this.most) + "%";
    bar.append(fill);
    const tokens = h("span", "nova-tok", amount(entry.tokens));
    tokens.title = `about ${entry.tokens.toLocaleString("en")} tokens (an estimate)${entry.cached ? ", read from the prompt cache" : ""}`;
    el.append(h("span", "nova-cachebar"), swatch, cat, text, bar, tokens);
  }
}

const LANE = 11, MAX_LANES = 6;

export class ChainPane {
  constructor(ui) {
    this.ui = ui;
    this.nodes = [];
    this.list = new List({ label: "Logical chain", rowHeight: 22, draw: (i, el) => this.draw(this.nodes[i], el), pick: (i) => ui.select(this.nodes[i]) });
  }

  rebuild() {
    const { store } = this.ui;
    this.lane = new Map();
    this.spans = store.lines.map((line) => {
      const rows = line.rows;
      for (const [first, count] of rows) for (let r = first; r < first + count; r++) this.lane.set(r, line);
      const first = rows.length ? rows[0][0] : -1;
      return { line, lane: Math.min(line.lane, MAX_LANES), lo: line.fork >= 0 && line.fork < first ? line.fork : first, hi: rows.length ? rows[rows.length - 1][0] + rows[rows.length - 1][1] - 1 : -1 };
    });
    this.nodes = [...this.lane.keys()].filter((r) => store.t.rows.main[r] || store.t.rows.who[r] !== "record").sort((a, b) => b - a);
    this.place = new Map(this.nodes.map((r, i) => [r, i]));
    this.width = LANE * (1 + Math.min(MAX_LANES, Math.max(0, ...this.spans.map((s) => s.lane)))) + 6;
  }

  refresh() {
    if (this.seq !== this.ui.store.seq) {
      this.seq = this.ui.store.seq;
      this.rebuild();
    }
    this.paint();
  }

  paint() { this.list.set(this.nodes.length, this.at(this.ui.sel.row)); }

  at(row) { return this.place?.get(row) ?? -1; }

  draw(row, el) {
    const { store, step } = this.ui, { rows, blocks } = store.t, view = store.view(step);
    const line = this.lane.get(row), who = rows.who[row], [state] = store.rowState(row, step);
    el.classList.add("nova-k", `nova-is-${state}`, `nova-who-${who}`);
    el.append(this.graph(row, line, state, who));
    const full = rows.id[row]; // ids that begin with their time differ at the end
    const id = h("span", "nova-id", full.length < 9 ? full : /^[a-z]+_/.test(full) ? "…" + full.slice(-7) : full.slice(0, 8));
    id.title = full;
    const name = h("span", "nova-text", who);
    const words = blocks.head[rows.first[row]];
    if (rows.count[row] && words) name.append(h("span", "nova-dim", ` ${words}`));
    name.title = (STATES[state] || STATES.other)[2];
    const badges = h("span", "nova-badges");
    const badge = (text, why) => { const b = h("span", "nova-badge", text); b.title = why; badges.append(b); };
    if (row === view.head) badge("head", "The newest record in this step's request.");
    if (line.kind !== "path" && row === line.tip) {
      const size = line.rows.reduce((n, r) => n + r[1], 0);
      if (line.kind === "branch") badge(`branch, ${size}`, "The end of a branch that the session no longer continues.");
      else badge(`${line.kind}, ${size}`, line.kind === "island" ? "Nothing leads from here to the active path." : "A subagent's history in the same file.");
    }
    el.append(id, name, badges, h("span", "nova-num", rows.line[row]));
  }

  graph(row, line, state, who) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", this.width);
    svg.setAttribute("height", 22);
    svg.setAttribute("aria-hidden", "true");
    const add = (tag, attributes, cls) => {
      const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
      el.setAttribute("class", cls);
      svg.append(el);
    };
    const x = (lane) => 7 + lane * LANE;
    for (const { line: other, lane, lo, hi } of this.spans) { // newest at the top: a line goes down to older rows
      if (row < lo || row > hi) continue;
      const fork = other.fork >= 0 && row === other.fork && lane > 0;
      if (fork) add("path", { d: `M${x(lane)} 0 Q${x(lane)} 11 ${x(Math.min(MAX_LANES, this.lane.get(row)?.lane ?? 0))} 11` }, "nova-edge");
      else if (row > lo || row < hi) add("path", { d: `M${x(lane)} ${row === hi ? 11 : 0}V${row === lo ? 11 : 22}` }, lane ? "nova-edge" : "nova-edge nova-main");
    }
    const cx = x(Math.min(line.lane, MAX_LANES)), seen = this.ui.store.view(this.ui.step).places.has(row);
    if (who === "boundary") add("rect", { x: cx - 4, y: 7, width: 8, height: 8, transform: `rotate(45 ${cx} 11)` }, "nova-node nova-seen");
    else add("circle", { cx, cy: 11, r: line.kind === "path" ? 4 : 3.5 }, `nova-node ${seen ? "nova-seen" : ""} ${state === "later" ? "nova-later" : ""}`);
    return svg;
  }
}
