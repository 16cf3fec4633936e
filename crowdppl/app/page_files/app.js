"use strict";
document.documentElement.classList.add("scripted");
// the token has become a cookie, and stays in no history
if (location.search.includes("token=")) history.replaceState(null, "", "/");

const wait = document.getElementById("wait");
async function ask() {
  try {
    const state = await (await fetch(wait.dataset.state)).json();
    if (!state.busy) return location.reload();
    document.getElementById("doing").textContent = state.doing;
    document.getElementById("since").textContent = state.since;
    setTimeout(ask, 1000 * wait.dataset.often);
  } catch {
    document.getElementById("doing").textContent = wait.dataset.lost;
    wait.querySelector("progress").remove();
  }
}
if (wait) setTimeout(ask, 1000 * wait.dataset.often);

const drop = document.getElementById("drop");
if (drop) {
  const input = drop.querySelector("input"), wrong = document.getElementById("wrong");
  const send = () => {
    if (!input.files.length) return;
    wrong.hidden = input.files[0].size <= drop.dataset.most;
    if (!wrong.hidden) { wrong.textContent = wrong.dataset.large; input.value = ""; return; }
    document.getElementById("busy").hidden = false;
    drop.requestSubmit();
  };
  input.addEventListener("change", send);
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, event => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) { input.files = event.dataTransfer.files; send(); }
    });
  }
  addEventListener("pageshow", () => { document.getElementById("busy").hidden = true; });
}
