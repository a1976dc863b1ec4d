package kubelet

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
		files map[string]file
		want  []string
	}{
		{map[string]file{"a": {data: []byte("1"), mode: 0o644}, "d/b": {data: []byte("2"), mode: 0o600}}, []string{"a=1", "d/b=2"}},
		{map[string]file{"a": {data: []byte("3"), mode: 0o644}, "c": {data: []byte("4"), mode: 0o644}}, []string{"a=3", "c=4"}},
		{map[string]file{}, nil},
	} {
		for range 2 {
			if err := writeAtomically(volume, step.files, nil); err != nil {
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
	files := map[string]file{"a": {data: []byte("1"), mode: 0o644}}
	var links []string
	for range 2 {
		if err := writeAtomically(volume, files, nil); err != nil {
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

func TestCgroupTrees(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, mount string){
		"v1": func(t *testing.T, mount string) {
			for _, controller := range []string{"cpu", "memory", "pids"} {
				if err := os.Mkdir(filepath.Join(mount, controller), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"v2": func(t *testing.T, mount string) {
			if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("cpu memory"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			prepare(t, mount)
			g := cgroups{mount: mount}
			if err := g.create("/top/burstable/podx", limits{shares: 1024, quota: 50000, memory: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"cpu/top/burstable/podx/cpu.shares": "1024", "cpu/top/burstable/podx/cpu.cfs_quota_us": "50000",
				"memory/top/burstable/podx/memory.limit_in_bytes": "1048576",
			}
			if name == "v2" {
				want = map[string]string{
					"top/burstable/podx/cpu.weight": "39", "top/burstable/podx/cpu.max": "50000 100000", "top/burstable/podx/memory.max": "1048576",
				}
			}
			for path, value := range want {
				text, err := os.ReadFile(filepath.Join(mount, path))
				if err != nil || string(text) != value {
					t.Errorf("%s is %q %v, want %q", path, text, err, value)
				}
				// What are files here are part of the directory in a cgroup.
				if err := os.Remove(filepath.Join(mount, path)); err != nil {
					t.Fatal(err)
				}
			}
			if names, err := g.children("/top/burstable"); err != nil || !slices.Equal(names, []string{"podx"}) {
				t.Errorf("children: %v %v", names, err)
			}
			for range 2 {
				if err := g.remove("/top/burstable/podx"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
