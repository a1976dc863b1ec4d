package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/planekit/planekit/kubelet/internal/tree"
)

// nest makes a chain of directories, each in the one before, with a file in each.
func nest(t *testing.T, directory, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(directory, unix.O_DIRECTORY, 0)
	for range depth {
		if err != nil {
			t.Fatal(err)
		}
		var file, next int
		if file, err = unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
			err = errors.Join(unix.Close(file), unix.Mkdirat(fd, name, 0o755))
		}
		if err == nil {
			next, err = unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		}
		err = errors.Join(err, unix.Close(fd))
		fd = next
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
}

// fewFiles lets the process open few more files than it has open, until the test ends.
func fewFiles(t *testing.T) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = uint64(len(open) + 64)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

// count returns the number of files below a directory.
func count(t *testing.T, directory string) (n int) {
	t.Helper()
	err := tree.Walk(t.Context(), directory, func(tree.Directory, *tree.File) (bool, error) {
		n++
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// TestDeep: a tree that no path can name takes neither many open files nor much memory.
func TestDeep(t *testing.T) {
	const depth = 1500
	directory := filepath.Join(t.TempDir(), "top")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	nest(t, directory, strings.Repeat("x", 250), depth)
	fewFiles(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if n := count(t, directory); n != 2*depth {
		t.Errorf("Walk visits %d files, want %d", n, 2*depth)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Remove(ctx, directory); !errors.Is(err, context.Canceled) {
		t.Errorf("Remove() = %v after its context has ended, want %v", err, context.Canceled)
	}
	if err := tree.Remove(t.Context(), directory); err != nil {
		t.Errorf("Remove() = %v, want nil", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("allocated %d MiB, want at most 16", used>>20)
	}
	if _, err := os.Lstat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lstat() = %v after Remove, want %v", err, fs.ErrNotExist)
	}
}

// TestModel compares Walk with the standard library on random trees, and removes them.
func TestModel(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		outside := filepath.Join(t.TempDir(), "outside")
		if err := os.WriteFile(outside, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		top := filepath.Join(t.TempDir(), "top")
		directories := []string{top}
		for i := range 100 {
			path := filepath.Join(directories[random.IntN(len(directories))], fmt.Sprint("line\n", i))
			var err error
			switch random.IntN(4) {
			case 0:
				directories = append(directories, path)
				err = os.MkdirAll(path, 0o755)
			case 1:
				err = os.Symlink(outside, path)
			case 2:
				err = os.Link(outside, path)
			default:
				err = syscall.Mkfifo(path, 0o600)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		want := -1
		_ = filepath.WalkDir(top, func(string, fs.DirEntry, error) error { want++; return nil })
		if n := count(t, top); n != max(want, 0) {
			t.Errorf("seed %d: Walk visits %d files, want %d", seed, n, want)
		}
		if err := tree.Remove(t.Context(), top); err != nil {
			t.Errorf("seed %d: Remove() = %v, want nil", seed, err)
		}
		if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("seed %d: Lstat() = %v after Remove, want %v", seed, err, fs.ErrNotExist)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("seed %d: Remove has followed a link: %v", seed, err)
		}
	}
	for _, path := range []string{"nothing", "nothing/below"} {
		path = filepath.Join(t.TempDir(), path)
		if err := errors.Join(tree.Remove(t.Context(), path), tree.Walk(t.Context(), path, nil)); err != nil {
			t.Errorf("Remove() and Walk() of a missing file = %v, want nil", err)
		}
	}
}

// TestMovedAway: a program that moves directories while they are walked does not lead the walk out of the
// tree, and hides nothing beside them.
func TestMovedAway(t *testing.T) {
	directory, outside := t.TempDir(), t.TempDir()
	nest(t, directory, "x", 100)
	nest(t, outside, "y", 200)
	deep := filepath.Join(directory, strings.Repeat("x/", 60))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			_ = os.Rename(filepath.Join(deep, "x"), filepath.Join(directory, "moved"))
			_ = os.Rename(filepath.Join(directory, "moved"), filepath.Join(deep, "x"))
		}
	})
	for range 100 {
		files := 0
		err := tree.Walk(ctx, directory, func(_ tree.Directory, f *tree.File) (bool, error) {
			if files++; f.Name == "y" {
				t.Error("Walk has left the directory")
			}
			return true, nil
		})
		if err != nil || files < 2*30 {
			t.Errorf("Walk visits %d files, %v; want at least 60", files, err)
		}
	}
	stop()
	group.Wait()
}

// TestRemovedMeanwhile: a program that removes a directory while it is walked hides nothing beside it.
func TestRemovedMeanwhile(t *testing.T) {
	directory := t.TempDir()
	const directories = 20
	for i := range directories {
		path := filepath.Join(directory, fmt.Sprint(i))
		if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, fmt.Sprint("in ", i)), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	err := tree.Walk(t.Context(), directory, func(_ tree.Directory, f *tree.File) (bool, error) {
		if name, ok := strings.CutPrefix(f.Name, "in "); ok {
			seen++
			return true, os.RemoveAll(filepath.Join(directory, name))
		}
		return true, nil
	})
	if err != nil || seen != directories {
		t.Errorf("Walk visits %d files, %v; want %d", seen, err, directories)
	}
}

// TestGive: a group gets files and directories, and nothing behind a link.
func TestGive(t *testing.T) {
	directory, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	nest(t, directory, "x", 2)
	if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(directory, "link"))); err != nil {
		t.Fatal(err)
	}
	group := os.Getgid()
	if os.Geteuid() == 0 {
		group = 4242
	}
	err := tree.Walk(t.Context(), directory, func(d tree.Directory, f *tree.File) (bool, error) {
		return true, d.Give(f, group, 0o060)
	})
	if err != nil {
		t.Errorf("Give() = %v, want nil", err)
	}
	for path, mode := range map[string]fs.FileMode{"file": 0o660, "x": 0o775, "x/file": 0o660} {
		info, err := os.Lstat(filepath.Join(directory, path))
		if err != nil || info.Mode().Perm() != mode || int(info.Sys().(*syscall.Stat_t).Gid) != group {
			t.Errorf("%s is %v, %v; want the mode %v and the group %d", path, info, err, mode, group)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("outside is %v, %v; want the mode 0600", info, err)
	}
}
