package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSwaps(t *testing.T) {
	const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for text, want := range map[string]bool{"": false, heading: false, heading + "/dev/sda2 partition 1 0 -2\n": true, heading + "/dev/sda2 partition 1 0 -2\n/swap file 1 0 -3\n": true} {
		proc := t.TempDir()
		put(t, filepath.Join(proc, "swaps"), text)
		if got, err := Swaps(proc); got != want || err != nil {
			t.Errorf("Swaps of %q = %v, %v, want %v", text, got, err, want)
		}
	}
	proc := t.TempDir()
	if got, err := Swaps(proc); got || err != nil {
		t.Errorf("without a file: %v (%v)", got, err)
	}
	if err := os.Mkdir(filepath.Join(proc, "swaps"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Swaps(proc); err == nil {
		t.Error("a directory is read")
	}
}

func TestCheckKernelDefaults(t *testing.T) {
	proc := t.TempDir()
	if err := CheckKernelDefaults(proc); err == nil || strings.Count(err.Error(), "no such file") != len(kernelDefaults) {
		t.Errorf("without files: %v", err)
	}
	for _, d := range kernelDefaults {
		put(t, filepath.Join(proc, "sys", d.name), fmt.Sprintln(d.value))
	}
	if err := CheckKernelDefaults(proc); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(proc, "sys/kernel/panic"), "0\n")
	put(t, filepath.Join(proc, "sys/vm/panic_on_oom"), "many")
	const want = "vm/panic_on_oom: strconv.Atoi: parsing \"many\": invalid syntax\ninvalid kernel flag: kernel/panic, expected value: 10, actual value: 0"
	if err := CheckKernelDefaults(proc); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
