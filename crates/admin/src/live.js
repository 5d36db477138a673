// Fetches the page again and replaces the parts that are marked data-live, where they differ.
(() => {
  "use strict";
  const select = document.getElementById("refresh");
  const updated = document.getElementById("updated");
  const key = "touchstone-refresh";
  let timer = 0;
  let last = new Date();

  const say = (late) => {
    const time = last.toLocaleTimeString();
    updated.textContent = late ? `no answer since ${time}` : `as of ${time}`;
    updated.classList.toggle("late", late);
  };

  const update = async () => {
    try {
      const response = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(String(response.status));
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
        if (!other || other.innerHTML === part.innerHTML) continue;
        const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
        const focused = part.contains(document.activeElement) && document.activeElement.matches(".scroll");
        part.innerHTML = other.innerHTML;
        const scroll = part.querySelector(".scroll");
        if (scroll) {
          scroll.scrollLeft = scrolled;
          if (focused) scroll.focus({ preventScroll: true });
        }
      }
      last = new Date();
      say(false);
    } catch {
      say(true);
    }
    plan();
  };

  const plan = () => {
    clearTimeout(timer);
    const seconds = Number(select.value);
    if (seconds > 0 && !document.hidden) timer = setTimeout(update, seconds * 1000);
  };

  const choose = (seconds) => {
    const wanted = String(seconds);
    if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
  };

  choose(document.documentElement.dataset.refresh ?? localStorage.getItem(key) ?? select.value);
  select.addEventListener("change", () => {
    localStorage.setItem(key, select.value);
    plan();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : update()));
  say(false);
  plan();
})();
