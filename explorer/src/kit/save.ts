// Files that leave the browser: written as a stream where the browser can, else gathered in memory up to a limit.

export const MEMORY_BYTES_MAX = 256 << 20;

export interface FileSink {
  write(text: string): Promise<void>;
  close(): Promise<void>;
  abort(): Promise<void>;
  isStreamed: boolean;
}

interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;
}

/** Must be called by a click: browsers ask the person. */
export async function openSink(name: string): Promise<FileSink> {
  const picker = (globalThis as Picker).showSaveFilePicker;
  if (picker && !navigator.webdriver) {
    const stream = await (await picker({ suggestedName: name })).createWritable();
    return {
      isStreamed: true,
      write: (text) => stream.write(text),
      close: () => stream.close(),
      abort: () => stream.abort(),
    };
  }
  const parts: Blob[] = [];
  let size = 0;
  return {
    isStreamed: false,
    write: (text) => {
      const part = new Blob([text]);
      size += part.size;
      if (size > MEMORY_BYTES_MAX)
        return Promise.reject(
          new Error("the export is larger than the 256 MB that this browser can hold: narrow the filter"),
        );
      parts.push(part);
      return Promise.resolve();
    },
    close: () => Promise.resolve(download(name, new Blob(parts))),
    abort: () => Promise.resolve(),
  };
}

function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function saveText(name: string, text: string): Promise<void> {
  download(name, new Blob([text]));
}
