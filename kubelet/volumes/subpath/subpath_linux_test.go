package subpath_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes/subpath"
	"golang.org/x/sys/unix"
)

// volume is a volume beside a directory with a secret, which no path in it may lead to.
type volume struct {
	directory, targets string
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	root := t.TempDir()
	v := &volume{directory: filepath.Join(root, "volume"), targets: filepath.Join(root, "targets")}
	for _, d := range []string{v.directory, v.targets, filepath.Join(root, "outside")} {
		must(t, os.Mkdir(d, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "outside", "data"), []byte("secret"), 0o600))
	return v
}

// mount mounts path and unmounts it when the test ends.
func (v *volume) mount(t *testing.T, path string) (string, error) {
	t.Helper()
	target := filepath.Join(v.targets, "0")
	mounted, err := subpath.Mount(v.directory, path, target)
	if err == nil && mounted == target {
		t.Cleanup(func() { syscall.Unmount(target, syscall.MNT_DETACH) })
	}
	return mounted, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMountsFilesAndDirectories(t *testing.T) {
	v := newVolume(t)
	must(t, os.MkdirAll(filepath.Join(v.directory, "..2026", "conf.d"), 0o755))
	must(t, os.WriteFile(filepath.Join(v.directory, "..2026", "nginx.conf"), []byte("one"), 0o644))
	must(t, os.Symlink("..2026", filepath.Join(v.directory, "..data")))
	must(t, os.Symlink("..data/nginx.conf", filepath.Join(v.directory, "nginx.conf")))
	must(t, os.Symlink("../volume/..data", filepath.Join(v.directory, "out")))

	file, err := v.mount(t, "nginx.conf")
	must(t, err)
	if data, err := os.ReadFile(file); string(data) != "one" {
		t.Errorf("the mounted file has %q, %v, want \"one\"", data, err)
	}
	// The same file again is the same mount; another one replaces it.
	if again, err := v.mount(t, "nginx.conf"); err != nil || again != file {
		t.Errorf("again: %s %v, want %s", again, err, file)
	}
	must(t, os.MkdirAll(filepath.Join(v.directory, "..2027"), 0o755))
	must(t, os.WriteFile(filepath.Join(v.directory, "..2027", "nginx.conf"), []byte("two"), 0o644))
	must(t, os.Symlink("..2027", filepath.Join(v.directory, "..new")))
	must(t, os.Rename(filepath.Join(v.directory, "..new"), filepath.Join(v.directory, "..data")))
	file, err = v.mount(t, "nginx.conf")
	must(t, err)
	if data, err := os.ReadFile(file); string(data) != "two" {
		t.Errorf("after the file was replaced: %q %v", data, err)
	}
	// A directory in place of the file.
	directory, err := v.mount(t, "..2026/conf.d/")
	must(t, err)
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	if _, err := v.mount(t, "."); err != nil {
		t.Error(err)
	}
	if _, err := v.mount(t, "out/nginx.conf"); !errors.Is(err, subpath.ErrEscapes) {
		t.Errorf("through a link that leaves the volume and comes back: %v", err)
	}
}

func TestCreatesDirectories(t *testing.T) {
	v := newVolume(t)
	must(t, os.Chmod(v.directory, 0o770|fs.ModeSetgid))
	mounted, err := v.mount(t, "a/b/c")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(mounted, "data"), []byte("x"), 0o600))
	if _, err := os.Stat(filepath.Join(v.directory, "a", "b", "c", "data")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "a/b", "a/b/c"} {
		if info, err := os.Stat(filepath.Join(v.directory, name)); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o770 {
			t.Errorf("%s: %v %v, want the volume's mode", name, info.Mode(), err)
		}
	}
}

func TestRefusesToLeave(t *testing.T) {
	for name, link := range map[string]string{
		"absolute": "", "relative": "../outside", "twice": "again", "nothing": "missing/none", "parent": "..", "itself": "link",
		"magic": "/proc/self/cwd",
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t)
			if link == "" {
				link = filepath.Join(filepath.Dir(v.directory), "outside")
			}
			must(t, os.Symlink(link, filepath.Join(v.directory, "link")))
			must(t, os.Symlink("/", filepath.Join(v.directory, "again")))
			for _, path := range []string{"link", "link/data", "link/new/directory"} {
				if mounted, err := v.mount(t, path); err == nil {
					t.Errorf("%s is mounted at %s", path, mounted)
				}
			}
			if left, err := os.ReadDir(filepath.Join(filepath.Dir(v.directory), "outside")); err != nil || len(left) != 1 {
				t.Errorf("outside: %v %v", left, err)
			}
		})
	}
	v := newVolume(t)
	for path, want := range map[string]error{
		"/etc": subpath.ErrAbsolute, "../outside": subpath.ErrBackstep, "a/../../b": subpath.ErrBackstep, "a\x00b": subpath.ErrInvalid,
	} {
		if _, err := v.mount(t, path); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
	if _, err := v.mount(t, strings.Repeat("a/", 5000)); err == nil {
		t.Error("a path of 10,000 bytes is mounted")
	}
	must(t, os.WriteFile(filepath.Join(v.directory, "file"), nil, 0o600))
	if _, err := v.mount(t, "file/below"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

// TestDoesNotBlock: a pipe in a volume is mounted, not opened.
func TestDoesNotBlock(t *testing.T) {
	v := newVolume(t)
	must(t, syscall.Mkfifo(filepath.Join(v.directory, "pipe"), 0o600))
	if _, err := v.mount(t, "pipe"); err != nil {
		t.Error(err)
	}
}

// TestRace replaces directories by links to the outside while they are mounted and created: what is
// mounted is never the outside, and nothing is created there.
func TestRace(t *testing.T) {
	v := newVolume(t)
	outside := filepath.Join(filepath.Dir(v.directory), "outside")
	must(t, os.Mkdir(filepath.Join(v.directory, "a"), 0o755))
	must(t, os.WriteFile(filepath.Join(v.directory, "a", "data"), []byte("inside"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(v.directory, "evil")))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			// Exchanging both is atomic, so that "a" always exists.
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(v.directory, "a"), unix.AT_FDCWD, filepath.Join(v.directory, "evil"), unix.RENAME_EXCHANGE)
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			os.Symlink(outside, filepath.Join(v.directory, "new"))
			os.RemoveAll(filepath.Join(v.directory, "new"))
		}
	})
	for range 2000 {
		mounted, err := v.mount(t, "a/data")
		if err == nil {
			if data, err := os.ReadFile(mounted); string(data) == "secret" {
				t.Errorf("the outside is mounted: %q %v", data, err)
				break
			}
		}
		v.mount(t, "new/one/two")
	}
	stop()
	group.Wait()
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside: %v %v", left, err)
	}
}

func FuzzMount(f *testing.F) {
	for _, path := range []string{"a", "a/b", "..", "a/../b", "/a", "link/data", "./link", "a//b", "..a/b", "..data"} {
		f.Add(path)
	}
	root := f.TempDir()
	directory, targets := filepath.Join(root, "volume"), filepath.Join(root, "targets")
	for _, d := range []string{directory, targets, filepath.Join(root, "outside")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", filepath.Join(directory, "link")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		target := filepath.Join(targets, "0")
		mounted, err := subpath.Mount(directory, path, target)
		if err == nil && mounted == target {
			defer syscall.Unmount(target, syscall.MNT_DETACH)
		}
		if err == nil && subpath.Check(path) != nil {
			t.Errorf("%q is mounted", path)
		}
		for d, want := range map[string]int{root: 3, filepath.Join(root, "outside"): 0} {
			if left, err := os.ReadDir(d); err != nil || len(left) != want {
				t.Errorf("%q leaves %v in %s %v", path, left, d, err)
			}
		}
	})
}
