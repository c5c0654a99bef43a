// Puts each new state of the farm into the page. A page with `data-every` is fetched anew every so many seconds; the farm's
// page gets its states as server-sent events. Without this script, the link "Load anew" does the same by hand: a page that
// loads itself takes the place from people who read by ear or slowly.
"use strict";
const content = document.getElementById("content");
const link = document.getElementById("link");
const place = link.textContent;

function show(html) {
  const open = [...content.querySelectorAll("details")].map((each) => each.open);
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  content.innerHTML = html;
  content.querySelectorAll("details").forEach((each, number) => { each.open = Boolean(open[number]); });
  if (focused) {
    const again = [...content.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused);
    if (again) { again.focus(); }
  }
  link.textContent = place;
  link.className = "";
}

function complain(text) {
  link.textContent = text;
  link.className = "lost";
}

async function fetchAgain() {
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) { show(page.getElementById("content").innerHTML); } else { complain(page.title); }
  } catch {
    complain(gone);
  }
}

const gone = "The console does not answer: is the command still running?";
if (content.dataset.every) {
  setInterval(fetchAgain, 1000 * Number(content.dataset.every));
} else {
  const source = new EventSource("live");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.addEventListener("trouble", (event) => complain(JSON.parse(event.data)));
  source.onerror = () => complain(gone);
}
