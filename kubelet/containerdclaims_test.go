package kubelet_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// claimStore has the claims and persistent volumes of an API, bound as controllers bind them.
type claimStore struct {
	mu      sync.Mutex
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

func newClaimStore() *claimStore {
	return &claimStore{claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}}
}

// bind makes a claim and a volume, both called name.
func (s *claimStore) bind(name string, spec corev1.PersistentVolumeSpec, owner *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	}
	spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID}
	s.claims[name], s.volumes[name] = claim, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func (s *claimStore) claim(_ context.Context, _, name string) (*corev1.PersistentVolumeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.claims[name]; ok {
		return c, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, name)
}

func (s *claimStore) volume(_ context.Context, _, name string) (*corev1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.volumes[name]; ok {
		return v, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumes"}, name)
}

func localVolume(path string, options ...string) corev1.PersistentVolumeSpec {
	return corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}, MountOptions: options,
	}
}

func claimSource(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

// containerdClaims mounts persistent volumes that are directories, through claims and as an ephemeral
// volume, and follows the group that a pod gives them.
func containerdClaims(t *testing.T, r *rig, storage *claimStore) {
	t.Run("mounts", func(t *testing.T) {
		t.Parallel()
		containerdClaimMounts(t, r, storage)
	})
	t.Run("group", func(t *testing.T) {
		t.Parallel()
		containerdClaimGroup(t, r, storage)
	})
}

func containerdClaimMounts(t *testing.T, r *rig, storage *claimStore) {
	local, host, own := t.TempDir(), t.TempDir(), t.TempDir()
	storage.bind("local", localVolume(local, "noexec"), nil)
	storage.bind("host", corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: host},
	}}, nil)
	pod := actorPod("claims")
	mountVolume(pod, "local", claimSource("local", false))
	mountVolume(pod, "host", claimSource("host", false))
	mountVolume(pod, "own", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}})
	created := r.api.create(pod)
	r.api.awaitEvent(t, "claims", "FailedMount", `Unable to attach or mount volumes: unmounted volumes=[own], unattached volumes=[], failed to process volumes=[own]: `+
		`error processing PVC default/claims-own: failed to fetch PVC from API server: persistentvolumeclaims "claims-own" not found`)
	storage.bind("claims-own", localVolume(own), created)
	in := r.inside(t, r.api.await(t, "claims", "running", running), "web")
	for name, directory := range map[string]string{"local": local, "host": host, "own": own} {
		r.does(t, in, "make", "/"+name+"/made")
		if _, err := os.Stat(filepath.Join(directory, "made")); err != nil {
			t.Error(err)
		}
	}
	if options := in.mountOptions(t, "/local"); len(options) != 1 || !slices.Contains(strings.Split(options[0], ","), "noexec") {
		t.Errorf("the volume with an option is mounted with %q", options)
	}
	var measured []string
	for _, s := range r.kubelet.ClaimStats(t.Context()) {
		if s.CapacityBytes > 0 && (s.Claim.Name == "local" || s.Claim.Name == "host" || s.Claim.Name == "claims-own") {
			measured = append(measured, s.Claim.Name)
		}
	}
	if got := strings.Join(measured, " "); got != "local claims-own" { // as in Kubernetes, not those of hostPath
		t.Errorf("statistics of the claims %q", got)
	}
	reader := actorPod("claims-reader")
	mountVolume(reader, "local", claimSource("local", true))
	readerUID := r.api.create(reader).UID
	r.refuses(t, r.inside(t, r.api.await(t, "claims-reader", "running", running), "web"), "make", "/local/other", "read-only file system")
	r.end(t, "claims", "claims-reader")
	nothingLeft(t, string(created.UID), string(readerUID))
	for _, directory := range []string{local, host, own} {
		if _, err := os.Stat(filepath.Join(directory, "made")); err != nil {
			t.Errorf("the pod's end removed what it had stored: %v", err)
		}
	}
}

// wantOwner fails unless a file belongs to a group and has a mode.
func wantOwner(t *testing.T, path string, group uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if got := info.Sys().(*syscall.Stat_t).Gid; got != group || info.Mode() != mode {
		t.Errorf("%s has the group %d and the mode %v, want %d and %v", path, got, info.Mode(), group, mode)
	}
}

func containerdClaimGroup(t *testing.T, r *rig, storage *claimStore) {
	const group = 4242
	for _, test := range []struct {
		name   string
		policy corev1.PodFSGroupChangePolicy
		ready  bool // the directory itself is the group's already
		given  bool // what is in it becomes the group's
	}{
		{"always", corev1.FSGroupChangeAlways, true, true},
		{"mismatch", corev1.FSGroupChangeOnRootMismatch, false, true},
		{"match", corev1.FSGroupChangeOnRootMismatch, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			directory, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
			at := func(name string) string { return filepath.Join(directory, name) }
			for _, err := range []error{
				os.WriteFile(outside, nil, 0o600), os.Mkdir(at("sub"), 0o700), os.WriteFile(at("sub/file"), nil, 0o600),
				os.Symlink(outside, at("link")), os.Chmod(directory, 0o700),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.ready {
				if err := os.Chown(directory, -1, group); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(directory, 0o770|fs.ModeSetgid); err != nil {
					t.Fatal(err)
				}
			}
			name := "group-" + test.name
			storage.bind(name, localVolume(directory), nil)
			pod := actorPod(name)
			mountVolume(pod, "v", claimSource(name, false))
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)), FSGroup: new(int64(group)), FSGroupChangePolicy: &test.policy}
			r.api.create(pod)
			in := r.inside(t, r.api.await(t, name, "running", running), "web")
			r.does(t, in, "make", "/v/made")
			wantOwner(t, directory, group, fs.ModeDir|fs.ModeSetgid|0o770)
			wantOwner(t, at("made"), group, 0o600)
			if test.given {
				wantOwner(t, at("sub"), group, fs.ModeDir|fs.ModeSetgid|0o770)
				wantOwner(t, at("sub/file"), group, 0o660)
				r.does(t, in, "make", "/v/sub/made")
				wantOwner(t, at("sub/made"), group, 0o600)
			} else {
				wantOwner(t, at("sub"), 0, fs.ModeDir|0o700)
				wantOwner(t, at("sub/file"), 0, 0o600)
				r.refuses(t, in, "make", "/v/sub/made", "permission denied")
			}
			wantOwner(t, outside, 0, 0o600)
			r.end(t, name)
		})
	}
}
