package planetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mustStore creates an object.
func mustStore[T client.Object](t *testing.T, r client.Resource[T], object T) T {
	t.Helper()
	object, err := r.Create(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func storageOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

var once = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}

func newVolume(name, size, class, node, path string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: storageOf(size), AccessModes: once, StorageClassName: class,
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
	}}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	return v
}

func newClaim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: storageOf(size)}}}
}

func podWith(name string, source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}},
		Containers: []corev1.Container{{Name: "c", Image: "busybox",
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
	}}
}

func claimed(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// storageView reads what a test waits for.
type storageView struct{ p *plane.Plane }

// want waits until the object has a state: its phase with what it is bound to, or the node of a pod
// with why it is not scheduled. The state of a missing object is empty.
func (s storageView) want(t *testing.T, state func() (string, error), want string) {
	t.Helper()
	planetest.Eventually(t, func() error {
		got, err := state()
		if apierrors.IsNotFound(err) {
			got, err = "", nil
		}
		if err == nil && got != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

func (s storageView) claim(t *testing.T, name string) func() (string, error) {
	return func() (string, error) {
		c, err := typed.PersistentVolumeClaims(s.p.Client()).Get(t.Context(), "default", name)
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(c.Status.Phase) + " " + c.Spec.VolumeName), nil
	}
}

func (s storageView) volume(t *testing.T, name string) func() (string, error) {
	return func() (string, error) {
		v, err := typed.PersistentVolumes(s.p.Client()).Get(t.Context(), "", name)
		if err != nil {
			return "", err
		}
		return string(v.Status.Phase), nil
	}
}

func (s storageView) pod(t *testing.T, name string) func() (string, error) {
	return func() (string, error) {
		pod, err := typed.Pods(s.p.Client()).Get(t.Context(), "default", name)
		if err != nil || pod.Spec.NodeName != "" {
			return pod.Spec.NodeName + " " + string(pod.Status.Phase), err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				return c.Message, nil
			}
		}
		return "", nil
	}
}

// TestVolumes: claims get volumes, and pods run where the volumes of their claims are. What is in use
// stays, and the volume of a claim that is gone is not given to another.
func TestVolumes(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(2)).Plane
	see := storageView{p}
	pods, claims, volumes := typed.Pods(p.Client()), typed.PersistentVolumeClaims(p.Client()), typed.PersistentVolumes(p.Client())
	disk := t.TempDir()
	if err := os.WriteFile(filepath.Join(disk, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}

	mustStore(t, pods, podWith("web", claimed("data")))
	see.want(t, see.pod(t, "web"), `0/2 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`)
	mustStore(t, claims, newClaim("data", "1Gi"))
	see.want(t, see.pod(t, "web"), "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
	mustStore(t, volumes, newVolume("disk", "1Gi", "", "node-2", disk))
	see.want(t, see.claim(t, "data"), "Bound disk")
	see.want(t, see.volume(t, "disk"), "Bound")
	see.want(t, see.pod(t, "web"), "node-2 Running")

	// A claim whose class waits for a consumer is bound to a volume of the pod's node.
	mustStore(t, typed.StorageClasses(p.Client()), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "waits"},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)})
	mustStore(t, volumes, newVolume("one", "1Gi", "waits", "node-1", disk))
	mustStore(t, volumes, newVolume("two", "1Gi", "waits", "node-2", disk))
	late := newClaim("late", "1Gi")
	late.Spec.StorageClassName = new("waits")
	mustStore(t, claims, late)
	see.want(t, see.volume(t, "one"), "Available")
	see.want(t, see.volume(t, "two"), "Available")
	see.want(t, see.claim(t, "late"), "Pending")
	consumer := podWith("late", claimed("late"))
	consumer.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
	mustStore(t, pods, consumer)
	see.want(t, see.claim(t, "late"), "Bound one")
	see.want(t, see.pod(t, "late"), "node-1 Running")
	second := newClaim("second", "1Gi")
	second.Spec.StorageClassName = new("waits")
	mustStore(t, claims, second)
	consumer = podWith("second", claimed("second"))
	consumer.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
	mustStore(t, pods, consumer)
	see.want(t, see.pod(t, "second"), "0/2 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")

	// A claim in use stays until its pod is gone; then its volume is released, with its contents.
	if err := claims.Delete(t.Context(), "default", "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	see.want(t, see.claim(t, "data"), "Bound disk")
	if err := pods.Delete(t.Context(), "default", "web", now); err != nil {
		t.Fatal(err)
	}
	see.want(t, see.claim(t, "data"), "")
	see.want(t, see.volume(t, "disk"), "Released")
	mustStore(t, claims, newClaim("data", "1Gi"))
	mustStore(t, pods, podWith("web", claimed("data")))
	see.want(t, see.pod(t, "web"), "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
	see.want(t, see.claim(t, "data"), "Pending")

	// The claim of an ephemeral volume comes and goes with the pod.
	mustStore(t, volumes, newVolume("scratch", "3Gi", "", "node-1", disk))
	see.want(t, see.claim(t, "data"), "Bound scratch")
	mustStore(t, volumes, newVolume("more", "3Gi", "", "node-1", disk))
	mustStore(t, pods, podWith("scratch", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: newClaim("", "2Gi").Spec}}}))
	see.want(t, see.claim(t, "scratch-v"), "Bound more")
	see.want(t, see.pod(t, "scratch"), "node-1 Running")
	if err := pods.Delete(t.Context(), "default", "scratch", now); err != nil {
		t.Fatal(err)
	}
	see.want(t, see.claim(t, "scratch-v"), "")
	see.want(t, see.volume(t, "more"), "Released")
	if _, err := os.Stat(filepath.Join(disk, "kept")); err != nil {
		t.Error(err)
	}
}
