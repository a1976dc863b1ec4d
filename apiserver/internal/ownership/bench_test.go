package ownership_test

import (
	"slices"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pods(t testing.TB) apiserver.Resource {
	all := kube.Resources()
	at := slices.IndexFunc(all, func(r apiserver.Resource) bool { return r.Kind == "Pod" })
	if at < 0 {
		t.Fatal("no pods")
	}
	return all[at]
}

// servicePod is a small service's pod, with defaults.
func servicePod(t testing.TB) *corev1.Pod {
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "default",
			Labels:      map[string]string{"app": "web", "tier": "front", "pod-template-hash": "5d4f8c7b9"},
			Annotations: map[string]string{"example.com/owner": "team-one"},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/team-one/web:1.27.3",
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:       []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "BACKEND", Value: "http://backend:8080"}},
				Resources: corev1.ResourceRequirements{Requests: quantities("100m", "128Mi"), Limits: quantities("500m", "256Mi")},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)},
				}},
			}},
		},
	}
	pods(t).Strategy.Default(p)
	return p
}

// update is how a tracker records a change.
type update = func(live, obj runtime.Object, manager string) error

// both runs one benchmark directly and by apimachinery alone.
func both(b *testing.B, run func(b *testing.B, update update)) {
	tr := trackerOf(b, pods(b), "")
	b.Run("way=direct", func(b *testing.B) { run(b, tr.Update) })
	b.Run("way=apimachinery", func(b *testing.B) { run(b, tr.UpdateAside) })
	if tr.Detours() > 0 {
		b.Error("not direct")
	}
}

func BenchmarkCreatePod(b *testing.B) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"nobody": nil,
		"set":    {{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: new(true), BlockOwnerDeletion: new(true)}},
	} {
		b.Run("owner="+name, func(b *testing.B) {
			both(b, func(b *testing.B, update update) {
				p := servicePod(b)
				p.OwnerReferences = owners
				empty := &corev1.Pod{TypeMeta: p.TypeMeta}
				b.ReportAllocs()
				for b.Loop() {
					p.ManagedFields = nil
					if err := update(empty, p, "kubectl"); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkUpdatePod(b *testing.B) {
	for name, edit := range map[string]func(p *corev1.Pod){
		"nothing": func(*corev1.Pod) {},
		"label":   func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"removed": func(p *corev1.Pod) { delete(p.Labels, "tier") },
		"image":   func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
	} {
		b.Run("change="+name, func(b *testing.B) {
			both(b, func(b *testing.B, update update) {
				live := servicePod(b)
				if err := update(&corev1.Pod{TypeMeta: live.TypeMeta}, live, "kubectl"); err != nil {
					b.Fatal(err)
				}
				live.UID = "u"
				p := live.DeepCopy()
				edit(p)
				b.ReportAllocs()
				for b.Loop() {
					p.ManagedFields = live.ManagedFields
					if err := update(live, p, "controller"); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkShare(b *testing.B) {
	p := servicePod(b)
	if err := trackerOf(b, pods(b), "").Create(p, "kubectl"); err != nil {
		b.Fatal(err)
	}
	shared := &ownership.Shared{}
	b.ReportAllocs()
	for b.Loop() {
		shared.Share(p)
	}
}
