"use strict";
/* Keys for the buttons and choices of the form; without this file they are clicked. */
(() => {
  const form = document.getElementById("answers");
  const note = form.elements.namedItem("note");
  const steps = [...form.querySelectorAll("fieldset")];
  let step = 0;
  let sent = false;

  form.addEventListener("submit", () => { sent = true; });

  const go = (to) => {
    step = Math.max(0, Math.min(to, steps.length - 1));
    if (steps.length) steps[step].focus();
  };
  steps.forEach((one, at) => one.addEventListener("focusin", () => { step = at; }));

  const choose = (key) => {
    const choice = [...steps[step].querySelectorAll("input")].find((one) => one.dataset.key === key);
    if (!choice) return false;
    choice.checked = true;
    if (step + 1 < steps.length) go(step + 1);
    else press("Enter");
    return true;
  };

  const press = (key) => {
    const button = [...form.querySelectorAll("button")].find((one) => one.dataset.key === key);
    if (!button || button.disabled) return false;
    if (!sent) form.requestSubmit(button);
    return true;
  };

  const inNote = (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    note.blur();
    go(step);
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (note && event.target === note) return inNote(event);
    // A key that is held down must not label the items that follow.
    if (event.repeat) return event.preventDefault();
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
    if (event.key === "#" && note) note.focus();
    else if (event.key === "ArrowDown" && steps.includes(event.target)) go(step + 1);
    else if (event.key === "ArrowUp" && steps.includes(event.target)) go(step - 1);
    else if (!(steps.length && choose(event.key)) && !press(event.key)) return;
    event.preventDefault();
  });
  go(0);
})();
