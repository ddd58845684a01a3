// The button that switches between dark and light. The system's choice holds until somebody makes one, which theme.js
// remembers for every page of this origin.

const isDark = () => {
  const {theme} = document.documentElement.dataset;
  return theme ? theme === "dark" : !matchMedia("(prefers-color-scheme: light)").matches;
};

// Names the button, now and after each change, and calls `onChange` then.
export function makeThemeSwitch(button, onChange = () => {}) {
  const draw = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use the light theme" : "Use the dark theme");
    onChange();
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("baton.theme", theme);
    } catch {
      // It holds for this visit.
    }
    draw();
  });
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", draw);
  draw();
}
