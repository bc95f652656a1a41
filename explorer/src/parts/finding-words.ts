// Kinds of findings, in words.

const WORDS: Record<string, string> = {
  singleHotKey: "Single hot key",
  sequentialKeys: "Sequential keys",
  hotRange: "Hot range",
  scans: "Scans",
  throughputTooLow: "Throughput too low",
  storageSkew: "Storage skew",
  nothingWrong: "All is well",
};

export const findingWords = (kind: string): string => WORDS[kind] ?? kind;
