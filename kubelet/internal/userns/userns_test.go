package userns

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newPod creates the directory of a pod.
func newPod(t *testing.T, root, uid string) types.UID {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, uid), 0o750); err != nil {
		t.Fatal(err)
	}
	return types.UID(uid)
}

func removePod(t *testing.T, r *Ranges, uid types.UID) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(r.root, string(uid))); err != nil {
		t.Fatal(err)
	}
	r.Release(uid)
}

// first returns the first ID of a pod, after a check of its namespace.
func first(t *testing.T, r *Ranges, uid types.UID) uint32 {
	t.Helper()
	n, err := r.Get(uid)
	if err != nil {
		t.Fatal(err)
	}
	if n.Mode != runtimeapi.NamespaceMode_POD || len(n.Uids) != 1 || len(n.Gids) != 1 || n.Uids[0].Length != 65536 || n.Uids[0].ContainerId != 0 ||
		n.Uids[0].HostId != n.Gids[0].HostId || n.Gids[0].Length != 65536 || n.Uids[0].HostId == 0 {
		t.Fatalf("Get(%q) = %v, want the mode POD and one range of 65536 IDs, the same for users and groups, not from 0", uid, n)
	}
	return n.Uids[0].HostId
}

func TestRestart(t *testing.T) {
	root := t.TempDir()
	a, b := newPod(t, root, "a"), newPod(t, root, "b")
	newPod(t, root, "c") // has no user namespace
	r := New(root)
	one, two := first(t, r, a), first(t, r, b)
	if one != 65536 || two != 2*65536 || first(t, r, a) != one {
		t.Errorf("%d, %d, then %d", one, two, first(t, r, a))
	}
	text, err := os.ReadFile(filepath.Join(root, "a", "userns"))
	if want := `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`; string(text) != want {
		t.Errorf("the file userns of a has %s, %v, want %s", text, err, want)
	}
	again := New(root)
	if third := first(t, again, newPod(t, root, "d")); third == one || third == two {
		t.Errorf("%d is that of another pod", third)
	}
	if first(t, again, a) != one || first(t, again, b) != two {
		t.Error("a restart changed a range")
	}
	removePod(t, again, a)
	for range slots - 4 {
		slot, err := again.free()
		if err != nil {
			t.Fatal(err)
		}
		again.record(types.UID(fmt.Sprint(slot)), slot)
		again.next = slot + 1
	}
	if e := first(t, again, newPod(t, root, "e")); e != one {
		t.Errorf("the last range is %d, not the released %d", e, one)
	}
	if _, err := again.Get(newPod(t, root, "f")); err == nil || !strings.Contains(err.Error(), "could not find an empty slot to allocate a user namespace") {
		t.Errorf("Get(f) with no range left: error %v, want one that there is no empty slot", err)
	}
}

// TestModel compares random pods that come and go, with restarts, with a map.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	root := t.TempDir()
	r, model := New(root), map[types.UID]uint32{}
	for i := range 1000 {
		uid := types.UID(fmt.Sprint("pod", random.IntN(20)))
		switch random.IntN(8) {
		case 0:
			r = New(root)
		case 1, 2, 3:
			removePod(t, r, uid)
			delete(model, uid)
		default:
			got := first(t, r, newPod(t, root, string(uid)))
			if want, has := model[uid]; has && want != got {
				t.Fatalf("step %d: %s has %d, not %d", i, uid, got, want)
			}
			for other, taken := range model {
				if other != uid && taken == got {
					t.Fatalf("step %d: %s and %s share %d", i, uid, other, got)
				}
			}
			model[uid] = got
		}
	}
}

func TestDamagedFile(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"empty":     func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"torn":      func(p string) error { return os.WriteFile(p, []byte(`{"uidMappings":[{"hostId":65536`), 0o600) },
		"huge":      func(p string) error { return os.WriteFile(p, []byte(strings.Repeat(" ", 1<<20)), 0o600) },
		"a link":    func(p string) error { return os.Symlink("/dev/zero", p) },
		"a FIFO":    func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		root := t.TempDir()
		newPod(t, root, "bad")
		if err := spoil(filepath.Join(root, "bad", "userns")); err != nil {
			t.Fatal(err)
		}
		r := New(root)
		good := newPod(t, root, "good")
		if _, err := r.Get(good); err == nil || !strings.Contains(err.Error(), "userns") {
			t.Errorf("%s: Get(%q): error %v, want one that names userns", what, good, err)
		}
		removePod(t, r, "bad")
		if first(t, r, good) == 0 {
			t.Errorf("%s: no range after the pod was removed", what)
		}
	}
}

// TestWriteFails checks that a range that is not on the disk is not given.
func TestWriteFails(t *testing.T) {
	root := t.TempDir()
	r := New(root)
	if _, err := r.Get("no-directory"); err == nil || len(r.slots) != 0 {
		t.Errorf("Get(\"no-directory\"): error %v, slots %v; want an error and no slot", err, r.slots)
	}
	if first(t, r, newPod(t, root, "a")) != 65536 {
		t.Error("a failure used up a range")
	}
}

func TestSameRangeTwice(t *testing.T) {
	root := t.TempDir()
	first(t, New(root), newPod(t, root, "a"))
	newPod(t, root, "b")
	data, err := os.ReadFile(filepath.Join(root, "a", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "b", file), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(root).Get("a"); err == nil || !strings.Contains(err.Error(), "have the same user namespace") {
		t.Errorf("Get(\"a\"): error %v, want one that a and b have the same user namespace", err)
	}
}

func TestConcurrent(t *testing.T) {
	root := t.TempDir()
	r := New(root)
	got := make([]uint32, 16)
	var group sync.WaitGroup
	for i := range got {
		uid := newPod(t, root, fmt.Sprint(i))
		group.Go(func() {
			if n, err := r.Get(uid); err == nil {
				got[i] = n.Uids[0].HostId
			}
		})
	}
	group.Wait()
	seen := map[uint32]bool{0: true}
	for _, id := range got {
		if seen[id] {
			t.Fatalf("Get from many goroutines gives the ranges from %v, want no two of them the same, and none 0", got)
		}
		seen[id] = true
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`))
	f.Add([]byte(`{"uidMappings":[{"hostId":0,"containerId":0,"length":65536}],"gidMappings":[{"hostId":0,"containerId":0,"length":65536}]}`))
	f.Add([]byte(`{"uidMappings":[],"gidMappings":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		slot, err := parse(data)
		if err == nil && (slot == 0 || slot >= slots) {
			t.Errorf("slot %d", slot)
		}
	})
}
