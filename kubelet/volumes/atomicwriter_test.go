package volumes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// list returns the files that a container sees in a volume, with contents.
func list(t *testing.T, volume string) []string {
	t.Helper()
	var out []string
	var walk func(string, string)
	walk = func(directory, name string) {
		entries, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "..") {
				continue
			}
			path := filepath.Join(directory, e.Name())
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path, name+e.Name()+"/")
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, name+e.Name()+"="+string(data))
		}
	}
	walk(volume, "")
	return out
}

func TestWriteAtomically(t *testing.T) {
	volume := t.TempDir()
	for _, step := range []struct {
		files map[string]File
		want  []string
	}{
		{map[string]File{"a": {Data: []byte("1"), Mode: 0o644}, "d/b": {Data: []byte("2"), Mode: 0o600}}, []string{"a=1", "d/b=2"}},
		{map[string]File{"a": {Data: []byte("3"), Mode: 0o644}, "c": {Data: []byte("4"), Mode: 0o644}}, []string{"a=3", "c=4"}},
		{map[string]File{}, nil},
	} {
		for range 2 {
			if err := WriteAtomically(volume, step.files, nil); err != nil {
				t.Fatal(err)
			}
			if got := list(t, volume); !slices.Equal(got, step.want) {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
	}
	versions, err := filepath.Glob(filepath.Join(volume, "..version_*"))
	if err != nil || len(versions) != 1 {
		t.Errorf("versions: %v %v", versions, err)
	}
}

func TestWriteAtomicallyLeavesTheSameAlone(t *testing.T) {
	volume := t.TempDir()
	files := map[string]File{"a": {Data: []byte("1"), Mode: 0o644}}
	var links []string
	for range 2 {
		if err := WriteAtomically(volume, files, nil); err != nil {
			t.Fatal(err)
		}
		link, err := os.Readlink(filepath.Join(volume, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link)
	}
	if links[0] != links[1] {
		t.Errorf("a new version for the same files: %v", links)
	}
}
