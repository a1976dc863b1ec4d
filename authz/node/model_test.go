package node_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is all objects there are; related looks at every one of them, each time.
type world struct {
	pods        map[string]*corev1.Pod
	volumes     map[string]*corev1.PersistentVolume
	attachments map[string]*storagev1.VolumeAttachment
}

func (w *world) related(node, resource, namespace, name string) bool {
	claimed := func(pod *corev1.Pod, claim string) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
	}
	if a := w.attachments[name]; resource == "volumeattachments" {
		return a != nil && a.Spec.NodeName == node
	}
	for _, pod := range w.pods {
		if pod.Spec.NodeName != node {
			continue
		}
		mirror := pod.Annotations[corev1.MirrorPodAnnotationKey] != ""
		here := pod.Namespace == namespace
		switch {
		case resource == "pods" && here && pod.Name == name:
			return true
		case mirror:
			continue
		case resource == "persistentvolumeclaims" && here && claimed(pod, name):
			return true
		case resource == "secrets" && here && slices.Contains(pod.Spec.ImagePullSecrets, local(name)):
			return true
		}
		for _, v := range w.volumes {
			if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Namespace != pod.Namespace || !claimed(pod, v.Spec.ClaimRef.Name) {
				continue
			}
			secret := v.Spec.CSI.NodePublishSecretRef
			if resource == "persistentvolumes" && v.Name == name || resource == "secrets" && secret.Namespace == namespace && secret.Name == name {
				return true
			}
		}
	}
	return false
}

// TestModel makes random changes and compares every decision with the model.
func TestModel(t *testing.T) {
	for _, seed := range []uint64{1, 2, uint64(time.Now().UnixNano())} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	w := &world{map[string]*corev1.Pod{}, map[string]*corev1.PersistentVolume{}, map[string]*storagev1.VolumeAttachment{}}
	c := start(t, nil)
	pod := func(namespace, name string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.NodeName = pick("", "n1", "n1", "n2")
		if rnd.IntN(6) == 0 {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}
		for range rnd.IntN(3) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, local(pick("s", "t")))
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick("c", "d")}}})
		}
		return p
	}
	volume := func(name string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: &corev1.SecretReference{Namespace: pick("x", "y"), Name: pick("s", "t")}}
		if rnd.IntN(4) > 0 {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: pick("x", "y"), Name: pick("c", "d")}
		}
		return v
	}
	for step := range 3000 {
		gone := rnd.IntN(3) == 0
		switch rnd.IntN(5) {
		case 0, 1:
			namespace, name := pick("x", "y"), pick("1", "2", "3")
			change(c.pods, w.pods, namespace+"/"+name, gone, pod(namespace, name))
		case 2, 3:
			name := pick("v1", "v2", "v3")
			change(c.volumes, w.volumes, name, gone, volume(name))
		case 4:
			name := pick("a", "b")
			change(c.attachments, w.attachments, name, gone, &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: pick("", "n1", "n2")}})
		}
		for _, node := range []string{"n1", "n2"} {
			for _, what := range strings.Fields("/pods:x/1 /pods:y/2 /persistentvolumeclaims:x/c /persistentvolumeclaims:y/d /secrets:x/s /secrets:x/t " +
				"/secrets:y/s /persistentvolumes:/v1 /persistentvolumes:/v2 storage.k8s.io/volumeattachments:/a storage.k8s.io/volumeattachments:/b") {
				resource, name, _ := strings.Cut(what, ":")
				_, plural, _ := strings.Cut(resource, "/")
				namespace, base, _ := strings.Cut(name, "/")
				d, _ := c.ask(t, kubelet(node), "get "+resource+" "+name)
				if want := w.related(node, plural, namespace, base); want != (d == authz.Allow) {
					t.Fatalf("seed %d, step %d: %s and %s: want %v, got %v", seed, step, node, what, want, d)
				}
			}
		}
	}
	// Nothing may be left of what is gone.
	for key, p := range maps.Clone(w.pods) {
		change(c.pods, w.pods, key, true, p)
	}
	for key, v := range maps.Clone(w.volumes) {
		change(c.volumes, w.volumes, key, true, v)
	}
	for key, a := range maps.Clone(w.attachments) {
		change(c.attachments, w.attachments, key, true, a)
	}
	if n := c.Size(); n != 0 {
		t.Errorf("seed %d: %d objects are left in the index", seed, n)
	}
}

// change puts or removes an object in the model and in the cache.
func change[T localcache.Object](f *feed[T], objects map[string]T, key string, gone bool, object T) {
	if gone {
		delete(objects, key)
		f.Delete(key)
		return
	}
	objects[key] = object
	f.Put(object)
}

// TestConcurrent decides while pods come and go; one that stays is never lost.
func TestConcurrent(t *testing.T) {
	c := start(t, nil)
	stays := everything()
	c.pods.Put(stays)
	var work sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if d, reason := c.ask(t, kubelet("n1"), "get /secrets shop/pull"); d != authz.Allow {
					t.Errorf(`ask(n1, "get /secrets shop/pull") = %v, %q, want %v`, d, reason, authz.Allow)
					return
				}
			}
		})
	}
	for i := range 2000 {
		p := everything()
		p.Name = fmt.Sprint("p", i%7)
		c.pods.Put(p)
		changed := stays.DeepCopy()
		changed.Spec.EphemeralContainers = append(changed.Spec.EphemeralContainers[:1:1], corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local(fmt.Sprint("s", i))}}}}})
		c.pods.Put(changed)
		stays = changed
		c.pods.Delete(localcache.KeyOf(p))
	}
	close(stop)
	work.Wait()
}

// BenchmarkAuthorize asks for a secret of one of many pods and for the config map
// that all of them have.
func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		c := start(b, nil)
		for i := range n {
			p := everything()
			p.Name, p.Spec.NodeName = fmt.Sprint("p", i), fmt.Sprint("n", i/50)
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local(fmt.Sprint("pull", i))}
			p.Spec.Volumes = p.Spec.Volumes[:2]
			p.Spec.InitContainers, p.Spec.Containers, p.Spec.EphemeralContainers = nil, nil, nil
			c.pods.Put(p)
		}
		for what, at := range map[string]authz.Attributes{
			"own":    {Verb: "get", Resource: "secrets", Namespace: "shop", Name: fmt.Sprint("pull", n-1)},
			"shared": {Verb: "get", Resource: "configmaps", Namespace: "shop", Name: "volume"},
		} {
			at.User = kubelet(fmt.Sprint("n", (n-1)/50))
			b.Run(fmt.Sprintf("pods=%d/%s", n, what), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if d, _, _ := c.Authorize(b.Context(), at); d != authz.Allow {
						b.Fatal(d)
					}
				}
			})
		}
	}
}

// TestAllocations: allowing costs no memory.
func TestAllocations(t *testing.T) {
	c := start(t, nil)
	c.pods.Put(everything())
	at := authz.Attributes{User: kubelet("n1"), Verb: "get", Resource: "secrets", Namespace: "shop", Name: "pull"}
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if d, _, _ := c.Authorize(ctx, at); d != authz.Allow {
			t.Fatal(d)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
