package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// check: documented-snippets
func TestTheSnippetOfTheDocumentationRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(required(t, "SHARDLAKE_DOCS"), "connect.md"))
	must(t, err)
	snippet := regexp.MustCompile("(?ms)^```go\n(package main.*?)^```$").FindSubmatch(page)
	if snippet == nil || !strings.Contains(string(snippet[1]), "https://localhost:8081/") {
		t.Fatal("the page has no program for Go")
	}
	program := strings.ReplaceAll(string(snippet[1]), "https://localhost:8081/", required(t, "SHARDLAKE_HTTPS"))
	// Beside this module's own files, where the packages are known.
	directory, err := os.MkdirTemp(".", "snippet-")
	must(t, err)
	defer os.RemoveAll(directory)
	must(t, os.WriteFile(filepath.Join(directory, "main.go"), []byte(program), 0o600))
	run := exec.Command("go", "run", "./"+directory)
	run.Env = append(os.Environ(), "SSL_CERT_FILE="+required(t, "SHARDLAKE_CA_FILE"))
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	equal(t, string(output), "42\n")
	database, err := ownClient(t).NewDatabase("go-shop")
	must(t, err)
	_, err = database.Delete(ctx, nil)
	must(t, err)
}
