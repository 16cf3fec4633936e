// Search runs in a Worker, which browsers refuse to a page that was opened from a disk. A frame stands in for it there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((done) => {
        document.addEventListener("DOMContentLoaded", () => {
          document.body.append(frame);
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const code = inside.document.createElement("script");
          code.src = script;
          code.onload = () => done(inside);
          inside.document.body.append(code);
        });
      });
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
