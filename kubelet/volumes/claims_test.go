package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// storage holds the claim data and its volume pv, as in the API.
type storage struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	labels map[string]string
}

// newStorage returns a claim that is bound to a local volume at path.
func newStorage(path string) *storage {
	return &storage{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim-uid"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		volume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim-uid"},
			},
		},
		labels: map[string]string{corev1.LabelHostname: "node-1"},
	}
}

func (s *storage) set(t *testing.T) *volumes.Set {
	t.Helper()
	set, err := volumes.NewSet(volumes.Builtin(sources())...)
	if err != nil {
		t.Fatal(err)
	}
	return set.With(volumes.Claims{
		Claim: func(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
			if s.claim == nil || namespace != s.claim.Namespace || name != s.claim.Name {
				return nil, fmt.Errorf("persistentvolumeclaims %q not found", name)
			}
			return s.claim, nil
		},
		PersistentVolume: func(_ context.Context, name string) (*corev1.PersistentVolume, error) {
			if s.volume == nil || name != s.volume.Name {
				return nil, fmt.Errorf("persistentvolumes %q not found", name)
			}
			return s.volume, nil
		},
		NodeLabels: func(context.Context) (map[string]string, error) { return s.labels, nil },
	})
}

// claimPod returns a pod that mounts the claim data.
func claimPod() *corev1.Pod {
	pod := volumePod(volume("v", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}))
	pod.Namespace, pod.Name, pod.UID = "default", "web", "web-uid"
	pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}}
	return pod
}

func affinity(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}}}}
}

// TestClaims: how a claim leads to a volume, and Kubernetes' words when it does not.
func TestClaims(t *testing.T) {
	const processing = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
	block := corev1.PersistentVolumeBlock
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: uid, Controller: new(true)}}
	}
	ephemeral := func(s *storage, pod *corev1.Pod) {
		s.claim.Name = "web-v"
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	}
	for _, test := range []struct {
		name   string
		change func(*storage, *corev1.Pod)
		err    string
	}{
		{"bound", func(*storage, *corev1.Pod) {}, ""},
		{"on this node", func(s *storage, _ *corev1.Pod) {
			s.volume.Spec.NodeAffinity = affinity(corev1.LabelHostname, "node-0", "node-1")
		}, ""},
		{"protected and being deleted", func(s *storage, _ *corev1.Pod) {
			s.claim.DeletionTimestamp, s.claim.Finalizers = new(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
		}, ""},
		{"own ephemeral", func(s *storage, pod *corev1.Pod) {
			ephemeral(s, pod)
			s.claim.OwnerReferences = owner("web-uid")
		}, ""},
		{"host path", func(s *storage, _ *corev1.Pod) {
			s.volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: s.volume.Spec.Local.Path}
			s.volume.Spec.Local = nil
		}, ""},
		{"another's ephemeral", func(s *storage, pod *corev1.Pod) {
			ephemeral(s, pod)
			s.claim.OwnerReferences = owner("other-uid")
		}, processing + "PVC default/web-v was not created for pod default/web (pod is not owner)"},
		{"no claim", func(s *storage, _ *corev1.Pod) { s.claim = nil },
			processing + `error processing PVC default/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found`},
		{"pending", func(s *storage, _ *corev1.Pod) { s.claim.Status.Phase = corev1.ClaimPending },
			processing + "error processing PVC default/data: PVC is not bound"},
		{"lost", func(s *storage, _ *corev1.Pod) { s.claim.Spec.VolumeName = "" },
			processing + "error processing PVC default/data: PVC has empty pvc.Spec.VolumeName"},
		{"being deleted", func(s *storage, _ *corev1.Pod) { s.claim.DeletionTimestamp = new(metav1.Now()) },
			processing + "error processing PVC default/data: PVC is being deleted"},
		{"no volume", func(s *storage, _ *corev1.Pod) { s.volume = nil },
			processing + `error processing PVC default/data: failed to fetch PV pv from API server: persistentvolumes "pv" not found`},
		{"free volume", func(s *storage, _ *corev1.Pod) { s.volume.Spec.ClaimRef = nil },
			processing + "error processing PVC default/data: found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"},
		{"another's volume", func(s *storage, _ *corev1.Pod) { s.volume.Spec.ClaimRef.UID = "other" },
			processing + "error processing PVC default/data: found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID claim-uid"},
		{"mounted block device", func(s *storage, _ *corev1.Pod) { s.volume.Spec.VolumeMode = &block },
			processing + "volume v has volumeMode Block, but is specified in volumeMounts"},
		{"file system as a device", func(_ *storage, pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
		}, processing + "volume v has volumeMode Filesystem, but is specified in volumeDevices"},
		{"block device", func(s *storage, pod *corev1.Pod) {
			s.volume.Spec.VolumeMode, pod.Spec.Containers[0].VolumeMounts = &block, nil
		}, `MountVolume.SetUp failed for volume "pv" : block devices are not supported by this kubelet`},
		{"on another node", func(s *storage, _ *corev1.Pod) { s.volume.Spec.NodeAffinity = affinity(corev1.LabelHostname, "node-2") },
			`MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		{"no directory", func(s *storage, _ *corev1.Pod) { s.volume.Spec.Local.Path = "/not/there" },
			`MountVolume.NewMounter initialization failed for volume "pv" : path "/not/there" does not exist`},
		{"file", func(s *storage, _ *corev1.Pod) { s.volume.Spec.Local.Path = file },
			`MountVolume.NewMounter initialization failed for volume "pv" : only directory and block device are supported`},
		{"path upwards", func(s *storage, _ *corev1.Pod) { s.volume.Spec.Local.Path = "/srv/../etc" },
			`MountVolume.SetUp failed for volume "pv" : invalid path: /srv/../etc must not contain '..'`},
		{"other kind", func(s *storage, _ *corev1.Pod) {
			s.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}
		}, `MountVolume.SetUp failed for volume "pv" : this kind of volume is not supported by this kubelet`},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, directory := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(source, "kept"), []byte("yes"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, pod := newStorage(source), claimPod()
			test.change(s, pod)
			set := s.set(t)
			for range 2 { // again, as while the pod runs
				paths, err := set.SetUp(t.Context(), pod, directory)
				if test.err != "" {
					if err == nil || err.Error() != test.err {
						t.Errorf("error %v, want %s", err, test.err)
					}
				} else if err != nil {
					t.Error(err)
				} else if got := contents(t, paths["v"]); got != "kept=yes" {
					t.Errorf("the volume at %s contains %q", paths["v"], got)
				}
			}
			if err := errors.Join(set.TearDown(t.Context(), directory), os.RemoveAll(directory)); err != nil {
				t.Error(err)
			}
			if got := contents(t, source); got != "kept=yes" {
				t.Errorf("after the pod has gone, the volume contains %q", got)
			}
		})
	}
}

// TestTwoClaimsFail: the error names all volumes whose claims are not ready.
func TestTwoClaimsFail(t *testing.T) {
	s, pod := newStorage(t.TempDir()), claimPod()
	for _, name := range []string{"b", "a"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}))
	}
	_, err := s.set(t).SetUp(t.Context(), pod, t.TempDir())
	const want = "Unable to attach or mount volumes: unmounted volumes=[b a], unattached volumes=[], failed to process volumes=[b a]: " +
		`error processing PVC default/a: failed to fetch PVC from API server: persistentvolumeclaims "a" not found; ` +
		`error processing PVC default/b: failed to fetch PVC from API server: persistentvolumeclaims "b" not found`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	if failed, ok := errors.AsType[*volumes.ClaimError](err); !ok || len(failed.Volumes) != 2 {
		t.Errorf("%T does not name two volumes", err)
	}
}

// TestNoClaims: a set without access to claims says that it does not support them.
func TestNoClaims(t *testing.T) {
	set, err := volumes.NewSet(volumes.Builtin(sources())...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.SetUp(t.Context(), claimPod(), t.TempDir()); err == nil ||
		err.Error() != `MountVolume.SetUp failed for volume "v" : this kind of volume is not supported by this kubelet` {
		t.Errorf("error %v", err)
	}
}
