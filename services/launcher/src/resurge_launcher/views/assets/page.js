"use strict";
(() => {
  const tip = document.getElementById("tip");
  const show = (bar, x, y) => {
    tip.textContent = bar.dataset.tip;
    tip.classList.add("shown");
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  };
  const hide = () => tip.classList.remove("shown");
  for (const bar of document.querySelectorAll(".bar")) {
    bar.addEventListener("mousemove", (event) => show(bar, event.clientX, event.clientY));
    bar.addEventListener("mouseleave", hide);
    bar.addEventListener("focus", () => { const box = bar.getBoundingClientRect(); show(bar, box.left, box.top); });
    bar.addEventListener("blur", hide);
  }
  // the legend lights one phase in all timelines, or all of them again
  const keys = [...document.querySelectorAll(".legend button")];
  for (const key of keys) {
    key.addEventListener("click", () => {
      const on = key.getAttribute("aria-pressed") !== "true";
      for (const other of keys) other.setAttribute("aria-pressed", String(on && other === key));
      if (on) document.body.dataset.only = key.dataset.phase; else delete document.body.dataset.only;
      for (const bar of document.querySelectorAll(".bar")) bar.classList.toggle("lit", bar.dataset.phase === key.dataset.phase);
    });
  }
})();
