package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAppArmor(t *testing.T) {
	sys := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(enabled bool) {
		t.Helper()
		if err := AppArmor(sys); (err == nil) != enabled {
			t.Errorf("%v, want enabled %t", err, enabled)
		}
	}
	check(false)
	write("module/apparmor/parameters/enabled", "Y\n")
	check(false)
	write("kernel/security/apparmor/profiles", "")
	check(true)
	write("module/apparmor/parameters/enabled", "N\n")
	check(false)
}
