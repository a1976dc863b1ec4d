package volumebinding_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/volumebinding"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// world holds the caches of a cluster with the nodes n1 and n2.
type world struct {
	nodes   *localcache.Map[*corev1.Node]
	claims  *localcache.Map[*corev1.PersistentVolumeClaim]
	volumes *localcache.Map[*corev1.PersistentVolume]
	classes *localcache.Map[*storagev1.StorageClass]

	mu sync.Mutex // guards writes
	// writes counts the updates of volumes.
	writes int
	// refuse makes updates fail; binds makes the controller of claims complete a binding.
	refuse error
	binds  bool
}

func newWorld() *world {
	w := &world{
		nodes: localcache.NewMap(node("n1"), node("n2")), claims: localcache.NewMap[*corev1.PersistentVolumeClaim](),
		volumes: localcache.NewMap[*corev1.PersistentVolume](), binds: true,
		classes: localcache.NewMap(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "waits"},
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}),
	}
	return w
}

func (w *world) binder() *volumebinding.Binder {
	b, err := volumebinding.New(volumebinding.Config{
		Nodes: w.nodes, Claims: w.claims, Volumes: w.volumes, Classes: w.classes, Update: w.update, Timeout: time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	return b
}

// update stores a volume, unless another claim has it, and completes the binding as a controller does.
func (w *world) update(_ context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return nil, w.refuse
	}
	if old, ok := w.volumes.Get(v.Name); !ok || old.Spec.ClaimRef != nil {
		return nil, errors.New("conflict")
	}
	w.writes++
	w.volumes.Put(v)
	if ref := v.Spec.ClaimRef; w.binds {
		claim, _ := w.claims.Get(ref.Namespace + "/" + ref.Name)
		w.claims.Put(bound(claim.DeepCopy(), v.Name))
	}
	return v, nil
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"at": name}}}
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	c.Spec.StorageClassName = &class
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func bound(c *corev1.PersistentVolumeClaim, volume string) *corev1.PersistentVolumeClaim {
	c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	return c
}

func volumeAt(name, at string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable}}
	v.Spec.StorageClassName, v.Spec.Capacity = "waits", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "at", Operator: corev1.NodeSelectorOpIn, Values: []string{at}}}}}}}
	return v
}

func podWith(claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}}
	for _, name := range claims {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
		if name == "" {
			source = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v" + name, VolumeSource: source})
	}
	return pod
}

// decide returns the chosen node or the message of a decision.
func (w *world) decide(b *volumebinding.Binder, pod *corev1.Pod) string {
	s := schedule.NewState([]schedule.Predicate{b}, nil, 1)
	for n := range w.nodes.All() {
		s.SetNode(n)
	}
	chosen, unfit := s.Decide(schedule.NewPodInfo(pod))
	if unfit != nil {
		return unfit.Error()
	}
	return chosen
}

// A pod runs where the volume of its claim is.
func Example() {
	w := newWorld()
	w.volumes.Put(volumeAt("disk", "n2"))
	w.claims.Put(bound(claim("data", "waits"), "disk"))
	volumes, err := volumebinding.New(volumebinding.Config{
		Nodes: w.nodes, Claims: w.claims, Volumes: w.volumes, Classes: w.classes, Update: w.update,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.decide(volumes, podWith("data")))
	// Output: n2
}

func TestDecisions(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*world)
		pod  *corev1.Pod
		want string
	}{
		{"missing", func(*world) {}, podWith("data"), `0/2 nodes are available: persistentvolumeclaim "data" not found.`},
		{"ephemeral, missing", func(*world) {}, podWith(""),
			`0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "web-v".`},
		{"ephemeral of another", func(w *world) { w.claims.Put(bound(claim("web-v", ""), "disk")) }, podWith(""),
			"0/2 nodes are available: PVC default/web-v was not created for pod default/web (pod is not owner)."},
		{"lost", func(w *world) {
			c := bound(claim("data", ""), "disk")
			c.Status.Phase = corev1.ClaimLost
			w.claims.Put(c)
		}, podWith("data"), `0/2 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "disk".`},
		{"being deleted", func(w *world) {
			c := bound(claim("data", ""), "disk")
			c.DeletionTimestamp = new(metav1.Now())
			w.claims.Put(c)
		}, podWith("data"), `0/2 nodes are available: persistentvolumeclaim "data" is being deleted.`},
		{"immediate", func(w *world) { w.claims.Put(claim("data", "")) }, podWith("data"),
			"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		{"named volume", func(w *world) {
			c := claim("data", "waits")
			c.Spec.VolumeName = "disk"
			w.claims.Put(c)
		}, podWith("data"), "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		{"no volume", func(w *world) { w.claims.Put(bound(claim("data", ""), "disk")) }, podWith("data"),
			"0/2 nodes are available: 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."},
		{"elsewhere", func(w *world) {
			w.volumes.Put(volumeAt("disk", "n3"))
			w.claims.Put(bound(claim("data", ""), "disk"))
		}, podWith("data"), "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."},
		{"delayed", func(w *world) {
			w.volumes.Put(volumeAt("disk", "n1"))
			w.claims.Put(claim("data", "waits"))
		}, podWith("data"), "n1"},
		{"two delayed and one volume", func(w *world) {
			w.volumes.Put(volumeAt("disk", "n1"))
			w.claims.Put(claim("a", "waits"))
			w.claims.Put(claim("b", "waits"))
		}, podWith("a", "b"), "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."},
		{"the same claim twice", func(w *world) {
			w.volumes.Put(volumeAt("disk", "n1"))
			w.claims.Put(claim("a", "waits"))
		}, podWith("a", "a"), "n1"},
	} {
		w := newWorld()
		test.set(w)
		if got := w.decide(w.binder(), test.pod); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestPreBind: a claim that waits gets its volume before the pod is bound, and of two pods for one
// volume one fails.
func TestPreBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		b := w.binder()
		w.volumes.Put(volumeAt("disk", "n1"))
		w.claims.Put(claim("a", "waits"))
		w.claims.Put(claim("b", "waits"))
		if err := b.PreBind(t.Context(), podWith("a"), "n2"); err == nil || !strings.Contains(err.Error(), "didn't find available persistent volumes") {
			t.Errorf("on a node without a volume: %v", err)
		}
		var failures [2]error
		var group sync.WaitGroup
		for i, name := range []string{"a", "b"} {
			group.Go(func() { failures[i] = b.PreBind(t.Context(), podWith(name), "n1") })
		}
		group.Wait()
		if (failures[0] == nil) == (failures[1] == nil) || w.writes != 1 {
			t.Errorf("errors %v after %d writes, want one of each", failures, w.writes)
		}
		// The winner is bound now: nothing is left to do.
		winner := "a"
		if failures[0] != nil {
			winner = "b"
		}
		if err := b.PreBind(t.Context(), podWith(winner), "n1"); err != nil || w.writes != 1 {
			t.Errorf("again: %v after %d writes", err, w.writes)
		}
	})
}

// TestPreBindFails: a failed write and a claim that is not bound in time are errors, after which the
// volume can be given to another.
func TestPreBindFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		b := w.binder()
		w.volumes.Put(volumeAt("disk", "n1"))
		w.claims.Put(claim("a", "waits"))
		w.refuse = errors.New("refused")
		if err := b.PreBind(t.Context(), podWith("a"), "n1"); !errors.Is(err, w.refuse) {
			t.Errorf("refused: %v", err)
		}
		w.refuse, w.binds = nil, false
		start := time.Now()
		if err := b.PreBind(t.Context(), podWith("a"), "n1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("not bound: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := b.Within(0).(schedule.PreBinder).PreBind(t.Context(), podWith("a"), "n1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("without patience: %v after %v", err, time.Since(start))
		}
		// What was written stays: the volume is the claim's now, and is awaited.
		go func() {
			time.Sleep(time.Second)
			w.claims.Put(bound(claim("a", "waits"), "disk"))
		}()
		if err := b.PreBind(t.Context(), podWith("a"), "n1"); err != nil || w.writes != 1 {
			t.Errorf("bound later: %v after %d writes", err, w.writes)
		}
		w.claims.Put(claim("b", "waits"))
		w.volumes.Put(volumeAt("more", "n1"))
		go func() {
			time.Sleep(time.Second)
			w.claims.Delete("default/b")
		}()
		if err := b.PreBind(t.Context(), podWith("b"), "n1"); err == nil || !strings.Contains(err.Error(), "claim default/b is gone") {
			t.Errorf("deleted meanwhile: %v", err)
		}
	})
}

// TestWakes: a pod is tried again when its claims, any volume or class, or the labels of a node change.
func TestWakes(t *testing.T) {
	b, pod := newWorld().binder(), schedule.NewPodInfo(podWith("data"))
	for _, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{schedule.Event{New: claim("data", "")}, true},
		{schedule.Event{Old: claim("data", "")}, true},
		{schedule.Event{New: claim("other", "")}, false},
		{schedule.Event{New: volumeAt("disk", "n1")}, true},
		{schedule.Event{New: &storagev1.StorageClass{}}, true},
		{schedule.Event{New: node("n1")}, true},
		{schedule.Event{Old: node("n1"), New: node("n2")}, true}, // other labels
		{schedule.Event{Old: node("n1"), New: node("n1")}, false},
		{schedule.Event{Old: node("n1")}, false},
		{schedule.Event{New: schedule.NewPodInfo(podWith())}, false},
	} {
		if got := b.Wakes(pod, test.event); got != test.want {
			t.Errorf("Wakes(%+v) = %t, want %t", test.event, got, test.want)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := volumebinding.New(volumebinding.Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}
