package volumes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// needsRoot skips a test that mounts or changes groups.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// TestLocalReadOnly: a claim that is used for reading, and options of the volume, make the mount in the
// pod's directory read-only and leave the volume as it is.
func TestLocalReadOnly(t *testing.T) {
	needsRoot(t)
	for _, test := range []struct {
		name   string
		change func(*storage, *corev1.Pod)
		ro     bool
	}{
		{"for writing", func(*storage, *corev1.Pod) {}, false},
		{"for reading", func(_ *storage, pod *corev1.Pod) { pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true }, true},
		{"by option", func(s *storage, _ *corev1.Pod) { s.volume.Spec.MountOptions = []string{"noatime", "ro"} }, true},
	} {
		source, directory := t.TempDir(), t.TempDir()
		s, pod := newStorage(source), claimPod()
		test.change(s, pod)
		set := s.set(t)
		paths, err := set.SetUp(t.Context(), pod, directory)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(directory, "volumes/kubernetes.io~local-volume/pv"); paths["v"] != want {
			t.Errorf("the volume is at %s, want %s", paths["v"], want)
		}
		err = os.WriteFile(filepath.Join(paths["v"], "f"), nil, 0o600)
		if errors.Is(err, syscall.EROFS) != test.ro || err != nil && !test.ro {
			t.Errorf("%s: write: %v", test.name, err)
		}
		if err := os.WriteFile(filepath.Join(source, "g"), nil, 0o600); err != nil {
			t.Errorf("%s: write at the source: %v", test.name, err)
		}
		if err := set.TearDown(t.Context(), directory); err != nil {
			t.Error(err)
		}
	}
	s := newStorage(t.TempDir())
	s.volume.Spec.MountOptions = []string{"rsize=4"}
	if _, err := s.set(t).SetUp(t.Context(), claimPod(), t.TempDir()); err == nil {
		t.Error("an unknown mount option was accepted")
	}
}

// TestRemovalSparesVolumes: the directory of a pod can be removed only when the volume is unmounted,
// also if it was mounted twice, or the path of the directory has a link.
func TestRemovalSparesVolumes(t *testing.T) {
	needsRoot(t)
	source, real := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(link, "pod")
	set := newStorage(source).set(t)
	paths, err := set.SetUp(t.Context(), claimPod(), directory)
	if err != nil {
		t.Fatal(err)
	}
	// As by a kubelet that was killed and did not see its own mount.
	if err := syscall.Mount(source, paths["v"], "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(paths["v"], "busy")
	if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.TearDown(t.Context(), directory); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("tear down of a volume in use: %v", err)
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(set.TearDown(t.Context(), directory), os.RemoveAll(directory)); err != nil {
		t.Error(err)
	}
	if got := contents(t, source); got != "busy=1" {
		t.Errorf("the volume contains %q afterwards", got)
	}
}

// TestLocalGroup: the first pod gives the volume to its group, by its policy.
func TestLocalGroup(t *testing.T) {
	needsRoot(t)
	mismatch, always := corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways
	for _, test := range []struct {
		name   string
		policy *corev1.PodFSGroupChangePolicy
		// root is the group that the top directory has before, with the mode of a group's.
		root     int
		readOnly bool
		want     bool // whether files below get the group
	}{
		{"no policy", nil, 77, false, true},
		{"always", &always, 77, false, true},
		{"mismatch", &mismatch, 0, false, true},
		{"match", &mismatch, 77, false, false},
		{"read-only", nil, 0, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, pods := t.TempDir(), t.TempDir()
			outside := filepath.Join(t.TempDir(), "outside")
			deep := filepath.Join(source, "a/b")
			file := filepath.Join(deep, "f")
			err := errors.Join(os.MkdirAll(deep, 0o700), os.WriteFile(file, nil, 0o400), os.WriteFile(outside, nil, 0o600),
				os.Symlink(outside, filepath.Join(source, "l")), syscall.Mkfifo(filepath.Join(source, "fifo"), 0o600), os.Chown(source, -1, test.root), os.Chmod(source, 0o770|os.ModeSetgid))
			if err != nil {
				t.Fatal(err)
			}
			s, pod := newStorage(source), claimPod()
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(77)), FSGroupChangePolicy: test.policy}
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = test.readOnly
			set := s.set(t)
			if _, err := set.SetUp(t.Context(), pod, filepath.Join(pods, "web-uid")); err != nil {
				t.Fatal(err)
			}
			wantFile, wantDirectory := "0 400", "0 700"
			if test.want {
				wantFile, wantDirectory = "77 660", "77 2770"
			}
			if got := ownership(t, file); got != wantFile {
				t.Errorf("the file has %s, want %s", got, wantFile)
			}
			if got := ownership(t, deep); got != wantDirectory {
				t.Errorf("the directory has %s, want %s", got, wantDirectory)
			}
			if got := ownership(t, outside); got != "0 600" {
				t.Errorf("what a link points to has %s", got)
			}
			// Another pod does not take a volume in use away.
			if !test.readOnly {
				other := pod.DeepCopy()
				other.UID, other.Spec.SecurityContext = "other-uid", &corev1.PodSecurityContext{FSGroup: new(int64(78))}
				before := ownership(t, source)
				if _, err := set.SetUp(t.Context(), other, filepath.Join(pods, "other-uid")); err != nil {
					t.Fatal(err)
				}
				if got := ownership(t, source); got != before {
					t.Errorf("a second pod changed %s to %s", before, got)
				}
			}
			for _, uid := range []string{"web-uid", "other-uid"} {
				if err := set.TearDown(t.Context(), filepath.Join(pods, uid)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// ownership returns the group and the mode of a file.
func ownership(t *testing.T, path string) string {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %o", s.Gid, s.Mode&0o7777)
}

// TestMemorySize: a volume in memory is as large as its limit, or the memory that the pod may use if
// that is less.
func TestMemorySize(t *testing.T) {
	needsRoot(t)
	const mib = 1 << 20
	for _, test := range []struct{ own, pod, want int64 }{
		{0, 8 * mib, 8 * mib}, {4 * mib, 8 * mib, 4 * mib}, {16 * mib, 8 * mib, 8 * mib}, {4 * mib, 0, 4 * mib},
	} {
		from := sources()
		from.MemoryLimit = func(*corev1.Pod) int64 { return test.pod }
		set, err := volumes.NewSet(volumes.Builtin(from)...)
		if err != nil {
			t.Fatal(err)
		}
		source := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if test.own > 0 {
			source.SizeLimit = quantity(test.own)
		}
		directory := t.TempDir()
		paths, err := set.SetUp(t.Context(), volumePod(volume("v", corev1.VolumeSource{EmptyDir: source})), directory)
		if err != nil {
			t.Fatal(err)
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(paths["v"], &fs); err != nil {
			t.Fatal(err)
		}
		if got := int64(fs.Blocks) * fs.Bsize; got != test.want {
			t.Errorf("limit %d, pod %d: %d bytes, want %d", test.own, test.pod, got, test.want)
		}
		if err := set.TearDown(t.Context(), directory); err != nil {
			t.Error(err)
		}
	}
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
