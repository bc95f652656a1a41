// One clock for everything that looks again: every second while the tab is seen and has the focus, every five seconds
// without the focus, never while it is hidden.

type Task = { run: () => Promise<void>; everyMs: number; dueAt: number; isRunning: boolean };

const UNFOCUSED_MS_MIN = 5_000;
const tasks = new Set<Task>();
let timer: ReturnType<typeof setTimeout> | null = null;

/** Runs `run` now and then until the returned function is called. Runs of one task never overlap. */
export function poll(everyMs: number, run: () => Promise<void>): () => void {
  const task: Task = { run, everyMs, dueAt: 0, isRunning: false };
  tasks.add(task);
  arm(0);
  return () => void tasks.delete(task);
}

function arm(delayMs: number): void {
  if (timer !== null) clearTimeout(timer);
  timer = setTimeout(tick, delayMs);
}

function tick(): void {
  timer = null;
  if (document.visibilityState === "hidden" || tasks.size === 0) return;
  const slowest = document.hasFocus() ? 0 : UNFOCUSED_MS_MIN;
  const now = performance.now();
  for (const task of tasks) {
    if (task.isRunning || task.dueAt > now) continue;
    task.isRunning = true;
    void task
      .run()
      .catch(() => undefined)
      .finally(() => {
        task.isRunning = false;
        task.dueAt = performance.now() + Math.max(task.everyMs, slowest);
      });
  }
  arm(250);
}

if (typeof document !== "undefined") {
  for (const name of ["visibilitychange", "focus"]) {
    addEventListener(name, () => document.visibilityState === "visible" && arm(0), { capture: true });
  }
}
