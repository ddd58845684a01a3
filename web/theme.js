// Runs before the page is painted, so that a remembered theme does not flash the other one.
(() => {
  try {
    const theme = localStorage.getItem("baton.theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the page follows the system.
  }
})();
