package intern_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/planekit/planekit/client/intern"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is number i of a template, as it comes out of a decoder: with nothing in
// common with any other.
func pod(t testing.TB, template, i int, token bool) *corev1.Pod {
	name := fmt.Sprintf("app-%d-%d", template, i)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", GenerateName: fmt.Sprintf("app-%d-", template), UID: types.UID(name), ResourceVersion: fmt.Sprint(i),
			Labels:          map[string]string{"app": fmt.Sprintf("app-%d", template), "pod-template-hash": "5d7f9"},
			Annotations:     map[string]string{"example.com/own": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "1", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%3), ServiceAccountName: "default", Tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists"}},
			Containers: []corev1.Container{{
				Name: "c", Image: fmt.Sprintf("image-%d", template), Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", PodIP: fmt.Sprint(i), PodIPs: []corev1.PodIP{{IP: fmt.Sprint(i)}}, HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
			Conditions:        []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(time.Unix(int64(i), 0))}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, Started: new(i%2 == 0), ContainerID: name, AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("100m")}}},
		},
	}
	if token {
		volume := fmt.Sprintf("kube-api-access-%d", i)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(420))}}})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
	}
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	decoded := new(corev1.Pod)
	if err := decoded.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// TestNothingIsLost compares pods with what they were, whatever the table has
// seen before.
func TestNothingIsLost(t *testing.T) {
	table := intern.New()
	for i := range 200 {
		want, p := pod(t, i%7, i, i%3 == 0), pod(t, i%7, i, i%3 == 0)
		if table.Pod(p) != p {
			t.Fatal("another pod")
		}
		if !equality.Semantic.DeepEqual(p, want) {
			t.Fatalf("pod %d is\n%v\nand was\n%v", i, p, want)
		}
	}
}

// TestPartsAreToldApart has pods that differ in one place each.
func TestPartsAreToldApart(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"label":      func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"label keys": func(p *corev1.Pod) { p.Labels = map[string]string{"a": "bc"} },
		"label cut":  func(p *corev1.Pod) { p.Labels = map[string]string{"ab": "c"} },
		"owner":      func(p *corev1.Pod) { p.OwnerReferences[0].UID = "2" },
		"node":       func(p *corev1.Pod) { p.Spec.NodeName = "other" },
		"account":    func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" },
		"toleration": func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "b" },
		"env":        func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "other" },
		"mount":      func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].ReadOnly = true },
		"init":       func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers },
		"ephemeral": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "c"}}
		},
		"volume":     func(p *corev1.Pod) { p.Spec.Volumes[0].ConfigMap.Name = "other" },
		"fields":     func(p *corev1.Pod) { p.ManagedFields[0].FieldsV1.SetRawString(`{}`) },
		"started":    func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = new(false) },
		"phase":      func(p *corev1.Pod) { p.Status.Phase = "Failed" },
		"annotation": func(p *corev1.Pod) { p.Annotations["example.com/own"] = "other" },
	} {
		table := intern.New()
		table.Pod(pod(t, 1, 0, false))
		p, want := pod(t, 1, 0, false), pod(t, 1, 0, false)
		change(p)
		change(want)
		if table.Pod(p); !equality.Semantic.DeepEqual(p, want) {
			t.Errorf("%s: the pod is\n%v\nand was\n%v", name, p, want)
		}
	}
}

func TestSharing(t *testing.T) {
	table := intern.New()
	for _, token := range []bool{false, true} {
		a, b := table.Pod(pod(t, 1, 1, token)), table.Pod(pod(t, 1, 4, token))
		same := func(what string, x, y *byte) {
			t.Helper()
			if x != y {
				t.Errorf("token volume %v: %s is not shared", token, what)
			}
		}
		same("the node", unsafe.StringData(a.Spec.NodeName), unsafe.StringData(b.Spec.NodeName))
		same("the namespace", unsafe.StringData(a.Namespace), unsafe.StringData(b.Namespace))
		same("a label", unsafe.StringData(a.Labels["app"]), unsafe.StringData(b.Labels["app"]))
		same("a toleration", unsafe.StringData(a.Spec.Tolerations[0].Key), unsafe.StringData(b.Spec.Tolerations[0].Key))
		same("the environment", unsafe.StringData(a.Spec.Containers[0].Env[0].Value), unsafe.StringData(b.Spec.Containers[0].Env[0].Value))
		same("a volume's source", unsafe.StringData(a.Spec.Volumes[0].ConfigMap.Name), unsafe.StringData(b.Spec.Volumes[0].ConfigMap.Name))
		if !token && &a.Spec.Containers[0] != &b.Spec.Containers[0] {
			t.Error("the containers are not shared")
		}
	}
}

// TestHeap weighs pods of a few templates with and without sharing.
func TestHeap(t *testing.T) {
	weigh := func(transform func(*corev1.Pod) *corev1.Pod) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		pods := make([]*corev1.Pod, 4000)
		for i := range pods {
			pods[i] = transform(pod(t, i%10, i, true))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(pods)
		return after.HeapAlloc - before.HeapAlloc
	}
	own := weigh(func(p *corev1.Pod) *corev1.Pod { return p })
	shared := weigh(intern.New().Pod)
	if t.Logf("%d bytes a pod, shared %d", own/4000, shared/4000); float64(shared) > 0.7*float64(own) {
		t.Errorf("%d bytes shared of %d", shared, own)
	}
}

// TestBounded has the table see more than it holds.
func TestBounded(t *testing.T) {
	table := intern.New()
	var before, after runtime.MemStats
	fill := func() {
		for i := range 3 * intern.Size {
			m := metav1.ObjectMeta{Labels: map[string]string{"unique": fmt.Sprint(i)}}
			table.Meta(&m)
			if m.Labels["unique"] != fmt.Sprint(i) {
				t.Fatal("another's labels")
			}
		}
		runtime.GC()
	}
	fill()
	runtime.ReadMemStats(&before)
	for range 3 {
		fill()
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(table)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(before.HeapAlloc)/5 {
		t.Errorf("grew by %d bytes from %d", grown, before.HeapAlloc)
	}
}

func BenchmarkPod(b *testing.B) {
	table := intern.New()
	pods := make([]*corev1.Pod, 10_000)
	for i := range pods {
		pods[i] = pod(b, i%100, i, true)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		table.Pod(pods[i%len(pods)])
		i++
	}
}

func Example() {
	table := intern.New()
	config := informer.Config[*corev1.Pod]{Transform: table.Pod}
	first := config.Transform(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}})
	second := config.Transform(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}})
	fmt.Println(unsafe.StringData(first.Labels["app"]) == unsafe.StringData(second.Labels["app"]))
	// Output: true
}
