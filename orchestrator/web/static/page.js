"use strict";
(() => {
  document.documentElement.classList.add("script");
  // The page of a one-time link: only one that a person sees is sent, not one loaded ahead.
  const entry = document.getElementById("sign-in");
  const enter = () => document.visibilityState === "visible" && entry.submit();
  if (entry) {
    addEventListener("load", enter);
    document.addEventListener("visibilitychange", enter);
  }
  const events = document.querySelector('meta[name="events"]');
  const live = () => document.querySelector("[data-live]");
  const typing = () => {
    const at = document.activeElement;
    const region = live();
    return region !== null && region.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
  };
  const opened = (region) => [...region.querySelectorAll("details")].map((one) => one.open);
  const state = document.getElementById("live-state");
  let busy = false;
  let again = false;
  // A document from a request runs no script, and needs no text to be made into HTML.
  const refresh = () => {
    if (busy || typing()) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    const request = new XMLHttpRequest();
    request.responseType = "document";
    request.open("GET", location.href);
    request.onloadend = () => {
      busy = false;
      const fresh = request.status === 200 && request.response.querySelector("[data-live]");
      const old = live();
      if (fresh && old && !typing()) {
        const id = document.activeElement && document.activeElement.id;
        const unfolded = opened(old);
        const node = document.adoptNode(fresh);
        node.querySelectorAll("details").forEach((one, at) => (one.open = unfolded[at] ?? one.open));
        const chosen = [...old.querySelectorAll("input:checked")].map((one) => one.value);
        node.querySelectorAll("input[type=checkbox]").forEach((one) => {
          if (chosen.includes(one.value)) one.checked = true;
        });
        old.replaceWith(node);
        if (id) document.getElementById(id)?.focus({ preventScroll: true });
      }
      if (again) refresh();
    };
    request.send();
  };
  if (events && live()) {
    const source = new EventSource(events.content);
    source.addEventListener("changed", refresh);
    source.addEventListener("open", () => state && (state.textContent = "Live"));
    source.addEventListener("error", () => state && (state.textContent = "Not connected"));
    document.addEventListener("focusout", () => again && setTimeout(refresh, 0));
  }
  // Drag over the drawing of a run to zoom.
  const drawing = document.querySelector("#drawing .lanes");
  if (drawing) {
    const [start, end] = [Number(drawing.dataset.start), Number(drawing.dataset.end)];
    let from = null;
    const share = (event, svg) => {
      const box = svg.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    };
    let svg = null;
    let band = null;
    drawing.addEventListener("pointerdown", (event) => {
      svg = event.target.closest("svg");
      if (!svg || event.button !== 0) return;
      event.preventDefault();
      from = share(event, svg);
      band = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      band.setAttribute("class", "drag");
      band.setAttribute("height", "100%");
    });
    addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = share(event, svg);
      if (Math.abs(to - from) > 0.01 && !band.isConnected) svg.append(band);
      band.setAttribute("x", `${100 * Math.min(from, to)}%`);
      band.setAttribute("width", `${100 * Math.abs(to - from)}%`);
    });
    addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = share(event, svg);
      const [left, right] = [Math.min(from, to), Math.max(from, to)];
      const moved = band.isConnected;
      band.remove();
      from = null;
      if (moved) {
        const at = (part) => (start + part * (end - start)).toFixed(3);
        location.search = `?from=${at(left)}&to=${at(right)}`;
        addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
      }
    });
  }
})();
