package volumes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func FuzzParseMounts(f *testing.F) {
	f.Add("1 2 0:1 / /var/pods/x\\040y rw - tmpfs tmpfs rw\n", "/var/pods")
	f.Fuzz(func(t *testing.T, table, directory string) {
		for _, point := range pointsBelow(parseMounts(table), directory) {
			if !strings.HasPrefix(point, directory+"/") {
				t.Errorf("%q is not below %q", point, directory)
			}
		}
	})
}

// FuzzWriteAtomically: whatever the paths of files are called, they stay in the volume, or are refused
// and change nothing.
func FuzzWriteAtomically(f *testing.F) {
	for _, paths := range []string{
		"a", "a\nd/b", "../x", "..data", "..data/x", "a\na/b", "/etc/passwd", ".", "", "a//b", "a/../b", "..version_1/x", "..data_tmp",
		"a/./b", strings.Repeat("n", 300), strings.Repeat("d/", 3000) + "f", "a\x00b", "\xff\xfe", "..a", "...", ". .",
	} {
		f.Add(paths)
	}
	f.Fuzz(func(t *testing.T, paths string) {
		parent := t.TempDir()
		volume := filepath.Join(parent, "volume")
		if err := os.Mkdir(volume, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := WriteAtomically(volume, map[string]File{"before": {Data: []byte("1"), Mode: 0o644}}, nil); err != nil {
			t.Fatal(err)
		}
		files := map[string]File{}
		for path := range strings.SplitSeq(paths, "\n") {
			files[path] = File{Data: []byte(path), Mode: 0o644}
		}
		if err := WriteAtomically(volume, files, nil); err != nil {
			if got := list(t, volume); !slices.Equal(got, []string{"before=1"}) {
				t.Errorf("a refusal (%v) left %q", err, got)
			}
		} else {
			for path := range files {
				if data, err := os.ReadFile(filepath.Join(volume, path)); err != nil || string(data) != path {
					t.Errorf("%q has %q: %v", path, data, err)
				}
			}
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("beside the volume there is %v: %v", entries, err)
		}
	})
}
