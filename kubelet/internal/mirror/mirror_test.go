package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var podResource = schema.GroupResource{Resource: "pods"}

// api is an API with faults, and a cache of it that is a while behind.
type api struct {
	cache  *localcache.Map[*corev1.Pod]
	random *rand.Rand // guarded by mu

	mu sync.Mutex
	// The fields below are guarded by mu.
	pods    map[string]*corev1.Pod
	version int
	faults  bool
	// calls and writes count all requests and those that changed something.
	calls, writes int
	// log holds the changes that the cache has yet to receive.
	log []func()
}

// fault returns an error for some calls; half of these take effect nevertheless. The caller holds mu.
func (a *api) fault() (err error, effect bool) {
	a.calls++
	if !a.faults || a.random.IntN(3) > 0 {
		return nil, true
	}
	return errors.New("broken"), a.random.IntN(2) == 0
}

// set stores a pod, or removes it if pod is nil. The caller holds mu.
func (a *api) set(key string, pod *corev1.Pod) *corev1.Pod {
	a.version++
	if pod == nil {
		delete(a.pods, key)
		a.log = append(a.log, func() { a.cache.Delete(key) })
		return nil
	}
	pod = pod.DeepCopy()
	pod.ResourceVersion = strconv.Itoa(a.version)
	a.pods[key] = pod
	a.log = append(a.log, func() { a.cache.Put(pod) })
	return pod
}

// deliver gives the cache all changes.
func (a *api) deliver() {
	a.mu.Lock()
	log := a.log
	a.log = nil
	a.mu.Unlock()
	for _, change := range log {
		change()
	}
}

func (a *api) get(key string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[key]
}

func (a *api) Get(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err, _ := a.fault(); err != nil {
		return nil, err
	}
	if pod := a.pods[namespace+"/"+name]; pod != nil {
		return pod, nil
	}
	return nil, apierrors.NewNotFound(podResource, name)
}

func (a *api) Create(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err, effect := a.fault()
	if !effect {
		return nil, err
	}
	key := localcache.KeyOf(pod)
	if a.pods[key] != nil {
		return nil, apierrors.NewAlreadyExists(podResource, pod.Name)
	}
	a.writes++
	pod = pod.DeepCopy()
	pod.UID = types.UID(fmt.Sprintf("api-%d", a.version))
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	pod = a.set(key, pod)
	if err != nil {
		return nil, err
	}
	return pod, nil
}

func (a *api) UpdateStatus(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err, effect := a.fault()
	if !effect {
		return nil, err
	}
	key := localcache.KeyOf(pod)
	old := a.pods[key]
	switch {
	case old == nil:
		return nil, apierrors.NewNotFound(podResource, pod.Name)
	case old.UID != pod.UID || old.ResourceVersion != pod.ResourceVersion:
		return nil, apierrors.NewConflict(podResource, pod.Name, errors.New("modified"))
	}
	a.writes++
	next := old.DeepCopy()
	next.Status = *pod.Status.DeepCopy()
	next = a.set(key, next)
	if err != nil {
		return nil, err
	}
	return next, nil
}

func (a *api) Delete(_ context.Context, namespace, name string, o metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err, effect := a.fault()
	if !effect {
		return err
	}
	old := a.pods[namespace+"/"+name]
	switch {
	case old == nil:
		return apierrors.NewNotFound(podResource, name)
	case *o.Preconditions.UID != old.UID || *o.GracePeriodSeconds != 0:
		return apierrors.NewConflict(podResource, name, errors.New("another uid"))
	}
	a.writes++
	a.set(namespace+"/"+name, nil)
	return err
}

// staticPod returns a static pod with a hash.
func staticPod(name, hash string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(hash), Annotations: map[string]string{
			annotationHash: hash, annotationSource: "file",
		}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// rig is a keeper on an API.
type rig struct {
	*Keeper
	api    *api
	static *localcache.Map[*corev1.Pod]

	mu     sync.Mutex
	ending map[string]bool // guarded by mu, by name
}

func newRig(t *testing.T, random *rand.Rand) *rig {
	a := &api{cache: localcache.NewMap[*corev1.Pod](), pods: map[string]*corev1.Pod{}, random: random}
	r := &rig{api: a, static: localcache.NewMap[*corev1.Pod](), ending: map[string]bool{}}
	r.Keeper = New(Config{
		Static: r.static, API: a.cache, Pods: a, Create: a.Create,
		Node: func(context.Context) (*corev1.Node, error) {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "uid-node"}}, nil
		},
		Current: func(pod *corev1.Pod) *corev1.Pod { return pod },
		Ending: func(_, name string, _ types.UID) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.ending[name]
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return r
}

func (r *rig) setEnding(name string, is bool) {
	r.mu.Lock()
	r.ending[name] = is
	r.mu.Unlock()
	r.Notify("default/" + name)
}

// settle lets the keeper do all that it can do now.
func (r *rig) settle() {
	for range 3 {
		synctest.Wait()
		r.api.deliver()
	}
	synctest.Wait()
}

func TestMirrorPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.static.Put(staticPod("web", "h1", corev1.PodRunning))
		r.settle()
		pod := r.api.get("default/web")
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "uid-node", Controller: new(true)}
		if pod == nil || pod.Annotations[corev1.MirrorPodAnnotationKey] != "h1" || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].String() != owner.String() ||
			pod.Status.Phase != corev1.PodRunning || len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Type != corev1.PodScheduled {
			t.Fatalf("the mirror pod is %v, want the hash h1, the owner %v, Running, and the condition PodScheduled alone", pod, &owner)
		}
		// Nothing is written when nothing changes.
		writes := r.api.writes
		time.Sleep(10 * resyncPeriod)
		r.settle()
		if r.api.writes != writes {
			t.Errorf("%d writes without a change", r.api.writes-writes)
		}
		for _, c := range []struct {
			name   string
			change func(*corev1.Pod) *corev1.Pod
		}{
			{"deleted", func(*corev1.Pod) *corev1.Pod { return nil }},
			{"being deleted", func(p *corev1.Pod) *corev1.Pod { p.DeletionTimestamp = &metav1.Time{Time: time.Now()}; return p }},
			{"of another manifest", func(p *corev1.Pod) *corev1.Pod { p.Annotations[corev1.MirrorPodAnnotationKey] = "h0"; return p }},
			{"failed", func(p *corev1.Pod) *corev1.Pod { p.Status.Phase = corev1.PodFailed; return p }},
		} {
			before := r.api.get("default/web").UID
			r.api.mu.Lock()
			r.api.set("default/web", c.change(r.api.pods["default/web"].DeepCopy()))
			r.api.mu.Unlock()
			r.api.deliver()
			synctest.Wait()
			// The keeper does not need the cache to know what it has written.
			calls := r.api.calls
			r.Notify("default/web")
			synctest.Wait()
			if r.api.calls != calls {
				t.Errorf("%s: %d requests while the cache is old", c.name, r.api.calls-calls)
			}
			r.settle()
			if pod := r.api.get("default/web"); pod == nil || pod.UID == before || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
				t.Errorf("%s: the mirror pod is %v, want one of another UID than %s, Running, not being deleted", c.name, pod, before)
			}
		}
		// While the earlier pod ends, the mirror pod shows it.
		r.setEnding("web", true)
		r.static.Put(staticPod("web", "h2", corev1.PodPending))
		r.settle()
		if pod := r.api.get("default/web"); pod.Annotations[corev1.MirrorPodAnnotationKey] != "h1" {
			t.Errorf("replaced too early: %+v", pod)
		}
		r.setEnding("web", false)
		r.settle()
		if pod := r.api.get("default/web"); pod.Annotations[corev1.MirrorPodAnnotationKey] != "h2" {
			t.Errorf("not replaced: %+v", pod)
		}
		r.setEnding("web", true)
		r.static.Delete("default/web")
		r.settle()
		if r.api.get("default/web") == nil {
			t.Error("deleted while the pod ends")
		}
		r.setEnding("web", false)
		r.settle()
		if pod := r.api.get("default/web"); pod != nil {
			t.Errorf("left: %+v", pod)
		}
	})
}

// TestOthersStay: a pod that is no mirror pod is never touched, unless it is being deleted and has
// the name of a static pod.
func TestOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "other"}}
		r.api.mu.Lock()
		r.api.set("default/web", other)
		r.api.mu.Unlock()
		r.settle()
		r.static.Put(staticPod("web", "h", corev1.PodRunning))
		time.Sleep(time.Minute)
		r.settle()
		if pod := r.api.get("default/web"); pod == nil || pod.UID != "other" || r.api.writes > 0 {
			t.Fatalf("the pod is %v after %d writes, want the UID other and no write", pod, r.api.writes)
		}
		other = r.api.get("default/web").DeepCopy()
		other.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		r.api.mu.Lock()
		r.api.set("default/web", other)
		r.api.mu.Unlock()
		time.Sleep(time.Minute)
		r.settle()
		if pod := r.api.get("default/web"); pod == nil || pod.Annotations[corev1.MirrorPodAnnotationKey] != "h" {
			t.Errorf("the pod is %v, want the mirror pod with the hash h", pod)
		}
	})
}

// TestRandom: after random changes and faults, each static pod has exactly its mirror pod.
func TestRandom(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runRandom(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func runRandom(t *testing.T, random *rand.Rand) {
	r := newRig(t, rand.New(rand.NewPCG(random.Uint64(), 0)))
	names := []string{"a", "b", "c"}
	phases := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}
	r.api.mu.Lock()
	r.api.faults = true
	r.api.mu.Unlock()
	for range 100 {
		name := names[random.IntN(len(names))]
		key := "default/" + name
		switch random.IntN(7) {
		case 0:
			r.static.Put(staticPod(name, fmt.Sprint("h", random.IntN(3)), phases[random.IntN(3)]))
		case 1:
			r.static.Delete(key)
		case 2, 3: // a client deletes the pod, or asks for that
			r.api.mu.Lock()
			if pod := r.api.pods[key]; pod != nil && random.IntN(2) == 0 {
				r.api.set(key, nil)
			} else if pod != nil {
				pod = pod.DeepCopy()
				pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				r.api.set(key, pod)
			}
			r.api.mu.Unlock()
		case 4:
			r.setEnding(name, random.IntN(2) == 0)
		case 5:
			r.api.deliver()
		case 6:
			time.Sleep(time.Duration(random.IntN(5)) * time.Second)
		}
	}
	r.api.mu.Lock()
	r.api.faults = false
	r.api.mu.Unlock()
	for _, name := range names {
		r.setEnding(name, false)
	}
	for range 5 {
		r.settle()
		time.Sleep(resyncPeriod)
	}
	for _, name := range names {
		static, exists := r.static.Get("default/" + name)
		pod := r.api.get("default/" + name)
		switch {
		case exists != (pod != nil):
			t.Errorf("%s: static %v, mirror pod %v", name, static, pod)
		case exists && (!Shows(pod, static) || pod.Status.Phase != static.Status.Phase || pod.DeletionTimestamp != nil):
			t.Errorf("%s: the mirror pod is %+v, the static pod %+v", name, pod, static)
		}
	}
	for name := range r.names {
		if _, exists := r.static.Get(name); !exists {
			t.Errorf("%s is remembered", name)
		}
	}
}

// TestIsStatic: a client of the API cannot make its pod a static one.
func TestIsStatic(t *testing.T) {
	pod := staticPod("web", "h", corev1.PodRunning)
	if !IsStatic(pod) {
		t.Error("a static pod is not one")
	}
	pod.ResourceVersion = "1"
	if IsStatic(pod) {
		t.Error("a pod of the API is a static pod")
	}
}

// TestDeletedBeforeSeen: a mirror pod that a client deletes before the cache has it is created again
// as soon as the cache reports the deletion.
func TestDeletedBeforeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.static.Put(staticPod("web", "h", corev1.PodRunning))
		synctest.Wait()
		first := r.api.get("default/web")
		r.api.mu.Lock()
		r.api.set("default/web", nil)
		r.api.mu.Unlock()
		r.settle()
		if pod := r.api.get("default/web"); pod == nil || pod.UID == first.UID {
			t.Errorf("%+v, was %+v", pod, first)
		}
	})
}
