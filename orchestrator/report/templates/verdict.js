"use strict";
(() => {
  document.documentElement.classList.add("script");
  const all = [...document.querySelectorAll("article")];
  const text = document.getElementById("search");
  if (!text) return;
  const category = document.getElementById("category");
  const count = document.getElementById("shown");
  const toggles = [...document.querySelectorAll(".bar button[data-severity]")];
  const fresh = document.getElementById("fresh");
  const pressed = (button) => button !== null && button.getAttribute("aria-pressed") === "true";
  const entries = new Map(
    [...document.querySelectorAll("ol.index a")].map((link) => [link.hash, link.closest("li")]),
  );
  const where = document.querySelector(".pager") ? " on this page" : "";
  const noticed = [...document.querySelectorAll("details.noticed")];
  const reveal = (one) => one?.closest("details.noticed")?.setAttribute("open", "");
  const follow = () => {
    const one = document.getElementById(location.hash.slice(1));
    reveal(one);
    if (one) one.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", follow);
  let here = -1;
  const visible = () => all.filter((one) => !one.hidden);
  const apply = () => {
    const words = text.value.trim().toLowerCase();
    const chosen = toggles.filter(pressed).map((button) => button.dataset.severity);
    for (const one of all) {
      one.hidden =
        (chosen.length > 0 && !chosen.includes(one.dataset.severity)) ||
        (category.value !== "" && category.value !== one.dataset.category) ||
        (pressed(fresh) && one.dataset.since === "open") ||
        (words !== "" && !one.textContent.toLowerCase().includes(words));
      const entry = entries.get(`#${one.id}`);
      if (entry) entry.hidden = one.hidden;
    }
    for (const box of noticed) box.hidden = !box.querySelector("article:not([hidden])");
    here = -1;
    count.textContent = `${visible().length} of ${all.length} findings${where}`;
  };
  const go = (step) => {
    const shown = visible();
    if (shown.length === 0) return;
    here = Math.min(Math.max(here + step, 0), shown.length - 1);
    all.forEach((one) => one.classList.toggle("here", one === shown[here]));
    reveal(shown[here]);
    shown[here].focus({ preventScroll: true });
    shown[here].scrollIntoView({ block: "start" });
  };
  for (const button of [...toggles, fresh].filter(Boolean)) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!pressed(button)));
      apply();
    });
  }
  // Only what scrolls is a stop of the Tab key.
  const boxes = [...document.querySelectorAll(".code")];
  const setStops = () => {
    const closed = "details.noticed:not([open])";
    const scrolls = boxes.map((box) => box.closest(closed) || box.scrollWidth > box.clientWidth);
    boxes.forEach((box, number) => (box.tabIndex = scrolls[number] ? 0 : -1));
  };
  const sizes = new ResizeObserver(setStops);
  boxes.forEach((box) => sizes.observe(box)); // also once they begin to be shown
  setStops();
  text.addEventListener("input", apply);
  category.addEventListener("change", apply);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "/") {
      event.preventDefault();
      text.focus();
    }
  });
  apply();
  follow();
})();
