package compat

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBeside: the tests that COMPATIBILITY.md names for decisions beside those of
// the stock packages are there, and it names every one of their folders.
func TestBeside(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n## Decisions beside the stock ones\n")
	if !ok {
		t.Fatal("no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, test := range regexp.MustCompile("`compat/([a-z]+)`: ((?:`Test[A-Za-z]+`(?:, )?)+)").FindAllStringSubmatch(section, -1) {
		folder := test[1]
		named[folder] = true
		source := tests(t, folder)
		for _, name := range strings.Split(test[2], ", ") {
			if !strings.Contains(source, "\nfunc "+strings.Trim(name, "`")+"(t *testing.T) {") {
				t.Errorf("%s has no %s", folder, name)
			}
		}
	}
	for _, folder := range []string{"abac", "rbac", "node", "modes", "plugins", "matchcel", "structured"} {
		if !named[folder] {
			t.Errorf("%s is not named", folder)
		}
	}
}

// tests is the source of the tests in a folder.
func tests(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
