// The session explorer: three linked panes, a step slider, a timeline strip.
// Knows selection, steps and keys. All text enters the page through textContent.
// `mount(el, channel)` serves the notebook and the page on disk; a channel has
//   frame: the first frame or null, listen(fn) for messages, send(message), select(selection), kernel: bool

import { Store, STATES, amount } from "./frame.js";
import { h } from "./list.js";
import { Strip } from "./strip.js";
import { HistoryPane, RequestPane, ChainPane, CATEGORY, phrase } from "./panes.js";

const COUNTS = [
  ["on_disk", "on disk", "Conversation records in the file, each once."],
  ["reachable", "reachable", "On the active branch from the leaf, before a boundary cuts it."],
  ["in_request", "in request", "Conversation records that this step's request carries."],
  ["shown", "shown", "What the agent's own screen would show."],
];
const PLAY_MS = 450, TEXT_MORE = 20000;

export class Explorer {
  constructor(el, channel) {
    Object.assign(this, { el, channel, store: new Store(), step: 1, follow: true, sel: { row: -1 }, hits: new Set(), base: "before", open: false });
    el.classList.add("nova");
    el.setAttribute("role", "group");
    el.setAttribute("aria-label", "Session explorer");
    el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's own keys stay out while this has the focus
    this.build();
    el.addEventListener("keydown", (event) => this.key(event));
    this.unlisten = channel.listen((message, buffer) => this.hear(message, buffer));
    this.theme = new MutationObserver(() => this.strip.restyle());
    this.theme.observe(document.body, { attributes: true });
    if (channel.frame) this.take(channel.frame);
    channel.send({ type: "ready", seq: this.store.seq });
  }

  dispose() {
    clearInterval(this.playing);
    this.theme.disconnect();
    this.unlisten();
  }

  build() {
    const button = (text, label, act) => {
      const b = h("button", "nova-btn", text);
      b.type = "button";
      b.title = label;
      b.setAttribute("aria-label", label);
      b.addEventListener("click", act);
      return b;
    };
    this.title = h("div", "nova-title");
    this.slider = h("input", "nova-slider");
    Object.assign(this.slider, { type: "range", min: 1, max: 1, step: 1 });
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => this.go(+this.slider.value));
    this.where = h("output", "nova-where");
    this.play = button("▶", "Play the steps", () => this.toggle());
    this.bases = h("select", "nova-select");
    this.bases.title = "What the request is compared with";
    this.bases.setAttribute("aria-label", "Compare with");
    this.bases.addEventListener("change", () => { this.base = this.bases.value === "before" ? "before" : +this.bases.value; this.render(); });
    this.live = h("span", "nova-live", "● live");
    this.live.title = "Rows appear while the agent works.";
    const controls = h("div", "nova-controls");
    controls.append(h("span", "nova-dim", "step"), button("◂", "Step back (←)", () => this.go(this.step - 1)), this.slider,
      button("▸", "Step forward (→)", () => this.go(this.step + 1)), this.where, this.play, h("span", "nova-dim", "diff with"), this.bases, this.live);
    const head = h("div", "nova-head");
    head.append(this.title, controls);

    this.counts = h("div", "nova-counts");
    this.bars = COUNTS.map(([key, label, why]) => {
      const box = h("div", "nova-count"), number = h("b", "nova-n"), track = h("span", "nova-track"), fill = h("span", "nova-trackfill");
      box.title = why;
      track.append(fill);
      box.append(h("span", "nova-dim", label), number, track);
      this.counts.append(box);
      return [key, number, fill];
    });
    this.finding = button("", "What is wrong with this session", () => this.report.classList.toggle("nova-hidden"));
    this.finding.classList.add("nova-findings", "nova-hidden");
    this.counts.append(this.finding);
    this.report = h("div", "nova-report nova-hidden");

    this.search = h("input", "nova-search");
    Object.assign(this.search, { type: "search", placeholder: this.channel.kernel ? "trace a text: its fate, step by step  ( / )" : "find a text  ( / )" });
    this.search.setAttribute("aria-label", "Trace a text");
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.seek(this.search.value); });
    this.search.addEventListener("search", () => { if (!this.search.value) this.seek(""); });
    this.fate = h("div", "nova-fate");
    const trace = h("div", "nova-trace");
    trace.append(this.search, this.fate);

    this.panes = { history: new HistoryPane(this), request: new RequestPane(this), chain: new ChainPane(this) };
    const grid = h("div", "nova-panes");
    this.tops = {};
    for (const [name, label, why] of [["history", "Interactive history", "Everything a person saw, oldest first; each row says how the model sees it at this step."],
      ["request", "Request projection", "What the model is sent at this step, block by block."],
      ["chain", "Logical chain", "Where the next step continues from: newest first, branches beside the active path."]]) {
      const pane = h("section", `nova-pane nova-pane-${name}`), top = h("header", "nova-top"), note = h("span", "nova-topnote");
      top.title = why;
      top.append(h("span", "nova-toplabel", label), note);
      this.tops[name] = note;
      pane.append(top, this.panes[name].list.el);
      grid.append(pane);
    }
    this.tops.history.replaceWith((this.filter = h("button", "nova-link")));
    this.filter.type = "button";
    this.filter.title = "Show the conversation, or every record of the log";
    this.filter.addEventListener("click", () => { this.panes.history.all = !this.panes.history.all; this.render(); });

    this.detail = h("section", "nova-detail nova-hidden");
    this.detail.setAttribute("aria-label", "Selected row");
    this.detailHead = h("header", "nova-dtop");
    this.detailText = h("pre", "nova-pre");
    this.detailText.tabIndex = 0;
    this.detail.append(this.detailHead, this.detailText);

    const canvas = h("canvas", "nova-canvas"), tip = h("span", "nova-tip"), time = h("section", "nova-time"), top = h("header", "nova-top");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Tokens by category over the steps; the step slider does the same");
    top.append(h("span", "nova-toplabel", "Timeline"), tip);
    this.legend = h("div", "nova-legend");
    time.append(top, canvas, this.legend);
    this.strip = new Strip(canvas, tip, (s) => this.go(s));
    this.errors = h("div", "nova-errors nova-hidden");
    this.errors.setAttribute("role", "alert");
    this.empty = h("div", "nova-empty", "Nothing has happened yet. Rows appear here when the session begins.");
    this.el.append(head, this.counts, this.report, trace, grid, this.empty, this.detail, time, this.errors);
    Object.assign(this, { grid, time });
  }

  // --- what comes in
  take(frame) {
    const first = !this.store.seq, atEnd = first || (this.follow && this.step >= this.store.last);
    if (!this.store.apply(frame)) return this.channel.send({ type: "resync" });
    if (atEnd) this.step = this.store.last;
    this.step = Math.min(this.step, this.store.last);
    this.render();
    if (atEnd) this.panes.history.list.show(this.panes.history.rows.length - 1);
    if (first) this.channel.send({ type: "shown" });
  }

  hear(message, buffer) {
    if (message.type === "frame") this.take(JSON.parse(new TextDecoder().decode(buffer)));
    else if (message.type === "text" && message.row === this.sel.row) this.fill(message.text, message.more);
    else if (message.type === "trace") this.showTrace(message);
    else if (message.type === "diagnosis") this.showDiagnosis(message);
    else if (message.type === "select") this.select(message.row);
    else if (message.type === "step") this.go(message.step);
    else if (message.type === "error") {
      this.errors.classList.remove("nova-hidden");
      this.errors.textContent = message.text;
    }
  }

  // --- what a person does
  against() { return this.base === "before" ? this.store.before(this.step) : this.base; }

  go(s, play = false) {
    if (!play) this.stop();
    s = Math.max(1, Math.min(this.store.last, s));
    if (s === this.step) return;
    this.step = s;
    this.follow = s === this.store.last;
    this.render();
    // what the step adds comes into sight in all three: the newest row, the first difference, the head
    const { history, request, chain } = this.panes, row = this.store.view(s).head;
    history.list.show(history.at(row), 0.6, 2);
    chain.list.show(chain.at(row), 0.35, 2);
    const selected = request.at(this.sel), change = request.entries.findIndex((e) => e.line && !e.note);
    request.list.show(selected >= 0 ? selected : change, 0.5, 1);
    this.tell();
  }

  select(row, piece) {
    this.sel = { row, piece };
    this.panes.history.refresh();
    for (const pane of Object.values(this.panes)) {
      pane.paint();
      pane.list.show(pane.at(pane === this.panes.request ? this.sel : row));
    }
    this.open = true;
    this.showDetail();
    this.tell();
  }

  tell() { this.channel.select({ step: this.step > this.store.last - 1 ? null : this.step, row: this.sel.row }); }

  toggle() {
    if (this.playing) return this.stop();
    if (this.step >= this.store.last) { this.step = 0; this.go(1, true); }
    this.play.textContent = "❚❚";
    this.playing = setInterval(() => (this.step >= this.store.last ? this.stop() : this.go(this.step + 1, true)), PLAY_MS);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    this.play.textContent = "▶";
  }

  key(event) {
    const typing = event.target === this.search || event.target === this.bases;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !typing) this.search.focus();
    else if (event.key === "Escape" && typing) this.panes.history.list.el.focus();
    else if (typing || event.target === this.detailText) return;
    else if (event.key === "ArrowLeft") this.go(this.step - 1);
    else if (event.key === "ArrowRight") this.go(this.step + 1);
    else if (["ArrowUp", "ArrowDown", "j", "k", "Home", "End"].includes(event.key)) {
      if (event.target === this.slider) return;
      this.move(event.key);
    } else if (event.key === "Enter" && event.target.classList.contains("nova-list")) {
      this.open = !this.open;
      this.showDetail();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(key) {
    const pane = Object.values(this.panes).find((p) => p.list.el === document.activeElement) || this.panes.history;
    const { count, selected } = pane.list, request = pane === this.panes.request;
    const by = key === "ArrowUp" || key === "k" ? -1 : 1;
    let i = key === "Home" ? 0 : key === "End" ? count - 1 : selected < 0 ? (by > 0 ? 0 : count - 1) : selected + by;
    const row = (at) => (request ? pane.entries[at].row ?? -1 : pane === this.panes.chain ? pane.nodes[at] : pane.rows[at]);
    while (i >= 0 && i < count && row(i) < 0) i += key === "End" ? -1 : key === "Home" ? 1 : by;
    if (i >= 0 && i < count) this.select(row(i), request ? pane.entries[i].piece : undefined);
  }

  seek(text) {
    this.hits = new Set();
    this.fate.replaceChildren();
    if (text) {
      const needle = text.toLowerCase(), { head, row } = this.store.t.blocks;
      for (let b = 0; b < head.length; b++) if ((this.channel.texts?.[row[b]] || head[b]).toLowerCase().includes(needle)) this.hits.add(row[b]);
      if (this.channel.kernel) this.channel.send({ type: "trace", text });
      else this.showTrace({});
    }
    this.render();
  }

  // --- what a person sees
  render() {
    const { store, step } = this, { head } = store, last = store.last;
    const blank = !store.rowCount || !store.t.rows.main.includes(1);
    this.empty.classList.toggle("nova-hidden", !blank);
    for (const part of [this.grid, this.time]) part.classList.toggle("nova-hidden", blank);
    if (!last) return;
    const view = store.view(step);
    this.title.replaceChildren(h("b", "", head.title || head.name), h("span", "nova-dim", ` ${head.format}${head.version ? " " + head.version : ""} · ${head.records.toLocaleString("en")} record${head.records === 1 ? "" : "s"}`));
    if (head.damage.length) {
      const hurt = h("span", "nova-damage", ` ! ${head.damage.length} damaged line${head.damage.length > 1 ? "s" : ""}`);
      hurt.title = head.damage.map((d) => d[2]).join("\n");
      this.title.append(hurt);
    }
    this.title.title = `${head.session}\nThe next step continues from line ${head.leaf.line} (${head.leaf.policy}).`;
    Object.assign(this.slider, { max: last, value: step });
    this.slider.setAttribute("aria-valuetext", step === last ? "next request" : `step ${step} of ${last - 1}`);
    this.where.textContent = step === last ? (last > 1 ? `next, after ${last - 1}` : "next") : `${step} / ${last - 1}${view.kind === "main" ? "" : " " + view.kind}`;
    this.where.title = step === last ? "What the next request would carry" : `Model call ${step} of ${last - 1}${view.model ? ", " + view.model : ""}, ${view.basis}`;
    const options = [["before", "step before"], [1, "step 1"], [step, `this (${step === last ? "next" : step})`]];
    if (typeof this.base === "number" && this.base > 1 && this.base !== step) options.splice(2, 0, [this.base, this.base === last ? "next" : `step ${this.base}`]);
    this.bases.replaceChildren(...options.map(([value, text]) => { const o = h("option", "", text); o.value = value; o.selected = String(value) === String(this.base); return o; }));
    this.live.classList.toggle("nova-hidden", !head.live);
    const counts = { ...store.counts };
    if (step !== last) counts.in_request = store.inRequest(step);
    const most = Math.max(1, ...Object.values(counts).map((n) => n || 0));
    for (const [key, number, fill] of this.bars) {
      number.textContent = counts[key]?.toLocaleString("en") ?? "?";
      fill.style.width = (100 * (counts[key] || 0)) / most + "%";
    }
    for (const pane of Object.values(this.panes)) pane.refresh();
    this.filter.textContent = this.panes.history.all ? `all ${store.rowCount.toLocaleString("en")} records` : `${this.panes.history.rows.length.toLocaleString("en")} rows`;
    const total = view.total, share = head.window ? ` of ${amount(head.window)}` : "";
    const cached = view.usage && view.usage[1] ? ` · ${amount(view.usage[1])} cached` : "";
    this.tops.request.textContent = `${amount(total)}${share}${cached}`;
    this.tops.request.title = `${total.toLocaleString("en")} tokens, ${view.recorded ? "recorded by the provider" : "estimated"}; the tokens of each block are estimates (characters / 3.5, scaled to what was recorded).`;
    const kinds = {};
    for (const { kind } of store.lines) kinds[kind] = (kinds[kind] || 0) + 1;
    this.tops.chain.textContent = ["branch", "island", "sidechain"].filter((k) => kinds[k]).map((k) => `${kinds[k]} ${kinds[k] > 1 ? (k === "branch" ? "branches" : k + "s") : k}`).join(", ");
    this.strip.set(store, step);
    if (this.legendSeq !== store.seq) {
      this.legendSeq = store.seq;
      const used = head.categories.filter((_, i) => store.t.steps.parts.some((p) => p[i]));
      this.legend.replaceChildren(...used.map((name) => { const item = h("span", "nova-key"); item.title = CATEGORY[name]; item.append(h("span", `nova-swatch nova-b-${name}`), name); return item; }));
    }
    this.showDetail();
  }

  showDetail() {
    const { row } = this.sel, shown = this.open && row >= 0 && row < this.store.rowCount;
    this.detail.classList.toggle("nova-hidden", !shown);
    if (!shown) return;
    const { rows, blocks } = this.store.t, [state, reason] = this.store.rowState(row, this.step), [glyph] = STATES[state] || STATES.other;
    const close = h("button", "nova-btn nova-close", "×");
    close.type = "button";
    close.title = "Close (Enter)";
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => { this.open = false; this.showDetail(); });
    const pair = blocks.pair.slice(rows.first[row], rows.first[row] + rows.count[row]).find((b) => b >= 0);
    const parts = [h("b", "", `line ${rows.line[row]}`), h("span", `nova-who nova-who-${rows.who[row]}`, rows.who[row]), h("span", "", `${glyph} ${phrase(state, reason)}`), h("span", "nova-dim", rows.id[row])];
    if (pair !== undefined) {
      const other = h("button", "nova-link", `${blocks.cat[pair] === "call" ? "call" : "result"} at line ${rows.line[blocks.row[pair]]}`);
      other.type = "button";
      other.addEventListener("click", () => this.select(blocks.row[pair]));
      parts.push(other);
    }
    this.detailHead.replaceChildren(...parts, close);
    if (this.detail.dataset.row === String(row) && this.detail.dataset.seq === String(this.store.seq)) return;
    const same = this.detail.dataset.row === String(row);
    Object.assign(this.detail.dataset, { row, seq: this.store.seq });
    if (same) return;
    const full = this.channel.texts?.[row];
    let heads = "";
    for (let b = rows.first[row]; b < rows.first[row] + rows.count[row]; b++) heads += (heads ? "\n\n" : "") + blocks.head[b];
    this.fill(full ?? heads);
    if (this.channel.kernel) this.channel.send({ type: "text", row, limit: TEXT_MORE });
  }

  fill(text, more = 0) {
    this.detailText.textContent = text;
    if (!more) return;
    const button = h("button", "nova-link", `\nshow ${amount(more)} more characters`);
    button.type = "button";
    button.addEventListener("click", () => this.channel.send({ type: "text", row: this.sel.row, limit: text.length + more }));
    this.detailText.append(button);
  }

  showTrace({ steps, turns, note }) {
    const hits = [...this.hits].sort((a, b) => a - b), out = [];
    if (steps) {
      const spark = h("span", "nova-spark");
      const size = Math.ceil(steps.length / 160);
      for (let i = 0; i < steps.length; i += size) {
        const some = steps.slice(i, i + size), best = some.find((s) => s.in_request) || some[0];
        const cell = h("button", `nova-cell nova-cell-${best.in_request ? best.state : "out"}`);
        cell.type = "button";
        cell.tabIndex = -1;
        cell.title = `step ${best.step}: ${best.state}`;
        cell.addEventListener("click", () => this.go(best.step));
        spark.append(cell);
      }
      out.push(spark);
      const turn = (turns || []).at(-1);
      if (turn) {
        const told = h("button", "nova-link", `step ${turn.step}: ${turn.message}`);
        told.type = "button";
        told.addEventListener("click", () => { this.go(turn.step); if (turn.row >= 0) this.select(turn.row); });
        out.push(told);
      }
    }
    if (note) out.push(h("span", "nova-dim", note));
    const next = h("button", "nova-link", hits.length ? hits.length === 1 ? "1 row shows it" : `${hits.length} rows show it` : "in no row's first words");
    next.type = "button";
    next.addEventListener("click", () => { const after = hits.find((r) => r > this.sel.row) ?? hits[0]; if (after !== undefined) this.select(after); });
    out.push(next);
    this.fate.replaceChildren(...out);
  }

  showDiagnosis({ verdict, findings }) {
    this.finding.classList.remove("nova-hidden");
    this.finding.textContent = findings.length ? `${findings.length} finding${findings.length > 1 ? "s" : ""} ▾` : verdict;
    this.finding.dataset.verdict = verdict;
    this.report.replaceChildren(...findings.map((f) => {
      const item = h("button", "nova-finding");
      item.type = "button";
      item.append(h("b", "", `${f.role}: ${f.code}`), h("span", "nova-dim", ` ${f.layer}, ${f.certainty} `), h("span", "", f.message), ...(f.remedy ? [h("div", "nova-dim", f.remedy)] : []));
      item.addEventListener("click", () => f.row >= 0 && this.select(f.row));
      return item;
    }));
  }
}

export const mount = (el, channel) => new Explorer(el, channel);
