// A reporter for vitest whose last lines say how many tests passed, in the words of node's own runner, which the
// project's commands count.

export default class Tally {
  onTestRunEnd(modules) {
    const counts = { pass: 0, fail: 0, skipped: 0 };
    for (const module of modules) {
      counts.fail += module.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") counts.pass += 1;
        else if (state === "failed") counts.fail += 1;
        else counts.skipped += 1;
        if (state === "failed")
          console.log(
            `not ok - ${module.moduleId} ${test.fullName}\n${test
              .result()
              .errors?.map(({ message }) => message)
              .join("\n")}`,
          );
      }
    }
    console.log(
      `# tests ${counts.pass + counts.fail + counts.skipped}\n# pass ${counts.pass}\n# fail ${counts.fail}\n# skipped ${counts.skipped}`,
    );
  }
}
