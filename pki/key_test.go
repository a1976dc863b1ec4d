package pki_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/pki"
)

func TestKeyIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sa.key")
	made, err := pki.Key(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	kept, err := pki.Key(file)
	if err != nil || !kept.Equal(made) {
		t.Errorf("another key: %v", err)
	}
	for name, content := range map[string]string{"no PEM": "x", "no key": "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Key(file); err == nil {
			t.Errorf("%s: read", name)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != content {
			t.Errorf("%s: overwritten", name)
		}
	}
	if _, err := pki.Key(filepath.Join(file, "below")); err == nil {
		t.Error("a directory that is a file")
	}
}
