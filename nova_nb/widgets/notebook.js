// The explorer in a notebook: Jupyter's model as a channel. Knows anywidget; knows nothing of sessions.

import { h } from "./list.js";
import { mount } from "./explorer.js";

const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

export default {
  render({ model, el }) {
    const root = h("div");
    el.append(root);
    // the static form was shown first; while this view is on the page its output hides
    let area = null;
    const attached = new ResizeObserver(() => {
      area = el.closest(".jp-OutputArea");
      area?.classList.add("nova-hide-static");
      if (area) attached.disconnect();
    });
    attached.observe(root);
    const data = model.get("frame");
    const explorer = mount(root, {
      kernel: true,
      frame: data && data.byteLength ? JSON.parse(new TextDecoder().decode(bytes(data))) : null,
      listen(fn) {
        const on = (message, buffers) => fn(message, buffers && buffers[0] && bytes(buffers[0]));
        model.on("msg:custom", on);
        return () => model.off("msg:custom", on);
      },
      send: (message) => model.send(message),
      select(selection) { model.set("selection", selection); model.save_changes(); },
    });
    return () => { attached.disconnect(); explorer.dispose(); area?.classList.remove("nova-hide-static"); };
  },
};
