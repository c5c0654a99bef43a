// Puts each new state of the farm into the page. Without this script the page loads itself anew every five seconds.
"use strict";
const content = document.getElementById("content");
const link = document.getElementById("link");
const place = link.textContent;
const source = new EventSource("live");
source.onmessage = (event) => {
  const open = [...content.querySelectorAll("details")].map((each) => each.open);
  const focused = document.activeElement && document.activeElement.getAttribute("href");
  content.innerHTML = JSON.parse(event.data);
  content.querySelectorAll("details").forEach((each, number) => { each.open = Boolean(open[number]); });
  if (focused) {
    const again = [...content.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused);
    if (again) { again.focus(); }
  }
  link.textContent = place;
  link.className = "";
};
source.addEventListener("trouble", (event) => {
  link.textContent = JSON.parse(event.data);
  link.className = "lost";
});
source.onerror = () => {
  link.textContent = "The console does not answer: is the command still running?";
  link.className = "lost";
};
