"use strict";
// A search is begun with "/" from anywhere, as in other tools; after a swap the new content gets the focus.
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  const field = document.querySelector("input[name=q]");
  if (event.key === "/" && !typing && field) {
    event.preventDefault();
    field.focus();
  }
});
document.addEventListener("htmx:afterSettle", () => {
  const here = location.pathname;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector("main")?.focus({ preventScroll: true });
});
// Messages about what went wrong are pages too.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.getResponseHeader("content-type")?.startsWith("text/html")) {
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  }
});
// A file that the server would refuse is refused before it is sent.
document.addEventListener("change", (event) => {
  const { files, dataset } = event.target;
  if (files) event.target.setCustomValidity(files[0]?.size > dataset.most - 4096 ? dataset.problem : "");
});
