package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBrokenIdentity(t *testing.T) {
	for content, repaired := range map[string]bool{"": true, "\n": false, "x": false, "0123456": false, "0123456789": false, "\x00\x00\x00\x00\x00\x00\x00\x00": false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "id")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(dir)
		if repaired != (err == nil) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("Open with the identity %q = %v, want repaired %t and an error to name %s", content, err, repaired, path)
		}
		if err == nil {
			fmt.Fprintln(t.Output(), opened.id)
			opened.lock.Close()
		}
	}
}
