package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestHugePages(t *testing.T) {
	sys := t.TempDir()
	if got := ReadHugePages(sys); got != nil {
		t.Errorf("%v of a machine without any", got)
	}
	for name, count := range map[string]string{
		"hugepages-2048kB": "4\n", "hugepages-1048576kB": "0\n", "hugepages-64kB": "1\n",
		"hugepages-kB": "1", "hugepages--1kB": "1", "pages-2048kB": "1", "hugepages-99999999999999999999kB": "1", "hugepages-32kB": "many",
	} {
		dir := filepath.Join(sys, "kernel/mm/hugepages", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "nr_hugepages"), []byte(count), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "kernel/mm/hugepages/hugepages-16kB"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, h := range ReadHugePages(sys) {
		got += fmt.Sprint(h.Name(), " ", h.Count, ";")
	}
	if want := "1GB 0;2MB 4;64KB 1;"; got != want {
		t.Errorf("ReadHugePages gives %q, want %q", got, want)
	}
}
