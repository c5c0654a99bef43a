// Puts each new state of the farm into the page. A page with `data-every` is fetched anew every so many seconds; the farm's
// page gets its states as server-sent events. Without this script, the link "Load anew" does the same by hand: a page that
// loads itself takes the place from people who read by ear or slowly.
"use strict";
const content = document.getElementById("content");
const link = document.getElementById("link");
const place = link.textContent;

let shown = "";

function show(html) {
  link.textContent = place;
  link.className = "";
  if (html === shown) { return; }
  shown = html;
  const open = [...content.querySelectorAll("details")].map((each) => each.open);
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  content.innerHTML = html;
  content.querySelectorAll("details").forEach((each, number) => { each.open = Boolean(open[number]); });
  if (focused) {
    const again = [...content.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused);
    if (again) { again.focus(); }
  }
}

function complain(text) {
  link.textContent = text;
  link.className = "lost";
}

const gone = link.dataset.gone;

async function fetchAgain(every) {
  let answer, text;
  try {
    answer = await fetch(location.href);
    text = await answer.text();
  } catch {
    complain(gone);
  }
  if (answer && text !== undefined) {
    const found = new DOMParser().parseFromString(text, "text/html").getElementById("content");
    if (answer.ok) { show(found.innerHTML); } else { complain(found.innerText.trim()); }
  }
  setTimeout(fetchAgain, every, every);
}

if (content.dataset.every) {
  const every = 1000 * Number(content.dataset.every);
  setTimeout(fetchAgain, every, every);
} else {
  const source = new EventSource("live");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.addEventListener("trouble", (event) => complain(JSON.parse(event.data)));
  source.onerror = () => complain(gone);
}
