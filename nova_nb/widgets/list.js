// A list of any length that draws only the rows in sight. Knows rows of one height; knows nothing of their content.

export const h = (tag, cls, text) => {
  const el = document.createElement(tag);
  if (cls) el.className = cls;
  if (text !== undefined) el.textContent = text;
  return el;
};

let serial = 0;

export class List {
  // draw(i, el) fills row i; pick(i) is called when a person selects it.
  constructor({ label, rowHeight, draw, pick }) {
    Object.assign(this, { rowHeight, draw, pick, count: 0, selected: -1, prefix: `nova${++serial}-` });
    this.el = h("div", "nova-list");
    this.el.tabIndex = 0;
    this.el.setAttribute("role", "listbox");
    this.el.setAttribute("aria-label", label);
    this.pad = h("div", "nova-pad");
    this.el.append(this.pad);
    this.top = this.height = 0; // kept here: asking the element would lay the page out again each time
    this.el.addEventListener("scroll", () => {
      this.top = this.el.scrollTop;
      this.paint();
    }, { passive: true });
    this.pad.addEventListener("click", (event) => {
      const row = event.target.closest("[data-i]");
      if (row) this.pick(+row.dataset.i);
    });
    this.sizes = new ResizeObserver(() => {
      this.height = this.el.clientHeight;
      this.el.scrollTop = this.top; // a place that was asked for before the element had a size was not taken
      this.paint();
    });
    this.sizes.observe(this.el);
  }

  set(count, selected = -1) {
    this.count = count;
    this.selected = selected;
    this.pad.style.height = count * this.rowHeight + "px";
    this.paint();
  }

  paint() {
    const { rowHeight: height, count } = this;
    const top = Math.max(0, Math.min(this.top, count * height - this.height));
    const first = Math.max(0, Math.floor(top / height) - 4);
    const end = Math.min(count, Math.ceil((top + this.height) / height) + 4);
    const rows = [];
    for (let i = first; i < end; i++) {
      const row = h("div", "nova-row");
      row.dataset.i = i;
      row.id = this.prefix + i;
      row.style.top = i * height + "px";
      row.style.height = height + "px";
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", count);
      row.setAttribute("aria-posinset", i + 1);
      row.setAttribute("aria-selected", i === this.selected);
      this.draw(i, row);
      rows.push(row);
    }
    this.pad.replaceChildren(...rows);
    if (this.selected >= first && this.selected < end) this.el.setAttribute("aria-activedescendant", this.prefix + this.selected);
    else this.el.removeAttribute("aria-activedescendant");
  }

  // Bring row i into sight; if it is out of it, to `part` of the height (0 top, 1 bottom), else as near as it comes.
  // `margin` rows around it are to be in sight too.
  show(i, part, margin = 0) {
    if (i < 0) return;
    const { rowHeight, height } = this, at = i * rowHeight, room = margin * rowHeight;
    if (at - room >= this.top && at + rowHeight + room <= this.top + height) return;
    const near = part === undefined && Math.abs(at - this.top) < height * 1.5;
    const want = near ? (at < this.top ? at : at + rowHeight - height) : at - (height - rowHeight) * (part ?? 0.5);
    this.top = Math.max(0, Math.min(want, this.count * rowHeight - height));
    this.el.scrollTop = this.top;
    this.paint();
  }
}
