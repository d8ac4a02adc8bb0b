// Pointing at a picture lights its lines, pointing at a line lights its pictures. Links work without this.
const code = document.querySelector("aside");
if (!location.hash) code.scrollTop = document.getElementById(code.dataset.start).offsetTop - 44;
const lines = [...document.querySelectorAll(".line")];
const sections = [...document.querySelectorAll("section")];
const figuresOf = (line) => line.dataset.figures.split(" ").filter(Boolean);
const light = (elements, on) => elements.forEach((element) => element.classList.toggle("lit", on));
for (const section of sections) {
  const mine = lines.filter((line) => figuresOf(line).includes(section.dataset.figure));
  section.addEventListener("mouseenter", () => light(mine, true));
  section.addEventListener("mouseleave", () => light(mine, false));
}
for (const line of lines) {
  const mine = sections.filter((section) => figuresOf(line).includes(section.dataset.figure));
  line.addEventListener("mouseenter", () => light(mine, true));
  line.addEventListener("mouseleave", () => light(mine, false));
}
