package controllers_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/volume"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func volumeScenarios() []scenario {
	return []scenario{
		{name: "volume binder", set: binds},
		{name: "ephemeral volumes", set: claimsForPods},
		{name: "protection of claims and volumes", set: protects},
	}
}

// storageWorld is an API with claims, volumes and pods.
type storageWorld struct {
	*api
	claims  *collection[*corev1.PersistentVolumeClaim]
	volumes *collection[*corev1.PersistentVolume]
	classes *collection[*storagev1.StorageClass]
	pods    *collection[*corev1.Pod]
}

func newStorageWorld() *storageWorld {
	a := &api{}
	return &storageWorld{
		api:     a,
		claims:  newCollection(a, "PersistentVolumeClaim", func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} }),
		volumes: newCollection(a, "PersistentVolume", func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} }),
		classes: newCollection(a, "StorageClass", func() *storagev1.StorageClass { return &storagev1.StorageClass{} }),
		pods:    newPods(a),
	}
}

func (w *storageWorld) binder(ctx context.Context, l lag) (*volume.Binder, error) {
	pods := l
	pods.unlisted = nil // only the words of an event depend on pods
	return volume.NewBinder(volume.BinderConfig{
		Claims: follow(ctx, w.claims, l), Volumes: follow(ctx, w.volumes, l), Classes: follow(ctx, w.classes, l),
		PodsByClaim: localcache.Scan(follow(ctx, w.pods, pods), volume.ByClaim),
		ClaimClient: w.claims, VolumeClient: w.volumes, Events: w.api,
	})
}

func (w *storageWorld) addClaim(name, size string, change ...func(*corev1.PersistentVolumeClaim)) {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, f := range change {
		f(c)
	}
	put(w.claims, c)
}

func (w *storageWorld) addVolume(name, size string, change ...func(*corev1.PersistentVolume)) {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/srv/" + name}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, f := range change {
		f(v)
	}
	put(w.volumes, v)
}

func (w *storageWorld) claim(name string) *corev1.PersistentVolumeClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims.objects["default/"+name]
}

func (w *storageWorld) volume(name string) *corev1.PersistentVolume {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.volumes.objects[name]
}

// wantBound checks that a claim and a volume are bound to each other; an empty volume means none.
func (w *storageWorld) wantBound(t *testing.T, claim, volume string) {
	t.Helper()
	c := w.claim(claim)
	if c == nil {
		t.Errorf("claim %s is gone", claim)
		return
	}
	if volume == "" {
		if c.Spec.VolumeName != "" || c.Status.Phase != corev1.ClaimPending {
			t.Errorf("claim %s is %s with volume %q, want it Pending", claim, c.Status.Phase, c.Spec.VolumeName)
		}
		return
	}
	v := w.volume(volume)
	if c.Spec.VolumeName != volume || c.Status.Phase != corev1.ClaimBound || v.Status.Phase != corev1.VolumeBound ||
		v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID || len(c.Status.Capacity) == 0 {
		t.Errorf("claim %s is %s with volume %q of %v, the volume is %s for %v; want it bound to %s",
			claim, c.Status.Phase, c.Spec.VolumeName, c.Status.Capacity, v.Status.Phase, v.Spec.ClaimRef, volume)
	}
}

func (w *storageWorld) wantPhase(t *testing.T, volume string, phase corev1.PersistentVolumePhase) {
	t.Helper()
	if got := w.volume(volume).Status.Phase; got != phase {
		t.Errorf("volume %s is %s, want %s", volume, got, phase)
	}
}

// binds has claims and volumes come and go. No volume is given to a second claim.
func binds(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newStorageWorld()
	w.addVolume("small", "1Gi", func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	})
	w.addVolume("large", "9Gi")
	w.addVolume("reserved", "1Gi", func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "special"}
	})
	put(w.classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)})
	w.addVolume("classed", "9Gi", func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "waits" })
	w.addClaim("first", "1Gi")
	w.addClaim("later", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("waits") })
	w.volumes.check = func(old, new *corev1.PersistentVolume) {
		if old == nil || new == nil {
			return
		}
		before, now := old.Spec.ClaimRef, new.Spec.ClaimRef
		if before != nil && before.UID != "" && (now == nil || now.UID != before.UID) && w.claims.objects[before.Namespace+"/"+before.Name] == nil {
			t.Errorf("volume %s of a claim that is gone now has %v", new.Name, now)
		}
	}
	w.claims.check = func(_, new *corev1.PersistentVolumeClaim) {
		of := map[string]string{}
		for _, c := range w.claims.objects {
			if other := of[c.Spec.VolumeName]; c.Spec.VolumeName != "" && other != "" {
				t.Errorf("claims %s and %s have volume %s", other, c.Name, c.Spec.VolumeName)
			}
			of[c.Spec.VolumeName] = c.Name
		}
	}
	st := single(t, w.api, w.binder)
	st.steps = []func(){
		func() { w.addClaim("special", "1Gi"); w.addClaim("second", "2Gi") },
		func() { removeOutside(t, w.claims, "default", "first") },
		func() { w.addClaim("first", "1Gi"); w.addClaim("third", "1Gi") },
		func() { w.addVolume("new", "3Gi") },
	}
	st.wanted = func() {
		w.wantBound(t, "special", "reserved")
		// The smallest volume that is large enough, which depends on when the caches are listed.
		second, rest := "large", []string{"new"}
		if w.claim("second").Spec.VolumeName == "new" {
			second, rest = "new", []string{"large"}
		}
		w.wantBound(t, "second", second)
		w.wantBound(t, "later", "")
		w.wantPhase(t, "classed", corev1.VolumeAvailable)
		var named []string
		for _, name := range []string{"first", "third"} {
			if c := w.claim(name); c.Spec.VolumeName != "" {
				w.wantBound(t, name, c.Spec.VolumeName)
				named = append(named, c.Spec.VolumeName)
			}
		}
		slices.Sort(named)
		// The first claim may have been deleted before it was bound.
		if !slices.Equal(named, rest) && !slices.Equal(named, append(rest, "small")) {
			t.Errorf("the last claims have the volumes %v", named)
		}
		if v := w.volume("small"); v.Spec.ClaimRef != nil && !slices.Contains(named, "small") {
			w.wantPhase(t, "small", corev1.VolumeFailed)
		}
	}
	return st
}

// ephemeralPod returns a pod with an ephemeral volume v.
func ephemeralPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": name}}}}}}},
		Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}},
	}}
}

func claimsForPods(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newStorageWorld()
	put(w.pods, ephemeralPod("a"))
	put(w.pods, ephemeralPod("blocked"))
	w.addClaim("blocked-v", "1Gi")
	st := single(t, w.api, func(ctx context.Context, l lag) (*volume.Ephemeral, error) {
		return volume.NewEphemeral(volume.EphemeralConfig{
			Pods: follow(ctx, w.pods, l), Claims: follow(ctx, w.claims, l), Writer: w.claims, Events: w.api,
		})
	})
	st.steps = []func(){
		func() { put(w.pods, ephemeralPod("b")) },
		func() { removeOutside(t, w.claims, "default", "a-v") },
	}
	st.wanted = func() {
		for _, name := range []string{"a", "b"} {
			c := w.claim(name + "-v")
			if c == nil || !metav1.IsControlledBy(c, w.pods.objects["default/"+name]) || c.Labels["of"] != name {
				t.Errorf("the claim of %s is %v", name, c)
			}
		}
		if c := w.claim("blocked-v"); c == nil || len(c.OwnerReferences) > 0 || len(w.claims.list()) != 3 {
			t.Errorf("the claim of a user is %v, of %d", c, len(w.claims.list()))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		const told = "Warning FailedBinding: ephemeral volume v: PVC default/blocked-v was not created for pod default/blocked (pod is not owner)"
		if !slices.Contains(w.events, told) {
			t.Errorf("no event %q in %q", told, w.events)
		}
	}
	return st
}

// protects deletes claims and volumes in use, and then ends their use.
func protects(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newStorageWorld()
	w.addClaim("used", "1Gi")
	w.addClaim("idle", "1Gi")
	w.addVolume("bound", "1Gi", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound })
	w.addVolume("free", "1Gi", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable })
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "user"}, Spec: corev1.PodSpec{NodeName: "node", Volumes: []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "used"}}}}}}
	put(w.pods, user)
	w.claims.check = func(_, new *corev1.PersistentVolumeClaim) {
		if w.pods.objects["default/user"] != nil && w.claims.objects["default/used"] == nil {
			t.Error("a claim in use is gone")
		}
	}
	w.volumes.check = func(old, new *corev1.PersistentVolume) {
		if new == nil && old.Status.Phase == corev1.VolumeBound {
			t.Errorf("the bound volume %s is gone", old.Name)
		}
	}
	protected := func(name string) func() bool {
		return func() bool { return len(w.claim(name).Finalizers) > 0 && len(w.volume("bound").Finalizers) > 0 }
	}
	await := func(ready func() bool) {
		for !ready() {
			time.Sleep(time.Second)
		}
	}
	return stage{
		api: w.api,
		run: func(l lag) *process {
			return launch(t, func(ctx context.Context) []controllers.Runner {
				pods := follow(ctx, w.pods, l)
				list := func(context.Context, string) ([]*corev1.Pod, error) { return w.pods.list(), nil }
				return []controllers.Runner{
					must[*volume.ClaimProtection](t)(volume.NewClaimProtection(volume.ClaimProtectionConfig{
						Claims: follow(ctx, w.claims, l), Pods: pods, PodsByClaim: localcache.Scan(pods, volume.ByClaim), ListPods: list, Writer: w.claims,
					})),
					must[*volume.Protection](t)(volume.NewProtection(volume.ProtectionConfig{Volumes: follow(ctx, w.volumes, l), Writer: w.volumes})),
				}
			})
		},
		steps: []func(){
			func() {
				await(protected("used")) // as the admission plugin would have seen to
				removeOutside(t, w.claims, "default", "used")
				removeOutside(t, w.volumes, "", "bound")
				removeOutside(t, w.volumes, "", "free")
			},
			func() {
				w.pods.alter(t, "default/user", func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64) })
			},
			func() {
				w.volumes.alter(t, "bound", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })
			},
		},
		wanted: func() {
			if claims := w.claims.list(); len(claims) != 1 || claims[0].Name != "idle" || !slices.Equal(claims[0].Finalizers, []string{"kubernetes.io/pvc-protection"}) {
				t.Errorf("claims %v", claims)
			}
			if volumes := w.volumes.list(); len(volumes) != 0 {
				t.Errorf("volumes %v", volumes)
			}
		},
	}
}
